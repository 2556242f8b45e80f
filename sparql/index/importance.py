"""A node matters as much as other nodes point at it and it at them: its degree, and nothing that has to converge.

The importance of a node is how many statements of the default graph join it to another node, in either direction.
`rdf:type` does not count, and neither do literals. What only describes the graph, a class, a property or a shape, is
*vocabulary*: it stands apart, with importance 0. Degrees are exact at every commit; PageRank would be an
approximation between recomputations, and one commit can change all of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import DefaultGraph, NamedNode, Store

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
OWL = "http://www.w3.org/2002/07/owl#"
SH = "http://www.w3.org/ns/shacl#"
TYPE = NamedNode(RDF + "type")
ABOVE = (NamedNode(RDFS + "subClassOf"), NamedNode(RDFS + "subPropertyOf"))
DEFAULT = DefaultGraph()
FEW = 256  # statements that are counted one by one; more are counted by the engine
META = frozenset(
    [f"{RDF}Property", f"{RDFS}Class", f"{RDFS}Datatype", f"{SH}NodeShape", f"{SH}PropertyShape",
     f"{SH}PrefixDeclaration", f"{SH}SPARQLConstraint", f"{SH}SPARQLExecutable"]
    + [f"{OWL}{name}" for name in (
        "Class", "Ontology", "ObjectProperty", "DatatypeProperty", "AnnotationProperty", "Restriction",
        "FunctionalProperty", "InverseFunctionalProperty", "TransitiveProperty", "SymmetricProperty",
    )]
)  # fmt: skip
STANDARD = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#", RDFS, OWL, SH, "http://www.w3.org/2001/XMLSchema#")


@dataclass(frozen=True, slots=True)
class Important:
    """A node and what joins it to others."""

    iri: str
    label: str
    types: tuple[str, ...]
    incoming: int
    outgoing: int

    @property
    def importance(self) -> int:
        return self.incoming + self.outgoing


def rank(importance: int) -> int:
    """The class of importance, of which each is twice the one before; 0 to 40."""
    return min(importance.bit_length(), 40)


def describes(iri: str, types: Iterable[str]) -> bool:
    """Whether a node of these types and this name describes the graph, whatever is said elsewhere."""
    return not META.isdisjoint(types) or iri.startswith(STANDARD)


def is_vocabulary(store: Store, node: NamedNode, types: Iterable[str]) -> bool:
    """Whether a node describes the graph and is not in it: by its types, its name, or what is of it or below it."""
    if describes(node.value, types):
        return True
    probes = [(None, TYPE, node), *((node, term, None) for term in ABOVE), *((None, term, node) for term in ABOVE)]
    return any(True for one, term, other in probes for _ in store.quads_for_pattern(one, term, other, DEFAULT))


def degrees(store: Store, node: NamedNode) -> tuple[int, int]:
    """(incoming, outgoing) statements that join the node to other nodes."""
    incoming = _counted(
        (quad.subject != node and quad.predicate != TYPE for quad in _few(store, None, node)),
        store, f"SELECT (COUNT(*) AS ?n) {{ ?s ?p {node} FILTER(?p != {TYPE} && ?s != {node}) }}",
    )  # fmt: skip
    outgoing = _counted(
        (isinstance(quad.object, NamedNode) and quad.object != node and quad.predicate != TYPE
         for quad in _few(store, node, None)),
        store, f"SELECT (COUNT(*) AS ?n) {{ {node} ?p ?o FILTER(isIRI(?o) && ?p != {TYPE} && ?o != {node}) }}",
    )  # fmt: skip
    return incoming, outgoing


def top(
    db: sqlite3.Connection, limit: int, *, after: tuple[int, str] | None = None, vocabulary: bool = False
) -> list[Important]:
    """The most important nodes of a search index, the first first, equal ones by IRI: those after (importance, IRI)."""
    beyond, place = ("", ()) if after is None else ("AND (-importance, iri) > (?, ?) ", (-after[0], after[1]))
    rows = db.execute(
        "SELECT iri, label, types, incoming, outgoing FROM search_entity "
        f"WHERE vocabulary = ? {'AND importance <= ? ' if after else ''}{beyond}"
        "ORDER BY importance DESC, iri LIMIT ?",
        (int(vocabulary), *((after[0],) if after else ()), *place, limit),
    )
    return [
        Important(iri, label, tuple(filter(None, types.split(" "))), into, out) for iri, label, types, into, out in rows
    ]


def of(db: sqlite3.Connection, iris: Iterable[str]) -> Mapping[str, Important]:
    """What the search index knows of these nodes."""
    wanted, found = list(dict.fromkeys(iris)), {}
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        for iri, label, types, into, out in db.execute(
            "SELECT iri, label, types, incoming, outgoing FROM search_entity "
            f"WHERE iri IN ({','.join('?' * len(part))})",
            part,
        ):
            found[iri] = Important(iri, label, tuple(filter(None, types.split(" "))), into, out)
    return found


def _few(store: Store, subject: NamedNode | None, obj: NamedNode | None) -> list:  # type: ignore[type-arg]
    return list(islice(store.quads_for_pattern(subject, None, obj, DEFAULT), FEW + 1))


def _counted(few: Iterable[bool], store: Store, text: str) -> int:
    found = list(few)
    if len(found) <= FEW:
        return sum(found)
    return int(next(iter(store.query(text)))["n"].value)  # type: ignore[arg-type]
