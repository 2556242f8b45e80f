"""A scope counts once it was read to its end: until then nothing of it is applied, and if it fails nothing ever is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ontology.facts import string
from sources.record import Batch, Moved, ReadError, Record, SourceError
from sparql.sync.entries import Claim, duplicate, refusal, results
from sparql.sync.fingerprint import combined, fingerprints
from sparql.sync.judge import Judge, Verdict
from sparql.sync.known import Graph, Known, Seen, accepted_claim, known, refused_claims, scope_row
from sparql.sync.plan import Plan
from sparql.sync.spool import Spool

Emit = Callable[[dict[str, Any]], None]
SAMPLE = 20  # violations in a report
APART = "\f"  # between the statements of a record and what is reported of it: spelled text never holds one


class Found(NamedTuple):
    """One changed claim: what was read, where its statements wait, and whether it was accepted."""

    key: str
    claim: Claim
    accepted: bool
    ticket: int


@dataclass
class Read:
    """What a read of one source found, scope by scope; nothing of it is in the graph yet."""

    plan: Plan
    spool: Spool
    began: float = field(default_factory=time.monotonic)
    records: int = 0
    found: dict[str, dict[str, Found]] = field(default_factory=dict)
    """Changed claims: record graph -> scope -> found."""
    touched: dict[str, tuple[str, str, Claim]] = field(default_factory=dict)
    """Record graph -> (key, hash, claim) where only the place changed."""
    vanished: dict[str, dict[str, str]] = field(default_factory=dict)
    """Record graph -> scope -> key, of claims that are no more."""
    scopes: dict[str, Batch] = field(default_factory=dict)
    """Scopes read to their end, and the batch that says their cursor."""
    counts: dict[str, int] = field(default_factory=dict)
    """How many records each of them had."""
    held: dict[str, str] = field(default_factory=dict)
    """Scopes that could not be read, and why."""
    again: list[str] = field(default_factory=list)
    message: str = ""
    fused: bool = False
    passing: set[str] = field(default_factory=set)
    """Notes that are about this read only."""
    notes: list[str] = field(default_factory=list)
    cursor: str | None = None
    sample: list[dict[str, Any]] = field(default_factory=list)


class Reader:
    """Reads the batches of one plan against what the store knows."""

    def __init__(self, store: Graph, plan: Plan, spool: Spool, emit: Emit | None, *, empty: bool = False) -> None:
        self.store, self.plan, self.names, self.emit = store, plan, store.names, emit
        self.read = Read(plan, spool)
        self.judge = Judge(plan, store.names)
        self._hash = fingerprints(plan.version)
        self._empty = empty
        self._said = time.monotonic()

    def all(self, batches: Iterable[Batch]) -> Read:
        """Read every batch. A scope that fails is held; a source that fails keeps the scopes read before."""
        try:
            for batch in batches:
                self.batch(batch)
        except Moved as moved:
            self.read.passing.add(str(moved))
            self.read.notes.append(str(moved))
        except SourceError as wrong:
            self.read.message = str(wrong)
        self.read.notes.extend(sorted(self.judge.notes))
        return self.read

    def batch(self, batch: Batch) -> None:
        """Read one batch to its end, or hold its scope."""
        scope, read = batch.scope, self.read
        row = None if self._empty else scope_row(self.store, self.plan.source, scope)
        same_plan = row is not None and row.plan == self.plan.version
        if (row is not None and same_plan and row.held is None and batch.complete
                and batch.cursor is not None and batch.cursor == row.cursor and scope not in read.scopes):  # fmt: skip
            read.scopes[scope] = batch
            return
        part = _Part(self, batch, None if self._empty else row)
        try:
            part.run()
        except Moved as moved:
            read.again.append(scope)
            read.passing.add(str(moved))
            read.notes.append(str(moved))
        except ReadError as wrong:
            read.held[scope] = str(wrong)
        else:
            part.keep()
            read.scopes[scope] = batch
            read.held.pop(scope, None)
            if scope in read.again:
                read.again.remove(scope)
            read.cursor = batch.cursor if batch.cursor is not None else read.cursor
            read.notes.extend(note for note in batch.notes if note not in read.notes)

    def tell(self, force: bool = False) -> None:
        now = time.monotonic()
        if self.emit is not None and (force or now - self._said > 0.25):
            self._said = now
            self.emit({"source": self.plan.source, "phase": "read", "records": self.read.records})


class _Part:
    """One batch while it is read."""

    def __init__(self, reader: Reader, batch: Batch, row: Any) -> None:
        self.reader, self.batch, self.store = reader, batch, reader.store
        self.scope = reader.names.scope(reader.plan.source, batch.scope)
        self.whole = batch.complete
        self.known: Known | None
        if row is None and self.whole:
            self.known = Known({}, {})
        else:
            self.known = known(self.store, self.scope) if self.whole else None
        self.count = 0
        self.seen: dict[str, None] = {}
        self.found: dict[str, Found] = {}
        self.same: dict[str, tuple[str, str, Claim]] = {}
        self.twice: dict[str, list[tuple[str, str]]] = {}
        self.keys: dict[str, str] = {}

    def before(self, graph: str) -> Seen | None:
        if self.known is not None:
            return self.known.now(graph)
        refused = [one for one in refused_claims(self.store, graph).values() if one.scope == self.scope]
        if refused:
            return refused[0]
        accepted = accepted_claim(self.store, graph)
        return accepted if accepted is not None and accepted.scope == self.scope else None

    def run(self) -> None:
        changed = self._changed()
        waiting: list[tuple[str, Record, str]] = []

        def records() -> Iterator[tuple[str, Record]]:
            for graph, record, digest in changed:
                waiting.append((graph, record, digest))
                yield graph, record

        at = 0
        for verdict in self.reader.judge.verdicts(records()):
            graph, record, digest = waiting[at]
            at += 1
            if at > 2000:
                del waiting[:at]
                at = 0
            self._take(graph, record, digest, verdict)

    def _changed(self) -> Iterator[tuple[str, Record, str]]:
        """Records whose hash is new, each met for the first time in this read."""
        source, scope, name = self.reader.plan.source, self.batch.scope, self.reader.names.record
        seen, digest_of, tell = self.seen, self.reader._hash, self.reader.tell
        for record in self.batch.records:
            self.count += 1
            graph = name(source, record.key)
            digest = digest_of(record)
            if graph in seen:
                self._again(graph, record, digest)
                continue
            seen[graph] = None
            before = None if self.known is not None and not self.known.accepted and not self.known.refused \
                else self.before(graph)  # fmt: skip
            if before is not None and before.hash == digest:
                claim = Claim(scope, digest, (record.locator,))
                self.same[graph] = (record.key, digest, claim)
                continue
            if self.count % 256 == 0:
                self.reader.read.records += 256
                tell()
                self.reader.read.records -= 256
            yield graph, record, digest

    def _again(self, graph: str, record: Record, digest: str) -> None:
        places = self.twice.setdefault(graph, [])
        self.keys[graph] = record.key
        places.append((digest, record.locator))

    def _take(self, graph: str, record: Record, digest: str, verdict: Verdict) -> None:
        names, source, spool = self.reader.names, self.reader.plan.source, self.reader.read.spool
        claim = Claim(self.batch.scope, digest, (record.locator,))
        if verdict.accepted:
            text = "\n".join(verdict.statements)
            if verdict.found:
                text += APART + "\n".join(results(names, graph, verdict.found))
        else:
            text = "\n".join(refusal(names, source, record.key, claim, verdict.found))
        self.found[graph] = Found(record.key, claim, verdict.accepted, spool.put(text))
        sample = self.reader.read.sample
        if verdict.found and len(sample) < SAMPLE:
            sample.extend(one.to_dict() for one in verdict.found[: SAMPLE - len(sample)])

    def keep(self) -> None:
        """The scope was read to its end: what was found counts."""
        read, scope = self.reader.read, self.batch.scope
        read.records += self.count
        read.counts[scope] = self.count
        self._settle_twice()
        for graph, found in self.found.items():
            read.found.setdefault(graph, {})[scope] = found
            _discard(read.vanished, graph, scope)
            read.touched.pop(graph, None)
        for graph, (key, digest, claim) in self.same.items():
            before = self.before(graph)
            _discard(read.vanished, graph, scope)
            _discard(read.found, graph, scope)
            if before is None or before.locators != _spelled(claim.locators):
                read.touched[graph] = (key, digest, claim)
        for graph, key in self._gone():
            read.vanished.setdefault(graph, {})[scope] = key
            _discard(read.found, graph, scope)
            read.touched.pop(graph, None)

    def _gone(self) -> Iterator[tuple[str, str]]:
        names, source = self.reader.names, self.reader.plan.source
        for key in self.batch.gone:
            graph = names.record(source, key)
            if graph not in self.seen:
                yield graph, key
        if self.whole and self.known is not None:
            for graphs in self.known:
                for graph in graphs:
                    if graph not in self.seen:
                        yield graph, _key(names, graph)
            # An earlier batch of this call may have brought what this whole read no longer has.
            for graph, by_scope in list(self.reader.read.found.items()):
                if self.batch.scope in by_scope and graph not in self.seen:
                    yield graph, by_scope[self.batch.scope].key

    def _settle_twice(self) -> None:
        names, source, read = self.reader.names, self.reader.plan.source, self.reader.read
        for graph, places in self.twice.items():
            first = self.found.pop(graph, None)
            claim = first.claim if first else self.same.pop(graph)[2]
            if first:
                read.spool.drop(first.ticket)
            self.same.pop(graph, None)
            both = Claim(self.batch.scope, combined([claim.hash, *(digest for digest, _ in places)]),
                         tuple(sorted({*claim.locators, *(place for _, place in places)})))  # fmt: skip
            key = self.keys[graph]
            why = duplicate(graph, key, [both])
            text = "\n".join(refusal(names, source, key, both, [why]))
            before = self.before(graph)
            if before is not None and before.hash == both.hash and before.locators == _spelled(both.locators):
                continue
            self.found[graph] = Found(key, both, False, read.spool.put(text))
            if len(read.sample) < SAMPLE:
                read.sample.append(why.to_dict())


def _key(names: Any, graph: str) -> str:
    found = names.parse(graph)
    return found[1] if found else ""


def _spelled(locators: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(string(one) for one in locators))


def _discard(table: dict[str, dict[str, Any]], graph: str, scope: str) -> None:
    inner = table.get(graph)
    if inner is not None and scope in inner:
        del inner[scope]
        if not inner:
            del table[graph]
