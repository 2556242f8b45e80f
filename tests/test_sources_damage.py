from __future__ import annotations

import io
import json
import random
import zipfile

import openpyxl
import polars
import pytest

from sources.files import FilesSource
from sources.record import ReadError

RDF = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
TEXTS = {
    "a.csv": 'id,name\n1,"a ""q"" b"\n2,ü\n',
    "a.tsv": "id\tname\n1\t2\n",
    "a.json": '{"a": [{"id": 1, "t": "\\ud83d\\ude00"}, {"id": 2}], "b": {"c": null}}',
    "a.jsonl": '{"id": 1}\n{"id": "2", "x": [1, 2]}\n',
    "a.yaml": "a: &a\n  - id: 1\n    d: 2024-01-01\n"
    "    t: !!binary aGk\n  - {id: 2, <<: {x: 1}}\nb: *a\nc: !!set {x}\n",
    "a.xml": '<?xml version="1.0" encoding="utf-8"?><r a="1"><b id="1">x<c/></b><b>&amp;</b></r>',
    "a.ttl": '@prefix e: <http://e/> . e:a e:b [ e:c "x"@en, 1 ; e:d ( 1 2 ) ] .',
    "a.nq": '<http://a> <http://b> "c" <http://g> .\n',
    "a.rdf": f'{RDF}<rdf:Description rdf:about="http://a"><e:b>x</e:b></rdf:Description></rdf:RDF>',
    "a.jsonld": '{"@context": {"n": "http://n/"}, "@id": "http://a", "n:x": [1, {"n:y": 2}]}',
}
PIECES = b"\"',;\n\r\t\\{}[]<>&:-*!%@|\0\xff\xc3\xe9 019eE.#_"


def damaged(content: bytes, chance: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data) + 1)
        match chance.randint(0, 3):
            case 0:
                del data[at : at + chance.randint(1, 5)]
            case 1:
                data[at:at] = bytes(chance.choice(PIECES) for _ in range(chance.randint(1, 4)))
            case 2:
                data[at : at + 1] = bytes([chance.randrange(256)])
            case 3:
                del data[at:]
    return bytes(data)


def whole(name: str) -> bytes:
    out = io.BytesIO()
    if name == "a.parquet":
        polars.DataFrame({"id": [1, 2], "l": [[1], []]}).write_parquet(out)
    elif name == "a.xlsx":
        book = openpyxl.Workbook()
        for row in (["id", "n"], [1, "x"], [2, 1.5]):
            book.active.append(row)
        book.save(out)
    else:
        return TEXTS[name].encode()
    return out.getvalue()


def with_one_part_damaged(content: bytes, chance: random.Random) -> bytes:
    """A sound archive around one damaged part."""
    old, out = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    damage = chance.choice(old.namelist())
    with zipfile.ZipFile(out, "w") as new:
        for part in old.namelist():
            new.writestr(part, damaged(old.read(part), chance) if part == damage else old.read(part))
    return out.getvalue()


@pytest.mark.parametrize("name", [*TEXTS, "a.parquet", "a.xlsx"])
def test_a_damaged_file_is_records_that_can_be_written_or_one_read_error(tmp_path, name):
    chance, content = random.Random(name), whole(name)
    source = FilesSource("s", tmp_path, [name])
    for _ in range(150):
        bad = with_one_part_damaged(content, chance) if name == "a.xlsx" else damaged(content, chance)
        (tmp_path / name).write_bytes(bad)
        try:
            records = list(source.read_scope(name, None).records)
        except ReadError as wrong:
            assert str(wrong).startswith(name)
            continue
        for record in records:
            if not record.problem:
                json.dumps([record.key, record.locator, dict(record.data)], default=str, ensure_ascii=False).encode()
