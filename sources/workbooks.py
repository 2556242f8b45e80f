"""Excel and Parquet hand over typed rows; an archive is measured before anything is unpacked."""

from __future__ import annotations

import base64
import datetime
import io
import logging
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from sources.limits import MIB, Limits, size
from sources.record import ReadError
from sources.tables import Row, columns

_CELL = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{1,3})([0-9]{1,7})["']""")


def excel_rows(data: bytes, where: str, sheet: str | None, limits: Limits, notes: list[str]) -> Iterator[Row]:
    """The rows of one sheet (the first when none is named) below its first row that is not empty.

    Whole numbers are int, since Excel has only one kind of number. A column of mixed types is text.
    """
    _check_archive(data, where, limits)
    import fastexcel

    # It logs each column of mixed types as a warning; that such a column is text is documented.
    logging.getLogger("fastexcel").setLevel(logging.ERROR)
    try:
        book = fastexcel.read_excel(data)
        names = book.sheet_names
        if sheet is not None and sheet not in names:
            has = ", ".join(repr(name) for name in names[:8])
            raise ReadError(where, f"has no sheet {sheet!r}; it has {has}", "Correct sheet.")
        name = sheet if sheet is not None else names[0]
        place = f"{where}#{name}"
        top = book.load_sheet(name, header_row=None, skip_rows=0, n_rows=200, dtypes="string").to_polars()
        first = next((n for n, row in enumerate(top.iter_rows()) if any(row)), None)
        if first is None:
            raise ReadError(place, "is empty; a table begins with its column names", "Name another sheet.")
        header = [str(value or "") for value in top.row(first)]
        table = book.load_sheet(
            name,
            header_row=None,
            skip_rows=first + 1,
            column_names=[f"c{n}" for n in range(len(header))],
            schema_sample_rows=None,
        ).to_polars()
    except ReadError:
        raise
    except Exception as wrong:  # fastexcel raises its own family, whose root is Exception
        raise ReadError(where, f"is not an Excel workbook that can be read: {_first_line(wrong)}", "") from None
    titles = columns(header, f"{place}:{first + 1}", limits, notes)
    for number, values in enumerate(table.iter_rows(), first + 2):
        if any(value is not None for value in values):
            yield f"#{name}:{number}", None, {t: _excel(v) for t, v in zip(titles, values, strict=False)}, ""


def parquet_rows(data: bytes, where: str, limits: Limits, notes: list[str]) -> Iterator[Row]:
    """The rows of a Parquet file with their types; bytes are base64, durations ISO 8601 text."""
    import polars
    from polars.exceptions import PanicException

    try:
        scan = polars.scan_parquet(io.BytesIO(data))
        width = len(scan.collect_schema())
        height = int(scan.select(polars.len()).collect().item())
        if width * height > limits.max_cells or width > limits.max_columns:
            raise ReadError(
                where,
                f"has {height} rows of {width} columns, over max_cells ({limits.max_cells}) or max_columns",
                "Split it, or raise the limit under [limits].",
            )
        number = 0
        for batch in scan.collect_batches(chunk_size=20_000, maintain_order=True):
            for row in batch.iter_rows(named=True):
                number += 1
                yield f"#{number}", None, {name: _value(value) for name, value in row.items()}, ""
    except (polars.exceptions.PolarsError, PanicException, OSError) as wrong:
        raise ReadError(
            where, f"is not Parquet that can be read: {_first_line(wrong)}", "Is it half-written?"
        ) from None


def _check_archive(data: bytes, where: str, limits: Limits) -> None:
    """Unpack the archive once into nothing, within bounds, and measure the rectangle of each sheet.

    calamine allocates the whole rectangle up to the last cell: one in the far corner of a sheet of 600 bytes makes it
    17 thousand million cells.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            total = sum(entry.file_size for entry in entries)
            if total > limits.max_expanded_bytes:
                raise ReadError(
                    where,
                    f"unpacks to {size(total)}, over max_expanded_bytes ({size(limits.max_expanded_bytes)})",
                    "Is it a zip bomb? If not, raise max_expanded_bytes under [limits].",
                )
            if total > MIB and total > limits.max_expansion * len(data):
                raise ReadError(
                    where,
                    f"unpacks to {total // len(data)} times its size, over max_expansion ({limits.max_expansion})",
                    "Is it a zip bomb? If not, raise max_expansion under [limits].",
                )
            for entry in entries:
                _measure(archive, entry, where, limits)
    except ReadError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, OverflowError, OSError) as wrong:
        raise ReadError(
            where, f"is not an Excel workbook: {_first_line(wrong)}", "Is it half-written, or another format?"
        ) from None


def _measure(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, where: str, limits: Limits) -> None:
    # Any part may be a sheet, whatever its name. zipfile stops at the declared size and checks the sum: a directory
    # that lies about a size raises here.
    bottom, right, tail = 0, 0, b""
    with archive.open(entry) as file:
        while chunk := file.read(MIB):
            cells = _CELL.findall(tail + chunk)
            tail = (tail + chunk)[-32:]
            if cells:
                bottom = max(bottom, *(int(row) for row in {row for _, row in cells}))
                right = max(right, *(_column(letters.upper()) for letters in {letters for letters, _ in cells}))
    if bottom * right > limits.max_cells:
        raise ReadError(
            f"{where}#{entry.filename}",
            f"spans {bottom * right} cells, over max_cells ({limits.max_cells})",
            "Delete the stray cell far from the table, or raise max_cells under [limits].",
        )


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _excel(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    return value


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, dict):
        return {name: _value(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_value(inner) for inner in value]
    return value


def _duration(value: datetime.timedelta) -> str:
    sign = "-" if value < datetime.timedelta(0) else ""
    value = abs(value)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds}{fraction}S"


def _first_line(wrong: BaseException) -> str:
    return (str(wrong).strip().splitlines() or [type(wrong).__name__])[0].rstrip(".:")
