"""A delta is what to take away and what to add so that one set of statements becomes another."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delta:
    """Disjoint statements added and removed; falsy when there is nothing to do."""

    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed)


def diff(before: Set[str], after: Set[str]) -> Delta:
    """The delta that makes `before` equal `after`."""
    return Delta(frozenset(after - before), frozenset(before - after))
