"""A check reads the graph it is handed, statement by statement, and stops when it reads too much."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

import rdflib
from pyoxigraph import NamedNode
from rdflib.store import Store
from rdflib.term import Node

from ontology.facts import RDFS
from ontology.graph import spelled, text_to_rdflib, to_oxigraph

Match = Callable[[Any, Any, Any], Iterable[Any]]
"""(subject, predicate, object), pyoxigraph terms or None, to triples or quads."""

SUBCLASS = rdflib.URIRef(RDFS + "subClassOf")


class TooMuch(Exception):
    """A check has read more statements than it may."""


class View(Store):
    """An rdflib store without statements of its own: each pattern is asked of `match` once.

    `superclasses` adds the loaded vocabularies' hierarchy, whether or not the graph holds it.
    """

    context_aware = False
    formula_aware = False
    graph_aware = False

    def __init__(self, match: Match, superclasses: Mapping[str, Iterable[str]], limit: int) -> None:
        super().__init__()
        self._match, self._superclasses, self._left = match, superclasses, limit
        self._seen: dict[tuple[Node | None, ...], list[tuple[Node, Node, Node]]] = {}
        self._prefixes: dict[str, rdflib.URIRef] = {}

    def triples(self, triple_pattern: Any, context: Any = None) -> Generator[Any, None, None]:
        for triple in self.found(*triple_pattern):
            yield triple, iter(())

    def found(self, s: Node | None, p: Node | None, o: Node | None) -> list[tuple[Node, Node, Node]]:
        """The statements of a pattern. Raises TooMuch."""
        key = (s, p, o)
        known = self._seen.get(key)
        if known is None:
            known = list(self._read(s, p, o))
            self._seen[key] = known
        return known

    def _read(self, s: Node | None, p: Node | None, o: Node | None) -> Iterator[tuple[Node, Node, Node]]:
        got: set[tuple[Node, Node, Node]] = set()
        if not isinstance(s, rdflib.Literal) and (p is None or isinstance(p, rdflib.URIRef)):
            for found in self._match(to_oxigraph(s), to_oxigraph(p), to_oxigraph(o)):
                self._left -= 1
                if self._left < 0:
                    raise TooMuch
                triple: tuple[Node, Node, Node] = (
                    rdflib.URIRef(found.subject.value)
                    if isinstance(found.subject, NamedNode)
                    else _node(found.subject),
                    rdflib.URIRef(found.predicate.value),
                    _node(found.object),
                )
                got.add(triple)
                yield triple
        if p == SUBCLASS:
            for triple in self._hierarchy(s, o):
                if triple not in got:
                    yield triple

    def _hierarchy(self, s: Node | None, o: Node | None) -> Iterator[tuple[Node, Node, Node]]:
        below = [str(s)] if s is not None else list(self._superclasses)
        for name in below:
            for other in self._superclasses.get(name, ()):
                if other != name and (o is None or str(o) == other):
                    yield rdflib.URIRef(name), SUBCLASS, rdflib.URIRef(other)

    def __len__(self, context: Any = None) -> int:
        return 0

    def bind(self, prefix: str, namespace: rdflib.URIRef, override: bool = True) -> None:
        self._prefixes[prefix] = namespace

    def namespace(self, prefix: str) -> rdflib.URIRef | None:
        return self._prefixes.get(prefix)

    def prefix(self, namespace: rdflib.URIRef) -> str | None:
        return next((prefix for prefix, known in self._prefixes.items() if known == namespace), None)

    def namespaces(self) -> Iterator[tuple[str, rdflib.URIRef]]:
        yield from self._prefixes.items()


def _node(term: Any) -> Node:
    return text_to_rdflib(spelled(term))
