"""The profile of a store at hand: kept in memory, and made again when its graph moves on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import Connection

from sparql.index.profile import held
from sparql.index.reading import Held
from sparql.question.graph import StoreGraph
from sparql.question.planner.names import Names
from sparql.question.planner.plan import Planner
from sparql.question.profile import schema_of
from sparql.question.schema import Schema


class Profiled:
    """The index of a StoreGraph at its epoch."""

    def __init__(self, graph: StoreGraph) -> None:
        self.graph = graph
        self._held: Held = held(graph.store, graph.epoch)

    @property
    def commit(self) -> int:
        return self.graph.epoch

    @contextmanager
    def read(self) -> Iterator[Connection]:
        if self._held.commit != self.graph.epoch:
            self._held = held(self.graph.store, self.graph.epoch)
        with self._held.read() as db:
            yield db

    def reach(self, seconds: float) -> bool:
        return True


def profile(graph: StoreGraph) -> Schema:
    with Profiled(graph).read() as db:
        return schema_of(db, prefixes=graph.prefixes)


def planner(graph: StoreGraph) -> Planner:
    index = Profiled(graph)
    with index.read() as db:
        return Planner(schema_of(db, prefixes=graph.prefixes), Names(index))
