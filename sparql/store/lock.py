"""One writer: the store belongs to the process that holds the lock, and the lock dies with it."""

from __future__ import annotations

import fcntl
import json
import os
import time
import weakref
from datetime import UTC, datetime
from pathlib import Path

from .errors import StoreBusy

LOCK = "lock"
PAUSE = 0.05

_held: weakref.WeakSet[Lock] = weakref.WeakSet()
_watching = False


class Lock:
    """The lock of one state folder, held until `release()` or the end of the process."""

    def __init__(self, state: Path, command: str, wait: float) -> None:
        """Raises StoreBusy, naming the holder, when it is not free within `wait` seconds."""
        self.path = state / LOCK
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            end = time.monotonic() + wait
            while not _try(fd):
                if time.monotonic() >= end:
                    raise StoreBusy(_busy(self.path, wait))
                time.sleep(PAUSE)
            since = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            text = json.dumps({"pid": os.getpid(), "command": command, "since": since}) + "\n"
            os.ftruncate(fd, 0)
            os.pwrite(fd, text.encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        _watch()
        _held.add(self)

    def release(self) -> None:
        """Another process may take the store."""
        if self._fd >= 0:
            os.ftruncate(self._fd, 0)
            fcntl.flock(self._fd, fcntl.LOCK_UN)
            self.forget()

    def forget(self) -> None:
        """This process no longer has the lock; a parent that forked it still does."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            _held.discard(self)


def _try(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _watch() -> None:
    # A forked child shares the lock, and would keep it after its parent died (test_store_lock).
    global _watching
    if not _watching:
        os.register_at_fork(after_in_child=_forked)
        _watching = True


def _forked() -> None:
    for lock in list(_held):
        lock.forget()


def holder(state: Path) -> dict[str, object] | None:
    """Who wrote itself into the lock file (`pid`, `command`, `since`); None when nobody did."""
    try:
        found = json.loads((state / LOCK).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _busy(path: Path, wait: float) -> str:
    found = holder(path.parent)
    who = f"process {found['pid']} ({found['command']}) since {found['since']}" if found else "another process"
    return (
        f"{path.parent} is in use by {who}: it was not free within {wait:g} s. "
        "Wait for it to end, stop it, or raise lock_seconds."
    )
