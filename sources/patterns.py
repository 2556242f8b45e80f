"""A pattern finds files a person would expect: none hidden, none secret, none through a link that leads outside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from sources.formats import format_of, may_be_secret

_MAGIC = re.compile(r"[*?\[]")
_ESCAPED = re.compile(r"\[([*?\[])\]")
SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages", ".graphtide"})


def escape(path: str) -> str:
    """The pattern that is this very path, whatever characters it has."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def below(folder: str) -> str:
    """The pattern of every file below the folders that a pattern names."""
    return folder.rstrip("/") + "/**/*"


def magic(path: str) -> bool:
    """Whether the path is a pattern."""
    return _MAGIC.search(_ESCAPED.sub("", path)) is not None


class Pattern:
    """A path relative to a root: `*`, `?` and `[abc]` within a name, `**` for any folders. `literal` has no magic."""

    def __init__(self, text: str) -> None:
        self.text = text
        normal = os.path.normpath(text).replace(os.sep, "/")
        self.literal = None if magic(text) else _ESCAPED.sub(r"\1", normal)
        parts = normal.split("/")
        fixed = 0
        while fixed < len(parts) - 1 and not magic(parts[fixed]):
            fixed += 1
        self.folder = "/".join(_ESCAPED.sub(r"\1", part) for part in parts[:fixed])
        self._fixed = fixed
        self._regex = re.compile(_translate(parts))
        self._deepest = None if "**" in parts else len(parts)
        self._named = {part for part in parts if not magic(part)}

    def matches(self, relative: str) -> bool:
        """Whether a relative path is one the pattern names, whether or not it exists."""
        if self.literal is not None:
            return relative == self.literal
        if not self._regex.fullmatch(relative):
            return False
        parts = relative.split("/")[self._fixed :]
        return not any(skipped_folder(p) and p not in self._named for p in parts[:-1]) and not may_be_secret(parts[-1])

    def leads_out(self, root: Path, relative: str) -> bool:
        """Whether a path that matches is reached by a link that `files` would not follow. A literal one may be."""
        if self.literal is not None:
            return False
        start = root / self.folder
        real = os.path.realpath(root)
        if self.folder and not os.path.realpath(start).startswith(real + os.sep):
            real = os.path.realpath(start)
        path = root
        for depth, part in enumerate(relative.split("/")):
            path = path / part
            if depth >= self._fixed and path.is_symlink():
                return path != root / relative or (path.exists() and not _inside(str(path), real))
        return False

    def files(self, root: Path, *, known_only: bool) -> Iterator[str]:
        """The files that match now. Raises OSError when the folder the pattern starts in cannot be read."""
        start = root / self.folder
        if self.literal is not None:
            with os.scandir(start):  # a missing folder is not a missing file
                pass
            if os.path.lexists(root / self.literal):
                yield self.literal
            return
        real = os.path.realpath(root)
        if self.folder and not os.path.realpath(start).startswith(real + os.sep):
            real = os.path.realpath(start)  # the pattern itself names a folder outside
        todo = [(start, self.folder)]
        while todo:
            folder, relative = todo.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = f"{relative}/{entry.name}" if relative else entry.name
                    if not spellable(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        depth = path.count("/") + 1
                        if (self._deepest is None or depth < self._deepest) and not (
                            skipped_folder(entry.name) and entry.name not in self._named
                        ):
                            todo.append((Path(entry.path), path))
                    elif self.matches(path) and (not known_only or format_of(path)):
                        if entry.is_symlink() and not _inside(entry.path, real):
                            continue
                        yield path


def relative(path: Path, root: Path) -> str | None:
    """The path from root to path with `/`, `..` allowed for what was named so; None when neither spelling fits."""
    if not path.is_absolute():
        return os.path.normpath(path).replace(os.sep, "/")
    for start in (root.absolute(), Path(os.path.realpath(root))):
        found = os.path.relpath(path, start).replace(os.sep, "/")
        if not found.startswith("../"):
            return found
    return os.path.relpath(path, root.absolute()).replace(os.sep, "/")


def spellable(name: str) -> bool:
    """Whether a name is text: what is not UTF-8 on disk cannot be part of an IRI or a message."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def skipped_folder(name: str) -> bool:
    """Whether a folder of this name is never looked into unless it is named."""
    return name.startswith(".") or name in SKIPPED


def _inside(path: str, real_root: str) -> bool:
    target = os.path.realpath(path)
    return target.startswith(real_root + os.sep) and not os.path.isdir(target)


def _translate(parts: list[str]) -> str:
    pieces = []
    for position, part in enumerate(parts):
        last = position == len(parts) - 1
        if part == "**":
            # Anything but hidden folders; at the end, any file below.
            pieces.append(r"(?:[^/.][^/]*/)*[^/.][^/]*" if last else r"(?:[^/.][^/]*/)*")
            continue
        text = "" if part[0] not in "*?[" else r"(?!\.)"
        at = 0
        while at < len(part):
            mark = part[at]
            close = part.find("]", at + 2) if mark == "[" else -1
            if mark == "*":
                text += "[^/]*"
            elif mark == "?":
                text += "[^/]"
            elif close > 0:
                inner = part[at + 1 : close].replace("\\", "\\\\").replace("[", "\\[")
                text += f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]"
                at = close
            else:
                text += re.escape(mark)
            at += 1
        pieces.append(text if last else text + "/")
    return "".join(pieces)
