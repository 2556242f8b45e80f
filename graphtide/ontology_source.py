"""Vocabularies and shapes are records like any other, and so is what a directly mapped table declares."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from ontology.shapes import BUILTIN as SHAPES
from ontology.vocabulary import BUILTIN as VOCABULARY
from sources.files import FilesSource
from sources.formats import RDF, format_of
from sources.record import Batch, ReadError, Record, ScopedSource, SourceError
from transforms.direct import direct_vocabulary

NAME = "ontology"
OURS = "graphtide/"
DECLARED = "def/"


class OntologySource:
    """The built-in source `ontology`: our own files (`graphtide/...`), the user's, and what tables declare (`def/...`).

    `tables` are the sources that are mapped directly: the columns of their first records become declared properties.
    """

    def __init__(self, root: Path, files: Sequence[str], tables: Sequence[ScopedSource], base: str) -> None:
        self.name = NAME
        skolem = f"{base}.well-known/genid/"
        self._ours = FilesSource(
            NAME, VOCABULARY.parent, [VOCABULARY.name, SHAPES.name], format="turtle", base=base, skolem=skolem
        )
        self._theirs = FilesSource(NAME, root, files, base=base, skolem=skolem) if files else None
        self._tables = {table.name: table for table in tables}
        self._base = base
        self.declares = frozenset(self._tables)

    def scopes(self) -> list[str]:
        """Every vocabulary, shapes file and declaring table there is now, sorted."""
        theirs = self._theirs.scopes() if self._theirs is not None else []
        ours = [OURS + scope for scope in self._ours.scopes()]
        return sorted([*ours, *theirs, *(DECLARED + name for name in self._tables)])

    def read_scope(self, scope: str, cursor: str | None) -> Batch | None:
        """The scope as it is; None when `cursor` names exactly this version."""
        if scope.startswith(DECLARED) and scope[len(DECLARED) :] in self._tables:
            return self._declared(scope, cursor)
        if scope.startswith(OURS):
            found = self._ours.read_scope(scope[len(OURS) :], cursor)
            return found and _placed(found, scope)
        if self._theirs is None:
            return Batch(NAME, scope, ())
        return self._theirs.read_scope(scope, cursor)

    def read(self, cursor: str | None) -> Iterator[Batch]:
        """Every scope, whole."""
        for scope in self.scopes():
            try:
                batch = self.read_scope(scope, None)
            except ReadError as wrong:
                batch = Batch(NAME, scope, _Raises(wrong))
            if batch is not None:
                yield batch

    def scope_of(self, path: Path) -> str | None:
        """The scope that a file of the user's is; None when it is none of ours."""
        return self._theirs.scope_of(path) if self._theirs is not None else None

    def _declared(self, scope: str, cursor: str | None) -> Batch | None:
        name = scope[len(DECLARED) :]
        columns = sorted(_columns(self._tables[name]))
        now = hashlib.sha256(repr([name, self._base, columns]).encode()).hexdigest()[:32]
        if now == cursor:
            return None
        facts = direct_vocabulary(name, columns, self._base, name)
        data = {"statements": sorted(facts.statements)}
        return Batch(NAME, scope, [Record(NAME, scope, data, name)], cursor=now)


class _Raises:
    def __init__(self, wrong: ReadError) -> None:
        self._wrong = wrong

    def __iter__(self) -> Iterator[Record]:
        raise self._wrong


def _columns(table: ScopedSource) -> set[str]:
    """The columns of the first record of each scope that can be read."""
    columns: set[str] = set()
    try:
        scopes = table.scopes()
    except SourceError:
        return columns
    for scope in scopes:
        if format_of(scope) in RDF:
            continue
        try:
            batch = table.read_scope(scope, None)
            for record in islice(batch.records if batch is not None else (), 1):
                columns.update(str(column) for column in record.data)
        except SourceError:  # its own source says so
            continue
    return columns


def _placed(batch: Batch, scope: str) -> Batch:
    """Our own file's batch under the scope that tells it from a user's file of the same name."""
    return Batch(NAME, scope, batch.records, batch.gone, batch.complete, batch.cursor, batch.notes)
