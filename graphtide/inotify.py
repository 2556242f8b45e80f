"""The kernel says which names in which folders changed; what it could not say, it says that too.

watchdog 6 reads inotify as well, but drops IN_Q_OVERFLOW, does not watch a folder moved in from elsewhere, holds
everything behind a file moved out for half a second, and its thread ends for good on a folder created and removed
in haste (KeyError in `_recursive_simulate`): each a lost edit. Where there is no inotify, watchdog is what we use.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

MODIFY, ATTRIB, CLOSE_WRITE = 0x2, 0x4, 0x8
MOVED_FROM, MOVED_TO, CREATE, DELETE = 0x40, 0x80, 0x100, 0x200
DELETE_SELF, MOVE_SELF = 0x400, 0x800
UNMOUNT, OVERFLOW, IGNORED, ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLYDIR, _CLOEXEC, _NONBLOCK = 0x01000000, 0o2000000, 0o4000
WANTED = MODIFY | ATTRIB | CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF
_HEADER = struct.Struct("iIII")


class WatchLimit(OSError):
    """The kernel has no watches left for this user; `reason` names the setting."""

    def __init__(self, reason: str, folder: str) -> None:
        self.reason, self.folder = reason, folder
        super().__init__(f"{folder}: {reason}")


@dataclass(frozen=True, slots=True)
class Event:
    """`name` in the folder watched as `wd`; an empty name is the folder itself; `wd` is -1 on overflow."""

    wd: int
    mask: int
    name: str


def here() -> bool:
    """Whether this system has inotify."""
    return sys.platform == "linux"


class Inotify:
    """One inotify instance. `wake` may be called from any thread, the rest from one."""

    def __init__(self) -> None:
        """Raises WatchLimit when the user has no instances left, OSError when the kernel refuses."""
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        if self._fd < 0:
            raise _error("")
        self._wake_out, self._wake_in = os.pipe()
        os.set_blocking(self._wake_out, False)
        os.set_blocking(self._wake_in, False)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._poll.register(self._wake_out, select.POLLIN)

    def add(self, folder: str) -> int:
        """Watch the names in `folder` (a link is followed); the same folder has the same number under any name.

        Raises WatchLimit, or OSError when it is no folder or may not be read.
        """
        wd: int = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), WANTED | _ONLYDIR)
        if wd < 0:
            raise _error(folder)
        return wd

    def remove(self, wd: int) -> None:
        """Stop watching; no error when the kernel did so already."""
        self._libc.inotify_rm_watch(self._fd, wd)

    def wait(self, seconds: float) -> list[Event]:
        """What happened, as soon as something did or `wake` was called, and after `seconds` at the latest."""
        ready = self._poll.poll(max(0, int(seconds * 1000)))
        events: list[Event] = []
        for fd, _ in ready:
            try:
                data = os.read(fd, 1 << 18)
            except BlockingIOError:
                continue
            if fd == self._fd:
                events.extend(_events(data))
        return events

    def wake(self) -> None:
        """Make a `wait` return now."""
        try:
            os.write(self._wake_in, b"!")
        except (BlockingIOError, OSError):
            return

    def close(self) -> None:
        """Give everything back to the kernel."""
        for fd in (self._fd, self._wake_out, self._wake_in):
            os.close(fd)


def _events(data: bytes) -> Iterator[Event]:
    at = 0
    while at + _HEADER.size <= len(data):
        wd, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield Event(wd, mask, os.fsdecode(data[at : at + length].split(b"\0", 1)[0]))
        at += length


def _error(folder: str) -> OSError:
    code = ctypes.get_errno()
    if code == errno.ENOSPC:
        return WatchLimit(f"the watch limit is reached (fs.inotify.max_user_watches = {_limit('watches')})", folder)
    if code == errno.EMFILE:
        return WatchLimit(
            f"the watcher limit is reached (fs.inotify.max_user_instances = {_limit('instances')})", folder
        )
    return OSError(code, os.strerror(code), folder)


def _limit(what: str) -> str:
    try:
        with open(f"/proc/sys/fs/inotify/max_user_{what}") as file:
            return file.read().strip()
    except OSError:
        return "unknown"
