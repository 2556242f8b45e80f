"""A writer killed at any point comes back with everything it acknowledged and nothing torn."""

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

from tests.store_child import check

ROOT = Path(__file__).resolve().parents[1]
POINTS = (
    "open.made:1",
    "build.loading:2",
    "replace.made:1",
    "replace.decided:1",
    "replace.log:1",
    "log.writing:9",
    "commit.written:7",
    "commit.logged:8",
    "commit.applied:6",
    "commit.synced:5",
    "checkpoint.made:3",
    "checkpoint.synced:4",
    "checkpoint.published:3",
    "prune.checkpoint:2",
    "prune.segment:1",
    "renew.made:1",
    "renew.decided:1",
    "discard:3",
    "replace.made:2",
    "replace.decided:2",
    "replace.log:2",
)


def run(state: Path, seed: int, *, fault: str = "", seconds: float = 20.0) -> list[str]:
    """What a writer acknowledged until it was killed: at the named point, or after so many seconds."""
    env = {**os.environ, "GRAPHTIDE_FAULT": fault}
    command = [sys.executable, "-m", "tests.store_child", str(state), str(seed)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=env)
    timer = threading.Timer(seconds, child.kill)
    timer.start()
    try:
        out, err = child.communicate()
    finally:
        timer.cancel()
    assert child.returncode == -signal.SIGKILL, err
    lines = out.split("\n")
    return [line for line in lines[: -1 if not out.endswith("\n") else None] if line.startswith("ack")]


@pytest.mark.parametrize("fault", POINTS[3:15:2])
def test_a_writer_killed_at_a_point_keeps_what_it_acknowledged(tmp_path: Path, fault: str) -> None:
    acked = run(tmp_path / "state", 1, fault=fault)
    check(tmp_path / "state", acked, set())


def test_a_writer_killed_at_any_time_keeps_what_it_acknowledged(tmp_path: Path) -> None:
    seen: set[int] = set()
    head = 0
    for seed in range(3):
        acked = run(tmp_path / "state", seed, seconds=0.5 + 0.25 * seed)
        head = check(tmp_path / "state", acked, seen)
    assert head > 0


@pytest.mark.soak
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    dice = random.Random(os.environ.get("SEED", "1"))
    slowest, kills = 0.0, 0
    for history in range(16):
        seen: set[int] = set()
        state = tmp_path / f"state-{history}"
        for _ in range(14):
            if dice.random() < 0.6:
                point = dice.choice(POINTS).partition(":")[0]
                acked = run(state, kills, fault=f"{point}:{dice.randint(1, 12)}", seconds=0.8 + dice.random())
            else:
                acked = run(state, kills, seconds=0.3 + dice.random())
            start = time.monotonic()
            check(state, acked, seen)
            slowest = max(slowest, time.monotonic() - start)
            kills += 1
    print(f"{kills} kills, slowest return with every check {slowest:.2f} s")
    assert kills >= 200
