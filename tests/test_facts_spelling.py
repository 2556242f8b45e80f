"""What a mapping spells is, to the letter, what a real store hands back; else a fact flips in and out on every sync."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Store, Triple

from ontology.facts import XSD, Facts, FactsError, literal, spell_term, split, statement, string
from ontology.graph import from_rdflib, parts, text_to_rdflib
from transforms.values import INTEGERS, BadValue, converter, natural

NODE = NamedNode("urn:x")
ODD = "".join(map(chr, (0, 1, 8, 9, 10, 11, 12, 13, 27, 31, 34, 39, 92, 127, 128, 160, 0x2028, 0xFEFF, 0xFFFE, 0xFFFF)))
texts = st.text(
    st.one_of(st.sampled_from(ODD + "aé√\U0001f600"), st.characters(exclude_categories=["Cs"])), max_size=20
)
numbers = st.from_regex(r"[+-]?0{0,3}[0-9]{0,22}(\.[0-9]{0,22})?([eE][+-]?[0-9]{1,3})?", fullmatch=True)
days = st.from_regex(r"-?[0-9]{4,5}-[01][0-9]-[0-3][0-9](Z|[+-]0[0-9]:[0-5]0|\+00:00|-00:00)?", fullmatch=True)
clocks = st.from_regex(r"[0-2][0-9]:[0-5][0-9]:[0-5][0-9](\.[0-9]{1,20})?(Z|[+-]0[0-9]:[0-5]0|-00:00)?", fullmatch=True)
spans = st.from_regex(
    r"-?P([0-9]{1,3}Y)?([0-9]{1,3}M)?([0-9]{1,3}D)?(T[0-9]{1,3}H([0-9]{1,4}M)?([0-9]{1,4}S)?)?", fullmatch=True
)
stamps = st.builds("{}T{}".format, days, clocks)
lexicals = st.one_of(
    texts, numbers, days, clocks, stamps, spans, st.sampled_from(["true", "1", "INF", "NaN", "-INF", "+INF"])
)
DATATYPES = [XSD + name for name in (
    *INTEGERS, "decimal", "double", "float", "boolean", "date", "dateTime", "dateTimeStamp", "time", "duration",
    "dayTimeDuration", "yearMonthDuration", "gYear", "gYearMonth", "gMonth", "gDay", "gMonthDay", "string", "token",
    "anyURI", "hexBinary", "base64Binary",
)] + ["https://x.example/own"]  # fmt: skip


def handed_back(text: str) -> str:
    """The statement a store gives for this one, put in by a SPARQL update."""
    store = Store()
    store.update(f"INSERT DATA {{ {text} }}")
    return str(next(iter(store)).triple)


@given(texts)
@example(ODD)
def test_a_string_is_spelled_as_the_store_spells_it(value):
    text = f"<urn:x> <urn:x> {string(value)}"
    store = Store()
    store.add(Quad(NODE, NODE, Literal(value)))

    assert handed_back(text) == text == str(next(iter(store)).triple)


def test_every_character_that_is_escaped_anywhere_is_escaped_as_the_store_does():
    corners = [*range(0x300), *range(0x2000, 0x2070), *range(0xFDD0, 0x10000), 0x10000, 0x1FFFE, 0x1FFFF, 0x10FFFF]
    value = "".join(chr(code) for code in corners if not 0xD800 <= code < 0xE000)

    assert string(value) == str(Literal(value))


@given(texts, st.sampled_from(["EN", "en-US", "de-CH-1996", "x-Private", "i-Klingon", "zh-Hant-TW"]))
def test_a_language_is_spelled_as_the_store_spells_it(value, tag):
    text = f"<urn:x> <urn:x> {string(value, tag)}"

    assert handed_back(text) == text


@settings(max_examples=300)
@given(lexicals, st.sampled_from(DATATYPES))
@example("007", XSD + "integer")
@example("+00:00", XSD + "dateTime")
@example("2020-01-01T24:00:00+00:00", XSD + "dateTime")
@example("1e400", XSD + "double")
@example("-0", XSD + "decimal")
@example("9" * 40, XSD + "integer")
def test_a_typed_literal_is_spelled_as_the_store_spells_it(value, datatype):
    text = f"<urn:x> <urn:x> {literal(value, datatype)}"
    store = Store()
    store.add(Quad(NODE, NODE, Literal(value, datatype=NamedNode(datatype))))

    assert handed_back(text) == text == str(next(iter(store)).triple)


@settings(max_examples=400)
@given(lexicals, st.sampled_from([name.removeprefix(XSD) for name in DATATYPES]))
def test_what_a_column_spells_comes_back_from_the_store_unchanged_or_is_refused(value, name):
    try:
        text = f"<urn:x> <urn:x> {converter(XSD + name)(value)}"
    except BadValue:
        return

    assert handed_back(text) == text


zones = st.one_of(st.none(), st.just(UTC), st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m))))
typed = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**18), max_value=10**18, places=6),
    st.dates(),
    st.datetimes(timezones=zones),
    st.times(),
    st.timedeltas(timedelta(days=-10_000), timedelta(days=10_000)),
    st.binary(max_size=10),
    texts,
)


@settings(max_examples=400)
@given(typed)
@example(1e16)
@example(-0.0)
@example(5e-324)
@example(Decimal("1E+3"))
def test_a_typed_value_is_spelled_as_the_store_spells_it(value):
    text = f"<urn:x> <urn:x> {natural(value)}"

    assert handed_back(text) == text


@given(st.floats(), st.sampled_from(["double", "float", "decimal"]))
def test_a_number_keeps_its_value(value, name):
    try:
        text = converter(XSD + name)(value)
    except BadValue:
        assert name == "decimal" and value - value != 0
        return

    found = float(parts(text)[0].replace("INF", "inf"))

    assert found == value or value != value or name == "float"


@given(st.lists(st.tuples(lexicals, st.sampled_from(DATATYPES)), max_size=8))
def test_facts_read_as_term_objects_and_back_are_the_same_text(pairs):
    said = frozenset(f"<urn:x> <urn:p> {literal(value, datatype)}" for value, datatype in pairs)

    facts = Facts("urn:g", said, "here:1")

    assert {statement(triple) for triple in facts.triples} == said
    assert {" ".join(split(text)) for text in said} == said


@given(st.lists(st.tuples(lexicals, st.sampled_from(DATATYPES)), min_size=1, max_size=8))
def test_a_bulk_load_and_an_update_hold_the_same_text(pairs):
    said = {f"<urn:x> <urn:p> {literal(value, datatype)}" for value, datatype in pairs}
    store = Store()
    store.bulk_load("".join(f"{text} <urn:g> .\n" for text in said).encode(), format=RdfFormat.N_QUADS)

    assert {str(quad.triple) for quad in store} == said


@given(lexicals, st.sampled_from(DATATYPES))
def test_a_term_taken_to_rdflib_and_back_is_the_same_text(value, datatype):
    text = literal(value, datatype)

    assert from_rdflib(text_to_rdflib(text)) == text


def test_a_lone_surrogate_is_refused_and_not_stored_as_something_else():
    with pytest.raises(FactsError, match="surrogate"):
        string("half \ud83d of it")
    with pytest.raises(BadValue, match="half a character"):
        natural("half \udc00 of it")


def test_a_blank_node_is_no_fact():
    with pytest.raises(FactsError, match="not ground"):
        statement(Triple(BlankNode("b"), NODE, NODE))


def test_term_objects_and_text_are_spelled_alike():
    term = Literal("007", datatype=NamedNode(XSD + "int"))

    assert spell_term(term) == literal("007", XSD + "int") == f'"7"^^<{XSD}integer>'


def test_a_day_is_a_day_whatever_it_came_as():
    as_date = converter(XSD + "date")

    assert (
        as_date(date(2020, 2, 29))
        == as_date("2020-02-29")
        == as_date(datetime(2020, 2, 29))
        == as_date("2020-02-29T00:00")
    )
    assert converter(XSD + "time")(time(4, 5)) == converter(XSD + "time")("04:05") == f'"04:05:00"^^<{XSD}time>'
