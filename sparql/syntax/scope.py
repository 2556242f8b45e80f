"""A variable is named once: what BIND or AS gives a name may have none yet, and what is grouped away is gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from sparql.syntax.problem import SyntaxProblem, place
from sparql.syntax.tokens import near
from sparql.syntax.tree import (
    Aggregate,
    As,
    Bind,
    Builtin,
    Call,
    Element,
    Exists,
    Filter,
    Graph,
    Group,
    Lateral,
    Minus,
    Modifiers,
    Modify,
    Optional,
    Query,
    Select,
    Service,
    SubSelect,
    Triples,
    Union,
    Update,
    Values,
    Var,
    parts,
    walk,
)


def check(tree: Query | Update, text: str) -> None:
    """Raise SyntaxProblem where a rule of scope is broken (SPARQL 1.1, 18.2.1 and notes 12 to 14 of 19.8)."""
    if isinstance(tree, Update):
        for operation in tree.operations:
            if isinstance(operation, Modify):
                _group(operation.where, text)
        return
    inner = _group(tree.where, text) if tree.where is not None else {}
    select = tree.form if isinstance(tree.form, Select) else None
    _select(select, inner, tree.modifiers, tree.values, text)


def visible(tree: Query | SubSelect | Group) -> tuple[str, ...]:
    """The variables that rows of this have, in the order of the text: the columns of SELECT *."""
    if isinstance(tree, Group):
        return tuple(_group(tree, None))
    select = tree.form if isinstance(tree, Query) else tree.select
    if isinstance(select, Select) and select.items is not None:
        return tuple(dict.fromkeys(one.name if isinstance(one, Var) else one.variable.name for one in select.items))
    found = _group(tree.where, None) if tree.where is not None else {}
    return tuple(found | dict.fromkeys(one.name for one in (tree.values.variables if tree.values else ())))


Names = dict[str, None]
UNGROUPED = "?{} is neither grouped by nor aggregated. Add it to GROUP BY, or SAMPLE it."


def _group(group: Group, text: str | None) -> Names:
    """The names in scope at the end of a group, in order; with a text, its rules are checked."""
    seen: Names = {}
    for element in group.elements:
        if isinstance(element, Triples):
            for node in walk(element):
                if isinstance(node, Var):
                    seen[node.name] = None
        elif isinstance(element, Filter):
            _filters(element.condition, text)
        elif isinstance(element, Bind):
            _filters(element.expression, text)
            name = element.variable
            if text is not None and name.name in seen:
                _stop(text, name, f"BIND gives ?{name.name} a value, and it has one already. Choose another name.")
            seen[name.name] = None
        else:
            seen.update(_other(element, text))
    return seen


def _other(element: Element, text: str | None) -> Names:
    if isinstance(element, (Group, Optional, Lateral)):
        return _group(element if isinstance(element, Group) else element.group, text)
    if isinstance(element, Union):
        found: Names = {}
        for one in element.groups:
            found.update(_group(one, text))
        return found
    if isinstance(element, (Graph, Service)):
        own = {element.name.name: None} if isinstance(element.name, Var) else {}
        return own | _group(element.group, text)
    if isinstance(element, Values):
        return {one.name: None for one in element.variables}
    if isinstance(element, SubSelect):
        inner = _group(element.where, text)
        if text is not None:
            _select(element.select, inner, element.modifiers, element.values, text)
        if element.select.items is None:
            return inner | {one.name: None for one in (element.values.variables if element.values else ())}
        return {one.name if isinstance(one, Var) else one.variable.name: None for one in element.select.items}
    if isinstance(element, Minus):
        _group(element.group, text)
    return {}


def _filters(expression: object, text: str | None) -> None:
    """The groups of EXISTS keep the rules too."""
    if text is None:
        return
    for node in walk(expression, into_groups=False):
        if isinstance(node, Exists):
            _group(node.group, text)


def _select(select: Select | None, inner: Names, modifiers: Modifiers, values: Values | None, text: str) -> None:
    items = select.items if select is not None else ()
    for part in (items or (), modifiers.group_by, modifiers.having, modifiers.order_by):
        _filters(part, text)
    grouped = bool(modifiers.group_by) or _aggregates((items, modifiers.having, modifiers.order_by))
    if grouped:
        if select is not None and items is None:
            _stop(text, select, "SELECT * cannot stand with GROUP BY or an aggregate: name the variables.")
        names: Names = {}
        for one in modifiers.group_by:
            if isinstance(one, Var):
                names[one.name] = None
            elif isinstance(one, As):
                names[one.variable.name] = None
    else:
        names = dict(inner)
    if values is not None:
        names.update((one.name, None) for one in values.variables)
    taken = names.keys() | inner.keys() if not grouped else set(names)
    given: set[str] = set()
    for item in items or ():
        if isinstance(item, Var):
            if grouped and item.name not in names:
                _stop(text, item, UNGROUPED.format(item.name))
            continue
        if grouped:
            for node in _free(item.expression):
                if node.name not in names:
                    _stop(text, node, UNGROUPED.format(node.name))
        name = item.variable
        if name.name in taken or name.name in given:
            _stop(text, name, f"AS names ?{name.name}, which has a value already. Choose another name.")
        given.add(name.name)
        names[name.name] = None


def _aggregates(part: object) -> bool:
    """Whether an aggregate stands here, and not in a SELECT of its own."""
    waiting: list[object] = [part]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Aggregate):
            return True
        if isinstance(node, tuple):
            waiting.extend(node)
        elif node is not None and not isinstance(node, (str, Exists, Var)):
            waiting.extend(children(node))
    return False


def children(node: object) -> Iterable[object]:
    return (getattr(node, name) for name in parts(type(node)))


def _free(expression: object) -> Iterable[Var]:
    """The variables whose own value is needed: not those inside aggregates, EXISTS, BOUND and COALESCE."""
    waiting: list[object] = [expression]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Var):
            yield node
        elif isinstance(node, tuple):
            waiting.extend(node)
        elif isinstance(node, Builtin) and node.name in ("BOUND", "COALESCE"):
            continue
        elif isinstance(node, Call) and node.distinct:
            continue  # only an aggregate takes DISTINCT
        elif node is not None and not isinstance(node, (str, Aggregate, Exists)):
            waiting.extend(children(node))


def _stop(text: str, node: object, message: str) -> NoReturn:
    start: int = node.span[0]  # type: ignore[attr-defined]
    raise SyntaxProblem(message, *place(text, start), near(text, start), offset=start)
