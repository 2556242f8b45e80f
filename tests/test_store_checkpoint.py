"""Checkpoints: cheap copies, kept by age, count, bytes and leases, and with the log every epoch since the oldest."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path

import pyoxigraph
import pytest

from sparql import checkpoint as checkpoints
from sparql import log
from sparql.checkpoint import Checkpoint, CheckpointGone
from sparql.log import Change, LogReader
from sparql.store import Limits, Store, open_store
from sparql.store.retention import kept

BASE = "https://checkpoint.example/"
NOW = 1_800_000_000.0


def commit(store: Store, text: str) -> int:
    return store.commit(Change(added={"": frozenset({f'<{BASE}a> <{BASE}p> "{text}"'})})).id


def many(store: Store, count: int, *, every: int = 1) -> None:
    for number in range(count):
        if commit(store, f"commit {number}") % every == 0:
            store.checkpoint()


def test_a_checkpoint_is_cloned_by_hard_links_and_the_clone_is_its_own(tmp_path: Path) -> None:
    state, there = tmp_path / "state", tmp_path / "there"
    with open_store(state, BASE) as store:
        store.build([f'<{BASE}a> <{BASE}p> "loaded" .\n'.encode()])
        newest = checkpoints.newest(state)
        checkpoints.clone(newest, there)
        assert all(file.stat().st_nlink >= 3 for file in there.glob("*.sst"))
        clone = pyoxigraph.Store(str(there))
        clone.update("DELETE WHERE { ?s ?p ?o }")
        assert len(store.statements("")) == 1
        again = tmp_path / "again"
        checkpoints.clone(newest, again)
        assert (
            len(list(pyoxigraph.Store(str(again)).quads_for_pattern(None, None, None, pyoxigraph.DefaultGraph()))) == 1
        )


def test_a_checkpoint_is_made_once_a_commit(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        commit(store, "x")
        first = store.checkpoint()
        assert (first.commit, first.time) == (1, store.head_time)
        assert store.checkpoint() == first == checkpoints.newest(tmp_path)
        assert [one.commit for one in checkpoints.every(tmp_path)] == [0, 1]


def test_a_pruned_checkpoint_says_so_and_leaves_no_half_copy(tmp_path: Path) -> None:
    with pytest.raises(CheckpointGone):
        checkpoints.clone(Checkpoint(tmp_path / "gone", 1, ""), tmp_path / "there")
    assert not (tmp_path / "there").exists()


def test_every_epoch_since_the_oldest_checkpoint_can_be_had(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        many(store, 7, every=3)
        assert [checkpoints.at(tmp_path, epoch).commit for epoch in range(8)] == [0, 0, 0, 3, 3, 3, 6, 6]
        entries = LogReader(tmp_path, checkpoints.at(tmp_path, 5).commit).entries()
        assert [next(entries).id, next(entries).id] == [4, 5]
    assert checkpoints.at(tmp_path / "none", 5) is None


def made(*ages: float) -> list[Checkpoint]:
    times = [datetime.fromtimestamp(NOW - age, UTC).isoformat() for age in sorted(ages, reverse=True)]
    return [Checkpoint(Path(str(n)), n, one) for n, one in enumerate(times)]


def test_checkpoints_thin_out_with_age() -> None:
    minute, hour, day = 60, 3600, 86400
    limits = Limits(history_days=30, keep_newest=8)
    every_30_seconds = made(*range(0, 2 * hour, 30))
    keep = kept(every_30_seconds, (), NOW, limits)
    assert [one.commit for one in keep[-8:]] == [one.commit for one in every_30_seconds[-8:]]
    assert 60 + 4 <= len(keep) <= 61 + 8
    every_hour = made(*range(0, 40 * day, hour))
    assert 24 + 29 <= len(kept(every_hour, (), NOW, limits)) <= 25 + 31 + 1
    assert len(kept(made(100 * day), (), NOW, limits)) == 1, "the newest always stays"
    again = kept(keep, (), NOW, limits)
    assert again == keep, "a second run drops nothing"
    assert minute


def test_a_lease_keeps_its_checkpoint() -> None:
    old = made(*[90 * 86400 + n for n in range(20)])
    assert [one.commit for one in kept(old, {5, 99}, NOW, Limits(keep_newest=1))] == [5, 19]


def test_leases_end(tmp_path: Path) -> None:
    checkpoints.lease(tmp_path, 3, 60)
    checkpoints.lease(tmp_path, 4, 0.0)
    early = checkpoints.lease(tmp_path, 5, 60)
    early.unlink()
    time.sleep(0.01)
    assert checkpoints.leased(tmp_path) == {3}
    assert len(list((tmp_path / "leases").iterdir())) == 1


def test_pruning_keeps_the_newest_the_leased_and_the_log_they_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "SEGMENT_BYTES", 1500)
    with open_store(tmp_path, BASE, limits=Limits(keep_newest=2, history_days=0)) as store:
        monkeypatch.setattr("sparql.store.retention.HOUR", 0.0)
        monkeypatch.setattr("sparql.store.retention.DAY", 0.0)
        many(store, 20, every=2)
        checkpoints.lease(tmp_path, 13, 60)
        store.retain()
        assert [one.commit for one in checkpoints.every(tmp_path)] == [12, 18, 20]
        assert 5 < log.segments(tmp_path / "log")[0][0] <= 13
        assert [entry.id for entry in LogReader(tmp_path, 12).entries()] == list(range(13, 21))
    with open_store(tmp_path, BASE) as store:
        assert len(store.statements("")) == 20


def test_history_stays_within_its_bytes(tmp_path: Path) -> None:
    limits = Limits(keep_newest=20, history_bytes=30_000)
    with open_store(tmp_path, BASE, limits=limits) as store:
        many(store, 12)
        assert len(checkpoints.every(tmp_path)) == 13
        store.retain()
        left = checkpoints.every(tmp_path)
        assert left[-1].commit == 12 and 1 <= len(left) < 13


def test_the_store_renews_its_files_before_their_list_grows_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparql.store.embedded.MANIFEST_BYTES", 20_000)
    with open_store(tmp_path, BASE) as store:
        reading = store.match(None, None, None, None)
        many(store, 12)
        assert len(list(reading)) == 3, "what was begun before goes on"
        (data,) = tmp_path.glob("data-*")
        assert data.name != "data-1"
        assert [entry.id for entry in LogReader(tmp_path, 0).entries()] == list(range(1, 13))
        assert all((one.data / "CURRENT").exists() for one in checkpoints.every(tmp_path))
    with open_store(tmp_path, BASE) as store:
        assert (store.head, len(store.statements(""))) == (12, 12)
