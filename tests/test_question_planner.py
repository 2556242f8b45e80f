"""A question is read with the graph's own words, or declined with the word that the graph does not have."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Store

from graphtide.engine import Engine
from sparql.question.answer import (
    NO_LINK,
    NOT_A_QUESTION,
    NOT_ALLOWED,
    UNKNOWN_ENTITY,
    UNKNOWN_TERM,
    Declined,
    Unclear,
)
from sparql.question.graph import StoreGraph
from sparql.question.planner.plan import Plan, Planner
from sparql.question.planner.words import MOST_CHARACTERS, read
from sparql.syntax import parse, services, walk
from sparql.syntax.tree import Iri, Query
from tests import profiled

SHOP = Path(__file__).parents[1] / "examples" / "webshop"
BASE = "https://webshop.example/"
TODAY = date(2026, 12, 1)
SECONDS = 10  # it ends; what it takes is measured in bench/
W3C = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#type", "http://www.w3.org/2000/01/rdf-schema#subClassOf")


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreGraph]:
    folder = tmp_path_factory.mktemp("shop") / "webshop"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns(".graphtide"))
    with Engine(folder) as engine:
        engine.sync()
        held = Store()
        held.extend(engine.store.match())
        yield StoreGraph(held)


@pytest.fixture(scope="module")
def planner(graph: StoreGraph) -> Planner:
    return profiled.planner(graph)


def rows(graph: StoreGraph, made: Plan) -> set[str]:
    found = graph.query(made.sparql)
    return {
        " ".join("" if term is None else str(getattr(term, "value", term)).removeprefix(BASE) for term in row)
        for row in found.rows
    }


S, P, T, N, D = "service/", "person/", "team/", "incident/INC-", "deployment/d-"


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Which services does the Checkout team own?", {S + "payments", S + "cart", S + "checkout"}),
        ("Who leads the Web team?", {P + "ada"}),
        ("Who is the lead of the Catalogue team?", {P + "dan"}),
        ("Who is in the Orders team?", {P + "jon", P + "ivy"}),
        ("How many services are there?", {"14"}),
        ("Which team owns the most services?", {T + "Checkout"}),
        ("Which services are written in Go?", {S + "cart", S + "checkout", S + "identity"}),
        ("What language is the shopping cart written in?", {"Go"}),
        ("Which services depend on redis-main?", {S + "cart", S + "identity", S + "catalog"}),
        ("What does the cart depend on?", {S + "redis-main", S + "catalog"}),
        ("What is the monthly cost of the storefront?", {"1240.5"}),
        ("Which service is the most expensive?", {S + "storefront"}),
        ("What are the three cheapest services?", {S + "newsletter", S + "reports", S + "shipping"}),
        ("Which services were launched before 2020?", {S + "identity"}),
        ("What is the newest service?", {S + "recommendations"}),
        ("Which incidents are critical?", {N + "102", N + "105"}),
        ("Which incidents are not closed?", {N + "107", N + "108"}),
        ("Which incidents are still open?", {N + "107", N + "108"}),
        ("Which incidents affected the cart?", {N + "102"}),
        ("Which people joined after 2022?", {P + "noa", P + "cleo", P + "pia"}),
        ("Which services have no owner?", {S + "newsletter"}),
        ("Which services do not depend on anything?", {S + "media"}),
        ("Is the cart owned by Checkout?", {"true"}),
        ("Does the cart depend on search?", {"false"}),
        ("How big is postgres-main?", {"820"}),
        ("What is the largest database?", {S + "warehouse"}),
        ("What was deployed by ada?", {D + "2001"}),
        ("Who deployed version 8.4.0?", {P + "ada"}),
        ("How many deployments were there in November 2026?", {"12"}),
        ("What is the e-mail address of Bo Sample?", {"bo@webshop.example"}),
        ("Which tier 1 services are written in Java?", {S + "orders", S + "catalog"}),
        ("Which team has more than two services?", {T + "Checkout"}),
        ("Which Go services are owned by the Checkout team?", {S + "cart", S + "checkout"}),
        ("Who leads the team that owns payments?", {P + "finn"}),
        ("What is the email of the lead of the Web team?", {"ada@webshop.example"}),
        ("When did Ada Example join?", {"2019-02-01"}),
        ("Who joined first?", {P + "ada"}),
        ("Which services depend on both redis-main and postgres-main?", {S + "identity", S + "catalog"}),
        ("What is the severity of INC-103?", {"medium"}),
        ("How many databases are there per region?", {"eu-central 1", "eu-west 1"}),
        ("What is the total monthly cost of the services owned by the Checkout team?", {"2110.95"}),
        ("What is the average monthly cost per team?", {
            T + "Data 505", T + "Finance 310", T + "Platform 475", T + "Web 752.8", T + "Checkout 703.65",
            T + "Catalogue 695", T + "Orders 422.7"}),
    ],
)  # fmt: skip
def test_a_question_is_answered_as_a_person_would_from_the_files(planner, graph, question, answer):
    made = planner.plan(question, today=TODAY)
    assert isinstance(made, Plan), made
    assert rows(graph, made) == answer, made.sparql


@pytest.mark.parametrize(
    ("question", "reason", "names"),
    [
        ("Which services have a mascot?", UNKNOWN_TERM, "mascot"),
        ("What is the stock price of the storefront?", UNKNOWN_TERM, "stock"),
        ("Which services depend on mongodb-main?", UNKNOWN_ENTITY, "mongodb-main"),
        ("Is there a service written in Haskell?", UNKNOWN_ENTITY, "Haskell"),
        ("How tall is Ada Example?", NO_LINK, "measured"),
        ("Delete all services.", NOT_ALLOWED, "only read"),
        ("???", NOT_A_QUESTION, ""),
        ("what is the", NOT_A_QUESTION, ""),
    ],
)
def test_what_the_graph_does_not_hold_is_declined_with_the_word_it_lacks(planner, question, reason, names):
    found = planner.plan(question, today=TODAY)
    assert isinstance(found, Declined), found
    assert found.reason == reason
    assert names in found.message


def test_a_name_that_two_things_have_is_asked_back():
    graph = StoreGraph(Store())
    graph.store.update(
        "PREFIX : <http://a/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> INSERT DATA {"
        " :p1 a :Person ; rdfs:label 'Karen Brant' ; :desk :d1 . :p2 a :Person ; rdfs:label 'Otto Brant' ; :desk :d2 ."
        " :d1 a :Desk ; rdfs:label 'one' . :d2 a :Desk ; rdfs:label 'two' }"
    )
    found = profiled.planner(graph).plan("Which desk has Brant?", today=TODAY)
    assert isinstance(found, Unclear), found
    assert {"http://a/p1" in one.sparql for one in found.readings} == {True, False}


def test_names_and_values_of_any_letters_stay_terms():
    graph = StoreGraph(Store())
    graph.store.update(
        "PREFIX : <http://a/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> INSERT DATA {"
        ' :x a :Thing ; rdfs:label "} ; DROP ALL #\\" \\u005C" ; :state "a\\"b\\\\c > <http://x>" .'
        ' :y a :Thing ; :state "n" }'
    )
    planner = profiled.planner(graph)
    for question in ('Which thing has the state "a"b\\c > <http://x>"?', 'What is the state of "} ; DROP ALL #" \\"?'):
        made = planner.plan(question, today=TODAY)
        assert isinstance(made, (Plan, Declined, Unclear))
        if isinstance(made, Plan):
            assert isinstance(parse(made.sparql, base=BASE, only="query"), Query)


ASKING = [
    "which", "how many", "who", "not", "or", "most", "cheapest", "more than 3", "in 2021", "per", "cart", "Checkout",
    "Go", "Ada Example", "between 3 and 7", "?", ",", "is", "without", "the", "of", "directly or not", "high", "top 3",
    "0", '"redis-main"', "last", "by", "and", "average", "total", "how big", "open", "first", "with",
]  # fmt: skip


def words_of(planner: Planner) -> list[str]:
    labels = [one.name.label for one in planner.schema.classes.values()]
    return [*labels, *(one.name.label for one in planner.schema.properties.values()), *ASKING]


def check(planner: Planner, question: str) -> None:
    began = time.monotonic()
    made = planner.plan(question, today=TODAY)
    assert time.monotonic() - began < SECONDS
    if isinstance(made, Plan):
        tree = parse(made.sparql, base=BASE, only="query")
        assert isinstance(tree, Query)
        assert not services(tree)
        known = {*planner.schema.classes, *planner.schema.properties, *W3C}
        for node in walk(tree):
            if isinstance(node, Iri) and not node.value.startswith("http://www.w3.org/2001/XMLSchema#"):
                assert node.value in known or planner.lookup.knows(node.value), node.value  # type: ignore[attr-defined]


@pytest.mark.parametrize("many", [300, pytest.param(5_000, marks=pytest.mark.soak)])
def test_any_row_of_words_ends_in_a_query_over_known_terms_or_a_reason(planner: Planner, graph: StoreGraph, many: int):
    chance = random.Random(many)
    vocabulary = words_of(planner)
    for _ in range(many):
        question = " ".join(chance.choice(vocabulary) for _ in range(chance.randrange(1, 12)))
        check(planner, question)


@settings(max_examples=150)
@given(st.text(max_size=200))
def test_any_text_ends_in_a_query_or_a_reason(planner: Planner, text: str):
    check(planner, text)


def test_a_long_question_is_read_to_its_limit_and_ends(planner: Planner):
    check(planner, "which services " * 2_000)
    check(planner, '"' * 5_000)
    check(planner, "a" * 100_000)
    assert max(word.end for word in read("word " * 1_000)) <= MOST_CHARACTERS


def test_the_same_question_has_the_same_query(planner: Planner):
    question = "Which critical incidents affected services of the Checkout team?"
    assert planner.plan(question, today=TODAY) == planner.plan(question, today=TODAY)
