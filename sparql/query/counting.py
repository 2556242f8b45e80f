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
    """`{` after `[` or `,` begins a row, outside strings: the objects of a row's values come after `:`.

    Between two rows that are not empty stands `}},{"` and a letter, which a string holds only with `\\` in it; so most
    of the bytes need not be taken apart.
    """

    def __init__(self) -> None:
        super().__init__()
        self._started = self._quoted = False
        self._escape = self._before = self._held = b""

    def add(self, data: bytes) -> int:
        if self._escape:
            data, self._escape = self._escape + data, b""
        if b"\\" in data:
            if (len(data) - len(data.rstrip(b"\\"))) % 2:
                data, self._escape = data[:-1], b"\\"
            data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
        # Two bytes wait for what follows them, so that every `{` before them is seen with its surroundings.
        data = self._held + data
        self._held = data[-2:]
        seen = self._before + data
        if self._started and b"{}" not in seen:
            self.rows += seen.count(b'}},{"', 0, len(seen) - 1)
            self.rows -= seen.count(b'}},{"}') + seen.count(b'}},{",')  # a string that ends so
            self._quoted ^= data.count(b'"', 0, max(0, len(data) - 2)) % 2 == 1
        else:
            self._take_apart(data[:-2])
            self._started = self.rows > 0
        self._before = seen[:-2][-3:]
        return self.rows

    def _take_apart(self, data: bytes) -> None:
        # A string left empty can go, and two that touch can become one: what is outside stays outside.
        pieces = data.translate(None, _JSON_NOISE).replace(b'""', b"").split(b'"')
        outside = b'"'.join(pieces[self._quoted :: 2])
        if not self._quoted and data[:1] == b"{":
            outside = self._before[-1:] + outside
        self._quoted ^= len(pieces) % 2 == 0
        self.rows += outside.count(b",{") + outside.count(b"[{")


COUNTERS: dict[QueryResultsFormat, type[Counter]] = {
    QueryResultsFormat.JSON: JsonCounter,
    QueryResultsFormat.XML: XmlCounter,
    QueryResultsFormat.CSV: CsvCounter,
    QueryResultsFormat.TSV: TsvCounter,
}
