"""A model's text becomes a query by rules alone, and everything it asked is still asked."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Store

from sparql.question.repair import Hopeless, Refusal, Repaired, is_update, repair
from sparql.syntax import SyntaxProblem, parse

OWN = {"shop": "https://webshop.example/ns#"}
BASE = "http://localhost/"
SECONDS = 20  # it ends: on an idle machine within one


def parses(text: str) -> bool:
    try:
        parse(text, prefixes={}, base=BASE, only="query")
    except SyntaxProblem:
        return False
    return True


# --- what a text asks, read off its letters and not by our parser

_STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'(?=[\s,;.)@^}]|\Z)")
_IRI = re.compile(r"<([^<>\s]*)>")
_VARIABLE = re.compile(r"[?$](\w+)")
_NAME = re.compile(r"(?<![\w<])[A-Za-z_][\w.-]*:([^\s<>{}\"|^`\\;]+)|(?<![\w<:/]):([^\s<>{}\"|^`\\;,)(]+)")


def asked(text: str) -> Counter[str]:
    """Every variable, name, IRI and string of a query, as often as it is there; a name counts by its last part."""
    body = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    body = re.sub(r"(?i)(?:PREFIX\s+[\w.-]*:\s*<[^>]*>|BASE\s*<[^>]*>)", " ", body)
    found: Counter[str] = Counter()
    for one in _STRING.finditer(body):
        found[f"'{one.group(1) or one.group(2) or ''}"] += 1
    body = _STRING.sub(" ", body)
    for one in _IRI.finditer(body):
        found[part(one.group(1))] += 1
    body = _IRI.sub(" ", body)
    for one in _NAME.finditer(body):
        found[part(one.group(1) or one.group(2))] += 1
    body = _NAME.sub(" ", body)
    found.update(f"?{one.group(1)}" for one in _VARIABLE.finditer(body))
    for word in ("FILTER", "OPTIONAL", "UNION", "MINUS", "EXISTS", "ORDER", "LIMIT", "HAVING", "VALUES", "BIND"):
        found[word] += len(re.findall(rf"\b{word}\b", body, re.IGNORECASE))
    return +found


def part(name: str) -> str:
    """The last part of a name or an IRI, without what is escaped and without signs that may end a triple."""
    return re.sub(r"\W+", "", unquote(re.split(r"[/#:]", name.rstrip(".,;)/"))[-1]))


def body_of(text: str) -> str:
    """What of a text is the query, by eye: from the first form that a brace follows."""
    text = re.sub(r"(?s)<think>.*?</think>", " ", text)
    start = re.search(
        r"(?i)\bPREFIX\s+[\w.-]*:\s*<|\b(?:select\s+(?:distinct\s+)?(?=[?$*(]|count\b)"
        r"|ask\s+(?:where)?\s*\{|ask\s*\{|describe\s+<)",
        text,
    )
    return text[start.start() :] if start else ""


@pytest.fixture(scope="module")
def recorded(shared: Path) -> list[dict[str, str]]:
    path = shared / "recorded-llm-sparql" / "queries.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_of_what_models_wrote_and_does_not_parse_nine_in_ten_become_queries_that_ask_the_same(recorded):
    broken = [one["query"] for one in recorded if not parses(one["query"])]
    refused, whole, lost = [], 0, []
    for text in broken:
        found = repair(text, {"pv": "http://ld.company.org/prod-vocab/"}, BASE)
        if isinstance(found, Refusal):
            refused.append(text)
        elif isinstance(found, Repaired):
            assert parses(found.sparql)
            assert found.done
            missing = asked(body_of(text)) - asked(found.sparql)
            if missing:
                lost.append((text, found.sparql, missing))
            else:
                whole += 1
    assert len(broken) > 500
    assert all("{" not in text for text in refused)
    assert whole / (len(broken) - len(refused)) >= 0.9, lost[:5]


def test_what_parses_stays_as_it_is(recorded):
    for one in recorded:
        if parses(one["query"]):
            assert repair(one["query"], OWN, BASE) == Repaired(one["query"], ())


def test_the_checker_sees_what_is_taken_away():
    query = "SELECT ?a ?b { ?a <http://x/p> 'v' . ?a x:q ?b FILTER(?b > 3) }"
    for less in ("?b ", "'v'", "<http://x/p>", "FILTER", "x:q"):
        assert asked(query) - asked(query.replace(less, "", 1)), less


GOOD = "SELECT ?s WHERE { ?s a shop:Incident }"


@pytest.mark.parametrize(
    ("text", "sparql"),
    [
        (f"```sparql\n{GOOD}\n```", GOOD),
        (f"Here is the query:\n```\n{GOOD}\n```\nIt selects all.", GOOD),
        (f"<think>SELECT ?x {{ hm }}</think>{GOOD}", GOOD),
        (f"<think>never ends {GOOD}", None),
        (f"First:\n```sparql\nSELECT ?old {{ ?old a shop:Old }}\n```\nbetter:\n```sparql\n{GOOD}\n```", GOOD),
        ("SELECT COUNT(*) WHERE { ?s a shop:Incident }", "SELECT (COUNT(*) AS ?count) WHERE { ?s a shop:Incident }"),
        ("SELECT COUNT(?s) AS ?n WHERE { ?s a shop:A }", "SELECT (COUNT(?s) AS ?n) WHERE { ?s a shop:A }"),
        ("SELECT ?s, ?t WHERE { ?s a ?t }", "SELECT ?s  ?t WHERE { ?s a ?t }"),
        ("SELECT ?s WHERE { ?s a shop:Incident", "SELECT ?s WHERE { ?s a shop:Incident }"),
        ("SELECT ?s WHERE { ?s shop:tier ?t FILTER(?t > 1 AND ?t < 3) }", None),
        ("SELECT ?s WHERE { ?s shop:tier ?t FILTER(?t == 1) }", None),
        ("SELECT ?s WHERE { ?s shop:name “cart” }", 'SELECT ?s WHERE { ?s shop:name "cart" }'),
        ("SELECT ?s WHERE { ?s shop:tier ?t . FILTER ?t > 1 }", None),
        ("SELECT ?s WHERE { ?s &lt;http://a/p&gt; ?o }", "SELECT ?s WHERE { ?s <http://a/p> ?o }"),
        ("SELECT ?s WHERE { ?s a http://a/C . }", "SELECT ?s WHERE { ?s a <http://a/C> . }"),
        ("SELECT ?t (COUNT(?s) AS ?n) { ?s a ?t }", "SELECT ?t (COUNT(?s) AS ?n) { ?s a ?t } GROUP BY ?t"),
        ("SELECT ?s { ?s a shop:A } UNION { ?s a shop:B }", None),
        ("SELECT ?s { ?s shop:p shop:The_Cart_(service) }", None),
        ("SELECT ?s WHERE { ?s a ?t } LIMIT 5 Hope this helps!", "SELECT ?s WHERE { ?s a ?t } LIMIT 5"),
    ],
)  # fmt: skip
def test_each_way_of_going_wrong_is_mended(text, sparql):
    found = repair(text, OWN, BASE)
    if sparql is None and "never ends" in text:
        assert isinstance(found, Refusal)
        return
    assert isinstance(found, Repaired), found
    assert parses(found.sparql)
    if sparql is not None:
        mended = re.sub(r"PREFIX \w+: <[^>]*>\n", "", found.sparql)
        assert " ".join(mended.split()) == " ".join(sparql.split())


def test_a_name_that_is_no_name_stands_for_its_iri():
    found = repair("SELECT ?s { ?s shop:p shop:The_Cart_(big,_red) . ?s shop:q shop:Inc. }", OWN, BASE)
    assert isinstance(found, Repaired)
    assert "<https://webshop.example/ns#The_Cart_(big,_red)>" in found.sparql


@pytest.mark.parametrize("text", ["", "   ", "I cannot answer that.", "Unfortunately the graph has no prices. Sorry!",
                                  "No hay datos.", "<think>select ?x { }</think> I do not know."])  # fmt: skip
def test_a_refusal_is_known_as_one(text):
    assert isinstance(repair(text, OWN, BASE), Refusal)


@pytest.mark.parametrize(
    "text", ["dbo:a dbr:b }", "{ ?s ?p ?o }", "# SELECT ?s { ?s ?p ?o }", "ASK { <B> dbo:eiffel Tower dbr:P }"]
)
def test_a_fragment_is_hopeless_and_says_why(text):
    found = repair(text, OWN, BASE)
    assert isinstance(found, Hopeless)
    assert found.message


@pytest.mark.parametrize("text", [
    "DELETE WHERE { ?s ?p ?o }", "# SELECT ?s {\nDROP ALL", "PREFIX a: <http://a/> INSERT DATA { a:x a:y a:z }",
    "LOAD <http://a/>", "SELECT ?s { ?s ?p ?o } ; DROP ALL", "\\u0044ROP ALL", "CLEAR ALL # {SELECT ?s {?s ?p ?o}}",
])  # fmt: skip
def test_what_would_write_never_comes_back_as_anything_but_a_query(text):
    found = repair(text, OWN, BASE)
    if isinstance(found, Repaired):
        Store().query(found.sparql)  # the engine's own word that it is a query
        assert not is_update(found.sparql)


def test_an_update_is_known_for_one():
    assert is_update("# select\nPREFIX a: <http://a/> DELETE DATA { a:x a:y a:z }")
    assert is_update("drop all")
    assert not is_update(GOOD)


PIECES = st.sampled_from(
    ["SELECT ", "?s ", "?x ", "WHERE ", "{ ", "} ", "( ", ") ", "FILTER ", "COUNT(*) ", "AS ", "a:b_(c) ",
     "<http://a b> ", "'it", '"s ', ". ", "; ", ", ", "UNION ", "```\n", "<think>", "PREFIX a: <http://a/> ",
     "GROUP BY ", "ORDER BY ", "# ", "ASK ", "\n", "= ", "…", "SERVICE <http://a/> ", "DELETE ", "\\", "\x00",
     "LIMIT 5 "]
)  # fmt: skip


@settings(max_examples=250)
@given(st.lists(PIECES, max_size=40).map("".join))
def test_any_text_ends_in_time_in_a_query_that_parses_or_in_words(text):
    began = time.monotonic()
    found = repair(text, OWN, BASE)
    assert time.monotonic() - began < SECONDS
    if isinstance(found, Repaired):
        assert parses(found.sparql)


@pytest.mark.parametrize("text", [
    "SELECT ?x { " + "( " * 5000, "SELECT ?x { " + "?a ?b ?c . " * 5000 + "@", "SELECT " + "COUNT(" * 3000 + " { }",
    "```" * 5000 + "SELECT ?x { a", "a:b_(" * 4000 + "SELECT ?x {", "SELECT ?x WHERE { ?x a:p '" + "\\" * 10000,
    "<think>" * 5000,
])  # fmt: skip
def test_a_hostile_text_ends_in_time(text):
    began = time.monotonic()
    repair(text, OWN, BASE)
    assert time.monotonic() - began < SECONDS
