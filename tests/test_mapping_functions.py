"""A mapping in Python, in RDF or in none at all keeps the same promises as one in graphtide.toml."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Store, Triple, parse

from ontology.facts import XSD
from sources.record import Record
from sparql.names import Names
from transforms.direct import class_iri, direct_mapping, direct_vocabulary, property_iri
from transforms.iri import GT, RDFS, A, Namespace, iri, record_graph
from transforms.mapping import MappingError, compile_mapping, python_mapping
from transforms.rdf import rdf_mapping

BASE = "https://x.example/"


def service(record: Record):
    """One Compose service is one gt:Service."""
    me = iri("service", record.data["project"], record.key)
    yield Triple(me, A, GT.Service)
    yield Triple(me, RDFS.label, Literal(record.key))
    for name in record.data["depends_on"]:
        yield Triple(me, GT.dependsOn, iri("service", record.data["project"], name))


def test_a_python_mapping_mints_under_the_projects_base():
    mapping = python_mapping(service, version="1", source="compose", base=BASE)

    facts = mapping.facts(Record("compose", "web", {"project": "my shop", "depends_on": ["db"]}, "compose.yaml:3"))

    assert facts.record == f"{BASE}record/compose/web"
    assert f"<{BASE}service/my%20shop/web> <{GT}dependsOn> <{BASE}service/my%20shop/db>" in facts.statements
    assert len(facts.statements) == 3


def test_a_python_mapping_that_makes_a_blank_node_is_told_to_name_it():
    def bad(record):
        yield Triple(BlankNode("b"), A, GT.Service)

    with pytest.raises(MappingError, match="not ground: give every node an IRI"):
        python_mapping(bad, version="1", source="s").facts(Record("s", "1", {}, "s:1"))


def test_an_iri_without_a_key_is_refused():
    def bad(record):
        yield Triple(iri("service", ""), A, GT.Service)

    with pytest.raises(MappingError, match="the key of service"):
        python_mapping(bad, version="1", source="s").facts(Record("s", "1", {}, "s:1"))


def test_a_namespace_gives_terms_by_attribute_or_item():
    shop = Namespace("https://shop.example/ns#")

    assert shop.tier == shop["tier"] == NamedNode("https://shop.example/ns#tier")


@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(st.characters(exclude_categories=["Cs"])))
def test_a_record_graph_has_one_name_in_every_room(source, key):
    assert record_graph(BASE, source, key) == Names(BASE).record(source, key)
    NamedNode(record_graph(BASE, source, key))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=2, max_size=2, unique=True))
def test_two_keys_never_share_an_iri(keys):
    first, second = (iri("thing", key) for key in keys)

    assert first != second


def versions():
    spec = {"class": "x:A", "iri": "a/{id}"}
    yield compile_mapping(spec, source="s", base=BASE, prefixes={"x": "urn:x:"}).version
    yield compile_mapping({**spec, "when": "id"}, source="s", base=BASE, prefixes={"x": "urn:x:"}).version
    yield compile_mapping(spec, source="t", base=BASE, prefixes={"x": "urn:x:"}).version
    yield compile_mapping(spec, source="s", base="https://y.example/", prefixes={"x": "urn:x:"}).version
    yield compile_mapping(spec, source="s", base=BASE, prefixes={"x": "urn:y:"}).version
    yield python_mapping(service, version="1", source="s", base=BASE).version
    yield python_mapping(service, version="2", source="s", base=BASE).version
    yield direct_mapping("s", BASE).version
    yield rdf_mapping("s", BASE).version


def test_a_version_changes_with_all_that_decides_the_facts_and_with_nothing_else():
    assert len(set(versions())) == len(list(versions()))
    assert list(versions()) == list(versions())


def test_the_records_of_an_rdf_file_say_what_the_file_says(shared):
    """ck25 as it is: each subject one record, what the store holds afterwards equals the parsed file."""
    for name in ("prod-inst.ttl", "prod-vocab.ttl"):
        data = (shared / "ck25" / name).read_bytes()
        triples = [quad.triple for quad in parse(data, format=RdfFormat.TURTLE)]
        whole = Store()
        whole.load(data, format=RdfFormat.TURTLE)
        mapping = rdf_mapping("ck25", BASE)
        said: set[str] = set()
        ordered = sorted(triples, key=lambda triple: str(triple.subject))
        for subject, about in itertools.groupby(ordered, key=lambda triple: triple.subject):
            record = Record("ck25", subject.value, {"statements": [str(triple) for triple in about]}, f"{name}:1")
            said |= mapping.facts(record).statements

        assert said == {str(quad.triple) for quad in whole}


def test_rdf_is_spelled_as_the_store_spells_it():
    record = Record(
        "r", "k", {"statements": [f'<urn:a> <urn:b> "007"^^<{XSD}int>', '<urn:a> <urn:b> "x"@EN .']}, "r.nt:1"
    )

    assert rdf_mapping("r").facts(record).statements == {
        f'<urn:a> <urn:b> "7"^^<{XSD}integer>',
        '<urn:a> <urn:b> "x"@en',
    }


def test_a_statement_that_cannot_be_stored_names_its_record():
    with pytest.raises(MappingError, match="r.nt:4: it holds a statement that cannot be stored"):
        rdf_mapping("r").facts(Record("r", "k", {"statements": ["_:b <urn:b> <urn:c>"]}, "r.nt:4"))


ascii_text = st.text(st.characters(max_codepoint=126), max_size=8)
decimals = st.decimals(allow_nan=False, allow_infinity=False)
written = st.one_of(ascii_text, st.integers().map(str), st.dates().map(str), decimals.map(str))
cells = st.one_of(st.none(), st.booleans(), st.integers(), written)
rows = st.lists(st.dictionaries(st.sampled_from(["id", "name", "zip", "when", "a b"]), cells), max_size=6)


@given(rows, st.randoms())
def test_a_direct_mapping_does_not_depend_on_the_order_or_company_of_records(data, random):
    records = [Record("t", str(n), row, f"t.csv:{n}") for n, row in enumerate(data)]
    together = {record.key: direct_mapping("t", BASE).facts(record) for record in records}
    random.shuffle(records)
    one = direct_mapping("t", BASE)

    assert {record.key: one.facts(record) for record in records} == together


def test_what_a_direct_mapping_infers_loses_nothing():
    mapping = direct_mapping("t", BASE)
    for value in ("007", "1.10.2", "+5", "1e5", "2023-02-30", "12:30", "0x1F", " 5", "-", "1,5", "NaN", "yes"):
        facts = mapping.facts(Record("t", "1", {"c": value}, "t:1"))
        assert f'<{BASE}t/1> <{BASE}def/c> "{value}"' in facts.statements


def test_a_direct_mapping_declares_the_terms_it_uses():
    facts = direct_vocabulary("on-call", ["Full Name", "id"], BASE, "on-call.csv")

    assert facts.record == Names(BASE).record("ontology", "def/on-call")
    said = "\n".join(sorted(facts.statements))
    assert f"<{class_iri('on-call', BASE)}>" in said and f"<{property_iri('Full Name', BASE)}>" in said
    assert class_iri("on-call", BASE) == f"{BASE}def/OnCall"
    assert property_iri("Full Name", BASE) == f"{BASE}def/Full_Name"


def test_no_column_name_can_break_an_iri():
    data = {name: "x" for name in ("", " ", "a<b>", "ä", "%zz", "a\nb", "{x}", '"', "\\", "a/b#c?d")}
    facts = direct_mapping('odd "name" <x>', BASE).facts(Record('odd "name" <x>', "k/1", data, "x:1"))

    assert len(list(facts.triples)) == len(facts.statements)


def test_a_key_that_is_half_a_character_is_refused():
    with pytest.raises(MappingError, match="half a character"):
        direct_mapping("t", BASE).facts(Record("t", "a\ud800", {"x": "1"}, "t:1"))
