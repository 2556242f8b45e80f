"""What the command line refuses to open it says at once, and a backup taken while facts change is one commit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import requests

from dagster_project.__main__ import loopback
from sparql.client import WriterClient
from sparql.query.pool import Pool
from sparql.server.metrics import Metrics
from tests.api_shop import BASE, Shop, server, write, writer

REPOSITORY = Path(__file__).resolve().parents[1]
CACHE = {"graphtide_cache_hits_total", "graphtide_cache_misses_total", "graphtide_cache_bytes"}
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def graphtide(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "graphtide", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env={**os.environ, **environment})


@pytest.mark.parametrize(
    ("command", "setting", "said"),
    [
        (
            "up",
            'host = "0.0.0.0"',
            "host = '0.0.0.0' is reachable from other machines, and there is no token that reads.",
        ),
        ("serve", 'host = "::"', "host = '::' is reachable from other machines, and there is no token that reads."),
        ("serve", 'trusted_proxies = ["127.0.0.1"]', "trusted_proxies names a proxy, so others reach the server, and"),
        ("up", 'service_allow = ["*"]', "Write an origin or a URL prefix"),
    ],
)
def test_a_server_that_would_be_open_is_refused_at_once_with_what_to_do(
    tmp_path: Path, command: str, setting: str, said: str
) -> None:
    (tmp_path / "graphtide.toml").write_text(f"[server]\nport = 0\ndagster_port = 0\n{setting}\n")
    done = graphtide(command, str(tmp_path)) if command == "up" else graphtide(command, "--dir", str(tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr and "started again" not in done.stdout
    assert not (tmp_path / ".graphtide" / "store").exists()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "[::]"])
def test_the_dagster_ui_listens_on_this_machine_only(tmp_path: Path, host: str) -> None:
    assert not loopback(host)
    if host == "0.0.0.0":
        command = [sys.executable, "-m", "dagster_project", str(tmp_path), "--host", host]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert done.returncode == 2
        assert "the Dagster UI has no token" in done.stdout + done.stderr


def backup(shop: Shop, **body: Any) -> requests.Response:
    return shop.ask("POST", "/api/backup", json=body)


def test_a_backup_over_http_during_writes_restores_to_exactly_its_commit(tmp_path: Path) -> None:
    dir, backups, other = tmp_path / "shop", tmp_path / "backups", tmp_path / "other"
    dir.mkdir()
    write(dir)
    with writer(dir):
        done = threading.Event()

        def change() -> None:
            client, at = WriterClient(dir / ".graphtide"), 0
            while not done.is_set():
                at += 1
                # Two facts that always come together: a half of a commit would show.
                (dir / "services.csv").write_text(f"id,name,what,uses\na,A {at},W {at},b\nb,B {at},V {at},\n")
                client.call("sync", sources=["services"])

        with server(dir, backups=str(backups)) as shop:
            writing = threading.Thread(target=change)
            writing.start()
            try:
                made = [backup(shop, name=f"b{n}") for n in range(3)]
            finally:
                done.set()
                writing.join(20)
            assert [each.status_code for each in made] == [201] * 3, [each.text for each in made]
            assert backup(shop, name="b1").json()["code"] == "backup-exists"
            for name in ("../x", "/etc/x", "a/b", ".hidden", "", "x" * 65, "b\u0000", 5):
                assert backup(shop, name=name).status_code == 400, name
            assert shop.get("/api/backup").status_code == 401
            listed = shop.ask("GET", "/api/backup").json()["backups"]
            assert [each["name"] for each in listed] == ["b2", "b1", "b0"]
            assert sorted(path.name for path in backups.iterdir()) == ["b0", "b1", "b2"]
            commit = made[1].json()["commit"]
            query = f'SELECT ?n {{ ?s <{LABEL}> ?n FILTER(REGEX(?n, "^[AB] ")) }}'
            then = shop.json("/sparql", query=query, epoch=commit, format="json")
    other.mkdir()
    write(other)
    restored = graphtide("restore", str(backups / "b1"), "--dir", str(other), "--json")
    assert restored.returncode == 0, restored.stderr
    with server(other) as shop:
        now = shop.json("/sparql", query=query, format="json")
    values = sorted(row["n"]["value"] for row in now["results"]["bindings"])
    assert values == sorted(row["n"]["value"] for row in then["results"]["bindings"])
    assert len(values) == 2 and values[0].split()[1] == values[1].split()[1]
    assert json.loads(restored.stdout)["commit"] >= commit


def test_without_a_folder_there_are_no_backups_over_http(tmp_path: Path) -> None:
    write(tmp_path)
    with server(tmp_path) as shop:
        found = backup(shop)
        assert (found.status_code, found.json()["code"]) == (404, "no-backups")


def test_the_threat_model_names_tests_that_exist() -> None:
    text = (REPOSITORY / "docs" / "threat-model.md").read_text("utf-8")
    named = re.findall(r"`(tests/\w+\.py)(?:::(\w+))?`", text)
    assert len(named) > 40
    for path, name in named:
        assert re.search(rf"^def {name}" if name else "", (REPOSITORY / path).read_text("utf-8"), re.MULTILINE), name


def test_the_operations_page_names_every_metric_and_no_other(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "operations.md").read_text("utf-8")
    named = set(re.findall(r"graphtide_\w+", text))
    (tmp_path / "log").mkdir()
    with Pool(tmp_path, BASE, workers=1, spares=0) as pool:
        assert pool.ready(20)
        shown = re.findall(r"^# TYPE (\w+) ", Metrics(pool, tmp_path).text().decode(), re.MULTILINE)
    assert {name for name in shown if not name.endswith("_created")} - CACHE == named - CACHE
