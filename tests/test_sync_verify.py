"""Verify finds what is not as recomputed and mends it; forget, rename and erase take away only what they name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sources.record import ReadError
from sparql import journal
from sparql.log import Change
from sparql.store import Store, open_store
from sparql.sync import Unknown, erase, forget, rename, sync, unreadable, verify
from tests.test_rules_sync import OWNER
from tests.test_sync_graph import BASE, E, holds, plan, rows, said
from tests.test_sync_history import facts

BATCH = rows("a.csv", ("1", "svc team n;x p y"), ("2", "t named n"), ("3", "x p y"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "state", BASE) as opened:
        sync(opened, plan(), [BATCH], rules=[OWNER])
        yield opened


def line(text: str) -> str:
    return " ".join(f"<{E}{part}>" for part in text.split(" "))


def check(store: Store, *, repair: bool = False) -> Any:
    return verify(store, [(plan(), [BATCH])], rules=[OWNER], repair=repair)


def test_a_graph_in_step_verifies_clean(store: Store) -> None:
    report = check(store)
    assert report.clean and (report.records, report.held, report.behind) == (3, 0, ())


@pytest.mark.parametrize(
    ("graph", "removed", "added", "kinds"),
    [
        ("", ["x p y"], [], {"default"}),
        ("", [], ["made up fact"], {"default"}),
        ("1", ["svc team n"], ["made up fact"], {"record"}),
        ("rule/owner/http:%2F%2Fexample.org%2Ft", ["t owns svc"], [], {"rule"}),
        ("stray/1", [], ["made up fact"], {"record"}),
    ],
)
def test_verify_finds_and_mends_what_sync_did_not_write(
    store: Store, graph: str, removed: list[str], added: list[str], kinds: set[str]
) -> None:
    before = facts(store)
    name = graph and (store.names.base + f"record/{graph}" if "/" in graph else store.names.record("t", graph))
    store.commit(Change({name: frozenset(map(line, removed))}, {name: frozenset(map(line, added))}))
    found = check(store)
    assert {one.kind for one in found.differences} - {"journal"} == kinds
    assert facts(store) != before
    mended = check(store, repair=True)
    assert mended.repaired and facts(store) == before and check(store).clean


def test_repair_never_removes_a_held_fact(store: Store) -> None:
    bad = rows("a.csv", ("1", "?"), ("2", "t named n"), ("3", "x p y"))
    sync(store, plan(), [bad], rules=[OWNER])
    before = facts(store)
    report = verify(store, [(plan(), [bad])], rules=[OWNER], repair=True)
    assert report.clean and report.held == 1 and facts(store) == before
    torn = unreadable("t", "a.csv", ReadError("a.csv", "it is torn"))
    assert verify(store, [(plan(), [torn])], rules=[OWNER], repair=True).clean and facts(store) == before


def test_a_file_that_changed_since_is_behind_and_no_difference(store: Store) -> None:
    newer = rows("a.csv", ("1", "svc team m"), ("4", "a b c"))
    report = verify(store, [(plan(), [newer])], rules=[OWNER])
    assert report.clean and report.behind == ("t: a.csv",)


def test_a_forgotten_source_leaves_nothing(store: Store) -> None:
    sync(store, plan("other"), [rows("o.csv", ("1", "x p y"), ("2", "?"), source="other")], rules=[OWNER])
    report = forget(store, "t", rules=[OWNER])
    assert (report.gone, holds(store)) == (3, {"x p y"})
    assert [row["name"] for row in journal.source_rows(store, store.names)] == ["other"]
    forget(store, "other", rules=[OWNER])
    assert facts(store) == set() and journal.violations(store, store.names) == []
    with pytest.raises(Unknown, match="'other'"):
        forget(store, "other")


def test_a_renamed_source_says_the_same_under_its_new_name(store: Store) -> None:
    sync(store, plan(), [rows("b.csv", ("9", "?"))], rules=[OWNER])
    before = holds(store)
    rename(store, "t", "u", rules=[OWNER])
    assert holds(store) == before and said(store, "1", "u") == {"svc team n", "x p y"} and not said(store, "1")
    [row] = journal.source_rows(store, store.names)
    assert (row["name"], row["records"], row["rejected"], row["scopes"]) == ("u", 3, 1, 2)
    report = sync(store, plan("u"), [rows("a.csv", ("1", "svc team n;x p y"), ("2", "t named n"), ("3", "x p y"),
                                          source="u")], rules=[OWNER])  # fmt: skip
    assert (report.gone, report.changed) == (0, 0) and holds(store) == before
    with pytest.raises(ValueError, match="already"):
        rename(store, "u", "u")


def test_an_erased_record_is_nowhere_below_the_state_folder(store: Store) -> None:
    secret = rows("b.csv", ("77", "hush hush hush"), cursor="1")
    sync(store, plan(), [secret], rules=[OWNER])
    sync(store, plan(), [rows("b.csv", ("77", "?hush"), cursor="2")], rules=[OWNER])
    erase(store, "t/77", rules=[OWNER])
    assert "hush hush hush" not in holds(store) and journal.violations(store, store.names) == []
    assert not list(found(store.state, b"hush"))
    assert check(store).clean
    sync(store, plan(), [rows("c.csv", ("5", "late named n"))], rules=[OWNER])
    assert "late owns svc" in holds(store)


def test_an_erased_iri_is_in_no_graph(store: Store) -> None:
    erase(store, f"{E}svc", rules=[OWNER])
    assert holds(store) == {"x p y", "t named n"} and said(store, "1") == {"x p y"}
    assert not list(found(store.state, f"{E}svc".encode()))
    with pytest.raises(Unknown):
        erase(store, f"{E}svc")


def found(folder: Path, text: bytes) -> Iterator[Path]:
    for path in folder.rglob("*"):
        if path.is_file() and text in path.read_bytes():
            yield path
