"""docs/api.md: what it shows is run, and what it names is there."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparql.server.openapi import OPERATIONS
from tests.api_shop import Shop, server, writer

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = (REPOSITORY / "docs" / "api.md").read_text()
SHOWN = [
    line for block in re.findall(r"^```http\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL) for line in block.split("\n")
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    dir = tmp_path_factory.mktemp("shop") / "webshop"
    shutil.copytree(REPOSITORY / "examples" / "webshop", dir, ignore=shutil.ignore_patterns(".graphtide"))
    with writer(dir), server(dir, base="https://webshop.example/") as found:
        found.until("/api/search", lambda page: page["behind"] == 0 and page["total"], q="checkout")
        yield found


def test_every_request_shown_is_answered_with_what_it_asks_for(shop: Shop) -> None:
    lines = [line for line in SHOWN if line]
    assert len(lines) >= 10
    for line in lines:
        method, path = line.split(" ", 1)
        assert method == "GET"
        found = shop.get(path)
        assert found.status_code == 200, (line, found.text)
        assert found.json()["epoch"] > 0
    assert shop.json("/api/search", q="checkout")["hits"][0]["label"].lower().startswith("checkout")


def test_the_source_shown_can_be_added_and_removed(shop: Shop) -> None:
    source = json.loads(re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[0])
    before = (shop.dir / "graphtide.toml").read_text()
    assert shop.ask("POST", "/api/sources?dry_run=true", json=source).status_code == 200
    made = shop.ask("POST", "/api/sources", json=source)
    assert made.status_code == 201, made.text
    assert shop.ask("DELETE", f"/api/sources/{source['name']}").status_code == 200
    assert (shop.dir / "graphtide.toml").read_text() == before


def test_every_path_named_is_a_route() -> None:
    known = {re.sub(r"\{\w+\}", "X", one.path) for one in OPERATIONS}
    for path in re.findall(r"`(?:GET |POST |DELETE )?(/[a-z./]+(?:NAME|ID)?)", PAGE):
        assert re.sub(r"NAME|ID", "X", path) in known, path
