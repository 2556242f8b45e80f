"""Queries on real stores: whole commits, the newest one, and an end to every runaway."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest
from pyoxigraph import RdfFormat, parse

from sparql.log import Change, read_head
from sparql.query.pool import (
    HAS_MEMORY_CAP,
    NotAcceptable,
    Pool,
    PoolBusy,
    QueryCancelled,
    QueryError,
    QueryFailed,
    QueryTimeout,
    QueryTooLarge,
    WorkerLost,
)
from sparql.query.replica import Replica
from sparql.store import Store, open_store

BASE = "https://e.example/"
TEN = "{ 0 1 2 3 4 5 6 7 8 9 }"


def rows(digits: int) -> str:
    """A query with 10^digits rows over no data."""
    return "SELECT * { " + " ".join(f"VALUES ?v{n} {TEN}" for n in range(digits)) + " }"


def fact(subject: str, predicate: str, value: str) -> str:
    return f'<{BASE}{subject}> <{BASE}{predicate}> "{value}"'


def add(store: Store, *statements: str, remove: tuple[str, ...] = ()) -> int:
    return store.commit(Change({"": frozenset(remove)}, {"": frozenset(statements)})).id


def value(pool: Pool, query: str) -> str:
    return pool.run(query, format="csv").read().decode().split("\r\n")[1]


def settled(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if condition():
            return True
        time.sleep(0.02)
    return False


def zygote(pool: Pool) -> psutil.Process:
    assert pool._supply.zygote is not None
    return psutil.Process(pool._supply.zygote.pid)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    """A pool over an empty folder: no store was ever made in it."""
    with Pool(tmp_path_factory.mktemp("plain"), BASE, prefixes={"e": BASE}, deadline=20) as pool:
        yield pool


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / ".graphtide", BASE) as found:
        yield found


def test_where_nothing_was_ever_committed_an_empty_graph_is_served(plain: Pool) -> None:
    answer = plain.run("SELECT ?s WHERE { ?s ?p ?o }")
    assert json.loads(answer.read()) == {"head": {"vars": ["s"]}, "results": {"bindings": []}}
    assert (answer.epoch, answer.commit_time, answer.kind, answer.columns) == (0, "", "rows", ["s"])


def test_every_format_of_rows_says_the_same(plain: Pool) -> None:
    query = 'SELECT ?a ?b { VALUES (?a ?b) { (e:x "1,\\"q\\"\\n2") (UNDEF "é"@fr) } }'
    expected = [(BASE + "x", '1,"q"\n2'), ("", "é")]
    found = json.loads(plain.run(query, format="json").read())["results"]["bindings"]
    assert [tuple(row.get(name, {"value": ""})["value"] for name in "ab") for row in found] == expected
    table = list(csv.reader(io.StringIO(plain.run(query, format="csv").read().decode(), newline="")))
    assert table == [["a", "b"], *map(list, expected)]
    lines = plain.run(query, format="tsv").read().decode().splitlines()
    assert lines == ["?a\t?b", f'<{BASE}x>\t"1,\\"q\\"\\n2"', '\t"é"@fr']
    space = "{http://www.w3.org/2005/sparql-results#}"
    tree = ElementTree.fromstring(plain.run(query, format="xml").read())
    cells = [
        {each.get("name"): "".join(each.itertext()) for each in result.iter(f"{space}binding")}
        for result in tree.iter(f"{space}result")
    ]
    assert [(row.get("a", ""), row["b"]) for row in cells] == expected


def test_every_format_of_triples_says_the_same(plain: Pool) -> None:
    query = 'CONSTRUCT { e:s e:p "é\\n"@fr, 7, e:o } WHERE {}'
    forms = {
        "turtle": RdfFormat.TURTLE,
        "ntriples": RdfFormat.N_TRIPLES,
        "jsonld": RdfFormat.JSON_LD,
        "trig": RdfFormat.TRIG,
        "rdfxml": RdfFormat.RDF_XML,
    }
    found = {
        name: {q.triple for q in parse(plain.run(query, format=name).read(), form)} for name, form in forms.items()
    }
    assert len(found["turtle"]) == 3
    assert all(each == found["turtle"] for each in found.values())


def test_turtle_declares_the_projects_prefixes_and_the_querys_own(plain: Pool) -> None:
    text = plain.run("PREFIX f: <https://f.example/> CONSTRUCT { e:s f:p f:o } {}", format="turtle").read().decode()
    assert "@prefix e: <https://e.example/>" in text
    assert "e:s f:p f:o" in text


def test_ask_is_answered_yes_or_no_in_each_format(plain: Pool) -> None:
    for name, said in (("json", b'"boolean":true'), ("csv", b"true"), ("tsv", b"true"), ("xml", b">true<")):
        assert said in plain.run("ASK {}", format=name).read()


def test_a_format_that_does_not_fit_the_answer_lists_what_does(plain: Pool) -> None:
    with pytest.raises(NotAcceptable, match="text/csv"):
        plain.run("ASK {}", format="turtle")
    with pytest.raises(NotAcceptable, match="text/turtle"):
        plain.run("CONSTRUCT WHERE { ?s ?p ?o }", format="csv")


def test_an_error_in_the_text_has_line_and_column(plain: Pool) -> None:
    with pytest.raises(QueryError) as found:
        plain.run("SELECT * {\n  ?s nope:x ?o }")
    assert (found.value.line, found.value.column) == (2, 6)


@pytest.mark.parametrize(
    "query",
    [
        "INSERT DATA { <a:> <b:> <c:> }",
        "DELETE WHERE { ?s ?p ?o }",
        "LOAD <http://127.0.0.1/x>",
        "SELECT * { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }",
    ],
)
def test_the_query_path_neither_writes_nor_calls_out(plain: Pool, query: str) -> None:
    with pytest.raises(QueryError):
        plain.run(query)


def test_workers_have_no_network_where_it_can_be_taken(plain: Pool) -> None:
    assert plain.ready(10)
    if plain.network:
        pytest.skip("this system does not let us take the network away")
    with open(f"/proc/{plain.status()['pids'][0]}/net/dev") as file:
        names = [line.split(":")[0].strip() for line in file if ":" in line]
    assert names == ["lo"]


def test_a_query_costs_little_more_than_itself(plain: Pool) -> None:
    plain.run("ASK {}").read()
    took = []
    for _ in range(100):
        began = time.perf_counter()
        plain.run("ASK {}").read()
        took.append(time.perf_counter() - began)
    assert sorted(took)[50] < 0.01  # 0.4 ms on an idle machine; the bound allows for a busy one


def test_a_query_after_a_commit_sees_it(store: Store) -> None:
    add(store, fact("a", "n", "0"))
    store.checkpoint()
    with Pool(store.state, BASE) as pool:
        for n in range(1, 40):
            entry = store.commit(
                Change({"": frozenset({fact("a", "n", str(n - 1))})}, {"": frozenset({fact("a", "n", str(n))})})
            )
            answer = pool.run(f"SELECT ?n {{ <{BASE}a> <{BASE}n> ?n }}", format="csv")
            assert answer.read() == f"n\r\n{n}\r\n".encode()
            assert (answer.epoch, answer.commit_time) == (entry.id, entry.time)


def test_a_query_does_not_wait_for_commits_made_after_it_was_asked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(store, fact("a", "n", "0"))
    store.checkpoint()
    (tmp_path / "replica").mkdir()
    replica = Replica(store.state, tmp_path / "replica")
    asked = add(store, fact("a", "n", "1"))
    apply = Change.apply

    def busy(change: Change, graph: Any, last: str = "") -> None:
        monkeypatch.setattr(Change, "apply", apply)
        add(store, fact("a", "n", str(store.head)))  # another one by the time this one is read
        monkeypatch.setattr(Change, "apply", busy)
        apply(change, graph, last)

    monkeypatch.setattr(Change, "apply", busy)
    replica.advance()
    assert replica.epoch == asked


def test_a_query_sees_whole_commits_only(store: Store) -> None:
    names = [f"x{n}" for n in range(50)]
    add(store, *(fact(name, "n", "0") for name in names))
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            before, n = n, n + 1
            add(
                store,
                *(fact(name, "n", str(n)) for name in names),
                remove=tuple(fact(name, "n", str(before)) for name in names),
            )
            # Without a pause two workers on a busy machine fall behind further than they can catch up.
            time.sleep(0.002)

    writer = threading.Thread(target=write)
    with Pool(store.state, BASE, workers=2) as pool:
        writer.start()
        try:
            seen = []
            for _ in range(150):
                found = pool.run(f"SELECT ?n (COUNT(*) AS ?c) {{ ?s <{BASE}n> ?n }} GROUP BY ?n", format="csv").read()
                (row,) = found.decode().split("\r\n")[1:-1]
                number, count = row.split(",")
                assert count == "50"
                seen.append(int(number))
        finally:
            stop.set()
            writer.join()
    assert seen == sorted(seen) and seen[-1] > seen[0]


def test_a_worker_follows_checkpoint_load_and_erasure(store: Store) -> None:
    count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    with Pool(store.state, BASE, workers=1, spares=0) as pool:
        assert value(pool, count) == "0"
        store.build([b"".join(f"{fact(f's{n}', 'p', 'v')} .\n".encode() for n in range(500))])
        assert value(pool, count) == "500"
        add(store, fact("t", "p", "v"))
        store.checkpoint()
        assert value(pool, count) == "501"
        store.erase_history()
        add(store, fact("u", "p", "v"))
        assert value(pool, count) == "502"


def test_what_was_erased_is_soon_in_no_workers_files(store: Store) -> None:
    def holds(secret: bytes) -> bool:
        found = False
        for path in (store.state / "workers").rglob("*"):
            with contextlib.suppress(OSError):  # a file may go while we look
                found = found or (path.is_file() and secret in path.read_bytes())
        return found

    add(store, fact("a", "p", "secret-7f3a"))
    store.checkpoint()
    with Pool(store.state, BASE, workers=1, spares=1) as pool:
        assert settled(lambda: pool.status()["workers"] == 2)
        add(store, fact("b", "p", "later"))
        assert value(pool, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }") == "2"
        assert holds(b"secret-7f3a")
        add(store, remove=(fact("a", "p", "secret-7f3a"),))
        store.erase_history()
        assert settled(lambda: not holds(b"secret-7f3a"), 5)
        assert value(pool, "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }") == "1"


def test_a_function_nobody_knows_is_an_error_of_the_query(plain: Pool) -> None:
    with pytest.raises(QueryError, match="custom function <https://e.example/f>"):
        plain.run("SELECT (e:f(1) AS ?x) {}").read()


def test_only_the_named_graphs_of_the_request_are_asked(store: Store) -> None:
    one, two = BASE + "g/1", BASE + "g/2"
    store.commit(
        Change(
            {},
            {
                "": frozenset({fact("d", "p", "d")}),
                one: frozenset({fact("a", "p", "1")}),
                two: frozenset({fact("b", "p", "2")}),
            },
        )
    )
    everything = f"SELECT ?o {{ {{ ?s <{BASE}p> ?o }} UNION {{ GRAPH ?g {{ ?s <{BASE}p> ?o }} }} }} ORDER BY ?o"
    with Pool(store.state, BASE) as pool:
        asked = {
            "both": pool.run(everything, format="csv", default_graphs=[one], named_graphs=[two]).read(),
            "default": pool.run(everything, format="csv", default_graphs=[one, two]).read(),
            "named": pool.run(everything, format="csv", named_graphs=[two]).read(),
            "none": pool.run(everything, format="csv").read(),
        }
    assert {key: found.decode().split()[1:] for key, found in asked.items()} == {
        "both": ["1", "2"],
        "default": ["1", "2"],
        "named": ["2"],
        "none": ["1", "2", "d"],
    }


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph of 3,000 statements in which everything reaches everything."""
    state = tmp_path_factory.mktemp("linked") / ".graphtide"
    with open_store(state, BASE) as store:
        store.build(
            [
                "".join(f"<{BASE}n/{n}> <{BASE}to> <{BASE}n/{(n * 7 + m) % 1000}> .\n" for m in range(3)).encode()
                for n in range(1000)
            ]
        )
    return state


@pytest.mark.parametrize(
    "query",
    [
        "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }",
        "SELECT * { ?a ?b ?c . ?d ?e ?f } ORDER BY ?c ?f ?a",
        "SELECT * { ?a (e:to|!e:to)* ?b . ?b (e:to|!e:to)* ?c } ORDER BY ?c",
        "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }",
    ],
    ids=["cross join", "order by everything", "any path", "endless rows"],
)
def test_a_runaway_query_is_stopped_while_others_answer(linked: Path, query: str) -> None:
    with Pool(linked, BASE, workers=2, spares=1, prefixes={"e": BASE}, memory_bytes=2**32) as pool:
        value(pool, "SELECT (1 AS ?one) {}")
        ended: list[tuple[float, BaseException | None]] = []

        def runaway() -> None:
            began = time.monotonic()
            failure: BaseException | None = None
            try:
                for _ in pool.run(query, deadline=0.8):
                    pass
            except QueryFailed as wrong:
                failure = wrong
            ended.append((time.monotonic() - began, failure))

        thread = threading.Thread(target=runaway)
        thread.start()
        answered = 0
        while thread.is_alive():
            assert value(pool, "SELECT (COUNT(*) AS ?n) { ?s e:to ?o }") == "3000"
            answered += 1
        thread.join()
        ((seconds, failure),) = ended
        assert isinstance(failure, QueryTimeout) and "0.8 s" in str(failure)
        assert seconds < 2.5 and answered > 5


def test_an_answer_nobody_reads_on_does_not_hold_its_worker_past_the_deadline(plain: Pool) -> None:
    answer = plain.run(rows(7), format="csv", deadline=0.5)
    assert answer.chunk()
    assert plain.status()["busy"] == 1
    assert settled(lambda: plain.status()["busy"] == 0, 3)
    with pytest.raises(QueryTimeout):
        for _ in answer:
            pass


@pytest.mark.skipif(not HAS_MEMORY_CAP, reason="this system has no memory cap")
def test_a_query_that_takes_too_much_memory_is_stopped_and_says_so(tmp_path: Path) -> None:
    with Pool(tmp_path, BASE, memory_bytes=64 * 2**20, workers=1, spares=1) as pool:
        began = time.monotonic()
        with pytest.raises(QueryTooLarge, match="64 MiB"):
            pool.run(rows(7) + " ORDER BY ?v1 ?v0").read()
        assert time.monotonic() - began < 10
        assert pool.run("ASK {}", format="csv").read() == b"true"


@pytest.mark.parametrize(
    "query",
    ["SELECT * {" + "{" * 100_000 + "}" * 100_000 + "}", "SELECT (1" + "+1" * 100_000 + " AS ?x) {}"],
    ids=["nested", "long"],
)
def test_a_query_that_would_crash_the_engine_is_refused_and_harms_no_other_if_it_is_not(
    plain: Pool, query: str
) -> None:
    with pytest.raises(QueryError, match=r"limit: (depth|links)"):
        plain.run(query)
    with pytest.raises(QueryTooLarge, match="nested too deeply"):
        plain.run(query, admitted=True)  # as if what bounds the text had let it through
    assert plain.run("ASK {}", format="csv").read() == b"true"


def test_a_prefix_that_is_no_iri_is_refused_by_the_pool_and_a_relative_one_is_resolved(
    plain: Pool, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="'nope', which is not an absolute IRI"):
        Pool(tmp_path, BASE, prefixes={"x": "nope"})
    text = plain.run("PREFIX r: <relative/> CONSTRUCT { e:s e:p r:o } {}", format="turtle").read().decode()
    assert "@prefix r: <https://e.example/relative/>" in text and "e:s e:p r:o" in text


def test_a_cancelled_query_is_over_at_once(plain: Pool) -> None:
    call = plain.call("SELECT (COUNT(*) AS ?n) {" + rows(8)[9:] + " }", format="csv")
    threading.Timer(0.2, call.cancel).start()
    began = time.monotonic()
    with pytest.raises(QueryCancelled):
        call.answer()
    assert time.monotonic() - began < 3


def test_a_full_queue_says_busy_and_a_waiting_query_is_served_in_turn(tmp_path: Path) -> None:
    with Pool(tmp_path, BASE, workers=1, spares=1, queue=2) as pool:
        assert pool.ready(10)
        held = pool.run(rows(7), format="csv", deadline=10)
        order: list[int] = []

        def wait(n: int) -> None:
            pool.run("ASK {}").read()
            order.append(n)

        threads = []
        for n in range(2):
            threads.append(threading.Thread(target=wait, args=(n,)))
            threads[-1].start()
            assert settled(lambda n=n: pool.status()["waiting"] == n + 1)
        with pytest.raises(PoolBusy, match="2 wait"):
            pool.run("ASK {}")
        held.close()
        for thread in threads:
            thread.join(10)
        assert order == [0, 1]


def test_a_query_whose_worker_is_killed_is_told_and_the_next_is_fine(plain: Pool) -> None:
    answer = plain.run(rows(7), format="csv")
    (pid,) = plain._busy
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(WorkerLost, match="SIGKILL"):
        for _ in answer:
            pass
    assert plain.run("ASK {}", format="csv").read() == b"true"


def test_idle_workers_that_die_are_replaced_unseen(plain: Pool) -> None:
    assert settled(lambda: plain.status()["workers"] == 3)
    for pid in plain.status()["pids"]:
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.05)
    assert plain.run("ASK {}", format="csv").read() == b"true"


def test_a_lost_zygote_is_replaced(tmp_path: Path) -> None:
    with Pool(tmp_path, BASE) as pool:
        pool.run("ASK {}").read()
        workers = [psutil.Process(pid) for pid in pool.status()["pids"]]
        zygote(pool).kill()
        assert psutil.wait_procs(workers, 5)[1] == []
        assert settled(lambda: pool.status()["workers"] == 3)
        assert pool.run("ASK {}", format="csv").read() == b"true"


def test_fifty_killed_workers_leave_no_process_and_no_folder(tmp_path: Path) -> None:
    with Pool(tmp_path, BASE, workers=2, spares=2) as pool:
        parent, killed = None, 0
        while killed < 50:
            for pid in pool.status()["pids"][: 50 - killed]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                killed += 1
            assert pool.run("ASK {}", format="csv").read() == b"true"
            time.sleep(0.03)
        parent = zygote(pool)
        assert settled(lambda: len(parent.children()) == 4 and pool.status()["workers"] == 4)
        (home,) = [path for path in (tmp_path / "workers").iterdir() if path.is_dir()]
        assert settled(lambda: len(list(home.iterdir())) == 4)
    assert list((tmp_path / "workers").iterdir()) == []
    assert not parent.is_running()


def test_what_a_killed_pool_left_is_removed_and_what_lives_is_not(tmp_path: Path) -> None:
    left = tmp_path / "workers" / "4711-dead"
    left.mkdir(parents=True)
    (left / "1").mkdir()
    left.with_suffix(".lock").touch()
    with Pool(tmp_path, BASE) as living:
        living.run("ASK {}").read()
        assert not left.exists() and not left.with_suffix(".lock").exists()
        with Pool(tmp_path, BASE) as second:
            second.run("ASK {}").read()
        assert living.run("ASK {}", format="csv").read() == b"true"
        assert settled(lambda: living.status()["workers"] == 3)
    assert list((tmp_path / "workers").iterdir()) == []


def test_a_closed_pool_refuses_and_a_waiting_query_hears_of_it(tmp_path: Path) -> None:
    pool = Pool(tmp_path, BASE, workers=1, spares=0).start()
    held = pool.run(rows(7), format="csv")
    heard: list[Exception] = []

    def wait() -> None:
        try:
            pool.run("ASK {}")
        except QueryFailed as wrong:
            heard.append(wrong)

    thread = threading.Thread(target=wait)
    thread.start()
    assert settled(lambda: pool.status()["waiting"] == 1)
    pool.close()
    thread.join(5)
    assert [type(each) for each in heard] == [PoolBusy]
    with pytest.raises(QueryFailed):
        held.read()
    with pytest.raises(PoolBusy):
        pool.run("ASK {}")


@pytest.mark.soak
def test_workers_killed_at_random_under_load_never_give_a_wrong_answer(store: Store) -> None:
    names = [f"x{n}" for n in range(20)]
    add(store, *(fact(name, "n", "0") for name in names))
    store.checkpoint()
    stop, wrong, answered = threading.Event(), [], [0]

    def write() -> None:
        n = 0
        while not stop.wait(0.02):
            before, n = n, n + 1
            add(
                store,
                *(fact(name, "n", str(n)) for name in names),
                remove=tuple(fact(name, "n", str(before)) for name in names),
            )
            if n % 100 == 0:
                store.checkpoint()
                store.retain()

    def ask(pool: Pool) -> None:
        while not stop.is_set():
            head = read_head(store.state)
            try:
                answer = pool.run(
                    f"SELECT (COUNT(DISTINCT ?n) AS ?d) (COUNT(*) AS ?c) {{ ?s <{BASE}n> ?n }}", format="csv"
                )
                found = answer.read()
            except WorkerLost:
                continue
            except BaseException as failure:
                wrong.append(failure)
                return
            answered[0] += 1
            if found != b"d,c\r\n1,20\r\n" or answer.epoch < head:
                wrong.append((found, answer.epoch, head))

    with Pool(store.state, BASE, workers=2, spares=2) as pool:
        threads = [threading.Thread(target=write), *(threading.Thread(target=ask, args=(pool,)) for _ in range(4))]
        for thread in threads:
            thread.start()
        killed, chance = 0, random.Random(7)
        while killed < 100 and not wrong:
            time.sleep(chance.uniform(0.01, 0.2))
            pids = pool.status()["pids"]
            if pids:
                try:
                    os.kill(chance.choice(pids), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []
    assert killed == 100 and answered[0] > 200
    shutil.rmtree(store.state / "workers")
