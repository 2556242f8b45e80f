"""A document that names another one does not make us fetch it."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api_shop import BASE


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
