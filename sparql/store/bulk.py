"""A bulk load fills a data folder that is not the store yet: nothing of it counts before it is whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyoxigraph
from pyoxigraph import RdfFormat

from ontology.facts import GT
from sparql import durable
from sparql.log import find_graphs
from sparql.names import Names

LOOK = 64 * 2**20  # bytes between looks at the free space


def load(dest: Path, pieces: Iterable[bytes], own: bytes, room: Callable[[], None]) -> None:
    """`dest` is a new store of `pieces` and `own`, all N-Quads.

    Raises what the pieces or `room` raise, SyntaxError for what is not N-Quads.
    """
    source = _Chunks(pieces, own, room)
    fresh = pyoxigraph.Store(str(dest))
    try:
        fresh.bulk_load(input=source, format=RdfFormat.N_QUADS)  # type: ignore[arg-type]
    except Exception as wrong:
        if source.wrong is not None:
            raise source.wrong from None
        raise wrong
    find_graphs(fresh)
    fresh.flush()


def without_commit(text: Path, names: Names) -> Iterator[bytes]:
    """The N-Quads in `text`, but for what the store says about its commit."""
    commit = f"<{names.store}> <{GT}commit> ".encode()

    with open(text, "rb") as file:
        while lines := file.readlines(1 << 20):
            yield b"".join([line for line in lines if not line.startswith(commit)])


class _Chunks:
    """Pieces of bytes as a file to read, with a look at the free space every 64 MiB."""

    def __init__(self, pieces: Iterable[bytes], end: bytes, room: Callable[[], None]) -> None:
        self._pieces, self._end, self._room = iter(pieces), end, room
        self._rest, self._read = memoryview(b""), 0
        self.wrong: Exception | None = None

    def read(self, size: int = -1) -> bytes:
        while not self._rest:
            try:
                piece = next(self._pieces, None)
                if self._read >= LOOK:
                    self._read = 0
                    self._room()
                    durable.reach("build.loading")
            except Exception as wrong:  # pyoxigraph would make an OSError of it
                self.wrong = wrong
                raise
            if piece is None:
                if not self._end:
                    return b""
                piece, self._end = b"\n" + self._end, b""
            self._rest = memoryview(piece)
            self._read += len(piece)
        found, self._rest = (
            self._rest[:size] if size >= 0 else self._rest,
            self._rest[size:] if size >= 0 else self._rest[:0],
        )
        return bytes(found)
