"""A bad value names its field, value and place; a bad mapping names its key; both say what to write."""

from __future__ import annotations

import pytest

from sources.record import Record
from transforms.mapping import MappingError, SpecError, compile_mapping, python_mapping


def one(data, column="born", entry=None, **kind):
    spec = {"class": "x:Person", "iri": "person/{id}", "columns": {column: entry or "x:p"}, **kind}
    mapping = compile_mapping(spec, source="people", base="https://x.example/", prefixes={"x": "https://x.example/ns#"})
    return mapping.facts(Record("people", "1", {"id": "1", **data}, "people.csv:12"))


def refused(data, entry, column="born", **kind) -> str:
    with pytest.raises(MappingError) as caught:
        one(data, column, entry, **kind)
    return str(caught.value)


def typed(datatype: str) -> dict[str, str]:
    return {"property": "x:p", "datatype": f"xsd:{datatype}"}


def test_a_day_that_does_not_exist_says_what_to_write():
    assert refused({"born": "31/02/1990"}, typed("date")) == (
        "people.csv:12: 'born' is '31/02/1990', not a date. Write YYYY-MM-DD, or map it in mappings/people.py."
    )


@pytest.mark.parametrize(
    ("datatype", "value", "problem"),
    [
        ("date", "2023-02-29", "not a date"),
        ("date", "2023-02-01T10:00", "not a date"),
        ("dateTime", "yesterday", "not a date and time"),
        ("dateTime", "2023-01-01T25:00", "not a date and time"),
        ("time", "9am", "not a time"),
        ("integer", "1.5", "not a whole number"),
        ("integer", "1,000", "not a whole number"),
        ("integer", 1.5, "not a whole number"),
        ("nonNegativeInteger", "-1", "not a number of 0 or more"),
        ("byte", "128", "not a number from -128 to 127"),
        ("decimal", "1e3", "not a number"),
        ("double", "twelve", "not a number"),
        ("boolean", "maybe", "neither true nor false"),
        ("duration", "2 hours", "not a duration"),
        ("dayTimeDuration", "P1Y", "not a duration"),
        ("gYear", "99", "not a year"),
        ("string", {"a": 1}, "an object, not one value"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_type_it_is_not(datatype, value, problem):
    said = refused({"born": value}, typed(datatype))

    assert said.startswith("people.csv:12: 'born' is ") and f", {problem}." in said


def test_an_error_carries_what_a_quarantine_needs():
    with pytest.raises(MappingError) as caught:
        one({"born": "soon"}, entry=typed("date"))

    found = caught.value
    assert (found.locator, found.field, found.value) == ("people.csv:12", "born", "soon")


def test_a_bad_value_is_cut_short_when_it_is_long():
    assert len(refused({"born": "x" * 100_000}, typed("date"))) < 400


def test_one_bad_value_of_a_list_is_the_one_that_is_quoted():
    said = refused({"born": "1; 2; three"}, {**typed("integer"), "split": ";"})

    assert "'born' is 'three', not a whole number" in said


def test_a_record_without_what_its_iri_needs_is_refused_and_told_of_when():
    with pytest.raises(MappingError, match="'id' is ' ', empty, so 'person/{id}' makes no IRI.*add when = \"id\""):
        one({"id": " "})


def test_a_required_column_that_is_empty_refuses_the_record():
    assert "'born' is '', empty, though the mapping requires it" in refused({}, {"property": "x:p", "required": True})


def test_a_value_that_is_no_iri_is_refused_where_an_iri_is_wanted():
    assert "'born' is 'not one', not an absolute IRI" in refused({"born": "not one"}, {"property": "x:p", "iri": True})


def test_a_value_outside_its_table_of_values_names_those_it_knows():
    said = refused({"born": "z"}, {"property": "x:p", "values": {"o": "x:open", "c": "x:closed"}})

    assert "not one of 'o', 'c'" in said


def test_half_a_character_is_refused():
    assert "half a character" in refused({"born": "a\ud83d"}, "x:p")
    assert "half a character" in refused({"born": "a\ud83d"}, {"property": "x:p", "link": "y/{born}"})


@pytest.mark.parametrize(
    ("spec", "key", "reason"),
    [
        ({"clas": "x:A"}, "map.clas", "did you mean 'class'"),
        ({"class": "y:A"}, "map.class", "prefix 'y'"),
        ({"class": "Person"}, "map.class", "neither prefix:name nor an absolute IRI"),
        ({"class": "x:A", "iri": "a/{"}, "map.iri", "brace"),
        ({"class": "x:A", "iri": "a/{}"}, "map.iri", "empty field"),
        ({"class": "x:A", "iri": "nope:a/{id}"}, "map.iri", "prefix 'nope'"),
        ({"class": "x:A", "iri": "https://x y/{id}"}, "map.iri", "does not make an IRI"),
        ({"class": "x:A", "when": "tier = 1"}, "map.when", "cannot be read"),
        ({"class": "x:A", "when": "open('x')"}, "map.when", "is not a column"),
        ({"class": "x:A", "when": "a < b"}, "map.when", "not a quoted text, a number"),
        ({"columns": {"a": {"datatype": "xsd:date"}}}, "map.columns.a", "no property"),
        (
            {"columns": {"a": {"property": "x:p", "datatyp": "xsd:date"}}},
            "map.columns.a.datatyp",
            "did you mean 'datatype'",
        ),
        (
            {"columns": {"a": {"property": "x:p", "language": "english!"}}},
            "map.columns.a.language",
            "not a language tag",
        ),
        ({"columns": {"a": {"property": "x:p", "link": "team/x"}}}, "map.columns.a.link", "names no column"),
        (
            {"columns": {"a": {"property": "x:p", "link": "t/{a}", "language": "en"}}},
            "map.columns.a",
            "cannot be used together",
        ),
        ({"columns": {"a": {"property": "x:p", "split": ""}}}, "map.columns.a.split", "not the text between"),
        ({"columns": {"a": 3}}, "map.columns.a", "not a table"),
        ({"constants": [{"property": "x:p"}]}, "map.constants[0]", "needs a property and a value"),
        (
            {"constants": [{"property": "x:p", "value": "x", "datatype": "xsd:date"}]},
            "map.constants[0].value",
            "not a date",
        ),
        ({"null": 3}, "map.null", "words that mean nothing"),
        ({"iri": "a/{id}"}, "map", "says nothing"),
        ([], "map", "a table with class, iri and columns"),
        ("gt:Service", "map", "a table with class, iri and columns"),
    ],
)
def test_a_mapping_that_cannot_be_meant_names_its_key_and_the_reason(spec, key, reason):
    with pytest.raises(SpecError) as caught:
        compile_mapping(
            spec, source="s", base="https://x.example/", prefixes={"x": "https://x.example/ns#"}, where="map"
        )

    assert caught.value.key == key
    assert reason in caught.value.reason


def test_a_condition_runs_nothing_of_python():
    for text in (
        "__import__('os')",
        "a.__class__.__mro__ == 1 or (lambda: 1)()",
        "[x for x in y]",
        "f'{a}' == 'b'",
        "a" * 10**6 + "(",
    ):
        with pytest.raises(SpecError):
            compile_mapping({"class": "gt:A", "when": text}, source="s")


def test_a_column_the_data_lacks_is_a_note_with_the_nearest_and_not_a_stop():
    mapping = compile_mapping({"class": "gt:A", "iri": "a/{id}", "columns": {"naem": "rdfs:label"}}, source="people")
    data = {"id": "1", "name": "Ada"}

    assert mapping.absent(data, "people.csv") == [
        "people.csv has no column 'naem', which its mapping names. Did you mean 'name'?"
    ]
    assert len(mapping.facts(Record("people", "1", data, "people.csv:2")).statements) == 1


def test_a_python_mapping_that_fails_names_function_line_and_record():
    def person(record):
        yield record.data["born"]

    mapping = python_mapping(person, version="1", source="people", name="mappings/people.py:person")

    with pytest.raises(
        MappingError, match=r"people.csv:3: mappings/people.py:person failed at line \d+: KeyError: 'born'"
    ):
        mapping.facts(Record("people", "1", {}, "people.csv:3"))
