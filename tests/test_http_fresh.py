"""An answer is good until a commit touches what its query read: neither a commit less nor one more."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sparql.log import Change
from sparql.server.cache import Cache, Kept
from sparql.server.fresh import MOST, Fresh, Last
from sparql.server.reading import Readings
from sparql.store import Store, open_store
from tests.served import Reply, Served, get, hear, serve, talk, until

BASE = "https://fresh.example/"
P, Q, G, H = (f"{BASE}{name}" for name in "pqgh")
ON_P = f"SELECT ?s ?o {{ ?s <{P}> ?o }} ORDER BY ?s ?o"
ON_Q = f"SELECT ?s ?o {{ ?s <{Q}> ?o }} ORDER BY ?s ?o"
IN_G = f"SELECT ?s ?o {{ GRAPH <{G}> {{ ?s <{P}> ?o }} }} ORDER BY ?s ?o"


def said(predicate: str, value: object, graph: str = "") -> Change:
    return Change({}, {graph: frozenset({f'<{BASE}s> <{predicate}> "{value}"'})})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("fresh") / ".graphtide", BASE) as found:
        found.commit(said(P, 0))
        found.commit(said(P, 0, G))
        found.checkpoint()
        yield found


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[Served]:
    with serve(store.state, BASE, workers=2) as found:
        ask(found, "ASK {}")
        yield found


def ask(server: Served, query: str, more: str = "", **headers: str) -> Reply:
    return talk(server.port, get(server.port, query, more=more, **headers))


def again(server: Served, query: str, before: Reply) -> Reply:
    """The same query of a client that has an answer."""
    return ask(server, query, If_None_Match=before.headers["etag"])


def count(reply: Reply) -> int:
    return len(json.loads(reply.body)["results"]["bindings"])


def test_a_commit_that_touches_nothing_of_a_query_leaves_its_answer_as_it_was(server: Served, store: Store) -> None:
    before = ask(server, ON_P)
    entry = store.commit(said(Q, 1))
    found, same = ask(server, ON_P), again(server, ON_P, before)
    assert found.headers["etag"] == before.headers["etag"] and found.headers["x-graphtide-cache"] == "hit"
    assert same.status == 304
    for reply in (found, same):  # and it holds at the newest commit
        assert reply.headers["x-graphtide-epoch"] == str(entry.id)
        assert reply.headers["x-graphtide-commit-time"] == entry.time


def test_a_commit_that_touches_what_a_query_reads_makes_its_answer_another(server: Served, store: Store) -> None:
    before = ask(server, ON_P)
    assert again(server, ON_P, before).status == 304
    store.commit(said(P, "new"))
    found = again(server, ON_P, before)
    assert found.status == 200 and found.headers["etag"] != before.headers["etag"]
    assert count(found) == count(before) + 1
    store.commit(Change({"": frozenset({f'<{BASE}s> <{P}> "new"'})}, {}))
    assert again(server, ON_P, found).status == 200


def test_a_named_graph_is_touched_by_graph_and_by_predicate(server: Served, store: Store) -> None:
    before = ask(server, IN_G)
    store.commit(said(P, 1))  # the predicate, elsewhere
    assert again(server, IN_G, before).status == 304
    store.commit(said(P, 2, H))  # the predicate, in another graph
    assert again(server, IN_G, before).status == 304
    store.commit(said(P, 3, G))
    found = ask(server, IN_G)
    assert found.headers["etag"] != before.headers["etag"] and found.body != before.body


def test_the_dataset_of_the_request_counts_and_not_the_default_graph(server: Served, store: Store) -> None:
    more = f"&default-graph-uri={quote(G)}"
    before = ask(server, ON_P, more)
    store.commit(said(P, 1))
    assert ask(server, ON_P, more, If_None_Match=before.headers["etag"]).status == 304
    store.commit(said(P, 2, G))
    assert ask(server, ON_P, more, If_None_Match=before.headers["etag"]).status == 200
    assert ask(server, ON_P).headers["etag"] != ask(server, ON_P, more).headers["etag"]


def test_a_description_is_of_the_default_graph_and_of_every_predicate(server: Served, store: Store) -> None:
    query, form = f"DESCRIBE <{BASE}s>", "&format=ntriples"
    before = ask(server, query, form)
    store.commit(said(P, "elsewhere", G))
    assert ask(server, query, form, If_None_Match=before.headers["etag"]).status == 304
    store.commit(said(f"{BASE}new", "here"))
    assert ask(server, query, form, If_None_Match=before.headers["etag"]).status == 200


@pytest.mark.parametrize("query", ["SELECT (NOW() AS ?n) {}", "SELECT (RAND() AS ?n) {}", "SELECT (UUID() AS ?n) {}"])
def test_an_answer_that_is_another_each_time_is_kept_by_nobody(server: Served, query: str) -> None:
    first, second = ask(server, query), ask(server, query)
    assert first.body != second.body
    assert "etag" not in first.headers and first.headers["cache-control"] == "no-store"


def test_a_restart_keeps_what_clients_have(store: Store) -> None:
    with serve(store.state, BASE) as server:
        ask(server, ON_P)
        store.commit(said(Q, 1))
        before = ask(server, ON_P)
    store.commit(said(Q, 2))
    with serve(store.state, BASE) as restarted:
        assert again(restarted, ON_P, before).status == 304
        store.commit(said(P, 2))
        assert again(restarted, ON_P, before).status == 200


def test_a_restored_folder_confirms_nothing_that_another_history_said(tmp_path: Path) -> None:
    query, found = ON_P, []
    for folder, value in (("first", "a"), ("second", "b")):
        with open_store(tmp_path / folder / ".graphtide", BASE) as store:
            store.commit(said(P, "common"))
            with serve(store.state, BASE) as server:
                ask(server, query)
                store.commit(said(P, value))
                found.append(ask(server, query))
                if folder == "second":
                    assert again(server, query, found[0]).status == 200
    assert found[0].headers["x-graphtide-epoch"] == found[1].headers["x-graphtide-epoch"]


def test_where_the_log_has_a_gap_everything_counts_as_changed(tmp_path: Path) -> None:
    with open_store(tmp_path / ".graphtide", BASE) as store:
        store.commit(said(P, 0))
        store.commit(said(P, 1))
        fresh = Fresh(store.state)
        fresh.load()
        for n in range(3):
            store.commit(said(Q, n))
        fresh.follow()
    assert (fresh.at, fresh.touched({P})) == (5, 2) and fresh.touched({Q}) == 5
    for path in (store.state / "log").iterdir():
        path.unlink()
    (store.state / "log").joinpath(f"{8:020d}.rdfp").touch()
    behind = Fresh(store.state)
    behind.load()
    behind.stand = (3, "")
    behind.follow()
    assert behind.at == 5 and behind.touched({P}) == behind.touched({BASE + "never"}, named=True) == 5


def test_a_large_commit_counts_as_touching_everything_and_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparql.server.fresh.LONGEST_ENTRY", 5_000)
    with open_store(tmp_path / ".graphtide", BASE) as store:
        store.commit(said(P, 1))
        fresh = Fresh(store.state)
        fresh.load()
        store.commit(said(Q, 1))
        fresh.follow()
        assert fresh.touched({P}) == 1
        store.commit(Change({}, {"": frozenset(f'<{BASE}s> <{Q}> "{n}"' for n in range(200))}))
        store.commit(said(Q, "after"))
        fresh.follow()
        assert (fresh.at, fresh.touched({P})) == (4, 4)
        store.commit(said(Q, "later"))
        fresh.follow()
        assert (fresh.at, fresh.touched({P}), fresh.touched({Q})) == (5, 4, 5)


def test_what_is_remembered_of_a_graph_is_not_its_name(tmp_path: Path) -> None:
    with open_store(tmp_path / ".graphtide", BASE) as store:
        fresh = Fresh(store.state, tmp_path / "fresh.json")
        store.commit(said(P, 1, f"{BASE}record/people/ada"))
        fresh.load()
        store.commit(said(P, 2, f"{BASE}record/people/ada"))
        fresh.follow()
        fresh.close()
    assert "ada" not in (tmp_path / "fresh.json").read_text() and P in (tmp_path / "fresh.json").read_text()
    kept = Fresh(store.state, tmp_path / "fresh.json")
    kept.load()
    assert kept.touched({P}, default=(), named=True, graphs=[f"{BASE}record/people/ada"]) == 2


def test_what_is_forgotten_counts_as_touched_later_and_never_earlier() -> None:
    last = Last(3)
    for n in range(MOST + 10):
        last.put(f"p{n}", n + 10)
    assert last.of(["p0"]) == last.of(["never"]) == 19  # the newest that was forgotten
    assert last.of([f"p{MOST + 9}"]) == MOST + 19
    assert last.of([]) == 0


def test_an_epoch_pins_an_answer_and_it_may_be_kept(server: Served, store: Store) -> None:
    then = store.head
    store.commit(said(P, "later"))
    now, pinned = ask(server, ON_P), ask(server, ON_P, f"&epoch={then}")
    assert count(now) == count(pinned) + 1
    assert pinned.headers["x-graphtide-epoch"] == str(then) and "immutable" in pinned.headers["cache-control"]
    assert ask(server, ON_P, f"&epoch={then}", If_None_Match=pinned.headers["etag"]).status == 304
    assert pinned.headers["etag"] != now.headers["etag"]
    gone = ask(server, ON_P, "&epoch=0")
    assert gone.status in (200, 410)


def test_who_wrote_a_commit_reads_it_or_waits(server: Served, store: Store) -> None:
    following = store.head + 1
    threading.Timer(0.2, lambda: store.commit(said(P, "mine"))).start()
    found = ask(server, ON_P, f"&min-epoch={following}")
    assert found.status == 200 and int(found.headers["x-graphtide-epoch"]) >= following
    assert b"mine" in found.body


def test_of_identical_questions_at_one_time_one_is_asked(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    query = f"SELECT (COUNT(*) AS ?n) {{ {' '.join(f'VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}' for n in range(6))} }}"
    pool, asked = server.serving.pool, []
    call = pool.call

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return call(*arguments, **options)

    monkeypatch.setattr(pool, "call", counted)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: ask(server, query), range(8)))
    assert {one.status for one in found} == {200} and len({one.body for one in found}) == 1
    assert len(asked) == 1
    ask(server, "SELECT (UUID() AS ?n) {}")
    assert len(asked) == 2


def test_when_the_first_of_them_fails_the_next_is_asked_and_not_all(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = f"SELECT (COUNT(*) AS ?n) {{ {' '.join(f'VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}' for n in range(7))} }} # 3"
    pool, asked = server.serving.pool, []
    call = pool.call

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        return call(*arguments, **options)

    monkeypatch.setattr(pool, "call", counted)
    with ThreadPoolExecutor(8) as threads:
        hasty = threads.submit(ask, server, query, "&timeout=0.02")
        until(lambda: asked)
        found = list(threads.map(lambda _: ask(server, query), range(6)))
    assert hasty.result().status in (503, 504) and {one.status for one in found} == {200}
    assert len(asked) == 2


def test_a_client_that_goes_away_takes_nobodys_answer_with_it(server: Served) -> None:
    query = (
        f"SELECT (COUNT(*) AS ?n) {{ {' '.join(f'VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}' for n in range(6))} }} # again"
    )
    first = socket.create_connection(("127.0.0.1", server.port))
    first.sendall(get(server.port, query))
    until(lambda: server.serving.pool.status()["busy"])
    with ThreadPoolExecutor(2) as threads:
        second = threads.submit(ask, server, query)
        time.sleep(0.05)
        first.close()
        found = second.result(20)
    assert found.status == 200 and b"1000000" in found.body


def test_a_cache_holds_no_more_than_its_bytes() -> None:
    cache = Cache(100_000, 30_000)
    for n in range(100):
        cache.put(n, Kept(1, "rows", "csv", "text/csv", b"x" * 10_000), "q")
    assert cache.bytes <= 100_000 and 1 < len(cache) < 10
    assert cache.get(99, 1) is not None and cache.get(0, 1) is None and cache.get(99, 2) is None
    cache.put("long", Kept(1, "rows", "csv", "text/csv", b"x" * 30_001), "q")
    assert cache.get("long", 1) is None


QUERIES = (
    ON_P, ON_Q, IN_G,
    f"SELECT ?g ?s ?o {{ GRAPH ?g {{ ?s <{P}> ?o }} }} ORDER BY ?g ?s ?o",
    "SELECT ?s ?p ?o { ?s ?p ?o } ORDER BY ?s ?p ?o",
    f"SELECT ?g {{ GRAPH ?g {{}} FILTER(?g IN (<{G}>, <{H}>)) }} ORDER BY ?g",
    f"SELECT ?s ?o FROM <{G}> FROM <{H}> {{ ?s <{Q}> ?o }} ORDER BY ?s ?o",
    f"SELECT ?o {{ <{BASE}s> (<{P}>|<{Q}>)* ?o }} ORDER BY ?o",
    f"SELECT ?s {{ ?s !<{P}> ?o }} ORDER BY ?s",
    f"SELECT (COUNT(*) AS ?n) {{ ?s <{P}> ?o FILTER NOT EXISTS {{ GRAPH <{G}> {{ ?s <{Q}> ?o }} }} }}",
    f"ASK {{ ?s <{Q}> ?o }}",
)  # fmt: skip


def agree(store: Store, server: Served, steps: int, seed: int) -> int:
    """How many answers were 304s or kept ones; each was held against the store itself."""
    chosen = random.Random(seed)
    have: dict[str, Reply] = {}
    saved = 0
    for _ in range(steps):
        if chosen.random() < 0.4:
            graph, predicate = chosen.choice(("", "", G, H)), chosen.choice((P, Q))
            change = said(predicate, chosen.randrange(3), graph)
            store.commit(change if chosen.random() < 0.6 else Change(change.added, {}))
            continue
        query = chosen.choice(QUERIES)
        if query in have and chosen.random() < 0.6:
            found = again(server, query, have[query])
            if found.status == 304:
                found = have[query]
                saved += 1
        else:
            found = ask(server, query)
            saved += "x-graphtide-cache" in found.headers
        assert found.status == 200
        have[query] = found
        truth: Any = store.query(query)
        rows = json.loads(found.body)
        if "boolean" in rows:
            assert rows["boolean"] == bool(truth), query
            continue
        names = [variable.value for variable in truth.variables]
        expected = [[row[name].value if row[name] else None for name in names] for row in truth]
        cells = [[row.get(name, {}).get("value") for name in names] for row in rows["results"]["bindings"]]
        assert cells == expected, query
    return saved


def test_no_304_and_no_kept_answer_is_ever_wrong(server: Served, store: Store) -> None:
    assert agree(store, server, 250, 1) > 20


@pytest.mark.soak
def test_in_ten_thousand_steps_no_304_and_no_kept_answer_is_wrong(server: Served, store: Store) -> None:
    assert agree(store, server, 10_000, 2) > 1000


def test_a_text_known_but_for_its_constants_reads_the_same_as_when_it_is_parsed() -> None:
    shapes = (
        "SELECT ?o {{ <{a}> <{p}> ?o FILTER(?o > {n}) }}",
        "SELECT ?o {{ <{a}> e:{k} ?o . ?o <{p}> 'x{n}' }} LIMIT {n}",
        "PREFIX p: <{p}> SELECT ?o {{ ?s p:x ?o ; a <{a}> }}",
        "SELECT ?o {{ GRAPH <{a}> {{ ?s <{p}> ?o }} }}",
        "SELECT ?o FROM <{a}> {{ ?s <{p}> ?o }}",
        "SELECT ?o {{ <{a}> <{p}>* ?o . <{b}> <{q}> ?x }}",
        "SELECT ?o {{ ?o <{p}>? <{a}> }}",
        "SELECT (<{f}>(?x) AS ?y) {{ ?x <{p}> ?o }}",
        "ASK {{ ?s <{p}>/^<{q}> <{a}> # a comment <{b}> 'quote\n }}",
        'SELECT ?o {{ ?s <{p}> "a \'{n}\' \\" <{a}>" }}',
        "DESCRIBE <{a}>",
    )
    readings, chosen = Readings({"e": BASE}, BASE), random.Random(3)
    names = [f"{BASE}{letter}" for letter in "abcde"]
    for _ in range(600):
        values = {key: chosen.choice(names) for key in "abpq"}
        function = chosen.choice(["http://www.w3.org/2001/XMLSchema#integer", "https://f.example/x"])
        text = chosen.choice(shapes).format(**values, n=chosen.randrange(9), k=chosen.choice("abc"), f=function)
        assert readings.of(text) == Readings({"e": BASE}, BASE).of(text), text
    assert readings.parsed < 400


def quickest(server: Served, query: str, tag: str, count: int) -> list[float]:
    found = []
    with socket.create_connection(("127.0.0.1", server.port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            began = time.perf_counter()
            peer.sendall(get(server.port, query, If_None_Match=tag))
            assert hear(peer).status == 304
            found.append((time.perf_counter() - began) * 1000)
    return sorted(found)


def test_a_304_needs_no_worker(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = ask(server, ON_P).headers["etag"]
    monkeypatch.setattr(server.serving.pool, "call", None)
    assert len(quickest(server, ON_P, tag, 200)) == 200


@pytest.mark.soak
def test_a_304_takes_two_milliseconds_at_most(server: Served, store: Store) -> None:
    tag = ask(server, ON_P).headers["etag"]
    times = quickest(server, ON_P, tag, 1000)
    print(f"304: p50 {times[500]:.2f} ms, p99 {times[990]:.2f} ms")
    assert times[500] < 3 * 2.0
