"""Merging can break only a node that several records speak of; telling those apart costs eight bytes a record."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

_PARTS = 256


class Speakers:
    """Counts, for the records of one load, which nodes more than one of them has as a subject."""

    def __init__(self) -> None:
        self._seen = [array("q") for _ in range(_PARTS)]
        self._several: set[int] | None = None

    def saw(self, statements: Iterable[str]) -> None:
        """One record says these statements."""
        self._several = None
        for subject in {line[: line.index(" ")] for line in statements}:
            mark = hash(subject)
            self._seen[mark % _PARTS].append(mark)

    def several(self, node: str) -> bool:
        """Whether more than one record may speak of the node (a bare IRI). False is never wrong."""
        if self._several is None:
            self._several = set()
            for marks in self._seen:
                before: int | None = None
                for mark in sorted(marks):
                    if mark == before:
                        self._several.add(mark)
                    before = mark
        return bool(self._several) and hash(f"<{node}>") in self._several
