"""An answer of nothing has a reason: the fewest patterns that together match nothing, and without any of them do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sparql.query.failures import QueryFailed
from sparql.question.answer import Graph
from sparql.syntax import text
from sparql.syntax.tree import Ask, Bind, Element, Filter, Group, Modifiers, Optional, Query, Triples, Values

MOST = 24
"""How many patterns are looked at."""
_EACH = 2.0


def emptying(graph: Graph, tree: Query, *, seconds: float = 5.0, epoch: int | None = None) -> tuple[str, ...]:
    """The patterns, as SPARQL, of which none can be left out without there being an answer; () when that is not found.

    The query must give nothing. Each pattern is one short question to the graph; what is not done in time is not found.
    """
    ends = time.monotonic() + seconds
    if tree.where is None:
        return ()
    parts: list[Element] = [one for one in _parts(tree.where) if not isinstance(one, Optional)]
    if not 1 <= len(parts) <= MOST:
        return ()
    try:
        if not _empty(graph, tree, parts, ends, epoch):
            return ()  # it is a HAVING, a LIMIT or an OFFSET that leaves nothing
        kept = list(parts)
        for part in parts:
            less = [one for one in kept if one is not part]
            if less and _sound(less) and _empty(graph, tree, less, ends, epoch):
                kept = less
    except (QueryFailed, TimeoutError, RuntimeError, SyntaxError):
        return ()
    return tuple(_shown(tree, one) for one in kept)


def _parts(group: Group) -> Iterator[Element]:
    """The elements of a group, each statement by itself."""
    for element in group.elements:
        if isinstance(element, Triples):
            for one in element.properties:
                for said in one.objects:
                    yield replace(element, properties=(replace(one, objects=(said,)),))
        elif isinstance(element, Group):
            yield from _parts(element)
        else:
            yield element


def _sound(parts: Sequence[Element]) -> bool:
    """Whether anything is left that a filter can be about."""
    return any(not isinstance(one, (Filter, Bind, Values)) for one in parts)


def _empty(graph: Graph, tree: Query, parts: Sequence[Element], ends: float, epoch: int | None) -> bool:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError
    asked = replace(
        tree, form=Ask(), where=Group(tuple(parts)), modifiers=Modifiers(), values=tree.values, prologue=tree.prologue
    )
    found = graph.query(text(asked), seconds=min(left, _EACH), epoch=epoch)
    return str(found.rows[0][0].value).lower() == "false"  # type: ignore[union-attr]


def _shown(tree: Query, part: Element) -> str:
    """One pattern as a person reads it."""
    whole = text(replace(tree, form=Ask(), where=Group((part,)), modifiers=Modifiers(), values=None, prologue=()))
    inner = whole[whole.index("{") + 1 : whole.rindex("}")]
    return " ".join(inner.split())
