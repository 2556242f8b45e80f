"""No name in a watched tree is missed: a folder is watched before it is listed, and what may be missed is said lost."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from . import inotify
from .inotify import Event, Inotify, WatchLimit

Kind = Literal["found", "touched", "closed", "moved", "gone", "lost"]
"""`found`: was there when the watch began. `touched`: created, written to, its permissions changed. `closed`: its
writer closed it. `moved`: renamed to this name. `gone`: no more. `lost`: anything under this root may have changed."""

Tell = Callable[[Kind, str], None]
Skip = Callable[[str], bool]

_ADDED = inotify.CREATE | inotify.MOVED_TO
_TAKEN = inotify.DELETE | inotify.MOVED_FROM
_SELF = inotify.DELETE_SELF | inotify.MOVE_SELF | inotify.UNMOUNT


@dataclass(frozen=True, slots=True)
class Root:
    """A folder to watch, with everything below it when `deep`."""

    path: str
    deep: bool = True


class Tree:
    """The watched folders under some roots. One thread uses it; `wake` may come from any.

    A folder may have several logical paths (links to folders), and a file may be watched in a foreign folder (a link
    to a file): so each kernel watch maps to the paths in our tree that its names stand for.
    """

    def __init__(self, tell: Tell, skip: Skip, limit: Callable[[Root, str], None]) -> None:
        """`limit(root, reason)` hears that a root cannot be watched any more: it is no longer in the tree."""
        self._tell, self._skip, self._limit = tell, skip, limit
        self._kernel = Inotify()
        self._roots: dict[str, Root] = {}
        self._identity: dict[str, tuple[int, int] | None] = {}
        self._wd: dict[str, int] = {}
        self._files: dict[str, set[str]] = {}
        self._folders: dict[int, set[str]] = {}
        self._names: dict[int, dict[str, set[str]]] = {}
        self._links: dict[str, list[tuple[int, str]]] = {}

    def add(self, root: Root) -> None:
        """Watch `root`, now or as soon as it exists; its files are told as `found`. Raises WatchLimit."""
        self._roots[root.path] = root
        try:
            self._arm(root, "found")
        except WatchLimit:
            self._drop_root(root)
            raise

    def work(self, seconds: float) -> None:
        """Tell what happens within `seconds`, returning early when something did."""
        for event in self._kernel.wait(seconds):
            try:
                if event.mask & inotify.OVERFLOW:
                    self._begin_again()
                else:
                    self._on(event)
            except WatchLimit as full:
                self._give_up(full.folder, full.reason)

    def check(self) -> None:
        """Find roots that vanished, came back or were replaced; a cheap look, to be made every second."""
        for root in list(self._roots.values()):
            if _identity(root.path) != self._identity.get(root.path) or root.path not in self._wd:
                try:
                    self._again(root)
                except WatchLimit as full:
                    self._give_up(root.path, full.reason)

    def wake(self) -> None:
        """Make `work` return now."""
        self._kernel.wake()

    def close(self) -> None:
        """End all watches."""
        self._kernel.close()

    # -- roots

    def _arm(self, root: Root, kind: Kind) -> None:
        self._identity[root.path] = _identity(root.path)
        self._follow(root.path, [(os.path.dirname(root.path), os.path.basename(root.path))])
        if self._identity[root.path] is not None:
            self._enter(root.path, root.deep, kind)

    def _again(self, root: Root) -> None:
        was, now = self._identity.get(root.path), _identity(root.path)
        if was is None and now is None:
            return
        self._leave(root.path, told=False)
        self._arm(root, "found")
        if was != now or root.path in self._wd:
            self._tell("lost", root.path)

    def _begin_again(self) -> None:
        # Events were dropped: new folders among them. What we knew and is not there was deleted under our eyes.
        before = {os.path.join(folder, name) for folder, names in self._files.items() for name in names}
        for root in list(self._roots.values()):
            try:
                self._leave(root.path, told=False)
                self._arm(root, "found")
            except WatchLimit as full:
                self._give_up(root.path, full.reason)
        for path in sorted(before):
            if not os.path.lexists(path):
                self._tell("gone", path)
        for path in list(self._roots):
            self._tell("lost", path)

    def _give_up(self, path: str, reason: str) -> None:
        for root in list(self._roots.values()):
            if root.path == path or path.startswith(root.path + os.sep):
                self._drop_root(root)
                self._limit(root, reason)

    def _drop_root(self, root: Root) -> None:
        self._leave(root.path, told=False)
        self._unfollow(root.path)
        self._roots.pop(root.path, None)
        self._identity.pop(root.path, None)

    # -- folders

    def _enter(self, folder: str, deep: bool, kind: Kind) -> None:
        todo = [folder]
        while todo:
            here = todo.pop()
            if here in self._wd:
                continue
            try:
                wd = self._kernel.add(here)
            except WatchLimit:
                raise
            except OSError:
                continue  # gone again, or not ours to read: an event of its parent brings us back
            self._wd[here] = wd
            self._folders.setdefault(wd, set()).add(here)
            names = self._files.setdefault(here, set())
            for entry in _listed(here):
                if os.path.isdir(entry.path):
                    if deep and self._may_enter(entry.path):
                        todo.append(entry.path)
                    continue
                names.add(entry.name)
                if entry.is_symlink():
                    self._follow(entry.path, list(_hops(entry.path)))
                self._tell(kind, entry.path)

    def _may_enter(self, folder: str) -> bool:
        if self._skip(folder):
            return False
        if not os.path.islink(folder):
            return True
        seen, parent = _identity(folder), os.path.dirname(folder)
        while parent != os.path.dirname(parent):  # a link to a folder that holds it has no end
            if _identity(parent) == seen:
                return False
            parent = os.path.dirname(parent)
        return True

    def _leave(self, folder: str, *, told: bool = True) -> None:
        below = folder + os.sep
        for here in [path for path in self._wd if path == folder or path.startswith(below)]:
            wd = self._wd.pop(here)
            self._folders.get(wd, set()).discard(here)
            self._let_go(wd)
            for name in sorted(self._files.pop(here, ())):
                path = os.path.join(here, name)
                self._unfollow(path)
                if told:
                    self._tell("gone", path)

    def _let_go(self, wd: int) -> None:
        if not self._folders.get(wd) and not self._names.get(wd):
            self._folders.pop(wd, None)
            self._names.pop(wd, None)
            self._kernel.remove(wd)

    # -- links

    def _follow(self, path: str, hops: list[tuple[str, str]]) -> None:
        self._unfollow(path)
        own = (os.path.dirname(path), os.path.basename(path))
        for folder, name in hops:
            if (folder, name) == own and path not in self._roots:
                continue
            try:
                wd = self._kernel.add(folder)
            except OSError:
                continue  # a link into nowhere: `check` and events of the link itself are what is left
            self._names.setdefault(wd, {}).setdefault(name, set()).add(path)
            self._links.setdefault(path, []).append((wd, name))

    def _unfollow(self, path: str) -> None:
        for wd, name in self._links.pop(path, ()):
            paths = self._names.get(wd, {}).get(name)
            if paths is not None:
                paths.discard(path)
                if not paths:
                    del self._names[wd][name]
            self._let_go(wd)

    # -- events

    def _on(self, event: Event) -> None:
        folders = sorted(self._folders.get(event.wd, ()))
        if event.mask & inotify.IGNORED:
            self._names.pop(event.wd, None)
            for folder in folders:
                # Deleted files were told one by one before this: what is left was unmounted, which deletes nothing.
                unsaid = bool(self._files.get(folder))
                self._leave(folder, told=False)
                if unsaid:
                    self._tell("lost", folder)
        elif event.mask & _SELF:
            for folder in folders:
                if folder not in self._roots and _identity(folder) is None:
                    self._leave(folder)
            self.check()
        elif event.name:
            for path in sorted(self._names.get(event.wd, {}).get(event.name, ())):
                if path in self._roots:
                    self.check()
                else:
                    self._on_link(path, event.mask)
            for folder in folders:
                path = os.path.join(folder, event.name)
                if event.mask & inotify.ISDIR:
                    self._on_folder(path, event.mask)
                else:
                    self._on_file(folder, event.name, path, event.mask)

    def _on_folder(self, path: str, mask: int) -> None:
        if mask & _TAKEN:
            self._leave(path)
        elif mask & _ADDED or path not in self._wd:
            if mask & _ADDED:
                self._leave(path)
            if self._is_deep(path) and self._may_enter(path):
                self._enter(path, True, "touched")

    def _on_file(self, folder: str, name: str, path: str, mask: int) -> None:
        if mask & _TAKEN:
            if path in self._wd:  # a link to a folder is removed like a file
                self._leave(path)
            self._unfollow(path)
            self._files.get(folder, set()).discard(name)
            self._tell("gone", path)
            return
        if mask & _ADDED:
            self._leave(path)
            if os.path.isdir(path):
                self._on_folder(path, mask)
                return
            if os.path.islink(path):
                self._follow(path, list(_hops(path)))
            self._files.setdefault(folder, set()).add(name)
        self._tell(_said(mask), path)

    def _on_link(self, path: str, mask: int) -> None:
        if mask & (_ADDED | _TAKEN):
            self._follow(path, list(_hops(path)))
        self._tell(_said(mask) if os.path.exists(path) else "gone", path)

    def _is_deep(self, path: str) -> bool:
        return any(root.deep and path.startswith(root.path + os.sep) for root in self._roots.values())


def _said(mask: int) -> Kind:
    if mask & inotify.MOVED_TO:
        return "moved"
    return "closed" if mask & inotify.CLOSE_WRITE else "touched"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None


def _listed(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _hops(link: str) -> Iterator[tuple[str, str]]:
    """Every (folder, name) whose change changes what `link` leads to: each link on the way, and the end."""
    here, todo, followed = os.sep, link.split(os.sep)[::-1], 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            here = os.path.dirname(here)
            continue
        path = os.path.join(here, part)
        try:
            target = os.readlink(path)
        except OSError:
            if not todo:
                yield here, part
            here = path
            continue
        followed += 1
        if followed > 40:  # as the kernel: a link that leads to itself leads nowhere
            return
        yield here, part
        if os.path.isabs(target):
            here = os.sep
        todo.extend(target.split(os.sep)[::-1])
