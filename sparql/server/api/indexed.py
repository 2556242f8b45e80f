"""The index is read as it stands at one commit, by any number of readers, while it moves on."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from sparql.index import reading
from sparql.log import read_head
from sparql.server.problem import Problem
from sparql.server.serving import Serving

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Index:
    """An open view of the search index at `commit`; `behind` is how many commits the graph is ahead of it."""

    db: sqlite3.Connection
    commit: int
    time: str
    behind: int


async def indexed(serving: Serving, work: Callable[[Index], T]) -> T:
    """What `work` makes of the index, off the event loop. Raises Problem 503 while there is none."""
    return await asyncio.get_running_loop().run_in_executor(serving.threads, lambda: _read(serving.config.state, work))


def _read(state: Path, work: Callable[[Index], T]) -> T:
    try:
        with _of(state).read() as db:
            commit = reading.at(db)
            return work(Index(db, commit, reading.when(db), max(0, read_head(state) - commit)))
    except reading.IndexMissing as none:
        raise Problem(
            503,
            "index-not-ready",
            "The search index is being made. Everything else answers meanwhile. Ask again soon.",
            headers={"Retry-After": "2"},
        ) from none


@lru_cache(maxsize=64)
def _of(state: Path) -> reading.Index:
    return reading.Index(state, "search")
