from __future__ import annotations

import io
import json
import struct
import time
import tracemalloc
import zipfile

import openpyxl
import polars
import pytest

from sources.files import FilesSource
from sources.limits import Limits
from sources.record import Moved, ReadError


def error(tmp_path, name: str, content: str | bytes, **options) -> str:
    """The one error that reading the file gives, found within two seconds."""
    file = tmp_path / name
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    started = time.monotonic()
    with pytest.raises(ReadError) as wrong:
        list(FilesSource("s", tmp_path, [name], **options).read_scope(name, None).records)
    assert not isinstance(wrong.value, Moved)
    assert time.monotonic() - started < 2
    return str(wrong.value)


def test_a_ragged_row_names_its_line_and_what_it_holds(tmp_path):
    assert error(tmp_path, "x.csv", 'id,name,team\n1,"A\nda",Web\n2,Bo\n') == (
        "x.csv:4: has 2 values ('2', 'Bo') where the header has 3 columns. "
        "Quote a value that holds the delimiter, or complete the row."
    )
    assert error(tmp_path, "x.csv", "id,name\n1,a\n2,b,c,d,e\n").startswith(
        "x.csv:3: has 5 values ('2', 'b', 'c', 'd', ...) where the header has 2 columns."
    )


def test_a_row_cut_short_at_the_end_is_ragged(tmp_path):
    assert error(tmp_path, "x.csv", "id,name,team\n1,Ada,Web\n2,B").startswith("x.csv:3: has 2 values")


def test_a_quote_that_never_closes_names_the_line_where_it_opens(tmp_path):
    rows = "".join(f"{n},x\n" for n in range(1000))
    assert error(tmp_path, "x.csv", 'id,name\n1,a\n2,"b\n' + rows) == (
        "x.csv:3: a quote that opens here never closes. Close it, or double a quote inside a value."
    )


def test_text_after_a_closing_quote_names_its_line(tmp_path):
    assert error(tmp_path, "x.csv", 'id,name\n1,"5" bolt\n') == (
        "x.csv:2: a closing quote is not followed by ','. Double a quote inside a value."
    )


def test_an_empty_table_is_an_error_and_not_a_deletion_of_its_rows(tmp_path):
    assert error(tmp_path, "x.csv", "") == (
        "x.csv:1: is empty; a table begins with its column names. Delete the file to retract its rows."
    )


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\xff", b"\xc3(", b"\xe2\x82", b"a\x81b"])
def test_bytes_that_are_not_utf_8_name_their_line(tmp_path, bad):
    text = error(tmp_path, "x.csv", b"id,name\n1,ok\n2," + bad + b"\n3,ok\n")
    assert text.startswith("x.csv:3: byte 0x"), text
    assert "is not UTF-8" in text


def test_one_bad_byte_in_a_file_that_is_utf_8_otherwise_is_not_guessed_away(tmp_path):
    text = error(tmp_path, "x.csv", "id,name\n1,Zoë\n2,Caf".encode() + b"\xe9\n")
    assert text == "x.csv:3: byte 0xE9 is not UTF-8. Save the file as UTF-8, or set encoding (such as 'cp1252')."
    late = "id,name\n1,Zoë\n".encode() + b"2,ok\n" * 500_000 + b"3,\xe9\n"
    assert error(tmp_path, "x.csv", late).startswith("x.csv:500003: byte 0xE9 is not UTF-8")
    early = b"id,name\n3,\xe9t\n" + b"2,ok\n" * 500_000 + "1,Zoë\n".encode()
    assert error(tmp_path, "x.csv", early).startswith("x.csv:2: byte 0xE9 is not UTF-8")


def test_a_declared_encoding_is_kept_to(tmp_path):
    assert error(tmp_path, "x.csv", b"id\nok\n\xe9\n", encoding="utf-8").startswith("x.csv:3: byte 0xE9 is not utf-8")
    assert error(tmp_path, "x.csv", "id\nä\n", encoding="ascii").startswith("x.csv:2: byte 0xC3 is not ascii")
    assert "encoding 'klingon' is not known" in error(tmp_path, "x.csv", "id\n", encoding="klingon")


def test_a_file_cut_in_the_middle_of_a_character_says_so(tmp_path):
    assert error(tmp_path, "x.csv", b"id,name\n1,Caf\xc3") == (
        "x.csv:2: ends in the middle of a character. It looks half-written."
    )


@pytest.mark.parametrize("name", ["x.json", "x.jsonl", "x.yaml", "x.csv"])
def test_bad_utf_8_names_file_and_line_in_every_text_format(tmp_path, name):
    assert error(tmp_path, name, b'{"id":\n"\xff"}\n').startswith(f"{name}:2: byte 0xFF is not UTF-8")


def test_a_binary_file_under_the_name_of_a_table_says_that_it_is_not_text(tmp_path):
    assert error(tmp_path, "x.csv", b"id,name\n1,\0\0\0\n") == (
        "x.csv:2: has a NUL byte, so it is not text. Set format if it is not text."
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[\n{"a": 1},\n{"a":', "x.json:3: is not JSON: Expecting value at column 6. It ends too soon"),
        ('[\n{"a": 1},\n{"a": "hal', "x.json:3: is not JSON: Unterminated string at column 7. A string"),
        ('[\n{"a": 1}\n', "x.json:3: is not JSON: Expecting ',' delimiter at column 1. It ends too soon"),
        ("", "x.json:1: is empty, which is not JSON. Write [] for no records."),
        ('[{"a": NaN}]', "x.json:1: is not JSON that can be read: NaN is no JSON number"),
    ],
)
def test_half_written_json_names_the_line_where_it_ends(tmp_path, text, said):
    assert error(tmp_path, "x.json", text).startswith(said)


def test_a_json_line_that_is_broken_names_itself(tmp_path):
    assert error(tmp_path, "x.jsonl", '{"a": 1}\n{"a": 2\n{"a": 3}\n').startswith("x.jsonl:2: is not JSON")


def test_half_a_character_in_json_is_a_problem_of_its_record_alone(tmp_path):
    (tmp_path / "x.json").write_text('[{"id": "1", "t": "\\ud83d\\ude00"}, {"id": "2", "t": ["\\ud83d"]}]')
    batch = FilesSource("s", tmp_path, ["x.json"], key="id").read_scope("x.json", None)
    assert [(r.key, r.problem) for r in batch.records] == [
        ("1", ""),
        ("2", "it holds '\\ud83d', which is half of a character. Write both halves, or the character itself."),
    ]


@pytest.mark.parametrize("depth", [150, 5_000, 400_000])
def test_json_that_nests_too_deep_names_the_line(tmp_path, depth):
    said = "x.json:2: nests deeper than max_depth (100). Raise max_depth under [limits]."
    assert error(tmp_path, "x.json", "\n" + "[" * depth + "]" * depth) == said


@pytest.mark.parametrize("depth", [150, 5_000, 400_000])
def test_yaml_that_nests_too_deep_names_the_line(tmp_path, depth):
    assert error(tmp_path, "x.yaml", "a: 1\nb: " + "[" * depth + "]" * depth).startswith("x.yaml:2: ")


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines) + "\n"


def test_a_yaml_bomb_names_the_line_where_it_grows_too_large(tmp_path):
    text = error(tmp_path, "x.yaml", bomb(20))
    assert text.startswith("x.yaml:7: its aliases would write out to more than max_nodes (2000000) values.")


def test_a_yaml_bomb_of_merge_keys_is_seen(tmp_path):
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 20)]
    assert "its aliases would write out" in error(tmp_path, "x.yaml", "\n".join(lines))


def test_a_yaml_alias_inside_itself_is_refused(tmp_path):
    assert error(tmp_path, "x.yaml", "a: 1\nb: &b [1, *b]\n") == (
        "x.yaml:2: an alias refers to what it is inside of. Records have no cycles."
    )


def test_yaml_never_builds_objects(tmp_path):
    text = error(tmp_path, "x.yaml", 'a: 1\nb: !!python/object/apply:os.system ["true"]\n')
    assert text.startswith("x.yaml:2: is not YAML: could not determine a constructor")


def test_broken_yaml_names_its_line(tmp_path):
    assert error(tmp_path, "x.yaml", "a: 1\nb: [1, 2\nc: 3\n").startswith("x.yaml:3: is not YAML: ")
    assert error(tmp_path, "x.yaml", "").startswith("x.yaml:1: is empty.")


def test_broken_xml_names_its_line(tmp_path):
    assert error(tmp_path, "x.xml", "<r>\n<a>1</a>\n<b>2</c>\n</r>") == "x.xml:3: is not XML: mismatched tag."
    assert error(tmp_path, "x.xml", "<r>\n<a>1</a>\n") == "x.xml:3: is not XML: no element found. Is it half-written?"


@pytest.mark.parametrize("name", ["x.xml", "x.rdf"])
def test_an_xml_entity_bomb_is_refused_at_its_declaration(tmp_path, name):
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">\n' for n in range(1, 10))
    text = f'<!DOCTYPE r [\n<!ENTITY a0 "aaaaaaaaaa">\n{entities}]>\n<r><x>&a9;</x></r>'
    assert error(tmp_path, name, text).startswith(f"{name}:{2 if name == 'x.xml' else 3}: declares the entity 'a")


def test_an_external_xml_entity_is_not_fetched(tmp_path):
    text = '<!DOCTYPE r [<!ENTITY e SYSTEM "file:///etc/passwd">]>\n<r><x>&e;</x></r>'
    assert "declares the entity 'e'" in error(tmp_path, "x.xml", text)


def test_xml_that_nests_too_deep_or_holds_too_much_names_the_line(tmp_path):
    assert error(tmp_path, "x.xml", "<r>\n" + "<a>" * 200_000).startswith("x.xml:2: nests deeper than max_depth")
    limits = Limits(max_record_bytes=1000)
    text = error(tmp_path, "x.xml", f"<r>\n<a>{'x' * 2000}</a></r>", limits=limits)
    assert text.startswith("x.xml:2: one record holds more than max_record_bytes (1000 bytes).")


def test_a_line_without_end_names_itself_in_bounded_memory(tmp_path):
    with open(tmp_path / "x.csv", "wb") as file:
        file.write(b"id,name\n1,ok\n2,")
        for _ in range(64):
            file.write(b"x" * (1 << 20))
    tracemalloc.start()
    with pytest.raises(ReadError) as wrong:
        FilesSource("s", tmp_path, ["x.csv"]).read_scope("x.csv", None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(wrong.value) == (
        "x.csv:3: the line is longer than max_line_bytes (16.0 MB). "
        "If it is one value, raise max_line_bytes under [limits]; if not, set format."
    )
    assert peak < 16 << 20


def test_a_line_is_measured_across_every_chunk(tmp_path):
    limits = Limits(max_line_bytes=10)
    assert error(tmp_path, "x.csv", "id\n1234567890\n12345678901\n", limits=limits).startswith("x.csv:3: the line")
    assert error(tmp_path, "x.jsonl", "1\n2\n[3, 4, 5, 6, 7]\n", limits=limits).startswith("x.jsonl:3: the line")


def archive(content: bytes = b"", *, declared: int | None = None) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["id"])
    out = io.BytesIO()
    book.save(out)
    if content:
        with zipfile.ZipFile(out, "a", zipfile.ZIP_DEFLATED) as zipped:
            zipped.writestr("xl/media/image.bin", content)
    data = bytearray(out.getvalue())
    if declared is not None:
        at = data.rindex(b"PK\x01\x02")
        data[at + 24 : at + 28] = struct.pack("<I", declared)
    return bytes(data)


def test_a_zip_bomb_is_measured_and_not_unpacked(tmp_path):
    text = error(tmp_path, "x.xlsx", archive(bytes(50 << 20)), limits=Limits(max_expanded_bytes=10 << 20))
    assert text.startswith("x.xlsx: unpacks to 50.0 MB, over max_expanded_bytes (10.0 MB). Is it a zip bomb?")
    text = error(tmp_path, "x.xlsx", archive(bytes(50 << 20)), limits=Limits(max_expansion=100))
    assert "times its size, over max_expansion (100)" in text


def test_a_zip_directory_that_lies_about_its_sizes_is_seen(tmp_path):
    assert error(tmp_path, "x.xlsx", archive(bytes(50 << 20), declared=1000)).startswith(
        "x.xlsx: is not an Excel workbook: Bad CRC-32"
    )


def test_a_cell_in_the_far_corner_of_a_sheet_is_seen_before_it_costs_memory(tmp_path):
    book = openpyxl.Workbook()
    book.active["A1"] = "id"
    book.active["XFD1048576"] = 1
    out = io.BytesIO()
    book.save(out)
    text = error(tmp_path, "x.xlsx", out.getvalue())
    assert text.startswith("x.xlsx#xl/worksheets/sheet1.xml: spans 17179869184 cells, over max_cells (50000000).")


@pytest.mark.parametrize("cut", [0, 10, 2000, -10])
def test_half_of_a_workbook_is_not_a_workbook(tmp_path, cut):
    assert error(tmp_path, "x.xlsx", archive()[:cut]).startswith("x.xlsx: is not an Excel workbook")


def test_half_of_a_parquet_file_is_not_one(tmp_path):
    out = io.BytesIO()
    polars.DataFrame({"id": list(range(1000))}).write_parquet(out)
    data = out.getvalue()
    for broken in (b"", data[: len(data) // 2], data[:20] + b"\xff" * 200 + data[220:]):
        assert error(tmp_path, "x.parquet", broken).startswith("x.parquet: is not Parquet that can be read: ")


def test_a_parquet_file_of_few_bytes_and_very_many_rows_is_not_read(tmp_path):
    out = io.BytesIO()
    polars.DataFrame({"id": polars.repeat(1, 2_000_000, eager=True)}).write_parquet(out)
    text = error(tmp_path, "x.parquet", out.getvalue(), limits=Limits(max_cells=1_000_000))
    assert text.startswith("x.parquet: has 2000000 rows of 1 columns, over max_cells (1000000)")


def test_half_of_an_rdf_file_names_its_line(tmp_path):
    start = "@prefix e: <http://e/> .\ne:a e:b 1 .\n"
    assert error(tmp_path, "x.ttl", start + "e:c e:d").startswith("x.ttl:3: is not RDF: ")
    assert error(tmp_path, "x.ttl", start + 'e:c e:d "half').startswith("x.ttl:3: is not RDF: ")
    assert error(tmp_path, "x.nt", b'<http://a> <http://b> "\xff" .\n').startswith("x.nt:1: is not RDF: ")
    assert error(tmp_path, "x.jsonld", '{"@id": "http://a",\n"http://b":').startswith("x.jsonld:2: is not RDF: ")
    assert error(tmp_path, "x.rdf", "<r>\n<a>").startswith("x.rdf:2: is not XML: no element found")


def test_a_relative_iri_without_a_base_names_its_line(tmp_path):
    assert error(tmp_path, "x.ttl", "<http://a> <http://b> 1 .\n<a> <http://b> 1 .\n") == (
        "x.ttl:2: is not RDF: No scheme found in an absolute IRI. A relative IRI needs @base in the file."
    )


def test_a_remote_json_ld_context_is_never_fetched(tmp_path):
    text = json.dumps({"@context": "https://schema.org/", "@id": "http://a", "name": "x"})
    assert error(tmp_path, "x.jsonld", text) == (
        "x.jsonld: names a JSON-LD context by URL, and contexts are never fetched. Write the context into the file."
    )


def test_a_folder_in_place_of_a_file_says_so(tmp_path):
    (tmp_path / "x.csv").mkdir()
    with pytest.raises(ReadError, match="x.csv: is a folder. Name a file"):
        FilesSource("s", tmp_path, ["x.csv"]).read_scope("x.csv", None)


@pytest.mark.soak
def test_a_line_of_a_gigabyte_names_itself_within_seconds(tmp_path):
    with open(tmp_path / "x.csv", "wb") as file:
        file.write(b"id\n")
        for _ in range(1023):
            file.write(b"x" * (1 << 20))
    started = time.monotonic()
    with pytest.raises(ReadError, match="x.csv:2: the line is longer"):
        FilesSource("s", tmp_path, ["x.csv"]).read_scope("x.csv", None)
    assert time.monotonic() - started < 10
