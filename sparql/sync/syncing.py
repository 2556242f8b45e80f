"""The graph is made to say what the records say, in commits each of which is whole."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence, Set
from datetime import UTC, datetime
from typing import Any

from pyoxigraph import NamedNode

from ontology.facts import GT
from sources.record import Batch
from sparql.sync.consequences import Consequences, Wide
from sparql.sync.entries import CURSOR, GENERATED, PLAN, activity, scope_entry, source_entry
from sparql.sync.known import Graph, plain, spelled
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.reading import Emit, Read, Reader
from sparql.sync.spool import Spool
from sparql.sync.standing import standing, standing_after
from sparql.sync.steps import Tally, order, retracted, take
from sparql.sync.weave import Weave
from transforms.rules import Rule

CHUNK = 50_000  # statements in one commit
RETRACTED = 1_000_000  # the same where records only go: a deletion half done could not be told from a fuse's business
_GENERATED = NamedNode(GENERATED[1:-1])


def sync(
    store: Graph,
    plan: Plan,
    batches: Iterable[Batch],
    *,
    rules: Iterable[Rule] = (),
    wide: Wide | None = None,
    events_deleted: Set[str] = frozenset(),
    allow_deletes: bool = False,
    emit: Emit | None = None,
) -> SyncReport:
    """Make the graph say what these batches of one source say; see `sync_many`."""
    return sync_many(store, [(plan, batches)], rules=rules, wide=wide, events_deleted={plan.source: events_deleted},
                     allow_deletes=allow_deletes, emit=emit)[0]  # fmt: skip


def sync_many(
    store: Graph,
    pairs: Iterable[tuple[Plan, Iterable[Batch]]],
    *,
    rules: Iterable[Rule] = (),
    wide: Wide | None = None,
    events_deleted: dict[str, Set[str]] | None = None,
    allow_deletes: bool | Set[str] = False,
    emit: Emit | None = None,
) -> list[SyncReport]:
    """Make the graph say what these batches say; a report for each plan, in order.

    Everything is read to its end before anything is committed: in one commit while that is up to `CHUNK` statements,
    else record by record in several, additions first and cursors last. A scope or source that cannot be read is held
    and says so in its report; nothing is raised for it. `wide` defaults to the shapes of the plans. When nothing
    changed nothing is written.
    """
    pairs = list(pairs)
    consequences = Consequences(store, rules, wide if wide is not None else wide_of(plan for plan, _ in pairs))
    with Spool() as spool:
        reads = []
        for plan, batches in pairs:
            reader = Reader(store, plan, spool, emit)
            read = reader.all(batches)
            exempt = (events_deleted or {}).get(plan.source, frozenset())
            allowed = allow_deletes if isinstance(allow_deletes, bool) else plan.source in allow_deletes
            if not allowed:
                _fuse(store, read, exempt)
            reads.append(read)
        return Applying(store, reads, consequences, emit).run()


def wide_of(plans: Iterable[Plan]) -> Wide | None:
    """The shapes of the first plan that has some which check the whole graph."""
    for plan in plans:
        if hasattr(plan.shapes, "wide_touched"):
            return plan.shapes  # type: ignore[return-value]
    return None


def _fuse(store: Graph, read: Read, exempt: Set[str]) -> None:
    """A read that would take away too much is not applied, and says how to allow it."""
    plan = read.plan
    if len(read.vanished) <= plan.fuse_count:
        return
    going, there = retracted(store, read, set(exempt)), records_of(store, plan.source)
    if going > plan.fuse_count and going > plan.fuse_share * there:
        scopes = sorted({scope for found in read.vanished.values() for scope in found})
        read.found.clear()
        read.touched.clear()
        read.vanished.clear()
        read.scopes.clear()
        read.fused = True
        read.message = (
            f"{plan.source}: this read would remove {going} of {there} records, more than {plan.fuse_share:.0%} and "
            f"more than {plan.fuse_count}. Nothing of it was applied. If that is right: "
            f"graphtide sync {plan.source} --allow-deletes"
        )
        read.held = dict.fromkeys(scopes, read.message)


class Applying:
    """Puts what was read into the store."""

    def __init__(self, store: Graph, reads: Sequence[Read], consequences: Consequences, emit: Emit | None) -> None:
        self.store, self.reads, self.consequences, self.emit = store, reads, consequences, emit
        self.totals = {read.plan.source: Tally() for read in reads}
        self.commits: dict[str, int] = {}

    def run(self) -> list[SyncReport]:
        """Commit chunk by chunk; the reports of all plans."""
        start = _now()
        weave, parts = self._new(), self._tallies()
        if self.consequences.stale():
            # A commit of its own: what is found of nodes that go in the next one is found in the graph by then.
            self.consequences.renew(weave, self._commit())
            self._write(weave, parts, start, last=False)
            weave, parts = self._new(), self._tallies()
        for read in self.reads:
            weave.least = read.plan.holds_confidence
            for graph in order(read):
                take(self.store, read, graph, weave, parts[read.plan.source], self._commit())
                if weave.size >= (CHUNK if graph in read.found or graph in read.touched else RETRACTED) // 3:
                    # The default graph's statements, journal and consequences come on top.
                    self._write(weave, parts, start, last=False)
                    weave, parts, start = self._new(), self._tallies(), _now()
                    weave.least = read.plan.holds_confidence
        self._write(weave, parts, start, last=True)
        return [self._report(read) for read in self.reads]

    def _new(self) -> Weave:
        return Weave(self.store)

    def _tallies(self) -> dict[str, Tally]:
        return {read.plan.source: Tally() for read in self.reads}

    def _commit(self) -> str:
        return self.store.names.commit(self.store.head + 1)

    def _write(self, weave: Weave, parts: dict[str, Tally], start: str, *, last: bool) -> None:
        for source, part in parts.items():
            total = self.totals[source]
            for name in ("changed", "gone", "added", "removed", "records", "graphs"):
                setattr(total, name, getattr(total, name) + getattr(part, name))
            total.again |= part.again
        commit = self._commit()
        self.consequences.follow(weave, commit)
        for read in self.reads:
            self._cursors(read, weave, parts[read.plan.source], last=last)
        if not weave.size:
            self.consequences.settle()
            return
        sources = [read.plan.source for read in self.reads if self._concerns(read, parts, last)]
        self._provenance(weave, parts, start, sources)
        told = [read for read in self.reads if read.plan.source in sources]
        report = [self._part(read, parts[read.plan.source], weave, last) for read in told]
        try:
            entry = self.store.commit(weave.change(), report)
        finally:
            self.consequences.settle()
        for source in sources:
            self.commits[source] = entry.id
        if self.emit is not None:
            self.emit({"phase": "commit", "commit": entry.id, "sources": sources, "statements": weave.size})

    def _concerns(self, read: Read, parts: dict[str, Tally], last: bool) -> bool:
        return last or parts[read.plan.source].graphs > 0

    def _cursors(self, read: Read, weave: Weave, part: Tally, *, last: bool) -> None:
        """The cursor graph says how far each scope was read, what is held and why; all of it in the last commit."""
        store, names, source, version = self.store, self.store.names, read.plan.source, read.plan.version
        graph = names.cursor
        if last:
            again = self.totals[source].again
            for scope, batch in read.scopes.items():
                before = spelled(store, names.scope(source, scope), graph)
                gone = batch.complete and batch.cursor is None and not read.counts.get(scope)
                cursor = batch.cursor if scope not in again else None
                if not batch.complete:
                    cursor = batch.cursor if batch.cursor is not None else _one(before, CURSOR)
                after = set() if gone else scope_entry(names, source, scope, cursor=cursor, plan=version)
                weave.system(graph, before, after)
            for scope, message in read.held.items():
                before = spelled(store, names.scope(source, scope), graph)
                plan = _one(before, PLAN) or ""
                weave.system(graph, before, scope_entry(names, source, scope, cursor=_one(before, CURSOR), plan=plan,
                                                        held=message))  # fmt: skip
            for scope in again - set(read.scopes):
                before = spelled(store, names.scope(source, scope), graph)
                weave.system(graph, before, {line for line in before if f" {CURSOR} " not in line})
        before = spelled(store, names.source(source), graph)
        records = records_of(store, source) + part.records
        if last:
            notes = [note for note in read.notes if note not in read.passing]
            kept = (
                []
                if read.fused
                else [note for note in _notes(before, version) if not any(map(note.startswith, read.scopes))]
            )
            after = source_entry(names, source, records=records, plan=version, held="" if read.fused else read.message,
                                 notes=sorted({*kept, *notes}))  # fmt: skip
        elif part.records:
            after = {line for line in before if f" <{GT}records> " not in line}
            after |= {line for line in source_entry(names, source, records=records, plan="", held="", notes=())
                      if f" <{GT}records> " in line or f" <{GT}source> " in line}  # fmt: skip
        else:
            after = before
        weave.system(graph, before, after)

    def _provenance(self, weave: Weave, parts: dict[str, Tally], start: str, sources: list[str]) -> None:
        """The commit is an activity; the activity of a commit that no record graph comes from any more is dropped."""
        store, names = self.store, self.store.names
        counts = {name: sum(getattr(part, name) for part in parts.values()) for name in ("added", "removed", "changed")}
        removed, added = weave.pending(names.journal)
        marker = f" {GENERATED} "
        left = {line.rsplit(" ", 1)[1][1:-1] for line in removed if marker in line}
        left.add(names.commit(store.head))
        gone = {line for line in removed if marker in line}
        kept = {line.rsplit(" ", 1)[1][1:-1] for line in added if marker in line}
        for commit in left - kept:
            used = store.match(None, _GENERATED, NamedNode(commit), NamedNode(names.journal))
            if all(f"{quad.subject} {quad.predicate} {quad.object}" in gone for quad in used):
                weave.system(names.journal, spelled(store, commit, names.journal), set())
        weave.system(names.journal, set(), activity(names, store.head + 1, start, _now(), sources, counts))

    def _part(self, read: Read, part: Tally, weave: Weave, last: bool) -> dict[str, Any]:
        source = read.plan.source
        rejected, held = standing_after(self.store, read, weave, records_of(self.store, source) + part.records)
        report = SyncReport(source, read.records if last else 0, part.changed, part.gone, part.added, part.removed,
                            rejected, held, cursor=read.cursor if last else None, commit=self.store.head + 1,
                            seconds=round(time.monotonic() - read.began, 6), message=read.message if last else "",
                            notes=tuple(read.notes) if last else (), violations=tuple(read.sample) if last else (),
                            held_scopes=dict(read.held) if last else {})  # fmt: skip
        return report.to_dict()

    def _report(self, read: Read) -> SyncReport:
        source, total = read.plan.source, self.totals[read.plan.source]
        rejected, held = standing(self.store, source)
        return SyncReport(
            source, read.records, total.changed, total.gone, total.added, total.removed, rejected, held, read.cursor,
            self.commits.get(source, self.store.head), round(time.monotonic() - read.began, 6), read.message,
            tuple(read.notes), tuple(read.sample), tuple(sorted({*read.again, *total.again})), dict(read.held),
        )  # fmt: skip


def records_of(store: Graph, source: str) -> int:
    """How many records of the source are accepted, as the cursor graph has it."""
    names = store.names
    found = store.match(NamedNode(names.source(source)), NamedNode(GT + "records"), None, NamedNode(names.cursor))
    return next((int(quad.object.value) for quad in found), 0)


def _one(lines: Iterable[str], predicate: str) -> str | None:
    for line in lines:
        if f" {predicate} " in line:
            return plain(line.split(" ", 2)[2])
    return None


def _notes(before: Iterable[str], version: str) -> Iterator[str]:
    """Notes of the source that still count: those made under the same plan."""
    lines = list(before)
    if _one(lines, PLAN) == version:
        for line in lines:
            if f" <{GT}note> " in line:
                yield plain(line.split(" ", 2)[2])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
