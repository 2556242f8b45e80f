"""Whatever a source of the user's own raises is about that source, and names their file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sources.patterns import spellable
from sources.record import Batch, ReadError, Record, ScopedSource, SourceError

Told = Callable[[BaseException], str]


def guarded(name: str, source: Any, told: Told) -> OwnSource:
    """`source` under `name`; its exceptions become SourceErrors that say `told(exception)`."""
    return (OwnScopedSource if isinstance(source, ScopedSource) else OwnSource)(name, source, told)


def sound(batch: Batch) -> Batch:
    """The batch, of whose scope, cursor and gone keys each is text. Raises TypeError saying which is not."""
    gone = list(batch.gone) if not isinstance(batch.gone, str) else batch.gone
    if isinstance(gone, str):
        raise TypeError(f"gone is the text {gone!r}. Give a list of keys")
    for what, value in (("scope", batch.scope), *(("a key that is gone", key) for key in gone)):
        _text(what, value)
    if batch.cursor is not None:
        _text("cursor", batch.cursor)
    if not isinstance(batch.complete, bool):
        raise TypeError(f"complete is {batch.complete!r}. Write True or False")
    return replace(batch, gone=gone)


def sound_record(record: Record) -> Record:
    """The record, whose key and data can be said in a graph. Raises TypeError saying what cannot."""
    _text("the key of a record", record.key)
    _text(f"the locator of record {record.key!r}", record.locator)
    if not isinstance(record.data, Mapping):
        raise TypeError(f"the data of record {record.key!r} is {type(record.data).__name__}, not a dict")
    _spoken(record.key, record.data)
    return record


def _text(what: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} is {value!r} ({type(value).__name__}). Give text")
    if not value:
        raise TypeError(f"{what} is empty. Give it a name")
    if not spellable(value):
        raise TypeError(f"{what} is {value!r}, which is not Unicode text")


def _spoken(key: str, value: Any) -> None:
    if isinstance(value, str):
        if not spellable(value):
            raise TypeError(f"record {key!r} holds {value!r}, which is not Unicode text")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError(f"record {key!r} has a field {name!r} ({type(name).__name__}). Name fields by text")
            _spoken(key, name)
            _spoken(key, item)
    elif isinstance(value, list | tuple):
        for item in value:
            _spoken(key, item)


class OwnSource:
    """A user's source; one that fails while a batch's records are read leaves that scope as it was."""

    def __init__(self, name: str, source: Any, told: Told) -> None:
        self.name, self.own, self._told = name, source, told

    def __getattr__(self, name: str) -> Any:
        # What a live source may have besides: `watched`, `scope_of`.
        if name == "own":
            raise AttributeError(name)
        return getattr(self.own, name)

    def read(self, cursor: str | None) -> Iterator[Batch]:
        """What it reads. Raises SourceError."""
        try:
            for batch in self.own.read(cursor):
                yield self._batch(batch)
        except SourceError:
            raise
        except (Exception, SystemExit) as wrong:  # a user's code
            raise SourceError(self._told(wrong)) from wrong

    def _batch(self, batch: Any) -> Batch:
        if not isinstance(batch, Batch):
            raise SourceError(f"{self.name}: read gave {type(batch).__name__}, not a Batch. Write `yield Batch(...)`.")
        try:
            checked = sound(batch)
        except TypeError as wrong:
            raise SourceError(f"{self.name}: {wrong}.") from wrong
        return replace(checked, source=self.name, records=_Records(self.name, checked.records, self._told))


class OwnScopedSource(OwnSource):
    """A user's source that lists its scopes and reads them one at a time."""

    def scopes(self) -> list[str]:
        try:
            return sorted(self.own.scopes())
        except SourceError:
            raise
        except (Exception, SystemExit) as wrong:  # a user's code
            raise SourceError(self._told(wrong)) from wrong

    def read_scope(self, scope: str, cursor: str | None) -> Batch | None:
        try:
            batch = self.own.read_scope(scope, cursor)
        except SourceError:
            raise
        except (Exception, SystemExit) as wrong:  # a user's code
            raise _read_error(self._told(wrong)) from wrong
        return None if batch is None else self._batch(batch)


class _Records:
    def __init__(self, source: str, records: Iterable[Record], told: Told) -> None:
        self._source, self._records, self._told = source, records, told

    def __iter__(self) -> Iterator[Record]:
        try:
            for record in self._records:
                if not isinstance(record, Record):
                    raise TypeError(f"a batch of {self._source!r} holds {type(record).__name__}, not a Record")
                sound_record(record)
                yield record if record.source == self._source else replace(record, source=self._source)
        except SourceError:
            raise
        except (Exception, SystemExit) as wrong:  # a user's code
            raise _read_error(self._told(wrong)) from wrong


def _read_error(told: str) -> ReadError:
    place, _, problem = told.partition(": ")
    return ReadError(place, problem.rstrip("."))
