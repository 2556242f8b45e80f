from __future__ import annotations

import datetime
import decimal
import io

import openpyxl
import polars
import pytest

from sources.files import FilesSource
from sources.record import ReadError


def read(tmp_path, name: str, content: str | bytes, **options):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    batch = FilesSource("s", tmp_path, [name], **options).read_scope(name, None)
    return [(r.key, r.locator, dict(r.data)) for r in batch.records], batch.notes


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_is_found(tmp_path, delimiter):
    text = f"id{delimiter}text\n1{delimiter}a, b; c\n2{delimiter}d\n".replace("a, b; c", '"a, b; c|d"')
    found, _ = read(tmp_path, "x.csv", text, key="id")
    assert [(key, data["text"]) for key, _, data in found] == [("1", "a, b; c|d"), ("2", "d")]


def test_a_delimiter_can_be_set(tmp_path):
    found, _ = read(tmp_path, "x.csv", "id:a,b\n1:2,3\n", key="id", delimiter=":")
    assert found == [("1", "x.csv:2", {"id": "1", "a,b": "2,3"})]


def test_the_line_that_tells_excel_the_delimiter_is_no_header(tmp_path):
    found, _ = read(tmp_path, "x.csv", "sep=;\nid;a\n1;2\n", key="id")
    assert found == [("1", "x.csv:3", {"id": "1", "a": "2"})]


def test_a_tsv_is_split_at_tabs_only(tmp_path):
    found, _ = read(tmp_path, "x.tsv", "id\ta,b\n1\t2,3\n", key="id")
    assert found == [("1", "x.tsv:2", {"id": "1", "a,b": "2,3"})]


def test_columns_of_one_name_or_none_are_told_apart_and_noted(tmp_path):
    found, notes = read(tmp_path, "x.csv", "id,x,x,\n1,2,3,4\n", key="id")
    assert found[0][2] == {"id": "1", "x": "2", "x_2": "3", "column_4": "4"}
    assert notes == (
        "x.csv:1: column 3 is a second 'x'; it is called 'x_2' here",
        "x.csv:1: column 4 has no name; it is called 'column_4' here",
    )


def test_a_quoted_value_may_hold_everything(tmp_path):
    found, _ = read(tmp_path, "x.csv", 'id,t\r\n1,"a ""b"", c\r\nd"\r\n2,\r\n', key="id")
    assert [(place, data["t"]) for _, place, data in found] == [("x.csv:2", 'a "b", c\r\nd'), ("x.csv:4", "")]


def test_a_long_text_in_a_cell_is_no_error(tmp_path):
    found, _ = read(tmp_path, "x.csv", "id,t\n1," + "x" * 300_000 + "\n", key="id")
    assert len(found[0][2]["t"]) == 300_000


def test_json_keeps_its_types_and_names_the_path(tmp_path):
    text = '{"data": {"items": [{"id": 7, "ok": true, "x": 1.5, "none": null, "l": [1, {"a": 2}]}, {"id": 8}]}}'
    for path in ("data.items", "$.data.items[*]", "$.data.items", "data['items']"):
        found, _ = read(tmp_path, "x.json", text, key="id", record_path=path)
        assert found == [
            (
                "7",
                "x.json#$.data.items[0]",
                {"id": 7, "ok": True, "x": 1.5, "none": None, "l": [1, {"a": 2}]},
            ),
            ("8", "x.json#$.data.items[1]", {"id": 8}),
        ]


def test_members_of_an_object_are_keyed_by_their_name(tmp_path):
    text = '{"services": {"web": {"port": 80}, "db.main": {"port": 5432}}}'
    found, notes = read(tmp_path, "x.json", text, record_path="services.*")
    assert found == [
        ("web", "x.json#$.services.web", {"port": 80, "$key": "web"}),
        ("db.main", "x.json#$.services['db.main']", {"port": 5432, "$key": "db.main"}),
    ]
    assert notes == ()


def test_a_json_list_is_its_elements_and_an_object_is_one_record(tmp_path):
    assert [d for _, _, d in read(tmp_path, "l.json", '[{"a": 1}, 2]')[0]] == [{"a": 1}, {"value": 2}]
    assert [d for _, _, d in read(tmp_path, "o.json", '{"a": 1}')[0]] == [{"a": 1}]
    assert read(tmp_path, "e.json", "[]")[0] == []


def test_a_record_path_into_every_list_reads_them_all(tmp_path):
    text = '{"teams": [{"people": [{"id": 1}]}, {"people": [{"id": 2}, {"id": 3}]}]}'
    found, _ = read(tmp_path, "x.json", text, key="id", record_path="teams[*].people")
    assert [(key, place) for key, place, _ in found] == [
        ("1", "x.json#$.teams[0].people[0]"),
        ("2", "x.json#$.teams[1].people[0]"),
        ("3", "x.json#$.teams[1].people[1]"),
    ]


def test_a_record_path_that_leads_nowhere_says_what_is_there(tmp_path):
    with pytest.raises(ReadError) as wrong:
        read(tmp_path, "x.json", '{"shift": []}', record_path="shifts")
    assert str(wrong.value) == "x.json#$: is an object without 'shifts'; it has 'shift'. Correct record_path."


def test_a_key_may_lie_deeper_and_a_key_that_is_a_list_is_a_problem(tmp_path):
    (tmp_path / "x.json").write_text('[{"meta": {"id": 1}}, {"meta": {"id": [2]}}, {"meta": 3}]')
    batch = FilesSource("s", tmp_path, ["x.json"], key="meta.id").read_scope("x.json", None)
    assert [(r.key, r.problem) for r in batch.records] == [
        ("1", ""),
        ("@$[1]", "its key 'meta.id' is a list, not one value. Choose another key."),
        ("@$[2]", "its key 'meta.id' is empty. Give the row a value there, or choose another key."),
    ]


@pytest.mark.parametrize("name", ["x.jsonl", "x.ndjson"])
def test_json_lines_are_a_record_a_line(tmp_path, name):
    found, _ = read(tmp_path, name, '{"id": "a"}\n\n{"id": "b", "n": 2}\n', key="id")
    assert found == [("a", f"{name}:1", {"id": "a"}), ("b", f"{name}:3", {"id": "b", "n": 2})]


def test_yaml_records_name_their_line_and_keep_their_types(tmp_path):
    text = "teams:\n  - name: Web\n    since: 2020-01-02\n    size: 3\n  - &x\n    name: Data\n    lead: ~\n"
    found, _ = read(tmp_path, "x.yaml", text, key="name", record_path="teams")
    assert found == [
        ("Web", "x.yaml:2", {"name": "Web", "since": datetime.date(2020, 1, 2), "size": 3}),
        ("Data", "x.yaml:5", {"name": "Data", "lead": None}),
    ]


def test_yaml_words_and_times_stay_what_they_look_like(tmp_path):
    text = "country: NO\nat: 12:30:45\nmode: 010\nok: true\nx: 1e3\nhex: 0x10\nempty:\n1: one\n"
    ((_, _, data),), _ = read(tmp_path, "x.yml", text)
    assert data == {
        "country": "NO",
        "at": "12:30:45",
        "mode": 10,
        "ok": True,
        "x": 1000.0,
        "hex": 16,
        "empty": None,
        "1": "one",
    }


def test_yaml_anchors_merges_and_documents_are_followed(tmp_path):
    text = "base: &b {port: 80}\nservices:\n  web: {<<: *b, name: web}\n---\nservices:\n  db: {port: 1}\n"
    found, _ = read(tmp_path, "x.yaml", text, record_path="services.*")
    assert found == [
        ("web", "x.yaml:3", {"port": 80, "name": "web", "$key": "web"}),
        ("db", "x.yaml:6", {"port": 1, "$key": "db"}),
    ]


def test_an_xml_record_is_an_element_at_the_path(tmp_path):
    text = """<?xml version="1.0"?>
<c:catalog xmlns:c="urn:c" xmlns="urn:d">
  <c:book id="1" c:lang="en"><title>One</title><by>A</by><by>B</by><note/></c:book>
  <other/>
  <c:book id="2"><title short="yes">Two</title></c:book>
</c:catalog>"""
    for path in ("/catalog/book", "catalog.book"):
        found, _ = read(tmp_path, "x.xml", text, key="@id", record_path=path)
        assert found == [
            ("1", "x.xml:3", {"@id": "1", "@lang": "en", "title": "One", "by": ["A", "B"], "note": ""}),
            ("2", "x.xml:5", {"@id": "2", "title": {"@short": "yes", "#text": "Two"}}),
        ]


def test_xml_without_a_path_is_the_children_of_its_root(tmp_path):
    found, _ = read(tmp_path, "x.xml", "<r><a><id>1</id></a><b>text</b></r>")
    assert [data for _, _, data in found] == [{"id": "1"}, {"value": "text"}]


def test_xml_says_its_own_encoding(tmp_path):
    text = '<?xml version="1.0" encoding="ISO-8859-1"?><r><a>Käse</a></r>'
    assert read(tmp_path, "x.xml", text.encode("latin-1"))[0][0][2] == {"value": "Käse"}
    assert read(tmp_path, "y.xml", "<r><a>Käse</a></r>".encode("utf-16"))[0][0][2] == {"value": "Käse"}


def test_parquet_keeps_its_types(tmp_path):
    frame = polars.DataFrame(
        {
            "id": [1, 2],
            "amount": [decimal.Decimal("1.10"), None],
            "at": [datetime.datetime(2024, 1, 2, 3), None],
            "on": [datetime.date(2024, 1, 2), None],
            "tags": [["a", "b"], []],
            "where": [{"city": "X"}, {"city": None}],
            "raw": [b"\x00\x01", None],
            "took": [datetime.timedelta(days=1, seconds=2, microseconds=500_000), None],
        }
    )
    out = io.BytesIO()
    frame.write_parquet(out)
    found, _ = read(tmp_path, "x.parquet", out.getvalue(), key="id")
    assert found[0] == (
        "1",
        "x.parquet#1",
        {
            "id": 1,
            "amount": decimal.Decimal("1.10"),
            "at": datetime.datetime(2024, 1, 2, 3),
            "on": datetime.date(2024, 1, 2),
            "tags": ["a", "b"],
            "where": {"city": "X"},
            "raw": "AAE=",
            "took": "P1DT2.5S",
        },
    )
    assert found[1][2]["amount"] is None


def workbook(fill) -> bytes:
    book = openpyxl.Workbook()
    fill(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def test_excel_rows_name_sheet_and_row_and_keep_their_types(tmp_path):
    def fill(book):
        sheet = book.active
        sheet.title = "People"
        for cell, value in {
            "B3": "id", "C3": "name", "D3": "born", "E3": "score",
            "B4": 1, "C4": "Ada", "D4": datetime.date(1990, 1, 2), "E4": 1.5,
            "B6": 2, "C6": "Bo", "E6": 2,
        }.items():  # fmt: skip
            sheet[cell] = value
        book.create_sheet("Other").append(["id"])
        book["Other"].append([9])

    content = workbook(fill)
    found, _ = read(tmp_path, "x.xlsx", content, key="id")
    assert found == [
        ("1", "x.xlsx#People:4", {"id": 1, "name": "Ada", "born": datetime.datetime(1990, 1, 2), "score": 1.5}),
        ("2", "x.xlsx#People:6", {"id": 2, "name": "Bo", "born": None, "score": 2}),
    ]
    found, _ = read(tmp_path, "x.xlsx", content, key="id", sheet="Other")
    assert found == [("9", "x.xlsx#Other:2", {"id": 9})]
    with pytest.raises(ReadError, match="has no sheet 'Nope'; it has 'People', 'Other'"):
        read(tmp_path, "x.xlsx", content, sheet="Nope")


def test_a_format_can_be_set_where_the_ending_tells_none(tmp_path):
    assert read(tmp_path, "x.txt", "id\n1\n", format="csv", key="id")[0] == [("1", "x.txt:2", {"id": "1"})]
    with pytest.raises(ReadError, match="has no ending that tells its format. Set format"):
        read(tmp_path, "x.txt", "id\n1\n")
