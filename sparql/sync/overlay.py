"""The default graph as a commit in the making will leave it, for reading pattern by pattern."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from pyoxigraph import DefaultGraph, Triple

from ontology.facts import triples
from sparql.sync.known import Graph

_DEFAULT = DefaultGraph()


class Overlay:
    """The store's default graph, less `removed`, plus `added` (spelled statements)."""

    def __init__(self, store: Graph, removed: Collection[str], added: Collection[str]) -> None:
        self._store, self._removed = store, removed
        self._by_subject: dict[Any, list[Triple]] = {}
        self._by_object: dict[Any, list[Triple]] = {}
        self._by_predicate: dict[Any, list[Triple]] = {}
        self._all: list[Triple] = []
        for triple in triples(added):
            self._all.append(triple)
            self._by_subject.setdefault(triple.subject, []).append(triple)
            self._by_object.setdefault(triple.object, []).append(triple)
            self._by_predicate.setdefault(triple.predicate, []).append(triple)

    def match(self, s: Any = None, p: Any = None, o: Any = None) -> Iterator[Triple]:
        """The triples of a pattern; None is any."""
        removed = self._removed
        for quad in self._store.match(s, p, o, _DEFAULT):
            triple = quad.triple
            if not removed or f"{triple.subject} {triple.predicate} {triple.object}" not in removed:
                yield triple
        if not self._all:
            return
        if s is not None:
            found = self._by_subject.get(s, ())
        elif o is not None:
            found = self._by_object.get(o, ())
        elif p is not None:
            found = self._by_predicate.get(p, ())
        else:
            found = self._all
        for triple in found:
            if ((s is None or triple.subject == s) and (p is None or triple.predicate == p)
                    and (o is None or triple.object == o)):  # fmt: skip
                yield triple
