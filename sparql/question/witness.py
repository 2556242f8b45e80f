"""A row is proved by the statements that one way to reach it goes over: few, and enough to reach it again.

Of a pattern the statement it matched; of an OPTIONAL what it matched, if it did; of a UNION the side that matched; of a
path the edges of one shortest way; of FILTER EXISTS one match. What must not be there (NOT EXISTS, MINUS) has no
statements: it is noted. Of an aggregate every row of its group, up to a number that is said when it is reached.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyoxigraph import BlankNode, NamedNode, Triple
from pyoxigraph import Literal as Value

from sparql.question.answer import Graph, Result, Row
from sparql.question.answer import Term as Ground
from sparql.syntax import text, visible, walk
from sparql.syntax.tree import (
    Aggregate,
    Alternative,
    Annotated,
    As,
    Bind,
    Builtin,
    Collection,
    Construct,
    Described,
    Exists,
    Filter,
    Group,
    Inverse,
    Iri,
    Literal,
    Minus,
    Modifiers,
    Negated,
    Optional,
    Path,
    Property,
    Query,
    Repeat,
    Select,
    Sequence,
    SubSelect,
    Term,
    Triples,
    Unary,
    Union,
    Values,
    Var,
)
from sparql.syntax.tree import (
    BlankNode as BlankLabel,
)
from sparql.syntax.tree import (
    Graph as GraphPattern,
)

STATEMENTS = 200
"""How many statements one row rests on at most."""
SOLUTIONS = 200
"""How many rows of a group are gone through."""
STEPS = 40
"""How long a way a path goes at most, in statements."""
FRONTIER = 2_000
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"

Bound = Mapping[str, Ground]


class OutOfTime(Exception):
    """There was no time left for the proof."""


@dataclass
class Proof:
    """The statements that a row rests on, and what is to be said of them."""

    statements: dict[Triple, str | None] = field(default_factory=dict)
    """Each with the named graph it was asked of; None for the default graph."""
    notes: list[str] = field(default_factory=list)
    complete: bool = True

    def note(self, words: str, *, complete: bool = True) -> None:
        """Something is to be said, once."""
        if words not in self.notes:
            self.notes.append(words)
        self.complete = self.complete and complete

    def add(self, triple: Triple, graph: str | None) -> None:
        """A statement, while there is room."""
        if len(self.statements) >= STATEMENTS and triple not in self.statements:
            self.note(f"Only the first {STATEMENTS} statements are given.", complete=False)
            return
        self.statements.setdefault(triple, graph)


class Prover:
    """Proves rows of one query at one epoch, within a time."""

    def __init__(self, graph: Graph, query: Query, *, epoch: int | None, ends: float) -> None:
        self.graph, self.query, self.epoch, self.ends = graph, query, epoch, ends
        self._fresh = 0
        self._absent: tuple[str, ...] = ()
        """The columns that the row has nothing in."""

    def row(self, result: Result, number: int) -> Proof:
        """What supports one row of the result. Raises OutOfTime."""
        proof = Proof()
        where = self.query.where or Group(())
        if result.kind == "boolean":
            if str(getattr(result.rows[number][0], "value", "")).lower() != "true":
                proof.note("Nothing matches: that a statement is not there has no statement to prove it.")
                return proof
            self._group(where, {}, proof, None, 1)
            return proof
        bound = _bound(result, result.rows[number])
        self._absent = tuple(name for name in result.columns if name not in bound)
        if isinstance(self.query.form, Select):
            self._select(self.query.form, where, self.query.modifiers, self.query.values, bound, proof, None)
        else:
            self._made(bound, result.columns, where, proof)
        return proof

    def _made(self, bound: Bound, columns: tuple[str, ...], where: Group, proof: Proof) -> None:
        """What supports a statement that was constructed, or is part of a description."""
        row = tuple(bound[name] for name in columns)
        if isinstance(self.query.form, Construct):
            template = self.query.form.template
            patterns = template if template is not None else [one for one in where.elements if isinstance(one, Triples)]
            for pattern in (one for triples in patterns for one in _statements(triples)):
                found = _unified(pattern, row)
                if found is not None and self._matches(where, found, None):
                    self._group(where, found, proof, None, 1)
                    return
        triple = Triple(*row)  # type: ignore[arg-type]
        if any(True for _ in self._there([(triple, None)])):
            proof.add(triple, None)
        else:
            proof.note("The statement was made by the query, and how could not be found.", complete=False)

    # -- selects ------------------------------------------------------------------------------------------------------

    def _select(
        self, form: Select, where: Group, modifiers: Modifiers, values: Values | None, bound: Bound, proof: Proof,
        graph: str | None,
    ) -> None:  # fmt: skip
        aggregates = _aggregates(form, modifiers)
        named = {one.variable.name for one in form.items or () if not isinstance(one, Var)}
        keys = {name: term for name, term in bound.items() if name not in named}
        elements = where.elements
        if aggregates or modifiers.group_by:
            for one in modifiers.group_by:
                if isinstance(one, As) and one.variable.name in bound:
                    elements = (*elements, Bind(one.expression, one.variable))
                    keys[one.variable.name] = bound[one.variable.name]
            grouped = {one.name for one in modifiers.group_by if isinstance(one, Var)}
            grouped |= {one.variable.name for one in modifiers.group_by if isinstance(one, As)}
            keys = {name: term for name, term in keys.items() if name in grouped}
            self._group(Group(elements), keys, proof, graph, SOLUTIONS, values)
            return
        for item in form.items or ():
            # What a BIND-like column comes to has to be the same again.
            if not isinstance(item, Var) and item.variable.name in bound:
                elements = (*elements, Bind(item.expression, item.variable))
                keys[item.variable.name] = bound[item.variable.name]
        if modifiers.order_by and modifiers.limit is not None:
            proof.note("That the others come after it is seen by comparing them, and not in these statements.")
        self._group(Group(elements), keys, proof, graph, 1, values)

    def _group(
        self, group: Group, bound: Bound, proof: Proof, graph: str | None, most: int, values: Values | None = None
    ) -> None:
        """The statements of the solutions of a group that agree with what is bound: of the first `most`."""
        absent, self._absent = self._absent, ()
        plain = self._simple(group)
        names = sorted(visible(plain))
        unbound = tuple(Filter(Unary("!", Builtin("BOUND", (Var(name),)))) for name in absent if name in names)
        asked = Group((*plain.elements, *unbound))
        found = self._solutions(asked, bound, names, graph, most + 1, values)
        if len(found) > most > 1:
            proof.note(f"Only {most} of the rows it was counted or summed over are given.", complete=False)
        if not found and most > 1:
            proof.note("It is counted or summed over nothing, which has no statement to prove it.")
        elif not found:
            proof.note("The row could not be reached again.", complete=False)
        for solution in found[:most]:
            self._elements(plain, {**bound, **solution}, proof, graph)

    def _solutions(
        self, group: Group, bound: Bound, names: list[str], graph: str | None, most: int, values: Values | None
    ) -> list[dict[str, Ground]]:
        given = [(name, term) for name, term in bound.items() if not _blank(term)]
        # A variable that a solution may leave open would take what VALUES gives it.
        certain = {
            node.name
            for element in group.elements
            if isinstance(element, Triples)
            for node in walk(element)
            if isinstance(node, Var)
        }
        sure = [(name, term) for name, term in given if name in certain]
        elements: tuple[Any, ...] = group.elements
        if sure:
            values_of = Values(tuple(Var(name) for name, _ in sure), (tuple(_node(term) for _, term in sure),))
            elements = (*elements, values_of)
        elements = (
            *elements,
            *(Filter(Builtin("SAMETERM", (Var(name), _node(term)))) for name, term in given if name not in certain),
        )
        inside = Group(elements)
        if graph is not None:
            inside = Group((GraphPattern(Iri(graph), inside),))
        columns = tuple(Var(name) for name in names)
        tree = Query(
            (), Select(columns, "DISTINCT") if columns else Select(None), self.query.dataset, inside,
            Modifiers(limit=most), values,
        )  # fmt: skip
        found = self._ask(text(tree), most)
        return [_bound(found, row) for row in found.rows]

    def _ask(self, query: str, rows: int) -> Result:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise OutOfTime
        return self.graph.query(query, seconds=left, rows=rows, epoch=self.epoch)

    # -- elements -----------------------------------------------------------------------------------------------------

    def _elements(self, group: Group, bound: Bound, proof: Proof, graph: str | None) -> None:
        candidates: list[tuple[Triple, str | None]] = []
        for element in group.elements:
            self._element(element, bound, proof, graph, candidates)
        for triple in self._there(candidates):
            proof.add(*triple)

    def _element(
        self, element: object, bound: Bound, proof: Proof, graph: str | None,
        candidates: list[tuple[Triple, str | None]],
    ) -> None:  # fmt: skip
        if isinstance(element, Triples):
            for subject, verb, value in _statements(element):
                self._statement(subject, verb, value, bound, proof, graph, candidates)
        elif isinstance(element, (Group, Optional)):
            inner = element if isinstance(element, Group) else element.group
            for one in inner.elements:
                self._element(one, bound, proof, graph, candidates)
        elif isinstance(element, Union):
            for side in element.groups:
                if self._matches(side, bound, graph):
                    self._elements(side, bound, proof, graph)
                    return
        elif isinstance(element, GraphPattern):
            name = _ground(element.name, bound)
            if isinstance(name, NamedNode):
                self._elements(element.group, bound, proof, name.value)
        elif isinstance(element, SubSelect):
            inner_bound = {name: bound[name] for name in visible(element) if name in bound}
            self._select(element.select, element.where, element.modifiers, element.values, inner_bound, proof, graph)
        elif isinstance(element, Minus):
            proof.note("That nothing matches the MINUS has no statement to prove it.")
        elif isinstance(element, Filter):
            self._filter(element.condition, bound, proof, graph)

    def _filter(self, condition: object, bound: Bound, proof: Proof, graph: str | None) -> None:
        for node in walk(condition, into_groups=False):
            if not isinstance(node, Exists):
                continue
            if node.negated:
                proof.note("That nothing matches the NOT EXISTS has no statement to prove it.")
            elif self._matches(node.group, bound, graph):
                inside = _variables(node.group)
                self._group(node.group, {name: bound[name] for name in bound if name in inside}, proof, graph, 1)

    def _matches(self, group: Group, bound: Bound, graph: str | None) -> bool:
        plain = self._simple(group)
        mine = {name: term for name, term in bound.items() if name in _variables(plain)}
        return bool(self._solutions(plain, mine, sorted(_variables(plain)), graph, 1, None))

    def _statement(
        self, subject: Term, verb: Var | Path, value: Term, bound: Bound, proof: Proof, graph: str | None,
        candidates: list[tuple[Triple, str | None]],
    ) -> None:  # fmt: skip
        start, end = _ground(subject, bound), _ground(value, bound)
        if start is None or end is None:
            return
        if isinstance(verb, (Var, Iri)):
            predicate = _ground(verb, bound)
            if isinstance(predicate, NamedNode) and not isinstance(start, Value):
                candidates.append((Triple(start, predicate, end), graph))
            return
        way = self._way(start, verb, end, graph, proof)
        for triple in way or ():
            proof.add(triple, graph)

    def _there(self, candidates: list[tuple[Triple, str | None]]) -> Iterator[tuple[Triple, str | None]]:
        """Those that hold: an OPTIONAL's may not."""
        for graph in dict.fromkeys(graph for _, graph in candidates):
            mine = list(dict.fromkeys(triple for triple, where in candidates if where == graph))
            blank = [one for one in mine if _blank(one.subject) or _blank(one.object)]
            rows = tuple(
                (_node(one.subject), Iri(one.predicate.value), _node(one.object)) for one in mine if one not in blank
            )
            if rows:
                held = self._held(rows, graph)
                for one in mine:
                    if one in held:
                        yield one, graph
            for one in blank:
                yield one, graph

    def _held(self, rows: tuple[tuple[Any, ...], ...], graph: str | None) -> set[Triple]:
        s, p, o = Var("s"), Var("p"), Var("o")
        pattern: Any = Triples(s, (Property(p, (o,)),))
        if graph is not None:
            pattern = GraphPattern(Iri(graph), Group((pattern,)))
        tree = Query((), Select((s, p, o), "DISTINCT"), self.query.dataset, Group((Values((s, p, o), rows), pattern)))
        found = self._ask(text(tree), len(rows))
        return {Triple(*row) for row in found.rows if None not in row}  # type: ignore[arg-type]

    # -- paths --------------------------------------------------------------------------------------------------------

    def _way(self, start: Ground, path: Path, end: Ground, graph: str | None, proof: Proof) -> list[Triple] | None:
        """The statements of one shortest way from start to end along a path; None where there is none."""
        if isinstance(path, Iri):
            if isinstance(start, (Value, Triple)):
                return None
            triple = Triple(start, NamedNode(path.value), end)
            return [triple] if list(self._there([(triple, graph)])) else None
        if isinstance(path, Inverse):
            return self._way(end, path.path, start, graph, proof)
        if isinstance(path, Alternative):
            ways = [way for one in path.paths if (way := self._way(start, one, end, graph, proof)) is not None]
            return min(ways, key=len, default=None)
        if isinstance(path, Sequence):
            first, rest = path.paths[0], path.paths[1:]
            after: Path = rest[0] if len(rest) == 1 else Sequence(rest)
            for middle in self._next([start], first, graph, towards=(after, end)).get(start, ()):
                one = self._way(start, first, middle, graph, proof)
                other = self._way(middle, after, end, graph, proof)
                if one is not None and other is not None:
                    return [*one, *other]
            return None
        if isinstance(path, Repeat):
            if path.times in "*?" and start == end:
                return []
            if path.times == "?":
                return self._way(start, path.path, end, graph, proof)
            return self._walk(start, path.path, end, graph, proof)
        return self._negated(start, path, end, graph)

    def _walk(self, start: Ground, step: Path, end: Ground, graph: str | None, proof: Proof) -> list[Triple] | None:
        """Breadth first, so the way is a shortest one."""
        before: dict[Ground, Ground] = {}
        here: list[Ground] = [start]
        seen: set[Ground] = set()
        for _ in range(STEPS):
            there: list[Ground] = []
            for node, reached in self._next(here, step, graph).items():
                for one in reached:
                    if one not in before and (one not in seen or one == end):
                        before[one] = node
                        there.append(one)
            if end in before:
                return self._back(start, step, end, before, graph, proof)
            seen.update(here)
            here = there[:FRONTIER]
            if not here:
                return None
        proof.note(f"The way is longer than {STEPS} steps and is not given.", complete=False)
        return None

    def _back(
        self, start: Ground, step: Path, end: Ground, before: Mapping[Ground, Ground], graph: str | None, proof: Proof
    ) -> list[Triple]:
        found: list[Triple] = []
        here = end
        for _ in range(STEPS + 1):
            last = before[here]
            found = [*(self._way(last, step, here, graph, proof) or ()), *found]
            if last == start:
                break
            here = last
        return found

    def _next(
        self, nodes: list[Ground], path: Path, graph: str | None, towards: tuple[Path, Ground] | None = None
    ) -> dict[Ground, list[Ground]]:
        """Where a path leads from each node, in one question; `towards` keeps what the rest of a path leads on from."""
        usable = [node for node in nodes if not _blank(node)]
        if not usable:
            return {}
        s, o = Var("s"), Var("o")
        patterns: list[Any] = [Triples(s, (Property(path, (o,)),))]
        if towards is not None and not _blank(towards[1]):
            patterns.append(Triples(o, (Property(towards[0], (_node(towards[1]),)),)))
        inside = Group(tuple(patterns))
        if graph is not None:
            inside = Group((GraphPattern(Iri(graph), inside),))
        values = Values((s,), tuple((_node(node),) for node in usable))
        tree = Query((), Select((s, o), "DISTINCT"), self.query.dataset, Group((values, *inside.elements)))
        found: dict[Ground, list[Ground]] = {}
        for row in self._ask(text(tree), FRONTIER).rows:
            if row[0] is not None and row[1] is not None:
                found.setdefault(row[0], []).append(row[1])
        return found

    def _negated(self, start: Ground, path: Negated, end: Ground, graph: str | None) -> list[Triple] | None:
        forward = [one.value for one in path.paths if isinstance(one, Iri)]
        backward = [one.path.value for one in path.paths if isinstance(one, Inverse) and isinstance(one.path, Iri)]
        for subject, value, without, wanted in (
            (start, end, forward, bool(forward) or not backward),
            (end, start, backward, bool(backward)),
        ):
            if not wanted or isinstance(subject, (Value, Triple)) or _blank(subject) or _blank(value):
                continue
            pattern: Any = Triples(_node(subject), (Property(Var("p"), (_node(value),)),))
            if graph is not None:
                pattern = GraphPattern(Iri(graph), Group((pattern,)))
            tree = Query((), Select((Var("p"),), "DISTINCT"), self.query.dataset, Group((pattern,)))
            for row in self._ask(text(tree), 100).rows:
                if isinstance(row[0], NamedNode) and row[0].value not in without:
                    return [Triple(subject, row[0], value)]
        return None

    # -- simpler trees ------------------------------------------------------------------------------------------------

    def _simple(self, group: Group) -> Group:
        """The group with a name for every blank node of it, and sequences as single steps."""
        names: dict[str, Var] = {}

        def name(label: str | None) -> Var:
            if label is not None and label in names:
                return names[label]
            self._fresh += 1
            made = Var(f"w{self._fresh}w")
            if label is not None:
                names[label] = made
            return made

        return Group(tuple(one for element in group.elements for one in self._flat(element, name)))

    def _flat(self, element: Any, name: Any) -> Iterator[Any]:
        if isinstance(element, Triples):
            out: list[Any] = []
            subject = self._term(element.subject, name, out)
            self._properties(subject, element.properties, name, out)
            yield from out
        elif isinstance(element, Group):
            yield Group(tuple(one for inner in element.elements for one in self._flat(inner, name)))
        elif isinstance(element, (Optional, GraphPattern)):
            yield replace(
                element, group=Group(tuple(one for inner in element.group.elements for one in self._flat(inner, name)))
            )
        elif isinstance(element, Union):
            yield Union(
                tuple(
                    Group(tuple(one for inner in side.elements for one in self._flat(inner, name)))
                    for side in element.groups
                )
            )
        else:
            yield element

    def _properties(self, subject: Term, properties: Iterable[Property], name: Any, out: list[Any]) -> None:
        for one in properties:
            for said in one.objects:
                value = self._term(said.term if isinstance(said, Annotated) else said, name, out)
                here, verb = subject, one.verb
                while isinstance(verb, Sequence):
                    middle = name(None)
                    out.append(Triples(here, (Property(verb.paths[0], (middle,)),)))
                    here, rest = middle, verb.paths[1:]
                    verb = rest[0] if len(rest) == 1 else Sequence(rest)
                out.append(Triples(here, (Property(verb, (value,)),)))

    def _term(self, term: Term, name: Any, out: list[Any]) -> Term:
        if isinstance(term, BlankLabel):
            return name(term.label)  # type: ignore[no-any-return]
        if isinstance(term, Described):
            made = name(None)
            self._properties(made, term.properties, name, out)
            return made  # type: ignore[no-any-return]
        if isinstance(term, Collection) and term.items:
            cells = [name(None) for _ in term.items]
            for cell, item, after in zip(cells, term.items, [*cells[1:], Iri(_RDF + "nil")], strict=True):
                inner = self._term(item, name, out)
                out.append(
                    Triples(cell, (Property(Iri(_RDF + "first"), (inner,)), Property(Iri(_RDF + "rest"), (after,))))
                )
            return cells[0]  # type: ignore[no-any-return]
        return term


def _unified(pattern: tuple[Term, Var | Path, Term], row: tuple[Ground, ...]) -> dict[str, Ground] | None:
    """What the variables of a pattern are for it to be the row; None where it cannot be."""
    found: dict[str, Ground] = {}
    for part, term in zip(pattern, row, strict=True):
        if isinstance(part, Var):
            if found.setdefault(part.name, term) != term:
                return None
        elif isinstance(part, (BlankLabel, Described)):
            continue
        elif _ground(part, {}) != term:
            return None
    return found


def _statements(element: Triples) -> Iterator[tuple[Term, Var | Path, Term]]:
    for one in element.properties:
        for said in one.objects:
            yield element.subject, one.verb, said.term if isinstance(said, Annotated) else said


def _aggregates(form: Select, modifiers: Modifiers) -> bool:
    items = [one.expression for one in form.items or () if not isinstance(one, Var)]
    parts = (*items, *modifiers.having, *(one.expression for one in modifiers.order_by))
    return any(isinstance(node, Aggregate) for part in parts for node in walk(part, into_groups=False))


def _variables(group: Group) -> set[str]:
    return {node.name for node in walk(group) if isinstance(node, Var)}


def _bound(result: Result, row: Row) -> dict[str, Ground]:
    return {name: term for name, term in zip(result.columns, row, strict=True) if term is not None}


def _ground(term: object, bound: Bound) -> Ground | None:
    """The term with its variables bound; None while one is not."""
    if isinstance(term, Var):
        return bound.get(term.name)
    if isinstance(term, Iri):
        return NamedNode(term.value)
    if isinstance(term, Literal):
        if term.language is not None:
            return Value(term.value, language=term.language)
        return Value(term.value) if term.datatype is None else Value(term.value, datatype=NamedNode(term.datatype))
    if isinstance(term, Collection) and not term.items:
        return NamedNode(_RDF + "nil")
    return None


def _node(term: Ground) -> Any:
    """A ground term as the syntax tree has it."""
    if isinstance(term, NamedNode):
        return Iri(term.value)
    if isinstance(term, Value):
        if term.language is not None:
            return Literal(term.value, language=term.language)
        plain = term.datatype.value == "http://www.w3.org/2001/XMLSchema#string"
        return Literal(term.value, None if plain else term.datatype.value)
    raise TypeError(f"{term} has no place in a query.")


def _blank(term: object) -> bool:
    """Whether a term cannot be named in a query."""
    return isinstance(term, (BlankNode, Triple))
