"""A quick check never passes what pyshacl finds, and findings kept up change by change are those of a fresh look."""

from __future__ import annotations

from pathlib import Path

import pyshacl
import pytest
import rdflib
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, RdfFormat, Store, Triple, parse

from ontology.facts import RDFS, SH, Facts, literal, statement, string
from ontology.graph import from_rdflib, parse_turtle, text_to_rdflib
from ontology.shapes import NOT_CHECKED, Shapes
from ontology.speakers import Speakers
from ontology.vocabulary import Vocabulary

NS = "https://shop.example/ns#"
HEAD = f"""
@prefix : <{NS}> . @prefix sh: <{SH}> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix rdfs: <{RDFS}> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
"""
LOCAL = """
:S a sh:NodeShape ; sh:targetClass :A ; sh:nodeKind sh:IRI ; sh:pattern "shop" ;
  sh:property [ sh:path :p ; sh:minCount 1 ; sh:maxCount 2 ; sh:datatype xsd:integer ;
    sh:minInclusive 0 ; sh:maxExclusive 10 ] ;
  sh:property [ sh:path :q ; sh:in ( 1 1.5 "a" :x "b"@en ) ] ;
  sh:property [ sh:path :r ; sh:or ( [ sh:datatype xsd:date ] [ sh:nodeKind sh:IRI ; sh:pattern "ns#x$" ] ) ] ;
  sh:property [ sh:path rdfs:label ; sh:uniqueLang true ; sh:languageIn ( "en" "de" ) ;
    sh:minLength 2 ; sh:maxLength 4 ] ;
  sh:property [ sh:path :s ; sh:lessThan :t ; sh:datatype xsd:decimal ] ;
  sh:property [ sh:path :t ; sh:disjoint :p ; sh:lessThanOrEquals :u ] ;
  sh:property [ sh:path [ sh:alternativePath ( :p :q ) ] ; sh:maxCount 3 ] ;
  sh:property [ sh:path :b ; sh:datatype xsd:boolean ; sh:severity sh:Warning ] .
:T a sh:NodeShape ; sh:targetSubjectsOf :t ; sh:closed true ; sh:ignoredProperties ( rdf:type ) ;
  sh:property [ sh:path :t ; sh:hasValue 5 ] ; sh:property [ sh:path :u ; sh:equals :t ] ;
  sh:not [ sh:property [ sh:path :p ; sh:minCount 2 ] ] .
:U a sh:NodeShape ; sh:targetNode :a ; sh:or ( [ sh:property [ sh:path :p ; sh:minCount 1 ] ]
  [ sh:property [ sh:path :q ; sh:minCount 1 ] ] ) ;
  sh:property [ sh:path :d ; sh:datatype xsd:dateTime ; sh:pattern "^2" ] .
"""
XSD = "http://www.w3.org/2001/XMLSchema#"
NODES = [f"<{NS}{name}>" for name in "abx"]
VALUES = [
    *NODES, *(literal(value, XSD + "integer") for value in ("-1", "0", "5", "10", "five")),
    *(literal(value, XSD + "decimal") for value in ("1.5", "5.0", "-2.25")), literal("5", XSD + "double"),
    *(literal(value, XSD + "date") for value in ("2020-01-31", "2020-02-30", "2020-01-01Z")),
    *(literal(value, XSD + "dateTime") for value in ("2020-01-01T10:00:00", "1999-01-01T10:00:00Z", "x")),
    *(literal(value, XSD + "boolean") for value in ("true", "0", "yes")), string("a"), string("b", "en"),
    string("bb", "en-gb"), string("cc", "de"), string("dd", "en"), string("long one", "fr"), string('"\\'),
]  # fmt: skip
PREDICATES = [f"<{NS}{name}>" for name in "pqrstubd"] + [f"<{RDFS}label>"]
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
fact = st.one_of(
    st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(VALUES)),
    st.tuples(st.sampled_from(NODES), st.just(TYPE), st.sampled_from([f"<{NS}A>", f"<{NS}B>", f"<{NS}R>"])),
).map(" ".join)
hierarchy = st.tuples(
    st.sampled_from([f"<{NS}{name}>" for name in "ABR"]),
    st.just(f"<{RDFS}subClassOf>"),
    st.sampled_from([f"<{NS}Base>", f"<{NS}B>", f"<{NS}R>"]),
).map(" ".join)


def checked_by_pyshacl_alone(shapes: Shapes) -> Shapes:
    shapes._conforms = dict.fromkeys(shapes._conforms, lambda focus, values: False)
    return shapes


QUICK = Shapes([("local.ttl", HEAD + LOCAL)])
SLOW = checked_by_pyshacl_alone(Shapes([("local.ttl", HEAD + LOCAL)]))


def test_all_of_these_shapes_are_a_records_own_affair():
    assert [(root.local, root.wide) for root in QUICK.roots] == [(True, False)] * 3


@settings(max_examples=80)
@given(st.lists(st.frozensets(fact, max_size=14), min_size=1, max_size=3))
def test_a_quick_check_finds_what_pyshacl_finds(records):
    facts = [Facts(f"urn:r{number}", said, "") for number, said in enumerate(records)]

    assert QUICK.local(facts) == SLOW.local(facts)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("predicate", PREDICATES)
def test_a_quick_check_of_one_value_finds_what_pyshacl_finds(predicate, value):
    said = {
        f"<{NS}a> {TYPE} <{NS}A>",
        f"<{NS}a> <{NS}p> {literal('3', XSD + 'integer')}",
        f"<{NS}a> {predicate} {value}",
    }
    facts = [Facts("urn:r", frozenset(said), "")]

    assert QUICK.local(facts) == SLOW.local(facts)


WIDE = """
:A rdfs:subClassOf :Base .
:S a sh:NodeShape ; sh:targetClass :Base ;
  sh:property [ sh:path :p ; sh:class :B ] ;
  sh:property [ sh:path [ sh:inversePath :q ] ; sh:minCount 1 ; sh:severity sh:Warning ] ;
  sh:property [ sh:path ( :r :s ) ; sh:maxCount 1 ; sh:nodeKind sh:IRI ] ;
  sh:property [ sh:path [ sh:zeroOrMorePath :t ] ; sh:class :R ] ;
  sh:property [ sh:path :u ; sh:maxCount 1 ; sh:node [ sh:property [ sh:path :b ; sh:minCount 1 ] ] ] ;
  sh:property [ sh:path rdfs:label ; sh:maxCount 1 ] .
:O a sh:NodeShape ; sh:targetObjectsOf :d ; sh:property [ sh:path :p ; sh:minCount 1 ; sh:severity sh:Info ] .
:Q a sh:NodeShape ; sh:targetClass :R ; sh:sparql [
  sh:message "It is q of {?value}." ; sh:select "SELECT $this ?value { ?value <https://shop.example/ns#q> $this }" ] .
"""
BROAD = Shapes([("wide.ttl", HEAD + WIDE)])


def reader(store: Store):
    return lambda s, p, o: store.quads_for_pattern(s, p, o, DefaultGraph())


def store_of(statements) -> Store:
    store = Store()
    store.extend(Quad(t.subject, t.predicate, t.object) for t in Facts("urn:g", frozenset(statements), "").triples)
    return store


@settings(max_examples=30)
@given(st.frozensets(fact, max_size=16))
def test_local_and_wide_together_find_what_pyshacl_finds_on_the_whole_graph(said):
    hierarchy = {f"<{NS}A> <{RDFS}subClassOf> <{NS}Base>"}
    store = store_of(said | hierarchy)
    found = {(v.focus, v.constraint, v.value, v.severity) for v in BROAD.wide(reader(store))}
    found |= {(v.focus, v.constraint, v.value, v.severity) for v in BROAD.local([Facts("urn:r", said, "")])}
    found |= {
        (v.focus, v.constraint, v.value, v.severity)
        for v in BROAD.local(
            [Facts("urn:r", said | {f"{s} {TYPE} <{NS}Base>" for s in NODES if f"{s} {TYPE} <{NS}A>" in said}, "")]
        )
    }

    data, shapes = rdflib.Graph(), rdflib.Graph()
    for text in said | hierarchy:
        data.add(tuple(text_to_rdflib(term) for term in text.split(" ", 2)))
    shapes.parse(data=HEAD + WIDE, format="turtle")
    _, report, _ = pyshacl.validate(data, shacl_graph=shapes)
    expected = set()
    for node in report.objects(None, rdflib.URIRef(SH + "result")):
        value = report.value(node, rdflib.URIRef(SH + "value"))
        focus = report.value(node, rdflib.URIRef(SH + "focusNode"))
        if isinstance(focus, rdflib.URIRef):
            severity = str(report.value(node, rdflib.URIRef(SH + "resultSeverity"))).rsplit("#")[-1]
            component = str(report.value(node, rdflib.URIRef(SH + "sourceConstraintComponent")))
            expected.add((str(focus), component, "" if value is None else from_rdflib(value), severity))

    assert found == expected


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.booleans(), st.frozensets(st.one_of(fact, fact, hierarchy), min_size=1, max_size=3)),
        min_size=1,
        max_size=8,
    )
)
def test_findings_kept_up_by_what_a_change_touches_are_those_of_a_fresh_look(changes):
    store, said, kept = store_of([]), frozenset(), []
    for adding, statements in changes:
        after = said | statements if adding else said - statements
        before, store = store, store_of(after)
        touched = BROAD.wide_touched(said ^ after, reader(store)) | BROAD.wide_touched(said ^ after, reader(before))
        kept = [v for v in kept if v.focus not in touched] + BROAD.wide(reader(store), touched)
        said = after

        assert sorted(kept, key=repr) == sorted(BROAD.wide(reader(store)), key=repr)


@settings(max_examples=60)
@given(st.lists(st.frozensets(fact, max_size=6), max_size=6))
def test_nodes_one_record_speaks_of_are_spared_and_nothing_is_missed(records):
    shapes, speakers = QUICK, Speakers()
    accepted = [said for said in records if not any(v.refuses for v in shapes.local([Facts("urn:r", said, "")]))]
    for said in accepted:
        speakers.saw(said)
    store = store_of(frozenset().union(*accepted))

    assert shapes.wide(reader(store), speakers=speakers) == shapes.wide(reader(store))


LINKS = """
:S a sh:NodeShape ; sh:targetClass :A ; sh:class :R ;
  sh:property [ sh:path :p ; sh:class :B ; sh:maxCount 2 ] ;
  sh:property [ sh:path [ sh:alternativePath ( :q :r ) ] ; sh:class :A ] ;
  sh:property [ sh:path [ sh:inversePath :q ] ; sh:minCount 1 ; sh:maxCount 2 ; sh:class :B ; sh:nodeKind sh:IRI ] ;
  sh:property [ sh:path [ sh:inversePath :u ] ; sh:minCount 2 ; sh:severity sh:Warning ] .
:O a sh:NodeShape ; sh:targetObjectsOf :s ; sh:property [ sh:path :p ; sh:class :A ; sh:minCount 1 ] .
"""
edge = st.tuples(
    st.sampled_from(NODES), st.sampled_from([f"<{NS}{name}>" for name in "pqrsu"]), st.sampled_from(VALUES[:5])
)
kind = st.tuples(st.sampled_from(NODES), st.just(TYPE), st.sampled_from([f"<{NS}{name}>" for name in "ABCR"]))


@settings(max_examples=40)
@given(st.frozensets(st.one_of(edge, kind).map(" ".join), max_size=20))
def test_a_look_at_the_neighbours_finds_what_pyshacl_finds(tmp_path_factory, said):
    classes = tmp_path_factory.getbasetemp() / "classes.ttl"
    classes.write_text(HEAD + ":C rdfs:subClassOf :B .", encoding="utf-8")
    vocabulary = Vocabulary.load([classes])
    quick, slow = (Shapes([("links.ttl", HEAD + LINKS)], vocabulary) for _ in range(2))
    assert [looks is not None for looks in quick._looks.values()] == [True, True]
    slow = checked_by_pyshacl_alone(slow)
    slow._looks = dict.fromkeys(slow._looks)
    store = store_of(said)

    assert quick.wide(reader(store)) == slow.wide(reader(store))
    assert quick.wide(reader(store), {f"{NS}a"}) == slow.wide(reader(store), {f"{NS}a"})


def test_a_node_typed_twice_with_two_values_is_found_once_they_are_merged():
    shapes = Shapes(
        [("one.ttl", HEAD + ":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:maxCount 1 ] .")]
    )
    records = [{f"<{NS}a> {TYPE} <{NS}A>", f"<{NS}a> <{NS}p> {literal(n, XSD + 'integer')}"} for n in "12"]
    store = store_of(records[0] | records[1])

    assert shapes.local([Facts(f"urn:r{n}", frozenset(said), "") for n, said in enumerate(records)]) == []
    assert [v.constraint for v in shapes.wide(reader(store))] == [f"{SH}MaxCountConstraintComponent"]
    assert shapes.wide(reader(store_of(records[0]))) == []


def test_a_wide_check_reads_no_more_than_what_its_nodes_need():
    lines = {f"<{NS}n{n}> {TYPE} <{NS}A>" for n in range(500)} | {
        f"<{NS}n{n}> <{NS}p> <{NS}n{n + 1}>" for n in range(500)
    }
    store = store_of(lines)
    count = 0

    def match(s, p, o):
        nonlocal count
        for quad in store.quads_for_pattern(s, p, o, DefaultGraph()):
            count += 1
            yield quad

    BROAD.wide(match, {f"{NS}n7"})

    assert count < 30


def test_a_wide_check_that_reads_too_much_is_given_up_and_says_so(monkeypatch):
    monkeypatch.setattr("ontology.shapes.READ_LIMIT", 20)
    store = store_of(
        {f"<{NS}n{n}> {TYPE} <{NS}R>" for n in range(10)} | {f"<{NS}m{n}> <{NS}q> <{NS}n0>" for n in range(50)}
    )

    found = BROAD.wide(reader(store), {f"{NS}n0"})

    assert [v.severity for v in found] == ["Warning"]
    assert found[0].constraint == NOT_CHECKED and "not checked, since it reads more than" in found[0].message


def test_a_shape_whose_sparql_fails_is_a_finding_and_not_a_stop():
    text = ":Q a sh:NodeShape ; sh:targetClass :R ; sh:sparql [ sh:select 'SELECT $this { nonsense }' ] ."
    shapes = Shapes([("bad.ttl", HEAD + text)])

    found = shapes.wide(reader(store_of({f"<{NS}a> {TYPE} <{NS}R>"})))

    assert [(v.constraint, v.severity) for v in found] == [(NOT_CHECKED, "Warning")]


MF, SHT = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#", "http://www.w3.org/ns/shacl-test#"
BEYOND = {
    "core/node/qualified-001.ttl": "pyshacl refuses sh:qualifiedValueShape on a node shape",
    "core/property/datatype-ill-formed.ttl": "the store keeps xsd:byte and its like as xsd:integer",
    "core/property/qualifiedValueShape-001.ttl": "it writes sh:nodeShape, which is not a term of SHACL",
    "core/property/uniqueLang-002.ttl": 'the store spells "1"^^xsd:boolean as true',
}


def named(term):
    return NamedNode(f"urn:blank:{term.value}") if isinstance(term, BlankNode) else term


@pytest.mark.parametrize("folder", ["misc", "node", "path", "property", "targets", "complex"])
def test_the_core_suite_of_the_w3c_is_found_by_local_and_wide_together(shared, folder):
    root = shared / "w3c-shacl" / "tests"
    differing = []
    for path in sorted((root / "core" / folder).glob("*.ttl")):
        name = str(path.relative_to(root))
        if name in BEYOND or "sht:shapesGraph <>" not in path.read_text(encoding="utf-8"):
            continue  # a manifest, or a test in three files
        expected, found = expected_of(path), found_by_us(path)
        if expected != found:
            differing.append((name, expected ^ found))

    assert differing == []


def expected_of(path: Path) -> set[tuple[str, str, str]]:
    """(focus, component, severity) of the results with an IRI as focus; literals are never a graph's subject."""
    triples = parse_turtle(f"@base <{path.as_uri()}> .\n" + path.read_text(encoding="utf-8"), path.name)
    about: dict[str, dict[str, object]] = {}
    for triple in triples:
        about.setdefault(str(triple.subject), {})[triple.predicate.value] = triple.object
    found = set()
    for said in about.values():
        if f"{SH}sourceConstraintComponent" in said:
            focus = said[f"{SH}focusNode"]
            severity = said[f"{SH}resultSeverity"].value.rsplit("#")[-1].replace("MySeverity", "Violation")
            if isinstance(focus, NamedNode):
                found.add((focus.value, said[f"{SH}sourceConstraintComponent"].value, severity))
    return found


def found_by_us(path: Path) -> set[tuple[str, str, str]]:
    text = path.read_text(encoding="utf-8")
    triples = [quad.triple for quad in parse(text.encode(), format=RdfFormat.TURTLE, base_iri=path.as_uri())]
    said = frozenset(statement(Triple(named(t.subject), t.predicate, named(t.object))) for t in triples)
    shapes = Shapes([(path.name, f"@base <{path.as_uri()}> .\n{text}")])
    findings = [*shapes.local([Facts("urn:r", said, "")]), *shapes.wide(reader(store_of(said)))]
    return {(v.focus, v.constraint, v.severity) for v in findings if not v.focus.startswith("urn:blank:")}
