"""What a read found waits here until the scope was read to its end: in memory while it is little, then in a file."""

from __future__ import annotations

import tempfile
from typing import IO, Any

IN_MEMORY = 64 * 2**20


class Spool:
    """Texts by ticket. `put` may be called until `close`; what was put is never lost before."""

    def __init__(self, limit: int = IN_MEMORY) -> None:
        self._limit, self._size = limit, 0
        self._texts: list[bytes | tuple[int, int]] = []
        self._file: IO[Any] | None = None
        self._end = self._at = 0

    def put(self, text: str) -> int:
        """A ticket for the text."""
        data = text.encode()
        if self._size + len(data) <= self._limit:
            self._size += len(data)
            self._texts.append(data)
        else:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="graphtide-spool-", buffering=1 << 20)  # noqa: SIM115
            if self._at != self._end:
                self._file.seek(self._end)
            self._file.write(data)
            self._at = self._end + len(data)
            self._texts.append((self._end, len(data)))
            self._end += len(data)
        return len(self._texts) - 1

    def get(self, ticket: int) -> str:
        """The text of a ticket."""
        found = self._texts[ticket]
        if isinstance(found, bytes):
            return found.decode()
        assert self._file is not None
        self._file.seek(found[0])
        self._at = -1
        return str(self._file.read(found[1]), "utf-8")

    def drop(self, ticket: int) -> None:
        """The text is not needed any more; its memory is free again."""
        found = self._texts[ticket]
        if isinstance(found, bytes):
            self._size -= len(found)
        self._texts[ticket] = b""

    def close(self) -> None:
        """Nothing is left on disk."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
