"""A worker's answer is frames on a socket: a one-letter kind and a length, so that a cut is never taken for an end."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

from sparql.query.counting import Counter

_HEAD = struct.Struct("!cI")
_COUNT = struct.Struct("!Q")
# `json.dumps` and `json.loads` of bytes make an encoder and look for the encoding, each time.
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
_decode = json.JSONDecoder().decode

READY, ASK, HEADER, DATA, COUNT, END, ERROR = b"R", b"Q", b"H", b"D", b"N", b"E", b"X"
CHUNK, LARGEST = 64 * 1024, 256 * 1024
# An answer that trickles is still sent on after this long, so that its first rows arrive before its last.
LINGER_SECONDS = 0.05


class Cut(EOFError):
    """The other side is gone in the middle of, or before, a frame."""


class TooLong(Exception):
    """The answer is longer than it may be: `what` ("rows" or "bytes") there are more than `most` of."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)
        self.what, self.most = what, most


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame as bytes."""
    return _HEAD.pack(kind, len(payload)) + payload


def frame_json(kind: bytes, value: dict[str, Any]) -> bytes:
    """One frame that carries JSON."""
    return frame(kind, _encode(value).encode("utf-8", "surrogatepass"))


def said(payload: bytes) -> dict[str, Any]:
    """What a frame's JSON says."""
    found: dict[str, Any] = _decode(payload.decode("utf-8", "surrogatepass"))
    return found


def count_of(payload: bytes) -> int:
    """The number in a COUNT frame."""
    return int(_COUNT.unpack(payload)[0])


class FrameReader:
    """Frames off one socket, read in large pieces."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()
        # Into memory that stays: a large `recv` is given new pages by the system, which costs 25 us (bench/query.py).
        self._got = bytearray(256 * 1024)

    def ready(self) -> bool:
        """Whether a whole frame is here already, so that `next` will not wait."""
        buffer = self._buffer
        return len(buffer) >= _HEAD.size and len(buffer) >= _HEAD.size + _HEAD.unpack_from(buffer)[1]

    def take(self) -> tuple[bytes, bytes] | None:
        """The next frame, if all of it is here."""
        buffer = self._buffer
        if len(buffer) < _HEAD.size:
            return None
        kind, length = _HEAD.unpack_from(buffer)
        end = _HEAD.size + length
        if len(buffer) < end:
            return None
        with memoryview(buffer) as view:
            payload = bytes(view[_HEAD.size : end])
        del buffer[:end]
        return kind, payload

    def fill(self) -> None:
        """More is here. Raises Cut when the other side is gone, BlockingIOError or TimeoutError as the socket does."""
        try:
            got = self.sock.recv_into(self._got)
        except (ConnectionError, ValueError) as gone:
            raise Cut(str(gone)) from gone
        if not got:
            raise Cut("the other side closed the connection")
        with memoryview(self._got) as view:
            self._buffer += view[:got]

    def next(self) -> tuple[bytes, bytes]:
        """The next frame of a blocking socket. Raises as `fill`."""
        while (found := self.take()) is None:
            self.fill()
        return found


class FrameWriter:
    """A file an engine can write an answer into: nothing leaves before 64 KB, the end, or 50 ms."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._out: list[bytes] = []
        self._data = bytearray()
        self._since = time.monotonic()
        self._counter: Counter | None = None
        self._counted = 0
        self.max_rows = self.max_bytes = 0
        self.bytes = 0

    def head(
        self, value: dict[str, Any], counter: Counter | None = None, max_rows: int = 0, max_bytes: int = 0
    ) -> None:
        """Start an answer whose rows `counter` tells from its bytes. 0 stands for no limit."""
        self._out, self._data = [frame_json(HEADER, value)], bytearray()
        self._counter, self._counted = counter, 0
        self.max_rows, self.max_bytes, self.bytes = max_rows, max_bytes, 0
        self._since = time.monotonic()

    @property
    def rows(self) -> int:
        """The rows written so far."""
        return self._counter.rows if self._counter is not None else 0

    def write(self, data: bytes) -> int:
        """Part of the answer's body. Raises TooLong."""
        self._data += data
        if len(self._data) >= CHUNK or time.monotonic() - self._since > LINGER_SECONDS:
            self.flush_frames()
        return len(data)

    def flush(self) -> None:
        """An engine's own flush sends nothing: a frame is sent when it is worth one."""

    def flush_frames(self) -> None:
        """Send what there is. Raises TooLong, and nothing of what is too much was sent."""
        self._frame_data()
        if self._out:
            self._sock.sendall(b"".join(self._out))
            self._out = []
        self._since = time.monotonic()

    def end(self, value: dict[str, Any]) -> None:
        """The answer is whole. Raises TooLong."""
        self._frame_data()
        self._out.append(frame_json(END, {**value, "rows": self.rows, "bytes": self.bytes}))
        self.flush_frames()

    def fail(self, value: dict[str, Any]) -> None:
        """The answer ends here and is not whole; what was not sent yet is dropped."""
        self._out, self._data = [frame_json(ERROR, value)], bytearray()
        self.flush_frames()

    def _frame_data(self) -> None:
        if not self._data:
            return
        data = bytes(self._data)
        self._data = bytearray()
        self.bytes += len(data)
        if self.max_bytes and self.bytes > self.max_bytes:
            raise TooLong("bytes", self.max_bytes)
        if self._counter is not None:
            rows = self._counter.add(data)
            if self.max_rows and rows > self.max_rows:
                raise TooLong("rows", self.max_rows)
            if rows != self._counted and self._since_sent():
                self._counted = rows
                self._out.append(frame(COUNT, _COUNT.pack(rows)))
        for start in range(0, len(data), LARGEST):
            self._out.append(frame(DATA, data[start : start + LARGEST] if len(data) > LARGEST else data))

    def _since_sent(self) -> bool:
        # A small answer's rows are in its end: only a long one says how far it is.
        return self.bytes >= CHUNK
