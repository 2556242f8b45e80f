"""A query is nodes of known classes and the properties between them; every term in it is one the graph has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pyoxigraph import Literal, NamedNode

from sparql.question.planner.roads import Roads, Step
from sparql.question.schema import Use

_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_CLASS, _SUB = (
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", "<http://www.w3.org/2000/01/rdf-schema#subClassOf>*",
)  # fmt: skip


@dataclass
class Node:
    """One thing of the query: a variable, or (`term`) a thing that is known. `said` is a class it must have."""

    name: str
    classes: frozenset[str]
    term: str | None = None
    said: str | None = None
    key: object = None
    """What of the question it stands for, so that what means the same is one node."""

    @property
    def text(self) -> str:
        return self.term if self.term is not None else f"?{self.name}"


@dataclass
class Build:
    """A query in the making."""

    roads: Roads
    nodes: list[Node] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    """Properties that the query goes over."""
    cost: float = 0.0
    plus: frozenset[str] = frozenset()
    """Properties that are gone over again and again."""
    _names: set[str] = field(default_factory=set)

    def variable(self, hint: str) -> str:
        """A new name for a variable."""
        base = "".join(part if not number else part.capitalize() for number, part in enumerate(hint.split()))
        base = "".join(letter for letter in base if letter.isalnum() and letter.isascii()) or "thing"
        if not base[0].isalpha():
            base = f"v{base}"
        name, number = base, 2
        while name in self._names:
            name, number = f"{base}{number}", number + 1
        self._names.add(name)
        return name

    def node(self, classes: frozenset[str], *, hint: str, said: str | None = None, key: object = None) -> Node:
        """A new variable of these classes."""
        made = Node(self.variable(hint), classes, None, said, key)
        self.nodes.append(made)
        return made

    def known(self, iri: str, classes: Sequence[str]) -> Node:
        """The node of a thing that is known."""
        term = str(NamedNode(iri))
        for node in self.nodes:
            if node.term == term:
                return node
        made = Node("", frozenset(classes), term)
        self.nodes.append(made)
        return made

    def go(self, start: Node, steps: Sequence[Step], end: Node | None = None) -> Node:
        """The node at the end of a road, new or given."""
        here = start
        for number, step in enumerate(steps):
            last = number == len(steps) - 1
            there = end if last and end is not None else self._there(step)
            self._line(here, step, there)
            here = there
        return here

    def _there(self, step: Step) -> Node:
        one = self.roads.schema.classes.get(step.to)
        return self.node(frozenset({step.to}), hint=one.name.label.lower() if one is not None else "thing")

    def _line(self, here: Node, step: Step, there: Node) -> None:
        predicate = str(NamedNode(step.property)) + ("+" if step.property in self.plus else "")
        pair = (here, there) if step.forward else (there, here)
        line = f"{pair[0].text} {predicate} {pair[1].text} ."
        if line not in self.lines:
            self.lines.append(line)
        self.used.add(step.property)

    def value(self, node: Node, property: str, *, hint: str) -> str:
        """The variable of a property's value on a node."""
        start = f"{node.text} {NamedNode(property)}{'+' if property in self.plus else ''} ?"
        for line in self.lines:
            if line.startswith(start) and line.endswith(" ."):
                return line[len(start) : -2]
        name = self.variable(hint)
        self.lines.append(f"{start}{name} .")
        self.used.add(property)
        return name

    def fixed(self, node: Node, property: str, term: str) -> None:
        """The property of a node has this value."""
        line = f"{node.text} {NamedNode(property)} {term} ."
        if line not in self.lines:
            self.lines.append(line)
        self.used.add(property)

    def typed(self, node: Node) -> list[str]:
        """The line that says of which class a node is, where its class was asked for."""
        if node.said is None or node.term is not None:
            return []
        schema = self.roads.schema
        many = len(self.roads.family(node.said)) > 1
        path = f"{_CLASS}/{_SUB}" if many or not schema.classes[node.said].instances else _CLASS
        return [f"{node.text} {path} {NamedNode(node.said)} ."]

    def body(self) -> str:
        """All that the query says."""
        return "\n  ".join([*(line for node in self.nodes for line in self.typed(node)), *self.lines])


_SMALL = 3
_OWN = 1.2
"""A class of so few properties, labels aside, of which each instance belongs to one thing, is a value with a unit."""


def leaf(roads: Roads, use: Use) -> tuple[str, ...]:
    """The properties from a use to its number: `price` of a thing that is a price is its amount. Empty without one."""
    if roads.numeric(use):
        return (use.property,)
    for one in use.ranges:
        if one.literal:
            continue
        uses = roads.uses([one.iri])
        inner = [found for found in uses if roads.numeric(found)]
        small = len({found.property for found in uses} - {_LABEL}) <= _SMALL and roads.sizes(one.iri) <= _OWN
        if inner and small:
            return (use.property, inner[0].property)
    return ()


def text_of(value: float) -> str:
    """A number as SPARQL writes it."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def literal(term: object) -> str:
    """A literal as SPARQL writes it."""
    return str(term if isinstance(term, (Literal, NamedNode)) else Literal(str(term)))
