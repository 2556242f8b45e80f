"""A few lines of the profile are enough for a question, and never more than they may be."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, Store

from sparql.question.graph import StoreGraph
from sparql.question.schema import Schema
from sparql.question.slicing import BUDGET, slice_of
from tests.profiled import profile


@pytest.fixture(scope="module")
def schema(shared: Path) -> Schema:
    store = Store()
    for name in ("prod-inst.ttl", "prod-vocab.ttl"):
        store.load((shared / "ck25" / name).read_bytes(), format=RdfFormat.TURTLE)
    return profile(StoreGraph(store, prefixes={"pv": "http://ld.company.org/prod-vocab/"}))


def test_what_each_question_needs_is_in_its_slice(shared: Path, schema: Schema) -> None:
    tree = yaml.safe_load((shared / "ck25" / "questions-odd.yml").read_text("utf-8"))
    space = tree["dataset"]["defaultNamespace"]
    needed = there = 0
    for one in tree["questions"]:
        found = slice_of(schema, one["question"]["en"])
        assert found.tokens <= BUDGET
        wanted = {space + name.lstrip(":") for name in (*one.get("classes", ()), *one.get("properties", ()))}
        # A class that only stands above others, and a property that nothing has, are in no profile.
        wanted = {iri for iri in wanted if iri in schema.properties or schema.classes.get(iri, None)}
        needed += len(wanted)
        there += sum(
            iri in found.classes or iri in found.properties or f":{iri[len(space) :]}" in found.text for iri in wanted
        )
    assert there / needed >= 0.98


@given(st.text(max_size=100), st.integers(30, 3_000))
def test_a_slice_never_passes_its_budget(schema: Schema, question: str, budget: int) -> None:
    found = slice_of(schema, question, budget=budget)
    assert found.tokens <= budget
    assert found == slice_of(schema, question, budget=budget)


def test_without_leave_no_value_is_shown(schema: Schema) -> None:
    question = "Which suppliers are in France, and in which currency are prices?"
    assert '"EUR"' in slice_of(schema, question).text
    assert '"EUR"' not in slice_of(schema, question, values=False).text
