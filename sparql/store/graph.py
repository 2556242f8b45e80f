"""Reading the graph on the writer's side: text in, text out, in microseconds."""

from __future__ import annotations

from collections.abc import Iterator

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, parse

from ontology.facts import FactsError
from sparql.names import Names


def terms(statement: str) -> tuple[NamedNode, NamedNode, NamedNode | Literal]:
    """A statement as term objects. Raises FactsError when it is not one."""
    try:
        subject, predicate, value = statement.split(" ", 2)
        return NamedNode(subject[1:-1]), NamedNode(predicate[1:-1]), _term(value, statement)
    except ValueError as wrong:
        raise FactsError(f"{statement!r} is not a statement ({wrong}).") from wrong


def _term(text: str, statement: str) -> NamedNode | Literal:
    if text[0] == "<":
        return NamedNode(text[1:-1])
    if text[-1] == '"' and "\\" not in text:
        return Literal(text[1:-1])
    found = next(parse(f"{statement} .", format=RdfFormat.N_TRIPLES)).object  # 6 us: escapes, languages, datatypes
    assert isinstance(found, (NamedNode, Literal))
    return found


def statements(store: Store, graph: str) -> frozenset[str]:
    """What the graph says ("" is the default graph), spelled."""
    name = NamedNode(graph) if graph else DefaultGraph()
    return frozenset([f"{q.subject} {q.predicate} {q.object}" for q in store.quads_for_pattern(None, None, None, name)])


def holds(store: Store, statement: str, graph: str = "") -> bool:
    """Whether the statement is in the graph ("" is the default graph)."""
    return Quad(*terms(statement), NamedNode(graph) if graph else DefaultGraph()) in store


def asserted_by(store: Store, names: Names, statement: str) -> Iterator[str]:
    """The merged record graphs that contain the statement, as bare IRIs."""
    merged = names.merged
    for quad in store.quads_for_pattern(*terms(statement), None):
        graph = quad.graph_name
        if isinstance(graph, NamedNode) and merged(graph.value):
            yield graph.value
