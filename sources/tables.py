"""A table in text has one header, and every row below it is as wide."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO

from sources.limits import KIB, Limits
from sources.record import ReadError

_DELIMITERS = ",;\t|"
_SAMPLE = 64 * KIB

Row = tuple[str, str | None, dict[str, Any], str]
"""What every reader yields: the place within the file (`:12`, `#$.items[3]`), the key the format itself gives the
record (None for most), the data, why it cannot be used ("" when it can)."""


def rows(file: BinaryIO, where: str, encoding: str, delimiter: str, limits: Limits, notes: list[str]) -> Iterator[Row]:
    """The rows of a CSV or TSV file, all values text. Raises ReadError naming the line of a ragged or broken row."""
    text = io.TextIOWrapper(file, encoding=encoding, newline="")
    # The limit is global to the process and 128 KiB by default; a long text in a cell is no error.
    csv.field_size_limit(max(csv.field_size_limit(), limits.max_record_bytes))
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    line = 1
    try:
        header = next(reader, None)
        while header is not None and (not header or _excel_hint(header)):
            line = reader.line_num + 1
            header = next(reader, None)
        if header is None:
            raise ReadError(
                f"{where}:1", "is empty; a table begins with its column names", "Delete the file to retract its rows."
            )
        names = columns(header, f"{where}:{line}", limits, notes)
        width = len(names)
        line = reader.line_num + 1
        for values in reader:
            if len(values) == width:
                yield f":{line}", None, dict(zip(names, values, strict=True)), ""
            elif values:
                raise _ragged(f"{where}:{line}", values, names)
            line = reader.line_num + 1
    except csv.Error as wrong:
        raise _broken(f"{where}:{line}", str(wrong), delimiter) from wrong
    finally:
        text.detach()


def delimiter_of(sample: str) -> str:
    """The delimiter under which the most rows of the sample are as wide as its first; a comma when none is."""
    first, _, rest = sample.partition("\n")
    if first.lower().startswith("sep=") and len(first.strip()) == 5:
        return first[4]
    best, delimiter = (0.0, 0), ","
    for candidate in _DELIMITERS:
        if candidate not in first and "\n" in sample.strip("\n"):
            continue
        widths = _widths(sample, candidate)
        if not widths or widths[0] < 2:
            continue
        share = Counter(widths)[widths[0]] / len(widths)
        if (share, widths[0]) > best:
            best, delimiter = (share, widths[0]), candidate
    return delimiter


def sample_of(file: BinaryIO, encoding: str) -> str:
    """The beginning of the text, cut at a line end when it is longer than the sample."""
    raw = file.read(_SAMPLE)
    text = raw.decode(encoding, errors="ignore")
    return text if len(raw) < _SAMPLE else text[: text.rfind("\n") + 1] or text


def columns(header: list[str], place: str, limits: Limits, notes: list[str]) -> list[str]:
    """The names of a header, each once: an empty one is `column_3`, a second `x` is `x_2`; both are noted."""
    if len(header) > limits.max_columns:
        raise ReadError(
            place, f"has {len(header)} columns, over max_columns ({limits.max_columns})", "Is the delimiter right?"
        )
    taken = {name.strip() for name in header}
    names: list[str] = []
    for position, raw in enumerate(header, 1):
        name = raw.strip()
        if not name or name in names:
            stem = name or "column"
            count = 2 if name else position
            while f"{stem}_{count}" in taken:
                count += 1
            new = f"{stem}_{count}"
            taken.add(new)
            what = f"column {position} has no name" if not name else f"column {position} is a second {name!r}"
            notes.append(f"{place}: {what}; it is called {new!r} here")
            name = new
        names.append(name)
    return names


def _widths(sample: str, delimiter: str) -> list[int]:
    widths = []
    try:
        for row in csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter):
            if row:
                widths.append(len(row))
    except csv.Error:
        pass
    return widths


def _excel_hint(header: list[str]) -> bool:
    joined = "".join(header).lower()
    return joined.startswith("sep=") and len(joined) <= 5


def _ragged(place: str, values: list[str], names: list[str]) -> ReadError:
    shown = ", ".join(repr(value if len(value) <= 40 else value[:37] + "...") for value in values[:4])
    more = ", ..." if len(values) > 4 else ""
    value, column = ("value" if len(values) == 1 else "values"), ("column" if len(names) == 1 else "columns")
    return ReadError(
        place,
        f"has {len(values)} {value} ({shown}{more}) where the header has {len(names)} {column}",
        "Quote a value that holds the delimiter, or complete the row.",
    )


def _broken(place: str, problem: str, delimiter: str) -> ReadError:
    if "unexpected end of data" in problem:
        return ReadError(place, "a quote that opens here never closes", "Close it, or double a quote inside a value.")
    if "field larger" in problem:
        return ReadError(
            place,
            "a value that begins here is longer than max_record_bytes",
            "Does a quote never close? If not, raise max_record_bytes under [limits].",
        )
    if "expected after" in problem:
        return ReadError(place, f"a closing quote is not followed by {delimiter!r}", "Double a quote inside a value.")
    return ReadError(place, f"is not a row: {problem}", "")
