"""A graph that fits in memory is queried there: half the time of the same query on disk, and a worker forked in 20 ms.

`python -m sparql.query.warm STATE FOLDER BASE BYTES` writes the newest checkpoint to its standard output: a JSON line that says
which commit it is, then N-Quads. It runs in a process of its own, since opening a store on disk starts threads, and a
process with threads is not one to fork workers from.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil
from pyoxigraph import NamedNode, RdfFormat, Store

from sparql import checkpoint
from sparql.log import LogError, LogReader, read_head
from sparql.names import Names

# In memory a graph takes this many times its bytes on disk (1,028,282 quads: 150 MB on disk, 455 MB in memory).
TIMES_DISK = 3.5
# The engine keeps what was removed in memory: after so many statements, or this share of the graph, begin afresh.
WORN_STATEMENTS, WORN_SHARE = 200_000, 0.25
_NOT_GROUND = re.compile(rb"^_:|^<[^>]*> <[^>]*> (?:_:|<<\()", re.MULTILINE)


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
    command = [sys.executable, "-P", "-m", "sparql.query.warm", str(state), str(folder), base, str(most_bytes)]
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


def main(state: Path, folder: Path, base: str, most_bytes: int) -> int:
    """Write the newest checkpoint to the standard output, or a JSON line that says why not."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 20)
    try:
        status = _dump(state, folder, base, most_bytes, out)
    except (NotWarm, checkpoint.CheckpointGone) as no:
        out.write(json.dumps({"no": str(no)}).encode() + b"\n")
        status = 0
    out.close()
    return status


def _dump(state: Path, folder: Path, base: str, most_bytes: int, out: IO[bytes]) -> int:
    found = checkpoint.newest(state)
    if found is None:
        raise NotWarm("there is no checkpoint yet")
    size = sum(item.stat().st_size for item in os.scandir(found.data) if item.is_file())
    most = min(most_bytes, free_bytes() // 2)
    if size * TIMES_DISK > most:
        raise NotWarm(f"it would take about {size * TIMES_DISK / 2**20:,.0f} MiB and {most / 2**20:,.0f} MiB may be had")
    shutil.rmtree(folder, ignore_errors=True)
    checkpoint.clone(found, folder)
    store = Store(str(folder))
    names = Names(base)
    if next(store.quads_for_pattern(*names.plain, NamedNode(names.cursor)), None) is not None:
        raise NotWarm("the store is a plain one")
    about = {"commit": found.commit, "time": found.time, "quads": len(store)}
    out.write(json.dumps(about).encode() + b"\n")
    ground = _Ground(out)
    store.dump(ground, format=RdfFormat.N_QUADS)  # type: ignore[arg-type]
    return ground.close()


def free_bytes() -> int:
    """Memory that can be had without taking it from others: of the machine, or of the group this process is in."""
    free = psutil.virtual_memory().available
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: then there is no limit
        group = Path("/sys/fs/cgroup")
        free = min(free, int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return int(free)


class _Ground:
    """Passes N-Quads on for as long as they have neither a blank node nor a triple term."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._kept, self.ground = out, bytearray(), True

    def write(self, data: bytes) -> int:
        self._kept += data
        if len(self._kept) > 1 << 20:
            cut = self._kept.rfind(b"\n") + 1
            self._pass(bytes(self._kept[:cut]))
            del self._kept[:cut]
        return len(data)

    def flush(self) -> None:
        """The engine's own flush passes nothing on."""

    def close(self) -> int:
        """All is passed on; 0, or 1 when it was not ground."""
        self._pass(bytes(self._kept))
        return int(not self.ground)

    def _pass(self, lines: bytes) -> None:
        # The first is what a search finds fast, the second what it was looking for: a literal may hold "> _:".
        if any(sign in lines for sign in (b"_:", b"<<(")) and _NOT_GROUND.search(lines):
            self.ground = False
        if self.ground:
            self._out.write(lines)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
