from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.files import FilesSource
from sources.tables import delimiter_of

TEXT = "id,name\n1,Müller\n2,“Zoë” – 5 €\n"
NAMES = ["Müller", "“Zoë” – 5 €"]


def read(tmp_path, content: bytes, **options):
    (tmp_path / "x.csv").write_bytes(content)
    batch = FilesSource("s", tmp_path, ["x.csv"], key="id", **options).read_scope("x.csv", None)
    return [record.data["name"] for record in batch.records], batch.notes


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        codecs.BOM_UTF8 + TEXT.encode(),
        TEXT.encode("utf-16"),
        codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"),
        TEXT.encode("utf-16-le"),
        TEXT.encode("utf-16-be"),
        TEXT.encode("utf-32"),
    ],
    ids=["utf-8", "utf-8 mark", "utf-16 mark", "utf-16-be mark", "utf-16-le", "utf-16-be", "utf-32"],
)
def test_unicode_is_read_whatever_its_mark(tmp_path, content):
    assert read(tmp_path, content) == (NAMES, ())


def test_western_text_is_found_and_noted(tmp_path):
    note = "x.csv: read as cp1252, because it is not UTF-8; set encoding to be sure"
    assert read(tmp_path, TEXT.encode("cp1252")) == (NAMES, (note,))
    assert read(tmp_path, "id,name\n1,Café Olé\n".encode("latin-1")) == (["Café Olé"], (note,))


def test_an_encoding_can_be_set(tmp_path):
    assert read(tmp_path, "id,name\n1,Привет\n".encode("cp1251"), encoding="cp1251") == (["Привет"], ())
    assert read(tmp_path, codecs.BOM_UTF8 + TEXT.encode(), encoding="UTF8") == (NAMES, ())


def test_a_character_may_lie_across_two_chunks(tmp_path):
    rows = "".join(f"{n},{'é' * 100}\n" for n in range(20_000))
    found, _ = read(tmp_path, ("id,name\n" + rows).encode())
    assert len(found) == 20_000 and set(found) == {"é" * 100}


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@given(
    rows=st.lists(st.tuples(cells, cells, cells), min_size=1, max_size=6),
    delimiter=st.sampled_from(",;\t|"),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
)
def test_what_a_csv_writer_wrote_is_read_back(tmp_path_factory, rows, delimiter, encoding):
    import csv
    import io

    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=csv.QUOTE_ALL)
    writer.writerow(["id", "name", "more"])
    writer.writerows(rows)
    folder = tmp_path_factory.mktemp("csv")
    (folder / "x.csv").write_bytes(out.getvalue().encode(encoding))
    batch = FilesSource("s", folder, ["x.csv"], delimiter=delimiter).read_scope("x.csv", None)
    assert [tuple(record.data.values()) for record in batch.records] == rows


def test_a_delimiter_is_the_one_that_makes_rows_even():
    assert delimiter_of("a;b\n1,5;2,5\n3,5;4,5\n") == ";"
    assert delimiter_of("name\nSmith, Ada\nBo\n") == ","
    assert delimiter_of("a,b,c\n1,2\n") == ","
    assert delimiter_of("a|b\n1,2|3\n") == "|"
    assert delimiter_of("") == ","
