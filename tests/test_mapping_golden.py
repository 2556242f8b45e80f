"""Each feature of a mapping has a golden pair: an input file and the sorted N-Triples it says."""

from __future__ import annotations

import csv
import json
import tomllib
from pathlib import Path

import pytest

from sources.record import Record
from transforms.direct import direct_mapping
from transforms.mapping import Mapping, compile_mapping

GOLDEN = Path(__file__).parent / "golden" / "mapping"


def records(folder: Path, source: str) -> list[Record]:
    """The rows of input.csv or the objects of input.json, keyed by their place from 1."""
    table = folder / "input.csv"
    if table.exists():
        with table.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    else:
        rows = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    return [Record(source, str(n), row, f"input:{n}") for n, row in enumerate(rows, start=1)]


def mapping(folder: Path) -> Mapping:
    spec = tomllib.loads((folder / "map.toml").read_text(encoding="utf-8"))
    if spec.get("direct"):
        return direct_mapping(spec["source"], spec["base"])
    return compile_mapping(spec["map"], source=spec["source"], base=spec["base"], prefixes=spec["prefixes"])


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_mapping_says_exactly_its_golden_statements(name):
    folder = GOLDEN / name
    compiled = mapping(folder)
    said = {text for record in records(folder, compiled.source) for text in compiled.facts(record).statements}

    found = "".join(f"{text} .\n" for text in sorted(said))

    assert found == (folder / "expected.nt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_a_record_says_the_same_whatever_was_mapped_before_it(name):
    folder = GOLDEN / name
    rows = records(folder, mapping(folder).source)
    forwards, backwards = mapping(folder), mapping(folder)

    assert [forwards.facts(row) for row in rows] == [backwards.facts(row) for row in reversed(rows)][::-1]
