"""What the graph says is computed anew, aside, and compared: incremental sync is no second way to compute it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import asdict, dataclass
from typing import Any

from pyoxigraph import NamedNode

from ontology.facts import GT, RDF, string
from sources.record import Batch
from sparql.sync.consequences import Consequences, Wide
from sparql.sync.entries import RECORDS, SOURCE, integer, journal_entry
from sparql.sync.evidence import holding
from sparql.sync.known import Graph, accepted_claim, known, scope_row, spelled
from sparql.sync.plan import Plan
from sparql.sync.reading import APART, Emit, Found, Read, Reader
from sparql.sync.spool import Spool
from sparql.sync.syncing import wide_of
from sparql.sync.weave import Weave
from transforms.rules import Rule

SAMPLE = 5  # statements of each difference that the report quotes
_SOURCE = NamedNode(SOURCE[1:-1])


@dataclass(frozen=True, slots=True)
class Difference:
    """One graph that does not say what it should. `kind`: record, default, rule, journal or quarantine."""

    kind: str
    graph: str
    missing: int
    extra: int
    sample: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a recomputation found. `behind` are scopes that changed since they were synced: no difference, but news."""

    records: int
    held: int
    behind: tuple[str, ...]
    differences: tuple[Difference, ...]
    repaired: bool
    commit: int
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.differences

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "clean": self.clean}


def verify(
    store: Graph,
    pairs: Iterable[tuple[Plan, Iterable[Batch]]],
    *,
    rules: Iterable[Rule] = (),
    wide: Wide | None = None,
    repair: bool = False,
    emit: Emit | None = None,
) -> VerifyReport:
    """Compare the graph with what the records, read again from their sources, make of it.

    `pairs` give every scope of each source whole, without cursors. Held records stand as they are, and so do sources
    that are not named. With `repair` every other difference is mended in one commit.
    """
    pairs = list(pairs)
    consequences = Consequences(store, rules, wide if wide is not None else wide_of(plan for plan, _ in pairs))
    weave = Weave(store)
    records, held = 0, 0
    behind: list[str] = []
    notes: list[str] = []
    with Spool() as spool:
        for plan, batches in pairs:
            read = Reader(store, plan, spool, emit, empty=True).all(batches)
            weave.least = plan.holds_confidence
            source = _Source(store, read, weave)
            source.compare()
            records += source.records
            held += source.held
            behind.extend(f"{plan.source}: {scope}" for scope in source.behind)
            notes.extend([read.message] if read.message else [])
    _strays(store, weave)
    for statement in () if getattr(store, "plain", False) else _doubts(store, weave.least):
        weave.doubt(statement)
    weave.settle()
    commit = store.names.commit(store.head)
    consequences.again(weave, commit)
    differences = tuple(_differences(store, weave))
    made = store.head
    try:
        if repair and differences:
            report = {"source": None, "verify": len(differences), "repaired": True}
            made = store.commit(weave.change(), [report]).id
    finally:
        consequences.settle()
    return VerifyReport(records, held, tuple(behind), differences, repair and bool(differences), made, tuple(notes))


class _Source:
    """One source's records, as they are and as they should be."""

    def __init__(self, store: Graph, read: Read, weave: Weave) -> None:
        self.store, self.read, self.weave, self.names = store, read, weave, store.names
        self.source = read.plan.source
        self.records = self.held = 0
        self.behind: set[str] = set()
        self.stands = self._unread()

    def _unread(self) -> set[str]:
        """The record graphs that scopes which could not be read claim: a claim refused there counts as one still."""
        out: set[str] = set()
        for scope in (*self.read.held, *self.read.again):
            for claims in known(self.store, self.names.scope(self.source, scope)):
                out |= set(claims)
        return out

    def compare(self) -> None:
        store, names = self.store, self.names
        found = store.match(None, _SOURCE, NamedNode(names.source(self.source)), NamedNode(names.journal))
        there = {quad.subject.value for quad in found if names.merged(quad.subject.value)}
        should = self.read.found
        count = len(there)
        for graph in sorted(there - set(should) - self.stands):
            if self.read.message:  # not read to its end: nothing is known to be gone
                self.held += 1
            elif self._in_step(accepted_scope(store, graph)):
                self.weave.replace(graph, store.statements(graph), frozenset())
                self.weave.system(names.journal, spelled(store, graph, names.journal), set())
                count -= 1
        self.held += len(self.stands & there)
        for graph, claims in should.items():
            self.records += 1
            if graph in self.stands:
                continue
            if len(claims) > 1 or not next(iter(claims.values())).accepted:
                self.held += graph in there
                continue
            count += self._accepted(graph, next(iter(claims.values())), graph in there)
        self._count(count)

    def _accepted(self, graph: str, found: Found, there: bool) -> int:
        """The record graph says what its record says; 1 when it was not known at all."""
        store, names, claim = self.store, self.names, found.claim
        seen = accepted_claim(store, graph) if there else None
        if (seen is None or seen.hash != claim.hash) and not self._in_step(names.scope(self.source, claim.scope)):
            return 0
        body = self.read.spool.get(found.ticket).partition(APART)[0]
        after = frozenset(body.split("\n")) if body else frozenset()
        before = store.statements(graph)
        if before != after:
            self.weave.replace(graph, before, after)
        if seen is None or seen.hash != claim.hash:
            was = spelled(store, graph, names.journal)
            self.weave.system(names.journal, was, journal_entry(names, self.source, graph, claim,
                                                               names.commit(store.head)))  # fmt: skip
        return 0 if there else 1

    def _in_step(self, scope: str | None) -> bool:
        """Whether the graph claims to say what this very version of the scope says; otherwise it is only behind."""
        for name, batch in self.read.scopes.items():
            if self.names.scope(self.source, name) == scope:
                row = scope_row(self.store, self.source, name)
                same = row is not None and row.plan == self.read.plan.version and row.cursor == batch.cursor
                if not same:
                    self.behind.add(name)
                return same
        return False

    def _count(self, count: int) -> None:
        me, graph = f"<{self.names.source(self.source)}> ", self.names.cursor
        before = {line for line in spelled(self.store, me[1:-2], graph) if f" {RECORDS} " in line}
        if before:
            self.weave.system(graph, before, {f"{me}{RECORDS} {integer(count)}"})


def accepted_scope(store: Graph, graph: str) -> str | None:
    """The IRI of the scope whose record a record graph is."""
    seen = accepted_claim(store, graph)
    return seen.scope if seen is not None else None


def _strays(store: Graph, weave: Weave) -> None:
    """Merged graphs that no journal entry owns say nothing."""
    names = store.names
    record = string(f"{names.base}record/")
    text = f"""SELECT DISTINCT ?g {{ GRAPH ?g {{ ?s ?p ?o }} FILTER(STRSTARTS(STR(?g), {record}))
        FILTER NOT EXISTS {{ GRAPH <{names.journal}> {{ ?g {SOURCE} ?any }} }} }}"""
    for row in store.query(text):
        graph = row["g"].value
        if graph not in weave.graphs():
            weave.replace(graph, store.statements(graph), frozenset())


def _doubts(store: Graph, least: float) -> Iterator[str]:
    """Statements that hold though no record graph says them, or do not though one does."""
    names = store.names
    record = string(f"{names.base}record/")
    alone = f"""SELECT ?s ?p ?o {{ ?s ?p ?o
        FILTER NOT EXISTS {{ GRAPH ?g {{ ?s ?p ?o }} FILTER(STRSTARTS(STR(?g), {record})) }} }}"""
    unheard = f"""SELECT DISTINCT ?s ?p ?o {{ GRAPH ?g {{ ?s ?p ?o }} FILTER(STRSTARTS(STR(?g), {record}))
        FILTER NOT EXISTS {{ ?s ?p ?o }} }}"""
    for text in (alone, unheard):
        for row in store.query(text):
            yield f"{row['s']} {row['p']} {row['o']}"
    seen: Set[str] = {
        quad.graph_name.value
        for quad in store.match(None, NamedNode(RDF + "type"), NamedNode(GT + "Evidence"), None)
        if isinstance(quad.graph_name, NamedNode)
    }
    for graph in seen:
        lines = store.statements(graph)
        yield from lines - holding(lines, least)


def _differences(store: Graph, weave: Weave) -> Iterator[Difference]:
    names = store.names
    system = {names.journal: "journal", names.cursor: "journal", names.quarantine: "quarantine"}
    for graph in sorted(weave.graphs()):
        extra, missing = weave.pending(graph)
        if not extra and not missing:
            continue
        kind = system.get(graph) or ("default" if not graph else "record")
        if graph.startswith(f"{names.base}record/rule/"):
            kind = "rule"
        sample = [f"- {line}" for line in sorted(extra)] + [f"+ {line}" for line in sorted(missing)]
        yield Difference(kind, graph, len(missing), len(extra), tuple(sample[:SAMPLE]))
