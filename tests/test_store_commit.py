"""A commit is in the graph and on disk, all of it or nothing."""

from __future__ import annotations

import os
import threading
from collections import namedtuple
from pathlib import Path

import pytest
from pyoxigraph import NamedNode

from sparql import durable, log
from sparql.log import Change, LogReader, read_head
from sparql.store import DiskFull, Limits, Store, StoreError, open_store

BASE = "https://commit.example/"
ONE = f'<{BASE}a> <{BASE}p> "one"'
TWO = f'<{BASE}a> <{BASE}p> "two \\"quoted\\" \\\\u0041"@en'
REPORT = [{"source": "people", "read": 2, "message": 'a "b" \\ \n ü'}]


def said(*statements: str, by: str) -> Change:
    facts = frozenset(statements)
    return Change(added={"": facts, f"{BASE}record/src/{by}": facts})


@pytest.fixture
def store(tmp_path: Path):
    with open_store(tmp_path / "state", BASE) as made:
        yield made


def test_a_commit_is_in_the_graph_the_log_and_the_head(store: Store) -> None:
    assert store.empty
    entry = store.commit(said(ONE, TWO, by="1"), REPORT)
    assert (entry.id, entry.previous, store.head, read_head(store.state)) == (1, 0, 1, 1)
    assert store.statements("") == {ONE, TWO} == store.statements(f"{BASE}record/src/1")
    (logged,) = LogReader(store.state, 0).entries()
    assert (logged.change, logged.report, logged.time) == (entry.change, REPORT, entry.time)
    assert not store.empty


def test_it_is_there_after_opening_again(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        entry = store.commit(said(ONE, by="1"))
    with open_store(tmp_path, BASE) as store:
        assert (store.head, store.head_time, store.statements("")) == (1, entry.time, {ONE})


def test_reading_by_text(store: Store) -> None:
    store.commit(said(ONE, TWO, by="1"))
    store.commit(said(TWO, by="a/b%20c"))
    store.commit(Change(added={f"{BASE}system/journal": frozenset({TWO})}))
    assert store.holds(TWO) and not store.holds(f'<{BASE}a> <{BASE}p> "two"')
    assert sorted(store.asserted_by(TWO)) == [f"{BASE}record/src/1", f"{BASE}record/src/a/b%20c"]
    assert sorted(store.asserted_by(ONE)) == [f"{BASE}record/src/1"]
    assert store.statements(f"{BASE}none") == frozenset()
    assert bool(store.query(f"ASK {{ ?s <{BASE}p> 'one' }}"))
    (quad,) = store.match(None, None, None, NamedNode(f"{BASE}system/journal"))
    assert f"{quad.subject} {quad.predicate} {quad.object}" == TWO


def test_removals_come_before_additions(store: Store) -> None:
    store.commit(said(ONE, by="1"))
    store.commit(Change({"": frozenset({ONE, TWO})}, {"": frozenset({ONE})}))
    assert store.statements("") == {ONE}


@pytest.mark.parametrize(
    "bad", ["_:a <http://x/p> <http://x/o>", "<http://x/a> <http://x/p> _:b", "<a b> <p> <o>", "<http://x/a> nonsense"]
)
def test_what_is_no_change_leaves_no_trace(store: Store, bad: str) -> None:
    store.commit(said(ONE, by="1"))
    with pytest.raises(ValueError):
        store.commit(said(TWO, bad, by="2"))
    assert (store.head, store.statements("")) == (1, {ONE})
    assert store.commit(said(TWO, by="2")).id == 2
    assert [entry.id for entry in LogReader(store.state, 0).entries()] == [1, 2]


def test_commits_of_many_threads_all_happen_and_share_their_syncs(store: Store) -> None:
    syncs: list[Path] = []
    durable.SYNCED.append(lambda path, size: syncs.append(path))
    threads = [
        threading.Thread(
            target=lambda n=n: [store.commit(said(f'<{BASE}a> <{BASE}p> "{n} {k}"', by=f"{n}-{k}")) for k in range(10)]
        )
        for n in range(8)
    ]
    try:
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    finally:
        durable.SYNCED.clear()
    assert (store.head, len(store.statements(""))) == (80, 80)
    assert [entry.id for entry in LogReader(store.state, 0).entries()] == list(range(1, 81))
    assert len([path for path in syncs if path.suffix == ".rdfp"]) < 80


def test_one_bad_commit_of_many_at_once_fails_alone(store: Store) -> None:
    held, results = threading.Event(), {}
    changes = {
        "good": said(ONE, by="1"),
        "bad": said('<http://x/a> <http://x/p> "a" "b"', by="2"),
        "other": said(TWO, by="3"),
    }

    def commit(name: str) -> None:
        held.wait()
        try:
            results[name] = store.commit(changes[name])
        except ValueError as wrong:
            results[name] = wrong

    threads = [threading.Thread(target=commit, args=(name,)) for name in changes]
    with store._writing:
        [thread.start() for thread in threads]
        held.set()
        while len(store._queue) < 3:
            pass
    [thread.join() for thread in threads]
    assert isinstance(results["bad"], ValueError)
    assert sorted((results["good"].id, results["other"].id)) == [1, 2]
    assert (store.head, store.statements("")) == (2, {ONE, TWO})


def test_a_large_change_is_one_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LARGE", 100)
    many = frozenset(f'<{BASE}a> <{BASE}p> "{n}"' for n in range(1000))
    store.commit(Change(added={"": many, f"{BASE}system/cursor": frozenset({ONE})}))
    assert store.statements("") == many
    store.commit(Change({"": many}, {"": frozenset({TWO})}))
    assert (store.head, store.statements("")) == (2, {TWO})
    with pytest.raises((SyntaxError, ValueError)):
        store.commit(Change(added={"": many | {"<a"}}))
    assert (store.head, store.statements("")) == (2, {TWO})


def test_below_min_free_bytes_writes_stop_and_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = namedtuple("disk", "f_bavail f_frsize")
    with open_store(tmp_path, BASE, limits=Limits(min_free_bytes=100 * 2**20)) as store:
        store.commit(said(ONE, by="1"))
        monkeypatch.setattr(os, "statvfs", lambda path: disk(50, 2**20))
        for write in (lambda: store.commit(said(TWO, by="2")), store.checkpoint, store.erase_history):
            with pytest.raises(DiskFull, match=r"has 50 MiB free and 100 MiB are needed.*Reads go on"):
                write()
        assert store.statements("") == {ONE}
    with open_store(tmp_path, BASE, limits=Limits(min_free_bytes=100 * 2**20)) as store:
        assert store.statements("") == {ONE}
        monkeypatch.undo()
        assert store.commit(said(TWO, by="2")).id == 2


def test_a_full_disk_while_logging_leaves_the_log_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.commit(said(ONE, by="1"))
    write = os.write

    def half(fd: int, data: bytes) -> int:
        if len(data) < 200:
            raise OSError(28, "No space left on device")
        return write(fd, data[:100])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(DiskFull, match="Reads go on"):
        store.commit(said(TWO, by="2"))
    monkeypatch.undo()
    assert store.commit(said(TWO, by="2")).id == 2
    assert [entry.id for entry in LogReader(store.state, 0).entries()] == [1, 2]


def test_a_commit_interrupted_after_the_log_is_settled_at_the_next_opening(tmp_path: Path) -> None:
    store = open_store(tmp_path, BASE)

    def interrupt(point: str) -> None:
        if point == "commit.logged":
            raise KeyboardInterrupt

    durable.REACHED.append(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.commit(said(ONE, by="1"))
    finally:
        durable.REACHED.clear()
    with pytest.raises(StoreError, match="open it again"):
        store.commit(said(TWO, by="2"))
    store.close()
    with open_store(tmp_path, BASE) as again:
        assert (again.head, again.statements("")) == (1, {ONE})


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = open_store(tmp_path, BASE)
    store.close()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.commit(said(ONE, by="1"))


def test_a_refused_commit_that_was_cut_off_is_dropped_at_the_next_opening(tmp_path: Path) -> None:
    store = open_store(tmp_path, BASE)
    store.commit(said(ONE, by="1"))

    def interrupt(point: str) -> None:
        if point == "commit.logged":
            raise KeyboardInterrupt

    durable.REACHED.append(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            store.commit(said("<http://x/a> nonsense", by="2"))
    finally:
        durable.REACHED.clear()
        store.close()
    with open_store(tmp_path, BASE) as again:
        assert again.head == 1
        assert again.commit(said(TWO, by="2")).id == 2
        assert [entry.id for entry in LogReader(tmp_path, 0).entries()] == [1, 2]
