"""A read at an epoch sees that commit, as long as it is held, whatever is committed, pruned or restarted meanwhile."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparql import checkpoint
from sparql.log import Change
from sparql.query.pool import EpochAhead, EpochGone, Pool, PoolBusy
from sparql.store import Store, open_store
from sparql.store.limits import Limits

BASE = "https://e.example/"
COUNT = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"


def add(store: Store, number: int) -> int:
    return store.commit(Change({}, {"": frozenset({f'<{BASE}n/{number}> <{BASE}p> "{number}"'})})).id


def age(store: Store) -> None:
    """Every checkpoint was made long ago."""
    for path in (store.state / checkpoint.FOLDER).glob(f"*/{checkpoint.ABOUT}"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"time": "2020-01-01T00:00:00.000Z"}))


def count(pool: Pool, epoch: int | None = None, **options: object) -> tuple[int, int]:
    """(rows counted, the epoch of the answer)."""
    answer = pool.run(COUNT, format="csv", epoch=epoch, **options)
    return int(answer.read().split()[1]), answer.epoch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / ".graphtide", BASE, limits=Limits(keep_newest=1, history_days=0)) as found:
        yield found


@pytest.fixture
def pool(store: Store) -> Iterator[Pool]:
    with Pool(store.state, BASE, workers=1, spares=0, pinned=2) as found:
        yield found


def test_each_epoch_is_answered_as_it_was(store: Store, pool: Pool) -> None:
    ids = []
    for n in range(6):
        ids.append(add(store, n))
        if n % 2:
            store.checkpoint()
    assert [count(pool, epoch) for epoch in ids] == [(n + 1, epoch) for n, epoch in enumerate(ids)]
    assert count(pool) == (6, ids[-1])
    assert len(pool.status()["epochs"]) <= 2


def test_paging_at_one_epoch_is_consistent_while_a_writer_commits(store: Store, pool: Pool) -> None:
    for n in range(20):
        add(store, n)
    page = f"SELECT ?s {{ ?s <{BASE}p> ?o }} ORDER BY ?s LIMIT 5 OFFSET "
    stop = threading.Event()

    def write() -> None:
        n = 100
        while not stop.wait(0.002):
            n += 1
            store.commit(Change({"": frozenset({f'<{BASE}n/{n - 1}> <{BASE}p> "{n - 1}"'})}, {}))
            add(store, n)

    first = pool.run(page + "0", format="csv")
    rows = first.read().split()[1:]
    writer = threading.Thread(target=write)
    writer.start()
    while store.head == first.epoch:
        time.sleep(0.001)
    try:
        for offset in (5, 10, 15, 20):
            answer = pool.run(page + str(offset), format="csv", epoch=first.epoch)
            rows += answer.read().split()[1:]
            assert answer.epoch == first.epoch
    finally:
        stop.set()
        writer.join()
    assert sorted(rows) == sorted(f"{BASE}n/{n}".encode() for n in range(20))
    assert pool.status()["epochs"] == [first.epoch]


def test_the_newest_epoch_is_answered_by_any_worker(store: Store, pool: Pool) -> None:
    newest = add(store, 0)
    assert count(pool, newest) == (1, newest)
    assert pool.status()["pinned"] == 0
    add(store, 1)
    assert count(pool, newest) == (1, newest)
    assert pool.status()["epochs"] == [newest]


def test_what_is_read_at_is_not_pruned_and_what_is_not_is_gone(store: Store, pool: Pool) -> None:
    held, gone = add(store, 0), 0
    store.checkpoint()
    assert count(pool, held) == (1, held)
    for n in range(1, 4):
        gone = add(store, n)
    store.checkpoint()
    store._log.rotate()  # as after 16 MB of it: whole segments are pruned
    add(store, 9)
    store.checkpoint()
    age(store)
    store.retain()
    assert [each.commit for each in checkpoint.every(store.state)][0] == held
    assert count(pool, held) == (1, held)
    assert count(pool, gone) == (4, gone)  # the log from the held one leads there too
    with Pool(store.state, BASE, workers=1, spares=0) as another:  # as after a restart: the lease is on disk
        store.retain()
        assert count(another, held) == (1, held)
    for lease in (store.state / checkpoint.LEASES).iterdir():
        lease.unlink()
    age(store)
    store.retain()
    with Pool(store.state, BASE, workers=1, spares=0) as another, pytest.raises(EpochGone) as found:
        count(another, held)
    assert found.value.epoch == held and "not kept any more" in str(found.value) and "begins at" in str(found.value)


def test_what_was_erased_is_not_read_at_an_earlier_epoch(store: Store, pool: Pool) -> None:
    secret = add(store, 0)
    store.checkpoint()
    store.commit(Change({"": frozenset({f'<{BASE}n/0> <{BASE}p> "0"'})}, {}))
    assert count(pool, secret) == (1, secret)
    store.erase_history()
    with pytest.raises(EpochGone):
        count(pool, secret)
    assert count(pool)[0] == 0


def test_an_epoch_that_is_not_there_yet_is_waited_for_and_then_refused(store: Store, pool: Pool) -> None:
    newest = add(store, 0)

    async def ask(epoch: int, **options: object) -> int:
        async with pool.call(COUNT, format="csv", epoch=epoch, **options) as call:  # type: ignore[arg-type]
            return (await call.begin()).epoch

    later = threading.Timer(0.2, add, (store, 1))
    later.start()
    assert asyncio.run(ask(newest + 1)) == newest + 1
    later.join()
    began = time.monotonic()
    with pytest.raises(EpochAhead) as found:
        asyncio.run(ask(newest + 5, deadline=0.3))
    assert (found.value.epoch, found.value.head) == (newest + 5, newest + 1)
    assert time.monotonic() - began < 2
    with pytest.raises(EpochAhead):
        pool.run(COUNT, least=newest + 5, deadline=0.1)
    assert pool.run(COUNT, least=newest + 1, format="csv").epoch == newest + 1


def test_readers_of_many_epochs_wait_for_each_other_and_not_for_the_rest(store: Store, pool: Pool) -> None:
    ids = [add(store, n) for n in range(8)]
    store.checkpoint()
    add(store, 99)

    async def ask(epoch: int | None) -> tuple[int, int]:
        async with pool.call(COUNT, format="csv", epoch=epoch) as call:
            answer = await call.begin()
            found = await answer.chunk_async() or b""
            return int(found.split()[1]), answer.epoch

    async def both() -> tuple[list[tuple[int, int]], float]:
        pinned = asyncio.gather(*(ask(epoch) for epoch in ids for _ in range(2)))
        await asyncio.sleep(0)
        began = time.monotonic()
        assert (await ask(None))[0] == 9
        took = time.monotonic() - began
        return await pinned, took

    found, took = asyncio.run(both())
    assert found == [(n + 1, epoch) for n, epoch in enumerate(ids) for _ in range(2)]
    assert took < 1.0
    assert pool.status()["pinned"] <= 2


def test_no_client_holds_every_epoch_there_is(store: Store, pool: Pool) -> None:
    ids = [add(store, n) for n in range(4)]
    pool._leases.most = 3
    for epoch in ids[:3]:
        assert count(pool, epoch)[1] == epoch
    with pytest.raises(PoolBusy) as found:
        count(pool, ids[3])
    assert found.value.which == "epochs" and found.value.retry_after > 500
    assert count(pool, ids[0])[1] == ids[0]
    pool._leases.most = 16
    assert count(pool, ids[3], client="one")[1] == ids[3]
    for _ in range(3):
        ids.append(add(store, len(ids)))
        assert count(pool, ids[-1], client="one")[1] == ids[-1]
    ids.append(add(store, len(ids)))
    with pytest.raises(PoolBusy):
        count(pool, ids[-1], client="one")
    assert count(pool, ids[-1], client="another")[1] == ids[-1]


def test_a_number_that_never_was_a_commit_is_gone(store: Store, pool: Pool) -> None:
    built = store.build([f'<{BASE}x> <{BASE}p> "x" .\n'.encode()]).id
    add(store, 1)
    for epoch in range(built):
        with pytest.raises(EpochGone):
            count(pool, epoch)
    assert checkpoint.leased(store.state) == set()
    assert count(pool, built) == (1, built)
    assert count(pool) == (2, store.head)
