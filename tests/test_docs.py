"""What the documents show is run: the source of one's own, and each command of the README."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphtide.cli import cli
from graphtide.engine import Engine

REPOSITORY = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall((REPOSITORY / page).read_text()) if kind == language]


def timeless(output: str) -> list[str]:
    """The lines, but for the seconds a sync took, which differ from run to run."""
    return [re.sub(r"  +(\d+\.\d\d s|time)$", "", line) for line in output.splitlines()]


class Pages(BaseHTTPRequestHandler):
    pages: list[dict[str, object]] = []
    broken = False

    def do_GET(self) -> None:
        body = json.dumps(self.pages).encode()
        self.send_response(500 if self.broken else 200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pager() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_the_source_of_ones_own_in_the_docs_works(tmp_path: Path, pager: str) -> None:
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "pager.py").write_text(blocks("docs/sources.md", "python")[0])
    (tmp_path / "graphtide.toml").write_text(
        blocks("docs/sources.md", "toml")[0].replace("http://127.0.0.1:9999", pager)
    )
    Pages.pages, Pages.broken = [{"id": 1, "title": "Disk full"}, {"id": 2, "title": "Cache cold"}], False
    with Engine(tmp_path) as engine:

        def sync() -> dict[str, object]:
            return engine.sync(["pager"])[0].to_dict()

        assert sync()["changed"] == 2
        assert sync()["changed"] == 0
        Pages.pages = [{"id": 2, "title": "Cache warm"}]
        report = sync()
        assert (report["changed"], report["gone"]) == (1, 1)
        Pages.broken = True
        report = sync()
        assert report["held"] == 1 and "stays until it answers" in str(report["message"])
        Pages.broken = False
        assert sync()["held"] == 0


def test_the_mapping_in_the_docs_compiles(tmp_path: Path) -> None:
    head = '[prefixes]\nshop = "https://webshop.example/ns#"\n[sources.services]\npath = "services.csv"\nkey = "name"\n'
    (tmp_path / "graphtide.toml").write_text(head + blocks("docs/mapping.md", "toml")[0])
    (tmp_path / "services.csv").write_text('name,tier,note,team,tags,born\ncart,1,,Checkout,"a,b",31.01.2020\n')
    with Engine(tmp_path) as engine:
        assert next(one for one in engine.sync() if one.source == "services").rejected == 0
        query = 'ASK { <http://localhost:8000/service/cart> ?p "2020-01-31"^^<http://www.w3.org/2001/XMLSchema#date> }'
        assert bool(engine.store.query(query))


def test_the_commands_of_the_readme_give_the_output_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "webshop"
    shutil.copytree(REPOSITORY / "examples" / "webshop", folder, ignore=shutil.ignore_patterns(".graphtide"))
    monkeypatch.chdir(folder)
    shown = [text for text in blocks("README.md", "console") if "$ graphtide " in text]
    ran = 0
    for text in shown:
        for command, output in re.findall(r"^\$ graphtide (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            if command.split()[0] in ("up", "serve"):
                continue  # test_up_*.py
            words = [word.strip("'\"") for word in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", command)]
            result = CliRunner().invoke(cli, words)
            told = result.stdout + result.stderr
            assert timeless(told) == timeless(output), f"graphtide {command} prints:\n{told}"
            ran += 1
    assert ran >= 4, "the README shows fewer commands than it should"
