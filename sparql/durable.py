"""What was synced is on disk, nothing else is: every sync of ours goes through here, so that a test can cut the power.

`REACHED` and `SYNCED` are for tests: the first hears of each named point of a write, the second of each file that is on
disk and up to which size. `GRAPHTIDE_FAULT=point:3` kills the process with SIGKILL the third time it gets to the point.
"""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

REACHED: list[Callable[[str], None]] = []
SYNCED: list[Callable[[Path, int], None]] = []

_counted: Counter[str] = Counter()


def reach(point: str) -> None:
    """Say that a write got to `point`; the process may not come back from here."""
    for hear in REACHED:
        hear(point)
    fault = os.environ.get("GRAPHTIDE_FAULT")
    if fault:
        where, _, nth = fault.partition(":")
        if where == point:
            _counted[point] += 1
            if _counted[point] == int(nth or 1):
                os.kill(os.getpid(), signal.SIGKILL)


def sync_data(fd: int, path: Path) -> None:
    """The bytes written to `fd` so far are on disk."""
    size = os.fstat(fd).st_size if SYNCED else 0
    os.fdatasync(fd) if hasattr(os, "fdatasync") else os.fsync(fd)
    for hear in SYNCED:
        hear(path, size)


def sync_file(path: Path) -> None:
    """The file at `path` is on disk as it is now."""
    fd = os.open(path, os.O_RDONLY)
    try:
        sync_data(fd, path)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """The names in the folder are on disk: what was created, renamed or removed in it stays so."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_tree(path: Path) -> None:
    """Every file below `path`, and every name, is on disk."""
    for folder, _, files in os.walk(path):
        for name in files:
            sync_file(Path(folder, name))
        sync_folder(Path(folder))


def write_json(path: Path, value: Any) -> None:
    """`path` holds `value`, on disk: whoever reads it, at any time, sees the old or the new whole."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with open(part, "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1)
        file.write("\n")
        file.flush()
        sync_data(file.fileno(), part)
    os.replace(part, path)
    sync_folder(path.parent)
