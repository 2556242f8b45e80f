"""The W3C's protocol tests and its query tests, each through HTTP, on a plain store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import QueryResultsFormat, RdfFormat

from tests import w3c_suite as w3c
from tests.conftest import ABSENT
from tests.endpoint import Endpoint, endpoint

FOLDERS = (
    "aggregates", "bind", "bindings", "cast", "construct", "exists", "functions", "grouping", "negation",
    "project-expression", "property-path", "subquery", "csv-tsv-res", "json-res",
)  # fmt: skip
THERE = w3c.W3C.is_dir()
SKIP = [pytest.param(None, marks=pytest.mark.skip(reason=f"shared: {ABSENT}"))]
ZERO = "a path of length zero from a term that is not in the graph has no row in the engine (SPARQL 1.1, 9.3 has one)"
TAG = "the engine's GROUP_CONCAT keeps a language tag that all have, as SPARQL 1.2 has it"
DIFFERENT = {
    "aggregates/agg-empty-group-count-graph": "a subquery in GRAPH ?g is not run once for each graph by the engine",
    "aggregates/agg-groupconcat-04": TAG,
    "aggregates/agg-groupconcat-06": TAG,
    "bindings/graph": "VALUES in GRAPH ?g does not bind ?g to each graph in the engine",
    "csv-tsv-res/tsv03": "the store spells xsd:negativeInteger as xsd:integer",
    "functions/bnode01": "BNODE of one string is one blank node for the whole answer in the engine, not one a row",
    "negation/graph-minus": "the engine counts ?g of GRAPH ?g as shared by both sides of MINUS",
    "property-path/zero_or_more_set_end": ZERO,
    "property-path/zero_or_more_set_start": ZERO,
    "property-path/zero_or_one_set_end": ZERO,
    "property-path/zero_or_one_set_start": ZERO,
}
"""Tests whose outcome is another one here, and why."""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with endpoint(tmp_path_factory.mktemp("plain"), "merge = false\n") as found:
        yield found


def load(plain: Endpoint, graphs: dict[str, tuple[Path, ...]]) -> None:
    """The store holds these files and nothing else: "" is the default graph."""
    data = "".join(
        f"GRAPH <{name}> {{ {text} }}\n" if name else text
        for name, files in graphs.items()
        if (text := "".join(map(w3c.triples, files)))
    )
    found = plain.update(f"DROP ALL ; INSERT DATA {{ {data} }}")
    assert found.status_code == 200, found.text


@pytest.mark.parametrize("test", [pytest.param(one, id=one[0]) for one in w3c.protocol()] if THERE else SKIP)
def test_the_protocol_is_the_w3cs(plain: Endpoint, test: tuple[str, list[w3c.Asked]]) -> None:
    _, requests = test
    load(plain, {KASEI + file.stem + ".rdf": (file,) for file in sorted((w3c.W3C / "protocol").glob("data?.nt"))})
    for asked in requests:
        assert asked.path.startswith("/sparql/")
        found = plain.send(
            asked.method, "sparql" + asked.path.removeprefix("/sparql/"), headers=dict(asked.headers), data=asked.body
        )
        assert f"{found.status_code // 100}xx" in asked.statuses, found.text
        kind = found.headers.get("Content-Type", "").partition(";")[0]
        if asked.format in ("boolean", "tabular"):
            assert kind == "application/sparql-results+json"
            assert ("boolean" in found.json()) is (asked.format == "boolean")
        elif asked.format == "RDF":
            assert kind == "text/turtle"
        if asked.boolean is not None:
            assert found.json()["boolean"] is asked.boolean
        if found.status_code >= 400:
            assert kind == "application/problem+json"


KASEI = "http://kasei.us/2009/09/sparql/data/"
LOADED: list[tuple[tuple[Path, ...], tuple[Path, ...]]] = []


@pytest.mark.parametrize(
    "case", [pytest.param(one, id=one.name) for one in w3c.evaluations(*FOLDERS)] if THERE else SKIP
)
def test_a_query_of_the_w3c_has_its_answer(plain: Endpoint, case: w3c.Case) -> None:
    if [(case.default, case.named)] != LOADED:
        load(plain, {"": case.default, **{one.as_uri(): (one,) for one in case.named}})
        LOADED[:] = [(case.default, case.named)]
    query = case.query.read_text("utf-8")
    if "BASE" not in query.upper():
        query = f"BASE <{case.query.as_uri()}>\n{query}"
    accept, form = {
        ".srx": ("application/sparql-results+xml", QueryResultsFormat.XML),
        ".srj": ("application/sparql-results+json", QueryResultsFormat.JSON),
        ".tsv": ("text/tab-separated-values", QueryResultsFormat.TSV),
        ".csv": ("text/csv", None),
    }.get(case.result.suffix, ("application/n-triples, application/sparql-results+json", None))
    found = plain.send("POST", "sparql", data={"query": query}, headers={"Accept": accept})
    assert found.status_code == 200, found.text
    if case.result.suffix == ".csv":
        answer: object = w3c.lines(found.content)
    elif found.headers["Content-Type"].startswith("application/n-triples"):
        answer = w3c.graph_of(found.content, RdfFormat.N_TRIPLES)
    else:
        answer = w3c.table_of(found.content, form or QueryResultsFormat.JSON)
    assert (answer == w3c.expected(case)) is (case.name not in DIFFERENT), DIFFERENT.get(case.name, found.text[:500])


def test_the_suites_are_whole() -> None:
    if not THERE:
        pytest.skip(f"shared: {ABSENT}")
    assert len(list(w3c.protocol())) == 34
    assert len(list(w3c.evaluations(*FOLDERS))) >= 200
