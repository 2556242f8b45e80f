"""An allowed request connects to the address that was checked, and takes so much, for so long, and no more."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sparql.outgoing import Got, Outgoing, OutgoingFailed, OutgoingRefused

CSV = "text/csv"


def ok(body: bytes, *headers: str, kind: str = CSV) -> bytes:
    lines = ["HTTP/1.1 200 OK", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def moved(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass
class Elsewhere:
    """A server that answers each request with the next answer, bytes or a function of the connection."""

    port: int
    answers: list[bytes | Callable[[socket.socket], None]] = field(default_factory=list)
    requests: list[bytes] = field(default_factory=list)

    def out(self, host: str = "good.example", scheme: str = "http", **options: object) -> Outgoing:
        options = {"allow_private": [host], "resolve": lambda host, port: ["127.0.0.1"], "seconds": 5.0} | options
        return Outgoing([f"{scheme}://{host}:{self.port}"], **options)  # type: ignore[arg-type]

    def url(self, path: str = "/x", host: str = "good.example", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


def listening(tls: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Iterator[Elsewhere]:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.create_server((address, 0), family=family)
    found = Elsewhere(listener.getsockname()[1])

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                connection.settimeout(10)
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                with connection:
                    asked = b""
                    while b"\r\n\r\n" not in asked:
                        asked += connection.recv(65536) or b"\r\n\r\n"
                    found.requests.append(asked)
                    answer = found.answers.pop(0) if found.answers else b""
                    answer(connection) if callable(answer) else connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    yield found
    listener.close()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    yield from listening()


def drip(connection: socket.socket, head: bytes, piece: bytes) -> None:
    connection.sendall(head)
    with contextlib.suppress(OSError):
        for _ in range(200):
            connection.sendall(piece)
            time.sleep(0.03)


def test_an_answer_is_its_type_and_its_bytes(elsewhere: Elsewhere) -> None:
    elsewhere.answers = [ok(b"a,b\r\n", kind="Text/CSV; charset=utf-8")]
    assert elsewhere.out().get(elsewhere.url("/é x".replace(" ", "%20")), CSV) == Got("text/csv", b"a,b\r\n")
    line, *headers = elsewhere.requests[0].decode().split("\r\n")
    assert line == "GET /%C3%A9%20x HTTP/1.1"
    assert f"Host: good.example:{elsewhere.port}" in headers


def test_what_is_posted_arrives_with_its_type(elsewhere: Elsewhere) -> None:
    elsewhere.answers = [ok(b"")]
    elsewhere.out().post(elsewhere.url(), b"ASK {}", "application/sparql-query", CSV)
    assert elsewhere.requests[0].startswith(b"POST /x HTTP/1.1\r\n")
    assert b"Content-Type: application/sparql-query\r\n" in elsewhere.requests[0]
    assert b"Content-Length: 6\r\n" in elsewhere.requests[0]


def test_no_cookie_secret_or_proxy_of_this_machine_goes_along(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".netrc").write_text("default login me password hunter2\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    elsewhere.answers = [ok(b"1", "Set-Cookie: a=b; Path=/"), ok(b"2")]
    out = elsewhere.out()
    assert [out.get(elsewhere.url(), CSV).body for _ in range(2)] == [b"1", b"2"]
    names = {line.split(b":")[0].lower() for line in elsewhere.requests[1].split(b"\r\n")[1:] if line}
    assert names == {b"host", b"accept", b"accept-encoding", b"user-agent", b"connection"}


def test_a_name_that_changes_its_address_is_looked_up_once_and_connected_as_checked(elsewhere: Elsewhere) -> None:
    answers = itertools.chain([["127.0.0.1"]], itertools.repeat(["169.254.169.254"]))
    elsewhere.answers = [ok(b"first")]
    out = elsewhere.out(resolve=lambda host, port: next(answers))
    assert out.get(elsewhere.url(), CSV).body == b"first"
    with pytest.raises(OutgoingRefused, match=r"169\.254\.169\.254 is link-local"):
        out.get(elsewhere.url(), CSV)
    assert len(elsewhere.requests) == 1


def test_a_public_name_that_turns_private_between_two_requests_is_refused(elsewhere: Elsewhere) -> None:
    looked: list[str] = []

    def rebinding(host: str, port: int) -> list[str]:
        looked.append(host)
        return ["127.0.0.1"] if len(looked) > 1 else ["93.184.216.34"]

    out = elsewhere.out(allow_private=[], resolve=rebinding)
    assert [str(one) for one in out._addresses(out.check(elsewhere.url()), float("inf"))] == ["93.184.216.34"]
    with pytest.raises(OutgoingRefused, match="loopback"):
        out.get(elsewhere.url(), CSV)
    assert elsewhere.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_of_a_get_is_followed_within_the_list(elsewhere: Elsewhere, status: int) -> None:
    elsewhere.answers = [moved(status, "/y"), ok(b"there")]
    assert elsewhere.out().get(elsewhere.url(), CSV).body == b"there"
    assert elsewhere.requests[1].startswith(b"GET /y ")


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]:9/",
        "http://good.example/",
        "https://good.example/",
        "http://2130706433/",
        "//other.example/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "http://user@good.example/",
    ],
)
def test_a_redirect_off_the_list_is_not_followed(elsewhere: Elsewhere, location: str) -> None:
    elsewhere.answers = [moved(302, location), ok(b"never")]
    with pytest.raises(OutgoingRefused):
        elsewhere.out().get(elsewhere.url(), CSV)
    assert len(elsewhere.requests) == 1


def test_a_redirect_to_a_name_that_has_become_private_is_not_followed(elsewhere: Elsewhere) -> None:
    where = {"good.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]}
    elsewhere.answers = [moved(302, f"http://other.example:{elsewhere.port}/")]
    out = Outgoing(
        [f"http://{host}:{elsewhere.port}" for host in where],
        allow_private=["good.example"],
        resolve=lambda host, port: where[host],
    )
    with pytest.raises(OutgoingRefused, match="other.example"):
        out.get(elsewhere.url(), CSV)


def test_redirects_are_counted(elsewhere: Elsewhere) -> None:
    elsewhere.answers = [moved(302, f"/{n}") for n in range(9)]
    with pytest.raises(OutgoingFailed, match="more than 3 times"):
        elsewhere.out().get(elsewhere.url(), CSV)
    assert len(elsewhere.requests) == 4


def test_a_post_is_posted_again_or_becomes_a_get_or_fails_but_is_never_emptied(elsewhere: Elsewhere) -> None:
    def post() -> Got:
        return elsewhere.out().post(elsewhere.url(), b"ASK {}", "application/sparql-query", CSV)

    elsewhere.answers = [moved(307, "/y"), ok(b"kept")]
    assert post().body == b"kept" and elsewhere.requests[-1].startswith(b"POST /y ")
    elsewhere.answers = [moved(303, "/y"), ok(b"seen")]
    assert post().body == b"seen" and elsewhere.requests[-1].startswith(b"GET /y ")
    assert b"Content-" not in elsewhere.requests[-1]
    elsewhere.answers = [moved(301, "/y")]
    with pytest.raises(OutgoingFailed, match="loses what was posted"):
        post()


def test_an_answer_is_unpacked(elsewhere: Elsewhere) -> None:
    packed = gzip.compress(b"a" * 1000) + gzip.compress(b"b")
    elsewhere.answers = [ok(packed, "Content-Encoding: gzip")]
    assert elsewhere.out().get(elsewhere.url(), CSV).body == b"a" * 1000 + b"b"


@pytest.mark.parametrize(
    "answer",
    [
        ok(gzip.compress(bytes(50 * 2**20)), "Content-Encoding: gzip"),
        ok(gzip.compress(b"") * 60_000, "Content-Encoding: gzip"),
        ok(b"x" * 1_000_001),
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n\r\n" + b"x" * 1_000_001,
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: 99999999999\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n"
        + b"9\r\n123456789\r\n" * 120_000,
    ],
    ids=["bomb", "members that hold nothing", "said", "unsaid", "lied", "chunked"],
)
def test_an_answer_that_is_too_long_is_not_taken(elsewhere: Elsewhere, answer: bytes) -> None:
    elsewhere.answers = [answer]
    with pytest.raises(OutgoingFailed, match="more than 1,000,000 bytes"):
        elsewhere.out(max_bytes=1_000_000).get(elsewhere.url(), CSV)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: 10\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
        ok(gzip.compress(b"abc")[:-4], "Content-Encoding: gzip"),
        ok(b"not packed", "Content-Encoding: gzip"),
        ok(b"abc", "Content-Encoding: br"),
        ok(b"abc", kind="text/html"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/csv\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 206 Partial Content\r\nContent-Type: text/csv\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
    ],
)
def test_an_answer_that_is_cut_mistyped_or_not_http_is_none(elsewhere: Elsewhere, answer: bytes) -> None:
    elsewhere.answers = [answer]
    with pytest.raises(OutgoingFailed):
        elsewhere.out().get(elsewhere.url(), CSV)


@pytest.mark.parametrize(
    "slowly",
    [
        lambda connection: drip(connection, b"", b"H"),
        lambda connection: drip(connection, b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
        lambda connection: drip(connection, b"HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\n\r\n", b"x"),
        lambda connection: drip(connection, b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        lambda connection: time.sleep(1.5),
    ],
    ids=["status", "headers", "body", "continue", "silence"],
)
def test_the_whole_call_is_over_at_its_deadline(elsewhere: Elsewhere, slowly: Callable[[socket.socket], None]) -> None:
    elsewhere.answers = [slowly]
    began = time.monotonic()
    with pytest.raises(OutgoingFailed, match="in time"):
        elsewhere.out(seconds=0.4).get(elsewhere.url(), CSV)
    assert time.monotonic() - began < 2.0  # a drip lasts six


def test_the_deadline_covers_the_resolver_and_all_redirects(elsewhere: Elsewhere) -> None:
    def slow(host: str, port: int) -> list[str]:
        time.sleep(0.3)
        return ["127.0.0.1"]

    elsewhere.answers = [moved(302, f"/{n}") for n in range(9)]
    began = time.monotonic()
    with pytest.raises(OutgoingFailed, match="in time"):
        elsewhere.out(resolve=slow, max_redirects=9, seconds=5.0).get(elsewhere.url(), CSV, ends=time.monotonic() + 0.7)
    assert time.monotonic() - began < 2.0  # nine redirects take three


def test_the_next_address_is_tried_when_one_does_not_answer(elsewhere: Elsewhere) -> None:
    elsewhere.answers = [ok(b"second")]
    out = elsewhere.out(resolve=lambda host, port: ["127.0.0.9", "127.0.0.1"])
    assert out.get(elsewhere.url(), CSV).body == b"second"


def test_an_address_of_ip_version_6_is_reached() -> None:
    for there in listening(address="::1"):
        there.answers = [ok(b"six")]
        out = Outgoing([f"http://[::1]:{there.port}"], allow_private=["::1"])
        assert out.get(f"http://[0:0::1]:{there.port}/", CSV).body == b"six"
        assert f"Host: [::1]:{there.port}".encode() in there.requests[0]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for good.example, and its key, in one file."""
    folder = tmp_path_factory.mktemp("tls")
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
        + ["-keyout", str(folder / "key"), "-out", str(folder / "crt"), "-subj", "/CN=good.example"]
        + ["-addext", "subjectAltName=DNS:good.example"],
        capture_output=True,
    )
    if made.returncode:
        pytest.skip(f"openssl made no certificate: {made.stderr.decode()}")
    both = folder / "both.pem"
    both.write_text((folder / "key").read_text() + (folder / "crt").read_text())
    return both


def test_tls_proves_the_name_although_the_address_is_connected_to(certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    client = ssl.create_default_context(cafile=str(certificate))
    for there in listening(server):
        there.answers = [ok(b"secret")]
        assert there.out(scheme="https", tls=client).get(there.url(scheme="https"), CSV).body == b"secret"
        with pytest.raises(OutgoingFailed, match="(?i)hostname mismatch"):
            there.out("other.example", "https", tls=client).get(there.url("/", "other.example", "https"), CSV)
        with pytest.raises(OutgoingFailed, match="(?i)self.signed"):
            there.out(scheme="https").get(there.url(scheme="https"), CSV)
        assert len(there.requests) == 1
