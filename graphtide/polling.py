"""Where the system sends no events a folder is looked at again and again, by everything `stat` can tell apart."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

from .tree import Root, Skip, Tell

Look = tuple[int, int, int, int]

# Others change files on these without this machine's kernel hearing of it.
NETWORK = (
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "9p",
    "ceph",
    "glusterfs",
    "afs",
    "lustre",
    "vboxsf",
    "davfs",
    "ncpfs",
)


class Poller:
    """Looks at its roots every `seconds` and tells the differences; roots may be added while it runs."""

    def __init__(self, tell: Tell, skip: Skip, seconds: float) -> None:
        self._tell, self._skip, self._seconds = tell, skip, seconds
        self._looks: dict[Root, dict[str, Look] | None] = {}
        self._guard, self._stop = threading.Lock(), threading.Event()
        self._thread: threading.Thread | None = None

    def add(self, root: Root) -> None:
        """Take the first look at `root`, telling its files as `found`, and go on from there."""
        look = self._look(root)
        with self._guard:
            self._looks[root] = look
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="poll", daemon=True)
                self._thread.start()
        for path in look or ():
            self._tell("found", path)

    def look_now(self) -> None:
        """One round of looks."""
        with self._guard:
            roots = list(self._looks)
        for root in roots:
            before, now = self._looks[root], self._look(root)
            self._looks[root] = now
            if now is None or before is None:
                if now is not before:
                    self._tell("lost", root.path)
                continue
            for path in sorted(before.keys() - now.keys()):
                self._tell("gone", path)
            for path, seen in now.items():
                if before.get(path) != seen:
                    self._tell("touched", path)

    def close(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _run(self) -> None:
        while not self._stop.wait(self._seconds):
            self.look_now()

    def _look(self, root: Root) -> dict[str, Look] | None:
        return dict(self._files(root)) if os.path.isdir(root.path) else None

    def _files(self, root: Root) -> Iterator[tuple[str, Look]]:
        for folder, folders, names in os.walk(root.path, followlinks=True):
            inner = (os.path.join(folder, name) for name in sorted(folders)) if root.deep else ()
            folders[:] = [os.path.basename(path) for path in inner if not self._skip(path) and not _returns(path)]
            for name in sorted(names):
                path = os.path.join(folder, name)
                try:
                    found = os.stat(path)
                except OSError:
                    continue
                # ctime tells a file replaced by one of the same size and mtime.
                yield path, (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)


def on_a_network(path: str) -> str | None:
    """The kind of network file system `path` is on; None when it is local or that cannot be known."""
    kind = _mounted(os.path.realpath(path))
    return kind if kind is not None and (kind in NETWORK or kind.startswith("fuse.")) else None


def _mounted(path: str) -> str | None:
    best, kind = -1, None
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as mounts:
            for line in mounts:
                left, _, right = line.partition(" - ")
                point = left.split()[4].encode("latin-1", "replace").decode("unicode_escape")  # \040 is a space
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= best:
                    best, kind = len(point), right.split()[0]
    except (OSError, IndexError, UnicodeError):
        return None
    return kind


def _returns(folder: str) -> bool:
    """Whether a link to a folder leads to one that holds it: such a walk has no end."""
    if not os.path.islink(folder):
        return False
    real, parent = os.path.realpath(folder), os.path.dirname(folder)
    while parent != os.path.dirname(parent):
        if os.path.realpath(parent) == real:
            return True
        parent = os.path.dirname(parent)
    return False
