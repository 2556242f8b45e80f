"""One command starts all of Dagster for a folder, and takes all of it down again."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from dagster_project.home import MARK, prepare
from dagster_project.services import PortTaken, Services, free_port


def test_webserver_and_daemon_start_serve_the_folder_and_stop_with_their_children(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("login,name\nann,Ann\n")
    (tmp_path / "graphtide.toml").write_text('[sources.people]\npath = "people.csv"\nkey = "login"\n')
    command = [sys.executable, "-P", "-m", "dagster_project", str(tmp_path), "--port", "0"]
    asked = {"query": "{ assetNodes { assetKey { path } } }"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout is not None
        url = next(line for line in process.stdout if line.startswith("dagster: ready ")).split()[-1]
        children = psutil.Process(process.pid).children(recursive=True)
        request = urllib.request.Request(
            url + "/graphql", json.dumps(asked).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            nodes = json.load(answer)["data"]["assetNodes"]
        assert ["people", "graph"] in [node["assetKey"]["path"] for node in nodes]
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert time.monotonic() - start < 12
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert len(children) >= 4 and not alive, alive


def test_a_taken_port_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=f"port {port} on 127.0.0.1 is taken .* dagster_port in graphtide.toml"):
            Services(tmp_path, tmp_path / ".graphtide", port=port).start()
    assert not (tmp_path / ".graphtide").exists()
    assert free_port("127.0.0.1", 0) > 0


def test_telemetry_is_off_and_a_dagster_yaml_of_ones_own_is_left_alone(tmp_path: Path) -> None:
    home = prepare(tmp_path)
    assert "telemetry:\n  enabled: false" in (home / "dagster.yaml").read_text()
    assert home == tmp_path / "dagster" and oct(os.stat(home).st_mode)[-3:] == "700"
    own = (home / "dagster.yaml").read_text().removeprefix(MARK) + "# mine\n"
    (home / "dagster.yaml").write_text(own)
    assert (prepare(tmp_path) / "dagster.yaml").read_text() == own
