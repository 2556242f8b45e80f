"""A blank node's name is a hash of what it says, so that other nodes may come and go without renaming it.

Two blank nodes that say the same are one node. Blank nodes that reach each other say one thing together: their names
are a hash of that whole, and a place in it. Where such a whole looks the same from two of its nodes, only whoever
points at them can tell which is which: they, and what reaches them, have names within one record alone.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping

# A statement about a blank node: predicate, object, whether the object is a blank node too.
Said = Mapping[str, list[tuple[str, str, bool]]]


class TooSymmetric(ValueError):
    """Blank nodes of one cycle could not be told apart within the bound; `node` is one of them."""

    def __init__(self, node: str, count: int) -> None:
        self.node, self.count = node, count
        super().__init__(f"{count} blank nodes of one cycle are too alike to be told apart")


def names(said: Said, mint: Callable[[str], str], steps: int) -> tuple[dict[str, str], list[list[str]]]:
    """A name for every blank node in `said` that has one of its own, and all groups of nodes that
    reach each other, those pointed at first.

    Work is linear but for cycles of blank nodes, where it is at most `steps` for each; raises TooSymmetric beyond.
    """
    named: dict[str, str] = {}
    groups = _components(said)
    for group in groups:
        members = set(group)
        if any(o not in named and o not in members for node in group for o in _targets(node, said)):
            continue
        if len(group) == 1 and group[0] not in _targets(group[0], said):
            lines = _lines(group[0], said, named, {})
            named[group[0]] = mint(_hash("\n".join(sorted(set(lines)))))
            continue
        places, form, symmetric = _canonical(group, {}, said, named, steps)
        if not symmetric:
            named.update(_minted(places, form, mint))
    return named, groups


def names_within(
    nodes: list[str],
    pointers: Mapping[str, list[str]],
    said: Said,
    named: Mapping[str, str],
    mint: Callable[[str], str],
    steps: int,
) -> dict[str, str]:
    """Names of nodes that have none of their own, within the record that holds them all.

    `pointers` is what the record's subject says of them, by node. Raises TooSymmetric.
    """
    places, form, _ = _canonical(nodes, pointers, said, named, steps)
    return _minted(places, form, mint)


def _minted(places: list[str], form: str, mint: Callable[[str], str]) -> dict[str, str]:
    whole = _hash(form)
    return {node: mint(_hash(f"{place} {whole}")) for place, node in enumerate(places)}


def _lines(node: str, said: Said, named: Mapping[str, str], inside: Mapping[str, str]) -> list[str]:
    return [
        f"{predicate} {(inside.get(value) or named[value]) if blank else value}"
        for predicate, value, blank in said.get(node, ())
    ]


def _canonical(
    group: list[str], pointers: Mapping[str, list[str]], said: Said, named: Mapping[str, str], steps: int
) -> tuple[list[str], str, bool]:
    """The nodes in an order that depends on nothing but what they say and what points at them, that as text, and
    whether the text would be the same in another order."""
    members = set(group)
    outer = {
        node: "\n".join(
            sorted({f"{p} {named[o] if b else o}" for p, o, b in said.get(node, ()) if o not in members})
            + sorted(f"< {pointer}" for pointer in pointers.get(node, ()))
        )
        for node in group
    }
    edges: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    for node in group:
        for predicate, value, blank in set(said.get(node, ())):
            if blank and value in members:
                edges[node].append((">", predicate, value))
                edges[value].append(("<", predicate, node))
    budget = [steps]
    colours = _refine({node: _hash(outer[node]) for node in group}, edges, budget, group)
    best: tuple[str, list[str]] | None = None
    forms: set[str] = set()
    symmetric = False
    stack = [colours]
    while stack:
        colours = stack.pop()
        cells: dict[str, list[str]] = defaultdict(list)
        for node, colour in colours.items():
            cells[colour].append(node)
        tied = min(((len(cell), colour) for colour, cell in cells.items() if len(cell) > 1), default=None)
        if tied is None:
            order = sorted(group, key=colours.__getitem__)
            place = {node: f"_:{n}" for n, node in enumerate(order)}
            form = "\n".join(
                [f"{place[n]} {line}" for n in order for line in sorted(set(_lines(n, said, named, place)))]
                + [f"{place[n]} < {pointer}" for n in order for pointer in sorted(set(pointers.get(n, ())))]
            )
            symmetric = symmetric or form in forms
            forms.add(form)
            if best is None or form < best[0]:
                best = (form, order)
            continue
        tried: list[str] = []
        for node in cells[tied[1]]:
            # Two nodes that can be swapped lead to the same form: without this, eight in a clique are 8! forms.
            if any(_twins(node, other, edges) for other in tried):
                symmetric = True
                continue
            tried.append(node)
            stack.append(_refine({**colours, node: _hash("chosen " + colours[node])}, edges, budget, group))
    assert best is not None
    return best[1], best[0], symmetric


def _twins(one: str, other: str, edges: Mapping[str, list[tuple[str, str, str]]]) -> bool:
    swapped = {one: other, other: one}
    return {(way, p, swapped.get(o, o)) for way, p, o in edges[one]} == set(edges[other])


def _refine(
    colours: dict[str, str], edges: Mapping[str, list[tuple[str, str, str]]], budget: list[int], group: list[str]
) -> dict[str, str]:
    """Split the nodes by what surrounds them until that splits no further."""
    count = len(set(colours.values()))
    while count < len(group):
        budget[0] -= sum(1 + len(edges[node]) for node in group)
        if budget[0] < 0:
            raise TooSymmetric(group[0], len(group))
        colours = {
            node: _hash(
                colours[node] + "\n" + "\n".join(sorted(f"{way}{p} {colours[other]}" for way, p, other in edges[node]))
            )
            for node in group
        }
        now = len(set(colours.values()))
        if now == count:
            break
        count = now
    return colours


def _components(said: Said) -> list[list[str]]:
    """Tarjan's strongly connected components, those that others point to first; without recursion."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    on_stack: set[str] = set()
    stack: list[str] = []
    found: list[list[str]] = []
    for root in said:
        if root in index:
            continue
        work = [(root, iter(_targets(root, said)))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, targets = work[-1]
            for target in targets:
                if target not in index:
                    index[target] = low[target] = len(index)
                    stack.append(target)
                    on_stack.add(target)
                    work.append((target, iter(_targets(target, said))))
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    group = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        group.append(member)
                        if member == node:
                            break
                    found.append(group)
    return found


def _targets(node: str, said: Said) -> list[str]:
    return [value for _, value, blank in said.get(node, ()) if blank]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
