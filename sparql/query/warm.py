"""A graph that fits in memory is queried there: half the time of a query on disk, and a worker forked in 20 ms."""

from __future__ import annotations

import gc
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import RdfFormat, Store

from sparql.log import LogError, LogReader, find_graphs, read_head

# The engine keeps what was removed in memory: after so many statements, or this share of the graph, begin afresh.
WORN_STATEMENTS, WORN_SHARE = 200_000, 0.25


class NotWarm(Exception):
    """The graph is not held in memory: `str()` says why. Workers on disk answer."""


@dataclass(slots=True)
class Held:
    """A graph in memory at commit `epoch`, made at `time`; `spent` statements were changed since it was loaded."""

    store: Store
    epoch: int
    time: str
    quads: int
    spent: int = 0

    @property
    def worn(self) -> bool:
        """Whether what was removed since takes up so much that it is time to load again."""
        return self.spent > max(WORN_STATEMENTS, self.quads * WORN_SHARE)


def hold(state: Path, folder: Path, base: str, most_bytes: int) -> Held:
    """The graph of the newest checkpoint, in memory. `folder` is where a clone of it lies meanwhile.

    Raises NotWarm when there is none, when it would take more than `most_bytes` or half of the memory that is free, and
    for a plain store or one with blank nodes: loading would give those other labels than the change log knows.
    """
    command = [sys.executable, "-P", "-m", "sparql.query.dump", str(state), str(folder), base, str(most_bytes)]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert child.stdout is not None
    try:
        about = json.loads(child.stdout.readline() or b'{"no": "its reader ended"}')
        if "no" in about:
            raise NotWarm(about["no"])
        store = Store()
        store.bulk_load(input=child.stdout, format=RdfFormat.N_QUADS, lenient=True)
        if child.wait() != 0:
            raise NotWarm("it has blank nodes or triple terms, or its reader ended")
    finally:
        child.stdout.close()
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)
    find_graphs(store)
    gc.collect()
    return Held(store, about["commit"], about["time"], about["quads"])


def follow(held: Held, log: LogReader, state: Path) -> bool:
    """The graph stands at the newest commit. False when the log does not lead there: load again."""
    if read_head(state) < held.epoch:
        return False
    try:
        for entry in log.entries():
            if entry.previous != held.epoch:
                return False
            entry.change.apply(held.store)
            held.epoch, held.time = entry.id, entry.time
            held.spent += len(entry.change)
    except LogError:
        return False
    return True
