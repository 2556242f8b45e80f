from __future__ import annotations

import csv

import pyoxigraph

from sources.discovery import discover
from sources.files import FilesSource


def test_the_insurance_tables_are_read_row_by_row(shared):
    folder = shared / "acme/data"
    source = FilesSource("acme", folder, ["*.csv"])
    assert len(source.scopes()) == 29
    for batch in source.read(None):
        with open(folder / batch.scope, encoding="utf-8-sig", newline="") as file:
            header, *rows = [row for row in csv.reader(file) if row]
        records = list(batch.records)
        assert [list(record.data.values()) for record in records] == rows
        assert [record.key for record in records] == [f"{batch.scope}/{n}" for n in range(1, len(rows) + 1)]


def test_the_insurance_policies_are_keyed_by_their_identifier(shared):
    source = FilesSource("policy", shared / "acme/data", ["Policy.csv"], key="Policy_Identifier")
    (batch,) = source.read(None)
    records = list(batch.records)
    assert len({record.key for record in records}) == len(records) == 2
    assert batch.notes == ()


def test_the_product_graph_is_read_whole(shared):
    source = FilesSource("ck25", shared / "ck25", ["*.ttl"])
    for batch in source.read(None):
        statements = {line for record in batch.records for line in record.data["statements"]}
        quads = list(pyoxigraph.parse(path=shared / "ck25" / batch.scope))
        named = {f"{q.subject} {q.predicate} {q.object}" for q in quads if "_:" not in f"{q.subject}{q.object}"}
        assert named <= statements
        assert len(statements) <= len({str(q) for q in quads})
        assert not any("_:" in line.split('"')[0] for line in statements)


def test_discovery_takes_the_tables_and_graphs_of_real_folders(shared):
    assert len(discover(shared / "acme/data").taken) == 29
    assert [path for path, _ in discover(shared / "ck25").taken] == [
        "prod-inst.ttl",
        "prod-vocab.ttl",
        "questions-odd.yml",
    ]
