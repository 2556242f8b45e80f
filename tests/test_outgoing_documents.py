"""A document that names another one makes us fetch it only from the places that are allowed."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from graphtide.engine import Engine
from sparql.sync.edit import Refused
from tests.api_shop import BASE


class Documents(BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        here = f"http://127.0.0.1:{self.server.server_port}"  # type: ignore[attr-defined]
        owl = "@prefix owl: <http://www.w3.org/2002/07/owl#> ."
        kind, text = {
            "/c/names": ("application/ld+json", '{"@context": ["more", {"name": "urn:name"}]}'),
            "/c/more": ("application/json", '{"@context": {"@vocab": "urn:v#"}, "other": 1}'),
            "/c/loop": ("application/ld+json", '{"@context": "loop"}'),
            "/c/none": ("application/ld+json", "[]"),
            "/i/one": ("text/turtle", f"{owl} <urn:one> owl:imports <{here}/i/two>, <{here}/c/names> ; <urn:n> 1 ."),
            "/i/two": ("text/turtle", f"{owl} <urn:two> owl:imports <{here}/i/one#x> ; <urn:n> 2 ."),
            "/i/many": (
                "text/turtle",
                f"{owl} <urn:m> owl:imports " + ", ".join(f"<{here}/i/m{n}>" for n in range(30)) + " .",
            ),
            "/i/bad": ("text/html", "<p>"),
        }.get(self.path, ("text/turtle", "<urn:x> <urn:n> 0 ."))
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def place() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Documents) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def engine(place: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("needed")
    (folder / "graphtide.toml").write_text(
        'base = "https://l.example/"\nmerge = false\n[server]\nallow_private = ["127.0.0.1"]\n'
        f'context_allow = ["{place}/c/"]\nimports_allow = ["{place}/i/"]\n'
    )
    with Engine(folder) as found:
        yield found


def put(engine: Engine, kind: str, text: str) -> set[str]:
    """What the graph holds after the document was put into it."""
    documents = [{"type": kind, "data": base64.b64encode(text.encode()).decode()}]
    ask = {"method": "PUT", "graph": "urn:g", "documents": documents, "token": "alice", "graphs": "*"}
    engine.updates.graph(ask)
    return set(engine.store.statements("urn:g"))


def importing(place: str, *paths: str) -> str:
    return f"<urn:a> <http://www.w3.org/2002/07/owl#imports> {', '.join(f'<{place}{path}>' for path in paths)} ."


def test_a_context_that_is_listed_is_written_into_the_document(engine: Engine, place: str) -> None:
    inner = '{"@id": "urn:b", "@context": [], "z": 1}'
    text = f'{{"@context": "{place}/c/names", "@id": "urn:a", "name": "x", "else": {inner}}}'
    assert put(engine, "application/ld+json", text) >= {'<urn:a> <urn:name> "x"', "<urn:a> <urn:v#else> <urn:b>"}
    text = f'{{"@context": {{"@import": "{place}/c/more"}}, "@id": "urn:a", "q": "x"}}'
    assert put(engine, "application/ld+json", text) == {'<urn:a> <urn:v#q> "x"'}


@pytest.mark.parametrize(
    ("context", "why"),
    [
        ("{place}/i/one", "not on the list"),
        ("http://169.254.169.254/c", "not on the list"),
        ("{place}/c/loop", "needs itself"),
        ("{place}/c/none", "no JSON-LD context"),
    ],
)
def test_a_context_that_is_not_had_refuses_the_document(engine: Engine, place: str, context: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        put(engine, "application/ld+json", f'{{"@context": "{context.format(place=place)}", "@id": "urn:a", "q": "x"}}')


def test_imports_that_are_listed_are_followed_once_and_others_are_statements(engine: Engine, place: str) -> None:
    Documents.asked.clear()
    found = put(engine, "text/turtle", importing(place, "/i/one", "/c/names"))
    whole = '"^^<http://www.w3.org/2001/XMLSchema#integer>'
    assert {f'<urn:one> <urn:n> "1{whole}', f'<urn:two> <urn:n> "2{whole}'} <= found
    assert sorted(Documents.asked) == ["/i/one", "/i/two"]


@pytest.mark.parametrize(("path", "why"), [("/i/bad", "html"), ("/i/many", "more than 20")])
def test_an_import_that_fails_or_imports_without_end_refuses_the_document(
    engine: Engine, place: str, path: str, why: str
) -> None:
    with pytest.raises(Refused, match=why):
        put(engine, "text/turtle", importing(place, path))


@pytest.fixture
def bait() -> Iterator[tuple[str, list[bytes]]]:
    """A port on which whoever comes is noticed."""
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(2)
                    came.append(connection.recv(1000))

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/x", came
        listener.shutdown(socket.SHUT_RDWR)


def test_a_document_makes_us_fetch_nothing(tmp_path: Path, bait: tuple[str, list[bytes]]) -> None:
    url, came = bait
    names = ["data.ttl", "remote.jsonld", "import.jsonld", "doctype.xml", "entity.rdf"]
    sources = "".join(f'[sources.{name.partition(".")[0]}]\npath = "{name}"\n' for name in names)
    settings = f'base = "{BASE}"\n[ontology]\nvocabulary = ["own.ttl"]\n{sources}'
    (tmp_path / "graphtide.toml").write_text(settings)
    (tmp_path / "own.ttl").write_text(
        f"@prefix owl: <http://www.w3.org/2002/07/owl#> . <{BASE}o> a owl:Ontology ; owl:imports <{url}> ."
    )
    (tmp_path / "data.ttl").write_text(f"<{BASE}d> <http://www.w3.org/2002/07/owl#imports> <{url}> .")
    (tmp_path / "remote.jsonld").write_text(f'{{"@context": "{url}", "@id": "{BASE}r", "name": "x"}}')
    (tmp_path / "import.jsonld").write_text(f'{{"@context": {{"@import": "{url}"}}, "@id": "{BASE}i"}}')
    (tmp_path / "doctype.xml").write_text(f'<!DOCTYPE a SYSTEM "{url}"><a><b>1</b></a>')
    (tmp_path / "entity.rdf").write_text(f'<!DOCTYPE r [<!ENTITY x SYSTEM "{url}">]><r>&x;</r>')
    done = subprocess.run(
        [sys.executable, "-m", "graphtide", "sync", "--dir", str(tmp_path), "--json"], capture_output=True, text=True
    )
    read = {each["source"] for each in json.loads(done.stdout)["sources"]}
    assert read == {"ontology", "data", "remote", "import", "doctype", "entity"}, done.stdout
    assert came == []
