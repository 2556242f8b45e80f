"""An example is shown only where it says something: it parses, the graph has what it reads, it is like the question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Store

from sparql.question.examples import MADE, PACKAGED, closest, made_up, read, usable
from sparql.question.generating import Example
from sparql.question.schema import Class, Named, Property, Range, Schema, Use
from sparql.syntax import parse

E = "http://a/"
ONE = '"1"^^<http://www.w3.org/2001/XMLSchema#integer>'
XSD = "http://www.w3.org/2001/XMLSchema#"
SCHEMA = Schema(
    1,
    {E + "Service": Class(Named(E + "Service", "service"), 3), E + "Team": Class(Named(E + "Team", "team"), 1)},
    {
        E + "tier": Property(Named(E + "tier", "tier"), 3),
        E + "name": Property(Named(E + "name", 'na"me'), 3),
        E + "owns": Property(Named(E + "owns", "owned service"), 3),
    },
    (
        Use(E + "Service", E + "tier", 3, 3, 2, 1, (Range(XSD + "integer", True, 3),), top=((ONE, 2),)),
        Use(E + "Service", E + "name", 3, 3, 3, 1, (Range(XSD + "string", True, 3),), top=(('"a\\"b } #"', 1),)),
        Use(E + "Team", E + "owns", 3, 1, 3, 3, (Range(E + "Service", False, 3),)),
    ),
)  # fmt: skip
ASKED = [
    Example("Which services have no owner?", "SELECT ?s { ?s <http://a/tier> 1 }"),
    Example("How many teams are there?", "SELECT ?s { ?s a <http://a/Team> }"),
    Example("Which team owns the most services?", "SELECT ?s { ?s <http://a/owns> ?x }"),
    Example("Qui est-ce?", "SELECT ?s { ?s <http://b/other> ?x }"),
]


def test_the_closest_question_comes_first_and_a_stranger_not_at_all():
    found = closest(ASKED, "Which of the teams owns most of our services", 3)
    assert found[0] is ASKED[2]
    assert ASKED[3] not in found
    assert closest(ASKED, "zebra", 3) == []


@given(st.text(max_size=80), st.integers(0, 5))
def test_any_question_is_compared(question, most):
    assert len(closest(ASKED, question, most)) <= most


def test_an_example_of_another_vocabulary_is_no_example():
    broken = Example("Broken?", "SELECT nothing")
    assert usable([*ASKED, broken], SCHEMA, "http://a/") == ASKED[:3]


def test_what_is_made_up_runs_and_has_an_answer():
    store = Store()
    store.update(
        "PREFIX : <http://a/> INSERT DATA { :s1 a :Service ; :tier 1 ; :name 'a\"b } #' . :t a :Team ; :owns :s1 }"
    )
    found = made_up(SCHEMA)
    assert [one.question for one in found] == [
        "How many service are there?", "Which service have the tier 1?", "Which service have the na\"me a\\\"b } #?",
        "How many team are there?", "Which team has the most owned service?",
    ]  # fmt: skip
    for one in found:
        parse(one.sparql, base=E, only="query")
        assert len(list(store.query(one.sparql))) == 1, one.question
    assert len(found) <= MADE
    assert made_up(SCHEMA) == found


def test_every_example_that_comes_with_us_asks_a_question_and_parses():
    found = read(PACKAGED)
    assert len(found) >= 9
    for one in found:
        assert one.question.endswith("?")
        parse(one.sparql, base=E, only="query")
    assert len({one.question for one in found}) == len(found)


def test_files_that_are_no_examples_are_passed_over(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "one.rq").write_text("# Who?\nSELECT * {}")
    (tmp_path / "two.rq").write_text("SELECT * {}")
    (tmp_path / "three.rq").write_bytes(b"# \xff?\nSELECT * {}")
    assert [one.question for one in read(tmp_path)] == ["Who?"]
    assert read(tmp_path / "none") == []
