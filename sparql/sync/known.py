"""What a scope said last time is one query: the hash and place of each record it has, accepted or refused."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, Protocol

from pyoxigraph import DefaultGraph, Literal, NamedNode, QueryResultsFormat, RdfFormat, parse

from ontology.facts import GT, string
from sparql.names import Names
from sparql.sync.entries import CURSOR, HASH, HELD, IN_SCOPE, LOCATOR, PLAN, RECORD, SOURCE


class Graph(Protocol):
    """The store as sync sees it (`sparql.store.Store`)."""

    @property
    def names(self) -> Names: ...
    @property
    def head(self) -> int: ...
    def match(self, s: Any, p: Any, o: Any, graph: Any) -> Iterator[Any]: ...
    def statements(self, graph: str) -> frozenset[str]: ...
    def holds(self, statement: str) -> bool: ...
    def present(self, statements: Collection[str]) -> frozenset[str]: ...
    def asserted_by(self, statement: str) -> Iterator[str]: ...
    def query(self, text: str, **kw: Any) -> Any: ...
    def commit(self, change: Any, report: Any = ()) -> Any: ...
    def build(self, quads: Any, report: Any = ()) -> Any: ...
    def stage(self) -> Any: ...


class Seen(NamedTuple):
    """One claim as the store has it; `locators` are spelled strings, sorted."""

    hash: str
    locators: tuple[str, ...]
    scope: str
    """The scope's IRI."""


class Known(NamedTuple):
    """The claims of one scope by record graph; a held record is in both."""

    accepted: dict[str, Seen]
    refused: dict[str, Seen]

    def now(self, graph: str) -> Seen | None:
        """The claim the scope made when it was read last."""
        return self.refused.get(graph) or self.accepted.get(graph)


def known(store: Graph, scope: str) -> Known:
    """The claims of the scope with this IRI."""
    names = store.names
    accepted = f"""SELECT ?g ?h ?l {{ GRAPH <{names.journal}> {{
        ?g {IN_SCOPE} <{scope}> . ?g {HASH} ?h . ?g {LOCATOR} ?l }} }}"""
    refused = f"""SELECT ?g ?h ?l {{ GRAPH <{names.quarantine}> {{
        ?r {IN_SCOPE} <{scope}> . ?r {RECORD} ?g . ?r {HASH} ?h . ?r {LOCATOR} ?l }} }}"""
    some = next(store.match(None, NamedNode(IN_SCOPE[1:-1]), NamedNode(scope), NamedNode(names.quarantine)), None)
    return Known(_claims(store, accepted, scope), _claims(store, refused, scope) if some is not None else {})


def _claims(store: Graph, query: str, scope: str) -> dict[str, Seen]:
    # As text: 100,000 rows take 0.1 s, as solution objects 0.4 s.
    text: str = store.query(query).serialize(format=QueryResultsFormat.TSV).decode()
    out: dict[str, Seen] = {}
    for line in text.split("\n")[1:]:
        if not line:
            continue
        graph, digest, locator = line.split("\t")
        graph = graph[1:-1]
        if "\\" in locator or not locator.isprintable():  # TSV escapes less than N-Triples does
            locator = _respelled(locator)
        before = out.get(graph)
        places = (locator,) if before is None else tuple(sorted({*before.locators, locator}))
        out[graph] = Seen(digest[1:-1], places, scope)
    return out


def _respelled(text: str) -> str:
    found = next(iter(parse(f"<urn:x> <urn:x> {text} .", format=RdfFormat.TURTLE))).object
    return str(found)


def accepted_claim(store: Graph, graph: str) -> Seen | None:
    """The accepted claim of one record graph, whatever scope made it."""
    return _seen(_about(store, graph, store.names.journal))


def refused_claims(store: Graph, graph: str) -> dict[str, Seen]:
    """The refused claims of one record graph, by the IRI of the quarantine's node."""
    quarantine = NamedNode(store.names.quarantine)
    nodes = [quad.subject.value for quad in store.match(None, NamedNode(RECORD[1:-1]), NamedNode(graph), quarantine)]
    out = {}
    for node in nodes:
        seen = _seen(_about(store, node, store.names.quarantine))
        if seen is not None:
            out[node] = seen
    return out


def _about(store: Graph, node: str, graph: str) -> dict[str, list[Any]]:
    out: dict[str, list[Any]] = {}
    for quad in store.match(NamedNode(node), None, None, NamedNode(graph)):
        out.setdefault(quad.predicate.value, []).append(quad.object)
    return out


def _seen(about: dict[str, list[Any]]) -> Seen | None:
    scopes, hashes = about.get(IN_SCOPE[1:-1]), about.get(HASH[1:-1])
    if not scopes or not hashes:
        return None
    return Seen(hashes[0].value, tuple(sorted(str(one) for one in about.get(LOCATOR[1:-1], ()))), scopes[0].value)


class ScopeRow(NamedTuple):
    """What the cursor graph says of one scope."""

    iri: str
    scope: str
    cursor: str | None
    plan: str
    held: str | None


def scopes_of(store: Graph, source: str) -> dict[str, ScopeRow]:
    """The scopes of a source that were read before, by name."""
    names = store.names
    text = f"""SELECT ?s ?n ?c ?p ?h {{ GRAPH <{names.cursor}> {{
        ?s {SOURCE} {string(source)} ; <{GT}scope> ?n ; {PLAN} ?p .
        OPTIONAL {{ ?s {CURSOR} ?c }} OPTIONAL {{ ?s {HELD} ?h }} }} }}"""
    out = {}
    for row in store.query(text):
        cursor, held = row["c"], row["h"]
        name = row["n"].value
        out[name] = ScopeRow(row["s"].value, name, cursor.value if cursor else None, row["p"].value,
                             held.value if held else None)  # fmt: skip
    return out


def scope_row(store: Graph, source: str, scope: str) -> ScopeRow | None:
    """What the cursor graph says of one scope; None when it was never read."""
    iri = store.names.scope(source, scope)
    about = _about(store, iri, store.names.cursor)
    if not about:
        return None

    def one(predicate: str) -> str | None:
        found = about.get(predicate[1:-1])
        return found[0].value if found else None

    return ScopeRow(iri, scope, one(CURSOR), one(PLAN) or "", one(HELD))


def cursors(store: Graph, source: str, version: str) -> dict[str, str]:
    """The cursors with which scopes may be asked whether they changed: those read whole under this very plan."""
    return {
        name: row.cursor
        for name, row in scopes_of(store, source).items()
        if row.cursor is not None and row.plan == version and row.held is None
    }


def spelled(store: Graph, node: str, graph: str) -> set[str]:
    """The statements about one node in one graph."""
    name = NamedNode(graph) if graph else DefaultGraph()
    return {f"{q.subject} {q.predicate} {q.object}" for q in store.match(NamedNode(node), None, None, name)}


def plain(text: str) -> str:
    """The characters of a spelled string."""
    if "\\" not in text:
        return text[1:-1]
    found = next(iter(parse(f"<urn:x> <urn:x> {text} .", format=RdfFormat.N_TRIPLES))).object
    assert isinstance(found, Literal)
    return found.value
