"""A file is a scope: what it holds now is all it says, and a file that cannot be read says nothing new."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from sources import documents, paths, patterns, tables, xml
from sources.content import Content, look
from sources.encoding import inspect
from sources.formats import NAMES, RDF, STREAMED, format_of
from sources.limits import Limits
from sources.record import Batch, ReadError, Record, SourceError

READER = "1"
"""Changes when the same bytes would be read into other records; every file is then read again."""


class FilesSource:
    """The records of one file, or of the files that patterns match, below `root`.

    A scope is a file's path relative to `root`, with `/`. With one literal path a record's key is its row's key; with
    a pattern or several paths it is `relative/path.csv/rowkey`. A path that ends in `/` or has no ending is a folder,
    and means every file below it whose ending tells its format. A row's key is the value of `key` (several columns are
    joined by `/`, their own `%` and `/` escaped); without `key` it is the name or IRI the format gives the record, else
    its position, and a note says that inserting a row then changes every row after it. A row whose key is empty or
    not a plain value is a record with a `problem`.

    A cursor is this reader's version and options with the hash of the bytes. Raises ValueError for options that
    cannot be meant.
    """

    def __init__(
        self,
        name: str,
        root: Path,
        paths: Sequence[str],
        *,
        format: str | None = None,
        key: str | Sequence[str] | None = None,
        record_path: str | None = None,
        encoding: str | None = None,
        delimiter: str | None = None,
        sheet: str | None = None,
        base: str | None = None,
        skolem: str = "urn:graphtide:blank:",
        limits: Limits | None = None,
    ) -> None:
        if format is not None and format not in NAMES:
            raise ValueError(f"format {format!r} is not known. Write one of {', '.join(sorted(set(NAMES.values())))}.")
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise ValueError(f"delimiter {delimiter!r} is not one character.")
        if not paths:
            raise ValueError("paths is empty. Name a file, or a pattern such as 'tables/*.csv'.")
        self.name, self.root = name, Path(root)
        self.paths = tuple(paths)
        wanted = [patterns.below(path) if _is_folder(path, format) else path for path in self.paths]
        self.key = (key,) if isinstance(key, str) else tuple(key or ())
        self.limits = limits or Limits()
        self._format = NAMES[format] if format else None
        self._record_path, self._encoding, self._delimiter, self._sheet = record_path, encoding, delimiter, sheet
        self._base, self._skolem = base, skolem
        self.absent: Callable[[dict[str, Any], str], list[str]] | None = None
        """What to note about a table's columns, given its first row and its scope."""
        self._patterns = [patterns.Pattern(path) for path in wanted]
        self._prefixed = len(self.paths) > 1 or self._patterns[0].literal is None
        _check_record_path(record_path, {self._format or format_of(path) for path in self.paths})
        options = [READER, self.paths if self._prefixed else None, self._format, self.key, record_path, encoding]
        options += [delimiter, sheet, base, skolem]
        self.version = hashlib.blake2b(json.dumps(options).encode(), digest_size=6).hexdigest()

    def scopes(self) -> list[str]:
        """The files that exist now, sorted. Raises SourceError when a folder they live in is missing or unreadable."""
        self._check_root()
        found: set[str] = set()
        for pattern in self._patterns:
            try:
                found.update(pattern.files(self.root, known_only=self._format is None))
            except OSError as wrong:
                folder = wrong.filename or self.root
                raise SourceError(
                    f"{self.name}: folder '{folder}' cannot be read: {wrong.strerror}. "
                    "What it said stays until it is back; correct path if it has moved."
                ) from wrong
        return sorted(found)

    def missing(self) -> list[str]:
        """The literal paths that name no file, and the patterns that match none: perhaps misspelt."""
        found = self.scopes()
        return [p.text for p in self._patterns if not any(p.matches(scope) for scope in found)]

    def scope_of(self, path: str | os.PathLike[str]) -> str | None:
        """The scope that a path is, whether or not a file is there; None when it is none of ours."""
        relative = patterns.relative(Path(path), self.root)
        if relative is None:
            return None
        known = self._format is not None or format_of(relative) is not None
        mine = any(p.matches(relative) and (known or p.literal is not None) for p in self._patterns)
        return relative if mine else None

    def watched(self) -> list[Path]:
        """The folders in which files of this source live, for whoever watches them."""
        return sorted({self.root / pattern.folder for pattern in self._patterns})

    def read(self, cursor: str | None) -> Iterator[Batch]:
        """Every file, whole, with its own cursor; the argument is not used, since `read_scope` skips better.

        A file that cannot be read is a batch whose records raise. A literal path without a file is an empty batch.
        """
        literal = {p.literal for p in self._patterns if p.literal is not None}
        for scope in sorted({*self.scopes(), *literal}):
            try:
                batch = self.read_scope(scope, None)
            except ReadError as wrong:
                yield Batch(self.name, scope, Unreadable(wrong))
                continue
            if batch is not None:
                yield batch

    def read_scope(self, scope: str, cursor: str | None) -> Batch | None:
        """The file as it is; None when `cursor` names these bytes read this way; an empty batch when it is gone.

        Raises SourceError when `root` is missing, ReadError when the file cannot be read and Moved when it changed
        meanwhile; what is only found out while reading is raised by iterating `records`, which can be done again.
        """
        self._check_root()
        mine = [pattern for pattern in self._patterns if pattern.matches(scope)]
        if mine and all(pattern.leads_out(self.root, scope) for pattern in mine):
            return Batch(self.name, scope, ())
        format = self._format or format_of(scope)
        content = look(self.root / scope, scope, *_most(format, self.limits))
        if content is None:
            note = f"{scope}: there is no such file" if any(p.literal == scope for p in self._patterns) else ""
            return Batch(self.name, scope, (), notes=(note,) if note else ())
        now = f"{self.version}:{content.digest}"
        if cursor == now:
            return None
        if format is None:
            raise ReadError(scope, "has no ending that tells its format", "Set format.")
        notes: list[str] = []
        reading = self._reading(content, scope, format, notes)
        reading.begin(notes)
        return Batch(self.name, scope, reading, cursor=now, notes=tuple(notes))

    def _check_root(self) -> None:
        try:
            with os.scandir(self.root):
                pass
        except OSError as wrong:
            raise SourceError(
                f"{self.name}: folder '{self.root}' cannot be read: {wrong.strerror}. "
                "What it said stays until it is back."
            ) from wrong

    def _reading(self, content: Content, scope: str, format: str, notes: list[str]) -> Reading:
        limits = self.limits
        encoding, delimiter = "utf-8", ","
        if format in ("csv", "tsv", "jsonl", "json", "yaml"):
            with content.stream() as file:
                longest = limits.max_line_bytes if format in ("csv", "tsv", "jsonl") else None
                found = inspect(file, scope, self._encoding, longest)
            encoding = found.name
            if found.note:
                notes.append(f"{scope}: {found.note}")
        if format in ("csv", "tsv"):
            delimiter = self._delimiter or "\t"
            if self._delimiter is None and format == "csv":
                with content.stream() as file:
                    delimiter = tables.delimiter_of(tables.sample_of(file, encoding))
        return Reading(self, content, scope, format, encoding, delimiter)

    def rows(self, reading: Reading, notes: list[str]) -> Iterator[tables.Row]:
        """The rows of a file as its format's reader yields them, before they have keys."""
        content, scope, format, limits = reading.content, reading.scope, reading.format, self.limits
        if format in ("csv", "tsv"):
            with content.stream() as file:
                yield from tables.rows(file, scope, reading.encoding, reading.delimiter, limits, notes)
        elif format == "jsonl":
            with content.stream() as file:
                yield from documents.line_rows(file, scope, reading.encoding, paths.parse(self._record_path), limits)
        elif format in ("json", "yaml"):
            steps = paths.parse(self._record_path)
            text = content.whole().decode(reading.encoding)
            read = documents.yaml_rows if format == "yaml" else documents.json_rows
            yield from read(text, scope, steps, limits)
        elif format == "xml":
            with content.stream() as file:
                yield from xml.rows(file, scope, self._encoding, xml.parse(self._record_path), limits)
        elif format in ("excel", "parquet"):
            from sources import workbooks

            data = content.whole()
            if format == "excel":
                yield from workbooks.excel_rows(data, scope, self._sheet, limits, notes)
            else:
                yield from workbooks.parquet_rows(data, scope, limits, notes)
        else:
            from sources import rdf

            data = content.whole()
            if self._encoding is not None:
                data = data.decode(self._encoding).encode()
            yield from rdf.rows(data, scope, format, self._base, self._skolem, limits, notes)

    def records(self, reading: Reading, notes: list[str]) -> Generator[Record, None, None]:
        """The records of a file. Raises ReadError when no row has the key's column."""
        name, scope, columns = self.name, reading.scope, self.key
        prefix = f"{scope}/" if self._prefixed else ""
        keyed = bool(columns) and reading.format not in RDF
        single = columns[0] if len(columns) == 1 else None
        table = reading.format in ("csv", "tsv", "parquet", "excel")
        for position, (place, own, data, problem) in enumerate(self.rows(reading, notes), 1):
            if table and position == 1 and self.absent is not None:
                notes.extend(self.absent(data, scope))
            if keyed:
                if table and position == 1:
                    _check_columns(columns, data, f"{scope}:1" if reading.format in ("csv", "tsv") else scope)
                value = data.get(single) if single is not None else None
                if value.__class__ is str and value:
                    key = value
                else:
                    key, problem = _key(columns, data)
                    key = key or f"@{place.lstrip(':#')}"
            elif own is not None:
                key = own
            else:
                key = str(position)
                if position == 1:
                    notes.append(
                        f"{scope}: its records are keyed by their position, so that inserting one changes every one "
                        "after it; set key"
                    )
            yield Record(name, prefix + key, data, scope + place, problem)


class Reading:
    """The records of one version of one file, as often as they are iterated; another version raises Moved."""

    def __init__(
        self, source: FilesSource, content: Content, scope: str, format: str, encoding: str, delimiter: str
    ) -> None:
        self.source, self.content, self.scope, self.format = source, content, scope, format
        self.encoding, self.delimiter = encoding, delimiter
        self._begun: Iterator[Record] | None = None

    def begin(self, notes: list[str]) -> None:
        """Read up to the first record, so that a broken header is raised and noted now.

        What was read whole is kept for the first iteration; a file that is streamed is closed until then, because a
        caller may hold more batches than a process may hold files.
        """
        begun = self.source.records(self, notes)
        first = next(begun, None)
        if self.format in STREAMED:
            begun.close()
        else:
            self._begun = iter(()) if first is None else chain((first,), begun)

    def __iter__(self) -> Iterator[Record]:
        begun, self._begun = self._begun, None
        return self.source.records(self, []) if begun is None else begun


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The records of a file that could not be read: iterating raises why."""

    problem: ReadError

    def __iter__(self) -> Iterator[Record]:
        raise self.problem


def _is_folder(path: str, format: str | None) -> bool:
    name = path.rstrip("/").rpartition("/")[2]
    return (
        path.endswith("/") or name in (".", "..") or (format is None and "." not in name and not patterns.magic(path))
    )


def _most(format: str | None, limits: Limits) -> tuple[int, str]:
    """The largest file that is opened for a format, and the name of that limit."""
    if format in STREAMED or format is None:
        return limits.max_file_bytes, "max_file_bytes"
    if format == "yaml":
        return min((limits.max_yaml_bytes, "max_yaml_bytes"), (limits.max_file_bytes, "max_file_bytes"))
    return min((limits.max_document_bytes, "max_document_bytes"), (limits.max_file_bytes, "max_file_bytes"))


def _check_columns(columns: Sequence[str], data: dict[str, Any], place: str) -> None:
    for column in columns:
        if column not in data:
            has = ", ".join(repr(name) for name in list(data)[:8]) + (", ..." if len(data) > 8 else "")
            raise ReadError(place, f"has no column {column!r} to be the key; it has {has}", "Correct key.")


def _key(columns: Sequence[str], data: dict[str, Any]) -> tuple[str, str]:
    """(key, "") or ("", why the row has none)."""
    parts = []
    for column in columns:
        value = _value(column, data)
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, (datetime, date)):
            text = value.isoformat()
        elif value is None or value == "":
            return "", f"its key {column!r} is empty. Give the row a value there, or choose another key."
        elif isinstance(value, (list, dict)):
            return "", f"its key {column!r} is {paths.kind(value)}, not one value. Choose another key."
        else:
            text = str(value)
        parts.append(text)
    if len(parts) == 1:
        return parts[0], ""
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts), ""


def _value(column: str, data: dict[str, Any]) -> Any:
    if column in data:
        return data[column]
    value: Any = data
    for name in column.split("."):
        if not isinstance(value, dict) or name not in value:
            return None
        value = value[name]
    return value


def _check_record_path(record_path: str | None, formats: set[str | None]) -> None:
    if record_path is not None:
        if "xml" in formats:
            xml.parse(record_path)
        else:
            paths.parse(record_path)
