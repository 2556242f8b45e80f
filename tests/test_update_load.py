"""LOAD fetches what the settings allow, and nothing else; a fetch that fails is said, or kept quiet when asked to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from graphtide.engine import Engine
from sparql.sync.edit import Refused
from sparql.sync.updating import Written


class Documents(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, body = {
            "/a.ttl": ("text/turtle", b"<x> <y> [ <z> 1 ] ."),
            "/a.html": ("text/html", b"<html>"),
            "/bad.ttl": ("text/turtle", b"<x> <y> ."),
            "/large.ttl": ("text/turtle", b"#" * 200_000),
        }.get(self.path, ("text/plain", b""))
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def engine(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("load")
    (folder / "graphtide.toml").write_text(
        'base = "https://l.example/"\nmerge = false\n'
        f'[server]\nload_allow = ["{place}/"]\nallow_private = ["127.0.0.1"]\n'
        '[limits]\nload_bytes = "100KB"\n'
    )
    with Engine(folder) as found:
        yield found


def write(engine: Engine, text: str) -> Written:
    return engine.updates.update({"text": text, "token": "alice", "graphs": "*"})


def test_an_allowed_document_is_loaded_against_its_own_url(engine: Engine, place: str) -> None:
    assert write(engine, f"LOAD <{place}/a.ttl> INTO GRAPH <urn:g>").added == 2
    assert any(line.startswith(f"<{place}/x> <{place}/y> _:") for line in engine.store.statements("urn:g"))
    assert write(engine, f"LOAD <{place}/a.ttl> ; DELETE WHERE {{ ?x <{place}/z> ?n }}").added == 1


@pytest.mark.parametrize(
    ("path", "code", "why"),
    [
        ("/none.ttl", "load-failed", "404"),
        ("/a.html", "load-failed", "html"),
        ("/bad.ttl", "not-rdf", "not text/turtle"),
        ("/large.ttl", "load-failed", "bytes"),
    ],
)
def test_a_document_that_cannot_be_loaded_is_refused_or_skipped(
    engine: Engine, place: str, path: str, code: str, why: str
) -> None:
    head = engine.store.head
    with pytest.raises(Refused, match=why) as refused:
        write(engine, f"INSERT DATA {{ <urn:a> <urn:b> 1 }} ; LOAD <{place}{path}>")
    assert (refused.value.code, engine.store.head) == (code, head)
    write(engine, f"LOAD SILENT <{place}{path}>")
    assert engine.store.head == head


def test_nothing_else_is_fetched(engine: Engine, place: str) -> None:
    port = place.rsplit(":", 1)[1]
    for url in (f"http://localhost:{port}/a.ttl", f"http://127.0.0.2:{port}/a.ttl", "file:///etc/passwd",
                f"http://[::1]:{port}/a.ttl", "http://169.254.169.254/latest/"):  # fmt: skip
        with pytest.raises(Refused) as refused:
            write(engine, f"LOAD <{url}>")
        assert refused.value.code == "load-off"


def test_without_a_list_nothing_is_fetched(tmp_path: Path, place: str) -> None:
    (tmp_path / "graphtide.toml").write_text("merge = false\n")
    with Engine(tmp_path) as closed, pytest.raises(Refused, match="load_allow"):
        write(closed, f"LOAD <{place}/a.ttl>")
