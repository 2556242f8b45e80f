"""A SPARQL text is one tree, whichever form it has: equal trees mean the same text, spelling and place aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
NOWHERE: Span = (0, 0)


def _span() -> Span:
    """A field for where a node stands in its text: start and end, in characters; no part of what it means."""
    span: Span = field(default=NOWHERE, compare=False, repr=False)
    return span


# --- Terms ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Var:
    name: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Iri:
    """`value` is resolved against the base and the prefixes, however it was written."""

    value: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Literal:
    """`datatype` is an IRI, None for a plain string; `direction` is ltr or rtl, None for none."""

    value: str
    datatype: str | None = None
    language: str | None = None
    direction: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class BlankNode:
    """`label` is None for one that nothing else can name: []."""

    label: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class TripleTerm:
    """<<( subject predicate object )>>: a term, said by nobody."""

    subject: Term
    predicate: Term
    object: Term
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class ReifiedTriple:
    """<< subject predicate object ~ reifier >>: the reifier of a triple term; None for a fresh one."""

    subject: Term
    predicate: Term
    object: Term
    reifier: Term | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Collection:
    """( items ); without items it is rdf:nil."""

    items: tuple[Term, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Described:
    """[ properties ]: a blank node and what is said of it."""

    properties: tuple[Property, ...]
    span: Span = _span()


Term: TypeAlias = Var | Iri | Literal | BlankNode | TripleTerm | ReifiedTriple | Collection | Described


# --- Paths ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alternative:
    paths: tuple[Path, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Sequence:
    paths: tuple[Path, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Inverse:
    path: Path
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Repeat:
    """`times` is one of * + ?."""

    path: Path
    times: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Negated:
    """!( ... ): any predicate but these."""

    paths: tuple[Iri | Inverse, ...]
    span: Span = _span()


Path: TypeAlias = Iri | Alternative | Sequence | Inverse | Repeat | Negated


# --- Triples ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Annotation:
    """~ reifier {| properties |}; either may be missing."""

    reifier: Term | None
    properties: tuple[Property, ...]
    block: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Annotated:
    """An object with what is said of the triple it ends."""

    term: Term
    annotations: tuple[Annotation, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Property:
    verb: Var | Path
    objects: tuple[Term | Annotated, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Triples:
    """Everything said of one subject up to the full stop."""

    subject: Term
    properties: tuple[Property, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class QuadsIn:
    """GRAPH name { triples } in a template."""

    name: Var | Iri
    triples: tuple[Triples, ...]
    span: Span = _span()


Quads: TypeAlias = tuple[Triples | QuadsIn, ...]


# --- Expressions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Or:
    operands: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class And:
    operands: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Compare:
    """`operator` is one of = != < > <= >=."""

    operator: str
    left: Expression
    right: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class In:
    operand: Expression
    items: tuple[Expression, ...]
    negated: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """A sum (+ -) or a product (* /): the first operand, then each further one behind its operator."""

    first: Expression
    rest: tuple[tuple[str, Expression], ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Unary:
    """`operator` is one of ! + -."""

    operator: str
    operand: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Builtin:
    """A function of SPARQL; `name` in capitals."""

    name: str
    arguments: tuple[Expression, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Call:
    """A function named by an IRI; DISTINCT only where it is an aggregate."""

    function: Iri
    arguments: tuple[Expression, ...]
    distinct: bool = False
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`operand` is None for COUNT(*); `separator` is None where none is written."""

    name: str
    operand: Expression | None
    distinct: bool = False
    separator: str | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Exists:
    group: Group
    negated: bool
    span: Span = _span()


Expression: TypeAlias = (
    Or
    | And
    | Compare
    | In
    | Arithmetic
    | Unary
    | Builtin
    | Call
    | Aggregate
    | Exists
    | Var
    | Iri
    | Literal
    | TripleTerm
)


# --- Patterns ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Group:
    elements: tuple[Element, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Optional:
    group: Group
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Union:
    groups: tuple[Group, ...]
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Minus:
    group: Group
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Lateral:
    """LATERAL { } of SPARQL-dev SEP-0006, which the engine knows."""

    group: Group
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Graph:
    name: Var | Iri
    group: Group
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Service:
    name: Var | Iri
    group: Group
    silent: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Filter:
    condition: Expression
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Bind:
    expression: Expression
    variable: Var
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Values:
    """Rows of as many terms as there are variables; None is UNDEF. `single` is the form without brackets."""

    variables: tuple[Var, ...]
    rows: tuple[tuple[Term | None, ...], ...]
    single: bool = field(default=False, compare=False, repr=False)
    span: Span = _span()


# --- Queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Base:
    iri: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Prefix:
    name: str
    iri: str
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Version:
    value: str
    span: Span = _span()


Prologue: TypeAlias = tuple[Base | Prefix | Version, ...]


@dataclass(frozen=True, slots=True)
class As:
    """( expression AS ?variable )"""

    expression: Expression
    variable: Var
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Order:
    expression: Expression
    descending: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class From:
    """FROM or USING, NAMED or not."""

    iri: Iri
    named: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Select:
    """`items` is None for *; `kind` is "", "DISTINCT" or "REDUCED"."""

    items: tuple[Var | As, ...] | None
    kind: str = ""
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Construct:
    """`template` is None for the short form, whose pattern is its template."""

    template: tuple[Triples, ...] | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Describe:
    """`terms` is None for *."""

    terms: tuple[Var | Iri, ...] | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Ask:
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Modifiers:
    """What follows the pattern, in the order of the grammar."""

    group_by: tuple[Expression | As, ...] = ()
    having: tuple[Expression, ...] = ()
    order_by: tuple[Order, ...] = ()
    limit: int | None = None
    offset: int | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class SubSelect:
    select: Select
    where: Group
    modifiers: Modifiers = Modifiers()
    values: Values | None = None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Query:
    prologue: Prologue
    form: Select | Construct | Describe | Ask
    dataset: tuple[From, ...]
    where: Group | None
    modifiers: Modifiers = Modifiers()
    values: Values | None = None
    span: Span = _span()


Element: TypeAlias = (
    Triples | Filter | Optional | Group | Union | Minus | Lateral | Graph | Service | Bind | Values | SubSelect
)


# --- Updates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InsertData:
    quads: Quads
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeleteData:
    quads: Quads
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class DeleteWhere:
    quads: Quads
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Modify:
    """DELETE and INSERT by a pattern; a template is None where its keyword is not written."""

    graph: Iri | None
    delete: Quads | None
    insert: Quads | None
    using: tuple[From, ...]
    where: Group
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Load:
    source: Iri
    into: Iri | None
    silent: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Clear:
    """CLEAR or DROP; `target` is an Iri, or DEFAULT, NAMED or ALL."""

    verb: str
    target: Iri | str
    silent: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Create:
    graph: Iri
    silent: bool
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Transfer:
    """ADD, MOVE or COPY; None is the default graph."""

    verb: str
    source: Iri | None
    target: Iri | None
    silent: bool
    span: Span = _span()


Operation: TypeAlias = InsertData | DeleteData | DeleteWhere | Modify | Load | Clear | Create | Transfer


@dataclass(frozen=True, slots=True)
class Step:
    """A prologue and the operation after it; the last prologue may have none."""

    prologue: Prologue
    operation: Operation | None
    span: Span = _span()


@dataclass(frozen=True, slots=True)
class Update:
    steps: tuple[Step, ...]
    span: Span = _span()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """What is done, in order."""
        return tuple(step.operation for step in self.steps if step.operation is not None)


_PARTS: dict[type, tuple[str, ...]] = {}


def parts(kind: type) -> tuple[str, ...]:
    """The fields of a node that can hold other nodes."""
    found = _PARTS.get(kind)
    if found is None:
        plain = ("str", "bool", "int", "Span", "str | None", "int | None")
        found = tuple(one.name for one in reversed(fields(kind)) if one.type not in plain)
        _PARTS[kind] = found
    return found


def walk(tree: object, *, into_groups: bool = True) -> Iterator[object]:
    """Every node of the tree, parents first, in the order of the text; without `into_groups`, EXISTS is not entered."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple):
            waiting.extend(reversed(node))
        elif node is not None and not isinstance(node, str):
            yield node
            if into_groups or not isinstance(node, Group):
                waiting.extend(getattr(node, name) for name in parts(type(node)))
