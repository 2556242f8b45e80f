"""A template is statements with holes: a solution fills them, and what it cannot fill is not said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ontology.facts import RDF, literal, string
from sparql.syntax import tree

_FIRST, _REST, _NIL, _REIFIES = (f"<{RDF}{name}>" for name in ("first", "rest", "nil", "reifies"))


class Hole(NamedTuple):
    """A variable."""

    name: str


class Fresh(NamedTuple):
    """A blank node, another one for each solution."""

    key: str


class Nested(NamedTuple):
    """A triple as a term."""

    subject: Part
    predicate: Part
    object: Part


Part: TypeAlias = "str | Hole | Fresh | Nested"


class Line(NamedTuple):
    """One statement of a template; `graph` is a bare IRI, "" for the default graph, or a hole."""

    subject: Part
    predicate: Part
    object: Part
    graph: str | Hole


def lines(quads: Iterable[tree.Triples | tree.QuadsIn], graph: str = "") -> list[Line]:
    """The statements of a template; what names no graph is of `graph`. Raises ValueError for a literal that is none."""
    made = _Lines()
    for item in quads:
        if isinstance(item, tree.QuadsIn):
            made.graph = item.name.value if isinstance(item.name, tree.Iri) else Hole(item.name.name)
            for triples in item.triples:
                made.triples(triples)
        else:
            made.graph = graph
            made.triples(item)
    return made.out


def holes(template: Iterable[Line]) -> set[str]:
    """The variables of a template."""
    out: set[str] = set()
    for line in template:
        for part in line:
            out.update(_holes(part))
    return out


def _holes(part: Part) -> Iterator[str]:
    if isinstance(part, Hole):
        yield part.name
    elif isinstance(part, Nested):
        for inner in part:
            yield from _holes(inner)


def fresh(template: Iterable[Line]) -> bool:
    """Whether the template makes blank nodes."""
    return any(_fresh(part) for line in template for part in line)


def _fresh(part: Part) -> bool:
    return isinstance(part, Fresh) or (isinstance(part, Nested) and any(map(_fresh, part)))


def filled(
    template: Iterable[Line], solution: Mapping[str, str], blank: Callable[[str], str]
) -> Iterator[tuple[str, str]]:
    """(graph, statement) for each line the solution fills with what may stand there; `blank` names a blank node."""
    for line in template:
        subject = _fill(line.subject, solution, blank)
        predicate = _fill(line.predicate, solution, blank)
        value = _fill(line.object, solution, blank)
        graph = solution.get(line.graph.name) if isinstance(line.graph, Hole) else line.graph
        if subject is None or predicate is None or value is None or graph is None:
            continue
        if subject[0] == '"' or subject.startswith("<<") or predicate[0] != "<" or predicate.startswith("<<"):
            continue
        if isinstance(line.graph, Hole):
            if graph[0] != "<" or graph.startswith("<<"):
                continue
            graph = graph[1:-1]
        yield graph, f"{subject} {predicate} {value}"


def _fill(part: Part, solution: Mapping[str, str], blank: Callable[[str], str]) -> str | None:
    if isinstance(part, str):
        return part
    if isinstance(part, Hole):
        return solution.get(part.name)
    if isinstance(part, Fresh):
        return blank(part.key)
    inner = [_fill(one, solution, blank) for one in part]
    if None in inner or str(inner[0])[0] == '"' or str(inner[0]).startswith("<<") or str(inner[1])[0] != "<":
        return None
    return f"<<( {' '.join(map(str, inner))} )>>"


class _Lines:
    """Takes triples apart, a line a statement."""

    def __init__(self) -> None:
        self.out: list[Line] = []
        self.graph: str | Hole = ""
        self._made = 0

    def triples(self, node: tree.Triples) -> None:
        self._properties(self._term(node.subject), node.properties)

    def _properties(self, subject: Part, properties: Iterable[tree.Property]) -> None:
        for one in properties:
            verb = self._verb(one.verb)
            for said in one.objects:
                term = said.term if isinstance(said, tree.Annotated) else said
                value = self._term(term)
                self._say(subject, verb, value)
                for note in said.annotations if isinstance(said, tree.Annotated) else ():
                    about = self._term(note.reifier) if note.reifier is not None else self._fresh()
                    self._say(about, _REIFIES, Nested(subject, verb, value))
                    self._properties(about, note.properties)

    def _verb(self, verb: tree.Var | tree.Path) -> Part:
        if isinstance(verb, tree.Var):
            return Hole(verb.name)
        if isinstance(verb, tree.Iri):
            return f"<{verb.value}>"
        raise ValueError("A path cannot be written. Name one predicate.")

    def _term(self, term: tree.Term) -> Part:
        if isinstance(term, tree.Iri):
            return f"<{term.value}>"
        if isinstance(term, tree.Var):
            return Hole(term.name)
        if isinstance(term, tree.Literal):
            return _literal(term)
        if isinstance(term, tree.BlankNode):
            return self._fresh() if term.label is None else Fresh(term.label)
        if isinstance(term, tree.Described):
            about = self._fresh()
            self._properties(about, term.properties)
            return about
        if isinstance(term, tree.Collection):
            return self._list(term.items)
        if isinstance(term, tree.TripleTerm):
            return Nested(self._term(term.subject), self._term(term.predicate), self._term(term.object))
        reifier = self._term(term.reifier) if term.reifier is not None else self._fresh()
        told = Nested(self._term(term.subject), self._term(term.predicate), self._term(term.object))
        self._say(reifier, _REIFIES, told)
        return reifier

    def _list(self, items: tuple[tree.Term, ...]) -> Part:
        if not items:
            return _NIL
        cells: list[Part] = [self._fresh() for _ in items]
        for cell, item, after in zip(cells, items, [*cells[1:], _NIL], strict=True):
            self._say(cell, _FIRST, self._term(item))
            self._say(cell, _REST, after)
        return cells[0]

    def _fresh(self) -> Fresh:
        self._made += 1
        return Fresh(f" {self._made}")  # no label begins with a blank

    def _say(self, subject: Part, predicate: Part, value: Part) -> None:
        self.out.append(Line(subject, predicate, value, self.graph))


def _literal(term: tree.Literal) -> str:
    if term.language is not None:
        tail = f"--{term.direction}" if term.direction else ""
        return string(term.value, term.language) + tail
    return string(term.value) if term.datatype is None else literal(term.value, term.datatype)
