"""The API reads the graph as everyone does: by SPARQL, from a worker, with values that are terms and never text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pyoxigraph import Literal, NamedNode

from sparql.index import importance
from sparql.index.search import LABELS, local
from sparql.query.pool import NotAcceptable, QueryFailed
from sparql.server.api.indexed import indexed
from sparql.server.api.operation import Given
from sparql.server.gate import client_of
from sparql.server.problem import Problem, of_query

Term = Mapping[str, str]
Row = Mapping[str, Term]


@dataclass(frozen=True)
class Found:
    """The rows of one query, at the commit it was asked at."""

    rows: tuple[Row, ...]
    epoch: int
    time: str


async def ask(given: Given, text: str, *, least: int | None = None, epoch: int | None = None) -> Found:
    """The solutions of a SELECT, at `epoch`, or at `least` or later. Raises Problem as the query endpoint does."""
    client = client_of(given.request)
    try:
        async with given.serving.pool.call(text, format="json", client=client, least=least, epoch=epoch) as call:
            answer = await call.begin()
            parts = []
            while (data := await answer.chunk_async()) is not None:
                parts.append(data)
    except (QueryFailed, NotAcceptable) as wrong:
        raise of_query(wrong) from wrong
    rows = json.loads(b"".join(parts))["results"]["bindings"]
    return Found(tuple(rows), answer.epoch, answer.commit_time or "")


def iri(text: str) -> str | None:
    """`text` as SPARQL writes an IRI; None for what no graph can name."""
    try:
        return str(NamedNode(text))
    except ValueError:
        return None


def string(text: str) -> str:
    """`text` as SPARQL writes a string."""
    return str(Literal(text))


def value(term: Term) -> dict[str, str]:
    """A term of a result as the API spells it."""
    kind = {"uri": "iri", "bnode": "blank", "literal": "literal", "typed-literal": "literal"}.get(
        term["type"], "triple"
    )
    found = {"kind": kind, "value": term["value"] if isinstance(term["value"], str) else json.dumps(term["value"])}
    if "xml:lang" in term:
        found["language"] = term["xml:lang"]
    elif "datatype" in term:
        found["datatype"] = term["datatype"]
    return found


async def called(given: Given, iris: Iterable[str]) -> dict[str, str]:
    """What each is called: by the index where there is one, else by the graph."""
    wanted = list(dict.fromkeys(iris))
    try:
        found = await indexed(given.serving, lambda index: importance.of(index.db, wanted))
    except Problem:
        rows = (await ask(given, f"SELECT ?x ?lp ?l {{ {labels_pattern(wanted)} }}")).rows if wanted else ()
        return labels(rows)
    return {name: one.label for name, one in found.items()}


def labels_pattern(iris: Iterable[str]) -> str:
    """A pattern that binds ?x to each IRI that has a name, ?lp to the naming property and ?l to the name."""
    nodes = filter(None, map(iri, dict.fromkeys(iris)))
    # Two VALUES, one of nodes and one of properties, are joined with every label there is: 250 ms and not 3.
    pairs = " ".join(f"({node} <{one}>)" for node in nodes for one in LABELS)
    return f"{{ VALUES (?x ?lp) {{ {pairs} }} ?x ?lp ?l }}"


def labels(rows: Iterable[Row]) -> dict[str, str]:
    """The best name of each ?x: of the first property of LABELS, in English or without a language."""
    best: dict[str, tuple[int, int, str, str]] = {}
    for row in rows:
        if "l" not in row or "x" not in row or row["l"]["type"] not in ("literal", "typed-literal"):
            continue
        language = row["l"].get("xml:lang", "")
        mine = (LABELS.index(row["lp"]["value"]), 0 if language.partition("-")[0] in ("", "en") else 1, language,
                row["l"]["value"])  # fmt: skip
        node = row["x"]["value"]
        if node not in best or mine < best[node]:
            best[node] = mine
    return {node: found[3] for node, found in best.items()}


def named(node: str, known: Mapping[str, str]) -> dict[str, Any]:
    """An IRI with what it is called."""
    return {"iri": node, "label": known.get(node) or local(node)}
