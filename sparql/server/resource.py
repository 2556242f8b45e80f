"""What an IRI names is what the graph says of it, who says it, and what points at it, at one commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import Literal, NamedNode, Quad, QueryResultsFormat, parse_query_results

from ontology.facts import GT, PROV, RDF
from sparql.names import Names
from sparql.query.pool import NotAcceptable, QueryFailed
from sparql.server.problem import Problem, of_query
from sparql.server.serving import Serving

Term = Any
MANY = 25
"""How many values of one property are shown before the rest is a link."""
PROPERTIES = 200
"""Of how many properties values are shown; the others are listed with their counts."""
RECORDS = 50
"""How many graphs that say something of a thing are looked into."""
SAID = 5000
"""How many statements a document has in each direction, before it links to the next."""
COUNTED = 10_000
"""Up to where the uses of a property, or the statements of a graph, are counted."""
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Values:
    """Some of the `count` values of a property, from `start` on."""

    property: Term
    count: int
    start: int
    values: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A graph that says `count` statements of the thing, and what the journal knows of it ("" when nothing)."""

    graph: str
    count: int
    source: str = ""
    locators: tuple[str, ...] = ()
    hash: str = ""
    commit: str = ""
    time: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """Everything that is shown of one IRI. `said` are statements of named graphs: (graph, property, value)."""

    iri: str
    epoch: int
    time: str
    out: tuple[Values, ...]
    into: tuple[Values, ...]
    records: tuple[Record, ...]
    more_records: bool
    said: tuple[tuple[str, Term, Term], ...] = ()
    holds: tuple[tuple[Term, Term, Term], ...] = ()
    holds_count: int = 0
    uses: int = 0
    types: tuple[Term, ...] = field(default=())

    @property
    def known(self) -> bool:
        """Whether the graph has anything with this IRI."""
        return bool(self.out or self.into or self.records or self.holds_count or self.uses)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which property's values are asked for from where on: "out" or "in", None for an overview."""

    direction: str | None = None
    property: str = ""
    start: int = 0


async def look_up(serving: Serving, iri: str, client: str, asked: Asked | None = None) -> Resource:
    """What there is of an IRI, all of it at one commit if the graph does not move too fast. Raises Problem."""
    me, asked, names = _node(iri), asked or Asked(), Names(serving.config.base)
    for attempt in range(ATTEMPTS):
        counted, epoch, time = await ask(serving, client, _counting(me))
        found = _Counted(counted)
        if not found.any():
            return Resource(iri, epoch, time, (), (), (), False)
        rows, again, _ = await ask(serving, client, _valuing(me, found, asked, names))
        if again == epoch or attempt == ATTEMPTS - 1:
            break
    values, said, about, holds = _sorted_out(rows)
    types = tuple(one for one in values.get(("out", RDF + "type"), ()))
    return Resource(
        iri, epoch, time,
        _values(found.out, values, "out", asked), _values(found.into, values, "in", asked),
        tuple(_record(graph, n, about.get(graph, {})) for graph, n in found.graphs[:RECORDS]),
        len(found.graphs) > RECORDS, tuple(said), tuple(holds), found.holds, found.uses, types,
    )  # fmt: skip


async def statements(
    serving: Serving, iri: str, client: str, page: int, *, graphs: bool
) -> tuple[list[Quad], bool, int, str]:
    """(statements about an IRI, whether there are more pages, epoch, time of that commit).

    With `graphs`, in every graph, and of a graph all it holds. Without, what holds: only of what the default graph says
    nothing of itself, such as a record graph, also what others say. The journal's word of its records comes along.
    """
    me, journal = _node(iri), f"<{Names(serving.config.base).journal}>"
    part = f"LIMIT {SAID + 1} OFFSET {page * SAID}"
    text = f"""SELECT ?k ?s ?p ?o ?g {{
        {{ SELECT ("holds" AS ?k) {{ {me} ?p ?o }} LIMIT 1 }}
        UNION {{ SELECT ("out" AS ?k) ({me} AS ?s) ?p ?o {{ {me} ?p ?o }} {part} }}
        UNION {{ SELECT ("in" AS ?k) ?s ?p ({me} AS ?o) {{ ?s ?p {me} }} {part} }}
        UNION {{ SELECT ("said" AS ?k) ({me} AS ?s) ?p ?o ?g {{ GRAPH ?g {{ {me} ?p ?o }} }} {part} }}
        UNION {{ SELECT ("said" AS ?k) ?s ?p ?o ({me} AS ?g) {{ GRAPH {me} {{ ?s ?p ?o }} }} {part} }}
        UNION {{ SELECT ("journal" AS ?k) ?s ?p ?o ({journal} AS ?g) {{
            {{ SELECT DISTINCT ?s {{ GRAPH ?s {{ {me} ?q ?v }} }} LIMIT {RECORDS} }}
            GRAPH {journal} {{ ?s ?p ?o }} }} }}
    }}"""
    rows, epoch, time = await ask(serving, client, text)
    found: dict[str, list[Quad]] = {}
    for row in rows:
        quads = found.setdefault(row["k"].value, [])
        if row["s"] is not None:
            quads.append(Quad(row["s"], row["p"], row["o"], *([row["g"]] if row["g"] else [])))
    kinds = ["out", "in", "said", "journal"]
    if "holds" in found and not graphs:
        kinds.remove("said")
    more = any(_more(found.get(kind, ())) for kind in kinds[:-1])
    return [quad for kind in kinds for quad in found.get(kind, ())], more, epoch, time


def _more(quads: Sequence[Quad]) -> bool:
    return len(quads) > SAID


async def ask(serving: Serving, client: str, text: str) -> tuple[list[Any], int, str]:
    """(rows, epoch, time of that commit) of a SELECT. Raises Problem as the query endpoint does."""
    try:
        async with serving.pool.call(text, format="json", client=client) as call:
            answer = await call.begin()
            parts = []
            while (data := await answer.chunk_async()) is not None:
                parts.append(data)
    except (QueryFailed, NotAcceptable) as wrong:
        raise of_query(wrong) from wrong
    solutions: Any = parse_query_results(b"".join(parts), format=QueryResultsFormat.JSON)
    return list(solutions), answer.epoch, answer.commit_time or ""


def absolute(iri: str) -> bool:
    """Whether a graph can name this."""
    try:
        return bool(NamedNode(iri))
    except ValueError:
        return False


# -- asking


def _node(iri: str) -> str:
    try:
        return str(NamedNode(iri))
    except ValueError as wrong:
        raise Problem(400, "bad-iri", f"{iri[:200]!r} is not an IRI: {wrong}.") from wrong


def _counting(me: str) -> str:
    few = f"LIMIT {COUNTED + 1}"
    return f"""SELECT ?d ?p ?n {{
        {{ SELECT ("out" AS ?d) ?p (COUNT(*) AS ?n) {{ {me} ?p ?o }} GROUP BY ?p }}
        UNION {{ SELECT ("in" AS ?d) ?p (COUNT(*) AS ?n) {{ ?s ?p {me} }} GROUP BY ?p }}
        UNION {{ SELECT ("graph" AS ?d) ?p (COUNT(*) AS ?n) {{ GRAPH ?p {{ {me} ?q ?o }} }}
                 GROUP BY ?p ORDER BY ?p LIMIT {RECORDS + 1} }}
        UNION {{ SELECT ("holds" AS ?d) (COUNT(*) AS ?n) {{ {{ SELECT ?s {{ GRAPH {me} {{ ?s ?q ?o }} }} {few} }} }} }}
        UNION {{ SELECT ("uses" AS ?d) (COUNT(*) AS ?n) {{ {{ SELECT ?s {{ ?s {me} ?o }} {few} }} }} }}
    }}"""


class _Counted:
    def __init__(self, rows: Iterable[Any]) -> None:
        self.out: list[tuple[Term, int]] = []
        self.into: list[tuple[Term, int]] = []
        self.graphs: list[tuple[str, int]] = []
        self.holds = self.uses = 0
        for row in rows:
            kind, n = row["d"].value, int(row["n"].value)
            if kind == "out":
                self.out.append((row["p"], n))
            elif kind == "in":
                self.into.append((row["p"], n))
            elif kind == "graph":
                self.graphs.append((row["p"].value, n))
            elif kind == "holds":
                self.holds = n
            else:
                self.uses = n
        self.out.sort(key=lambda one: (one[0].value != RDF + "type", one[0].value))
        self.into.sort(key=lambda one: one[0].value)

    def any(self) -> bool:
        return bool(self.out or self.into or self.graphs or self.holds or self.uses)


def _valuing(me: str, found: _Counted, asked: Asked, names: Names) -> str:
    parts = []
    for direction, properties in (("out", found.out), ("in", found.into)):
        for name, _ in properties[:PROPERTIES]:
            start = asked.start if (direction, name.value) == (asked.direction, asked.property) else 0
            if asked.direction is not None and (direction, name.value) != (asked.direction, asked.property):
                continue
            pattern = f"{me} {name} ?v" if direction == "out" else f"?v {name} {me}"
            parts.append(
                f'{{ SELECT ("{direction}" AS ?k) ({name} AS ?p) ?v {{ {pattern} }} LIMIT {MANY} OFFSET {start} }}'
            )
    graphs = " ".join(f"<{graph}>" for graph, _ in found.graphs[:RECORDS])
    if graphs:
        parts.append(f"""{{ SELECT ("said" AS ?k) ?g ?p ?v {{ VALUES ?g {{ {graphs} }} GRAPH ?g {{ {me} ?p ?v }} }}
            LIMIT {SAID} }}""")
        wanted = " ".join(f"<{term}>" for term in _JOURNAL)
        parts.append(f"""{{ SELECT ("about" AS ?k) ?g ?p ?v {{ VALUES ?g {{ {graphs} }} VALUES ?p {{ {wanted} }}
            GRAPH <{names.journal}> {{ ?g ?p ?v }} }} }}""")
        parts.append(f"""{{ SELECT ("about" AS ?k) ?g (<{PROV}endedAtTime> AS ?p) ?v {{ VALUES ?g {{ {graphs} }}
            GRAPH <{names.journal}> {{ ?g <{PROV}wasGeneratedBy>/<{PROV}endedAtTime> ?v }} }} }}""")
    if found.holds:
        start = asked.start if asked.direction == "graph" else 0
        parts.append(f"""{{ SELECT ("holds" AS ?k) (?s AS ?g) ?p ?v {{ GRAPH {me} {{ ?s ?p ?v }} }}
            LIMIT {4 * MANY} OFFSET {start} }}""")
    return "SELECT ?k ?g ?p ?v {\n" + "\nUNION ".join(parts or ["{}"]) + "\n}"


_JOURNAL = (GT + "source", GT + "locator", GT + "hash", PROV + "wasGeneratedBy")


def _sorted_out(rows: Iterable[Any]) -> tuple[Any, ...]:
    values: dict[tuple[str, str], list[Term]] = {}
    said, holds = [], []
    about: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if row["k"] is None:
            continue
        kind, value = row["k"].value, row["v"]
        if kind in ("out", "in"):
            values.setdefault((kind, row["p"].value), []).append(value)
        elif kind == "said":
            said.append((row["g"].value, row["p"], value))
        elif kind == "about":
            about.setdefault(row["g"].value, {}).setdefault(row["p"].value, []).append(value.value)
        else:
            holds.append((row["g"], row["p"], value))
    return values, said, about, holds


def _values(counts: Iterable[tuple[Term, int]], values: Any, direction: str, asked: Asked) -> tuple[Values, ...]:
    def made() -> Iterator[Values]:
        for name, count in counts:
            found = values.get((direction, name.value), ())
            start = asked.start if (direction, name.value) == (asked.direction, asked.property) else 0
            yield Values(name, count, start, tuple(sorted(found, key=_order)))

    return tuple(made())


def _order(term: Term) -> tuple[int, str]:
    return isinstance(term, Literal), str(term)


def _record(graph: str, count: int, about: dict[str, list[str]]) -> Record:
    def first(name: str) -> str:
        return next(iter(sorted(about.get(name, ()))), "")

    return Record(
        graph, count, first(GT + "source"), tuple(sorted(about.get(GT + "locator", ()))), first(GT + "hash"),
        first(PROV + "wasGeneratedBy"), first(PROV + "endedAtTime"),
    )  # fmt: skip
