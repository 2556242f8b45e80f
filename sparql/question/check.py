"""A query is looked at before it runs: that it only reads, that what it names is there, and that the graph speaks so.

An error is what would make the answer wrong or forbidden; a warning is what makes an empty answer likely. Both say what
there is instead. Nothing is run but `known`, which says whether the graph has a thing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from pyoxigraph import Literal as Value
from pyoxigraph import NamedNode
from rapidfuzz import fuzz, process

from sparql.question.planner.roads import Roads
from sparql.question.repair import is_update
from sparql.question.schema import Schema, Use
from sparql.syntax import SyntaxProblem, parse, services, text, walk
from sparql.syntax.tree import (
    Annotated,
    Ask,
    Graph,
    Inverse,
    Iri,
    Literal,
    Query,
    Term,
    Triples,
    Var,
)

ROWS = 1_000
"""How many rows an answer to a question has at most."""
ERROR, WARNING = "error", "warning"
NEAREST = 3
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_STANDARD = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#", _XSD,
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#", "http://www.w3.org/2005/xpath-functions#",
)  # fmt: skip
_NUMBERS = frozenset(_XSD + name for name in ("integer", "decimal", "double", "float", "int", "long", "short", "byte"))
_TEXTS = frozenset({_XSD + "string", "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"})


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where it stands in the text, and what there is instead."""

    severity: str
    code: str
    message: str
    span: tuple[int, int]
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A query as it may run, its rows limited; or None where an error forbids it."""

    sparql: str | None
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(one for one in self.findings if one.severity == ERROR)


def check(
    query: str,
    schema: Schema,
    *,
    known: Callable[[str], bool],
    base: str = "http://localhost/",
    rows: int = ROWS,
    forbidden: tuple[str, ...] = (),
) -> Checked:
    """What is to be said of a query before it runs. `forbidden` are beginnings of graph names nobody may ask of."""
    try:
        tree = parse(query, prefixes=dict(schema.prefixes), base=base, only="query")
    except SyntaxProblem as wrong:
        if is_update(query, base):
            return Checked(None, (Finding(ERROR, "writes", "It is an update. Write a SELECT or ASK query.", (0, 0)),))
        return Checked(None, (Finding(ERROR, "syntax", str(wrong), (wrong.offset, wrong.offset)),))
    assert isinstance(tree, Query)
    findings = [*_allowed(tree, forbidden), *_Terms(tree, schema, known).findings()]
    if any(one.severity == ERROR for one in findings):
        return Checked(None, tuple(findings))
    return Checked(text(limited(tree, rows)), tuple(findings))


def limited(tree: Query, rows: int) -> Query:
    """The query with at most `rows` rows; a smaller limit of its own stays."""
    if isinstance(tree.form, Ask):
        return tree
    own = tree.modifiers.limit
    return replace(tree, modifiers=replace(tree.modifiers, limit=rows if own is None else min(own, rows)))


def _allowed(tree: Query, forbidden: tuple[str, ...]) -> Iterator[Finding]:
    for one in services(tree):
        yield Finding(ERROR, "calls-out", "SERVICE is not allowed in a question. Ask this graph only.", one.span)
    for part in tree.dataset:
        yield Finding(ERROR, "dataset", "FROM is not allowed in a question. Ask the graph as it is.", part.span)
    for node in walk(tree):
        if (
            isinstance(node, Graph)
            and isinstance(node.name, Iri)
            and node.name.value.startswith(forbidden or ("\x00",))
        ):
            yield Finding(ERROR, "system-graph", f"<{node.name.value}> is not there to be asked.", node.name.span)


class _Terms:
    """What a query says, against what the graph says."""

    def __init__(self, tree: Query, schema: Schema, known: Callable[[str], bool]) -> None:
        self.tree, self.schema, self.known = tree, schema, known
        self.roads = Roads(schema)
        self.triples = list(_triples(tree))
        self.classes: dict[str, set[str]] = defaultdict(set)
        """The classes that variables are said to have."""
        for subject, predicate, value in self.triples:
            if isinstance(subject, Var) and predicate.value == _TYPE and isinstance(value, Iri):
                self.classes[subject.name].add(value.value)

    def findings(self) -> Iterator[Finding]:
        """All findings, in the order of the text."""
        found = [*self._unknown(), *(one for triple in self.triples for one in self._spoken(*triple))]
        yield from sorted(found, key=lambda one: (one.span, one.code))

    # -- names --------------------------------------------------------------------------------------------------------

    def _unknown(self) -> Iterator[Finding]:
        predicates = {triple[1] for triple in self.triples}
        verbs = {one.value for one in predicates}
        kinds = {value.value for _, verb, value in self.triples if verb.value == _TYPE and isinstance(value, Iri)}
        seen = set()
        for node in walk(self.tree):
            if not isinstance(node, Iri) or node.value in seen or node.value.startswith(_STANDARD):
                continue
            seen.add(node.value)
            if node.value in self.schema.classes or node.value in self.schema.properties or self.known(node.value):
                continue
            what = "property" if node.value in verbs else "class" if node.value in kinds else "thing"
            nearest = self._nearest(node.value, what)
            hint = f" Near it are: {', '.join(nearest)}." if nearest else ""
            message = f"The graph has no {what} <{node.value}>.{hint}"
            yield Finding(ERROR, f"unknown-{what}", message, node.span, nearest)

    def _nearest(self, iri: str, what: str) -> tuple[str, ...]:
        choices: Mapping[str, str]
        if what == "property":
            choices = {one: f"{_tail(one)} {named.name.label}" for one, named in self.schema.properties.items()}
        elif what == "class":
            choices = {one: f"{_tail(one)} {named.name.label}" for one, named in self.schema.classes.items()}
        else:
            return ()
        found = process.extract(_tail(iri), choices, scorer=fuzz.WRatio, limit=NEAREST, score_cutoff=55)
        return tuple(f"<{key}>" for _, _, key in found)

    # -- how the graph speaks -----------------------------------------------------------------------------------------

    def _spoken(self, subject: Term, predicate: Iri, value: Term) -> Iterator[Finding]:
        if predicate.value == _TYPE or predicate.value not in self.schema.properties:
            return
        uses = [use for use in self.schema.uses if use.property == predicate.value and use.statements]
        mine = self._of(subject)
        theirs = self._of(value)
        fitting = [use for use in uses if not mine or use.class_ in mine]
        if mine and uses and not fitting:
            yield self._misused(predicate, subject, mine, theirs, uses)
            return
        if isinstance(value, Literal):
            yield from self._literal(predicate, value, fitting)
        elif theirs and fitting and not any(self._leads(use, theirs) for use in fitting):
            reverse = [use for use in uses if use.class_ in theirs and (not mine or self._leads(use, mine))]
            if reverse:
                yield self._turned(predicate)
            elif all(one.literal for use in fitting for one in use.ranges):
                message = f"The values of <{predicate.value}> are literals, not things of a class."
                yield Finding(WARNING, "literal-range", message, predicate.span)

    def _of(self, term: Term) -> frozenset[str]:
        """The classes that a term is said to have, with their subclasses and what they are subclasses of."""
        if not isinstance(term, Var) or not self.classes.get(term.name):
            return frozenset()
        found = set(self.roads.families(self.classes[term.name]))
        for one in self.classes[term.name]:
            above = self.schema.classes.get(one)
            found |= set(above.above) if above is not None else set()
        return frozenset(found)

    def _leads(self, use: Use, classes: frozenset[str]) -> bool:
        return any(not one.literal and one.iri in classes for one in use.ranges)

    def _misused(
        self, predicate: Iri, subject: Term, mine: frozenset[str], theirs: frozenset[str], uses: list[Use]
    ) -> Finding:
        if any(self._leads(use, mine) and (not theirs or use.class_ in theirs) for use in uses):
            return self._turned(predicate)
        assert isinstance(subject, Var)
        said = sorted(self.classes[subject.name])[0]
        have = {use.property for use in self.roads.uses(self.classes[subject.name])}
        choices = {
            one: f"{_tail(one)} {self.schema.properties[one].name.label}"
            for one in sorted(have & set(self.schema.properties))
        }
        found = process.extract(_tail(predicate.value), choices, scorer=fuzz.WRatio, limit=NEAREST)
        nearest = tuple(f"<{key}>" for _, _, key in found)
        message = f"No <{said}> has <{predicate.value}>. It has: {', '.join(nearest)}."
        return Finding(WARNING, "not-of-class", message, predicate.span, nearest)

    def _turned(self, predicate: Iri) -> Finding:
        message = f"<{predicate.value}> goes the other way: exchange its subject and its object."
        return Finding(WARNING, "direction", message, predicate.span, (f"^<{predicate.value}>",))

    def _literal(self, predicate: Iri, value: Literal, uses: list[Use]) -> Iterator[Finding]:
        ranges = {one.iri for use in uses for one in use.ranges}
        if uses and all(not one.literal for use in uses for one in use.ranges) and ranges:
            message = f"The values of <{predicate.value}> are things, not literals: {value.value!r} is a name of one."
            yield Finding(WARNING, "thing-range", message, value.span)
            return
        allowed = [one for use in uses for one in use.values]
        term = _term(value)
        if allowed and str(term) not in allowed and uses and all(use.values for use in uses):
            near = process.extract(str(term), sorted(set(allowed)), scorer=fuzz.WRatio, limit=NEAREST)
            nearest = tuple(one for one, _, _ in near)
            message = f"<{predicate.value}> is never {term}. It is one of: {', '.join(nearest)}."
            yield Finding(ERROR, "not-in", message, value.span, nearest)
            return
        if not ranges:
            return
        mine = _kind(term.datatype.value)
        kinds = {_kind(one) for one in ranges}
        if mine not in kinds:
            example = next((one for use in uses for one, _ in use.top), "")
            hint = f" Write it like {example}." if example else ""
            message = f"{term} is no value of <{predicate.value}>, whose values are {', '.join(sorted(kinds))}.{hint}"
            yield Finding(WARNING, "datatype", message, value.span, (example,) if example else ())
            return
        if mine == "text":
            tongues = {_tongue(one) for use in uses for one, _ in use.top}
            if tongues and _tongue(str(term)) not in tongues:
                example = next(one for use in uses for one, _ in use.top)
                message = f"The values of <{predicate.value}> are written like {example}: mind the language."
                yield Finding(WARNING, "language", message, value.span, (example,))


def _triples(tree: object) -> Iterator[tuple[Term, Iri, Term]]:
    """Each statement of a tree whose predicate is one IRI, an inverse one turned round."""
    for node in walk(tree):
        if not isinstance(node, Triples):
            continue
        for one in node.properties:
            for said in one.objects:
                value = said.term if isinstance(said, Annotated) else said
                if isinstance(one.verb, Iri):
                    yield node.subject, one.verb, value
                elif isinstance(one.verb, Inverse) and isinstance(one.verb.path, Iri):
                    yield value, one.verb.path, node.subject


def _term(value: Literal) -> Value:
    if value.language is not None:
        return Value(value.value, language=value.language)
    return Value(value.value) if value.datatype is None else Value(value.value, datatype=NamedNode(value.datatype))


def _kind(datatype: str) -> str:
    """Datatypes that compare with each other are of one kind."""
    if datatype in _NUMBERS:
        return "numbers"
    return "text" if datatype in _TEXTS else datatype.rpartition("#")[2]


def _tongue(term: str) -> str:
    return term.rpartition('"@')[2] if '"@' in term else ""


def _tail(iri: str) -> str:
    return iri.rstrip("/#").replace("#", "/").rpartition("/")[2]
