"""Every change below a root is told once the watch has begun: by the kernel, or by looking again where it cannot."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import inotify
from .inotify import WatchLimit
from .polling import Poller, on_a_network
from .tree import Root, Skip, Tell, Tree

CHECK = 1.0  # seconds between looks for roots that vanished or came back


@dataclass(frozen=True, slots=True)
class Mode:
    """How a root is watched: "events" or "polling", and why not by events."""

    mode: str
    reason: str = ""


class Watch:
    """A watch of some folders: after the constructor no change goes untold. `tell` is called by its threads.

    `skip(folder)` says which folders below a root are none of ours. With `poll`, nothing but looking is used.
    """

    def __init__(
        self, roots: Iterable[Root], tell: Tell, skip: Skip, *, poll_seconds: float, poll: bool = False
    ) -> None:
        self.modes: dict[str, Mode] = {}
        self._tell, self._stop = tell, threading.Event()
        self._poller = Poller(tell, skip, poll_seconds)
        self._tree: Tree | None = None
        self._observer: Any = None
        self._thread: threading.Thread | None = None
        by_events = [root for root in _plain(roots) if not self._must_poll(root, poll)]
        if by_events and inotify.here():
            self._begin(by_events, skip)
        elif by_events:
            self._observe(by_events)

    def close(self) -> None:
        """Tell no more."""
        self._stop.set()
        if self._tree is not None:
            self._tree.wake()
        if self._thread is not None:
            self._thread.join(5.0)
        if self._tree is not None:
            self._tree.close()
        if self._observer is not None:
            self._observer.stop()
            self._observer.join(5.0)
        self._poller.close()

    def _must_poll(self, root: Root, poll: bool) -> bool:
        kind = on_a_network(root.path)
        if poll or kind:
            self._poll(root, f"{root.path} is on a {kind} mount, which sends no events" if kind else "as asked")
            return True
        return False

    def _poll(self, root: Root, reason: str) -> None:
        self.modes[root.path] = Mode("polling", reason)
        self._poller.add(root)

    def _limited(self, root: Root, reason: str) -> None:
        self._poll(root, reason)
        self._tell("lost", root.path)

    def _begin(self, roots: list[Root], skip: Skip) -> None:
        try:
            self._tree = Tree(self._tell, skip, self._limited)
        except OSError as full:
            reason = full.reason if isinstance(full, WatchLimit) else str(full.strerror)
            for root in roots:
                self._poll(root, reason)
            return
        for root in roots:
            try:
                self._tree.add(root)
                self.modes[root.path] = Mode("events")
            except WatchLimit as full:
                self._poll(root, full.reason)
        self._thread = threading.Thread(target=self._work, args=(self._tree,), name="watch", daemon=True)
        self._thread.start()

    def _work(self, tree: Tree) -> None:
        while not self._stop.is_set():
            tree.work(CHECK)
            tree.check()

    def _observe(self, roots: list[Root]) -> None:
        from .observer import observe

        self._observer = observe(roots, self._tell)
        for root in roots:
            self.modes[root.path] = Mode("events")


def _plain(roots: Iterable[Root]) -> list[Root]:
    """Each folder once, deep when any of its mentions is."""
    deep: dict[str, bool] = {}
    for root in roots:
        path = os.path.abspath(root.path)
        deep[path] = deep.get(path, False) or root.deep
    return [Root(path, deep[path]) for path in sorted(deep)]
