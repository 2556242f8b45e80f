"""Whatever is sent, the server answers as its OpenAPI document says, never with a 500, and goes on answering."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.api_shop import TOKEN, Shop, server, write, writer

# What a client got wrong may be said by any of these; what is not there now, by the last.
CONFIG = """
[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 501, 502, 503, 504, 507]
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 405, 406, 409, 411, 412, 413, 415, 422, 429, 431, 503]
"""
CONFORM = "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance," \
    "response_schema_conformance"  # fmt: skip
# A parameter that is text may still name nothing (404), and a reader's path needs no token on this machine.
API = f"{CONFORM},negative_data_rejection,missing_required_header,unsupported_method,use_after_free," \
    "ensure_resource_availability"  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    dir = tmp_path_factory.mktemp("shop")
    write(dir)
    with writer(dir), server(dir, workers=2, deadline=3.0) as found:
        found.until("/api/search", lambda page: True, q="checkout")
        yield found


def fuzz(shop: Shop, seconds: int, checks: str, seed: int, *more: str) -> None:
    """Requests made of the document for so long; fails with what did not conform."""
    config = shop.dir.with_name("schemathesis.toml")
    config.write_text(CONFIG)
    found = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), "--config-file", str(config), "run",
         f"{shop.url}openapi.json", "--header", f"Authorization: Bearer {TOKEN}", "--max-time", str(seconds),
         "--seed", str(seed), "--checks", checks, "--suppress-health-check", "all", "--warnings", "off", "--no-shrink",
         "--request-timeout", "10", "--continue-on-failure", *more],
        capture_output=True, text=True, cwd=shop.dir.parent, timeout=seconds + 120, check=False,
    )  # fmt: skip
    said = "\n".join(line[:300] for line in found.stdout.splitlines())
    assert found.returncode == 0, said[:20_000] + found.stderr[-2000:]


def test_the_api_answers_as_it_says_whatever_is_asked(shop: Shop) -> None:
    fuzz(shop, 5, API, 1, "--include-path-regex", "^/api/", "--phases", "examples,coverage,fuzzing")


def test_the_protocol_answers_as_it_says_whatever_is_asked(shop: Shop) -> None:
    fuzz(shop, 3, CONFORM, 1, "--exclude-path-regex", "^/api/", "--exclude-method", "PATCH", "--phases", "fuzzing")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
def test_for_five_minutes_the_server_answers_as_it_says(shop: Shop, seed: int) -> None:
    fuzz(shop, 60, API, seed + 100, "--include-path-regex", "^/api/", "--phases", "coverage,fuzzing,stateful")
    fuzz(shop, 15, CONFORM, seed + 100, "--exclude-path-regex", "^/api/", "--exclude-method", "PATCH")


QUERY = "SELECT%20*%20%7B%3Fs%20%3Fp%20%3Fo%7D%20LIMIT%203"
MINE = f"Authorization: Bearer {TOKEN}"
PART = 'Content-Disposition: form-data; name="f"; filename="a.ttl"'


def message(line: str, *headers: str, body: str = "") -> str:
    """A request as it is sent, with the length of its body."""
    length = [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([f"{line} HTTP/1.1", "Host: HOST", *headers, *length, "", body])


GOOD = [
    message(f"GET /sparql?query={QUERY}", "Accept: text/csv"),
    message("POST /sparql", "Content-Type: application/x-www-form-urlencoded", body=f"query={QUERY}"),
    message("POST /sparql", "Content-Type: application/sparql-query", body="ASK {}"),
    message("POST /sparql", "Content-Type: application/sparql-query", "Transfer-Encoding: chunked")
    + "6\r\nASK {}\r\n0\r\n\r\n",
    message("QUERY /sparql", "Content-Type: application/sparql-query", body="ASK {}"),
    message("POST /sparql", MINE, "Content-Type: application/sparql-update", body="INSERT DATA { <a:s> <a:p> <a:o> }"),
    message("GET /store?default", "Accept: text/turtle"),
    message("PUT /store?graph=a:g", MINE, "Content-Type: text/turtle", body="<a:s> <a:p> <a:o> ."),
    message("POST /store?graph=a:g", MINE, "Content-Type: multipart/form-data; boundary=x",
            body=f"--x\r\n{PART}\r\n\r\n<a:s> <a:p> <a:o> .\r\n--x--\r\n"),
    message("POST /api/sync", MINE, "Content-Type: application/json", body='{"sources":["teams"]}'),
    message("GET /api/search?q=checkout&limit=3", "Accept-Encoding: gzip, br, zstd"),
    message("GET /api/entity?iri=https%3A%2F%2Fe.example%2Fservice%2Fcheckout", 'If-None-Match: "x"'),
    message("HEAD /api/graph"),
    message("OPTIONS /sparql", "Origin: https://evil.example", "Access-Control-Request-Method: POST"),
]  # fmt: skip
PIECES = [
    b"\x00", b"\xff\xfe", b"\r\n", b"\n", b"\r", b"%00", b"%ff", b"%", b"%u0041", b"..", b"//", b"?", b"#", b"&", b"=",
    b";",
    b"\xf0\x9f\x98\x80", b"A" * 9000, b"-1", b"99999999999999999999", b"1e309", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: gzip, chunked\r\n", b"Expect: 100-continue\r\n",
    b"Content-Encoding: gzip\r\n", b"Accept: */*;q=2, text/\xe9\r\n", b"Accept: " + b"a/b," * 2000 + b"\r\n",
    b"Range: bytes=0-1,-\r\n", b"Cookie: " + b"a=b;" * 1000 + b"\r\n", b"Authorization: Basic ////\r\n",
    b"Authorization: Bearer \xff\r\n", b"If-None-Match: W/\"\", *, \"\r\n", b"X-Forwarded-For: ::, 1\r\n",
    b"Host: evil\r\n",
    b"Last-Event-ID: \xb2\r\n", b"Content-Type: multipart/form-data\r\n",
    b"Content-Type: text/turtle; charset=utf-7\r\n",
    b"HTTP/0.9", b"HTTP/1.0", b"HTTP/2.0", b"GET", b"query=&query=", b"{", b"\"\"\"", b"<", b"[" * 3000, b"(" * 3000,
]  # fmt: skip


def mutated(random: random.Random, text: str, host: str) -> bytes:
    """A request in which something is put in, taken out, doubled, swapped or cut off."""
    data = bytearray(text.replace("HOST", host).encode())
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(data) + 1)
        end = min(len(data), at + random.randint(1, 30))
        match random.randrange(6):
            case 0:
                data[at:at] = random.choice(PIECES)
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case 3:
                data[at:end] = bytes(random.randrange(256) for _ in range(end - at))
            case 4:
                lines = data.split(b"\r\n")
                lines.insert(random.randrange(1, len(lines) + 1), random.choice(PIECES).strip(b"\r\n"))
                data = bytearray(b"\r\n".join(lines))
            case _:
                del data[at:]
    return bytes(data)


def statuses(shop: Shop, request: bytes, seconds: float) -> list[int]:
    """The statuses of all that is answered to these bytes, until nothing more comes and the connection is closed."""
    port = int(shop.url.rsplit(":", 1)[1].strip("/"))
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as connection, suppress(ConnectionError):
        with suppress(ConnectionError):  # it may have said no already
            connection.sendall(request)
        quiet = False
        while len(answer) < 2**20:
            connection.settimeout(seconds if quiet else 0.15)
            try:
                more = connection.recv(65536)
            except TimeoutError:
                if quiet:
                    raise
                quiet = True  # an unfinished request is waited for: now it is over
                connection.shutdown(socket.SHUT_WR)
                continue
            if not more:
                break
            answer += more
    return [int(found) for found in re.findall(rb"HTTP/1\.[01] (\d{3})", answer)]


def mutate(shop: Shop, seed: int, count: int) -> None:
    chosen = random.Random(seed)
    host = shop.url.split("//")[1].strip("/")
    requests = [mutated(chosen, chosen.choice(GOOD), host) for _ in range(count)]

    def one(request: bytes) -> tuple[bytes, list[int] | None]:
        try:
            return request, statuses(shop, request, 15.0)
        except TimeoutError:
            return request, None

    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(one, requests))
    assert [request[:300] for request, said in found if said is None] == [], f"seed {seed}: not answered"
    assert [request[:300] for request, said in found if said and 500 in said] == [], f"seed {seed}: 500"
    assert shop.json("/api/search", q="checkout")["total"] >= 0
    assert shop.get("/ready").status_code == 200


def test_the_requests_that_are_mutated_are_good_ones(shop: Shop) -> None:
    host = shop.url.split("//")[1].strip("/")
    for text in GOOD[:-1]:
        found = statuses(shop, text.replace("HOST", host).encode(), 10.0)
        assert found and found[0] < 300, (text, found)


def test_a_broken_request_is_never_a_500_and_never_hangs(shop: Shop) -> None:
    mutate(shop, 1, 300)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 20))
def test_thousands_of_broken_requests_are_never_a_500(shop: Shop, seed: int) -> None:
    mutate(shop, seed, 2000)
