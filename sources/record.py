"""A record is the unit of change, and a batch says which scope it read whole; neither knows what RDF is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Record:
    """One thing a source said: `key` is unique within the source, `locator` names the place (`people.csv:12`).

    A record with a `problem` could be found but not used: it is refused by itself, with that sentence, and the rest of
    its batch goes on. What has no key of its own then has its place for one (`@12`), under which nothing can be held.
    """

    source: str
    key: str
    data: Mapping[str, Any]
    locator: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read of one scope found.

    With `complete`, records of the scope that are not in `records` are gone. An empty complete batch is a deleted
    scope. Iterating `records` raises `ReadError` when the scope turns out unreadable: then nothing of it counts.
    `cursor` identifies this version of the scope (for a file its content hash); `notes` are warnings for people.
    """

    source: str
    scope: str
    records: Iterable[Record]
    gone: Iterable[str] = ()
    complete: bool = True
    cursor: str | None = None
    notes: tuple[str, ...] = field(default=())


class Source(Protocol):
    """Anything that can be read into batches."""

    name: str

    def read(self, cursor: str | None) -> Iterator[Batch]:
        """Every scope that may have changed since `cursor`. Raises SourceError when the source cannot be read."""
        ...


@runtime_checkable
class ScopedSource(Source, Protocol):
    """A source whose scopes can be listed and read one at a time, as files can."""

    def scopes(self) -> list[str]:
        """The scopes that exist now, sorted. Raises SourceError when the root is missing or unreadable."""
        ...

    def read_scope(self, scope: str, cursor: str | None) -> Batch | None:
        """The scope as it is, None when `cursor` names exactly this version; a missing scope is an empty batch."""
        ...


class SourceError(Exception):
    """A source could not be read at all: it is held, the others go on."""


class ReadError(SourceError, ValueError):
    """One scope could not be read: what was good in it stays. `str()` is `locator: problem. hint`."""

    def __init__(self, locator: str, problem: str, hint: str = "") -> None:
        self.locator, self.problem, self.hint = locator, problem, hint
        super().__init__(f"{locator}: {problem}." + (f" {hint}" if hint else ""))


class Moved(ReadError):
    """The scope changed while it was read: the read is thrown away and tried again."""
