"""A thing is meant by its name, by a part of its name that no other has, or by what only it says."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from pyoxigraph import Literal, NamedNode

from sparql.index.folding import fold, humps, tokens
from sparql.question.answer import Graph, Term
from sparql.question.planner.words import singular
from sparql.question.schema import Schema

MOST_NAMES, MOST_VALUES = 200_000, 200_000
LONGEST = 80
"""Characters of a value that a question can hold."""
SECONDS = 30.0
AMBIGUOUS = 6
"""A part of a name that more things than this have means none of them."""
_XSD = "http://www.w3.org/2001/XMLSchema#"
_TEXT = (f"{_XSD}string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString")
POINTED = "SELECT ?o (COUNT(*) AS ?n) { ?s ?p ?o FILTER(isIRI(?o)) } GROUP BY ?o"
_NAMING = ("label", "name", "title", "preflabel", "altlabel", "handle")


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that a span may mean; `score` is 1 for its whole name."""

    iri: str
    label: str
    classes: tuple[str, ...]
    score: float
    incoming: int = 0
    """How many statements point to it."""


@dataclass(frozen=True, slots=True)
class Value:
    """A literal that a span may mean, as `property` of the instances of `class_` has it."""

    class_: str
    property: str
    term: Term
    score: float


class Lookup(Protocol):
    """Where the names and values of things are looked up."""

    def entities(self, text: str, most: int = 5) -> Sequence[Entity]:
        """The things that `text` may name, the best first."""
        ...

    def values(self, text: str, most: int = 8) -> Sequence[Value]:
        """The literals that `text` is, the commonest first."""
        ...


class Names:
    """The names and short values of one graph at one commit, in memory."""

    def __init__(self, schema: Schema) -> None:
        self.commit = schema.commit
        self.whole = True
        """Whether all names and values are there: a larger graph has more than are kept."""
        self._labels: list[str] = []
        self._iris: list[str] = []
        self._known: dict[str, str] = {}
        self._classes: list[tuple[str, ...]] = []
        self._incoming: list[int] = []
        self._sizes: list[list[int]] = []
        self._exact: dict[tuple[str, ...], set[int]] = defaultdict(set)
        self._tokens: dict[str, set[int]] = defaultdict(set)
        self._values: dict[tuple[str, ...], list[Value]] = defaultdict(list)

    def add(self, iri: str, label: str, classes: tuple[str, ...], names: Iterable[str], incoming: int = 0) -> None:
        """A thing with all its names."""
        at = len(self._iris)
        self._iris.append(iri)
        self._known[iri] = label
        self._labels.append(label)
        self._classes.append(classes)
        self._incoming.append(incoming)
        sizes = []
        for spelled in dict.fromkeys(one for name in names for one in (name, humps(name))):
            parts = split(spelled)
            if not parts:
                continue
            self._exact[parts].add(at)
            sizes.append(len(set(parts)))
            for part in parts:
                self._tokens[part].add(at)
        self._sizes.append(sizes or [1])

    def say(self, value: Value) -> None:
        """A literal that is said of the instances of a class."""
        parts = split(str(getattr(value.term, "value", "")))
        if parts:
            self._values[parts].append(value)

    def entities(self, text: str, most: int = 5) -> list[Entity]:
        """See `Lookup`."""
        parts = split(text)
        if not parts:
            return []
        whole = self._exact.get(parts, set())
        if whole:
            # A name that a class has once means that thing; one of many of a class means none of them alone.
            often = Counter(self._classes[at] for at in whole)
            scored = [self._entity(at, 1.0 if often[self._classes[at]] == 1 else 0.85) for at in whole]
            return sorted(scored, key=lambda one: (-one.score, -one.incoming, one.iri))[:most]
        sets = [self._tokens.get(part) for part in set(parts)]
        if any(one is None for one in sets):
            return []
        found = set.intersection(*(one for one in sets if one is not None))
        if not found or len(found) > AMBIGUOUS or all(len(part) < 2 for part in parts):
            return []
        size = len(set(parts))
        scored = [
            self._entity(at, (0.55 + 0.35 * size / max(size, min(self._sizes[at]))) * (1.0 if len(found) == 1 else 0.8))
            for at in found
        ]
        return sorted(scored, key=lambda one: (-one.score, -one.incoming, one.iri))[:most]

    def knows(self, iri: str) -> bool:
        """Whether a thing of that IRI is there."""
        return iri in self._known

    def label(self, iri: str) -> str | None:
        """What a thing is called; None where nothing is known of it."""
        return self._known.get(iri)

    def values(self, text: str, most: int = 8) -> list[Value]:
        """See `Lookup`."""
        return sorted(self._values.get(split(text), ()), key=lambda one: (-one.score, one.class_, one.property))[:most]

    def _entity(self, at: int, score: float) -> Entity:
        return Entity(self._iris[at], self._labels[at], self._classes[at], score, self._incoming[at])


def split(text: str) -> tuple[str, ...]:
    """A name's tokens in order, each as one of its kind: `Production` is not `Products`."""
    return tuple(singular(one) for one in tokens(text))


def names_of(graph: Graph, schema: Schema) -> Names:
    """The names and values of the graph, at its newest commit. Raises QueryFailed as the graph does."""
    found = Names(schema)
    naming = [iri for iri, one in schema.properties.items() if fold(_tail(iri)).replace("_", "") in _NAMING]
    texts: dict[str, list[str]] = defaultdict(list)
    if naming:
        listed = " ".join(str(NamedNode(iri)) for iri in naming)
        result = graph.query(
            f"SELECT DISTINCT ?s ?o {{ VALUES ?p {{ {listed} }} ?s ?p ?o FILTER(isIRI(?s)) }}",
            seconds=SECONDS,
            rows=MOST_NAMES,
        )
        found.whole = not result.truncated
        for row in result.rows:
            if isinstance(row[1], Literal):
                texts[_value(row[0])].append(row[1].value)
    classes: dict[str, list[str]] = defaultdict(list)
    listed = " ".join(str(NamedNode(iri)) for iri, one in schema.classes.items() if one.instances)
    if listed:
        typed = graph.query(f"SELECT ?s ?c {{ VALUES ?c {{ {listed} }} ?s a ?c }}", seconds=SECONDS, rows=MOST_NAMES)
        found.whole = found.whole and not typed.truncated
        for row in typed.rows:
            if isinstance(row[0], NamedNode):
                classes[row[0].value].append(_value(row[1]))
    pointed = graph.query(POINTED, seconds=SECONDS, rows=MOST_NAMES)
    incoming = {_value(row[0]): int(_value(row[1])) for row in pointed.rows}
    for iri in sorted(classes):
        said = texts.get(iri, [])
        # The last part of an IRI is a name too, and all that a thing without a label has.
        found.add(iri, said[0] if said else _tail(iri), tuple(sorted(classes[iri])), [*said, _tail(iri)],
                  incoming.get(iri, 0))  # fmt: skip
    for value in _literals(graph, schema):
        found.say(value)
    return found


def _literals(graph: Graph, schema: Schema) -> Iterator[Value]:
    left = MOST_VALUES
    for use in schema.uses:
        if not any(one.literal and one.iri in _TEXT for one in use.ranges) or left <= 0:
            continue
        class_, property = (str(NamedNode(one)) for one in (use.class_, use.property))
        text = (
            f"SELECT DISTINCT ?o {{ ?s a {class_} ; {property} ?o"
            f" FILTER(isLiteral(?o) && STRLEN(STR(?o)) <= {LONGEST}) }}"
        )
        rows = graph.query(text, seconds=SECONDS, rows=left).rows
        left -= len(rows)
        # A value that many share says more than one that is somebody's name.
        share = 1.0 - use.distinct / max(1, use.statements)
        for row in rows:
            if row[0] is not None:
                yield Value(use.class_, use.property, row[0], 0.6 + 0.35 * share if share < 0.2 else 0.82 + 0.1 * share)


def _tail(iri: str) -> str:
    return unquote(iri.rstrip("/#").replace("#", "/").rpartition("/")[2])


def _value(term: object) -> str:
    return str(getattr(term, "value", term))
