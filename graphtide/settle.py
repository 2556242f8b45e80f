"""A file is whole when its writer closed it and left it no shorter, or when it stood still and nobody writes to it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass

from .tree import Kind

SHRUNK, HALVED = 1, 5  # times settle_ms to stand still, and that of a file left empty or less than half as long
BURST = 3  # times the longest pause seen between two touches of one burst
HELD_LONGER, HELD_SHORTER = 25, 300  # times settle_ms to stand still while someone has it open for writing
HELD_LONGEST = 1500  # times settle_ms after which a file that only grows, as a log does, is read all the same


@dataclass(frozen=True, slots=True)
class Ready:
    """A path to read now; `gone` when it was deleted under our eyes."""

    path: str
    gone: bool


@dataclass(slots=True)
class _Pending:
    kind: Kind
    first: float
    last: float
    look: float
    shorter: bool = False
    pause: float = 0.0
    seen: tuple[int, int, int] | None = None


class Settling:
    """Paths that changed and are not read yet. Not for several threads at once; `now` is any clock in seconds."""

    def __init__(self, settle: float, has_writer: Callable[[str], bool]) -> None:
        self._settle, self._has_writer = settle, has_writer
        self._pending: dict[str, _Pending] = {}
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def note(self, kind: Kind, path: str, now: float) -> None:
        """Something happened to `path`."""
        if kind == "found":
            found = _look(path)
            if found is not None:
                self._sizes[path] = found[0]
            return
        was = self._pending.get(path)
        wait = 0.0 if kind in ("closed", "moved") else self._settle
        if was is None:
            self._pending[path] = _Pending(kind, now, now, now + wait)
            return
        # Pauses within a burst tell how slow its writer is: a piece a second is not standing still for 200 ms.
        was.pause = max(was.pause, now - was.last)
        was.kind, was.last, was.look = kind, now, now + wait

    def forget(self, path: str) -> None:
        """Nothing is to be done about `path` any more."""
        self._pending.pop(path, None)

    def due(self, now: float) -> tuple[list[Ready], float | None]:
        """What to read now, and how many seconds from now to ask again (None: when something happens)."""
        ready: list[Ready] = []
        for path in [path for path, one in self._pending.items() if one.look <= now]:
            one = self._pending[path]
            again = self._wait(path, one, now)
            if again is None:
                del self._pending[path]
                found = _look(path)
                if found is None:
                    self._sizes.pop(path, None)
                else:
                    self._sizes[path] = found[0]
                ready.append(Ready(path, found is None))
            else:
                one.look = now + again
        if not self._pending:
            return ready, None
        return ready, max(0.0, min(one.look for one in self._pending.values()) - now)

    def _wait(self, path: str, one: _Pending, now: float) -> float | None:
        found = _look(path)
        if found != one.seen:
            if one.seen is not None and one.kind == "touched":
                one.last = now  # it grew without an event, as on a file mapped into memory
            one.seen = found
        if found is None:
            return _rest(self._settle, one, now)  # many editors delete, then create
        size, before = found[0], self._sizes.get(path, 0)
        longer = size >= before and size > 0
        if self._has_writer(path):
            if longer and now - one.first >= HELD_LONGEST * self._settle:
                return None
            rest = _rest((HELD_LONGER if longer else HELD_SHORTER) * self._settle, one, now)
            return None if rest is None else min(rest, self._settle)
        if one.kind == "closed" and not longer:
            one.shorter = True  # it may be written piece by piece: from now on a close alone does not make it whole
        if one.kind == "moved" or (one.kind == "closed" and not one.shorter):
            return None
        times = HALVED if size * 2 < before or size == 0 else SHRUNK
        return _rest(max(times * self._settle, BURST * one.pause), one, now)


def _rest(still: float, one: _Pending, now: float) -> float | None:
    """How long until it has stood still for `still` seconds; None when it has."""
    left = one.last + still - now
    return left if left > 1e-6 else None


def _look(path: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None
