"""A misspelt term of a loaded vocabulary is refused with the nearest names; everybody else's terms are let be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, parse

from ontology.facts import GT, PROV, RDF, RDFS, XSD, Facts
from ontology.graph import TurtleError
from ontology.vocabulary import BUILTIN, OWL, UNKNOWN_TERM, UNOWNED_TERM, Vocabulary

SHOP = "https://shop.example/ns#"
TURTLE = f"""
@prefix shop: <{SHOP}> . @prefix owl: <{OWL}> . @prefix rdfs: <{RDFS}> . @prefix gt: <{GT}> .
<https://shop.example/ns> a owl:Ontology .
shop:Crate a owl:Class ; rdfs:subClassOf shop:Box .
shop:Box a owl:Class ; rdfs:subClassOf gt:Note .
shop:weight a owl:DatatypeProperty .
<https://elsewhere.example/Country> a owl:Class .
"""


@pytest.fixture
def shop(tmp_path):
    path = tmp_path / "shop.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return path


def said(*pairs: tuple[str, str]) -> Facts:
    lines = {f"<urn:a> <{predicate}> {value}" for predicate, value in pairs}
    return Facts("urn:g", frozenset(lines), "file.csv:7")


def test_a_misspelt_property_is_refused_with_the_nearest_names(shop):
    found = Vocabulary.load([shop]).check(said((f"{SHOP}wieght", '"5"')))

    assert [(v.constraint, v.severity, v.path, v.locator) for v in found] == [
        (UNKNOWN_TERM, "Violation", f"{SHOP}wieght", "file.csv:7")
    ]
    assert found[0].message == f"shop:wieght is not a property of <{SHOP}>. Did you mean shop:weight?"


def test_a_misspelt_class_is_refused_with_the_nearest_names(shop):
    found = Vocabulary.load([shop]).check(said((f"{RDF}type", f"<{GT}service>")))

    assert [v.value for v in found] == [f"<{GT}service>"]
    assert "gt:service is not a class" in found[0].message and "gt:Service" in found[0].message


def test_terms_that_are_declared_pass(shop):
    facts = said((f"{RDF}type", f"<{SHOP}Crate>"), (f"{SHOP}weight", '"5"'), (f"{GT}dependsOn", "<urn:b>"))

    assert Vocabulary.load([shop]).check(facts) == []


def test_well_known_terms_need_no_vocabulary_even_when_it_is_closed(shop):
    names = [f"{RDFS}label", f"{RDF}value", f"{RDF}_1", f"{PROV}wasDerivedFrom", f"{OWL}sameAs"]
    names += ["http://purl.org/dc/terms/title", "http://www.w3.org/2004/02/skos/core#prefLabel"]
    names += ["https://schema.org/name", "http://xmlns.com/foaf/0.1/name"]
    facts = said(*((name, '"x"') for name in names), (f"{RDF}type", f"<{RDFS}Class>"))

    assert Vocabulary.load([shop], closed=True).check(facts) == []


def test_a_namespace_nobody_owns_is_listed_once_and_accepted(shop):
    facts = said(("https://other.example/a", '"1"'), ("https://other.example/b", '"1"'), ("urn:other:c", '"1"'))

    found = Vocabulary.load([shop]).check(facts)

    assert [(v.constraint, v.severity) for v in found] == [(UNOWNED_TERM, "Info")] * 2


def test_a_namespace_nobody_owns_refuses_when_the_vocabulary_is_closed(shop):
    found = Vocabulary.load([shop], closed=True).check(said(("https://other.example/a", '"1"')))

    assert [v.severity for v in found] == ["Violation"]
    assert 'vocabulary = "open"' in found[0].message


def test_a_file_that_names_its_ontology_owns_that_namespace_and_no_other(shop):
    vocabulary = Vocabulary.load([shop])

    assert vocabulary.owns(f"{SHOP}anything") and not vocabulary.owns("https://elsewhere.example/City")


def test_a_file_that_names_no_ontology_owns_the_namespaces_it_declares_terms_in(tmp_path):
    path = tmp_path / "plain.ttl"
    path.write_text(f"<{SHOP}a> a <{RDF}Property> . <{RDFS}extra> a <{RDF}Property> .", encoding="utf-8")
    vocabulary = Vocabulary.load([path])

    assert vocabulary.owns(f"{SHOP}b") and not vocabulary.owns(f"{RDFS}label")


def test_terms_of_directly_mapped_tables_declare_themselves():
    vocabulary = Vocabulary.load(closed=True, open_namespaces=["https://x.example/def/"])

    assert vocabulary.check(said(("https://x.example/def/any_column", '"1"'))) == []


def test_superclasses_reach_across_vocabularies(shop):
    above = Vocabulary.load([shop]).superclasses[f"{SHOP}Crate"]

    assert {f"{SHOP}Crate", f"{SHOP}Box", f"{GT}Note", f"{PROV}Entity"} <= above


def test_a_version_changes_with_text_and_with_closing(shop):
    first = Vocabulary.load([shop]).version
    assert first == Vocabulary.load([shop]).version != Vocabulary.load([shop], closed=True).version

    shop.write_text(TURTLE + "shop:height a owl:DatatypeProperty .", encoding="utf-8")
    assert Vocabulary.load([shop]).version != first


def test_a_vocabulary_that_is_not_turtle_names_file_and_line(tmp_path):
    path = tmp_path / "bad.ttl"
    path.write_text("@prefix a: <urn:a:> .\na:b a:c .\n", encoding="utf-8")

    with pytest.raises(TurtleError, match=r"bad\.ttl:2: it is not Turtle") as caught:
        Vocabulary.load([path])
    assert caught.value.line == 2


def test_a_vocabulary_that_is_missing_says_so(tmp_path):
    with pytest.raises(TurtleError, match="none.ttl: it cannot be read"):
        Vocabulary.load([tmp_path / "none.ttl"])


CORE = (
    "Service Database Cache Queue Team Person Repository Issue PullRequest Commit File Module Class Function Note "
    "Evidence dependsOn uses calls owns definedIn inherits imports authored reported assignedTo closes references "
    "mentions confidence inScope source scope locator hash added removed changed record cursor plan held commit"
)


def test_our_vocabulary_has_every_core_term_labelled_and_explained():
    triples = [quad.triple for quad in parse(BUILTIN.read_bytes(), format=RdfFormat.TURTLE)]
    about = {}
    for triple in triples:
        about.setdefault(triple.subject.value, set()).add(triple.predicate.value)
    ours = {name: found for name, found in about.items() if name.startswith(GT)}

    assert {GT + name for name in CORE.split()} <= set(ours)
    assert [name for name, found in ours.items() if not {f"{RDFS}label", f"{RDFS}comment", f"{RDF}type"} <= found] == []


def test_our_vocabulary_is_aligned_to_the_ones_people_know():
    text = BUILTIN.read_text(encoding="utf-8")
    triples = [quad.triple for quad in parse(text, format=RdfFormat.TURTLE)]
    joins = (f"{RDFS}subClassOf", f"{RDFS}subPropertyOf")
    above = {triple.object.value for triple in triples if triple.predicate.value in joins}

    spaces = ("http://www.w3.org/ns/org#", "http://usefulinc.com/ns/doap#", "https://schema.org/")
    wanted = (PROV, "http://www.w3.org/ns/dcat#", *spaces)
    assert [space for space in wanted if not any(name.startswith(space) for name in above)] == []
    assert "http://www.w3.org/2004/02/skos/core#" in text
    uses = {triple.subject.value for triple in triples if str(triple.object) == f"<{GT}dependsOn>"}
    assert {f"{GT}uses", f"{GT}calls"} <= uses
    assert f"{XSD}decimal" in {t.object.value for t in triples if t.subject.value == f"{GT}confidence"}


ROOMS = ("sources", "ontology", "transforms", "sparql", "graphtide", "dagster_project")
_USED = re.compile(r"""(?:\bGT \+ f?["']|\{GT\}|graphtide/ns#)([A-Za-z]+)""")


def test_every_term_of_ours_that_the_code_writes_is_in_our_vocabulary():
    terms = Vocabulary.load().terms
    root = Path(__file__).parents[1]
    used = {
        (name, path.name)
        for room in ROOMS
        for path in (root / room).rglob("*.py")
        for name in _USED.findall(path.read_text(encoding="utf-8"))
    }

    assert [(name, where) for name, where in sorted(used) if GT + name not in terms and name != "shape"] == []
