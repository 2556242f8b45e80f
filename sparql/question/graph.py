"""A question asks the graph as everyone does, by SPARQL: of the pool of workers, or of a store that is at hand."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from itertools import islice
from typing import Any

from pyoxigraph import (
    Literal,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    RdfFormat,
    Store,
    parse,
    parse_query_results,
)

from sparql.query import results
from sparql.query.pool import Pool
from sparql.question.answer import Result

MOST_ROWS = 10_000
FORMATS = {results.ROWS: "json", results.BOOLEAN: "json", results.TRIPLES: "ntriples"}
_TRIPLE = ("subject", "predicate", "object")


class PoolGraph:
    """The graph that a pool serves. `client` is who asks, for fairness."""

    def __init__(self, pool: Pool, *, client: str | None = None, prefixes: Mapping[str, str] | None = None) -> None:
        self.pool, self.client, self.prefixes = pool, client, prefixes

    def query(
        self, text: str, *, seconds: float | None = None, rows: int | None = None, epoch: int | None = None
    ) -> Result:
        """See `Graph`. A text with a LIMIT of its own is not read to `rows` and beyond: what is cut says so."""
        most = MOST_ROWS if rows is None else rows
        began = time.monotonic()
        answer = self.pool.run(
            text, format=FORMATS, deadline=seconds, client=self.client, epoch=epoch, prefixes=self.prefixes
        )
        try:
            body = answer.read()
        finally:
            answer.close()
        ms = answer.ms if answer.ms is not None else (time.monotonic() - began) * 1000
        columns, found = _read(answer.kind, body)
        return Result(answer.kind, columns, found[:most], len(found) > most, answer.epoch, ms, answer.commit_time)


class StoreGraph:
    """A store in this process, at commit `epoch`. It has no deadline: for tests and measurements."""

    def __init__(self, store: Store, *, epoch: int = 0, prefixes: Mapping[str, str] | None = None) -> None:
        self.store, self.epoch, self.prefixes = store, epoch, dict(prefixes or {})

    def query(
        self, text: str, *, seconds: float | None = None, rows: int | None = None, epoch: int | None = None
    ) -> Result:
        """See `Graph`."""
        most = MOST_ROWS if rows is None else rows
        began = time.monotonic()
        answer: Any = self.store.query(text, prefixes=self.prefixes)
        columns: tuple[str, ...]
        found: list[Any]
        if isinstance(answer, QueryBoolean):
            kind, columns, found = results.BOOLEAN, ("boolean",), [(Literal(bool(answer)),)]
        elif isinstance(answer, QuerySolutions):
            kind, columns = results.ROWS, tuple(one.value for one in answer.variables)
            found = [tuple(row) for row in islice(answer, most + 1)]
        else:
            kind, columns = results.TRIPLES, _TRIPLE
            found = [(one.subject, one.predicate, one.object) for one in islice(answer, most + 1)]
        ms = (time.monotonic() - began) * 1000
        return Result(kind, columns, tuple(found[:most]), len(found) > most, self.epoch, ms)


def _read(kind: str, body: bytes) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    if kind == results.TRIPLES:
        quads = parse(body, format=RdfFormat.N_TRIPLES)
        return _TRIPLE, tuple((quad.subject, quad.predicate, quad.object) for quad in quads)
    if kind == results.BOOLEAN:
        return ("boolean",), ((Literal(bool(json.loads(body)["boolean"])),),)
    found = parse_query_results(body, format=QueryResultsFormat.JSON)
    assert isinstance(found, QuerySolutions)
    return tuple(one.value for one in found.variables), tuple(tuple(row) for row in found)
