"""A text that cannot be read is answered with its place, its token and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyoxigraph import Store

from sparql.query.admit import ask_engine
from sparql.syntax import SyntaxProblem, Update, parse, text
from sparql.syntax.parser import _parse


def problem(text: str, **options: object) -> SyntaxProblem:
    with pytest.raises(SyntaxProblem) as found:
        parse(text, **options)  # type: ignore[arg-type]
    assert str(found.value) == found.value.message
    return found.value


@pytest.mark.parametrize(
    ("text", "place", "token", "message"),
    [
        ("SELECT * {\n ?s ?p ?o", (2, 10), "", "Not understood at the end: expected"),
        ("SELECT * {\n ?s ?p }", (2, 8), "}", "Not understood at '}': expected an object"),
        ("SELECT * { ?s ?p ?o ?x ?y }", (1, 21), "?x", "Not understood at '?x': expected . between two triples."),
        ("SELCT * {}", (1, 1), "SELCT", "expected SELECT, CONSTRUCT, DESCRIBE or ASK. Did you mean SELECT?"),
        ("SELECT * { OPTONAL { } }", (1, 12), "OPTONAL", "Did you mean OPTIONAL?"),
        ("SELECT * {} LIMT 3", (1, 13), "LIMT", "Did you mean LIMIT?"),
        ("SELECT COUNT(*) {}", (1, 8), "COUNT", "as in SELECT (COUNT(...) AS ?name)."),
        ("SELECT ?a, ?b {}", (1, 10), ",", "expected only space between the variables"),
        ("SELECT * { ?s ?p ?o };", (1, 22), ";", "a query has no ; behind it."),
        ("SELECT * { FILTER(?x == 1) }", (1, 23), "=", "Equality is one =."),
        ("SELECT * { FILTER(?x <> 1) }", (1, 23), ">", "Inequality is !=."),
        ("SELECT * { FILTER(?x AND ?y) }", (1, 22), "AND", "Write && for and."),
        ("SELECT * { FILTER(1 < 2 < 3) }", (1, 25), "<", "comparisons do not chain"),
        ("SELECT * { FILTER(REGEX(?x)) }", (1, 19), "REGEX", "REGEX takes 2 to 3 arguments, and here is 1."),
        ("SELECT * { REGEX(?x, 'a') }", (1, 12), "REGEX", "expected FILTER, as in FILTER REGEX(...)"),
        ("SELECT * { ?s ?p 'a }", (1, 18), "'a", "The string that begins here is not closed"),
        ("SELECT * { ?s ?p 'a\\d' }", (1, 20), "\\d' }"[:3], "\\d is no escape: write \\\\ for a backslash."),
        ("SELECT * { ?s ?p <a b> }", (1, 18), "<", "An IRI in < > holds no spaces"),
        ("SELECT * { ?s ?p “x” }", (1, 18), "“x”", "a quote of printed text"),
        ("SELECT * { ?s ?p '\\uD800' }", (1, 18), "'\\uD800'", "\\uD800 is no character of Unicode."),
        ("SELECT * { ?s ?p <e:\\u003E> }", (1, 18), "<e:\\u003E>", "no IRI may have"),
        ("SELECT * { ?s ?\\u0061 ?o }", (1, 15), "?", "expected a predicate"),
        ("SELECT * { ?s ?p 'a'@en--up }", (1, 21), "@en--up", "up is no direction: write --ltr or --rtl."),
        ("SELECT * { ?s <e:p>/<e:q> ?o {| <e:r> 1 |} }", (1, 30), "{|", "A property path is no triple"),
        ("CONSTRUCT { ?s <e:p>* ?o } {}", (1, 21), "*", "property paths stand in patterns only"),
        ("SELECT * { VALUES (?a ?b) {\n (1) } }", (2, 2), "(", "This row has 1 values for 2 variables. Write UNDEF"),
        ("SELECT * { VALUES (?a ?a) { } }", (1, 23), "?a", "?a stands twice"),
        ("SELECT * { ?a ?b ?c BIND(1 AS ?a) }", (1, 31), "?a", "BIND gives ?a a value, and it has one already."),
        ("SELECT (1 AS ?a) { ?a ?b ?c }", (1, 14), "?a", "AS names ?a, which has a value already."),
        ("SELECT ?b { ?a ?b ?c } GROUP BY ?a", (1, 8), "?b", "?b is neither grouped by nor aggregated."),
        ("SELECT * { ?a ?b ?c } GROUP BY ?a", (1, 1), "SELECT", "SELECT * cannot stand with GROUP BY"),
        ("ASK { FILTER(COUNT(?x) > 1) }", (1, 14), "COUNT", "COUNT counts over a group"),
        ("ASK { _:a ?p 1 OPTIONAL { _:a ?q 2 } }", (1, 27), "_:a", "_:a stands in another group too"),
        ("BASE <rel> ASK {}", (1, 6), "<rel>", "BASE is <rel>, which is relative itself."),
        ("PREFIX foo <e:> ASK {}", (1, 8), "foo", "expected a prefix with its colon"),
        ("PREFIX foo: e:x ASK {}", (1, 13), "e:x", "expected an IRI in < > for foo:."),
        ("SELECT * {} LIMIT -1", (1, 19), "-1", "expected a whole number behind LIMIT."),
        ("SELECT * {} LIMIT 1 LIMIT 2", (1, 21), "LIMIT", "LIMIT stands here twice."),
        ("INSERT DATA { ?s <e:p> 1 }", (1, 15), "?s", "INSERT DATA holds facts, and ?s is a variable"),
        ("DELETE DATA { [] <e:p> 1 }", (1, 15), "[", "DELETE DATA cannot name a blank node"),
        ("DELETE { ?s ?p [] } WHERE { ?s ?p 1 }", (1, 16), "[", "DELETE cannot name a blank node"),
        ("INSERT DATA { } INSERT DATA { }", (1, 17), "INSERT", "expected ; between two operations."),
        ("INSERT DATA { _:a <e:p> 1 } ; INSERT DATA { _:a <e:p> 1 }", (1, 45), "_:a", "_:a stands in another group"),
    ],
)
def test_a_problem_names_its_place_its_token_and_what_to_write(
    text: str, place: tuple[int, int], token: str, message: str
) -> None:
    found = problem(text)
    assert (found.line, found.column) == place
    assert found.token == token
    assert message in found.message and len(found.message) < 200


def test_an_undeclared_prefix_is_named_with_the_nearest_that_is_declared() -> None:
    found = problem("PREFIX shop: <http://s/>\nASK {\n  ?s shpo:tier 1 }", prefixes={"other": "http://o/"})
    assert (found.line, found.column, found.token) == (3, 6, "shpo:tier")
    assert found.message.startswith("shpo: is not declared. Did you mean shop: (http://s/)? Add PREFIX shpo: <...>")
    assert "Did you mean EX: (http://e/)?" in problem("ASK { ?s ex:p 1 }", prefixes={"EX": "http://e/"}).message
    assert "PREFIX foaf: <http://xmlns.com/foaf/0.1/>" in problem("ASK { ?s foaf:name 1 }").message


def test_an_update_where_a_query_is_expected_is_told_so_and_the_other_way_round() -> None:
    found = problem("# note\nPREFIX a: <e:>\n insert data {}", only="query")
    assert (found.line, found.column, found.token) == (3, 2, "insert")
    assert found.message.startswith("INSERT is an update, and a query is expected here")
    assert problem("ASK {}", only="update").message.startswith("ASK is a query, and an update is expected here")
    assert problem("# nothing", only="query").message.startswith("The query is empty.")
    assert parse("# nothing") == parse("", only="update") == Update(())


def test_a_known_text_is_parsed_once_and_another_base_or_prefix_is_another_text() -> None:
    text = "ASK { ?s known:p <x> }"
    first = parse(text, prefixes={"known": "http://a/"}, base="http://b/")
    assert parse(text, prefixes={"known": "http://a/"}, base="http://b/") is first
    assert parse(text, prefixes={"known": "http://z/"}, base="http://b/") != first
    assert parse(text, prefixes={"known": "http://a/"}, base="http://c/") != first
    assert _parse(text, {"known": "http://a/"}, "http://b/", None, 100, 2000) == first


def test_a_prefix_declared_in_the_text_hides_the_one_given_and_only_from_there_on() -> None:
    given = {"a": "http://given/"}
    tree = parse("INSERT DATA { a:x a:x a:x } ; PREFIX a: <http://own/> INSERT DATA { a:x a:x a:x }", prefixes=given)
    assert tree == parse(
        "INSERT DATA { <http://given/x> <http://given/x> <http://given/x> } ; "
        "PREFIX a: <http://own/> INSERT DATA { <http://own/x> <http://own/x> <http://own/x> }"
    )
    assert given == {"a": "http://given/"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("What is it?\n\nselect ?x where { ?x ?y ?z }", "leave out what stands before select, in line 3."),
        ("PREFIX d: <e:> ASK { d:IPhone_(Apple) ?p ?o }", "Within a name write \\ before ( ) , ' and &"),
        ("PREFIX d: <e:> ASK { d:Butter's_Episode ?p ?o }", "' ends the name before it."),
        ("PREFIX d: <e:> ASK { d:Orcs_&_Humans ?p ?o }", "Within a name write"),
        ("SELECT ?x AS ?y { ?x ?p ?o }", "expected brackets around it, as in SELECT (?x AS ?name)."),
        ("SELECT * { PREFIX a: <e:> ?x ?p ?o }", "It stands at the start, before SELECT."),
        ("SELECT * { ?s ?p NULL }", "SPARQL has no NULL"),
    ],
)
def test_what_models_and_people_often_write_is_answered_with_what_they_meant(text: str, message: str) -> None:
    assert message in problem(text, only="query").message


def test_every_recorded_query_that_the_engine_reads_is_read_and_those_it_does_not_are_named(shared: Path) -> None:
    lines = (shared / "recorded-llm-sparql" / "queries.jsonl").read_text("utf-8").splitlines()
    dotted, count = set(), 0
    for query in {json.loads(line)["query"] for line in lines}:
        try:
            Store().query(query)
            engine = True
        except SyntaxError:
            engine = False
        except (RuntimeError, OSError):
            engine = True
        try:
            tree = parse(query, only="query")
            assert parse(text(tree)) == tree
            count += 1
            if not engine:
                dotted.add("._" in query)
        except SyntaxProblem as wrong:
            assert not engine, query
            assert wrong.line and wrong.column and len(wrong.message) <= 400
    assert count > 500
    assert dotted == {True}  # dbr:J._K._Rowling is right, and the engine does not read it: see ask_engine


def test_what_the_engine_reads_in_one_spelling_only_is_answered_all_the_same() -> None:
    store = Store()
    store.update("INSERT DATA { <e:J._K._R> <e:p> 'x' }")
    for query in ["SELECT * { e:J._K._R <e:p> ?o }", "SELECT (CONCAT ('x') AS ?o) {}"]:
        assert [row["o"].value for row in ask_engine(store, query, {"e": "e:"}, None)] == ["x"]
    with pytest.raises(SyntaxError, match="1:16"):
        ask_engine(store, "SELECT ?x ?x {}", {}, None)
