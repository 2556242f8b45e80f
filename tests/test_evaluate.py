"""A score can be trusted when it is the published one, and when the same run scored twice is the same document."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Store

from graphtide.evaluate import changes, evaluate, failing, load_run
from graphtide.question_set import EvaluationError, Question, load_set
from sparql.question.answer import Answer, Declined, Reading, Result, Spent, Unclear
from sparql.question.scoring import score


def rows(*found, columns=None):
    wide = max((len(row) for row in found), default=1)
    terms = tuple(tuple(Literal(one) if isinstance(one, (str, int, float)) else one for one in row) for row in found)
    return Result("rows", columns or tuple(f"v{at}" for at in range(wide)), terms, False, 1, 0.0)


NONE = Spent()


def answer(result, spent=NONE):
    return Answer("?", "SELECT * {}", result, (), 1.0, "planner", 1, spent=spent)


GOLD = rows(("cart", 1), ("search", 2))


@pytest.mark.parametrize(
    ("found", "f1", "exact", "same"),
    [
        (GOLD, 1.0, True, True),
        (rows((1, "cart"), (2, "search")), 1.0, True, True),  # the order of columns is nobody's question
        (rows(("search", 2), ("cart", 1)), 1.0, True, True),
        (rows(("cart", 2), ("search", 1)), 1.0, True, False),  # the same values, said of the wrong things
        (rows(("cart", 1, "x"), ("search", 2, "x")), 8 / 9, False, True),
        (rows(("cart",), ("search",)), 2 / 3, False, False),
        (rows(("other", 9)), 0.0, False, False),
        (rows(), 0.0, False, False),
        (None, 0.0, False, False),
        (rows(("cart", 1.0), ("search", 2.0000000001)), 1.0, True, True),
    ],
)
def test_f1_is_over_values_and_rows_are_the_same_under_some_naming(found, f1, exact, same):
    points = score(GOLD, found)
    assert (points.f1, points.exact, points.rows) == (pytest.approx(f1), exact, same)


def test_order_counts_where_it_is_asked_for():
    other = rows(("search", 2), ("cart", 1))
    assert score(GOLD, other, ordered=True).rows is False
    assert score(GOLD, GOLD, ordered=True).rows is True


def test_an_iri_is_not_the_text_of_it():
    assert score(rows((NamedNode("http://a/b"),)), rows(("http://a/b",))).f1 == 0.0


def test_two_columns_of_the_same_values_find_each_other():
    gold = rows(("a", "b"), ("b", "a"), ("a", "a"))
    found = rows(("b", "a"), ("a", "b"), ("a", "a"))
    assert score(gold, found).rows
    assert not score(gold, rows(("a", "b"), ("b", "b"), ("a", "a"))).rows


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=8), st.randoms())
def test_a_result_in_another_order_is_the_same_result(found, chance):
    mixed = list(found)
    chance.shuffle(mixed)
    points = score(rows(*found), rows(*[(b, a) for a, b in mixed]))
    assert (points.f1, points.exact, points.rows) == (1.0, True, True)


def test_the_published_formats_are_read(tmp_path):
    text2sparql = tmp_path / "a.yml"
    text2sparql.write_text(
        "dataset: {id: 'https://example.org/set', prefix: x}\n"
        "questions:\n- {id: 1, question: {en: 'Who?', de: 'Wer?'}, features: [RESULT_ORDER_MATTERS],"
        " query: {sparql: 'SELECT ?x {}'}}\n"
    )
    qald = tmp_path / "b.json"
    bindings = {"head": {"vars": ["x"]}, "results": {"bindings": [{"x": {"type": "uri", "value": "http://a/b"}}]}}
    asked = [{"language": "de", "string": "Wer?"}, {"language": "en", "string": "Who?"}]
    qald.write_text(json.dumps({"questions": [{"id": "7", "question": asked, "query": {}, "answers": [bindings]}]}))
    ours = tmp_path / "c.jsonl"
    ours.write_text(
        '{"id": "a", "question": "Price?", "unanswerable": "unknown-term"}\n{"question": "N?", "rows": [3]}\n'
    )
    name, first = load_set(text2sparql)
    assert name == "https://example.org/set"
    assert first == [Question("1", "Who?", "SELECT ?x {}", ordered=True, tags=("RESULT_ORDER_MATTERS",))]
    assert load_set(text2sparql, "de")[1][0].text == "Wer?"
    assert load_set(qald)[1][0].result.rows == ((NamedNode("http://a/b"),),)
    assert [one.declined for one in load_set(ours)[1]] == ["unknown-term", None]
    assert load_set(ours)[1][1].result.rows == ((Literal(3),),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("questions: []", "no list of questions"),
        ("questions: [{id: 1, sparql: x}]", "question 1 has no text in 'en'"),
        ("questions: [{id: 1, question: Who}]", "question 1 has no right answer"),
        ("questions: [{id: 1, question: A, rows: []}, {id: 1, question: B, rows: []}]", "two questions have the id"),
        ("questions: [7]", "question 1 is 7"),
        ("{", "cannot be read"),
        ("dataset: 3\nquestions: [{question: A, answers: [{}]}]", "its answers are no SPARQL results"),
    ],
)
def test_a_set_that_cannot_be_used_names_the_question(tmp_path, text, says):
    path = tmp_path / "set.yaml"
    path.write_text(text)
    with pytest.raises(EvaluationError, match=says):
        load_set(path)


SET = [
    Question("1", "How many?", "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"),
    Question("2", "Which?", "SELECT ?s { ?s ?p ?o }"),
    Question("3", "Price?", declined="unknown-term"),
    Question("4", "Colour?", declined="unknown-term"),
    Question("5", "Either?", "SELECT ?s { ?s ?p ?o }"),
]


def run(text):
    store = Store()
    store.update("INSERT DATA { <http://a/s> <http://a/p> <http://a/o> }")
    found = store.query(text)
    return Result(
        "rows", tuple(one.value for one in found.variables), tuple(tuple(row) for row in found), False, 1, 0.0
    )


def ask(text):
    if text == "How many?":
        return answer(rows((1,)), Spent(1, 100, 20, 0.5))
    if text == "Which?":
        raise RuntimeError("down")
    if text == "Either?":
        return Unclear(text, (Reading("this", "a", 1), Reading("that", "b", 1)))
    return Declined(text, "unknown-term" if text == "Price?" else "not-connected", "no")


def test_a_run_sums_up_what_was_answered_and_what_was_rightly_refused(tmp_path):
    found = evaluate("set", SET, ask, run)
    summary = found.summary()
    assert [one.outcome for one in found.questions] == ["answered", "failed", "declined", "declined", "unclear"]
    assert (summary["f1"], summary["answered"], summary["declined_falsely"]) == (pytest.approx(1 / 3), 1 / 3, 0.0)
    assert (summary["abstained"], summary["right_reason"], summary["tokens"], summary["cost"]) == (1.0, 0.5, 120, 0.5)
    path = tmp_path / "run.json"
    path.write_text(json.dumps(found.document()))
    assert load_run(path) == found


def test_a_gate_fails_on_a_figure_and_on_a_question_that_was_right():
    before = evaluate("set", SET, ask, run)
    now = evaluate("set", SET, lambda text: Declined(text, "unknown-term", "no"), run)
    assert [one.id for one in changes(before, now)][0] == "1"
    assert failing(before, {"f1": 0.3}) == []
    assert failing(before, {"f1": 0.5}) == ["f1 is 0.333, less than 0.5."]
    assert failing(now, {"abstained": 0.9}, before) == ["Question 1 was right and is not: How many?"]


def test_a_right_query_that_does_not_run_is_no_score_of_nought():
    with pytest.raises(EvaluationError, match="the query of question 1 does not run"):
        evaluate("set", [Question("1", "Who?", "SELECT nonsense")], ask, run)


def test_the_company_questions_are_read_as_published(shared):
    name, found = load_set(Path(shared) / "ck25" / "questions-odd.yml")
    assert name == "https://text2sparql.aksw.org/2025/corporate/"
    assert len(found) == 25
    assert all(one.sparql for one in found)
