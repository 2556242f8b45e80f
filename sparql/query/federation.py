"""SERVICE is ours to evaluate: what another endpoint answers comes into the query as VALUES, or the query fails.

Workers have no network, so the server asks the endpoints before a worker sees the query. Each SERVICE is sent as one
SELECT with the values its variables have already where those are few, and its solutions take its place. SILENT makes
an endpoint that fails one empty solution, as the standard says; it silences no refusal and no limit of ours, since an
answer that is cut must not look whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from secrets import token_hex
from typing import Any
from urllib.parse import urlencode

import pyoxigraph as ox

from sparql.outgoing import Got, Outgoing, OutgoingFailed, OutgoingRefused, OutgoingTooLong
from sparql.syntax import text, visible
from sparql.syntax.tree import (
    Bind,
    Element,
    Exists,
    Filter,
    Graph,
    Group,
    Iri,
    Lateral,
    Literal,
    Minus,
    Modifiers,
    Query,
    Select,
    Service,
    SubSelect,
    Term,
    Triples,
    TripleTerm,
    Union,
    Values,
    Var,
    walk,
)

JSON, XML = "application/sparql-results+json", "application/sparql-results+xml"
ACCEPT = f"{JSON}, {XML};q=0.9, application/json;q=0.5"
FORM = "application/x-www-form-urlencoded"
MOST_PUSHED = 200
"""How many rows of values go along with a SERVICE; with more, it is asked for all it has."""

Row = dict[str, Any]
Local = Callable[[str], list[Row]]


class FederationRefused(Exception):
    """The query may not call what it calls: `str()` says what and what would allow it. `span` is its place."""

    def __init__(self, message: str, span: tuple[int, int]) -> None:
        super().__init__(message)
        self.span = span


class FederationFailed(Exception):
    """An endpoint gave no answer, or more than is taken. `endpoint` is its URL."""

    def __init__(self, message: str, endpoint: str) -> None:
        super().__init__(message)
        self.endpoint = endpoint


@dataclass(frozen=True)
class Limits:
    """What the calls of one query may take together."""

    calls: int = 20
    rows: int = 10_000
    bytes: int = 16 * 2**20
    seconds: float = 10.0


@dataclass(frozen=True)
class Federated:
    """A query without SERVICE, and the endpoints that failed it in silence."""

    query: Query
    silenced: tuple[str, ...]


def federated(query: Query, outgoing: Outgoing, local: Local, *, skolem: str, limits: Limits, ends: float) -> Federated:
    """The query without SERVICE, which has the same answers as long as the endpoints do not change theirs.

    `local` answers a SELECT over the graph, raising what it likes. A blank node of an endpoint is an IRI under
    `skolem`, another in every call. Raises FederationRefused and FederationFailed; over before `ends`, a
    time.monotonic().
    """
    calls = _Calls(query, outgoing, local, skolem, limits, min(ends, time.monotonic() + limits.seconds))
    found = calls.without(query, _Around())
    assert isinstance(found, Query)
    return Federated(found, tuple(dict.fromkeys(calls.silenced)))


@dataclass(frozen=True)
class _Around:
    """What is joined to the place we are at: it may tell the values of a variable. Nothing, where it would not hold.

    Inside of a SERVICE what stands around is matched `elsewhere`, and tells nothing here.
    """

    elements: tuple[Element, ...] = ()
    graph: Var | Iri | None = None
    elsewhere: bool = False

    def with_(self, elements: Iterable[Element]) -> _Around:
        return self if self.elsewhere else replace(self, elements=(*self.elements, *elements))

    def group(self) -> Group:
        """The pattern of it all."""
        return Group(self.elements)


@dataclass
class _Calls:
    """The calls of one query, counted together."""

    query: Query
    outgoing: Outgoing
    local: Local
    skolem: str
    limits: Limits
    ends: float
    made: int = 0
    rows: int = 0
    bytes: int = 0
    silenced: list[str] = field(default_factory=list)

    # -- the tree

    def without(self, node: Any, around: _Around) -> Any:
        """The node with VALUES for each SERVICE in it."""
        if isinstance(node, tuple):
            return tuple(self.without(one, around) for one in node)
        if not is_dataclass(node) or isinstance(node, type) or not _calls(node):
            return node
        if isinstance(node, Group):
            return self._group(node, around)
        if isinstance(node, Graph):
            return replace(node, group=self._group(node.group, replace(around, graph=node.name)))
        if isinstance(node, (Minus, Exists, SubSelect, Filter, Lateral)):
            # Rows that the pattern around has no match for would matter here, or its variables mean something else.
            around = replace(around, elements=())
        changed = {one.name: self.without(getattr(node, one.name), around) for one in fields(node) if one.init}
        return replace(node, **changed)

    def _group(self, group: Group, around: _Around) -> Group:
        done: list[Element] = []
        for at, element in enumerate(group.elements):
            known = around.with_(_sure(done, around.graph))
            if isinstance(element, Service):
                # What follows is joined to this very pattern, so it narrows it as well as what comes before.
                later = [one for one in group.elements[at + 1 :] if not _calls(one)]
                done.append(self._service(element, known.with_(_sure(later, around.graph))))
            else:
                done.append(self.without(element, known))
        return replace(group, elements=tuple(done))

    def _service(self, service: Service, around: _Around) -> Element:
        inner = self._group(service.group, _Around(elsewhere=True)) if _calls(service.group) else service.group
        columns = visible(inner)
        if isinstance(service.name, Iri):
            rows = self._ask(service, service.name.value, inner, columns, self._pushed(around, inner, columns, None))
            return _values(columns, rows)
        name = service.name.name
        found: list[Row] = []
        for endpoint in self._endpoints(service, around):
            known = self._pushed(around, inner, columns, (name, endpoint))
            for row in self._ask(service, endpoint.value, inner, columns, known):
                if row.get(name, endpoint) == endpoint:
                    found.append({**row, name: endpoint})
        return _values(tuple(dict.fromkeys((name, *columns))), found)

    # -- what is known already

    def _endpoints(self, service: Service, around: _Around) -> list[Iri]:
        assert isinstance(service.name, Var)
        name = service.name.name
        if name not in visible(around.group()):
            raise FederationRefused(
                f"SERVICE ?{name} is asked before anything says what ?{name} is. Bind it first, in the same group.",
                service.span,
            )
        found = [row.get(name) for row in self._distinct((name,), around, self.limits.calls + 1)]
        if len(found) > self.limits.calls:
            raise self._too_many(service, f"?{name}")
        return [Iri(one.value) for one in found if isinstance(one, ox.NamedNode)]

    def _distinct(self, names: tuple[str, ...], around: _Around, most: int) -> list[Row]:
        select = Select(tuple(map(Var, names)), "DISTINCT")
        return self.local(text(Query((), select, self.query.dataset, around.group(), Modifiers(limit=most))))

    def _pushed(
        self, around: _Around, inner: Group, columns: Sequence[str], endpoint: tuple[str, Iri] | None
    ) -> Values | None:
        """The values that the variables of a SERVICE have around it, when they are few.

        Only of variables that its every solution binds: elsewhere a value would be put in where there was none.
        """
        known = set(visible(around.group())) & _bound(inner)
        shared = tuple(name for name in columns if name in known)
        if not shared:
            return None
        inside = around
        if endpoint is not None:
            inside = around.with_((Values((Var(endpoint[0]),), ((endpoint[1],),)),))
        found = self._distinct(shared, inside, MOST_PUSHED + 1)
        if len(found) > MOST_PUSHED:
            return None
        # A blank node of ours is in no other place, and where it is not bound it may be anything.
        rows = [tuple(_known(row.get(name)) for name in shared) for row in found]
        return Values(tuple(map(Var, shared)), tuple(dict.fromkeys(rows)))

    # -- calls

    def _ask(
        self, service: Service, endpoint: str, inner: Group, columns: Sequence[str], known: Values | None
    ) -> list[Row]:
        """The solutions of one endpoint, as terms of the tree."""
        try:
            self.outgoing.check(endpoint)
        except OutgoingRefused as no:
            raise FederationRefused(_refusal(no), service.span) from no
        if known is not None and not known.rows:
            return []  # nothing around has a solution, so nothing here is joined to
        self.made += 1
        if self.made > self.limits.calls:
            raise self._too_many(service, endpoint)
        asked = inner if known is None else Group((known, inner))
        sent = text(Query((), Select(tuple(map(Var, columns)) or None), (), asked))
        try:
            got = self.outgoing.post(
                endpoint, urlencode({"query": sent}).encode(), FORM, ACCEPT,
                ends=self.ends, max_bytes=max(1, self.limits.bytes - self.bytes),
            )  # fmt: skip
            self.bytes += len(got.body)
            return self._read(got, endpoint, columns)
        except OutgoingRefused as no:
            raise FederationRefused(_refusal(no), service.span) from no
        except OutgoingTooLong as long:
            raise FederationFailed(f"{long} Ask it for less.", endpoint) from long
        except OutgoingFailed as failed:
            if not service.silent:
                raise FederationFailed(f"{failed} Write SERVICE SILENT to go on without it.", endpoint) from failed
            self.silenced.append(endpoint)
            return [{}]

    def _read(self, got: Got, endpoint: str, columns: Sequence[str]) -> list[Row]:
        format = ox.QueryResultsFormat.XML if got.content_type == XML else ox.QueryResultsFormat.JSON
        call = token_hex(6)
        found: list[Row] = []
        try:
            solutions = ox.parse_query_results(got.body, format=format)
            if not isinstance(solutions, ox.QuerySolutions):
                raise OutgoingFailed(f"{endpoint} answers a boolean to a SELECT.")
            theirs = {variable.value for variable in solutions.variables}
            names = [name for name in columns if name in theirs]
            for solution in solutions:
                self.rows += 1
                if self.rows > self.limits.rows:
                    raise FederationFailed(
                        f"The endpoints of the query give more than {self.limits.rows:,} solutions, the last of them "
                        f"{endpoint}. Ask for less, or with a LIMIT inside of a subselect.",
                        endpoint,
                    )
                row = {name: solution[name] for name in names}
                found.append({name: self._term(term, call) for name, term in row.items() if term is not None})
        except (SyntaxError, ValueError) as wrong:
            raise OutgoingFailed(f"{endpoint} answers what is not {got.content_type}: {wrong}.") from wrong
        return found

    def _term(self, term: Any, call: str) -> Term:
        """A term as VALUES takes it."""
        if isinstance(term, ox.BlankNode):
            return Iri(f"{self.skolem}{call}-{term.value}")
        if isinstance(term, ox.Triple):
            subject, predicate, object = (self._term(part, call) for part in term)
            return TripleTerm(subject, predicate, object)
        found = _known(term)
        assert found is not None
        return found

    def _too_many(self, service: Service, endpoint: str) -> FederationFailed:
        return FederationFailed(f"The query makes more than {self.limits.calls} calls of SERVICE.", endpoint)


def _calls(node: object) -> bool:
    return any(isinstance(one, Service) for one in walk(node))


def _sure(elements: Iterable[Element], graph: Var | Iri | None) -> tuple[Element, ...]:
    """Those of the elements whose values every solution of their group has: OPTIONAL adds, and filters take away."""
    kept = tuple(
        one for one in elements if isinstance(one, (Triples, Values, Group, Union, Graph, SubSelect)) or _plain(one)
    )
    return (Graph(graph, Group(kept)),) if kept and graph is not None else kept


def _plain(element: Element) -> bool:
    return isinstance(element, Bind) and isinstance(element.expression, (Iri, Literal))


def _bound(group: Group) -> set[str]:
    """The variables that every solution of the pattern binds."""
    found: set[str] = set()
    for element in group.elements:
        if isinstance(element, Triples):
            found |= {one.name for one in walk(element) if isinstance(one, Var)}
        elif isinstance(element, Group):
            found |= _bound(element)
        elif isinstance(element, Graph):
            found |= _bound(element.group) | ({element.name.name} if isinstance(element.name, Var) else set())
        elif isinstance(element, Union):
            found |= set.intersection(*map(_bound, element.groups))
    return found


def _values(columns: Sequence[str], rows: Sequence[Row]) -> Values:
    """The solutions as they stand in the query; with none of them, nothing joins."""
    return Values(tuple(map(Var, columns)), tuple(tuple(row.get(name) for name in columns) for row in rows))


def _known(term: Any) -> Iri | Literal | None:
    """A term that means the same everywhere, as the tree has it; None for one that does not."""
    if isinstance(term, ox.NamedNode):
        return Iri(term.value)
    if not isinstance(term, ox.Literal):
        return None
    direction = getattr(term, "direction", None)
    if term.language is not None:
        return Literal(term.value, None, term.language, None if direction is None else str(direction))
    datatype = term.datatype.value
    return Literal(term.value, None if datatype == "http://www.w3.org/2001/XMLSchema#string" else datatype)


def _refusal(no: OutgoingRefused) -> str:
    return (
        f"SERVICE is not allowed: {no} Add it to `service_allow` under [server] in graphtide.toml when it may be asked."
    )


__all__ = ["MOST_PUSHED", "Federated", "FederationFailed", "FederationRefused", "Limits", "federated"]
