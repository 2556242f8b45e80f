"""Most links lead where they should: a look at the neighbours' types shows it without pyshacl."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import rdflib
from pyoxigraph import NamedNode
from rdflib.term import Node

from ontology.conform import Values
from ontology.facts import RDF
from ontology.locality import Reading, sh
from ontology.view import Match

Looks = Callable[[str, Values, Match], bool]
"""Whether this node (a bare IRI) with these statements surely conforms, as far as its neighbours go."""

_TYPE = NamedNode(RDF + "type")


def look(
    reading: Reading, wide: Iterable[tuple[Node, Node, Node]], superclasses: Mapping[str, frozenset[str]]
) -> Looks | None:
    """A check of these constraints of one shape, None when one of them asks for more than types and counts."""
    looks: list[Looks] = []
    for shape, param, value in wide:
        path = reading.path(shape)
        if param == sh["class"] and path is None:
            looks.append(_focus_is(_below(str(value), superclasses)))
        elif param == sh["class"] and path is not None and (own := reading.own_path(path)) is not None:
            looks.append(_values_are([f"<{name}>" for name in own], _below(str(value), superclasses)))
        elif param == sh.property and path is None:
            backwards = _inverse(reading, value, superclasses)
            if backwards is None:
                return None
            looks.append(backwards)
        else:
            return None

    def conforms(node: str, values: Values, match: Match) -> bool:
        return all(one(node, values, match) for one in looks)

    return conforms


def _below(name: str, superclasses: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset([name, *(below for below, above in superclasses.items() if name in above)])


def _is(term: NamedNode, kinds: frozenset[str], match: Match) -> bool:
    return any(
        isinstance(found.object, NamedNode) and found.object.value in kinds for found in match(term, _TYPE, None)
    )


def _focus_is(kinds: frozenset[str]) -> Looks:
    spelled = frozenset(f"<{kind}>" for kind in kinds)
    return lambda node, values, match: not spelled.isdisjoint(values.get(f"<{RDF}type>", ()))


def _values_are(predicates: list[str], kinds: frozenset[str]) -> Looks:
    def conforms(node: str, values: Values, match: Match) -> bool:
        for predicate in predicates:
            for text in values.get(predicate, ()):
                if text[0] != "<" or not _is(NamedNode(text[1:-1]), kinds, match):
                    return False
        return True

    return conforms


def _inverse(reading: Reading, shape: Node, superclasses: Mapping[str, frozenset[str]]) -> Looks | None:
    """A property shape that counts, or types, what points at the focus node."""
    inner = list(reading.graph.objects(reading.path(shape), sh.inversePath))
    if len(inner) != 1 or not isinstance(inner[0], rdflib.URIRef):
        return None
    predicate, low, high = NamedNode(str(inner[0])), 0, None
    classes: list[frozenset[str]] = []
    for param, value in reading.params(shape):
        if param == sh.minCount:
            low = max(low, int(str(value)))
        elif param == sh.maxCount:
            high = int(str(value)) if high is None else min(high, int(str(value)))
        elif param == sh["class"]:
            classes.append(_below(str(value), superclasses))
        elif not (param == sh.nodeKind and value in (sh.IRI, sh.BlankNodeOrIRI, sh.IRIOrLiteral)):
            return None

    def conforms(node: str, values: Values, match: Match) -> bool:
        count = 0
        for found in match(None, predicate, NamedNode(node)):
            count += 1
            if high is not None and count > high:
                return False
            if any(not _is(found.subject, kinds, match) for kinds in classes):
                return False
            if high is None and not classes and count >= low:
                return True
        return count >= low

    return conforms
