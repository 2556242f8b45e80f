"""A graph held in memory is the graph on disk, commit by commit, and says when it cannot be."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyoxigraph import Store as Oxigraph

from sparql import checkpoint
from sparql.log import Change, LogReader
from sparql.query import Pool, warm
from sparql.store import Store, open_store

BASE = "https://e.example/"
ALL = "SELECT * { { ?s ?p ?o } UNION { GRAPH ?g { ?s ?p ?o } } }"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = open_store(tmp_path / "state", BASE)
    yield made
    made.close()


def statement(n: int, value: str = "") -> str:
    return f'<{BASE}s{n}> <{BASE}p> "{value or n}"'


def graph(found: Oxigraph) -> set[str]:
    return {str(quad) for quad in found}


def commit(store: Store, removed: set[str], added: set[str], name: str = "") -> None:
    store.commit(Change({name: frozenset(removed)} if removed else {}, {name: frozenset(added)} if added else {}))


def on_disk(store: Store, folder: Path) -> set[str]:
    found = checkpoint.newest(store.state)
    assert found is not None
    checkpoint.clone(found, folder)
    return graph(Oxigraph(str(folder)))


def test_what_is_held_is_the_newest_checkpoint_and_then_follows_the_log(store: Store, tmp_path: Path) -> None:
    commit(store, set(), {statement(n) for n in range(50)} | {f'<{BASE}s> <{BASE}q> "> _: and <<( "@en--ltr'})
    commit(store, set(), {statement(1, "named")}, BASE + "g")
    store.checkpoint()
    held = warm.hold(store.state, tmp_path / "held", BASE, 2**30)
    assert held.epoch == store.head and not (tmp_path / "held").exists()
    assert graph(held.store) == on_disk(store, tmp_path / "one")
    log = LogReader(store.state, held.epoch)
    commit(store, {statement(3), statement(4)}, {statement(3, "three")})
    commit(store, {statement(1, "named")}, set(), BASE + "g")
    assert warm.follow(held, log, store.state) and held.epoch == store.head and held.spent >= 4
    store.checkpoint()
    assert graph(held.store) == on_disk(store, tmp_path / "two")


def test_it_is_worn_when_a_quarter_of_it_was_changed() -> None:
    assert not warm.Held(Oxigraph(), 1, "", 10_000_000, spent=2_400_000).worn
    assert warm.Held(Oxigraph(), 1, "", 10_000_000, spent=2_600_000).worn
    assert not warm.Held(Oxigraph(), 1, "", 10, spent=100_000).worn


def test_what_is_too_large_or_has_blank_nodes_stays_on_disk(store: Store, tmp_path: Path) -> None:
    with pytest.raises(warm.NotWarm, match="no checkpoint"):
        warm.hold(tmp_path / "nothing", tmp_path / "held", BASE, 2**30)
    commit(store, set(), {statement(1)})
    store.checkpoint()
    with pytest.raises(warm.NotWarm, match="0 MiB may be had"):
        warm.hold(store.state, tmp_path / "held", BASE, 1000)
    found = checkpoint.newest(store.state)
    assert found is not None
    # The same state with a checkpoint that has a blank node, as a plain store may.
    Oxigraph(str(found.data)).update(f"INSERT DATA {{ _:a <{BASE}p> _:b }}")
    with pytest.raises(warm.NotWarm, match="blank nodes"):
        warm.hold(store.state, tmp_path / "held", BASE, 2**30)


def test_a_log_that_does_not_lead_on_is_told(store: Store, tmp_path: Path) -> None:
    commit(store, set(), {statement(1)})
    store.checkpoint()
    held = warm.hold(store.state, tmp_path / "held", BASE, 2**30)
    log = LogReader(store.state, held.epoch)
    commit(store, set(), {statement(2)})
    store.erase_history()
    commit(store, set(), {statement(3)})
    assert not warm.follow(held, log, store.state)


def answers(pool: Pool, query: str) -> set[bytes]:
    return set(pool.run(query, format="tsv").read().splitlines()[1:])


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_pool_moves_into_memory_and_answers_the_same(store: Store) -> None:
    commit(store, set(), {statement(n) for n in range(100)})
    store.checkpoint()
    with Pool(store.state, BASE, workers=2, warm_bytes=2**30) as pool:
        query = "SELECT ?s ?o { ?s ?p ?o }"
        first = answers(pool, query)
        assert len(first) == 100
        wait_for(lambda: bool(pool.status()["in_memory"]))
        old = set(pool.status()["pids"])
        wait_for(lambda: not old & set(pool.status()["pids"]) or pool._supply.oldest() is None)
        assert answers(pool, query) == first
        for n in range(20):
            commit(store, {statement(n)}, {statement(n, f"new{n}")})
            assert f'"new{n}"'.encode() in b"".join(answers(pool, query))
        pids = pool.status()["pids"]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(set(pool.status()["pids"]) - set(pids)) == 3)
        assert b'"new19"' in b"".join(answers(pool, query))


def test_what_was_erased_is_not_kept_in_memory(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(store, set(), {statement(n) for n in range(10)})
    store.checkpoint()
    with Pool(store.state, BASE, workers=1, spares=0, warm_bytes=2**30) as pool:
        wait_for(lambda: bool(pool.status()["in_memory"]) and pool._supply.oldest() is None)
        maker = pool._supply.warm
        commit(store, {statement(1)}, set())
        store.erase_history()
        commit(store, set(), {statement(77)})
        found = answers(pool, "SELECT ?o { ?s ?p ?o }")
        assert b'"77"' in found and b'"1"' not in found
        wait_for(lambda: pool._supply.warm not in (None, maker) and not pool._supply.retired)
        assert b'"77"' in answers(pool, "SELECT ?o { ?s ?p ?o }")
