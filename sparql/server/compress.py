"""A compressed stream gives back each piece whole before the next is made, and is ended only when the answer was."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

import brotli  # type: ignore[import-untyped]  # it has no types
import zstandard

from sparql.server.negotiate import IDENTITY

# Levels for streams that are made while somebody waits: the next one costs twice the time for a tenth of the bytes.
GZIP_LEVEL, BROTLI_QUALITY, ZSTD_LEVEL = 4, 4, 3
_GZIP = 16 + zlib.MAX_WBITS


class Coder(Protocol):
    """One stream being compressed."""

    def piece(self, data: bytes) -> bytes:
        """Bytes from which a client can read all of `data` now."""

    def last(self, data: bytes) -> bytes:
        """The end of the stream, with `data` before it. Without it a client sees a cut."""


class _Gzip:
    def __init__(self) -> None:
        self._out = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP)

    def piece(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zlib.Z_SYNC_FLUSH)

    def last(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zlib.Z_FINISH)


class _Brotli:
    def __init__(self) -> None:
        self._out = brotli.Compressor(quality=BROTLI_QUALITY)

    def piece(self, data: bytes) -> bytes:
        return bytes(self._out.process(data) + self._out.flush())

    def last(self, data: bytes) -> bytes:
        return bytes(self._out.process(data) + self._out.finish())


class _Zstd:
    def __init__(self) -> None:
        self._out = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()

    def piece(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def last(self, data: bytes) -> bytes:
        return self._out.compress(data) + self._out.flush(zstandard.COMPRESSOBJ_FLUSH_FINISH)


_CODERS: Mapping[str, Callable[[], Coder]] = {"gzip": _Gzip, "br": _Brotli, "zstd": _Zstd}


def coder(coding: str) -> Coder | None:
    """A new stream in this coding; None for identity."""
    return None if coding == IDENTITY else _CODERS[coding]()


def whole(coding: str, data: bytes) -> bytes:
    """All of `data` in one stream."""
    out = coder(coding)
    return data if out is None else out.last(data)


def inflate(data: bytes, longest: int) -> bytes | None:
    """What a gzip body holds; None when that is more than `longest` bytes, of which no more were made.

    Raises ValueError when it is not gzip, is cut, or is followed by anything.
    """
    stream = zlib.decompressobj(_GZIP)
    try:
        found = stream.decompress(data, longest + 1)
        if len(found) > longest:
            return None
    except zlib.error as wrong:
        raise ValueError(f"not gzip: {wrong}") from wrong
    if not stream.eof or stream.unused_data:
        raise ValueError("not one whole gzip stream")
    return found
