"""The W3C's own texts: each that is right is read and printed back, each that is wrong is refused."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, Store

from sparql.syntax import Query, SyntaxProblem, Update, parse, text, walk

MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
BASE = "http://example.org/tests/here"
SUITES = ("syntax-query", "syntax-fed", "syntax-update-1", "syntax-update-2")

# Texts of the evaluation suites that no parser may accept, and why: their tests expect a syntax error, or no manifest
# names them.
REFUSED = {
    "aggregates/agg08.rq": "a grouped SELECT uses ?O1, which is grouped by only inside an expression",
    "aggregates/agg09.rq": "a grouped SELECT uses ?P, which is not grouped by",
    "aggregates/agg10.rq": "a grouped SELECT uses ?P, which is not grouped by",
    "aggregates/agg11.rq": "a grouped SELECT uses ?O1, which is grouped by only inside an expression",
    "aggregates/agg12.rq": "a grouped SELECT uses ?O1, which is grouped by only inside an expression",
    "construct/constructwhere05.rq": "the short CONSTRUCT holds a FILTER",
    "construct/constructwhere06.rq": "the short CONSTRUCT holds a GRAPH",
    "delete-insert/delete-insert-03.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-03b.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-05.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-07.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-07b.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-08.ru": "a blank node in DELETE",
    "delete-insert/delete-insert-09.ru": "a blank node in DELETE",
    "grouping/group06.rq": "a grouped SELECT uses ?v, which is not grouped by",
    "grouping/group07.rq": "a grouped SELECT uses ?eventName, which is not grouped by",
    "property-path/path-2-1.rq": "path{2}, of a draft",
    "property-path/path-2-3.rq": "path{2,}, of a draft",
    "property-path/path-3-1.rq": "path{2}, of a draft",
    "property-path/path-3-2.rq": "path{2}, of a draft",
    "property-path/path-3-4.rq": "path{2,}, of a draft",
    "property-path/pp04.rq": "path{2}, of a draft",
    "property-path/pp05.rq": "path{0}, of a draft",
    "property-path/pp13.rq": "path{0}, of a draft",
    "property-path/pp15.rq": "path{0,2}, of a draft",
}


@cache
def syntax_tests(folder: Path) -> dict[str, bool]:
    """File name to whether it is right, as the manifest says."""
    store = Store()
    manifest = folder / "manifest.ttl"
    store.load(manifest.read_bytes(), RdfFormat.TURTLE, base_iri=manifest.as_uri())
    rows = store.query(f"SELECT ?kind ?file {{ ?test a ?kind ; <{MF}action> ?file }}")
    return {
        row["file"].value.rsplit("/", 1)[1]: "Positive" in row["kind"].value  # type: ignore[index,union-attr]
        for row in rows  # type: ignore[union-attr]
        if "Syntax" in row["kind"].value  # type: ignore[index,union-attr]
    }


def texts(shared: Path) -> list[Path]:
    return sorted(path for path in (shared / "w3c-sparql11").glob("*/*.r[qu]"))


def read(path: Path) -> Query | Update:
    return parse(path.read_text("utf-8"), base=BASE, only="query" if path.suffix == ".rq" else "update")


@pytest.mark.parametrize("suite", SUITES)
def test_every_w3c_syntax_test_is_judged_as_it_says(shared: Path, suite: str) -> None:
    folder = shared / "w3c-sparql11" / suite
    wrong = {}
    for name, right in syntax_tests(folder).items():
        try:
            read(folder / name)
            accepted = True
        except SyntaxProblem:
            accepted = False
        if accepted != right:
            wrong[name] = right
    assert not wrong
    assert len(syntax_tests(folder)) == {"syntax-query": 94, "syntax-fed": 3, "syntax-update-1": 54}.get(suite, 1)


def test_every_text_of_the_evaluation_suites_is_read_but_those_named(shared: Path) -> None:
    refused = set()
    for path in texts(shared):
        if path.parent.name in SUITES:
            continue
        try:
            read(path)
        except SyntaxProblem:
            refused.add(f"{path.parent.name}/{path.name}")
    assert refused == set(REFUSED)


def test_what_the_engine_reads_we_read_and_what_it_refuses_we_refuse(shared: Path) -> None:
    differ = {}
    for path in texts(shared):
        written = path.read_text("utf-8")
        try:
            if path.suffix == ".rq":
                # Without a graph to read nothing is evaluated, and no SERVICE is called.
                Store().query(written.replace("SERVICE", "GRAPH").replace("GRAPH SILENT", "GRAPH"), base_iri=BASE)
            else:
                Store().update(written.replace("LOAD <", "LOAD SILENT <"), base_iri=BASE)
            engine = True
        except SyntaxError:
            engine = False
        except (RuntimeError, OSError):
            engine = True
        try:
            read(path)
            ours = True
        except SyntaxProblem:
            ours = False
        if engine != ours:
            differ[f"{path.parent.name}/{path.name}"] = (engine, ours)
    assert differ == {}


def test_what_is_printed_reads_back_as_the_same_tree(shared: Path) -> None:
    count = 0
    for path in texts(shared):
        try:
            tree = read(path)
        except SyntaxProblem:
            continue
        assert parse(text(tree), base=BASE) == tree, path.name
        assert text(parse(text(tree), base=BASE)) == text(tree), path.name
        count += 1
    assert count > 450


def test_every_node_stands_where_it_is_written(shared: Path) -> None:
    for path in texts(shared):
        try:
            tree = read(path)
        except SyntaxProblem:
            continue
        length = len(path.read_text("utf-8"))
        for node in walk(tree):
            start, end = node.span  # type: ignore[attr-defined]
            assert 0 <= start <= end <= length, (path.name, node)
