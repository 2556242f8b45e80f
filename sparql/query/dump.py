"""A checkpoint is read by a process of its own: opening a store on disk starts threads, and who forks must have none.

`python -m sparql.query.dump STATE FOLDER BASE BYTES` writes the newest checkpoint to its standard output: a JSON line
that says which commit it is, then N-Quads; or a JSON line that says why it does not. FOLDER holds a clone meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import IO

import psutil
from pyoxigraph import NamedNode, RdfFormat, Store

from sparql import checkpoint
from sparql.names import Names

# In memory a graph takes this many times its bytes on disk (1,028,282 quads: 150 MB on disk, 455 MB in memory).
TIMES_DISK = 3.5
_NOT_GROUND = re.compile(rb"^_:|^<[^>]*> <[^>]*> (?:_:|<<\()", re.MULTILINE)


class _Not(Exception):
    """The checkpoint is not written: `str()` says why."""


def main(state: Path, folder: Path, base: str, most_bytes: int) -> int:
    """Write the newest checkpoint to the standard output, or a JSON line that says why not."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 20)
    try:
        status = _dump(state, folder, base, most_bytes, out)
    except (_Not, checkpoint.CheckpointGone) as no:
        out.write(json.dumps({"no": str(no)}).encode() + b"\n")
        status = 0
    out.close()
    return status


def _dump(state: Path, folder: Path, base: str, most_bytes: int, out: IO[bytes]) -> int:
    found = checkpoint.newest(state)
    if found is None:
        raise _Not("there is no checkpoint yet")
    size = sum(item.stat().st_size for item in os.scandir(found.data) if item.is_file())
    most = min(most_bytes, free_bytes() // 2)
    if size * TIMES_DISK > most:
        raise _Not(f"it would take about {size * TIMES_DISK / 2**20:,.0f} MiB and {most / 2**20:,.0f} MiB may be had")
    shutil.rmtree(folder, ignore_errors=True)
    checkpoint.clone(found, folder)
    store = Store(str(folder))
    names = Names(base)
    if next(store.quads_for_pattern(*names.plain, NamedNode(names.cursor)), None) is not None:
        raise _Not("the store is a plain one")
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
