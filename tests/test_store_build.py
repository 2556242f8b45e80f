"""The first load is all or nothing, and history starts with it."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparql import checkpoint as checkpoints
from sparql.log import Change, LogGap, LogReader, read_head
from sparql.store import DiskFull, Limits, StoreError, bulk, open_store

BASE = "https://build.example/"
ONE = f'<{BASE}a> <{BASE}p> "one"'


def pieces(count: int) -> Iterator[bytes]:
    for number in range(count):
        fact = f'<{BASE}e/{number}> <{BASE}p> "{number}"'
        yield f"{fact} .\n{fact} <{BASE}record/s/{number}> .\n".encode()


def test_an_empty_store_is_loaded_in_bulk(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        assert checkpoints.newest(tmp_path).commit == 0
        entry = store.build(pieces(1000), [{"source": "s", "read": 1000}])
        assert (entry.id, entry.previous, store.head, read_head(tmp_path), store.empty) == (1, 0, 1, 1, False)
        assert len(store.statements("")) == 1000
        newest = checkpoints.newest(tmp_path)
        assert (newest.commit, newest.time, newest.report) == (1, entry.time, ({"source": "s", "read": 1000},))
        store.commit(Change(added={"": frozenset({ONE})}))
        assert [one.id for one in LogReader(tmp_path, newest.commit).entries()] == [2]
        with pytest.raises(LogGap):
            list(LogReader(tmp_path, 0).entries())
    with open_store(tmp_path, BASE) as store:
        assert (store.head, len(store.statements(""))) == (2, 1001)


def test_only_an_empty_store_is_built(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset({ONE})}))
        with pytest.raises(StoreError, match="not empty"):
            store.build(pieces(1))
        store.commit(Change(removed={"": frozenset({ONE})}))
        assert store.build(pieces(2)).id == 3
        assert len(store.statements("")) == 2


@pytest.mark.parametrize("bad", [b"<a", b'<http://a> <http://b> "c', b"nonsense .\n"])
def test_a_bad_load_leaves_the_empty_store(tmp_path: Path, bad: bytes) -> None:
    with open_store(tmp_path, BASE) as store:
        with pytest.raises(SyntaxError):
            store.build([*pieces(100), bad])
        assert store.empty and store.head == 0
        assert store.build(pieces(1)).id == 1
        assert len([name for name in os.listdir(tmp_path) if name.startswith("data-")]) == 1


def test_what_goes_wrong_in_the_source_is_raised_as_it_is(tmp_path: Path) -> None:
    class Gone(Exception):
        pass

    def broken() -> Iterator[bytes]:
        yield from pieces(10)
        raise Gone("people.csv:12")

    with open_store(tmp_path, BASE) as store:
        with pytest.raises(Gone, match="people.csv:12"):
            store.build(broken())
        assert store.empty


def test_a_load_stops_when_the_disk_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = namedtuple("disk", "f_bavail f_frsize")
    left = iter([200, 200, 50, 50])
    with open_store(tmp_path, BASE, limits=Limits(min_free_bytes=100 * 2**20)) as store:
        monkeypatch.setattr(bulk, "LOOK", 1000)
        monkeypatch.setattr(os, "statvfs", lambda path: disk(next(left), 2**20))
        with pytest.raises(DiskFull, match="has 50 MiB free"):
            store.build(pieces(1000))
        assert store.empty
