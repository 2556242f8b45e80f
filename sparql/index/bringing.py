"""An index is there for whoever needs it now, whether or not a server keeps it."""

from __future__ import annotations

import contextlib
import fcntl
import time
from pathlib import Path

from sparql.index.following import FOLDER, LOCK, Follower, Following
from sparql.index.reading import Index, IndexMissing
from sparql.log import read_head

LOOK_SECONDS = 0.05


def bring(state: Path, base: str, follower: Follower, *, seconds: float = 60.0) -> bool:
    """The index stands at what is the newest commit now: a process that keeps it is waited for, or it is brought here.

    Returns False when such a process does not come to it in time, or it cannot be made.
    """
    newest, ends = read_head(state), time.monotonic() + seconds
    index = Index(state, follower.name)
    (state / FOLDER).mkdir(parents=True, exist_ok=True)
    while not _at(index, newest):
        with open(state / FOLDER / LOCK, "w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            following = Following(state, base, [follower])
            try:
                following.round()
            finally:
                following.close()
            return _at(index, newest)
        if time.monotonic() >= ends:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def _at(index: Index, commit: int) -> bool:
    with contextlib.suppress(IndexMissing):
        return index.commit >= commit
    return False
