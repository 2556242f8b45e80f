"""A table for a notebook has a type a column, and the datatypes of the values say which; a mixed column is text."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyoxigraph import BlankNode, Literal, NamedNode, QuerySolutions, Store

from sparql.query.counting import Counter
from sparql.query.frames import FrameWriter, TooLong
from sparql.query.results import NotAcceptable

if TYPE_CHECKING:
    import polars

XSD = "http://www.w3.org/2001/XMLSchema#"
# The types of a stream are those of its first rows: it cannot say otherwise later.
FIRST_ROWS, BATCH_ROWS = 50_000, 20_000
TEXT, WHOLE, NUMBER, TRUTH, DAY, MOMENT, LOCAL = "text", "whole", "number", "truth", "day", "moment", "local"
_INTEGERS = "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
_UNSIGNED = "unsignedInt unsignedLong unsignedShort unsignedByte"
_KINDS = {
    **{XSD + name: WHOLE for name in f"{_INTEGERS} {_UNSIGNED}".split()},
    **{XSD + name: NUMBER for name in ("decimal", "double", "float")},
    XSD + "boolean": TRUTH,
    XSD + "date": DAY,
    XSD + "dateTime": MOMENT,
}
_NUMBERS = {"INF": "inf", "+INF": "inf", "-INF": "-inf", "NaN": "nan"}


class Mistyped(NotAcceptable):
    """A value does not fit the type its column was given by the rows before: `str()` names both."""


Cell = tuple[str, Any]


def write_arrow(found: QuerySolutions, writer: FrameWriter, counter: Counter, most: int) -> None:
    """The rows are written as one Arrow IPC stream. Raises Mistyped, TooLong."""
    columns = [variable.value for variable in found.variables]
    rows = _counted(found, counter, most)
    first = list(islice(rows, FIRST_ROWS))
    kinds = [_kind(column) for column in _columns(first, len(columns))]
    done = 0
    batch = first
    while True:
        table = _frame(columns, kinds, _columns(batch, len(columns)), done)
        data = io.BytesIO()
        table.write_ipc_stream(data, compat_level=_polars().CompatLevel.oldest())
        schema, body = _parts(data.getbuffer())
        if not done:
            writer.write(schema)
        writer.write(body)
        done += len(batch)
        batch = list(islice(rows, BATCH_ROWS))
        if not batch:
            break
    writer.write(b"\xff\xff\xff\xff\x00\x00\x00\x00")


def write_parquet(found: QuerySolutions, writer: FrameWriter, counter: Counter, most: int) -> None:
    """The rows are written as one Parquet file; nothing is before all were found. Raises TooLong."""
    columns = [variable.value for variable in found.variables]
    cells: list[list[Cell]] = [[] for _ in columns]
    rows = _counted(found, counter, most)
    while batch := list(islice(rows, BATCH_ROWS)):
        for column, more in zip(cells, _columns(batch, len(columns)), strict=True):
            column += more
    kinds = [_kind(column) for column in cells]
    out = io.BytesIO()
    _frame(columns, kinds, cells, 0).write_parquet(out, compression="zstd")
    view = out.getbuffer()
    for start in range(0, len(view), 2**16):
        writer.write(bytes(view[start : start + 2**16]))


def boolean(value: bool) -> QuerySolutions:
    """A yes or no as one row."""
    found = Store().query(f"SELECT ({str(value).lower()} AS ?boolean) {{}}")
    assert isinstance(found, QuerySolutions)
    return found


def _polars() -> Any:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # one query is one core's
    import polars

    return polars


def _counted(found: Iterable[Any], counter: Counter, most: int) -> Iterator[Any]:
    for row in found:
        counter.rows += 1
        if most and counter.rows > most:
            raise TooLong("rows", most)
        yield row


def _columns(rows: list[Any], width: int) -> list[list[Cell]]:
    """For each column its cells, as (kind, lexical form or None)."""
    found: list[list[Cell]] = [[] for _ in range(width)]
    for row in rows:
        for column, term in zip(found, row, strict=True):
            kind = type(term)
            if kind is NamedNode:
                column.append((TEXT, term.value))
            elif kind is Literal:
                column.append((_KINDS.get(term.datatype.value, TEXT), term.value))
            elif term is None:
                column.append(_NOTHING)
            else:
                column.append((TEXT, f"_:{term.value}" if kind is BlankNode else f"<<( {term} )>>"))
    return found


_NOTHING: Cell = ("", None)


def _kind(cells: list[Cell]) -> str:
    """The kind all the values of a column have."""
    kinds = {kind for kind, _ in cells} - {""}
    if kinds == {WHOLE, NUMBER}:
        return NUMBER
    if len(kinds) != 1:
        return TEXT
    (kind,) = kinds
    if kind == MOMENT:
        zoned = {_zoned(text) for _, text in cells if text is not None}
        kind = TEXT if len(zoned) > 1 else MOMENT if True in zoned else LOCAL
    if any(text is not None and _value(kind, text) is None for _, text in cells):
        return TEXT
    return kind


def _zoned(text: str) -> bool:
    return text.endswith("Z") or text[-6:-5] in ("+", "-")


def _value(kind: str, text: str) -> Any:
    """The value of a lexical form, None when it is none of this kind that the column can hold."""
    try:
        if kind == TEXT:
            return text
        if kind == WHOLE:
            whole = int(text)
            return whole if -(2**63) <= whole < 2**63 else None
        if kind == NUMBER:
            return float(_NUMBERS.get(text, text))
        if kind == TRUTH:
            return {"true": True, "1": True, "false": False, "0": False}.get(text)
        if kind == DAY:
            return date.fromisoformat(text) if len(text) == 10 else None
        found = datetime.fromisoformat(text)
        return found if (found.tzinfo is not None) == (kind == MOMENT) else None
    except ValueError:
        return None


def _frame(columns: list[str], kinds: list[str], cells: list[list[Cell]], before: int) -> polars.DataFrame:
    pl = _polars()
    types = {
        TEXT: pl.String,
        WHOLE: pl.Int64,
        NUMBER: pl.Float64,
        TRUTH: pl.Boolean,
        DAY: pl.Date,
        MOMENT: pl.Datetime("us", "UTC"),
        LOCAL: pl.Datetime("us"),
    }
    series = []
    for name, kind, column in zip(columns, kinds, cells, strict=True):
        allowed = {WHOLE, NUMBER} if kind == NUMBER else {MOMENT} if kind == LOCAL else {kind}
        values = []
        for number, (own, text) in enumerate(column):
            value = None if text is None else _value(kind, text) if kind == TEXT or own in allowed else None
            if value is None and text is not None:
                raise Mistyped(
                    f"Row {before + number + 1}: ?{name} is {text[:100]!r}, and the column is {types[kind]} by the "
                    f"{FIRST_ROWS:,} rows before. Cast it in the query, or ask for parquet, which looks at every row."
                )
            values.append(value)
        series.append(pl.Series(name, values, dtype=types[kind], strict=True))
    table: polars.DataFrame = pl.DataFrame(series)
    return table


def _parts(data: memoryview) -> tuple[bytes, bytes]:
    """The schema of an IPC stream, and its batches without the end."""
    assert bytes(data[:4]) == b"\xff\xff\xff\xff"
    start = 8 + int.from_bytes(data[4:8], "little")
    return bytes(data[:start]), bytes(data[start:-8])
