"""Whatever is sent to /sparql, the answer is an answer or a refusal, and never a mistake of ours."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator

import pytest

from sparql.log import Change
from sparql.store import open_store
from tests import w3c_suite as w3c
from tests.conftest import ABSENT
from tests.served import Reply, Served, get, hear, serve, talk

BASE = "https://fuzz.example/"
PIECES = (
    b"", b"\x00", b"\xff\xfe", b"%", b"%00", b"%ED%A0%80", b"&" * 1200, b"?query=", b"&query=ASK{}", b"&epoch=1",
    b"&epoch=0", b"&min-epoch=1", b"&timeout=nan", b"&timeout=1e-9", b"&format=parquet", b"&format=%00",
    b"&download=a%0d%0ab", b"&default-graph-uri=", b"&default-graph-uri=urn:x", b"&named-graph-uri=%20",
    b"Accept: */*\r\n", b"Accept: a\r\n", b"Accept-Encoding: zstd;q=0.000\r\n", b"Accept-Encoding: *;q=0\r\n",
    b"If-None-Match: *\r\n", b"If-None-Match: \"\r\n", b"Content-Encoding: gzip\r\n", b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n", b"Transfer-Encoding: chunked\r\n", b"Content-Type: application/sparql-query\r\n",
    b"Content-Type: ;;=;\r\n", b"Expect: 100-continue\r\n", b"Expect: x\r\n", b"Range: bytes=0-1\r\n",
    b"Authorization: Bearer \xff\r\n", b"Origin: null\r\n", b"HEAD", b"QUERY", b"OPTIONS", b"BREW", b"{" * 300,
    b"SELECT", b"'''", b'"""', b"\\u0000", b"\\ud800", b"# ", b"(" * 500, b"SERVICE <http://127.0.0.1/> {}",
)  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("fuzz") / ".graphtide"
    with open_store(state, BASE) as store:
        store.commit(Change({}, {"": frozenset({f'<{BASE}s> <{BASE}p> "o"'})}))
        store.checkpoint()
        with serve(state, BASE, workers=2, deadline=2.0, body_seconds=0.3) as found:
            yield found


@pytest.fixture(scope="module")
def seeds() -> list[bytes]:
    if not w3c.W3C.is_dir():
        pytest.skip(f"shared: {ABSENT}")
    found = []
    for _, requests in w3c.protocol():
        for one in requests:
            lines = "".join(f"{name}: {value}\r\n" for name, value in one.headers.items())
            body = one.body or b""
            length = f"Content-Length: {len(body)}\r\n" if one.body is not None else ""
            found.append(f"{one.method} {one.path} HTTP/1.1\r\nHost: localhost\r\n{lines}{length}\r\n".encode() + body)
    return found


def mutated(seed: bytes, chosen: random.Random) -> bytes:
    data = bytearray(seed)
    for _ in range(chosen.randrange(1, 5)):
        at = chosen.randrange(len(data) + 1)
        how = chosen.randrange(5)
        if how == 0:
            data[at:at] = chosen.choice(PIECES)
        elif how == 1:
            del data[at : at + chosen.randrange(1, 20)]
        elif how == 2 and at < len(data):
            data[at] = chosen.randrange(256)
        elif how == 3:  # a header more, or a parameter
            piece = chosen.choice(PIECES)
            place = data.find(b"\r\n") + 2 if piece.endswith(b"\r\n") else data.find(b" HTTP/")
            data[max(0, place) : max(0, place)] = piece
        else:
            data += data[at : at + 50]
    return bytes(data)


def answered(server: Served, request: bytes) -> Reply:
    with socket.create_connection(("127.0.0.1", server.port), 5) as peer, contextlib.suppress(OSError):
        peer.sendall(request)
        peer.shutdown(socket.SHUT_WR)
        return hear(peer, head=request.startswith(b"HEAD"))
    return Reply(0, {}, b"", False, b"")


def mistakes(server: Served, seeds: list[bytes], count: int, seed: int) -> list[tuple[bytes, bytes]]:
    chosen = random.Random(seed)
    found = []
    for _ in range(count):
        request = mutated(chosen.choice(seeds), chosen)
        reply = answered(server, request)
        if reply.status == 500 or reply.status == 501:
            found.append((request, reply.raw))
    return found


def test_requests_of_the_w3c_with_mistakes_in_them_are_answered_or_refused(server: Served, seeds: list[bytes]) -> None:
    assert mistakes(server, seeds, 400, 1) == []
    assert talk(server.port, get(server.port, "ASK {}")).status == 200


@pytest.mark.soak
def test_ten_thousand_such_requests_are_answered_or_refused(server: Served, seeds: list[bytes]) -> None:
    assert mistakes(server, seeds, 10_000, 2) == []
    assert talk(server.port, get(server.port, "ASK {}")).status == 200


@pytest.mark.parametrize(
    "header",
    ["Accept: ," + " " * 50_000, "Accept: " + "a " * 25_000, "Accept-Encoding: " + "a;q = " * 8_000,
     "If-None-Match: " + '"' * 50_001, "Content-Type: " + ";" * 50_000, "Accept: " + ";q" * 25_000],
)  # fmt: skip
def test_a_header_made_to_be_slow_is_not(server: Served, header: str) -> None:
    name, _, value = header.partition(": ")
    began = time.perf_counter()
    found = talk(server.port, get(server.port, "ASK {}", **{name.replace("-", "_"): value}))
    assert found.status in (200, 400, 406, 431) and time.perf_counter() - began < 1.0


def test_a_long_query_keeps_nobody_waiting(server: Served) -> None:
    query = b"SELECT * { VALUES ?x { " + b"<http://a/b> " * 60_000 + b"} } LIMIT 1"
    parsed = server.serving.sparql.readings.parsed
    head = (
        f"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
        f"Content-Length: {len(query)}\r\n\r\n"
    ).encode()
    found = talk(server.port, head + query)
    assert found.status in (200, 504) and "etag" not in found.headers
    assert server.serving.sparql.readings.parsed == parsed  # its worker read it, and the event loop did not


def test_what_follows_a_request_never_stands_in_its_answer(server: Served) -> None:
    query = "SELECT * { " + " ".join(f"VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}" for n in range(6)) + " }"
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        peer.sendall(get(server.port, query, more="&format=csv") + b"\x00 this is not HTTP\r\n\r\n")
        found = b"".join(iter(lambda: peer.recv(1 << 16), b""))
    assert b"400 Bad Request" not in found and not found.endswith(b"0\r\n\r\n")


def test_a_body_that_does_not_come_is_not_waited_for(server: Served) -> None:
    head = b"POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
    began = time.monotonic()
    found = talk(server.port, head + b"Content-Length: 9\r\n\r\nASK")
    assert found.status == 408 and time.monotonic() - began < 5
