"""A compressed answer begins before it is over, and is a representation of its own."""

from __future__ import annotations

import socket
import time
import zlib
from collections.abc import Iterator

import brotli
import pytest
import zstandard

from sparql.log import Change
from sparql.store import open_store
from tests.served import Served, get, hear, serve, talk

BASE = "https://coded.example/"
LONG = f"SELECT ?o {{ ?s <{BASE}p> ?o }}"
SHORT = f"SELECT ?o {{ <{BASE}s1> <{BASE}p> ?o }}"
CODINGS = ("gzip", "br", "zstd")
TEN = "{ 0 1 2 3 4 5 6 7 8 9 }"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("coded") / ".graphtide"
    with open_store(state, BASE) as store:
        store.commit(Change({}, {"": frozenset(f'<{BASE}s{n}> <{BASE}p> "value {n}"' for n in range(2000))}))
        store.checkpoint()
        with serve(state, BASE) as found:
            yield found


def begin(coding: str, data: bytes) -> bytes:
    """What can be read from the beginning of a stream."""
    if coding == "gzip":
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(data)
    if coding == "br":
        found: bytes = brotli.Decompressor().process(data)
        return found
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_long_answer_is_compressed_and_a_short_one_is_not(server: Served, coding: str) -> None:
    whole = talk(server.port, get(server.port, LONG))
    coded = talk(server.port, get(server.port, LONG, Accept_Encoding=coding))
    assert coded.headers["content-encoding"] == coding and len(coded.body) < len(whole.body) / 2
    assert begin(coding, coded.body) == whole.body
    assert whole.headers["vary"] == coded.headers["vary"] == "Accept, Accept-Encoding"
    assert whole.headers["etag"] != coded.headers["etag"]
    short = talk(server.port, get(server.port, SHORT, Accept_Encoding=coding))
    assert "content-encoding" not in short.headers
    forced = talk(server.port, get(server.port, SHORT, Accept_Encoding=f"{coding}, identity;q=0"))
    assert forced.headers["content-encoding"] == coding and begin(coding, forced.body) == short.body


@pytest.mark.parametrize("coding", CODINGS)
def test_head_and_304_are_of_the_same_representation(server: Served, coding: str) -> None:
    found = talk(server.port, get(server.port, LONG, Accept_Encoding=coding))
    head = talk(server.port, get(server.port, LONG, method="HEAD", Accept_Encoding=coding), head=True)
    for name in ("etag", "content-encoding", "content-type", "vary", "x-graphtide-epoch"):
        assert head.headers[name] == found.headers[name]
    tag = found.headers["etag"]
    same = talk(server.port, get(server.port, LONG, Accept_Encoding=coding, If_None_Match=tag))
    assert (same.status, same.headers["etag"], same.body) == (304, tag, b"")
    plain = talk(server.port, get(server.port, LONG, If_None_Match=tag))
    assert plain.status == 200 and "content-encoding" not in plain.headers


@pytest.mark.parametrize("coding", ["identity", *CODINGS])
def test_the_first_rows_arrive_before_the_last_are_made(server: Served, coding: str) -> None:
    query = "SELECT * { " + " ".join(f"VALUES ?v{n} {TEN}" for n in range(8)) + " }"
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        peer.sendall(get(server.port, query, more="&format=csv&timeout=10", Accept_Encoding=coding))
        data, began = b"", time.monotonic()
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 100:
            data += peer.recv(1 << 16)
        assert time.monotonic() - began < 5
        size, _, body = data.partition(b"\r\n\r\n")[2].partition(b"\r\n")
        while len(body) < int(size, 16):
            body += peer.recv(1 << 16)
        first = body[: int(size, 16)]
        rows = first if coding == "identity" else begin(coding, first)
        assert rows.startswith(b"v0,v1,v2,v3,v4,v5,v6,v7\r\n") and rows.count(b"\r\n") > 100


def test_what_is_compressed_already_is_left_as_it_is(server: Served) -> None:
    found = talk(server.port, get(server.port, LONG, more="&format=parquet", Accept_Encoding="gzip, br, zstd"))
    assert found.status == 200 and "content-encoding" not in found.headers
    assert found.body.startswith(b"PAR1")


def test_answers_on_one_kept_connection_follow_each_other(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        for coding in ("zstd", "identity", "gzip", "br"):
            peer.sendall(get(server.port, LONG, Accept_Encoding=coding))
            found = hear(peer)
            assert found.complete and found.headers.get("content-encoding", "identity") == coding
