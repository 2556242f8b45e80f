"""A server in operation: what it counts, logs and traces, how it stops, and what slow and greedy clients get."""

from __future__ import annotations

import http.server
import io
import json
import logging
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from sparql.log import Change
from sparql.server import logs
from sparql.server.config import ServerConfig, ServerError
from sparql.server.tracing import tracing
from sparql.store import Store, open_store
from tests.served import hear, talk

BASE = "https://e.example/"
TEN = "{ 0 1 2 3 4 5 6 7 8 9 }"
TOKEN = "s3cret-token-of-the-admin"
START = """
import sys
from pathlib import Path
from sparql.server.config import ServerConfig
from sparql.server.serve import serve
config = ServerConfig(Path(sys.argv[1]), "https://e.example/", port=0, **eval(sys.argv[2]))
serve(config, lambda url: print("READY", url, flush=True))
"""


def rows(digits: int) -> str:
    return "SELECT * { " + " ".join(f"VALUES ?v{n} {TEN}" for n in range(digits)) + " }"


@dataclass
class Process:
    url: str
    process: subprocess.Popen[str]

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].strip("/"))

    def get(self, path: str, **options: Any) -> requests.Response:
        return requests.get(self.url + path, timeout=20, **options)

    def stop(self) -> str:
        """What it logged, once it has stopped."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.communicate(timeout=30)[1]


@contextmanager
def running(state: Path, **options: Any) -> Iterator[Process]:
    options = {"workers": 2, "spares": 0, "deadline": 15.0, **options}
    command = [sys.executable, "-c", START, str(state), repr(options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stderr is not None
    try:
        for line in process.stdout:
            if line.startswith("READY"):
                found = Process(line.split()[1], process)
                while found.get("ready").status_code != 200:
                    time.sleep(0.02)
                yield found
                break
        else:
            raise AssertionError(process.stderr.read())
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("ops") / ".graphtide", BASE) as found:
        found.commit(Change({}, {"": frozenset({f"<{BASE}s> <{BASE}p> <{BASE}o>"})}))
        found.checkpoint()
        yield found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Process]:
    limits = {"header_seconds": 0.5, "body_seconds": 0.5, "max_header_bytes": 16384, "max_client_connections": 20}
    with running(store.state, token=TOKEN, log="json", access_log=True, **limits) as found:
        yield found


# -- metrics


def numbers(server: Process) -> dict[str, float]:
    found = server.get("metrics")
    assert found.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    lines = [line.rsplit(" ", 1) for line in found.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_the_metrics_count_requests_and_queries_by_how_they_ended(server: Process) -> None:
    before = numbers(server)
    query = {"query": f"SELECT * {{ ?s ?p ?o FILTER(?o != {time.time()}) }}"}
    for _ in range(3):
        assert requests.get(server.url + "sparql", query, timeout=20).status_code == 200
    assert requests.get(server.url + "sparql", {"query": "SELEKT"}, timeout=20).status_code == 400
    slow = {"query": rows(9) + " ORDER BY ?v0", "timeout": "0.2"}
    assert requests.get(server.url + "sparql", slow, timeout=20).status_code == 504
    after = numbers(server)

    def more(name: str) -> float:
        return after.get(name, 0) - before.get(name, 0)

    assert more('graphtide_requests_total{method="GET",route="/sparql",status="200"}') == 3
    assert more('graphtide_requests_total{method="GET",route="/sparql",status="400"}') == 1
    assert more('graphtide_queries_total{outcome="answered"}') == 1
    assert more('graphtide_queries_total{outcome="timeout"}') == 1
    assert more("graphtide_cache_hits_total") == 2
    assert after["graphtide_epoch"] == 1
    assert after["graphtide_queries_running"] == 0 and after["graphtide_queries_waiting"] == 0
    assert after['graphtide_request_seconds_count{route="/sparql"}'] >= 5


def test_no_label_is_what_a_client_wrote(server: Process) -> None:
    for path in ("nowhere/secret-path", "id/some-thing", "sparql/x?query=secret-query"):
        server.get(path)
    talk(server.port, f"PROPFIND / HTTP/1.1\r\nHost: localhost:{server.port}\r\nConnection: close\r\n\r\n".encode())
    text = server.get("metrics").text
    assert "secret" not in text and "some-thing" not in text and "PROPFIND" not in text
    assert len(re.findall(r'route="([^"]*)"', text)) > 0


def test_ready_says_that_workers_have_no_network(server: Process) -> None:
    assert server.get("ready").json()["network"] in (False, True)
    assert "graphtide_workers_networkless" in numbers(server)


# -- logs


@pytest.fixture(scope="module")
def collector() -> Iterator[tuple[str, list[Any]]]:
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    got: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            asked = ExportTraceServiceRequest.FromString(body)
            got.extend(span for each in asked.resource_spans for scope in each.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", got
    server.shutdown()
    server.server_close()


TRACE = "0af7651916cd43dd8448eb211c80319c"


@dataclass
class Observed:
    """What a server said and sent of some requests."""

    log: str
    spans: list[Any]
    ids: list[str]


@pytest.fixture(scope="module")
def observed(store: Store, collector: tuple[str, list[Any]]) -> Observed:
    url, spans = collector
    with running(store.state, token=TOKEN, log="json", access_log=True, otel_endpoint=url) as server:
        query = {"query": 'SELECT * { ?s ?p "my-secret-literal" }'}
        headers = {"X-Request-Id": "mine-1", "traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
        found = [
            server.get("sparql", params=query, headers=headers),
            server.get("sparql", params={"query": "SELEKT my-secret-word"}, headers={"X-Request-Id": "x\\n{evil}"}),
            server.get("api/status", headers={"Authorization": f"Bearer {TOKEN}"}),
            server.get("api/status", headers={"Authorization": "Bearer gt_wrong-secret-wrong-secret"}),
        ]
        assert [each.status_code for each in found] == [200, 400, 200, 401]
        return Observed(server.stop(), spans, [each.headers["X-Request-Id"] for each in found])


def test_a_line_for_each_request_names_it_and_holds_no_query_and_no_token(observed: Observed) -> None:
    assert observed.ids[0] == "mine-1" and re.fullmatch("[0-9a-f]{16}", observed.ids[1])
    lines = [json.loads(line) for line in observed.log.splitlines()]
    seen = {line["request"]: line for line in lines if line["logger"] == "graphtide.access"}
    first, bad, ours, wrong = (seen[name] for name in observed.ids)
    told = {"method": "GET", "route": "/sparql", "status": 200, "client": "127.0.0.1", "whole": True, "level": "info"}
    assert first.items() >= told.items() and first["ms"] >= 0 and re.fullmatch("[0-9a-f]{12}", first["query"])
    assert (bad["status"], ours["client"], wrong["client"]) == (400, "token:admin", "127.0.0.1")
    for secret in ("secret-literal", "secret-word", TOKEN, "wrong-secret", "evil"):
        assert secret not in observed.log


def test_a_trace_goes_where_the_settings_say_with_wait_and_run_of_the_query(observed: Observed) -> None:
    spans = {span.name: span for span in observed.spans if span.trace_id.hex() == TRACE}
    assert spans.keys() == {"GET /sparql", "query.wait", "query.run"}
    request = spans["GET /sparql"]
    assert request.parent_span_id.hex() == "b7ad6b7169203331"
    assert spans["query.run"].parent_span_id == request.span_id == spans["query.wait"].parent_span_id
    assert "secret" not in str(observed.spans)


def test_text_logs_are_one_line_an_event_and_hide_the_same(caplog: pytest.LogCaptureFixture) -> None:
    out = io.StringIO()
    logs.configure("text", [TOKEN], out)
    try:
        logger = logging.getLogger("graphtide.test")
        logger.warning("Authorization: Bearer abc.def and %s and http://user:pw@host/ \n forged line", TOKEN)
        try:
            raise ValueError("SELECT ?secret")
        except ValueError:
            logger.error("it failed", exc_info=True)
    finally:
        root = logging.getLogger()
        root.handlers = [one for one in root.handlers if not isinstance(one.formatter, logs.TextLines)]
    first, second = out.getvalue().splitlines()
    assert first.endswith("Authorization: [hidden] and [hidden] and http://[hidden]host/   forged line")
    assert "error=ValueError" in second and "SELECT" not in second and "test_ops_http.py" in second


# -- traces


def test_without_an_endpoint_no_tracing_is_even_loaded(store: Store) -> None:
    script = "import sys; from pathlib import Path; from sparql.server.app import create_app; "
    script += (
        "from sparql.server.config import ServerConfig; create_app(ServerConfig(Path(sys.argv[1]), 'https://e/')); "
    )
    script += "print(any(name.startswith('opentelemetry') for name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", script, str(store.state)], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "False", done.stderr


def test_an_endpoint_of_traces_that_is_no_url_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="otel_endpoint"):
        tracing(ServerConfig(tmp_path, BASE, otel_endpoint="collector:4318"))


# -- stopping


def test_a_stop_is_announced_then_running_answers_end(store: Store) -> None:
    with running(store.state, drain_notice=0.8, drain_seconds=10.0) as server:
        # More than the buffers on the way hold, so that it is still being sent when the stop comes.
        asked = {"query": rows(5)[:-1] + f"BIND('{'x' * 300}' AS ?pad) }}", "format": "csv"}
        answer = server.get("sparql", params=asked, stream=True)
        first = next(parts := answer.iter_content(65536))
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert server.get("ready").status_code == 503
        assert server.get("sparql", params={"query": "ASK {}"}).status_code == 200
        assert (first + b"".join(parts)).count(b"\r\n") == 100_001
        server.process.communicate(timeout=20)
        assert server.process.returncode == 0


def test_an_answer_that_does_not_end_in_time_is_broken_off(store: Store) -> None:
    with running(store.state, drain_seconds=1.0, deadline=60.0) as server:
        with requests.get(
            server.url + "sparql", {"query": rows(9), "format": "csv"}, stream=True, timeout=20
        ) as answer:
            parts = answer.iter_content(65536)
            next(parts)
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(requests.exceptions.ChunkedEncodingError):
                for _ in parts:
                    pass
        server.process.communicate(timeout=20)
        assert server.process.returncode == 0
        assert time.monotonic() - began < 5


# -- slow and greedy clients


def connect(server: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), 10)


def test_headers_that_drip_in_are_given_up(server: Process) -> None:
    with connect(server) as peer:
        began = time.monotonic()
        with pytest.raises(OSError):
            peer.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n")
            for _ in range(100):
                peer.sendall(b"X: y\r\n")
                time.sleep(0.03)
        assert time.monotonic() - began < 2.0
    with connect(server) as peer:
        peer.sendall(b"GET /ready HTTP/1.1\r\n")
        assert hear(peer).status == 408


def test_a_connection_that_says_nothing_is_closed(server: Process) -> None:
    with connect(server) as peer:
        began = time.monotonic()
        assert peer.recv(100) == b""
        assert time.monotonic() - began < 2.0


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 40000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 40000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
    ],
)
def test_headers_that_are_too_long_are_refused(server: Process, head: bytes) -> None:
    with connect(server) as peer:
        peer.sendall(head[:30000])
        found = hear(peer)
    assert (found.status, json.loads(found.body)["code"]) == (431, "head-too-long")


def test_what_is_not_http_is_told_so(server: Process) -> None:
    found = talk(server.port, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
    assert (found.status, json.loads(found.body)["code"]) == (400, "not-http")


def test_a_body_that_drips_in_is_given_up(server: Process) -> None:
    head = "POST /sparql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/sparql-query\r\n"
    head += "Content-Length: 100\r\n\r\n"
    with connect(server) as peer:
        peer.sendall(head.encode() + b"ASK")
        began = time.monotonic()
        found = hear(peer)
    assert (found.status, json.loads(found.body)["code"]) == (408, "too-slow")
    assert time.monotonic() - began < 2.0


def test_one_address_holds_so_many_connections_and_no_more(server: Process) -> None:
    held = [connect(server) for _ in range(30)]
    try:
        time.sleep(0.1)
        answers = []
        for peer in held:
            try:
                peer.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                answers.append(hear(peer).status)
            except OSError:
                answers.append(503)
        assert answers.count(200) in range(15, 21)
        assert set(answers) == {200, 503}
    finally:
        for peer in held:
            peer.close()
    time.sleep(0.1)
    assert server.get("health").status_code == 200
    assert numbers(server)["graphtide_connections_refused_total"] >= 10


def test_a_client_that_reads_nothing_is_let_go_and_knows_it_has_not_all(server: Process) -> None:
    query = quote(rows(5)[:-1] + f"BIND('{'x' * 300}' AS ?pad) }}")
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.settimeout(20)
        peer.connect(("127.0.0.1", server.port))
        peer.sendall(f"GET /sparql?format=csv&query={query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(1.5)
        found = hear(peer)
    assert not found.complete
    assert server.get("health").status_code == 200
