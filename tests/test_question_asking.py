"""A question ends in an answer with its proof, a choice, or an honest no: with a model, without, and with a bad one."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from pyoxigraph import Store

from graphtide.engine import Engine
from sparql.names import Names
from sparql.question.answer import (
    NO_MODEL,
    NOT_ALLOWED,
    UNKNOWN_ENTITY,
    UNKNOWN_TERM,
    Answer,
    Declined,
)
from sparql.question.asking import Asker, Step, Worlds, document
from sparql.question.examples import PACKAGED, read
from sparql.question.graph import StoreGraph
from sparql.question.model import Model
from sparql.question.modelling import ModelSettings
from tests.fake_openai import Reply, serving
from tests.profiled import Profiled

SHOP = Path(__file__).parents[1] / "examples" / "webshop"
BASE = "https://webshop.example/"
PREFIXES = {"shop": f"{BASE}ns#", "gt": "https://w3id.org/graphtide/ns#"}
TODAY = date(2026, 12, 1)
EXAMPLES = read(PACKAGED)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreGraph]:
    folder = tmp_path_factory.mktemp("asking") / "webshop"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns(".graphtide"))
    with Engine(folder) as engine:
        engine.sync()
        held = Store()
        held.extend(engine.store.match())
    yield StoreGraph(held, epoch=1, prefixes=PREFIXES)


def asker(graph: StoreGraph, **more) -> Asker:
    return Asker(graph, Worlds(Names(BASE), PREFIXES, Profiled(graph), lambda: EXAMPLES), **more)


def test_an_answer_has_its_query_its_rows_and_the_lines_that_say_so(graph):
    found = asker(graph).ask("Who leads the Web team?", today=TODAY)
    assert isinstance(found, Answer)
    assert found.sentence == "Ada Example."
    assert found.how == "planner"
    [citation] = found.citations
    assert citation.complete
    places = {source.locator for one in citation.statements for source in one.sources}
    assert any(one.startswith("teams.yaml") for one in places), places
    assert json.loads(json.dumps(document(found)))["labels"] == {f"{BASE}person/ada": "Ada Example"}


def test_an_example_that_asks_the_same_is_run_as_it_is(graph):
    found = asker(graph).ask("how many services does each team own", today=TODAY)
    assert isinstance(found, Answer)
    assert (found.how, found.confidence, len(found.result.rows)) == ("example", 1.0, 7)


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("Which services have a mascot?", UNKNOWN_TERM),
        ("Which services depend on mongodb-main?", UNKNOWN_ENTITY),
        ("Drop all services", NOT_ALLOWED),
    ],
)
def test_what_the_graph_does_not_hold_is_an_honest_no(graph, question, reason):
    found = asker(graph).ask(question, today=TODAY)
    assert isinstance(found, Declined)
    assert found.reason == reason
    assert document(found)["type"] == "declined"


def test_the_steps_come_in_order_and_the_last_is_the_answer(graph):
    steps = list(asker(graph).steps("Who leads the Web team?", today=TODAY))
    assert [one.name for one in steps[:-1] if isinstance(one, Step)] == ["linking", "plan", "query", "rows"]
    assert isinstance(steps[-1], Answer)


UNSURE = "Which employees babysit a rota?"
GOOD = f"SELECT DISTINCT ?p {{ ?s a <{BASE}ns#Shift> ; <{BASE}ns#onCall> ?p }}"


def with_model(graph, said, question=UNSURE, **settings):
    with serving(said) as fake:
        model = Model(ModelSettings("small", fake.url, mode="text", seconds=2.0, **settings))
        try:
            return asker(graph, model=model, seconds=4.0).ask(question, today=TODAY), fake
        finally:
            model.close()


def test_a_model_answers_what_the_planner_cannot_and_its_query_is_proved(graph):
    found, fake = with_model(graph, f"Sure!\n```sparql\n{GOOD}\n```")
    assert isinstance(found, Answer)
    assert found.how == "model"
    assert found.result.rows
    assert found.citations[0].complete
    assert found.spent.calls == 1
    sent = fake.asked[0]["messages"][1]["content"]
    assert "shop:onCall" in sent


def test_a_sure_reading_asks_no_model(graph):
    found, fake = with_model(graph, GOOD, "How many services are there?")
    assert isinstance(found, Answer)
    assert found.how == "planner"
    assert fake.asked == []


@pytest.mark.parametrize(
    "said",
    [
        "DELETE WHERE { ?s ?p ?o }",
        "# SELECT\nDROP ALL",
        "SELECT ?s { SERVICE <http://192.0.2.1/> { ?s ?p ?o } }",
        "SELECT ?s { ?s <http://other/p> ?o }",
        "SELECT ?s FROM <http://a/> { ?s ?p ?o }",
        "I cannot answer that.",
        "<html>",
        "",
        "SELECT ?s {" * 500,
    ],
)
def test_what_a_model_may_not_write_is_never_run(graph, said):
    before = len(graph.store)
    found, fake = with_model(graph, said)
    assert isinstance(found, Declined)
    assert len(fake.asked) <= 3
    assert len(graph.store) == before


@pytest.mark.parametrize("reply", [
    Reply(status=500, body=b"oops"), Reply(status=429, body=b"{}", headers={"Retry-After": "100"}),
    Reply(body=b"<html>sign in</html>"), Reply(GOOD, delay=9.0),
])  # fmt: skip
def test_a_model_that_fails_leaves_the_planners_answer_or_a_clear_no_in_time(graph, reply):
    began = time.monotonic()
    found, _ = with_model(graph, [reply])
    assert isinstance(found, Declined)
    assert found.reason == NO_MODEL
    assert time.monotonic() - began < 30
    again, _ = with_model(graph, [reply], "Which Go services babysit the Checkout team?")
    assert isinstance(again, (Answer, Declined))


def test_nothing_is_sent_that_the_settings_do_not_allow(graph):
    _, fake = with_model(graph, GOOD, send=frozenset())
    assert fake.asked[0]["messages"][1]["content"].startswith("The question:")
    _, fake = with_model(graph, GOOD, send=frozenset({"schema"}))
    sent = fake.asked[0]["messages"][1]["content"]
    assert "e.g." not in sent
    assert "Ada" not in sent


def test_the_same_question_model_and_data_give_the_same_bytes(graph):
    def bytes_of() -> str:
        found, _ = with_model(graph, GOOD)
        told = document(found)
        del told["ms"]
        return json.dumps(told)

    assert bytes_of() == bytes_of()


def test_what_has_just_come_is_known_the_next_time_it_is_asked(graph):
    store = Store()
    store.extend(iter(graph.store))
    mine = StoreGraph(store, epoch=1, prefixes=PREFIXES)
    one = asker(mine)
    question = "Which services are owned by the Night Owls team?"
    assert isinstance(one.ask(question, today=TODAY), Declined)
    store.update(
        f"PREFIX gt: <{PREFIXES['gt']}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> INSERT DATA {{"
        f" <{BASE}team/owls> a gt:Team ; rdfs:label 'Night Owls' ; gt:owns <{BASE}service/cart> }}"
    )
    mine.epoch = 2
    found = one.ask(question, today=TODAY)
    assert isinstance(found, Answer)
    assert found.sentence == "Shopping cart."
