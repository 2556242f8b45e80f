"""`graphtide up` on a real folder: whatever is saved, moved, linked, killed or broken, the answer follows."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

WEBSHOP = Path(__file__).resolve().parents[1] / "examples" / "webshop"
TABLES = """
[sources.extra]
paths = ["tables/**/*.csv"]
key = "id"
[sources.extra.map]
class = "gt:Note"
iri = "note/{id}"
columns = { text = "rdfs:label" }
"""


def running(dir: Path) -> list[tuple[int, str]]:
    """(pid, command line) of the processes that work on a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if str(dir) in command and process.status() != psutil.STATUS_ZOMBIE:
            found.append((process.pid, command))
    return found


class Shop:
    """The example under `graphtide up`, without Dagster."""

    def __init__(self, dir: Path) -> None:
        self.dir = dir
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = self.start()
        self.until(lambda: self.holds("?team a gt:Team"), 60)

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "graphtide", "up", str(self.dir), "--port", str(self.port), "--no-dagster"]
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def holds(self, pattern: str) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        connection.request("POST", "/sparql", f"ASK {{ {pattern} }}", {"Content-Type": "application/sparql-query"})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return bool(json.loads(body)["boolean"])

    def note(self, key: str, text: str) -> Callable[[], bool]:
        return lambda: self.holds(f'<https://webshop.example/note/{key}> rdfs:label "{text}"')

    def until(self, true: Callable[[], bool], seconds: float = 20) -> None:
        """Waits until it is true; a server that is being started again is waited for too."""
        end = time.monotonic() + seconds
        while True:
            try:
                if true():
                    return
            except (OSError, http.client.HTTPException):
                pass
            assert time.monotonic() < end, "it never showed"
            time.sleep(0.02)

    def told(self, *words: str) -> Any:
        command = [sys.executable, "-m", "graphtide", *words, "--dir", str(self.dir), "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)

    def processes(self, name: str = "") -> list[int]:
        return [pid for pid, command in running(self.dir) if name in command]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    dir = tmp_path_factory.mktemp("up") / "shop"
    shutil.copytree(WEBSHOP, dir, ignore=shutil.ignore_patterns(".graphtide"))
    with (dir / "graphtide.toml").open("a") as settings:
        settings.write(TABLES)
    (dir / "tables").mkdir()
    made = Shop(dir)
    yield made
    made.process.kill()
    made.process.wait()


def test_a_saved_file_is_answered_over_http(shop: Shop) -> None:
    (shop.dir / "tables" / "a.csv").write_text("id,text\n1,one\n")
    shop.until(shop.note("1", "one"))
    people = shop.dir / "people.csv"
    people.write_text(people.read_text().replace("Ada Example", "Ada Renamed"))
    shop.until(lambda: shop.holds('<https://webshop.example/person/ada> rdfs:label "Ada Renamed"'))


def test_renamed_files_and_moved_folders_take_their_rows_along(shop: Shop, tmp_path: Path) -> None:
    tables = shop.dir / "tables"
    (tables / "old.csv").write_text("id,text\n2,two\n")
    shop.until(shop.note("2", "two"))
    (tables / "old.csv").rename(tables / "new.csv")
    record = "GRAPH <https://webshop.example/record/extra/tables%2F{}.csv%2F2> {{ ?s ?p ?o }}"
    shop.until(lambda: shop.holds(record.format("new")) and not shop.holds(record.format("old")))
    (tables / "sub").mkdir()
    (tables / "sub" / "c.csv").write_text("id,text\n3,three\n")
    shop.until(shop.note("3", "three"))
    shutil.move(tables / "sub", tmp_path / "away")
    shop.until(lambda: not shop.note("3", "three")())
    shutil.move(tmp_path / "away", tables / "back")
    shop.until(shop.note("3", "three"))


def test_a_replacement_of_the_same_size_and_time_and_a_turned_link_are_seen(shop: Shop) -> None:
    tables = shop.dir / "tables"
    file, part = tables / "same.csv", tables / ".part"
    file.write_text("id,text\n4,four\n")
    shop.until(shop.note("4", "four"))
    before = file.stat()
    part.write_text("id,text\n4,vier\n")
    os.utime(part, ns=(before.st_atime_ns, before.st_mtime_ns))
    part.rename(file)
    shop.until(shop.note("4", "vier"))
    (tables / "one.txt").write_text("id,text\n9,nine\n")
    (tables / "two.txt").write_text("id,text\n9,neun\n")
    (tables / "link.csv").symlink_to("one.txt")
    shop.until(shop.note("9", "nine"))
    (tables / ".turned").symlink_to("two.txt")
    (tables / ".turned").rename(tables / "link.csv")
    shop.until(shop.note("9", "neun"))


def test_changed_shapes_and_mappings_take_effect_and_broken_settings_do_not(shop: Shop) -> None:
    shapes, mapping, settings = (
        shop.dir / name for name in ("ontology/shapes.ttl", "mappings/incidents.py", "graphtide.toml")
    )
    shapes.write_text(shapes.read_text().replace("( 1 2 3 )", "( 1 2 3 5 )"))
    shop.until(lambda: shop.holds("<https://webshop.example/service/legacy-feed> shop:tier 5"))
    mapping.write_text(mapping.read_text().replace('Literal(data["title"])', 'Literal(data["title"].upper())'))
    shop.until(lambda: shop.holds('?incident rdfs:label "SEARCH INDEX A DAY BEHIND"'))
    good = settings.read_text()
    settings.write_text(good + "\n[sources.bad\n")
    shop.until(lambda: any("graphtide.toml:" in note for note in shop.told("status")["notes"]))
    synced = shop.told("sync")
    assert synced["ok"] is False and "not in force" in synced["notes"][-1]
    (shop.dir / "tables" / "meanwhile.csv").write_text("id,text\n5,five\n")
    shop.until(shop.note("5", "five"))
    settings.write_text(good)
    shop.until(lambda: shop.told("status")["notes"] == [])


def test_a_killed_writer_or_server_is_started_again_and_loses_nothing(shop: Shop) -> None:
    for name in ("graphtide writer", "graphtide server"):
        for pid in shop.processes(name):
            os.kill(pid, signal.SIGKILL)
        (shop.dir / "tables" / "kill.csv").write_text(f"id,text\n77,after {name}\n")
        shop.until(shop.note("77", f"after {name}"), 40)
    assert shop.told("verify")["clean"] is True


def test_ctrl_c_stops_every_process(shop: Shop) -> None:
    # Last in this file: what it stops is not started again.
    shop.process.send_signal(signal.SIGINT)
    assert shop.process.wait(20) == 0
    shop.until(lambda: shop.processes() == [], 10)


def test_a_killed_supervisor_leaves_no_process_and_a_taken_port_is_named(tmp_path: Path) -> None:
    (tmp_path / "fruit.csv").write_text("name\nplum\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [sys.executable, "-m", "graphtide", "up", str(tmp_path), "--no-dagster", "--port", port]
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2 and port in refused.stderr and "--port" in refused.stderr
    up = subprocess.Popen([*command[:-1], "0"], stdout=subprocess.PIPE, text=True)
    assert up.stdout is not None
    for line in up.stdout:
        if line.startswith("Ready."):
            break
    up.kill()
    up.wait()
    end = time.monotonic() + 10
    while running(tmp_path):
        assert time.monotonic() < end, "a process outlives its supervisor"
        time.sleep(0.1)
