"""What is seen: tables and progress on a terminal, plain aligned text elsewhere, one JSON document for a program."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import click

Row = Sequence[Any]


def document(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def line(text: str) -> None:
    click.echo(_clean(text))


def aside(text: str) -> None:
    """A line that is not the answer: on stderr."""
    click.echo(_clean(text), err=True)


def table(columns: Sequence[str], rows: Sequence[Row], *, title: str = "", numbers: Sequence[str] = ()) -> None:
    """The rows under their columns; with lines and colour only on a terminal."""
    cells = [[_clean(text(cell)).replace("\n", "\\n") for cell in row] for row in rows]
    if sys.stdout.isatty():
        _rich_table(columns, cells, title, numbers)
        return
    if title:
        click.echo(title)
    for shown in plain(columns, cells, numbers):
        click.echo(shown)


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[str] = ()) -> Iterator[str]:
    """Aligned lines without colour: a header, then the rows."""
    widths = [max([_width(name), *(_width(row[at]) for row in rows)]) for at, name in enumerate(columns)]
    for row in (list(columns), *rows):
        parts = []
        for at, cell in enumerate(row):
            pad = " " * (widths[at] - _width(cell))
            parts.append(pad + cell if columns[at] in numbers else cell + pad)
        yield "  ".join(parts).rstrip()


def text(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}"
    return str(value)


def prefixed(iri: str, prefixes: Mapping[str, str]) -> str:
    """An IRI as `prefix:local` where a prefix leaves a plain local name; else as it is."""
    best = max((space for space in prefixes.values() if iri.startswith(space)), key=len, default="")
    local = iri[len(best) :]
    if best and local and not any(sign in local for sign in "/#?"):
        return f"{next(name for name, space in prefixes.items() if space == best)}:{local}"
    return iri


def value(term: str, prefixes: Mapping[str, str]) -> str:
    """What an N-Triples term says, without quotes and datatype."""
    if term.startswith("<") and term.endswith(">"):
        return prefixed(term[1:-1], prefixes)
    found = re.fullmatch(r'"(.*)"(?:\^\^<[^>]*>|@[A-Za-z0-9-]+)?', term, re.DOTALL)
    return found.group(1) if found else term


def count(number: int, thing: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def ago(seconds: float | None) -> str:
    """A span as its largest unit: `4 s`, `12 min`, `3 h`, `2 d`."""
    if seconds is None:
        return "-"
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length:
            return f"{int(seconds // length)} {unit}"
    return f"{int(seconds)} s"


def clock(when: str | None) -> str:
    """An ISO time as its hours, minutes and seconds (UTC), with the day when that is another."""
    if not when:
        return "-"
    day, _, rest = when.partition("T")
    time = rest[:8]
    return time if day == datetime.now(UTC).date().isoformat() else f"{day} {time}"


def bytes_(count: int | None) -> str:
    if count is None:
        return "-"
    size, unit = float(count), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):  # noqa: B007  the unit at which the loop stops is the answer
        if size < 1000:
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


@contextmanager
def progress(*, shown: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Takes sync events; one bar a source on stderr when it is a terminal and `shown`, nothing otherwise."""
    if not shown or not sys.stderr.isatty():
        yield lambda event: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    bar = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} records"), TimeElapsedColumn())
    tasks: dict[str, TaskID] = {}
    with Progress(*bar, console=Console(stderr=True), transient=True) as bars:

        def take(event: dict[str, Any]) -> None:
            name = event.get("source")
            if not name:
                return
            if name not in tasks:
                tasks[name] = bars.add_task(str(name), total=None)  # how many there are shows at the end
            bars.update(tasks[name], completed=event.get("records", 0))

        yield take


def _rich_table(columns: Sequence[str], cells: list[list[str]], title: str, numbers: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    made = Table(title=title or None, header_style="bold", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for at, name in enumerate(columns):
        number = name in numbers
        made.add_column(name, justify="right" if number else "left", overflow="fold", no_wrap=number or at == 0)
    for row in cells:
        made.add_row(*(escape(cell) for cell in row))
    Console().print(made)


def _width(cell: str) -> int:
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in cell)


def _clean(shown: str) -> str:
    # Data may hold escape sequences that would drive the reader's terminal.
    return "".join(c if c in "\n\t" or unicodedata.category(c) != "Cc" else f"\\x{ord(c):02x}" for c in shown)
