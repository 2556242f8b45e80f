"""The first load says the same as any later sync would, as text streamed into an empty store."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from ontology.speakers import Speakers
from sources.record import Batch
from sparql.sync.consequences import Consequences, Wide
from sparql.sync.entries import activity, duplicate, journal_entry, refusal, scope_entry, source_entry
from sparql.sync.evidence import holding
from sparql.sync.known import Graph
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.reading import APART, SAMPLE, Emit, Found, Read, Reader
from sparql.sync.spool import Spool
from sparql.sync.standing import standing
from sparql.sync.steps import Tally
from sparql.sync.syncing import Applying, _now, wide_of
from transforms.rules import Rule

PIECE = 1 << 20  # bytes handed to the store at a time


def build(
    store: Graph,
    pairs: Iterable[tuple[Plan, Iterable[Batch]]],
    *,
    rules: Iterable[Rule] = (),
    wide: Wide | None = None,
    emit: Emit | None = None,
) -> list[SyncReport]:
    """An empty store says what these batches say, quad for quad as `sync_many` would have it; a report for each plan.

    Records and journal are loaded in bulk, all or nothing; what rules and wide shapes make of them is the commit after.
    Raises what the store raises (StoreError when it is not empty).
    """
    pairs = list(pairs)
    consequences = Consequences(store, rules, wide if wide is not None else wide_of(plan for plan, _ in pairs))
    speakers = consequences.speakers = Speakers()
    with Spool() as spool:
        reads = [Reader(store, plan, spool, emit, empty=True).all(batches) for plan, batches in pairs]
        tallies = {read.plan.source: Tally() for read in reads}
        report: list[dict[str, Any]] = []
        watched = speakers if consequences.wide is not None else None
        entry = store.build(_quads(store, reads, tallies, report, _now(), watched), report)
    if consequences.stale():
        Applying(store, [], consequences, emit).run()
    out = []
    for read in reads:
        tally = tallies[read.plan.source]
        rejected, held = standing(store, read.plan.source)
        out.append(_report(read, tally, entry.id, rejected, held))
    return out


def _report(read: Read, tally: Tally, commit: int, rejected: int, held: int) -> SyncReport:
    return SyncReport(
        read.plan.source, read.records, tally.changed, 0, tally.added, 0, rejected, held, read.cursor, commit,
        round(time.monotonic() - read.began, 6), read.message, tuple(read.notes), tuple(read.sample),
        tuple(sorted(read.again)), dict(read.held),
    )  # fmt: skip


def _quads(
    store: Graph,
    reads: list[Read],
    tallies: dict[str, Tally],
    report: list[dict[str, Any]],
    start: str,
    speakers: Speakers | None,
) -> Iterator[bytes]:
    """All quads of the first commit; fills `tallies` and `report` before it ends."""
    names = store.names
    commit = store.head + 1
    made = names.commit(commit)
    for read in reads:
        piece: list[str] = []
        size, tally, source = 0, tallies[read.plan.source], read.plan.source
        rejected = 0
        for graph, claims in read.found.items():
            if len(claims) > 1:
                both = [found.claim for found in claims.values()]
                why = duplicate(graph, next(iter(claims.values())).key, both)
                for found in claims.values():
                    lines = refusal(names, source, found.key, found.claim, [why])
                    piece.append(_in("\n".join(lines), names.quarantine))
                rejected += 1
                if len(read.sample) < SAMPLE:
                    read.sample.append(why.to_dict())
                continue
            found = next(iter(claims.values()))
            text = read.spool.get(found.ticket)
            if not found.accepted:
                piece.append(_in(text, names.quarantine))
                rejected += 1
                continue
            made_of = _record(store, read, graph, found, text, made)
            if speakers is not None:
                speakers.saw(filter(None, text.partition(APART)[0].split("\n")))
            tally.changed += 1
            tally.added += made_of[1]
            piece.append(made_of[0])
            size += len(made_of[0])
            if size > PIECE:
                yield "".join(piece).encode()
                piece, size = [], 0
        tally.records = tally.changed
        piece.append(_cursors(store, read, tally))
        yield "".join(piece).encode()
        report.append(_report(read, tally, commit, rejected, 0).to_dict())
    sources = [read.plan.source for read in reads]
    counts = {name: sum(getattr(one, name) for one in tallies.values()) for name in ("added", "removed", "changed")}
    about = activity(names, commit, start, _now(), sources, counts)
    yield _in("\n".join(about), names.journal).encode()


def _record(store: Graph, read: Read, graph: str, found: Found, text: str, made: str) -> tuple[str, int]:
    """The quads of one accepted record, and how many statements it says."""
    names = store.names
    body, _, reported = text.partition(APART)
    entry = journal_entry(names, read.plan.source, graph, found.claim, made)
    out = _in("\n".join(entry), names.journal)
    if reported:
        out += _in(reported, names.quarantine)
    if not body:
        return out, 0
    holds = body
    if "#Evidence>" in body:
        holds = "\n".join(holding(frozenset(body.split("\n")), read.plan.holds_confidence))
    out += _in(body, graph)
    if holds:
        out += holds.replace("\n", " .\n") + " .\n"
    return out, body.count("\n") + 1


def _in(lines: str, graph: str) -> str:
    """Statements, one a line, as N-Quads of one graph."""
    if not lines:
        return ""
    end = f" <{graph}> .\n"
    return lines.replace("\n", end) + end


def _cursors(store: Graph, read: Read, tally: Tally) -> str:
    names, source = store.names, read.plan.source
    lines: set[str] = set()
    for scope, batch in read.scopes.items():
        if not batch.complete or batch.cursor is not None or read.counts.get(scope):
            lines |= scope_entry(names, source, scope, cursor=batch.cursor, plan=read.plan.version)
    for scope, message in read.held.items():
        lines |= scope_entry(names, source, scope, cursor=None, plan="", held=message)
    notes = sorted(note for note in read.notes if note not in read.passing)
    lines |= source_entry(names, source, records=tally.records, plan=read.plan.version, held=read.message, notes=notes)
    return _in("\n".join(lines), names.cursor)
