"""A company's own questions: its queries through our endpoint, and what the planner makes of its words."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import date
from pathlib import Path

import pytest
from pyoxigraph import Literal, NamedNode, RdfFormat, Store

from graphtide.question_set import load_set
from sparql.query.casts import CASTS, XSD
from sparql.question.graph import StoreGraph
from sparql.question.planner.plan import Plan
from sparql.question.scoring import score
from tests import profiled
from tests.endpoint import endpoint

FILES = ("prod-inst.ttl", "prod-vocab.ttl")


@pytest.fixture(scope="module")
def store(shared: Path) -> Store:
    found = Store()
    for name in FILES:
        found.load((shared / "ck25" / name).read_bytes(), format=RdfFormat.TURTLE)
    return found


def test_every_gold_query_has_the_same_result_through_the_endpoint(shared: Path, tmp_path: Path, store: Store) -> None:
    for name in FILES:
        shutil.copyfile(shared / "ck25" / name, tmp_path / name)
    _, questions = load_set(shared / "ck25" / "questions-odd.yml")
    with endpoint(tmp_path, '[sources.company]\npaths = ["*.ttl"]\n') as server:
        assert all(one.rejected == 0 for one in server.engine.sync())
        for one in questions:
            assert one.sparql is not None
            found = server.send(
                "GET", "sparql", params={"query": one.sparql}, headers={"Accept": "application/sparql-results+json"}
            )
            assert found.status_code == 200, (one.id, found.text)
            # The engine alone knows no xsd:int.
            query = one.sparql.replace("xsd:int(", "xsd:integer(")
            rows, right = found_rows(found.json()), right_rows(store.query(query))
            if rows != right and "LIMIT" in query:
                # Of things that come at the same place of an order, any may be within its limit.
                assert isinstance(rows, Counter) and isinstance(right, Counter)
                assert rows.total() == right.total(), one.id
                assert rows <= right_rows(store.query(query.partition("LIMIT")[0])), one.id
                continue
            assert rows == right, one.id


def found_rows(answer: dict) -> Counter | bool:
    if "boolean" in answer:
        return bool(answer["boolean"])
    columns = answer["head"]["vars"]
    return Counter(
        tuple(row[name]["value"] if name in row else None for name in columns) for row in answer["results"]["bindings"]
    )


def right_rows(answer) -> Counter | bool:
    if not hasattr(answer, "variables"):
        return bool(answer)
    return Counter(tuple(None if term is None else term.value for term in row) for row in answer)


def test_the_planner_reads_half_of_what_the_company_asks(shared: Path, store: Store) -> None:
    graph = StoreGraph(store)
    planner = profiled.planner(graph)
    _, questions = load_set(shared / "ck25" / "questions-odd.yml")
    total = 0.0
    for one in questions:
        made = planner.plan(one.text, today=date(2026, 12, 1))
        if isinstance(made, Plan):
            right = graph.query((one.sparql or "").replace("xsd:int(", "xsd:integer("))
            total += score(right, graph.query(made.sparql), ordered=one.ordered).f1
    assert total / len(questions) >= 0.45


DECIMAL, DOUBLE = (NamedNode(XSD + name) for name in ("decimal", "double"))


@pytest.mark.parametrize(
    ("given", "type", "whole"),
    [
        (Literal("7"), "int", "7"),
        (Literal(" +7 "), "int", "7"),
        (Literal("7.9"), "int", None),
        (Literal("-7.9", datatype=DECIMAL), "short", "-7"),
        (Literal(True), "byte", "1"),
        (Literal("300"), "byte", None),
        (Literal("NaN", datatype=DOUBLE), "long", None),
        (Literal("1e999", datatype=DOUBLE), "long", None),
        (Literal("7", language="en"), "int", None),
        (Literal("-1"), "unsignedInt", None),
        (Literal("0"), "positiveInteger", None),
        (NamedNode("http://a/7"), "int", None),
        (Literal("9" * 1000), "nonNegativeInteger", None),
        (Literal("٧"), "int", None),
    ],
)
def test_a_cast_to_a_type_of_whole_numbers_keeps_its_range(given, type, whole):
    found = CASTS[NamedNode(XSD + type)](given)
    assert (None if found is None else found.value) == whole
