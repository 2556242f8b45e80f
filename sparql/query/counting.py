"""How many rows an answer has can be told from its bytes, at memory speed, because every format quotes its text."""

from __future__ import annotations

from pyoxigraph import QueryResultsFormat

_JSON_NOISE = bytes(code for code in range(256) if code not in b'"{[,:')


class Counter:
    """The rows of one answer so far. This one is told them; its kinds read them from the bytes."""

    def __init__(self) -> None:
        self.rows = 0

    def add(self, data: bytes) -> int:
        """Bytes that follow those before; returns the rows so far."""
        return self.rows


class TsvCounter(Counter):
    """A line is a row: TSV writes a line break in a value as `\\n`. The first line is the header."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = -1

    def add(self, data: bytes) -> int:
        self._lines += data.count(b"\n")
        self.rows = max(0, self._lines)
        return self.rows


class CsvCounter(Counter):
    """A line break outside quotes ends a row: a quote in a value is doubled, which changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._lines = -1
        self._quoted = False

    def add(self, data: bytes) -> int:
        if not self._quoted and b'"' not in data:
            self._lines += data.count(b"\n")
        else:
            pieces = data.split(b'"')
            self._lines += b"".join(pieces[self._quoted :: 2]).count(b"\n")
            self._quoted ^= len(pieces) % 2 == 0
        self.rows = max(0, self._lines)
        return self.rows


class XmlCounter(Counter):
    """`</result>` ends a row: in a value it is written `&lt;/result`."""

    def __init__(self) -> None:
        super().__init__()
        self._tail = b""

    def add(self, data: bytes) -> int:
        data = self._tail + data
        self.rows += data.count(b"</result>")
        self._tail = data[-8:]
        return self.rows


class JsonCounter(Counter):
    """`{` after `[` or `,` begins a row, outside strings: the objects of a row's values come after `:`."""

    def __init__(self) -> None:
        super().__init__()
        self._quoted = False
        self._before = self._escape = b""

    def add(self, data: bytes) -> int:
        if self._escape:
            data, self._escape = self._escape + data, b""
        if b"\\" in data:
            if (len(data) - len(data.rstrip(b"\\"))) % 2:
                data, self._escape = data[:-1], b"\\"
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        # A string left empty can go, and two that touch can become one: what is outside stays outside.
        pieces = data.translate(None, _JSON_NOISE).replace(b'""', b"").split(b'"')
        outside = self._before + b'"'.join(pieces[self._quoted :: 2])
        self._quoted ^= len(pieces) % 2 == 0
        self.rows += outside.count(b",{") + outside.count(b"[{")
        self._before = outside[-1:] if not self._quoted else b""
        return self.rows


COUNTERS: dict[QueryResultsFormat, type[Counter]] = {
    QueryResultsFormat.JSON: JsonCounter,
    QueryResultsFormat.XML: XmlCounter,
    QueryResultsFormat.CSV: CsvCounter,
    QueryResultsFormat.TSV: TsvCounter,
}
