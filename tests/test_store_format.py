"""The store knows its format and base: newer code migrates after a backup, older code and other bases are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pyoxigraph
import pytest

from sparql import checkpoint as checkpoints
from sparql import durable
from sparql.log import Change, LogGap, LogReader
from sparql.store import StoreError, StoreTooNew, WrongBase, layout, migrate, open_store, restore

BASE = "https://format.example/"
OLD = f'<{BASE}a> <{BASE}old> "x"'
NEW = f'<{BASE}a> <{BASE}new> "x"'


def rename(store: pyoxigraph.Store, names: object) -> None:
    Change({"": frozenset({OLD})}, {"": frozenset({NEW})}).apply(store)


def test_newer_code_migrates_after_a_backup_and_older_code_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
    with monkeypatch.context() as newer:
        newer.setattr(layout, "FORMAT", 2)
        newer.setitem(migrate.MIGRATIONS, 1, rename)
        with open_store(tmp_path, BASE) as store:
            assert (store.head, store.statements("")) == (2, {NEW})
            assert checkpoints.newest(tmp_path).commit == 2
            with pytest.raises(LogGap):
                list(LogReader(tmp_path, 1).entries())
        with open_store(tmp_path, BASE) as store:
            assert (store.head, store.statements("")) == (2, {NEW})
    with pytest.raises(StoreTooNew, match="format 2; this Graphtide knows formats up to 1"):
        open_store(tmp_path, BASE)
    restore(tmp_path / "backups" / "format-1-commit-1", tmp_path)
    with open_store(tmp_path, BASE) as store:
        assert (store.head, store.statements("")) == (3, {OLD})


def test_without_a_way_to_the_new_format_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(tmp_path, BASE).close()
    with monkeypatch.context() as newer:
        newer.setattr(layout, "FORMAT", 2)
        with pytest.raises(StoreError, match="no way from store format 1 to 2"):
            open_store(tmp_path, BASE)
    with open_store(tmp_path, BASE) as store:
        assert store.head == 0


def test_another_base_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
    with pytest.raises(WrongBase, match=f"made with base '{BASE}'.*write base = '{BASE}'"):
        open_store(tmp_path, "https://other.example/")
    about = json.loads((tmp_path / "store.json").read_text())
    (tmp_path / "store.json").write_text(json.dumps({**about, "base": "https://other.example/"}))
    with pytest.raises(WrongBase, match=f"made with base '{BASE}'"):
        open_store(tmp_path, "https://other.example/")
    with pytest.raises(WrongBase, match="ends in"):
        open_store(tmp_path / "new", "https://no-slash.example")


def test_a_store_without_its_description_is_not_taken_for_a_new_one(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
    (tmp_path / "store.json").unlink()
    with pytest.raises(StoreError, match="store.json is missing"):
        open_store(tmp_path, BASE)


def test_a_log_that_misses_what_the_store_has_is_an_error(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
    (segment,) = (tmp_path / "log").iterdir()
    segment.write_bytes(segment.read_bytes()[:-5])
    with pytest.raises(StoreError, match="ends at commit 0 .* the store is at 1"):
        open_store(tmp_path, BASE)


def test_a_backup_is_restored_as_a_new_commit(tmp_path: Path) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    with open_store(state, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
        assert store.backup(copy).commit == 1
        with pytest.raises(StoreError, match="exists already"):
            store.backup(copy)
        store.commit(Change({"": frozenset({OLD})}, {"": frozenset({NEW})}))
    assert all(file.stat().st_nlink == 1 for file in copy.rglob("*") if file.is_file())
    assert restore(copy, state).commit == 3
    with open_store(state, BASE) as store:
        assert (store.head, store.statements("")) == (3, {OLD})
        with pytest.raises(LogGap):
            list(LogReader(state, 2).entries())
    restore(copy, tmp_path / "elsewhere")
    with open_store(tmp_path / "elsewhere", BASE) as store:
        assert store.statements("") == {OLD}


@pytest.mark.parametrize(("point", "expected"), [("restore.made", NEW), ("restore.decided", OLD)])
def test_an_interrupted_restore_leaves_the_old_store_or_the_restored_one(
    tmp_path: Path, point: str, expected: str
) -> None:
    state, copy = tmp_path / "state", tmp_path / "copy"
    with open_store(state, BASE) as store:
        store.commit(Change(added={"": frozenset({OLD})}))
        store.backup(copy)
        store.commit(Change({"": frozenset({OLD})}, {"": frozenset({NEW})}))

    def interrupt(reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    durable.REACHED.append(interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            restore(copy, state)
    finally:
        durable.REACHED.clear()
    with open_store(state, BASE) as store:
        assert store.statements("") == {expected}
        assert [path.name for path in state.glob("data-*")] == [store._layout.data]


def test_only_a_backup_of_the_same_base_is_restored(tmp_path: Path) -> None:
    with open_store(tmp_path / "a", BASE) as store:
        store.backup(tmp_path / "copy")
    open_store(tmp_path / "b", "https://other.example/").close()
    with pytest.raises(WrongBase):
        restore(tmp_path / "copy", tmp_path / "b")
    with pytest.raises(StoreError, match="is no backup"):
        restore(tmp_path / "a" / "log", tmp_path / "b")
