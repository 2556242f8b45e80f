"""A loss of power drops every write after the last sync, and nothing that was acknowledged."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from sparql import durable, log
from sparql.store import bulk, open_store
from tests.store_child import BASE, LIMITS, base_quads, change, check


def cut(state: Path, copy: Path, synced: dict[Path, int], dice: random.Random) -> None:
    """`copy` is `state` as a disk may have it: of each log what was synced, and perhaps more."""
    while not _copied(state, copy):
        shutil.rmtree(copy)
    for path in [*copy.glob("log/*.rdfp"), *copy.glob("data-*/*.log")]:
        certain = synced.get(state / path.relative_to(copy), 0)
        size = path.stat().st_size
        if certain < size:
            path.write_bytes(path.read_bytes()[: dice.choice([certain, certain, dice.randint(certain, size)])])
    (copy / "head").unlink()
    shutil.rmtree(copy / "stage", ignore_errors=True)


def _copied(state: Path, copy: Path) -> bool:
    # RocksDB tidies up in the background: a moment is only a moment when nothing changed meanwhile.
    before = _files(state)
    try:
        shutil.copytree(state, copy)
    except shutil.Error:
        return False
    return before == _files(state)


def _files(state: Path) -> dict[Path, int]:
    found = {}
    for path in state.rglob("*"):
        with suppress(FileNotFoundError):
            if path.name != "LOG":
                found[path] = path.stat().st_size
    return found


def history(tmp_path: Path, seed: int, commits: int, often: float, monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut the power at many points of one history; returns how often."""
    dice = random.Random(seed)
    monkeypatch.setattr(log, "LARGE", 40)
    monkeypatch.setattr(log, "SEGMENT_BYTES", 6_000)
    monkeypatch.setattr(bulk, "LOOK", 2_000)
    state, synced, acked, cuts = tmp_path / "state", dict[Path, int](), list[str](), 0

    def power(point: str) -> None:
        nonlocal cuts
        if point.startswith(("commit", "log", "checkpoint", "replace", "prune")) and dice.random() < often:
            copy = tmp_path / f"copy-{cuts}"
            cut(state, copy, synced, dice)
            copies.append((copy, list(acked)))
            cuts += 1

    copies: list[tuple[Path, list[str]]] = []
    durable.SYNCED.append(lambda path, size: synced.update({path: size}))
    durable.REACHED.append(power)
    try:
        with open_store(state, BASE, limits=LIMITS) as store:
            acked.append(f"ack-build {store.build(base_quads()).id}")
            for number in range(commits):
                acked.append(f"ack {store.commit(change(store, store.head + 1, large=dice.random() < 0.1)).id}")
                if number % 7 == 6:
                    store.checkpoint()
                    store.retain()
    finally:
        durable.SYNCED.clear()
        durable.REACHED.clear()
    for copy, known in copies:
        check(copy, known, set())
        shutil.rmtree(copy)
    return cuts


def test_a_loss_of_power_loses_nothing_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert history(tmp_path, 1, 12, 0.12, monkeypatch) >= 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
def test_a_loss_of_power_at_any_point_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    assert history(tmp_path, seed, 60, 0.3, monkeypatch) >= 20
