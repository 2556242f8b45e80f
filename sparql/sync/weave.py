"""One commit in the making: record graphs as they will be, and with them what holds."""

from __future__ import annotations

from collections.abc import Iterator, Set

from pyoxigraph import NamedNode

from ontology.facts import GT, RDF
from sparql.log import Change
from sparql.sync.evidence import holding
from sparql.sync.known import Graph

_TYPE, _EVIDENCE = NamedNode(RDF + "type"), NamedNode(GT + "Evidence")


class Weave:
    """Gathers what one commit changes. Nothing is written; `change()` says what would be."""

    def __init__(self, store: Graph, holds_confidence: float = 0.5) -> None:
        self.store, self.least = store, holds_confidence
        self._removed: dict[str, set[str]] = {}
        self._added: dict[str, set[str]] = {}
        self._gained: dict[str, set[str]] = {}
        self._lost: dict[str, set[str]] = {}
        self._open: set[str] = set()
        self.touched: set[str] = set()
        """Statements said by one more or one fewer merged graph."""
        self.size = 0
        self._about: dict[str, set[str]] | None = None
        self._turn, self._about_turn = 0, -1

    def replace(self, graph: str, before: Set[str], after: Set[str]) -> tuple[int, int]:
        """A merged graph says `after` instead of `before`: how many statements it gained and lost."""
        added, removed = after - before, before - after
        self._put(graph, removed, added)
        self.touched |= added
        self.touched |= removed
        was, will = holding(before, self.least), holding(after, self.least)
        for statement in will - was:
            self._count(self._gained, self._lost, statement, graph)
        for statement in was - will:
            self._count(self._lost, self._gained, statement, graph)
        if was is not before or will is not after:
            # Evidence moves statements in and out without their being added or removed, and so does its threshold.
            for statement in before & after:
                if statement in will:
                    self._gained.setdefault(statement, set()).add(graph)
                else:
                    self._lost.setdefault(statement, set()).add(graph)
                self._open.add(statement)
        return len(added), len(removed)

    def system(self, graph: str, before: Set[str], after: Set[str]) -> None:
        """A system graph says `after` instead of `before` of something."""
        self._put(graph, before - after, after - before)

    def doubt(self, statement: str) -> None:
        """Whether the statement holds is found out by the next `settle`, though nothing said of it changes."""
        self._open.add(statement)

    def settle(self) -> Change:
        """What holds follows from what is said: the default graph's change since the last call, if it is merged."""
        if getattr(self.store, "plain", False):
            self._open = set()
            return Change()
        before_removed, before_added = self._removed.get("", set()), self._added.get("", set())
        moved_in, moved_out = set(), set()
        held = self.store.present(self._open)
        for statement in self._open:
            now = self._said(statement)
            was = (statement in held and statement not in before_removed) or statement in before_added
            if now and not was:
                moved_in.add(statement)
            elif was and not now:
                moved_out.add(statement)
        self._open = set()
        self._put("", moved_out, moved_in)
        return Change({"": frozenset(moved_out)}, {"": frozenset(moved_in)})

    def _said(self, statement: str) -> bool:
        if self._gained.get(statement):
            return True
        lost = self._lost.get(statement, ())
        return any(graph not in lost and self._counts(graph, statement) for graph in self.store.asserted_by(statement))

    def _counts(self, graph: str, statement: str) -> bool:
        if next(self.store.match(None, _TYPE, _EVIDENCE, NamedNode(graph)), None) is None:
            return True
        return statement in holding(self.store.statements(graph), self.least)

    def _count(self, to: dict[str, set[str]], of: dict[str, set[str]], statement: str, graph: str) -> None:
        to.setdefault(statement, set()).add(graph)
        other = of.get(statement)
        if other is not None:
            other.discard(graph)
        self._open.add(statement)

    def _put(self, graph: str, removed: Set[str], added: Set[str]) -> None:
        self._turn += 1
        if removed:
            back = self._added.get(graph, set()) & removed
            if back:
                self._added[graph] -= back
                self.size -= len(back)
            left = removed - back
            self._removed.setdefault(graph, set()).update(left)
            self.size += len(left)
        if added:
            back = self._removed.get(graph, set()) & added
            if back:
                self._removed[graph] -= back
                self.size -= len(back)
            left = added - back
            self._added.setdefault(graph, set()).update(left)
            self.size += len(left)

    def change(self) -> Change:
        """Everything gathered, to be committed."""
        return Change(
            {graph: frozenset(lines) for graph, lines in self._removed.items() if lines},
            {graph: frozenset(lines) for graph, lines in self._added.items() if lines},
        )

    def pending(self, graph: str) -> tuple[Set[str], Set[str]]:
        """What was gathered of one graph: (removed, added)."""
        return self._removed.get(graph, set()), self._added.get(graph, set())

    def graphs(self) -> set[str]:
        """The graphs of which something was gathered."""
        return set(self._removed) | set(self._added)

    def about(self, text: str) -> Iterator[str]:
        """The merged graphs that gain a statement with this node: `<s> ` as subject, ` <o>` as object."""
        merged = self.store.names.merged
        if self._about_turn != self._turn or self._about is None:
            self._about_turn, self._about = self._turn, {}
            for graph, lines in self._added.items():
                if graph and merged(graph):
                    for line in lines:
                        start, _, rest = line.partition(" ")
                        self._about.setdefault(f"{start} ", set()).add(graph)
                        value = rest.partition(" ")[2]
                        if value[0] == "<":
                            self._about.setdefault(f" {value}", set()).add(graph)
        yield from self._about.get(text, ())
