"""Every format says what the query found, all of it, and how many rows that is."""

from __future__ import annotations

import asyncio
import io
import json
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime
from pathlib import Path

import polars
import pytest
from polars.testing import assert_frame_equal
from pyoxigraph import Literal, QueryResultsFormat, QuerySolutions, RdfFormat, Store, parse, parse_query_results

from sparql.log import Change
from sparql.names import Names
from sparql.query.counting import COUNTERS, Counter
from sparql.query.lines import Lines
from sparql.query.pool import AnswerTooLong, NotAcceptable, Pool
from sparql.store import open_store

BASE = "https://e.example/"
NASTY = [
    '"',
    "\\",
    "{",
    "}",
    "[",
    ",",
    ":",
    "\n",
    "\r",
    "<",
    "}},{",
    '\\"',
    ",{",
    "},{",
    "{}",
    "},{}",
    '"bindings":[',
    "]}}",
]
NASTY += ["</result>", "é", ""]
TYPED = """SELECT * { VALUES (?whole ?number ?day ?moment ?local ?yes ?mixed ?name ?big) {
  (1 1.5 "2020-01-02"^^xsd:date "2020-01-02T03:04:05Z"^^xsd:dateTime "2020-01-02T03:04:05"^^xsd:dateTime true 1 e:x 1)
  (2 1e0 UNDEF "2020-01-02T03:04:05.123+01:00"^^xsd:dateTime UNDEF UNDEF "x"@en e:y 99999999999999999999999)
} }"""


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    prefixes = {"e": BASE, "xsd": "http://www.w3.org/2001/XMLSchema#"}
    with Pool(tmp_path_factory.mktemp("plain"), BASE, prefixes=prefixes, deadline=30) as pool:
        yield pool


def nasty_rows(chance: random.Random, most: int) -> tuple[int, QuerySolutions]:
    """(how many, rows of what is hard to read)."""

    def cell() -> str:
        if chance.random() < 0.4:
            return "UNDEF"
        return str(Literal("".join(chance.choice(NASTY) for _ in range(chance.randint(0, 8)))))

    count = chance.randint(0, most)
    rows = " ".join(f"({cell()} {cell()})" for _ in range(count))
    found = Store().query(f"SELECT ?a ?b {{ VALUES (?a ?b) {{ {rows} }} }}")
    assert isinstance(found, QuerySolutions)
    return count, found


def pieces(data: bytes, chance: random.Random) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = start + chance.randint(1, 40)
        yield data[start:end]
        start = end


@pytest.mark.parametrize("form", list(COUNTERS), ids=lambda form: form.file_extension)
def test_rows_are_counted_right_whatever_they_hold_and_however_they_come(form: QueryResultsFormat) -> None:
    chance = random.Random(7)
    for _ in range(300):
        count, found = nasty_rows(chance, 5)
        data = found.serialize(None, form)
        assert data is not None
        counter = COUNTERS[form]()
        for piece in pieces(data, chance):
            counter.add(piece)
        assert counter.rows == count, data


def test_each_line_of_ndjson_is_one_row_as_json_has_it() -> None:
    chance = random.Random(8)
    for _ in range(500):
        count, found = nasty_rows(chance, 5)
        data = found.serialize(None, QueryResultsFormat.JSON)
        assert data is not None
        out, counter = io.BytesIO(), Counter()
        lines = Lines(out, counter)
        for piece in pieces(data, chance):
            lines.write(piece)
        lines.finish()
        rows = [json.loads(line) for line in out.getvalue().split(b"\n")[:-1]]
        assert rows == json.loads(data)["results"]["bindings"]
        assert counter.rows == count


def test_ndjson_streams_and_says_how_many_rows_there_were(plain: Pool) -> None:
    answer = plain.run("SELECT ?v { VALUES ?v { 1 UNDEF e:x } }", format="ndjson")
    lines = answer.read().decode().splitlines()
    assert [json.loads(line).get("v", {}).get("value") for line in lines] == ["1", None, BASE + "x"]
    assert (answer.rows, answer.content_type) == (3, "application/x-ndjson")
    assert plain.run("ASK {}", format="ndjson").read() == b'{"boolean":true}\n'


@pytest.mark.parametrize(("name", "read"), [("arrow", polars.read_ipc_stream), ("parquet", polars.read_parquet)])
def test_a_table_has_a_type_a_column(plain: Pool, name: str, read: object) -> None:
    answer = plain.run(TYPED, format=name)
    found = read(io.BytesIO(answer.read()))  # type: ignore[operator]
    expected = polars.DataFrame(
        {
            "whole": [1, 2],
            "number": [1.5, 1.0],
            "day": [date(2020, 1, 2), None],
            "moment": [datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2020, 1, 2, 2, 4, 5, 123000, tzinfo=UTC)],
            "local": [datetime(2020, 1, 2, 3, 4, 5), None],
            "yes": [True, None],
            "mixed": ["1", "x"],
            "name": [BASE + "x", BASE + "y"],
            "big": ["1", "99999999999999999999999"],
        }
    )
    assert_frame_equal(found, expected, check_column_order=False)
    assert answer.rows == 2
    assert read(io.BytesIO(plain.run("ASK {}", format=name).read()))["boolean"].to_list() == [True]  # type: ignore[operator]
    assert read(io.BytesIO(plain.run("SELECT ?x {VALUES ?x {}}", format=name).read())).shape == (0, 1)  # type: ignore[operator]


def test_a_long_table_is_one_stream_and_a_late_value_of_another_type_breaks_it(plain: Pool) -> None:
    digits = "{ 0 1 2 3 4 5 6 7 8 9 }"
    many = " ".join(f"VALUES ?v{n} {digits}" for n in range(5))
    found = polars.read_ipc_stream(io.BytesIO(plain.run(f"SELECT * {{ {many} }}", format="arrow").read()))
    assert found.shape == (100_000, 5) and found["v3"].sum() == 450_000
    late = f"SELECT (IF(?v0 + ?v1 + ?v2 + ?v3 + ?v4 = 45, 'late', ?v0) AS ?x) {{ {many} }}"
    with pytest.raises(NotAcceptable, match=r"Row [0-9]+: \?x is 'late'.*parquet"):
        plain.run(late, format="arrow").read()
    assert polars.read_parquet(io.BytesIO(plain.run(late, format="parquet").read()))["x"].dtype == polars.String


def test_triple_terms_and_directions_are_written_in_each_format_that_has_them(plain: Pool) -> None:
    query = 'SELECT ?t { VALUES ?t { <<( e:s e:p "x"@en--ltr )>> } }'
    forms = {
        "json;version=1.2": QueryResultsFormat.JSON,
        "xml;version=1.2": QueryResultsFormat.XML,
        "tsv": QueryResultsFormat.TSV,
    }
    for name, form in forms.items():
        answer = plain.run(query, format=name)
        (row,) = parse_query_results(answer.read(), form)  # type: ignore[misc]
        assert str(row["t"]) == f'<{BASE}s> <{BASE}p> "x"@en--ltr', name
        assert ("version=1.2" in answer.content_type) == ("version" in name)
    graph = 'CONSTRUCT { e:s e:q <<( e:s e:p "x"@en--ltr )>> } {}'
    graphs = {"turtle": RdfFormat.TURTLE, "ntriples": RdfFormat.N_TRIPLES, "nquads": RdfFormat.N_QUADS}
    for name, rdf in (graphs | {"trig": RdfFormat.TRIG, "rdfxml": RdfFormat.RDF_XML}).items():
        (quad,) = parse(plain.run(graph, format=name).read(), rdf)
        assert str(quad.object) == f'<{BASE}s> <{BASE}p> "x"@en--ltr', name
    with pytest.raises(NotAcceptable, match="JSON-LD"):
        plain.run(graph, format="jsonld").read()


def test_skolem_iris_leave_construct_as_blank_nodes_and_select_as_they_are(tmp_path: Path) -> None:
    skolem = Names(BASE).skolem
    with open_store(tmp_path / ".graphtide", BASE) as store:
        fact = f"<{skolem}a1> <{BASE}p> <{skolem}b2>"
        about = f'<{BASE}s> <{BASE}says> "see <{skolem}a1>"'
        store.commit(Change({}, {"": frozenset({fact, f"<{BASE}s> <{BASE}p> <{skolem}a1>", about})}))
        with Pool(store.state, BASE) as pool:
            for name, form in (
                ("ntriples", RdfFormat.N_TRIPLES),
                ("turtle", RdfFormat.TURTLE),
                ("jsonld", RdfFormat.JSON_LD),
            ):
                quads = list(parse(pool.run("CONSTRUCT WHERE { ?s ?p ?o }", format=name).read(), form))
                assert sum("_:" in str(quad.subject) for quad in quads) == 1
                assert sum("_:" in str(quad.object)[:2] for quad in quads) == 2
                assert len({str(t) for quad in quads for t in (quad.subject, quad.object) if str(t)[:2] == "_:"}) == 2
                assert f"see <{skolem}a1>" in {getattr(quad.object, "value", "") for quad in quads}
            assert pool.run(f"DESCRIBE <{BASE}s>", format="ntriples").read().count(b"_:") == 1
            rows = pool.run(f"SELECT ?o {{ <{BASE}s> <{BASE}p> ?o }}", format="csv").read()
            assert rows == f"o\r\n{skolem}a1\r\n".encode()


@pytest.mark.parametrize("name", ["json", "xml", "csv", "tsv", "ndjson", "arrow", "parquet"])
def test_an_answer_of_more_rows_than_may_be_is_refused_and_one_of_as_many_is_not(plain: Pool, name: str) -> None:
    query = "SELECT * { VALUES ?a { 0 1 2 3 4 5 6 7 8 9 } VALUES ?b { 0 1 2 3 4 5 6 7 8 9 } }"
    answer = plain.run(query, format=name, max_rows=100)
    assert answer.read() and answer.rows == 100
    with pytest.raises(AnswerTooLong, match="more than 99 rows"):
        plain.run(query, format=name, max_rows=99)


def test_an_answer_that_is_found_too_long_on_the_way_breaks_off(plain: Pool) -> None:
    digits = "{ 0 1 2 3 4 5 6 7 8 9 }"
    query = "SELECT * { " + " ".join(f"VALUES ?v{n} {digits}" for n in range(5)) + " }"
    for limits, said in (({"max_rows": 60_000}, "60,000 rows"), ({"max_bytes": 500_000}, "500,000 bytes")):
        answer = plain.run(query, format="csv", **limits)
        taken = 0
        with pytest.raises(AnswerTooLong, match=said):
            for chunk in answer:
                taken += chunk.count(b"\n")
        assert 0 < taken <= 60_001
    with pytest.raises(AnswerTooLong, match="9 rows"):
        plain.run(
            "CONSTRUCT { ?v0 ?v1 ?v2 } WHERE { VALUES (?v0 ?v1) { (e:s e:p) } VALUES ?v2 "
            + digits
            + " VALUES ?v3 "
            + digits
            + " }",
            format="nt",
            max_rows=9,
        )


def test_a_limit_of_the_query_can_only_lower_the_pools(tmp_path: Path) -> None:
    query = "SELECT * { VALUES ?a { 0 1 2 3 4 5 6 7 8 9 } }"
    with Pool(tmp_path, BASE, max_rows=8) as pool:
        for own, most in ((None, 8), (5, 5), (50, 8)):
            with pytest.raises(AnswerTooLong, match=f"{most} rows"):
                pool.run(query, max_rows=own)


def test_the_first_rows_come_before_the_last_is_found(plain: Pool) -> None:
    digits = "{ 0 1 2 3 4 5 6 7 8 9 }"
    endless = "SELECT * { " + " ".join(f"VALUES ?v{n} {digits}" for n in range(9)) + " }"

    async def first(name: str) -> bytes:
        async with plain.call(endless, format=name, deadline=20) as call:
            answer = await call.begin()
            return await answer.chunk_async() or b""

    for name in ("json", "xml", "csv", "tsv", "ndjson", "arrow"):
        assert len(asyncio.run(first(name))) > 100
