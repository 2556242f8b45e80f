"""No answer that failed looks whole: not over chunks, not over HTTP/1.0, in no format and no coding."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import brotli
import pytest
import requests
import zstandard

from sparql.log import Change
from sparql.query import results
from sparql.query.failures import (
    AnswerTooLong,
    QueryCancelled,
    QueryFailed,
    QueryTimeout,
    QueryTooLarge,
    WorkerLost,
)
from sparql.store import open_store
from tests.served import Reply, Served, get, serve, talk, until

BASE = "https://cut.example/"
CODINGS = ("identity", "gzip", "br", "zstd")
QUERIES = {
    "rows": "SELECT ?s ?o { ?s <https://cut.example/p> ?o }",
    "boolean": "ASK { ?s <https://cut.example/p> ?o }",
    "triples": "CONSTRUCT WHERE { ?s <https://cut.example/p> ?o }",
}
CASES = [(each.name, kind) for each in results.FORMATS for kind in (results.ROWS, results.TRIPLES) if each.writes(kind)]
FAILURES = (
    lambda: WorkerLost("The worker ended."),
    lambda: QueryTimeout("late"),
    lambda: QueryTooLarge("too large"),
    lambda: QueryCancelled("by its id"),
    lambda: QueryFailed("the engine said no"),
    lambda: AnswerTooLong("rows", 10),
    lambda: RuntimeError("a mistake of ours"),
    lambda: OSError("the socket"),
)


class Failing:
    """Stands where a pool's Call and its Answer stand: gives `parts`, then fails, or ends when there is no failure."""

    def __init__(self, kind: str, format: str, parts: list[bytes], failure: BaseException | None) -> None:
        self.id, self.kind, self.format, self.columns = "f00d", kind, format, ["s", "o"]
        self.content_type = results.BY_NAME[format].content_type
        self.epoch, self.commit_time, self.ms, self.rows = 1, "2026-01-02T03:04:05.678Z", None, None
        self.ends, self.done = time.monotonic() + 30, False
        self._parts, self._failure = parts, failure

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def cancel(self, message: str = "") -> None:
        pass

    def close(self) -> None:
        pass

    async def begin(self) -> Self:
        if not self._parts and self._failure is not None:
            raise self._failure
        return self

    async def chunk_async(self) -> bytes | None:
        if not self._parts:
            if self._failure is not None and not self.done:
                self.done = True
                raise self._failure
            self.done = True
            return None
        part = self._parts.pop(0)
        self.done = not self._parts and self._failure is None
        await asyncio.sleep(0)
        return part


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("cut") / ".graphtide"
    with open_store(state, BASE) as store:
        store.commit(Change({}, {"": frozenset(f'<{BASE}s{n}> <{BASE}p> "value {n}"' for n in range(3000))}))
        store.checkpoint()
        with serve(state, BASE, cache_bytes=0) as found:
            yield found


@pytest.fixture(scope="module")
def bodies(server: Served) -> dict[tuple[str, str], bytes]:
    """The whole answer of each format."""
    return {
        (name, kind): talk(server.port, get(server.port, QUERIES[kind], more=f"&format={name}")).body
        for name, kind in CASES
    }


def plain(coding: str, body: bytes) -> tuple[bytes, bool]:
    """(what a client that trusts the coding can read, whether the coding says that this was all)."""
    if coding == "gzip":
        stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
        return stream.decompress(body), stream.eof
    if coding == "br":
        out = brotli.Decompressor()
        return out.process(body), out.is_finished()
    if coding == "zstd":
        unpacked = zstandard.ZstdDecompressor().decompressobj()
        return unpacked.decompress(body), unpacked.eof
    return body, False


def inject(server: Served, monkeypatch: pytest.MonkeyPatch, make: Any) -> None:
    monkeypatch.setattr(server.serving.pool, "call", make)


def failures(
    server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> int:
    """How many of `count` failing answers looked whole, or were not told from one."""
    chosen = random.Random(seed)
    wrong = 0
    cases = itertools.cycle(itertools.product(CASES, CODINGS, ("1.1", "1.1", "1.1", "1.0")))
    for (name, kind), coding, version in itertools.islice(cases, count):
        body = bodies[name, kind]
        cut = chosen.choice((0, 1, len(body) - 1, len(body), chosen.randrange(len(body))))
        pieces = sorted(chosen.randrange(cut + 1) for _ in range(chosen.randrange(4)))
        parts = [part for a, b in itertools.pairwise([0, *pieces, cut]) if (part := body[a:b])]
        failure = chosen.choice(FAILURES)()
        inject(server, monkeypatch, lambda *_, n=name, k=kind, p=parts, f=failure, **__: Failing(k, n, p, f))
        reply = talk(
            server.port,
            get(
                server.port, QUERIES[kind] + f"#{seed}", version=version, more=f"&format={name}", Accept_Encoding=coding
            ),
        )
        wrong += not noticed(reply, coding, bool(parts), version)
    return wrong


def noticed(reply: Reply, coding: str, begun: bool, version: str) -> bool:
    """Whether this is no answer to anybody: a refusal with its own status, or a body that ends in the middle."""
    if reply.status != 200:
        return reply.complete and reply.status >= 400 and (not begun or version == "1.0")
    if reply.complete or version == "1.0":
        return False
    return not plain(reply.headers.get("content-encoding", "identity"), reply.body)[1]


def test_answers_that_fail_anywhere_look_whole_in_no_format_and_no_coding(
    server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failures(server, bodies, monkeypatch, 4 * len(CASES) * 4, 1) == 0


@pytest.mark.soak
def test_ten_thousand_answers_that_fail_look_whole_in_no_format_and_no_coding(
    server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert failures(server, bodies, monkeypatch, 10_000, 2) == 0


@pytest.mark.parametrize("coding", CODINGS)
def test_without_a_failure_the_same_answers_are_whole(
    server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch, coding: str
) -> None:
    for name, kind in CASES:
        body = bodies[name, kind]
        for size in (len(body), 5000, len(body) // 2 + 1):
            parts = [body[n : n + size] for n in range(0, len(body), size)]
            inject(server, monkeypatch, lambda *_, n=name, k=kind, p=parts, **__: Failing(k, n, p, None))
            reply = talk(server.port, get(server.port, QUERIES[kind], more=f"&format={name}", Accept_Encoding=coding))
            got, ended = plain(reply.headers.get("content-encoding", "identity"), reply.body)
            assert reply.complete and got == body
            assert ended is (reply.headers.get("content-encoding") is not None)


@pytest.fixture
def cut(server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch) -> Served:
    """Every answer fails behind two pieces."""
    body = bodies["csv", "rows"]
    inject(
        server,
        monkeypatch,
        lambda *_, **__: Failing("rows", "csv", [body[:9000], body[9000:20000]], WorkerLost("The worker ended.")),
    )
    return server


@pytest.mark.parametrize("coding", CODINGS)
def test_requests_and_urllib_notice_a_cut(cut: Served, coding: str) -> None:
    url = f"{cut.url}sparql?query=" + urllib.request.quote(QUERIES["rows"])  # type: ignore[attr-defined]
    with pytest.raises((requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError)):
        requests.get(url, headers={"Accept": "text/csv", "Accept-Encoding": coding}, timeout=20)
    asked = urllib.request.Request(url, headers={"Accept": "text/csv", "Accept-Encoding": coding})
    with urllib.request.urlopen(asked, timeout=20) as found, pytest.raises(http.client.IncompleteRead):
        found.read()


@pytest.mark.parametrize("coding", CODINGS)
def test_curl_notices_a_cut(cut: Served, coding: str, tmp_path: Path) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")
    url = f"{cut.url}sparql"
    found = subprocess.run(
        [curl, "-sS", "-G", "-o", str(tmp_path / "out"), "-H", f"Accept-Encoding: {coding}", "-H", "Accept: text/csv",
         "--data-urlencode", f"query={QUERIES['rows']}", url],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert found.returncode == 18, found.stderr  # CURLE_PARTIAL_FILE


FETCH = """
const [url, coding] = process.argv.slice(1);
try {
  const found = await fetch(url, {headers: {Accept: "text/csv", "Accept-Encoding": coding}});
  const text = await found.text();
  console.log(JSON.stringify({status: found.status, length: text.length}));
} catch (wrong) { console.log(JSON.stringify({error: String(wrong)})); }
"""


@pytest.mark.parametrize("coding", ["identity", "gzip", "br"])
def test_fetch_notices_a_cut(cut: Served, coding: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    url = f"{cut.url}sparql?query=" + urllib.request.quote(QUERIES["rows"])  # type: ignore[attr-defined]
    found = subprocess.run(
        [node, "--input-type=module", "-e", FETCH, url, coding], capture_output=True, text=True, timeout=30, check=False
    )
    assert "error" in json.loads(found.stdout or "{}"), found.stdout + found.stderr


@pytest.mark.parametrize("coding", CODINGS)
def test_a_worker_killed_in_the_middle_of_an_answer_is_noticed(server: Served, coding: str) -> None:
    ten = "{ 0 1 2 3 4 5 6 7 8 9 }"
    query = "SELECT * { " + " ".join(f"VALUES ?v{n} {ten}" for n in range(8)) + " }"
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        peer.sendall(get(server.port, query, more="&format=csv", Accept_Encoding=coding))
        begin = peer.recv(4096)
        assert b" 200 " in begin
        for pid in server.serving.pool.status()["pids"]:
            os.kill(pid, signal.SIGKILL)
        rest = b"".join(iter(lambda: peer.recv(1 << 16), b""))
    assert not rest.endswith(b"0\r\n\r\n")
    until(lambda: server.serving.pool.status()["workers"] == 1)


def test_an_answer_too_long_for_an_old_client_is_refused_and_not_cut(
    server: Served, bodies: dict[tuple[str, str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    part = bodies["csv", "rows"]
    count = server.serving.config.buffer_bytes // len(part) + 2
    inject(server, monkeypatch, lambda *_, **__: Failing("rows", "csv", [part] * count, None))
    reply = talk(server.port, get(server.port, QUERIES["rows"], version="1.0", more="&format=csv"))
    assert (reply.status, json.loads(reply.body)["code"]) == (505, "http-too-old")
