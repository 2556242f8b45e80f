"""A CONSTRUCT query whose body is plain can be asked about one changed statement; any other is asked whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import rdflib
from pyoxigraph import Store
from rdflib.paths import Path
from rdflib.plugins.sparql import prepareQuery
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import Node

from ontology.facts import RDF, literal, split, string

ROWS = 1000  # bindings in one query
_TYPE = f"<{RDF}type>"
_PLAIN = {"BGP", "Join", "Filter", "Extend", "Project", "Union", "ConstructQuery", "ToMultiSet", "values"}
_IMPURE = {"Builtin_RAND", "Builtin_NOW", "Builtin_UUID", "Builtin_STRUUID", "Builtin_BNODE"}
_ORDERED = {"OrderBy", "Slice"}
_EXISTS = {"Builtin_EXISTS", "Builtin_NOTEXISTS"}

Pattern = tuple[str, str, str]
"""Subject, predicate, object: spelled text, or `?name`."""


class ConstructError(ValueError):
    """A query that cannot be a rule, and why."""


@dataclass(frozen=True)
class Construct:
    """One parsed CONSTRUCT query. `monotone` means more facts never give less, and each pattern can be bound.

    `certain` are the variables, as `?name`, that every solution binds. Only they can be given: a variable that a branch
    of a UNION or a failed BIND leaves open would take whatever it is given, and facts would follow from nothing.
    """

    text: str
    template: tuple[Pattern, ...]
    patterns: tuple[Pattern, ...]
    reads: frozenset[str]
    writes: frozenset[str]
    certain: frozenset[str]
    monotone: bool

    def with_any(self, statements: Iterable[str]) -> Iterator[str]:
        """Queries for what follows with the help of any of these statements."""
        return self._bound(self.patterns, statements)

    def deriving(self, statements: Iterable[str]) -> Iterator[str]:
        """Queries that give, at least, those of these statements that follow."""
        return self._bound(self.template, statements)

    def _bound(self, patterns: Iterable[Pattern], statements: Iterable[str]) -> Iterator[str]:
        lines = [split(line) for line in statements]
        asked: set[tuple[tuple[str, ...], tuple[str, ...]]] = set()
        for pattern in patterns:
            # A blank node in the body is a variable that no VALUES can name: it stays free.
            names = tuple(dict.fromkeys(part for part in pattern if part in self.certain))
            rows = []
            for line in lines:
                row = _unified(pattern, line, names)
                if row is not None and (names, row) not in asked:
                    asked.add((names, row))
                    rows.append(row)
            if not names and rows:
                yield self.text
                continue
            for start in range(0, len(rows), ROWS):
                values = " ".join(f"({' '.join(row)})" for row in rows[start : start + ROWS])
                yield f"{self.text}\nVALUES ({' '.join(names)}) {{ {values} }}"


def _unified(pattern: Pattern, line: tuple[str, str, str], names: tuple[str, ...]) -> tuple[str, ...] | None:
    bound: dict[str, str] = {}
    for part, term in zip(pattern, line, strict=True):
        if part.startswith("?"):
            if bound.setdefault(part, term) != term:
                return None
        elif part != term:
            return None
    return tuple(bound[name] for name in names)


def parse_construct(text: str) -> Construct:
    """The query as a rule's body. Raises ConstructError naming what a rule may not do."""
    try:
        Store().query(text)
    except SyntaxError as wrong:
        raise ConstructError(f"it is not SPARQL ({wrong}).") from wrong
    try:
        algebra = prepareQuery(text).algebra
    except Exception as wrong:  # rdflib raises whatever its parser raises
        raise ConstructError(f"it cannot be read as a rule ({type(wrong).__name__}: {wrong}).") from wrong
    if algebra.name != "ConstructQuery":
        raise ConstructError("it is not a CONSTRUCT query. A rule says what follows: CONSTRUCT { ... } WHERE { ... }.")
    found = _Found()
    found.walk(algebra.p)
    template = algebra.template or [triple for triple, _ in found.triples]
    for triple in template:
        if any(isinstance(part, rdflib.BNode) for part in triple):
            raise ConstructError("it makes blank nodes. Give each node an IRI: BIND(IRI(CONCAT(...)) AS ?node).")
    if found.names & _IMPURE:
        named = ", ".join(sorted(name.removeprefix("Builtin_") for name in found.names & _IMPURE))
        raise ConstructError(f"it uses {named}, which gives something else each time. A rule is a function of facts.")
    for name, why in (("Graph", "GRAPH: a rule reads what holds, whoever said it"), ("ServiceGraphPattern", "SERVICE")):
        if name in found.names:
            raise ConstructError(f"it uses {why}.")
    if found.names & _ORDERED:
        raise ConstructError("it uses ORDER BY, LIMIT or OFFSET, which pick by chance. Leave them out.")
    patterns = tuple(_pattern(triple) for triple, _ in found.triples)
    return Construct(
        text.rstrip() + "\n",
        tuple(_pattern(triple) for triple in template),
        patterns,
        found.reads(),
        frozenset(_token(*_pattern(triple)) for triple in template),
        _certain(algebra.p),
        found.names <= _PLAIN | {name for name in found.names if _harmless(name)} and not found.paths
        and not found.inner and not found.names & _EXISTS and not found.trailing,
    )  # fmt: skip


def _harmless(name: str) -> bool:
    return name.startswith("Builtin_") or name.endswith("Expression") or name in ("Function", "literal", "pname")


def _certain(node: Any) -> frozenset[str]:
    """The variables that every solution of a part of the algebra binds, or fewer."""
    if node.name == "BGP":
        return frozenset(f"?{part}" for triple in node.triples for part in triple if isinstance(part, rdflib.Variable))
    if node.name == "Join":
        return _certain(node.p1) | _certain(node.p2)
    if node.name == "Union":
        return _certain(node.p1) & _certain(node.p2)
    if node.name in ("Filter", "Extend", "Project"):
        return _certain(node.p)
    return frozenset()


class _Found:
    """What a walk through the algebra meets."""

    def __init__(self) -> None:
        self.triples: list[tuple[tuple[Any, Any, Any], None]] = []
        self.names: set[str] = set()
        self.paths: list[Path] = []
        self.inner = False
        self.trailing = False
        self._selects = 0

    def walk(self, node: Any) -> None:
        if isinstance(node, CompValue):
            self.names.add(node.name)
            if node.name == "Project":
                self._selects += 1
                self.inner = self._selects > 1
            if node.name == "ToMultiSet":
                self.trailing = True
            for key, value in node.items():
                if key in ("_vars", "PV", "datasetClause", "template"):
                    continue
                if key == "triples":
                    for triple in value:
                        self._triple(triple)
                else:
                    self.walk(value)
        elif isinstance(node, (list, tuple, set)):
            for one in node:
                self.walk(one)

    def _triple(self, triple: Any) -> None:
        if len(triple) == 3:
            if isinstance(triple[1], Path):
                self.paths.append(triple[1])
            else:
                self.triples.append(((triple[0], triple[1], triple[2]), None))
        else:
            for start in range(0, len(triple), 3):
                self._triple(triple[start : start + 3])

    def reads(self) -> frozenset[str]:
        out = {_token(*_pattern(triple)) for triple, _ in self.triples}
        for path in self.paths:
            out |= _inside(path)
        return frozenset(out)


def _inside(path: Any) -> set[str]:
    if isinstance(path, rdflib.URIRef):
        return {str(path)}
    if type(path).__name__ == "NegatedPath":
        return {"*"}
    out: set[str] = set()
    for value in (getattr(path, "args", None), getattr(path, "path", None), getattr(path, "arg", None)):
        if value is None:
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            out |= _inside(one)
    return out or {"*"}


def _token(subject: str, predicate: str, value: str) -> str:
    if predicate.startswith("?"):
        return "*"
    if predicate == _TYPE and value.startswith("<"):
        return f"{RDF}type {value[1:-1]}"
    return predicate[1:-1]


def _pattern(triple: tuple[Any, Any, Any]) -> Pattern:
    subject, predicate, value = (_term(part) for part in triple)
    return subject, predicate, value


def _term(node: Node) -> str:
    if isinstance(node, rdflib.Variable):
        return f"?{node}"
    if isinstance(node, rdflib.BNode):
        return f"?_{node}"
    if isinstance(node, rdflib.Literal):
        if node.language:
            return string(str(node), node.language)
        return string(str(node)) if node.datatype is None else literal(str(node), str(node.datatype))
    return f"<{node}>"
