"""A query from the command line is run by a worker like any other: the newest commit, a deadline, a memory cap."""

from __future__ import annotations

import json
import sys
from typing import Any

from sparql.query.results import BOOLEAN, ROWS, TRIPLES

from . import show


def ask(dir: str, text: str, format: str | None) -> None:
    """Run SPARQL on the graph of `dir` and print the answer; a table (or Turtle) when no format is named.

    Raises QueryError and its kin, and NotAcceptable for a format that such an answer does not have.
    """
    from sparql.query import Pool

    from .pipeline import PREFIXES
    from .settings import load, own

    settings = load(dir)
    limits = settings.limits
    prefixes = {**PREFIXES, **settings.prefixes}
    own(settings.state)
    pool = Pool(
        settings.state, settings.base, workers=1, spares=0, deadline=limits.query_seconds,
        memory_bytes=limits.query_memory_bytes, prefixes=prefixes,
    )  # fmt: skip
    with pool:
        answer = pool.run(text, format=_formats(format))
        if answer.kind == TRIPLES or format in ("json", "csv"):
            for piece in answer:
                sys.stdout.buffer.write(piece)
            sys.stdout.flush()
            return
        _table(json.loads(b"".join(answer)), prefixes)


def _formats(format: str | None) -> dict[str, str]:
    """What each kind of answer is written as; without a format a table is made from JSON, and a graph is Turtle."""
    if format == "csv":
        return {ROWS: "csv", BOOLEAN: "csv"}
    if format == "turtle":
        return {TRIPLES: "turtle"}
    return {ROWS: "json", BOOLEAN: "json", TRIPLES: "jsonld" if format == "json" else "turtle"}


def _table(found: dict[str, Any], prefixes: dict[str, str]) -> None:
    if "boolean" in found:
        show.line("yes" if found["boolean"] else "no")
        return
    columns = found["head"]["vars"]
    rows = [[_cell(row.get(name), prefixes) for name in columns] for row in found["results"]["bindings"]]
    numbers = [name for at, name in enumerate(columns) if rows and all(_number(row[at]) for row in rows)]
    show.table(columns, rows, numbers=numbers)
    show.aside(show.count(len(rows), "row"))


def _cell(term: dict[str, Any] | None, prefixes: dict[str, str]) -> str:
    if term is None:
        return ""
    value = str(term["value"])
    if term["type"] == "uri":
        return show.prefixed(value, prefixes)
    return value


def _number(cell: str) -> bool:
    try:
        float(cell or "0")
    except ValueError:
        return False
    return True
