"""A stage is the graph as it will be: a private copy that takes a change before the store does, or gives it back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyoxigraph
from pyoxigraph import NamedNode, Quad

from sparql import checkpoint as checkpoints
from sparql.log import Change, Entry
from sparql.names import Names

from . import graph


class Stage:
    """A replica of the store, kept in step with its commits, plus at most one change of its own."""

    def __init__(self, checkpoint: checkpoints.Checkpoint, path: Path, names: Names) -> None:
        """A copy of `checkpoint` in `path`."""
        checkpoints.clone(checkpoint, path)
        self.names, self.at = names, checkpoint.commit
        self._path = path
        self._graph = pyoxigraph.Store(str(path))
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

    def follow(self, entry: Entry, change: Change | None) -> None:
        """The store has committed `entry`, made from `change`: a stage that has that change on it keeps it."""
        if self._pending is not None and self._pending is change:
            self._pending = self._done = None
            self._behind.append(_rest(entry, change))
            return
        if self._pending is not None:
            self.undo()
        self._behind.append(entry)

    def match(
        self,
        subject: NamedNode | None = None,
        predicate: NamedNode | None = None,
        object: Any = None,
        graph_name: Any = None,
    ) -> Iterator[Quad]:
        """The quads of a pattern; None is any, also for the graph."""
        self._catch_up()
        return self._graph.quads_for_pattern(subject, predicate, object, graph_name)

    def query(self, text: str, **options: Any) -> Any:
        """The answer to a SPARQL query, over the stage."""
        self._catch_up()
        return self._graph.query(text, **options)

    def statements(self, graph_iri: str) -> frozenset[str]:
        """What the graph says ("" is the default graph)."""
        self._catch_up()
        return graph.statements(self._graph, graph_iri)

    def holds(self, statement: str) -> bool:
        """Whether the statement is in the default graph."""
        self._catch_up()
        return graph.holds(self._graph, statement)

    def asserted_by(self, statement: str) -> Iterator[str]:
        """The merged record graphs that contain the statement."""
        self._catch_up()
        return graph.asserted_by(self._graph, self.names, statement)

    def close(self) -> None:
        """The copy is gone."""
        del self._graph
        shutil.rmtree(self._path, ignore_errors=True)

    def _catch_up(self) -> None:
        if self._behind and self._pending is None:
            behind, self._behind = self._behind, []
            for entry in behind:
                entry.change.apply(self._graph)
                self.at = entry.id


def _rest(entry: Entry, change: Change | None) -> Entry:
    """The entry without what `change` did already."""
    if change is None:
        return entry
    return Entry(entry.id, entry.previous, entry.time, entry.report, _less(entry.change, change))


def _less(whole: Change, part: Change) -> Change:
    def less(one: Mapping[str, frozenset[str]], other: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
        return {name: rest for name, found in one.items() if (rest := found - other.get(name, frozenset()))}

    return Change(less(whole.removed, part.removed), less(whole.added, part.added))


def effective(store: pyoxigraph.Store, change: Change) -> Change:
    """What of `change` would make a difference to `store`: its exact inverse undoes it."""
    removed, added = {}, {}
    for name, found in change.removed.items():
        gone = found - change.added.get(name, frozenset())
        removed[name] = graph.present(store, gone, name)
    for name, found in change.added.items():
        added[name] = found - graph.present(store, found, name)
    return Change(removed, added)
