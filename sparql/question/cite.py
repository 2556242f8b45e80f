"""Behind every row stand statements, and behind every statement the records that say it, as their graphs are named."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pyoxigraph import BlankNode, NamedNode, Triple
from pyoxigraph import Literal as Value

from ontology.facts import GT, PROV
from sparql.names import Names
from sparql.question.answer import Citation, Cited, Graph, Result, Source
from sparql.question.witness import OutOfTime, Proof, Prover
from sparql.syntax import Query

ROWS = 20
"""How many rows of an answer are cited, unless more are asked for."""
SECONDS = 5.0
_AT_ONCE = 100
_SPEAKERS = 8
"""How many records are named for one statement."""


def cite(
    graph: Graph, query: Query, result: Result, names: Names, *, rows: int = ROWS, seconds: float = SECONDS
) -> tuple[Citation, ...]:
    """What supports each of the first `rows` rows, at the epoch of the result; bounded, and it says where it is.

    The query run over the statements of a citation that is complete gives its row again. Raises QueryFailed.
    """
    ends = time.monotonic() + seconds
    prover = Prover(graph, query, epoch=result.epoch or None, ends=ends)
    proofs: list[Proof] = []
    for number in range(min(rows, len(result.rows))):
        try:
            proofs.append(prover.row(result, number))
        except OutOfTime:
            proofs.append(_late())
    said = _said(
        graph, {one: where for proof in proofs for one, where in proof.statements.items()}, names, result, ends
    )
    return tuple(
        Citation(
            number,
            tuple(Cited(triple, said.get(triple, ()), where) for triple, where in proof.statements.items()),
            proof.complete,
            " ".join(proof.notes),
        )
        for number, proof in enumerate(proofs)
    )


def _late() -> Proof:
    proof = Proof()
    proof.note("There was no time left to prove it.", complete=False)
    return proof


def _said(
    graph: Graph, statements: Mapping[Triple, str | None], names: Names, result: Result, ends: float
) -> dict[Triple, tuple[Source, ...]]:
    """The records that say each statement; a statement of a named graph of somebody's own has that graph alone."""
    found: dict[Triple, list[str]] = defaultdict(list)
    plain = [one for one, where in statements.items() if where is None and not _blank(one)]
    for triple, where in statements.items():
        if where is not None:
            found[triple].append(where)
    for start in range(0, len(plain), _AT_ONCE):
        if time.monotonic() >= ends:
            break
        for triple, speaker in _speakers(graph, plain[start : start + _AT_ONCE], names, result, ends):
            if len(found[triple]) < _SPEAKERS:
                found[triple].append(speaker)
    about = _about(graph, sorted({one for graphs in found.values() for one in graphs}), names, result, ends)
    return {triple: tuple(about[one] for one in graphs if one in about) for triple, graphs in found.items()}


def _speakers(
    graph: Graph, triples: Sequence[Triple], names: Names, result: Result, ends: float
) -> Iterable[tuple[Triple, str]]:
    rows = " ".join(f"({one.subject} {one.predicate} {one.object})" for one in triples)
    records = str(Value(f"{names.base}record/"))
    text = (
        f"SELECT ?s ?p ?o ?g {{ VALUES (?s ?p ?o) {{ {rows} }} GRAPH ?g {{ ?s ?p ?o }}"
        f" FILTER(STRSTARTS(STR(?g), {records})) }} ORDER BY ?g"
    )
    found = graph.query(
        text, seconds=max(0.1, ends - time.monotonic()), rows=_SPEAKERS * _AT_ONCE, epoch=result.epoch or None
    )
    for row in found.rows:
        if None not in row and isinstance(row[3], NamedNode):
            yield Triple(row[0], row[1], row[2]), row[3].value  # type: ignore[arg-type]


def _about(graph: Graph, graphs: Sequence[str], names: Names, result: Result, ends: float) -> dict[str, Source]:
    """What the journal says of record graphs: source, key, place, hash and commit."""
    told: dict[str, dict[str, list[str]]] = {one: defaultdict(list) for one in graphs}
    if graphs and time.monotonic() < ends:
        listed = " ".join(str(NamedNode(one)) for one in graphs)
        text = f"SELECT ?g ?q ?w {{ VALUES ?g {{ {listed} }} GRAPH <{names.journal}> {{ ?g ?q ?w }} }}"
        seconds = max(0.1, ends - time.monotonic())
        for row in graph.query(text, seconds=seconds, rows=50 * len(graphs), epoch=result.epoch or None).rows:
            if None not in row:
                told[_text(row[0])][_text(row[1])].append(_text(row[2]))
    return {one: _source(one, told[one], names) for one in graphs}


def _source(graph: str, told: Mapping[str, list[str]], names: Names) -> Source:
    source, key = names.parse(graph) or ("", "")
    places = sorted(told.get(f"{GT}locator", ()))
    commit = next(iter(told.get(f"{PROV}wasGeneratedBy", ())), "").rpartition("/")[2]
    locator = places[0] if places else ""
    return Source(
        graph,
        source,
        key,
        locator,
        next(iter(told.get(f"{GT}hash", ())), ""),
        int(commit) if commit.isdigit() else None,
        locator if locator.startswith(("https://", "http://")) else None,
    )


def _text(term: object) -> str:
    return str(getattr(term, "value", term))


def _blank(triple: Triple) -> bool:
    return any(isinstance(one, (BlankNode, Triple)) for one in (triple.subject, triple.object))
