"""A row of SPARQL JSON is a line of NDJSON: the engine writes the rows, and only what is between them changes."""

from __future__ import annotations

from typing import Protocol

from sparql.query.counting import Counter

_HEAD, _BETWEEN, _END = b'"bindings":[', b"},{", b"]}}"


class Writes(Protocol):
    """Something that takes bytes."""

    def write(self, data: bytes, /) -> int: ...


class Lines:
    """Takes a SPARQL JSON result in pieces and writes each binding object as a line; call `finish` at its end."""

    def __init__(self, out: Writes, counter: Counter) -> None:
        self._out, self._counter = out, counter
        self._tail = b""
        self._started = self._quoted = self._any = False

    def write(self, data: bytes) -> int:
        """The next piece."""
        taken = len(data)
        data = self._tail + data
        if not self._started:
            found = data.find(_HEAD)
            if found < 0:
                self._tail = data
                return taken
            self._started, data = True, data[found + len(_HEAD) :]
        # What may be the end, half a separator or half an escape waits for the rest.
        cut = max(0, len(data) - len(_END))
        for inside in (1, 2):
            if data[max(0, cut - inside) : cut + 3 - inside] == _BETWEEN:
                cut -= inside
                break
        cut -= (cut - len(data[:cut].rstrip(b"\\"))) % 2
        now, self._tail = data[:cut], data[cut:]
        if now:
            self._pass(now)
        return taken

    def flush(self) -> None:
        """The engine's own flush passes nothing on."""

    def finish(self) -> None:
        """The last line is ended."""
        if self._any or self._tail != _END:
            self._pass(self._tail.removesuffix(_END) + b"\n")

    def _pass(self, data: bytes) -> None:
        if not self._any:
            self._any = True
            self._counter.rows += 1
        first, *rest = data.split(_BETWEEN)
        parts = [first]
        self._quoted ^= _odd(first)
        for part in rest:
            if self._quoted:
                parts += (_BETWEEN, part)
            else:
                self._counter.rows += 1
                parts += (b"}\n{", part)
            self._quoted ^= _odd(part)
        self._out.write(b"".join(parts))


def _odd(text: bytes) -> bool:
    """Whether the number of quotes that begin or end a string is odd."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    return text.count(b'"') % 2 == 1
