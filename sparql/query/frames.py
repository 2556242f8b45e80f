"""A worker's answer is frames on a socket: a one-letter kind and a length, so that a cut is never taken for an end."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

_HEAD = struct.Struct("!cI")

READY, ASK, HEADER, DATA, END, ERROR = b"R", b"Q", b"H", b"D", b"E", b"X"
CHUNK = 64 * 1024
# An answer that trickles is still sent on after this long, so that its first rows arrive before its last.
LINGER_SECONDS = 0.05


class Cut(EOFError):
    """The other side is gone in the middle of, or before, a frame."""


def frame(kind: bytes, payload: bytes) -> bytes:
    """One frame as bytes."""
    return _HEAD.pack(kind, len(payload)) + payload


def frame_json(kind: bytes, value: dict[str, Any]) -> bytes:
    """One frame that carries JSON."""
    return frame(kind, json.dumps(value, ensure_ascii=False).encode())


class FrameReader:
    """Frames off one socket, read in large pieces."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray()

    def ready(self) -> bool:
        """Whether a whole frame is here already, so that `next` will not wait."""
        buffer = self._buffer
        return len(buffer) >= _HEAD.size and len(buffer) >= _HEAD.size + _HEAD.unpack_from(buffer)[1]

    def next(self) -> tuple[bytes, bytes]:
        """The next frame. Raises Cut when the other side is gone, TimeoutError by the socket's own timeout."""
        buffer = self._buffer
        while not self.ready():
            try:
                got = self.sock.recv(256 * 1024)
            except ConnectionError as gone:
                raise Cut(str(gone)) from gone
            if not got:
                raise Cut("the other side closed the connection")
            buffer += got
        kind, length = _HEAD.unpack_from(buffer)
        payload = bytes(buffer[_HEAD.size : _HEAD.size + length])
        del buffer[: _HEAD.size + length]
        return kind, payload


class FrameWriter:
    """A file an engine can write an answer into: nothing leaves before 64 KB, the end, or 50 ms."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._out = bytearray()
        self._data = bytearray()
        self._since = time.monotonic()
        self.sent = False

    def head(self, value: dict[str, Any]) -> None:
        """Start an answer."""
        self.sent = False
        self._out, self._data = bytearray(frame_json(HEADER, value)), bytearray()
        self._since = time.monotonic()

    def write(self, data: bytes) -> int:
        """Part of the answer's body."""
        self._data += data
        if len(self._data) >= CHUNK or time.monotonic() - self._since > LINGER_SECONDS:
            self.flush_frames()
        return len(data)

    def flush(self) -> None:
        """An engine's own flush sends nothing: a frame is sent when it is worth one."""

    def flush_frames(self) -> None:
        """Send what there is."""
        if self._data:
            self._out += frame(DATA, bytes(self._data))
            self._data = bytearray()
        if self._out:
            self._sock.sendall(self._out)
            self._out = bytearray()
            self.sent = True
        self._since = time.monotonic()

    def end(self, value: dict[str, Any]) -> None:
        """The answer is whole."""
        if self._data:
            self._out += frame(DATA, bytes(self._data))
            self._data = bytearray()
        self._out += frame_json(END, value)
        self.flush_frames()

    def fail(self, value: dict[str, Any]) -> None:
        """The answer ends here and is not whole; what was not sent yet is dropped."""
        self._out, self._data = bytearray(frame_json(ERROR, value)), bytearray()
        self.flush_frames()
