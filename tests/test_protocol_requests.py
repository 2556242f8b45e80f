"""A request says what it wants in more than one way, and every refusal says what would have been taken."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from urllib.parse import quote, urlencode

import pytest

from sparql.log import Change
from sparql.server.negotiate import NoCoding, codings, matches
from sparql.store import open_store
from tests.served import Reply, Served, get, serve, talk

BASE = "https://ask.example/"
FORM, DIRECT, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
ZIPPED = {"Content_Type": DIRECT, "Content_Encoding": "gzip"}
ALL = f"SELECT ?o {{ <{BASE}s> <{BASE}p> ?o }}"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("asked") / ".graphtide"
    with open_store(state, BASE) as store:
        store.commit(
            Change(
                {}, {"": frozenset({f'<{BASE}s> <{BASE}p> "o"'}), BASE + "g": frozenset({f'<{BASE}s> <{BASE}p> "g"'})}
            )
        )
        store.checkpoint()
        with serve(state, BASE, max_query_bytes=100_000) as found:
            yield found


def send(
    server: Served, method: str, path: str = "/sparql", body: bytes | None = None, version: str = "1.1", **headers: str
) -> Reply:
    if body is not None:
        headers.setdefault("Content_Length", str(len(body)))
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    request = f"{method} {path} HTTP/{version}\r\nHost: localhost:{server.port}\r\n{lines}\r\n".encode() + (body or b"")
    return talk(server.port, request, head=method == "HEAD")


def test_a_query_comes_by_get_form_direct_and_by_the_query_method(server: Served) -> None:
    form = urlencode({"query": ALL}).encode()
    found = [
        send(server, "GET", "/sparql?" + form.decode(), Accept="text/csv"),
        send(server, "POST", body=form, Content_Type=FORM, Accept="text/csv"),
        send(server, "POST", body=ALL.encode(), Content_Type=DIRECT, Accept="text/csv"),
        send(server, "QUERY", body=ALL.encode(), Content_Type=DIRECT, Accept="text/csv"),
        send(server, "QUERY", body=form, Content_Type=f"{FORM}; charset=utf-8", Accept="text/csv"),
        send(server, "POST", "/sparql/", body=ALL.encode(), Content_Type=DIRECT, Accept="text/csv"),
    ]
    assert [(one.status, one.body) for one in found] == [(200, b"o\r\no\r\n")] * 6
    assert len({one.headers["etag"] for one in found}) == 1


@pytest.mark.parametrize("where", ["url", "body"])
def test_the_dataset_is_taken_from_the_url_and_from_the_form(server: Served, where: str) -> None:
    dataset = urlencode({"default-graph-uri": BASE + "g"})
    query = urlencode({"query": ALL})
    if where == "url":
        found = [
            send(server, "POST", f"/sparql?{dataset}", body=ALL.encode(), Content_Type=DIRECT, Accept="text/csv"),
            send(server, "QUERY", f"/sparql?{dataset}", body=ALL.encode(), Content_Type=DIRECT, Accept="text/csv"),
            send(server, "POST", f"/sparql?{dataset}", body=query.encode(), Content_Type=FORM, Accept="text/csv"),
        ]
    else:
        found = [send(server, "POST", body=f"{query}&{dataset}".encode(), Content_Type=FORM, Accept="text/csv")]
    assert {one.body for one in found} == {b"o\r\ng\r\n"}


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status", "code"),
    [
        ("QUERY", "/sparql", None, {"Content_Type": DIRECT}, 411, "length-required"),
        ("POST", "/sparql", None, {"Content_Type": DIRECT}, 411, "length-required"),
        ("QUERY", "/sparql", b"CLEAR ALL", {"Content_Type": UPDATE}, 415, "unsupported-media-type"),
        ("QUERY", "/sparql", b"update=CLEAR+ALL", {"Content_Type": FORM}, 400, "update-by-get"),
        ("GET", "/sparql?update=CLEAR+ALL", None, {}, 400, "update-by-get"),
        ("POST", "/sparql", b"query=ASK{}&update=CLEAR+ALL", {"Content_Type": FORM}, 400, "update-twice"),
        ("POST", "/sparql?query=ASK{}", b"ASK {}", {"Content_Type": DIRECT}, 400, "query-twice"),
        ("GET", "/sparql?query=" + "%20" * 20_500, None, {}, 414, "url-too-long"),
        ("POST", "/sparql", b"#" * 100_001, {"Content_Type": DIRECT}, 413, "too-long"),
        ("POST", "/sparql", b"x", {"Content_Type": DIRECT, "Content_Encoding": "br"}, 415, "unsupported-coding"),
        ("POST", "/sparql", b"x", ZIPPED, 400, "bad-coding"),
        ("POST", "/sparql", gzip.compress(b"ASK {}", mtime=0)[:-1], ZIPPED, 400, "bad-coding"),
        ("POST", "/sparql", gzip.compress(b" " * 50_000_000), ZIPPED, 413, "too-long"),
        ("GET", "/sparql?query=ASK{}", None, {"Expect": "miracles"}, 417, "expectation"),
        ("GET", "/sparql?query=ASK{}", None, {"Accept_Encoding": "identity;q=0, compress"}, 406, "no-coding"),
        ("GET", "/sparql?query=ASK{}&epoch=-1", None, {}, 400, "bad-epoch"),
        ("GET", "/sparql?query=ASK{}&epoch=" + "9" * 400, None, {}, 400, "bad-epoch"),
        ("GET", "/sparql?query=ASK{}&epoch=999999&timeout=0.2", None, {}, 409, "epoch-ahead"),
        ("GET", "/sparql?query=ASK{}&min-epoch=999999&timeout=0.2", None, {}, 503, "epoch-ahead"),
        ("PATCH", "/sparql", b"x", {}, 405, "method-not-allowed"),
        ("TRACE", "/sparql", None, {}, 405, "method-not-allowed"),
        ("PUT", "/health", b"x", {}, 405, "method-not-allowed"),
    ],
)  # fmt: skip
def test_a_refusal_is_a_problem_with_its_own_status(
    server: Served, method: str, path: str, body: bytes | None, headers: dict[str, str], status: int, code: str
) -> None:
    found = send(server, method, path, body, **headers)
    problem = json.loads(found.body)
    assert (found.status, problem["code"], problem["status"]) == (status, code, status)
    assert found.headers["content-type"] == "application/problem+json" and problem["detail"]
    if status == 405:
        assert "GET" in found.headers["allow"]
    if code == "unsupported-coding":
        assert "gzip" in found.headers["accept-encoding"]


def test_what_is_not_http_gets_400_and_no_more(server: Served) -> None:
    found = talk(server.port, b"\x16\x03\x01\x02\x00\r\n\r\n")
    assert found.status == 400 and found.complete


def test_a_syntax_error_has_its_line_column_and_token(server: Served) -> None:
    found = json.loads(talk(server.port, get(server.port, "SELECT *\nWHERE { ?s ?p }")).body)
    assert (found["code"], found["line"], found["column"], found["token"]) == ("query-error", 2, 15, "}")


def test_406_lists_what_there_is_for_that_kind_of_answer(server: Served) -> None:
    rows = json.loads(talk(server.port, get(server.port, ALL, Accept="text/turtle")).body)
    assert (rows["status"], rows["code"]) == (406, "not-acceptable")
    assert "text/csv" in rows["available"] and "text/turtle" not in rows["available"]
    none = json.loads(talk(server.port, get(server.port, ALL, Accept="image/png")).body)
    assert {"text/csv", "text/turtle"} <= set(none["available"])


def test_options_says_what_is_taken_and_head_is_get_without_its_body(server: Served) -> None:
    found = send(server, "OPTIONS")
    assert found.status == 204 and found.headers["allow"] == "GET, HEAD, OPTIONS, POST, QUERY"
    assert found.headers["accept-query"] == f"{FORM}, {DIRECT}"
    assert "application/sparql-update" in found.headers["accept-post"]
    paths = [route.path for route in server.app.routes if re.fullmatch(r"/[\w./-]*", getattr(route, "path", "{"))]
    for path in {*paths, "/sparql?query=" + quote(ALL)}:
        options = send(server, "OPTIONS", path)
        assert options.status == 204 and "OPTIONS" in options.headers["allow"], path
        if "GET" not in options.headers["allow"]:
            continue
        whole, head = send(server, "GET", path, Accept="*/*"), send(server, "HEAD", path, Accept="*/*")
        assert head.status == whole.status, path
        assert head.body == b"", path
        same = ("content-type", "etag", "content-length", "vary", "x-graphtide-kind", "cache-control")
        if "content-length" in whole.headers and path not in ("/ready", "/metrics", "/api/status"):
            assert [head.headers.get(name) for name in same] == [whole.headers.get(name) for name in same], path


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("text/csv;q=0.5, application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv;q=0.5, */*;q=0.4", "text/csv; charset=utf-8"),
        ("text/*;q=0.9, text/csv;q=0.1, application/*;q=0.2", "text/tab-separated-values; charset=utf-8"),
        ("*/*;q=0.1, application/json;q=0", "application/sparql-results+json"),
        ("application/sparql-results+json;q=0, */*", "application/sparql-results+xml"),
        ("text/html, application/xhtml+xml, application/xml;q=0.9, */*;q=0.8", "application/sparql-results+xml"),
        ("", "application/sparql-results+json"),
    ],
)
def test_the_best_liked_format_is_sent_the_more_exact_wins(server: Served, accept: str, kind: str) -> None:
    found = talk(server.port, get(server.port, ALL, Accept=accept))
    assert (found.status, found.headers["content-type"]) == (200, kind)


def test_a_compressed_query_is_read(server: Served) -> None:
    found = send(
        server,
        "POST",
        body=gzip.compress(ALL.encode()),
        Content_Type=DIRECT,
        Content_Encoding="gzip",
        Accept="text/csv",
    )
    assert found.body == b"o\r\no\r\n"


def test_a_person_without_a_query_is_sent_to_the_page(server: Served) -> None:
    found = send(server, "GET", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (found.status, found.headers["location"]) == (303, "/")


def test_codings_are_ranked_as_the_client_likes_them() -> None:
    assert codings(None) == ("identity",)
    assert codings("gzip, br, zstd") == ("zstd", "br", "gzip", "identity")
    assert codings("gzip;q=1.0, br;q=0.5") == ("gzip", "br", "identity")
    assert codings("x-gzip") == ("gzip", "identity")
    assert codings("*") == ("zstd", "br", "gzip", "identity")
    assert codings("identity;q=1, *;q=0.1") == ("identity", "zstd", "br", "gzip")
    assert codings("gzip, identity;q=0") == ("gzip",)
    assert codings("gzip;q=0, *;q=0.5") == ("zstd", "br", "identity")
    assert codings("") == ("identity",)
    for none in ("identity;q=0", "*;q=0", "compress, *;q=0"):
        with pytest.raises(NoCoding):
            codings(none)


def test_entity_tags_are_compared_weakly_and_whole() -> None:
    assert matches('"a", W/"b"', ["b"]) == "b"
    assert matches("*", ["x"]) == "x"
    assert matches('"ab"', ["a"]) is None
    assert matches(None, ["a"]) is None
