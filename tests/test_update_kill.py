"""A writer that is killed in the middle of updates comes back with each acknowledged one, and none by halves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphtide.engine import Engine
from sparql.client import WriterClient, WriterGone, WriterRefused

BASE = "https://k.example/"
ROOT = Path(__file__).resolve().parents[1]


def writer(folder: Path, fault: str = "") -> subprocess.Popen[bytes]:
    env = {**os.environ, "GRAPHTIDE_FAULT": fault}
    process = subprocess.Popen(
        [sys.executable, "-m", "graphtide", "writer", str(folder)], cwd=ROOT, env=env, stderr=subprocess.DEVNULL
    )
    client = WriterClient(folder / ".graphtide")
    until = time.monotonic() + 20
    while not client.available():
        assert process.poll() is None
        assert time.monotonic() < until
        time.sleep(0.02)
    return process


def update(folder: Path, number: int) -> str:
    """Each number is three statements in two graphs, one of them about a blank node; the one before goes."""
    before = f"<{BASE}n{number - 1}>"
    return (
        f"INSERT DATA {{ <{BASE}n{number}> <{BASE}in> <{BASE}default> . <{BASE}n{number}> <{BASE}has> [ <{BASE}v> 1 ]"
        f" GRAPH <urn:g> {{ <{BASE}n{number}> <{BASE}in> <urn:g> }} }} ;"
        f" DELETE WHERE {{ {before} <{BASE}in> <{BASE}default> . {before} <{BASE}has> ?x . ?x <{BASE}v> 1"
        f" GRAPH <urn:g> {{ {before} <{BASE}in> <urn:g> }} }}"
    )


def write_until_killed(folder: Path, start: int, process: subprocess.Popen[bytes], seconds: float | None) -> int:
    """The last number that was acknowledged."""
    client, last = WriterClient(folder / ".graphtide"), start
    timer = threading.Timer(seconds, process.send_signal, (signal.SIGKILL,)) if seconds is not None else None
    try:
        while True:
            client.call("update", text=update(folder, last + 1), token="alice", graphs="*", silence=10.0)
            last += 1
            if timer is not None and last == start + 1:  # the first one starts what evaluates
                timer.start()
    except (WriterGone, WriterRefused) as gone:
        assert isinstance(gone, WriterGone), gone
        process.kill()
        process.wait()
        return last


@pytest.mark.parametrize(
    ("merge", "faults"),
    [
        ("true", ("", "commit.applied:9")),
        ("false", ("", "commit.logged:7")),
        pytest.param("true", ("", "commit.logged:5", "", "commit.synced:5") * 5, marks=pytest.mark.soak),
        pytest.param("false", ("", "commit.applied:5", "", "commit.written:5") * 5, marks=pytest.mark.soak),
    ],
)
def test_a_killed_writer_keeps_each_acknowledged_update_whole(
    tmp_path: Path, merge: str, faults: tuple[str, ...]
) -> None:
    (tmp_path / "graphtide.toml").write_text(f'base = "{BASE}"\nmerge = {merge}\n')
    dice, last = random.Random(merge), 0
    for fault in faults:
        process = writer(tmp_path, fault)
        seconds = None if fault else 0.3 + 0.4 * dice.random()
        last = write_until_killed(tmp_path, last, process, seconds)
        with Engine(tmp_path, lock_seconds=10) as engine:
            store = engine.store
            found = [
                {int(quad.subject.value[len(BASE) + 1 :]) for quad in store.query(text)}
                for text in (
                    f"CONSTRUCT WHERE {{ ?s <{BASE}in> <{BASE}default> }}",
                    f"CONSTRUCT {{ ?s <{BASE}has> ?x }} WHERE {{ ?s <{BASE}has> ?x . ?x <{BASE}v> 1 }}",
                    f"CONSTRUCT {{ ?s <{BASE}in> 1 }} WHERE {{ GRAPH <urn:g> {{ ?s <{BASE}in> <urn:g> }} }}",
                )
            ]
            assert found in ([{last}] * 3, [{last + 1}] * 3), (last, found)
            last = max(found[0])
            assert engine.verify().clean
    assert last > 4
