"""A query's answer can change only when a quad with one of the predicates it reads does: that keeps an answer valid.

What cannot be said exactly is said widely: None stands for any predicate, any graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparql.syntax.tree import (
    Aggregate,
    Alternative,
    Annotated,
    Bind,
    BlankNode,
    Builtin,
    Call,
    Clear,
    Collection,
    Create,
    DeleteData,
    DeleteWhere,
    Describe,
    Described,
    Exists,
    Filter,
    From,
    Graph,
    Group,
    InsertData,
    Inverse,
    Iri,
    Lateral,
    Literal,
    Load,
    Minus,
    Modifiers,
    Modify,
    Negated,
    Optional,
    Path,
    Property,
    Quads,
    QuadsIn,
    Query,
    ReifiedTriple,
    Repeat,
    Select,
    Sequence,
    Service,
    SubSelect,
    Term,
    Transfer,
    Triples,
    TripleTerm,
    Union,
    Update,
    Var,
    walk,
)
from sparql.syntax.triples import FIRST, REIFIES, REST, XSD

DEFAULT = ""
_VARIES = frozenset(("NOW", "RAND", "UUID", "STRUUID", "BNODE"))
_PURE = (XSD, "http://www.opengis.net/def/function/geosparql/")


@dataclass(frozen=True, slots=True)
class Footprint:
    """What an answer depends on.

    `predicates`: of the quads it reads, None for any. `graphs`: that it reads, "" for the default graph, None for any.
    `named`: whether a named graph is among them. `services`: the endpoints it calls, a variable as ?name. `varies`:
    whether the same data may give another answer the next time (NOW, RAND, UUID, BNODE, functions we do not know).
    """

    predicates: frozenset[str] | None
    graphs: frozenset[str] | None
    named: bool
    services: tuple[str, ...]
    varies: bool


@dataclass(slots=True)
class _Found:
    default: frozenset[str]
    named: frozenset[str] | None
    predicates: set[str] = field(default_factory=set)
    any_predicate: bool = False
    graphs: set[str] = field(default_factory=set)
    any_graph: bool = False
    services: dict[str, None] = field(default_factory=dict)
    varies: bool = False


# The graphs that a pattern is matched in: None for any named one.
_Where = frozenset[str] | None
_Nodes = frozenset[Term]
_NONE: _Nodes = frozenset()


def reads(tree: Query | Update) -> Footprint:
    """What this reads. If a commit changes no quad with one of its predicates in one of its graphs, the answer stays.

    For an update: what its patterns read, LOAD and graph management left out.
    """
    found = _Found(frozenset((DEFAULT,)), None)
    if isinstance(tree, Query):
        _dataset(found, tree.dataset)
        if tree.where is not None:
            _group(found, tree.where, found.default, _NONE)
        _modifiers(found, tree.modifiers, found.default)
        if isinstance(tree.form, Select):
            _expression(found, tree.form.items, found.default)
        elif isinstance(tree.form, Describe):
            # The engine describes a thing by what the default graph says of it, wherever the thing was found.
            found.any_predicate = True
            _in(found, found.default)
    else:
        for one in tree.operations:
            if isinstance(one, Modify):
                _dataset(found, one.using)
                if one.graph is not None and not one.using:
                    found.default = frozenset((one.graph.value,))
                _group(found, one.where, found.default, _NONE)
            elif isinstance(one, DeleteWhere):
                found.default, found.named = frozenset((DEFAULT,)), None
                _quads(found, one.quads)
    return Footprint(
        None if found.any_predicate else frozenset(found.predicates),
        None if found.any_graph else frozenset(found.graphs),
        found.any_graph or bool(found.graphs - {DEFAULT}),
        tuple(found.services),
        found.varies,
    )


def services(tree: Query | Update) -> tuple[Service, ...]:
    """Every SERVICE in it, in the order of the text."""
    return tuple(node for node in walk(tree) if isinstance(node, Service))


def loads(tree: Query | Update) -> tuple[Load, ...]:
    """Every LOAD in it, in order."""
    return tuple(one for one in tree.operations if isinstance(one, Load)) if isinstance(tree, Update) else ()


def writes(tree: Query | Update) -> frozenset[str] | None:
    """The graphs an update may change, "" for the default graph; None when only running it tells, or it may be any."""
    found: set[str] = set()
    for one in tree.operations if isinstance(tree, Update) else ():
        if isinstance(one, (InsertData, DeleteData, DeleteWhere)):
            if not _written(found, one.quads, DEFAULT):
                return None
        elif isinstance(one, Modify):
            default = one.graph.value if one.graph is not None else DEFAULT
            if not all(_written(found, quads, default) for quads in (one.delete or (), one.insert or ())):
                return None
        elif isinstance(one, Load):
            found.add(one.into.value if one.into is not None else DEFAULT)
        elif isinstance(one, Create):
            found.add(one.graph.value)
        elif isinstance(one, Clear):
            if one.target == "DEFAULT":
                found.add(DEFAULT)
            elif isinstance(one.target, Iri):
                found.add(one.target.value)
            else:
                return None
        elif isinstance(one, Transfer):
            found.add(one.target.value if one.target is not None else DEFAULT)
            if one.verb == "MOVE":
                found.add(one.source.value if one.source is not None else DEFAULT)
    return frozenset(found)


def _written(found: set[str], quads: Quads, default: str) -> bool:
    for one in quads:
        if not isinstance(one, QuadsIn):
            found.add(default)
        elif isinstance(one.name, Iri):
            found.add(one.name.value)
        else:
            return False
    return True


# --- Patterns ---------------------------------------------------------------------------------------------------


def _dataset(found: _Found, clauses: tuple[From, ...]) -> None:
    if clauses:
        found.default = frozenset(one.iri.value for one in clauses if not one.named)
        found.named = frozenset(one.iri.value for one in clauses if one.named)
    else:
        found.default, found.named = frozenset((DEFAULT,)), None


def _group(found: _Found, group: Group, where: _Where, outer: _Nodes) -> None:
    """`outer`: terms that this group is joined with, and that are nodes of the same graph for certain."""
    nodes = set(outer)
    for element in group.elements:
        if type(element) is Triples:
            _nodes(nodes, element)
    joined = frozenset(nodes)
    before: set[Term] = set()
    for element in group.elements:
        if type(element) is Triples:
            _triples(found, element.subject, element.properties, where, joined)
            _nodes(before, element)
        elif isinstance(element, Optional):
            # What this group was itself joined with holds no longer for rows in which the optional part is missing.
            _group(found, element.group, where, frozenset(before))
        elif isinstance(element, Group):
            _group(found, element, where, joined)
        elif isinstance(element, Union):
            for one in element.groups:
                _group(found, one, where, joined)
        elif isinstance(element, Filter):
            _expression(found, element.condition, where)
        elif isinstance(element, Bind):
            _expression(found, element.expression, where)
        elif isinstance(element, (Minus, Lateral)):
            _group(found, element.group, where, _NONE)
        elif isinstance(element, Graph):
            _graph(found, element)
        elif isinstance(element, Service):
            name = element.name
            found.services[f"?{name.name}" if isinstance(name, Var) else name.value] = None
            found.varies = True
        elif isinstance(element, SubSelect):
            _group(found, element.where, where, _NONE)
            _modifiers(found, element.modifiers, where)
            _expression(found, element.select.items, where)


def _graph(found: _Found, element: Graph) -> None:
    inside: _Where = frozenset((element.name.value,)) if isinstance(element.name, Iri) else found.named
    if not _needs_triple(element.group):
        # GRAPH ?g {} lists the graphs there are, and a graph is there while any quad is.
        found.any_predicate = True
        _in(found, inside)
    _group(found, element.group, inside, _NONE)


def _needs_triple(group: Group) -> bool:
    """Whether the group has no row where no triple matches."""
    for element in group.elements:
        if isinstance(element, Triples):
            if element.properties or isinstance(element.subject, (Described, Collection, ReifiedTriple)):
                return True
        elif isinstance(element, Group):
            if _needs_triple(element):
                return True
        elif isinstance(element, Union) and all(_needs_triple(one) for one in element.groups):
            return True
    return False


def _in(found: _Found, where: _Where) -> None:
    if where is None:
        found.any_graph = True
    else:
        found.graphs |= where


def _modifiers(found: _Found, modifiers: Modifiers, where: _Where) -> None:
    _expression(found, modifiers.group_by, where)
    _expression(found, modifiers.having, where)
    _expression(found, modifiers.order_by, where)


def _expression(found: _Found, expression: object, where: _Where) -> None:
    """Functions that vary, and the groups of EXISTS."""
    if not expression or type(expression) in (Var, Iri, Literal):
        return
    for node in walk(expression, into_groups=False):
        if isinstance(node, Exists):
            _group(found, node.group, where, _NONE)
        elif isinstance(node, Builtin):
            if node.name in _VARIES:
                found.varies = True
        elif isinstance(node, Call):
            found.varies = found.varies or not node.function.value.startswith(_PURE)
        elif isinstance(node, Aggregate) and node.name == "SAMPLE":
            continue  # any member is a right answer


# --- Triples ----------------------------------------------------------------------------------------------------


def _quads(found: _Found, quads: Quads) -> None:
    for one in quads:
        if isinstance(one, QuadsIn):
            inside = frozenset((one.name.value,)) if isinstance(one.name, Iri) else found.named
            for triples in one.triples:
                _triples(found, triples.subject, triples.properties, inside, _NONE)
        else:
            _triples(found, one.subject, one.properties, found.default, _NONE)


def _triples(found: _Found, subject: Term, properties: tuple[Property, ...], where: _Where, nodes: _Nodes) -> None:
    if where is None:
        found.any_graph = True
    else:
        found.graphs |= where
    _term(found, subject, where, nodes)
    for one in properties:
        verb = one.verb
        if type(verb) is Iri:
            found.predicates.add(verb.value)
        elif isinstance(verb, Var):
            found.any_predicate = True
        else:
            _path(found, verb)
            # ?x path* ?y holds for every node ?x of the graph, and nodes come with any predicate.
            if _nullable(verb) and not _certain(subject, nodes) and not all(_certain(o, nodes) for o in one.objects):
                found.any_predicate = True
        for thing in one.objects:
            kind = type(thing)
            if kind is not Var and kind is not Iri and kind is not Literal:
                _object(found, thing, where, nodes)


def _object(found: _Found, thing: Term | Annotated, where: _Where, nodes: _Nodes) -> None:
    if isinstance(thing, Annotated):
        _term(found, thing.term, where, nodes)
        found.predicates.add(REIFIES)
        for one in thing.annotations:
            _triples(found, one.reifier or BlankNode(), one.properties, where, nodes)
    else:
        _term(found, thing, where, nodes)


def _term(found: _Found, term: Term, where: _Where, nodes: _Nodes) -> None:
    if isinstance(term, Described):
        _triples(found, BlankNode(), term.properties, where, nodes)
    elif isinstance(term, Collection):
        if term.items:
            found.predicates |= {FIRST, REST}
        for item in term.items:
            _term(found, item, where, nodes)
    elif isinstance(term, ReifiedTriple):
        found.predicates.add(REIFIES)
        _term(found, term.subject, where, nodes)
        _term(found, term.object, where, nodes)
        if term.reifier is not None:
            _term(found, term.reifier, where, nodes)
    elif isinstance(term, TripleTerm):
        _term(found, term.subject, where, nodes)
        _term(found, term.object, where, nodes)


def _path(found: _Found, path: Path) -> None:
    if isinstance(path, Iri):
        found.predicates.add(path.value)
    elif isinstance(path, (Alternative, Sequence)):
        for one in path.paths:
            _path(found, one)
    elif isinstance(path, (Inverse, Repeat)):
        _path(found, path.path)
    else:
        found.any_predicate = True


def _nullable(path: Path) -> bool:
    """Whether the path holds between a node and itself without any triple of its own."""
    if isinstance(path, (Iri, Negated)):
        return False
    if isinstance(path, Sequence):
        return all(_nullable(one) for one in path.paths)
    if isinstance(path, Alternative):
        return any(_nullable(one) for one in path.paths)
    if isinstance(path, Repeat):
        return path.times != "+" or _nullable(path.path)
    return _nullable(path.path)


def _certain(thing: Term | Annotated, nodes: _Nodes) -> bool:
    term = thing.term if isinstance(thing, Annotated) else thing
    return isinstance(term, (Var, Iri, Literal, BlankNode)) and term in nodes


def _nodes(nodes: set[Term], triples: Triples) -> None:
    """Add the terms that are nodes of the graph wherever these triples match."""
    for one in triples.properties:
        if isinstance(one.verb, Var) or not _nullable(one.verb):
            for thing in (triples.subject, *one.objects):
                term = thing.term if isinstance(thing, Annotated) else thing
                # Of two [] neither is the other.
                if isinstance(term, (Var, Iri, Literal)) or (isinstance(term, BlankNode) and term.label is not None):
                    nodes.add(term)


__all__ = ["DEFAULT", "Footprint", "loads", "reads", "services", "writes"]
