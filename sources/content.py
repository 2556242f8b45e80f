"""A file's version is the hash of its bytes: modification times lie, and a read counts only if it saw that version."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sources.limits import MIB, size
from sources.record import Moved, ReadError

_CHUNK = MIB


@dataclass(frozen=True, slots=True)
class Content:
    """One version of one file: `digest` of its bytes, `stamp` of its inode when they were hashed."""

    path: Path
    where: str
    digest: str
    length: int
    stamp: tuple[int, ...]

    @contextmanager
    def stream(self) -> Iterator[BinaryIO]:
        """The bytes of exactly this version.

        Leaving raises Moved when what was read was another version, also in place of a ReadError that it caused.
        Leaving early, by dropping the iterator, checks nothing.
        """
        with _opened(self.path, self.where) as file:
            hashing = _Hashing(file)
            buffered = io.BufferedReader(hashing, _CHUNK)
            try:
                yield buffered
            except ReadError as wrong:
                if not self.current():
                    raise _moved(self.where) from wrong
                raise
            if hashing.finish() != self.digest or not self.current():
                raise _moved(self.where)

    def whole(self) -> bytes:
        """All bytes of this version. Raises Moved when it changed."""
        with _opened(self.path, self.where) as file:
            data = file.read(self.length + 1)
        if _digest(data) != self.digest or not self.current():
            raise _moved(self.where)
        return data

    def current(self) -> bool:
        """Whether the path still names the inode that was hashed, untouched as far as the file system tells."""
        try:
            return _stamp(os.stat(self.path)) == self.stamp
        except OSError:
            return False


class _Hashing(io.RawIOBase):
    """A raw reader that hashes what passes through."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=16)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        count = self._file.readinto(buffer) or 0
        self._hash.update(memoryview(buffer)[:count])
        return count

    def finish(self) -> str:
        """Read what is left and return the digest of everything."""
        while chunk := self._file.read(_CHUNK):
            self._hash.update(chunk)
        return self._hash.hexdigest()


def look(path: Path, where: str, limit: int, name: str) -> Content | None:
    """The file's present version, None when there is no file.

    Raises ReadError for what is not a readable regular file or is over `limit`, the setting called `name`; Moved when
    it changed while it was hashed.
    """
    try:
        before = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            target = os.readlink(path)
            raise ReadError(where, f"is a link to '{target}', which is not there", "Mend or remove the link.") from None
        return None
    except OSError as wrong:
        raise _unreadable(where, wrong) from wrong
    if not stat.S_ISREG(before.st_mode):
        kind = "a folder" if stat.S_ISDIR(before.st_mode) else "not a regular file"
        raise ReadError(where, f"is {kind}", "Name a file, or a pattern such as 'tables/*.csv'.")
    if before.st_size > limit:
        raise _too_large(where, before.st_size, limit, name)
    digest, count = hashlib.blake2b(digest_size=16), 0
    try:
        with _opened(path, where) as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                count += len(chunk)
                if count > limit:
                    raise _too_large(where, count, limit, name)
            after = os.fstat(file.fileno())
    except FileNotFoundError:
        raise _moved(where) from None
    content = Content(path, where, digest.hexdigest(), count, _stamp(before))
    if _stamp(after) != content.stamp or not content.current():
        raise _moved(where)
    return content


def _too_large(where: str, count: int, limit: int, name: str) -> ReadError:
    return ReadError(
        where, f"is {size(count)}, over {name} ({size(limit)})", f"Split it, or raise {name} under [limits]."
    )


def has_writer(path: Path) -> bool | None:
    """Whether a process has the file open for writing; None where the system cannot tell.

    Linux grants a read lease only on a file nobody writes to, and only to its owner. The lease is given back at once;
    a process that opens the file for writing in between waits those microseconds.
    """
    if sys.platform != "linux":
        return None
    import fcntl
    import signal

    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The kernel tells a lease holder of a writer by SIGIO, which kills by default; SIGURG is ignored by default.
        fcntl.fcntl(fd, fcntl.F_SETSIG if hasattr(fcntl, "F_SETSIG") else 10, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
        return False
    except OSError as wrong:
        return True if wrong.errno == errno.EAGAIN else None
    finally:
        os.close(fd)


@contextmanager
def _opened(path: Path, where: str) -> Iterator[io.FileIO]:
    # Without O_NONBLOCK a named pipe put in the file's place would block for ever.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise _moved(where) from None
    except OSError as wrong:
        raise _unreadable(where, wrong) from wrong
    with io.FileIO(fd, closefd=True) as file:
        try:
            yield file
        except OSError as wrong:
            if isinstance(wrong, ReadError):
                raise
            raise _unreadable(where, wrong) from wrong


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _stamp(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _moved(where: str) -> Moved:
    return Moved(where, "changed while it was read", "It is read again when it stands still.")


def _unreadable(where: str, wrong: OSError) -> ReadError:
    return ReadError(where, f"cannot be read: {wrong.strerror or wrong}", "Check its permissions.")
