"""A query has an id, a turn that is fair, and one end that whoever watches hears of."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sparql.query.pool import Answer, Ended, Pool, PoolBusy, QueryCancelled, QueryError, QueryFailed, QueryTimeout
from sparql.query.turns import Turns, Waiter

BASE = "https://e.example/"
DIGITS = "{ 0 1 2 3 4 5 6 7 8 9 }"
LONG = "SELECT (COUNT(*) AS ?n) { " + " ".join(f"VALUES ?v{n} {DIGITS}" for n in range(9)) + " }"
MANY = "SELECT * { " + " ".join(f"VALUES ?v{n} {DIGITS}" for n in range(7)) + " }"


def settled(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with Pool(tmp_path_factory.mktemp("plain"), BASE, workers=2, spares=2, deadline=20) as found:
        yield found


@pytest.fixture
def ended(pool: Pool) -> Iterator[list[Ended]]:
    found: list[Ended] = []
    pool.observe(found.append)
    yield found
    pool._observers.clear()


async def whole(pool: Pool, query: str, **options: object) -> bytes:
    async with pool.call(query, **options) as call:  # type: ignore[arg-type]
        answer = await call.begin()
        found = b""
        while (data := await answer.chunk_async()) is not None:
            found += data
        return found


def test_a_small_answer_is_whole_with_its_first_chunk(pool: Pool) -> None:
    async def ask() -> tuple[bytes | None, bool, int | None]:
        async with pool.call("SELECT ?v { VALUES ?v { 1 2 } }", format="csv") as call:
            answer = await call.begin()
            return await answer.chunk_async(), answer.done, answer.rows

    assert asyncio.run(ask()) == (b"v\r\n1\r\n2\r\n", True, 2)


def test_an_event_loop_runs_more_queries_than_there_are_workers(pool: Pool) -> None:
    async def ask() -> list[bytes]:
        return await asyncio.gather(*(whole(pool, f"SELECT ({n} AS ?n) {{}}", format="csv") for n in range(20)))

    assert asyncio.run(ask()) == [f"n\r\n{n}\r\n".encode() for n in range(20)]
    assert pool.running() == []


def test_threads_and_an_event_loop_share_the_workers(pool: Pool) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(pool.run("ASK {}", format="csv").read())) for _ in range(5)]

    async def ask() -> list[bytes]:
        for thread in threads:
            thread.start()
        return await asyncio.gather(*(whole(pool, "ASK {}", format="csv") for _ in range(10)))

    found += asyncio.run(ask())
    for thread in threads:
        thread.join()
    assert found == [b"true"] * 15


def test_a_long_answer_comes_whole_over_an_event_loop(pool: Pool) -> None:
    query = "SELECT * { " + " ".join(f"VALUES ?v{n} {DIGITS}" for n in range(5)) + " }"
    found = asyncio.run(whole(pool, query, format="csv"))
    assert found == pool.run(query, format="csv").read() and found.count(b"\r\n") == 100_001


def test_a_running_query_is_listed_and_is_cancelled_by_its_id(pool: Pool, ended: list[Ended]) -> None:
    failure: list[QueryFailed] = []
    call = pool.call("SELECT\n  " + LONG.removeprefix("SELECT "), client="anna")

    def ask() -> None:
        try:
            call.answer()
        except QueryFailed as wrong:
            failure.append(wrong)

    thread = threading.Thread(target=ask)
    thread.start()
    assert settled(lambda: [each.state for each in pool.running()] == ["running"])
    (listed,) = pool.running()
    assert (listed.id, listed.client, listed.deadline) == (call.id, "anna", 20)
    assert listed.query.startswith("SELECT (COUNT(*) AS ?n) { VALUES ?v0") and len(listed.query) == 200
    assert abs(listed.started - time.time()) < 10
    assert not pool.cancel("nobody")
    began = time.monotonic()
    assert pool.cancel(call.id)
    thread.join()
    assert time.monotonic() - began < 0.5
    assert [str(each) for each in failure] == ["The query was cancelled by its id."]
    assert pool.running() == []
    assert [(each.id, each.outcome, each.client) for each in ended] == [(call.id, "cancelled", "anna")]


def test_an_answer_being_sent_is_listed_with_what_was_sent(pool: Pool) -> None:
    with pool.run(MANY, format="csv") as answer:
        taken = sum(len(answer.chunk() or b"") for _ in range(20))
        (listed,) = pool.running()
        assert (listed.state, listed.bytes, listed.id) == ("sending", taken, answer.id)
        assert listed.rows > 1000
    assert pool.running() == []


def test_a_task_that_is_cancelled_takes_its_query_with_it(pool: Pool, ended: list[Ended]) -> None:
    async def leave() -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(whole(pool, LONG), 0.2)

    asyncio.run(leave())
    assert pool.status()["busy"] == 0
    assert [each.outcome for each in ended] == ["cancelled"]
    assert pool.run("ASK {}", format="csv").read() == b"true"


def test_each_query_ends_once_and_says_how(pool: Pool, ended: list[Ended]) -> None:
    pool.run("SELECT ?v { VALUES ?v { 1 2 3 } }", format="csv").read()
    for query, options, outcome in (
        ("SELECT nonsense", {}, QueryError),
        (LONG, {"deadline": 0.1}, QueryTimeout),
        (MANY, {"max_rows": 5}, QueryFailed),
    ):
        with pytest.raises(outcome):
            pool.run(query, **options).read()
    left = pool.run(MANY, format="csv")
    left.chunk()
    left.close()
    abandoned = pool.run(MANY, format="csv", deadline=0.2)
    assert settled(lambda: len(ended) == 6)
    assert [each.outcome for each in ended] == ["answered", "query", "timeout", "too-long", "cancelled", "timeout"]
    first = ended[0]
    assert (first.rows, first.bytes, first.kind, first.format, first.epoch) == (3, 12, "rows", "csv", 0)
    assert 0 <= first.queue_seconds <= first.seconds and first.engine_ms is not None
    with pytest.raises(QueryTimeout):
        abandoned.read()
    assert len(ended) == 6


def test_turns_go_to_the_client_with_the_fewest_running_then_round_by_client() -> None:
    class Asked:
        def __init__(self, client: str) -> None:
            self.client = client

    turns = Turns()
    waiters = {name: Waiter(Asked(name[0])) for name in ("a1", "a2", "a3", "b1", "b2", "c1")}  # type: ignore[arg-type]
    names = {id(waiter): name for name, waiter in waiters.items()}
    for waiter in waiters.values():
        turns.put(waiter)
    assert turns.of("a") == 3 and len(turns) == 6
    running: dict[str | None, int] = {"a": 0, "b": 0, "c": 2}
    order = []
    while (found := turns.next(running)) is not None:
        order.append(names[id(found)])
    assert order == ["a1", "b1", "a2", "b2", "a3", "c1"]
    turns.put(waiters["a1"])
    assert turns.remove(waiters["a1"]) and not turns.remove(waiters["a1"]) and len(turns) == 0


def test_a_client_with_many_queries_does_not_keep_another_waiting(tmp_path: Path) -> None:
    order: list[str] = []

    async def ask(pool: Pool, client: str) -> None:
        await whole(pool, "ASK {}", client=client)
        order.append(client)

    async def all_of_them(pool: Pool) -> None:
        held = pool.call(LONG, client="greedy")
        holding = asyncio.create_task(held.begin())
        while not pool.status()["busy"]:
            await asyncio.sleep(0.01)
        tasks = [asyncio.create_task(ask(pool, "greedy")) for _ in range(20)]
        await asyncio.sleep(0.05)
        tasks.append(asyncio.create_task(ask(pool, "modest")))
        await asyncio.sleep(0.05)
        held.cancel()
        await asyncio.gather(holding, *tasks, return_exceptions=True)

    with Pool(tmp_path, BASE, workers=1, spares=1) as pool:
        assert pool.ready(10)
        asyncio.run(all_of_them(pool))
    assert order.index("modest") <= 1


def test_a_refusal_says_what_is_full_and_when_to_come_again(tmp_path: Path) -> None:
    async def refused(pool: Pool, client: str) -> PoolBusy:
        with pytest.raises(PoolBusy) as found:
            await whole(pool, "ASK {}", client=client)
        return found.value

    async def fill(pool: Pool) -> list[PoolBusy]:
        def held(client: str) -> asyncio.Task[Answer]:
            return asyncio.create_task(pool.call(LONG, client=client).begin())

        tasks = [held("a"), held("a"), held("a")]
        while pool.status()["waiting"] < 2:
            await asyncio.sleep(0.01)
        mine = await refused(pool, "a")
        tasks.append(held("b"))
        while pool.status()["waiting"] < 3:
            await asyncio.sleep(0.01)
        everybodys = await refused(pool, "c")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert pool.status()["waiting"] == 0
        return [mine, everybodys]

    with Pool(tmp_path, BASE, workers=1, spares=0, queue=3, per_client=3) as pool:
        assert pool.ready(10)
        found = asyncio.run(fill(pool))
        assert [each.which for each in found] == ["client", "queue"]
        assert all(1 <= each.retry_after <= 60 for each in found)
        assert settled(lambda: pool.status()["workers"] == 1)
        assert asyncio.run(whole(pool, "ASK {}", format="csv", client="c")) == b"true"


def test_a_query_that_waits_is_cancelled_without_a_worker(pool: Pool) -> None:
    async def ask() -> str:
        held = [asyncio.create_task(pool.call(LONG).begin()) for _ in range(2)]
        while pool.status()["busy"] < 2:
            await asyncio.sleep(0.01)
        call = pool.call("ASK {}")
        waiting = asyncio.create_task(call.begin())
        while not pool.status()["waiting"]:
            await asyncio.sleep(0.01)
        assert {each.state for each in pool.running()} == {"running", "waiting"}
        assert pool.cancel(call.id)
        with pytest.raises(QueryCancelled) as found:
            await waiting
        for task in held:
            task.cancel()
        await asyncio.gather(*held, return_exceptions=True)
        return str(found.value)

    assert asyncio.run(ask()) == "The query was cancelled by its id."
    assert pool.running() == []
