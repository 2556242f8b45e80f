"""A stage is the graph as it will be: a private copy that takes a change before the store does, or gives it back."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph
from pyoxigraph import NamedNode, Quad

from sparql import checkpoint as checkpoints
from sparql.log import Change, Entry
from sparql.names import Names

from . import reading

PATIENCE = 1000  # commits, or statements of one, that a stage lets wait until it is asked


class Stage:
    """A replica of the store, kept in step with its commits, plus at most one change of its own."""

    def __init__(self, checkpoint: checkpoints.Checkpoint, folder: Path, names: Names) -> None:
        """A copy of `checkpoint` somewhere in `folder`."""
        self.names, self._folder = names, folder
        self._start(checkpoint)

    def renew(self, checkpoint: checkpoints.Checkpoint) -> None:
        """The stage is a copy of `checkpoint`; nothing is left of what it was."""
        self.close()
        self._start(checkpoint)

    def _start(self, checkpoint: checkpoints.Checkpoint) -> None:
        self.at = checkpoint.commit
        self._path = self._folder / uuid.uuid4().hex
        checkpoints.clone(checkpoint, self._path)
        self._graph = pyoxigraph.Store(str(self._path))
        self._pending: Change | None = None  # as the caller gave it
        self._done: Change | None = None  # what of it made a difference
        self._behind: list[Entry] = []

    def apply(self, change: Change) -> None:
        """The stage is the store as its last commit left it, with `change`. Raises ValueError while one is applied."""
        if self._pending is not None:
            raise ValueError("A change is on the stage already: commit it or undo it first.")
        self._catch_up()
        change.check()
        self._done = effective(self._graph, change)
        self._done.apply(self._graph)
        self._pending = change

    def undo(self) -> None:
        """The stage is the store as its last commit left it."""
        if self._done is not None:
            Change(self._done.added, self._done.removed).apply(self._graph)
        self._pending = self._done = None
        self._catch_up()

    def follow(self, entry: Entry) -> None:
        """The store has committed `entry`: what is on the stage stays if it is part of that, and goes if not."""
        pending = self._pending
        if pending is not None and _within(pending, entry.change):
            self._pending = self._done = None
            rest = _rest(entry.change, pending)
            entry = Entry(entry.id, entry.previous, entry.time, entry.report, rest)
        elif pending is not None:
            self.undo()
        self._behind.append(entry)
        if len(self._behind) >= PATIENCE or len(entry.change) >= PATIENCE:
            self._catch_up()  # entries that wait are memory

    def match(
        self,
        s: NamedNode | None = None,
        p: NamedNode | None = None,
        o: Any = None,
        graph: Any = None,
    ) -> Iterator[Quad]:
        """The quads of a pattern; None is any, also for the graph."""
        self._catch_up()
        return self._graph.quads_for_pattern(s, p, o, graph)

    def query(self, text: str, **options: Any) -> Any:
        """The answer to a SPARQL query, over the stage."""
        self._catch_up()
        return self._graph.query(text, **options)

    def statements(self, graph: str) -> frozenset[str]:
        """What the graph says ("" is the default graph)."""
        self._catch_up()
        return reading.statements(self._graph, graph)

    def holds(self, statement: str) -> bool:
        """Whether the statement is in the default graph."""
        self._catch_up()
        return reading.holds(self._graph, statement)

    def asserted_by(self, statement: str) -> Iterator[str]:
        """The merged record graphs that contain the statement."""
        self._catch_up()
        return reading.asserted_by(self._graph, self.names, statement)

    def close(self) -> None:
        """The copy is gone."""
        self.__dict__.pop("_graph", None)  # RocksDB lets go of its files first
        shutil.rmtree(self._path, ignore_errors=True)

    def __del__(self) -> None:
        if "_path" in self.__dict__:
            self.close()

    def _catch_up(self) -> None:
        if self._behind and self._pending is None:
            behind, self._behind = self._behind, []
            for entry in behind:
                entry.change.apply(self._graph)
                self.at = entry.id


def _within(part: Change, whole: Change) -> bool:
    sides = ((part.removed, whole.removed), (part.added, whole.added))
    return all(found <= big.get(name, frozenset()) for small, big in sides for name, found in small.items())


def _rest(whole: Change, part: Change) -> Change:
    """What of `whole` is left to do where `part` of it is done."""
    none: frozenset[str] = frozenset()
    removed = {
        name: found - part.removed.get(name, none) - whole.added.get(name, none)
        for name, found in whole.removed.items()
    }
    return Change(removed, {name: found - part.added.get(name, none) for name, found in whole.added.items()})


def effective(store: pyoxigraph.Store, change: Change) -> Change:
    """What of `change` would make a difference to `store`: its exact inverse undoes it."""
    removed, added = {}, {}
    for name, found in change.removed.items():
        gone = found - change.added.get(name, frozenset())
        removed[name] = reading.present(store, gone, name)
    for name, found in change.added.items():
        added[name] = found - reading.present(store, found, name)
    return Change(removed, added)
