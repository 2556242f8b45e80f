"""A draft can be read back and accepts the very data it was drafted from, whatever the data."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontology.graph import parse_turtle
from ontology.shapes import Shapes
from ontology.violation import VIOLATION
from ontology.vocabulary import Vocabulary
from sources.record import Record
from transforms.draft import Draft, Sample, draft
from transforms.mapping import compile_mapping

WEBSHOP = Path(__file__).parents[1] / "examples" / "webshop"


def sample(source: str, rows, path=None, **options) -> Sample:
    records = [Record(source, str(n), row, f"{source}:{n}") for n, row in enumerate(rows, start=2)]
    return Sample(source, path or f"{source}.csv", records, options)


def table(path: Path) -> Sample:
    with path.open(encoding="utf-8-sig", newline="") as file:
        return sample(path.stem, list(csv.DictReader(file)), path.name)


def accepts(made: Draft, samples, folder: Path) -> list[str]:
    """What the drafted settings, vocabulary and shapes refuse of the samples: nothing, if the draft is any good."""
    vocabulary_path, shapes_path = folder / "vocabulary.ttl", folder / "shapes.ttl"
    vocabulary_path.write_text(made.vocabulary, encoding="utf-8")
    shapes_path.write_text(made.shapes, encoding="utf-8")
    vocabulary = Vocabulary.load([vocabulary_path], closed=True)
    shapes = Shapes.load([shapes_path], vocabulary=vocabulary)
    toml = tomllib.loads(made.settings)
    refused = []
    for one in samples:
        spec = toml["sources"][one.source].get("map")
        if spec is None:
            continue
        mapping = compile_mapping(spec, source=one.source, base=toml["base"], prefixes=toml["prefixes"])
        facts = [mapping.facts(record) for record in one.records]
        found = shapes.local(facts) + [violation for said in facts for violation in vocabulary.check(said)]
        refused += [violation.message for violation in found if violation.severity == VIOLATION]
    return refused


def test_the_example_is_drafted_as_a_person_would_begin():
    samples = [table(WEBSHOP / name) for name in ("services.csv", "people.csv", "deployments.csv")]

    made = tomllib.loads(draft(samples, base="https://webshop.example/", prefix="shop").settings)

    services, deployments = made["sources"]["services"], made["sources"]["deployments"]
    assert services["key"] == "name" and services["path"] == "services.csv"
    assert services["map"]["class"] == "gt:Service" and services["map"]["iri"] == "service/{name}"
    assert services["map"]["columns"]["tier"] == {"property": "shop:tier", "datatype": "xsd:integer"}
    assert made["sources"]["people"]["map"]["columns"]["joined"]["datatype"] == "xsd:date"
    assert deployments["map"]["columns"]["service"] == {"property": "shop:service", "link": "service/{service}"}
    assert deployments["map"]["columns"]["version"] == "shop:version"


def test_real_tables_are_accepted_by_the_draft_made_of_them(shared, tmp_path):
    samples = [table(path) for path in sorted((shared / "acme" / "data").glob("*.csv"))]

    made = draft(samples, base="https://acme.example/", prefix="acme")

    assert accepts(made, samples, tmp_path) == []
    assert "Claim: 'Catastrophe_Identifier' is taken as a link to Catastrophe." in made.notes
    assert made == draft(samples, base="https://acme.example/", prefix="acme")


def test_a_column_of_keys_joined_by_a_mark_is_a_link_to_each():
    services = sample(
        "services",
        [{"name": "web", "needs": "db; cache"}, {"name": "db", "needs": ""}, {"name": "cache", "needs": "db"}],
    )

    columns = tomllib.loads(draft([services]).settings)["sources"]["services"]["map"]["columns"]

    assert columns["needs"] == {"property": "my:needs", "link": "service/{needs}", "split": ";"}


def test_few_values_are_drafted_as_the_ones_allowed_and_only_warned_of():
    rows = [{"id": str(n), "state": ("open", "closed")[n % 2]} for n in range(40)]

    made = draft([sample("tasks", rows)])

    assert 'sh:severity sh:Warning ; sh:minCount 1 ; sh:in ( "closed" "open" )' in made.shapes
    parse_turtle(made.shapes, "shapes")


def test_an_rdf_source_needs_no_map_and_an_empty_one_has_none_yet():
    rdf = sample("facts", [{"statements": ["<urn:a> <urn:b> <urn:c>"]}], "facts.ttl")
    made = draft([rdf, sample("later", [])])

    sources = tomllib.loads(made.settings)["sources"]
    assert sources == {"facts": {"path": "facts.ttl"}, "later": {"path": "later.csv"}}
    assert parse_turtle(made.shapes, "shapes") == []


def test_options_of_a_source_are_written_as_they_were_found():
    made = draft([sample("x", [{"a": "1"}], ["b/*.csv", 'c"d.csv'], delimiter="\t", encoding="utf-16", key=["a"])])

    source = tomllib.loads(made.settings)["sources"]["x"]
    assert source["paths"] == ["b/*.csv", 'c"d.csv'] and source["delimiter"] == "\t" and source["key"] == ["a"]


names = st.one_of(
    st.sampled_from(
        ["id", "name", "Full Name", "owner.login", "zip", "tags", "Größe", "a-b", "a_b", "A B", "class", "1st"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6),
)
texts = st.one_of(
    st.sampled_from(["", " ", "x", "y", "007", "12", "-3", "1.50", "2020-01-31", "2020-02-30", "true", "https://a.example/x",
                     "https://a b", "NaN", "1e5", "2020-01-01T10:00", "x;y", "ünï", 'q"\\\n', "+4", "\x7f\x00"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
)  # fmt: skip
scalars = st.one_of(st.none(), st.booleans(), st.integers(-5, 10**20), st.floats(allow_nan=False, allow_infinity=False),
                    st.dates(), st.datetimes(), texts)  # fmt: skip
objects = st.dictionaries(st.sampled_from("ab"), scalars, max_size=2)
lists = st.one_of(
    st.lists(texts, max_size=3), st.lists(st.dictionaries(st.sampled_from("ab"), texts, max_size=1), max_size=2)
)
values = st.one_of(texts, texts, scalars, objects, lists)
sources = st.dictionaries(
    st.sampled_from(["services", "people", "Order Lines", "data/x", "ünï", "a.b", "class", "services2"]),
    st.lists(st.dictionaries(names, values, max_size=4), max_size=5),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60)
@given(sources)
def test_any_data_is_accepted_by_the_draft_made_of_it(tmp_path_factory, data):
    samples = [sample(source, rows) for source, rows in data.items()]

    made = draft(samples, base="https://x.example/", prefix="my")

    assert accepts(made, samples, tmp_path_factory.mktemp("draft")) == []


@pytest.mark.parametrize("base", ["http://localhost:8000/", "https://x.example/graph#", "https://x.example/a/"])
def test_a_draft_mints_its_words_under_the_base(base):
    made = draft([sample("rows", [{"id": "1"}])], base=base)

    assert tomllib.loads(made.settings)["prefixes"]["my"] == f"{base.rstrip('/#')}/ns#"
