"""What is a query, in which format it is answered, and how an error reads: without a worker."""

from __future__ import annotations

import pytest
from pyoxigraph import Store

from sparql.query import results
from sparql.query.admit import Refused, admit, declared_prefixes, syntax_error


def said(query: str) -> Refused:
    with pytest.raises(SyntaxError) as found:
        Store().query(query)
    return syntax_error(query, str(found.value.msg))


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { SERVICE <http://e/> { ?s ?p ?o } }",
        "select*{service silent<http://e/>{?s ?p ?o}}",
        "SELECT * { ?s ?p ?o { sErViCe ?o { ?a ?b ?c } } }",
        "SELECT * { ?x ?y ?z FILTER(?x<5)SERVICE#>\n<http://e/>{?a ?b ?c} }",
        "SELECT * { { SELECT * { SERVICE <http://e/> {} } } }",
        "ASK { FILTER EXISTS { SERVICE <http://e/> { ?s ?p 'SERVICE' } } }",
        "# SERVICE\nPREFIX service: <http://e/service> SELECT * { SERVICE service:x { ?s ?p ?o } }",
        "CONSTRUCT { ?s ?p ?o } WHERE { OPTIONAL { SERVICE <http://e/> { ?s ?p ?o } } }",
    ],
)
def test_a_query_with_service_is_refused(query: str) -> None:
    with pytest.raises(Refused, match="SERVICE is not allowed"):
        admit(query, {}, None)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * { ?service a <http://e/SERVICE> }",
        "PREFIX service: <http://e/> SELECT * { ?s service:service 'SERVICE <x> {}' } # SERVICE <http://e/> {}",
        'SELECT ?Service { ?s ?p """a\nSERVICE <http://e/> {}""" }',
        "SELECT * { ?s declared:service 1 }",
    ],
)
def test_the_word_service_elsewhere_is_not_service(query: str) -> None:
    admit(query, {"declared": "http://e/"}, None)


@pytest.mark.parametrize("verb", ["INSERT DATA {}", "DELETE WHERE { ?s ?p ?o }", "LOAD <http://e/>", "CLEAR ALL"])
def test_an_update_is_told_what_it_is_and_where(verb: str) -> None:
    wrong = said(f"# note\nPREFIX a: <http://e/>\n {verb}")
    assert (wrong.line, wrong.column) == (3, 2)
    assert f"{verb.split()[0]} is an update" in wrong.message


def test_an_undeclared_prefix_is_named_with_its_place() -> None:
    wrong = said("SELECT * {\n  ?s shop:tier 1\n}")
    assert (wrong.line, wrong.column) == (2, 6)
    assert wrong.message.startswith("shop: is not declared. Add PREFIX shop:")


def test_a_syntax_error_names_the_place_in_few_words() -> None:
    wrong = said("SELECT * {\n ?s ?p ?o \n")
    assert wrong.line >= 2
    assert len(wrong.message) < 160 and "\\u{" not in wrong.message


def test_prefixes_a_query_declares_are_found_behind_comments() -> None:
    query = "# PREFIX no: <x>\nBASE <http://b/>\nprefix a: <http://a/>\nPREFIX : <http://e/#> ASK {}"
    assert declared_prefixes(admit(query, {}, None)) == {
        "a": "http://a/",
        "": "http://e/#",
    }


@pytest.mark.parametrize(
    ("accept", "rows", "triples"),
    [
        (None, "json", "turtle"),
        ("*/*", "json", "turtle"),
        ("text/csv", "csv", None),
        ("text/csv;q=0.5, application/sparql-results+xml", "xml", None),
        ("application/ld+json, text/csv;q=0.1, */*;q=0.01", "csv", "jsonld"),
        ("text/*", "csv", "turtle"),
        ("application/json", "json", "jsonld"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "xml", "rdfxml"),
        ("application/sparql-results+json;q=0, */*", "xml", "turtle"),
        ("TEXT/Turtle ; Q=0.3", None, "turtle"),
    ],
)
def test_the_highest_q_wins_then_the_exact_type(accept: str | None, rows: str | None, triples: str | None) -> None:
    found = results.negotiate(accept)
    assert (found.get("rows"), found.get("triples")) == (rows, triples)


def test_a_format_nobody_writes_is_not_acceptable() -> None:
    with pytest.raises(results.NotAcceptable, match="image/png"):
        results.negotiate("image/png")
    with pytest.raises(results.NotAcceptable, match="'docx' is not a format"):
        results.named("docx")


def test_a_format_is_asked_for_by_name_extension_or_media_type() -> None:
    assert results.named("csv") == {"rows": "csv", "boolean": "csv"}
    assert results.named("ttl") == results.named("text/turtle") == {"triples": "turtle"}
    assert results.named("application/ld json") == {"triples": "jsonld"}
    assert results.named("json") == {"rows": "json", "boolean": "json", "triples": "jsonld"}
    assert results.named("jsonl") == {"rows": "ndjson", "boolean": "ndjson"}
    assert results.named("text/turtle; version=1.2") == {"triples": "turtle;version=1.2"}


def test_version_1_2_of_a_media_type_is_sent_to_whom_asked_for_it() -> None:
    found = results.negotiate("text/turtle;version=1.2, application/sparql-results+json; version=1.2-basic;q=0.5")
    assert found == {"rows": "json;version=1.2", "boolean": "json;version=1.2", "triples": "turtle;version=1.2"}
    assert results.BY_NAME[found["triples"]].content_type == "text/turtle; charset=utf-8; version=1.2"
    assert results.negotiate("text/csv;version=1.2")["rows"] == "csv"
    assert results.negotiate("text/turtle;version=1.1")["triples"] == "turtle"
