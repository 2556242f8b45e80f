"""What a record says alone can refuse it, with a message to act on; it never sees what another record says."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ontology.shapes
from ontology.facts import RDF, RDFS, SH, XSD, Facts, statement
from ontology.graph import parse_turtle
from ontology.shapes import Shapes, ShapesError
from ontology.vocabulary import Vocabulary

NS = "https://shop.example/ns#"
HEAD = f"""
@prefix : <{NS}> . @prefix sh: <{SH}> . @prefix xsd: <{XSD}> . @prefix rdfs: <{RDFS}> .
@prefix gt: <https://w3id.org/graphtide/ns#> . @prefix rdf: <{RDF}> .
"""


def shapes(text: str, vocabulary: Vocabulary | None = None) -> Shapes:
    return Shapes([("shapes.ttl", HEAD + text)], vocabulary)


def hierarchy(tmp_path, text: str) -> Vocabulary:
    path = tmp_path / "classes.ttl"
    path.write_text(HEAD + text, encoding="utf-8")
    return Vocabulary.load([path])


def record(number: int, *statements: str) -> Facts:
    text = " ".join(statements)
    said = frozenset(statement(triple) for triple in parse_turtle(HEAD + text, "facts"))
    return Facts(f"urn:record:{number}", said, f"file.csv:{number}")


SHOP = """
:CrateShape a sh:NodeShape ; sh:targetClass :Crate ; rdfs:label "Crates" ;
  sh:property [ sh:path rdfs:label ; sh:minCount 1 ; sh:datatype xsd:string ] ;
  sh:property [ sh:path :kind ; sh:in ( "wood" "steel" ) ] ;
  sh:property [ sh:path :kg ; sh:datatype xsd:integer ; sh:minInclusive 1 ; sh:maxCount 1 ] ;
  sh:property [ sh:path :note ; sh:minCount 1 ; sh:severity sh:Warning ] ;
  sh:property [ sh:path :code ; sh:pattern "^[A-Z]+$" ; sh:message "A code is capitals, not {$value}." ] ;
  sh:property [ sh:path :in ; sh:class :Room ; sh:nodeKind sh:IRI ] .
"""
GOOD = ':a a :Crate ; rdfs:label "A" ; :kind "wood" ; :kg 5 ; :note "n" ; :code "X" ; :in :r .'


def messages(found) -> list[str]:
    return [violation.message for violation in found]


def test_a_record_that_conforms_is_passed_without_a_word():
    assert shapes(SHOP).local([record(1, GOOD)]) == []


def test_a_finding_names_record_place_shape_value_and_what_was_wanted():
    (found,) = shapes(SHOP).local([record(1, GOOD), record(2, GOOD.replace(":a ", ":b ").replace('"wood"', '"wod"'))])

    assert found.record == "urn:record:2" and found.locator == "file.csv:2"
    assert (found.focus, found.path, found.value) == (f"{NS}b", f"{NS}kind", '"wod"')
    assert (found.shape, found.severity) == (f"{NS}CrateShape", "Violation")
    assert found.constraint == f"{SH}InConstraintComponent"
    assert found.message == f"<{NS}kind> is 'wod', not one of 'wood', 'steel'. Did you mean 'wood'?"


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('rdfs:label "A" ;', "", "It has no rdfs:label."),
        ('rdfs:label "A"', 'rdfs:label "A"@en', "is 'A'@en, not xsd:string."),
        (":kg 5", ":kg 0", "is 0, where at least 1 is wanted."),
        (":kg 5", ":kg 5, 6", "It has more than 1 value of"),
        (':code "X"', ':code "x"', "A code is capitals, not 'x'."),
        (":in :r", ':in "r"', "is 'r', not an IRI."),
    ],
)
def test_each_finding_says_what_is_wrong(before, after, message):
    (found,) = shapes(SHOP).local([record(1, GOOD.replace(before, after))])

    assert message in found.message


def test_a_warning_is_told_and_does_not_refuse():
    (found,) = shapes(SHOP).local([record(1, GOOD.replace(':note "n" ;', ""))])

    assert found.severity == "Warning" and not found.refuses


def test_what_needs_other_records_is_not_asked_of_one():
    wide = """
    :S a sh:NodeShape ; sh:targetClass :Crate ;
      sh:property [ sh:path :in ; sh:class :Room ] ;
      sh:property [ sh:path [ sh:inversePath :holds ] ; sh:minCount 1 ] ;
      sh:property [ sh:path ( :in :floor ) ; sh:minCount 1 ] ;
      sh:property [ sh:path :in ; sh:node [ sh:property [ sh:path :floor ; sh:minCount 1 ] ] ] ;
      sh:sparql [ sh:select "SELECT $this { $this ?p ?o }" ] .
    """
    found = shapes(wide)

    assert found.local([record(1, ":a a :Crate ; :in :r .")]) == []
    assert [(root.local, root.wide) for root in found.roots] == [(False, True)]


def test_a_choice_between_datatypes_is_a_records_own_affair():
    found = shapes(":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :d ;"
                   " sh:or ( [ sh:datatype xsd:date ] [ sh:datatype xsd:dateTime ] ) ] .")  # fmt: skip

    assert [(root.local, root.wide) for root in found.roots] == [(True, False)]
    assert found.local([record(1, ':a a :A ; :d "2020-01-01"^^xsd:date .')]) == []
    assert len(found.local([record(1, ':a a :A ; :d "soon" .')])) == 1


def test_a_subclass_is_checked_as_its_class_is(tmp_path):
    found = shapes(SHOP, hierarchy(tmp_path, ":Box rdfs:subClassOf :Crate . :Tin rdfs:subClassOf :Box ."))

    assert messages(found.local([record(1, ':a a :Tin ; :note "n" .')])) == ["It has no rdfs:label."]
    assert shapes(SHOP).local([record(1, ":a a :Tin .")]) == []


def test_a_shape_finds_its_nodes_by_class_node_and_property():
    text = """
    :S a sh:NodeShape ; sh:targetNode :special ; sh:targetSubjectsOf :kg ;
      sh:property [ sh:path rdfs:label ; sh:minCount 1 ] .
    :Own a sh:NodeShape, rdfs:Class ; sh:property [ sh:path :x ; sh:minCount 1 ] .
    """
    found = shapes(text).local([record(1, ":special :p 1 . :b :kg 1 . :c :p 1 . :d a :Own .")])

    assert [violation.focus for violation in found] == [f"{NS}b", f"{NS}d", f"{NS}special"]


def test_integer_types_the_store_does_not_keep_are_checked_as_what_it_keeps():
    found = shapes(
        ":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :n ; sh:datatype xsd:int ; sh:in ( 01 2 ) ] ."
    )

    assert found.local([record(1, ':a a :A ; :n "1"^^xsd:int .')]) == []
    assert len(found.local([record(1, ':a a :A ; :n "one" .')])) == 2


def test_a_deactivated_shape_says_nothing():
    assert shapes(SHOP.replace('rdfs:label "Crates"', "sh:deactivated true")).local([record(1, ":a a :Crate .")]) == []


def test_pyshacl_is_not_called_when_no_shape_is_about_the_records(monkeypatch):
    found = shapes(SHOP)
    monkeypatch.setattr(Shapes, "_run", lambda *args: pytest.fail("it was called"))

    assert found.local([record(1, ':a a :Other ; rdfs:label "x" .'), record(2, GOOD)]) == []


lines = st.sampled_from([
    "a :Crate", 'rdfs:label "A"', 'rdfs:label "B"@en', ':kind "wood"', ':kind "wod"', ":kg 5", ":kg 6", ":kg 0",
    ':kg "x"', ':note "n"', ':code "X"', ':code "x"', ":in :r", ':in "r"',
])  # fmt: skip
subjects = st.sampled_from([":a", ":b"])
bodies = st.lists(st.tuples(subjects, lines), max_size=8).map(
    lambda pairs: " ".join(f"{s} {line} ." for s, line in pairs)
)


@settings(max_examples=60)
@given(st.lists(bodies, min_size=1, max_size=5), st.randoms())
def test_records_checked_together_are_found_as_each_is_found_alone(texts, random):
    found = shapes(SHOP)
    records = [record(number, text) for number, text in enumerate(texts)]
    alone = [violation for one in records for violation in found.local([one])]

    assert found.local(records) == alone
    shuffled = records[:]
    random.shuffle(shuffled)
    assert sorted(found.local(shuffled), key=repr) == sorted(alone, key=repr)


def broken(text: str) -> ShapesError:
    with pytest.raises(ShapesError) as caught:
        shapes(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (":S a sh:NodeShape ; sh:targetClass :A", "not Turtle"),
        (
            ":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:minCont 1 ] .",
            "sh:minCont is not a term of SHACL. Did you mean sh:minCount?",
        ),
        (
            ":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:datatype xsd:date, xsd:string ] .",
            "at most one sh:datatype",
        ),
        (":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:pattern '(' ] .", "unterminated"),
        (":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:minCount 1 ] .", ""),
        (":S a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:minCount 'one' ] .", ""),
        (":S a sh:PropertyShape ; sh:targetClass :A .", "sh:path"),
    ],
)
def test_a_malformed_shape_names_its_file_and_the_reason(text, reason):
    found = broken(text)

    assert found.path == "shapes.ttl"
    assert reason in found.reason


def test_the_malformed_file_is_the_one_that_is_named(tmp_path):
    good, bad = tmp_path / "good.ttl", tmp_path / "bad.ttl"
    good.write_text(HEAD + SHOP, encoding="utf-8")
    bad.write_text(
        HEAD + ":T a sh:NodeShape ; sh:targetClass :A ; sh:property [ sh:path :p ; sh:pattern '(' ] .", encoding="utf-8"
    )

    with pytest.raises(ShapesError, match=r"bad\.ttl"):
        Shapes.load([bad, good])


def test_names_are_the_shapes_a_person_wrote_with_their_labels():
    assert (f"{NS}CrateShape", "Crates") in shapes(SHOP).names()
    assert ("https://w3id.org/graphtide/ns#EvidenceShape", "Evidence speaks of one triple") in Shapes.load().names()


def test_a_version_changes_with_shapes_and_with_the_class_hierarchy(tmp_path):
    first = shapes(SHOP).version

    assert first == shapes(SHOP).version
    assert first != shapes(SHOP.replace("minInclusive 1", "minInclusive 2")).version
    assert first != shapes(SHOP, hierarchy(tmp_path, ":Box rdfs:subClassOf :Crate .")).version


def test_our_own_shapes_want_labels_and_whole_evidence():
    found = Shapes.load(vocabulary=Vocabulary.load())
    unnamed = found.local([record(1, ":a a gt:PullRequest .")])
    evidence = found.local([record(2, ":e a gt:Evidence ; rdf:subject :a ; rdf:predicate :p ; gt:confidence 1.5 .")])

    assert [(v.severity, v.shape.rsplit("#")[-1]) for v in unnamed] == [("Warning", "NamedShape")]
    assert sorted(messages(evidence)) == ["A confidence is a decimal from 0 to 1.", "It has no rdf:object."]
    assert (
        found.local(
            [record(3, ":e a gt:Evidence ; rdf:subject :a ; rdf:predicate :p ; rdf:object 1 ; gt:confidence 0.5 .")]
        )
        == []
    )


def test_a_thousand_good_records_cost_less_than_a_tenth_of_a_second_and_one_bad_one_some_milliseconds():
    found = shapes(SHOP)
    good = [record(1, GOOD)] * 1000
    bad = [record(1, ":a a :Crate .")]
    found.local(bad)

    started = time.perf_counter()
    found.local(good)
    many = time.perf_counter() - started
    started = time.perf_counter()
    found.local(bad)
    one = time.perf_counter() - started

    assert many < 1.0 and one < 0.5  # 15 ms and 1.5 ms on a quiet machine; the bounds are for a busy one


def test_records_of_one_subject_are_judged_apart_in_bounded_rounds():
    found = shapes(SHOP)
    records = [record(number, f':a a :Crate ; :note "n" ; :kg {number} .') for number in range(30)]

    assert [violation.record for violation in found.local(records)] == [
        violation.record for one in records for violation in found.local([one])
    ]
    assert ontology.shapes.CHUNK >= 100


def test_a_text_with_a_direction_is_checked_by_its_language():
    said = {f"<{NS}a> <{RDF}type> <{NS}Crate>", f'<{NS}a> <{NS}note> "n"@ar--rtl', f'<{NS}a> <{RDFS}label> "x"@ar--rtl'}

    (found,) = shapes(SHOP).local([Facts("urn:r", frozenset(said), "here:1")])

    assert found.path == f"{RDFS}label" and "not xsd:string" in found.message
