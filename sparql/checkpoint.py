"""A checkpoint is the whole graph as one commit left it: it never changes, and a copy of it costs a few hard links."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import time as clock
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = "checkpoints"
LEASES = "leases"
DATA = "data"
ABOUT = "checkpoint.json"
LEASE_SECONDS = 600.0

_NAME = re.compile(r"\d{20}\Z")


class CheckpointGone(OSError):
    """The checkpoint was pruned meanwhile: ask for the newest again."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The graph at `commit`; `path` is its folder, `time` when that commit was made (ISO, UTC).

    `report` is what the commit did when it is not in the log: a bulk load.
    """

    path: Path
    commit: int
    time: str
    report: tuple[Mapping[str, Any], ...] = ()

    @property
    def data(self) -> Path:
        """The folder of the store's files: only to be copied, never to be opened for writing."""
        return self.path / DATA


def every(state: Path) -> list[Checkpoint]:
    """All checkpoints, oldest first."""
    try:
        names = sorted(name for name in os.listdir(state / FOLDER) if _NAME.match(name))
    except FileNotFoundError:
        return []
    return [found for name in names if (found := load(state / FOLDER / name)) is not None]


def newest(state: Path) -> Checkpoint | None:
    """The newest checkpoint, None where there is none."""
    return at(state, None)


def at(state: Path, commit: int | None) -> Checkpoint | None:
    """The newest checkpoint at or before `commit` (None: of all); None when it is pruned."""
    try:
        names = sorted((name for name in os.listdir(state / FOLDER) if _NAME.match(name)), reverse=True)
    except FileNotFoundError:
        return None
    for name in names:
        if commit is None or int(name) <= commit:
            found = load(state / FOLDER / name)
            if found is not None:
                return found
    return None


def clone(checkpoint: Checkpoint, dest: Path) -> None:
    """`dest`, which must not exist, is a store of its own as the checkpoint has it: opening and changing it is safe.

    Data files are hard links where the file system allows. Raises CheckpointGone when the checkpoint was pruned
    meanwhile; then `dest` does not exist.
    """
    os.mkdir(dest)
    try:
        for item in os.scandir(checkpoint.data):
            _link(item.path, os.path.join(dest, item.name), item.name.endswith(".sst"))
    except FileNotFoundError as wrong:
        shutil.rmtree(dest, ignore_errors=True)
        raise CheckpointGone(errno.ENOENT, "The checkpoint was pruned meanwhile", str(checkpoint.path)) from wrong
    except BaseException:
        shutil.rmtree(dest, ignore_errors=True)
        raise


def _link(source: str, dest: str, immutable: bool) -> None:
    if immutable:
        try:
            os.link(source, dest)
            return
        except OSError as wrong:
            if wrong.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
                raise
    shutil.copyfile(source, dest)


def lease(state: Path, commit: int, seconds: float = LEASE_SECONDS) -> Path:
    """Until `seconds` from now what is needed for the graph at `commit` is not pruned; remove the file to end it early.

    Look for the checkpoint after taking the lease: it may have been pruned just before.
    """
    folder = state / LEASES
    folder.mkdir(exist_ok=True)
    path = folder / f"{commit}.{uuid.uuid4().hex}"
    path.touch()
    until = clock.time() + seconds
    os.utime(path, (until, until))
    return path


def leased(state: Path) -> set[int]:
    """The commits that are leased now. Leases that ended are removed."""
    found = set()
    folder = state / LEASES
    for name in os.listdir(folder) if folder.is_dir() else ():
        path = folder / name
        try:
            if path.stat().st_mtime > clock.time():
                found.add(int(name.partition(".")[0]))
            else:
                path.unlink()
        except (FileNotFoundError, ValueError):
            continue
    return found


def load(path: Path) -> Checkpoint | None:
    """The checkpoint in the folder `path`; None when it is not there, or pruned meanwhile."""
    try:
        about = json.loads((path / ABOUT).read_text("utf-8"))
        return Checkpoint(path, int(about["commit"]), str(about["time"]), tuple(about.get("report", ())))
    except (OSError, ValueError, KeyError):
        return None
