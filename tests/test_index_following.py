"""An index is at a commit of the log, whatever became of the process, the log, the graph, or the index itself."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from pyoxigraph import DefaultGraph, Store

from graphtide.engine import Engine
from sparql.index import followers
from sparql.index import following as following_module
from sparql.index.following import Following, forget
from sparql.index.reading import Index, IndexMissing, at
from sparql.log import Change, Entry, read_head
from sparql.store import open_store, restore

E = "https://e.example/"


class Words:
    """An index that keeps the default graph as it is, and says how it got there."""

    name, version = "words", 1

    def __init__(self) -> None:
        self.rebuilt = self.applied = 0
        self.fail = False

    def rebuild(self, db: sqlite3.Connection, store: Store) -> None:
        self.rebuilt += 1
        db.execute("CREATE TABLE said (text TEXT)")
        self._write(db, store)

    def apply(self, db: sqlite3.Connection, entry: Entry, store: Store) -> None:
        self.applied += 1
        db.execute("DELETE FROM said")
        self._write(db, store)
        if self.fail:
            raise RuntimeError("half way")

    def _write(self, db: sqlite3.Connection, store: Store) -> None:
        rows = [(str(quad.object),) for quad in store.quads_for_pattern(None, None, None, DefaultGraph())]
        db.executemany("INSERT INTO said VALUES (?)", rows)


def say(state: Path, *words: str, remove: tuple[str, ...] = ()) -> None:
    with open_store(state, E) as store:
        for word in words:
            store.commit(Change(added={"": frozenset({f'<{E}a> <{E}says> "{word}"'})}))
        for word in remove:
            store.commit(Change(removed={"": frozenset({f'<{E}a> <{E}says> "{word}"'})}))


def said(state: Path) -> tuple[int, set[str]]:
    with Index(state, "words").read() as db:
        return at(db), {row[0].strip('"') for row in db.execute("SELECT text FROM said")}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "state"


def test_an_index_follows_commits_and_goes_on_where_it_stood(state: Path) -> None:
    say(state, "one")
    words = Words()
    following = Following(state, E, [words])
    assert following.round()
    say(state, "two", "three", remove=("one",))
    assert following.round() and not following.round()
    assert said(state) == (read_head(state), {"two", "three"})
    assert (words.rebuilt, words.applied) == (1, 1)
    following.close()
    say(state, "four")
    again = Words()
    following = Following(state, E, [again])
    following.round()
    assert said(state) == (read_head(state), {"two", "three", "four"})
    assert (again.rebuilt, again.applied) == (0, 1)
    following.close()


def test_a_deleted_index_comes_back_while_the_process_runs(state: Path) -> None:
    say(state, "one")
    following = Following(state, E, [Words()])
    following.round()
    before = said(state)
    forget(state)
    with pytest.raises(IndexMissing):
        said(state)
    following.round()
    assert said(state) == before
    following.close()


@pytest.mark.parametrize("how", ["version", "base", "damage", "another history"])
def test_an_index_of_another_time_is_made_anew(state: Path, how: str) -> None:
    say(state, "one")
    following = Following(state, E, [Words()])
    following.round()
    following.close()
    words, base = Words(), E
    if how == "version":
        words.version = 2
    elif how == "base":
        base = "https://other.example/"
    elif how == "damage":
        (file,) = (state / "index").glob("*.sqlite")
        file.write_bytes(b"not a database at all")
    else:
        with sqlite3.connect(next((state / "index").glob("*.sqlite"))) as db:
            db.execute("UPDATE following SET time = '1999-01-01T00:00:00.000Z'")
    following = Following(state, base, [words])
    following.round()
    assert words.rebuilt == 1
    assert said(state) == (read_head(state), {"one"})
    following.close()


def test_an_erased_history_is_in_no_file_of_the_index(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following_module, "ORIGIN_SECONDS", 0.0)
    say(state, "secretword", "kept")
    following = Following(state, E, [Words()])
    following.round()
    with open_store(state, E) as store:
        store.commit(Change(removed={"": frozenset({f'<{E}a> <{E}says> "secretword"'})}))
        following.round()
        store.erase_history()
    following.round()
    following.round()
    assert said(state) == (read_head(state), {"kept"})
    for path in (state / "index").rglob("*"):
        assert not path.is_file() or b"secretword" not in path.read_bytes(), path
    following.close()


def test_a_bulk_load_and_a_restored_backup_are_followed_too(state: Path, tmp_path: Path) -> None:
    with open_store(state, E) as store:
        following = Following(state, E, [Words()])
        following.round()
        store.build([f'<{E}a> <{E}says> "loaded" .\n'.encode()], ())
        following.round()
        following.round()
        assert said(state) == (read_head(state), {"loaded"})
        store.backup(tmp_path / "backup")
        store.commit(Change(added={"": frozenset({f'<{E}a> <{E}says> "later"'})}))
        following.round()
        assert said(state)[1] == {"loaded", "later"}
    restore(tmp_path / "backup", state)
    following.round()
    following.round()
    assert said(state) == (read_head(state), {"loaded"})
    following.close()


def test_what_the_command_erases_is_in_no_index_whether_a_server_runs_or_not(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,Ann\n2,Quetzalcoatl\n")
    state = tmp_path / ".graphtide"

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in (state / "index").rglob("*") if path.is_file()).lower()

    with closing(Engine(tmp_path)) as engine:
        engine.sync()
        following = Following(state, engine.settings.base, followers())
        following.round()
        assert b"quetzalcoatl" in files()
        (tmp_path / "people.csv").write_text("id,name\n1,Ann\n")
        engine.erase("people/2")
        following.close()
        assert b"quetzalcoatl" not in files()
        following = Following(state, engine.settings.base, followers())
        following.round()
        assert b"ann" in files() and b"quetzalcoatl" not in files()
        following.close()


def test_a_follower_that_fails_half_way_leaves_the_index_whole_and_the_others_going(state: Path) -> None:
    say(state, "one")
    bad, good = Words(), Words()
    good.name = "good"
    following = Following(state, E, [bad, good])
    following.round()
    bad.fail = True
    say(state, "two")
    following.round()
    assert good.applied == 1
    bad.fail = False
    following.round()
    assert said(state) == (read_head(state), {"one", "two"})
    assert bad.rebuilt == 2
    following.close()


def test_the_process_ends_with_whoever_started_it_and_only_one_keeps_a_folder(state: Path) -> None:
    say(state, "one")

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "sparql.index", str(state), "--base", E]
        return subprocess.Popen(command, stdin=subprocess.PIPE)

    first = start()
    index = Index(state, "statistics")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            if index.lag == 0:
                break
        except IndexMissing:
            time.sleep(0.05)
    assert index.lag == 0
    second = start()
    first.kill()  # no chance to tidy
    first.wait()
    say(state, "two")
    while time.monotonic() < until and index.lag:
        time.sleep(0.05)
    assert index.lag == 0
    assert second.stdin is not None
    second.stdin.close()
    assert second.wait(10) == 0
