"""The endpoint as clients meet it: over real sockets, from a server process of its own."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
import pytest
import requests
import uvicorn
from pyoxigraph import RdfFormat, parse

from sparql.client import SOCKET
from sparql.log import Change
from sparql.server.app import create_app
from sparql.server.config import ServerConfig, ServerError
from sparql.server.examples import read
from sparql.server.serve import bind, serve
from sparql.store import Store, open_store

BASE = "https://e.example/"
TEN = "{ 0 1 2 3 4 5 6 7 8 9 }"
TOKEN = "sesame öffne dich"
START = """
import sys
from pathlib import Path
from sparql.server.config import ServerConfig
from sparql.server.serve import serve
options = eval(sys.argv[2])
config = ServerConfig(Path(sys.argv[1]), "https://e.example/", port=0, **options)
serve(config, lambda url: print("READY", url, flush=True))
"""


def rows(digits: int) -> str:
    return "SELECT * { " + " ".join(f"VALUES ?v{n} {TEN}" for n in range(digits)) + " }"


@dataclass
class Running:
    url: str
    process: subprocess.Popen[str]

    def ask(self, query: str, accept: str | None = None, **parameters: Any) -> requests.Response:
        headers = {"Accept": accept} if accept else {}
        return requests.get(self.url + "sparql", {"query": query, **parameters}, headers=headers, timeout=20)

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1].strip("/"))


def start(state: Path, **options: Any) -> Running:
    process = subprocess.Popen(
        [sys.executable, "-c", START, str(state), repr(options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    for line in process.stdout:
        if line.startswith("READY"):
            return Running(line.split()[1], process)
    raise AssertionError(process.stderr.read())


def stop(running: Running) -> tuple[int, str]:
    running.process.send_signal(signal.SIGTERM)
    _, errors = running.process.communicate(timeout=20)
    return running.process.returncode, errors


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("served") / ".graphtide", BASE) as found:
        found.commit(Change({}, {"": frozenset({f'<{BASE}s> <{BASE}p> "é"', f"<{BASE}s> <{BASE}q> <{BASE}o>"})}))
        found.checkpoint()
        yield found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Running]:
    running = start(store.state, token=TOKEN, prefixes={"e": BASE}, deadline=15.0, hosts=("graph.example",))
    yield running
    code, errors = stop(running)
    assert code == 0
    assert "Traceback" not in errors
    assert list((store.state / "workers").iterdir()) == []


def test_get_post_form_and_post_direct_give_the_same_answer(server: Running) -> None:
    query, url = 'SELECT ?o { e:s e:p ?o FILTER(?o = "é") }', server.url + "sparql"
    accept = {"Accept": "text/csv"}
    found = [
        requests.get(url, {"query": query}, headers=accept, timeout=20),
        requests.post(url, {"query": query}, headers=accept, timeout=20),
        requests.post(
            url,
            query.encode(),
            headers={**accept, "Content-Type": "application/sparql-query; charset=UTF-8"},
            timeout=20,
        ),
    ]
    assert [each.content for each in found] == ["o\r\né\r\n".encode()] * 3
    assert {each.headers["Content-Type"] for each in found} == {"text/csv; charset=utf-8"}


def test_every_answer_says_its_epoch_and_commit_time(server: Running, store: Store) -> None:
    entry = store.commit(Change({}, {BASE + "epochs": frozenset({f'<{BASE}e> <{BASE}n> "1"'})}))
    found = server.ask("ASK {}")
    assert found.headers["X-Graphtide-Epoch"] == str(entry.id)
    assert found.headers["X-Graphtide-Commit-Time"] == entry.time
    assert found.headers["Vary"] == "Accept, Accept-Encoding"


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/sparql-results+json", "SELECT"),
        ("application/sparql-results+xml", "SELECT"),
        ("text/csv", "SELECT"),
        ("text/tab-separated-values", "SELECT"),
        ("text/turtle", "CONSTRUCT"),
        ("application/n-triples", "CONSTRUCT"),
        ("application/ld+json", "DESCRIBE"),
        ("application/trig", "CONSTRUCT"),
        ("application/rdf+xml", "DESCRIBE"),
    ],
)
def test_each_format_is_sent_when_asked_for(server: Running, accept: str, kind: str) -> None:
    query = {
        "SELECT": "SELECT ?o { e:s ?p ?o }",
        "CONSTRUCT": "CONSTRUCT WHERE { e:s ?p ?o }",
        "DESCRIBE": "DESCRIBE e:s",
    }
    found = server.ask(query[kind], accept)
    assert found.status_code == 200
    assert found.headers["Content-Type"].split(";")[0] == accept
    if kind == "SELECT":
        assert "é" in found.content.decode() and BASE + "o" in found.content.decode()
    else:
        form = RdfFormat.from_media_type(accept)
        assert {str(quad.object) for quad in parse(found.content, form)} == {'"é"', f"<{BASE}o>"}


def test_a_format_is_chosen_in_the_url_for_people_with_a_file_name(server: Running) -> None:
    found = server.ask("SELECT ?o { e:s e:p ?o }", "application/json", format="csv", download="my ../answer")
    assert found.content == "o\r\né\r\n".encode()
    assert found.headers["Content-Disposition"] == 'attachment; filename="my-..-answer.csv"'


def test_the_dataset_of_the_request_is_the_one_asked(server: Running, store: Store) -> None:
    store.commit(Change({}, {BASE + "g": frozenset({f'<{BASE}x> <{BASE}p> "in g"'})}))
    query = "SELECT ?o { ?s e:p ?o }"
    assert server.ask(query, "text/csv", **{"default-graph-uri": BASE + "g"}).text == "o\r\nin g\r\n"
    assert server.ask(query, "text/csv", **{"named-graph-uri": BASE + "g"}).text == "o\r\n"


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("GET", "sparql?query=ASK{}&query=ASK{}", {}, 400, "no-query"),
        ("GET", "sparql?query=ASK%20%7B", {}, 400, "query-error"),
        ("GET", "sparql?query=%FF", {}, 400, "not-utf-8"),
        ("GET", "sparql?query=ASK{}&default-graph-uri=nope", {}, 400, "bad-graph"),
        ("GET", "sparql?query=ASK{}&timeout=never", {}, 400, "bad-timeout"),
        ("GET", "sparql?query=ASK{}&format=papyrus", {}, 406, "not-acceptable"),
        ("GET", "sparql?query=ASK{}", {"headers": {"Accept": "image/png"}}, 406, "not-acceptable"),
        ("GET", "sparql?query=ASK{}", {"headers": {"Accept": "text/turtle"}}, 406, "not-acceptable"),
        ("PUT", "sparql", {}, 405, "method-not-allowed"),
        ("DELETE", "sparql?query=ASK{}", {}, 405, "method-not-allowed"),
        (
            "POST",
            "sparql",
            {"data": b"ASK {}", "headers": {"Content-Type": "text/plain"}},
            415,
            "unsupported-media-type",
        ),
        ("POST", "sparql", {"data": b"ASK {}"}, 415, "unsupported-media-type"),
        (
            "POST",
            "sparql",
            {"data": b"ASK {}", "headers": {"Content-Type": "application/sparql-query; charset=utf-16"}},
            415,
            "unsupported-charset",
        ),
        ("POST", "sparql", {"data": {"query": "#" * 1_100_000}}, 413, "too-long"),
        ("POST", "sparql", {"data": {"update": "CLEAR ALL"}}, 401, "token-needed"),
        (
            "POST",
            "sparql",
            {"data": b"CLEAR ALL", "headers": {"Content-Type": "application/sparql-update"}},
            401,
            "token-needed",
        ),
        ("GET", "sparql?query=CLEAR%20ALL", {}, 400, "query-error"),
        ("GET", "nowhere", {}, 404, "not-found"),
        ("GET", "api/violations?limit=x", {}, 400, "bad-limit"),
    ],
)
def test_every_refusal_has_its_code_and_is_a_problem(
    server: Running, method: str, path: str, options: dict[str, Any], status: int, code: str
) -> None:
    found = requests.request(method, server.url + path, timeout=20, **options)
    assert (found.status_code, found.json()["code"], found.json()["status"]) == (status, code, status)
    assert found.headers["Content-Type"] == "application/problem+json"
    assert found.json()["detail"]
    if status == 405:
        assert {"GET", "POST", "HEAD"} <= set(found.headers["Allow"].split(", "))


def test_a_body_without_a_length_is_cut_off_at_the_limit(server: Running) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(40):
            yield b"#" * 65536

    found = requests.post(
        server.url + "sparql", data=endless(), headers={"Content-Type": "application/sparql-query"}, timeout=20
    )
    assert found.status_code == 413


def test_a_syntax_error_has_line_and_column(server: Running) -> None:
    problem = server.ask("SELECT * {\n ?s nope:x ?o }").json()
    assert (problem["line"], problem["column"]) == (2, 5)
    assert problem["detail"].startswith("nope: is not declared")


def test_a_query_past_its_deadline_is_504_and_costs_no_more(server: Running) -> None:
    began = time.monotonic()
    found = server.ask("SELECT (COUNT(*) AS ?n) {" + rows(9)[9:] + " }", timeout=0.4)
    assert (found.status_code, found.json()["code"]) == (504, "query-timeout")
    assert time.monotonic() - began < 3


@pytest.mark.parametrize("accept", ["text/csv", "application/sparql-results+json", "application/sparql-results+xml"])
def test_an_answer_that_fails_after_its_first_byte_is_noticed(server: Running, accept: str) -> None:
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        server.ask(rows(8), accept, timeout=0.5)
    connection = http.client.HTTPConnection("localhost", server.port, timeout=20)
    connection.request("GET", "/sparql?" + urlencode({"query": rows(8), "timeout": 0.5}), headers={"Accept": accept})
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()


def test_an_old_client_gets_a_whole_answer_with_its_length_or_an_error(server: Running) -> None:
    for query, status in ((rows(5), b"200"), (rows(8), b"504")):
        with socket.create_connection(("localhost", server.port), 20) as peer:
            target = "/sparql?" + urlencode(
                {"query": query, "format": "csv", "timeout": 0.7 if status == b"504" else 10}
            )
            peer.sendall(f"GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            data = b"".join(iter(lambda: peer.recv(65536), b""))
        head, _, body = data.partition(b"\r\n\r\n")
        assert head.split()[1] == status
        assert f"content-length: {len(body)}".encode() in head.lower()


def test_a_slow_reader_does_not_keep_a_worker_past_the_deadline(server: Running) -> None:
    with socket.socket() as peer:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("localhost", server.port))
        target = "/sparql?" + urlencode({"query": rows(8), "format": "csv", "timeout": 0.7})
        peer.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert peer.recv(100)
        assert requests.get(server.url + "ready", timeout=20).json()["busy"] == 1
        time.sleep(1.2)
        assert requests.get(server.url + "ready", timeout=20).json()["busy"] == 0


def test_a_query_whose_client_is_gone_is_stopped(server: Running) -> None:
    with socket.create_connection(("localhost", server.port)) as peer:
        target = "/sparql?" + urlencode({"query": "SELECT (COUNT(*) AS ?n) {" + rows(9)[9:] + " }"})
        peer.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        ends = time.monotonic() + 5
        while requests.get(server.url + "ready", timeout=20).json()["busy"] == 0 and time.monotonic() < ends:
            time.sleep(0.02)
    ends = time.monotonic() + 5
    while (busy := requests.get(server.url + "ready", timeout=20).json()["busy"]) and time.monotonic() < ends:
        time.sleep(0.02)
    assert busy == 0


def test_head_has_the_headers_and_no_body(server: Running) -> None:
    found = requests.head(server.url + "sparql", params={"query": "ASK {}"}, timeout=20)
    assert (found.status_code, found.content) == (200, b"")
    assert "X-Graphtide-Epoch" in found.headers


def test_health_and_readiness(server: Running) -> None:
    assert requests.get(server.url + "health", timeout=20).json() == {"alive": True}
    found = requests.get(server.url + "ready", timeout=20)
    assert found.status_code == 200
    assert found.json()["ready"] is True and found.json()["writer"] is False and found.json()["epoch"] >= 1


def test_the_vocabulary_is_served_as_turtle(server: Running) -> None:
    found = requests.get(server.url + "ns", timeout=20)
    assert found.headers["Content-Type"].startswith("text/turtle")
    assert any("graphtide/ns#Service" in str(quad.subject) for quad in parse(found.content, RdfFormat.TURTLE))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:9999", 200),
        ("[::1]:8000", 200),
        ("graph.example", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("127.0.0.1.nip.example:8000", 421),
        ("", 421),
    ],
)
def test_a_request_for_another_host_is_misdirected(server: Running, host: str, status: int) -> None:
    found = requests.get(server.url + "health", headers={"Host": host}, timeout=20)
    assert found.status_code == status


def test_no_other_origin_is_told_it_may_read(server: Running) -> None:
    found = requests.get(
        server.url + "sparql", {"query": "ASK {}"}, headers={"Origin": "https://evil.example"}, timeout=20
    )
    assert not [name for name in found.headers if name.lower().startswith("access-control")]
    asked = requests.options(server.url + "writer", headers={"Origin": "https://evil.example"}, timeout=20)
    assert asked.status_code == 403


def test_the_page_is_one_file_that_asks_nobody_else(server: Running) -> None:
    found = requests.get(server.url, timeout=20)
    assert found.status_code == 200
    assert "default-src 'none'" in found.headers["Content-Security-Policy"]
    text = found.text.replace("http://www.w3.org/2000/svg", "")
    assert "http://" not in text and "https://" not in text and "<script src" not in text
    about = requests.get(server.url + "api/page", timeout=20).json()
    assert about["base"] == BASE and about["prefixes"]["e"] == BASE


def test_example_queries_come_from_the_folder_with_their_first_comment_as_title(tmp_path: Path) -> None:
    (tmp_path / "02-b.rq").write_text("SELECT * {}")
    (tmp_path / "01-a.rq").write_text("# Who owns what?\nASK {}")
    assert [(one.name, one.title) for one in read(tmp_path, {}, BASE)] == [("01-a", "Who owns what?"), ("02-b", "02-b")]
    assert read(tmp_path / "missing", {}, BASE) == [] and read(None, {}, BASE) == []


def test_status_and_violations_answer_without_a_writer(server: Running, store: Store) -> None:
    refused, record = f"<{BASE}system/refused/people/7>", f"<{BASE}record/people/7>"
    gt, sh, a = (
        "https://w3id.org/graphtide/ns#",
        "http://www.w3.org/ns/shacl#",
        "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    )
    result = f"<{BASE}system/refused/people/7/1>"
    store.commit(
        Change(
            {},
            {
                BASE + "system/quarantine": frozenset(
                    {
                        f"{refused} <{gt}record> {record}",
                        f'{refused} <{gt}source> "people"',
                        f"{result} <{a}> <{sh}ValidationResult>",
                        f"{result} <{gt}record> {record}",
                        f'{result} <{gt}locator> "people.csv:7"',
                        f'{result} <{sh}value> "31/02/1990"',
                        f'{result} <{sh}resultMessage> "not a date"',
                    }
                )
            },
        )
    )
    status = requests.get(server.url + "api/status", timeout=20).json()
    assert status["writer"] is None and status["commit"] == store.head and "graphtide serve" in status["notes"][0]
    found = requests.get(server.url + "api/violations", {"source": "people"}, timeout=20).json()["violations"]
    assert [(one["locator"], one["value"], one["message"]) for one in found] == [
        ("people.csv:7", "31/02/1990", "not a date")
    ]
    assert requests.get(server.url + "api/violations", {"source": "x"}, timeout=20).json() == {"violations": []}


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "token-needed"),
        ({"Authorization": "Basic " + base64.b64encode(f"x:{TOKEN}".encode()).decode()}, 401, "token-needed"),
        ({"Authorization": b"Bearer nope"}, 401, "wrong-token"),
        ({"Authorization": b"Bearer "}, 401, "wrong-token"),
        ({"Authorization": f"Bearer {TOKEN}".encode()}, 503, "writer-gone"),
    ],
)
def test_the_writer_is_reached_with_the_token_only(
    server: Running, headers: dict[str, Any], status: int, code: str
) -> None:
    found = requests.post(server.url + "writer", json={"do": "status"}, headers=headers, timeout=20)
    assert (found.status_code, found.json()["code"]) == (status, code)


@pytest.fixture
def speaking(tmp_path: Path) -> Iterator[Path]:
    """A state folder where something answers like the writer: it echoes the request, or refuses."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / SOCKET))
    listener.listen()

    def answer() -> None:
        while True:
            try:
                peer, _ = listener.accept()
            except OSError:
                return
            with peer, peer.makefile("rwb") as lines:
                line = lines.readline()
                if not line:
                    continue
                ask = json.loads(line)
                if ask["do"] == "forget":
                    lines.write(b'{"error": {"code": "unknown-source", "message": "no such source"}}\n')
                else:
                    lines.write(b'{"event": {"n": 1}}\n' + json.dumps({"ok": ask}).encode() + b"\n")

    threading.Thread(target=answer, daemon=True).start()
    yield tmp_path
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


class InProcess(uvicorn.Server):
    """The application on a port of this process, for what needs no signals."""

    def __init__(self, config: ServerConfig) -> None:
        super().__init__(uvicorn.Config(create_app(config), log_level="error"))
        self.listener = bind(config)
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/"
        self.thread = threading.Thread(target=self.run, kwargs={"sockets": [self.listener]})

    def __enter__(self) -> InProcess:
        self.thread.start()
        while not self.started:
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self.should_exit = True
        self.thread.join(20)


def test_requests_to_the_writer_stream_its_events_and_its_answer(speaking: Path) -> None:
    with InProcess(ServerConfig(speaking, BASE, port=0, token="t", workers=1, spares=0)) as served:
        headers = {"Authorization": "Bearer t"}
        found = requests.post(served.url + "writer", json={"do": "sync", "sources": ["a"]}, headers=headers, timeout=20)
        assert found.headers["Content-Type"] == "application/x-ndjson"
        assert [json.loads(line) for line in found.text.splitlines()] == [
            {"event": {"n": 1}},
            {"ok": {"do": "sync", "sources": ["a"]}},
        ]
        refused = requests.post(served.url + "writer", json={"do": "forget"}, headers=headers, timeout=20)
        assert (refused.status_code, refused.json()["code"], refused.json()["detail"]) == (
            409,
            "unknown-source",
            "no such source",
        )
        for body, status in (({"do": "stop"}, 403), ({"do": "backup", "dest": "/"}, 403), ([], 400), ({"do": 1}, 400)):
            assert requests.post(served.url + "writer", json=body, headers=headers, timeout=20).status_code == status
        plain = requests.post(served.url + "writer", data="x", headers=headers, timeout=20)
        assert plain.status_code == 415
        assert requests.get(served.url + "ready", timeout=20).json()["writer"] is True


def test_without_a_token_nothing_is_written_over_http(speaking: Path) -> None:
    with InProcess(ServerConfig(speaking, BASE, port=0, workers=1, spares=0)) as served:
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer None"}):
            found = requests.post(served.url + "writer", json={"do": "status"}, headers=headers, timeout=20)
            assert (found.status_code, found.json()["code"]) == (401, "token-needed")


def test_beyond_loopback_a_token_is_needed_to_start_and_to_read(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="GRAPHTIDE_TOKEN"):
        serve(ServerConfig(tmp_path, BASE, host="0.0.0.0", port=0))
    with InProcess(ServerConfig(tmp_path, BASE, host="0.0.0.0", port=0, token="t", workers=1, spares=0)) as served:
        url, ask = served.url + "sparql", {"query": "ASK {}"}
        refused = requests.get(url, ask, timeout=20)
        assert refused.status_code == 401 and "Basic" in refused.headers["WWW-Authenticate"]
        assert requests.get(url, ask, auth=("any", "wrong"), timeout=20).status_code == 401
        assert requests.get(url, ask, auth=("any", "t"), timeout=20).status_code == 200
        assert requests.get(url, ask, headers={"Authorization": "Bearer t"}, timeout=20).status_code == 200
        assert requests.get(served.url + "health", timeout=20).status_code == 200


def test_the_token_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHTIDE_TOKEN", "t")
    create_app(ServerConfig(tmp_path, BASE, host="0.0.0.0"))
    assert "secret" not in repr(ServerConfig(tmp_path, BASE, token="secret"))


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ServerError, match=f"127.0.0.1:{port} cannot be listened on.*--port"):
            serve(ServerConfig(tmp_path, BASE, port=port))


@pytest.mark.soak
def test_a_server_killed_at_random_under_load_is_ready_again_within_seconds(store: Store) -> None:
    before, others = store.head, set((store.state / "workers").glob("*"))
    for n in range(20):
        running = start(store.state, prefixes={"e": BASE})
        workers: list[psutil.Process] = []
        stopped = threading.Event()

        def load(url: str = running.url, stopped: threading.Event = stopped) -> None:
            while not stopped.is_set():
                try:
                    found = requests.get(
                        url + "sparql", {"query": "SELECT ?o { e:s e:p ?o }", "format": "csv"}, timeout=10
                    )
                    assert found.status_code == 503 or found.content == "o\r\né\r\n".encode()
                except requests.RequestException:
                    time.sleep(0.01)

        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while requests.get(running.url + "ready", timeout=20).status_code != 200:
            assert time.monotonic() - began < 5
            time.sleep(0.02)
        for _ in range(4):
            store.commit(Change({}, {BASE + "soak": frozenset({f'<{BASE}n> <{BASE}n> "{n}"'})}))
            pids = requests.get(running.url + "ready", timeout=20).json()["pids"]
            if pids:
                with contextlib.suppress(ProcessLookupError):  # it was replaced meanwhile
                    os.kill(pids[n % len(pids)], signal.SIGKILL)
            time.sleep(0.1)
        workers = [child for child in psutil.Process(running.process.pid).children(recursive=True)]
        running.process.kill()
        running.process.communicate()
        stopped.set()
        for thread in threads:
            thread.join()
        assert psutil.wait_procs(workers, 5)[1] == []
    assert store.head >= before + 80
    running = start(store.state)
    assert stop(running)[0] == 0
    assert set((store.state / "workers").iterdir()) <= others
