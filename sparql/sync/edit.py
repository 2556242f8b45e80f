"""An edit is what an update comes to: its net effect by graph, and nothing of how it was found out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

KEPT = 20  # statements that are quoted as kept


class Refused(Exception):
    """An update that is not done: `code` is for programs; `details` say more, such as line and column."""

    def __init__(self, code: str, message: str, **details: Any) -> None:
        self.code, self.message, self.details = code, message, details
        super().__init__(message)


@dataclass
class Edit:
    """What changes by graph ("" is the default graph): the net of everything.

    `whole` are graphs that say exactly this afterwards. `there` says of a graph whether it is there by itself, empty
    or not. `kept` quotes statements that were to go and stay, since others say them; `looked` is whether the outcome
    tells something of what the graph says, `depends` whether it holds only where it was found out.
    """

    removed: dict[str, set[str]] = field(default_factory=dict)
    added: dict[str, set[str]] = field(default_factory=dict)
    whole: dict[str, set[str]] = field(default_factory=dict)
    there: dict[str, bool] = field(default_factory=dict)
    kept: list[str] = field(default_factory=list)
    kept_count: int = 0
    looked: bool = False
    depends: bool = False

    def put(self, graph: str, removed: Iterable[str], added: Iterable[str]) -> None:
        """Take statements away, then add some."""
        if graph in self.whole:
            self.whole[graph] = (self.whole[graph] - set(removed)) | set(added)
            return
        gone, come = self.removed.setdefault(graph, set()), self.added.setdefault(graph, set())
        removed, added = set(removed), set(added)
        come -= removed
        gone |= removed
        come |= added
        gone -= added

    def empty(self, graph: str) -> None:
        """The graph says nothing, however much it said."""
        self.removed.pop(graph, None)
        self.added.pop(graph, None)
        self.whole[graph] = set()

    def keep(self, statements: Iterable[str]) -> None:
        for one in statements:
            self.kept_count += 1
            if len(self.kept) < KEPT:
                self.kept.append(one)

    def graphs(self) -> set[str]:
        """Every graph that it concerns."""
        sides = (self.removed, self.added)
        some = {graph for side in sides for graph, found in side.items() if found}
        return some | set(self.whole) | set(self.there)

    def __len__(self) -> int:
        return sum(len(found) for side in (self.removed, self.added, self.whole) for found in side.values())
