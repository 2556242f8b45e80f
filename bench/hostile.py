"""Queries that mean harm: they end at their deadline, others hardly notice, and nothing is left behind."""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from urllib.parse import urlencode

from bench.figure import Figure, percentile, ratios
from bench.query import free_port, serving
from sparql.query.pool import NotAcceptable, Pool, QueryFailed
from sparql.store import open_store

BASE = "https://bench.example/"
DIGITS = "{ 0 1 2 3 4 5 6 7 8 9 }"
NODES = 2_000
MODEST = f"SELECT ?o {{ <{BASE}n/17> <{BASE}to> ?m . ?m <{BASE}to> ?o }}"


def linked(state: Path, nodes: int = NODES) -> Path:
    """A graph in which everything reaches everything, with texts."""
    with open_store(state, BASE) as store:
        lines = []
        for n in range(nodes):
            lines += [f"<{BASE}n/{n}> <{BASE}to> <{BASE}n/{(n * 7 + step) % nodes}> .\n" for step in range(3)]
            lines.append(f'<{BASE}n/{n}> <{BASE}text> "{"a" * (n % 40)}{n}" .\n')
        store.build(["".join(lines).encode()])
        store.checkpoint()
    return state


def numbers(digits: int) -> str:
    """A pattern with 10^digits solutions."""
    return " ".join(f"VALUES ?v{n} {DIGITS}" for n in range(digits))


def cross_join(chance: random.Random) -> str:
    parts = [f"?s{n} ?p{n} ?o{n}" for n in range(chance.randint(3, 8))]
    return f"SELECT (COUNT(*) AS ?n) {{ {' . '.join(parts)} FILTER(?s0 != ?o1) }}"


def endless_rows(chance: random.Random) -> str:
    parts = [f"?s{n} ?p{n} ?o{n}" for n in range(chance.randint(2, 5))]
    return f"SELECT * {{ {' . '.join(parts)} }}"


def closure(chance: random.Random) -> str:
    path = chance.choice(["(e:to|!e:to)*", "(e:to/e:to)+", "(^e:to|e:to)*", "((e:to?)*)*", "(e:to/^e:to)*"])
    return f"PREFIX e: <{BASE}> SELECT (COUNT(*) AS ?n) {{ ?a {path} ?b . ?b {path} ?c . ?c {path} ?d }}"


def great_sort(chance: random.Random) -> str:
    return f"SELECT * {{ {numbers(chance.randint(7, 9))} }} ORDER BY DESC(?v0 * 7 + ?v1) ?v{chance.randint(2, 5)}"


def regular_expression(chance: random.Random) -> str:
    pattern = chance.choice(["(a+)+$", "(a|aa)+b", "^(([a-z])+.)+[A-Z]([a-z])+$", "(.*)*x", "(a{1,30}){1,30}"])
    return (
        f"PREFIX e: <{BASE}> SELECT (COUNT(*) AS ?n) {{ ?a e:text ?x . ?b e:text ?y . ?c e:text ?z "
        f'FILTER(REGEX(CONCAT(?x, ?y, ?z), "{pattern}")) }}'
    )


def deep_nesting(chance: random.Random) -> str:
    depth = chance.choice([50, 90, 1_000, 20_000])
    return f"SELECT (COUNT(*) AS ?n) {{ {'{' * depth} ?a ?b ?c . ?d ?e ?f . ?g ?h ?i {'}' * depth} }}"


def long_expression(chance: random.Random) -> str:
    terms = " + ".join(f"?v{n % 9}" for n in range(chance.choice([50, 500, 20_000])))
    return f"SELECT (SUM({terms}) AS ?n) {{ {numbers(9)} }}"


def great_values(chance: random.Random) -> str:
    rows = " ".join(f"({n} {n * 3})" for n in range(chance.choice([1_000, 10_000])))
    return f"SELECT (COUNT(*) AS ?n) {{ VALUES (?a ?b) {{ {rows} }} VALUES (?c ?d) {{ {rows} }} ?s ?p ?o . ?t ?q ?r }}"


def concatenation(chance: random.Random) -> str:
    times = chance.randint(5, 40)
    doubled = "CONCAT(?x, ?x)"
    for _ in range(times):
        doubled = f"CONCAT({doubled}, ?x)"
    return f"SELECT (GROUP_CONCAT({doubled}) AS ?n) {{ BIND('{'x' * 500}' AS ?x) {numbers(7)} }}"


def growth(chance: random.Random) -> str:
    text = "?x"
    for _ in range(chance.randint(11, 14)):
        text = f'REPLACE({text}, ".", "$0$0$0$0")'
    return f"SELECT (STRLEN({text}) AS ?n) {{ VALUES ?x {{ 'abcdefghij' 'bcdefghijk' }} }}"


def explosion(chance: random.Random) -> str:
    triples = " . ".join(f"?s{n} ?p{n % 3} ?o{n % 2}" for n in range(chance.randint(3, 9)))
    return f"CONSTRUCT {{ {triples} }} WHERE {{ {' . '.join(f'?s{n} ?p{n} ?o{n}' for n in range(4))} }}"


def calls_out(chance: random.Random) -> str:
    return f"SELECT * {{ ?a ?b ?c SERVICE <http://127.0.0.1:{chance.randint(1, 9999)}/> {{ ?a ?b ?d }} }}"


def long_list(chance: random.Random) -> str:
    listed = ", ".join(str(n) for n in range(chance.choice([1_000, 20_000])))
    return f"SELECT (COUNT(*) AS ?n) {{ {numbers(8)} FILTER(?v0 * 1000000 + ?v1 NOT IN ({listed}) ) }}"


def tower(chance: random.Random) -> str:
    inner = "?a ?b ?c . ?d ?e ?f"
    for n in range(chance.randint(4, 12)):
        inner = (
            f"{{ SELECT ?a ?d (COUNT(*) AS ?n{n}) {{ {inner} . ?x{n} ?y{n} ?z{n} }} GROUP BY ?a ?d }} ?a ?w{n} ?u{n}"
        )
    return f"SELECT * {{ {inner} }}"


def optionals(chance: random.Random) -> str:
    parts = " ".join(f"OPTIONAL {{ ?a ?p{n} ?o{n} . ?o{n} ?q{n} ?r{n} }}" for n in range(chance.randint(4, 12)))
    return f"SELECT (COUNT(*) AS ?n) {{ ?a ?b ?c {parts} }}"


def negation(chance: random.Random) -> str:
    return (
        "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . "
        f"FILTER NOT EXISTS {{ ?c ?g ?h . ?h ?i ?j . FILTER(?j = ?f && ?h != <{BASE}n/{chance.randint(0, 999)}>) }} }}"
    )


KINDS: tuple[Callable[[random.Random], str], ...] = (
    cross_join, endless_rows, closure, great_sort, regular_expression, deep_nesting, long_expression, great_values,
    concatenation, growth, explosion, calls_out, long_list, tower, optionals, negation,
)  # fmt: skip


def queries(count: int = 200, seed: int = 3) -> list[tuple[str, str]]:
    """(kind, text) of so many hostile queries, each kind as often."""
    chance = random.Random(seed)
    return [(KINDS[n % len(KINDS)].__name__, KINDS[n % len(KINDS)](chance)) for n in range(count)]


def spent(pool: Pool, query: str, deadline: float) -> tuple[float, str]:
    """(seconds until it ended, how): every byte of the answer is taken."""
    began = time.monotonic()
    how = "answered"
    try:
        for _ in pool.run(query, format={"rows": "csv", "boolean": "csv", "triples": "ntriples"}, deadline=deadline,
                          client="hostile"):  # fmt: skip
            pass
    except (QueryFailed, NotAcceptable) as wrong:
        how = type(wrong).__name__
    return time.monotonic() - began, how


def overshoot(pool: Pool, asked: list[tuple[str, str]], deadline: float, clients: int = 1) -> dict[str, list[float]]:
    """For each way to end, the seconds past the deadline; `clients` ask at a time."""
    found: dict[str, list[float]] = {}
    left: Iterator[tuple[str, str]] = iter(asked)
    lock = threading.Lock()

    def ask() -> None:
        while True:
            with lock:
                kind, query = next(left, ("", ""))
            if not kind:
                return
            took, how = spent(pool, query, deadline)
            with lock:
                found.setdefault(how, []).append(took - deadline)

    threads = [threading.Thread(target=ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


class Bystander:
    """A client that goes on asking something small; `times` are its milliseconds."""

    def __init__(self, pool: Pool) -> None:
        self._pool, self.times, self.refused = pool, list[float](), 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _ask(self) -> None:
        while not self._stop.is_set():
            began = time.perf_counter()
            try:
                assert self._pool.run(MODEST, format="csv", client="modest").read().count(b"\r\n") == 10
                self.times.append((time.perf_counter() - began) * 1e3)
            except QueryFailed:
                self.refused += 1
            self._stop.wait(0.005)


def resident() -> float:
    """MB this process holds."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
    return 0.0


def asked_over_http(port: int, asked: list[tuple[str, str]], deadline: float, late: Queue[list[float]]) -> None:
    """Puts the seconds past the deadline of each query, from its request to the end of its body, whole or cut."""
    found = []
    for _, query in asked:
        connection = HTTPConnection("127.0.0.1", port, timeout=60)
        body = urlencode({"query": query, "timeout": deadline, "format": "csv" if "CONSTRUCT" not in query else "nt"})
        began = time.monotonic()
        with suppress(HTTPException, ConnectionError):
            connection.request("POST", "/sparql", body, {"Content-Type": "application/x-www-form-urlencoded"})
            answer = connection.getresponse()
            while answer.read1(2**18):
                pass
        found.append(time.monotonic() - began - deadline)
        connection.close()
    late.put(found)


def beside_over_http(port: int, stop: Event, times: Queue[list[float]]) -> None:
    """Puts the milliseconds of a small query, asked again and again from another address until it is told to stop."""
    found = []
    connection = HTTPConnection("127.0.0.1", port, timeout=60, source_address=("127.0.0.2", 0))
    number = 0
    while not stop.wait(0.005):
        number += 1  # another text each time, for an answer that is kept says nothing
        began = time.perf_counter()
        connection.request("GET", "/sparql?" + urlencode({"query": f"{MODEST} #{number}", "format": "csv"}))
        answer = connection.getresponse()
        assert answer.read().count(b"\r\n") == 10 and answer.status == 200
        found.append((time.perf_counter() - began) * 1e3)
    times.put(found)


def round_over_http(port: int, clients: int, deadline: float) -> tuple[list[float], list[float]]:
    """(seconds past the deadline of every hostile query, milliseconds of each small one beside them)."""
    late: Queue[list[float]] = multiprocessing.Queue()
    times: Queue[list[float]] = multiprocessing.Queue()
    stop = multiprocessing.Event()
    asked = queries()
    modest = multiprocessing.Process(target=beside_over_http, args=(port, stop, times))
    modest.start()
    hostile = [
        multiprocessing.Process(target=asked_over_http, args=(port, asked[n::clients], deadline, late))
        for n in range(clients)
    ]
    for one in hostile:
        one.start()
    if not hostile:
        time.sleep(5)
    found = [each for _ in hostile for each in late.get(timeout=900)]
    stop.set()
    beside = times.get(timeout=60)
    for one in (modest, *hostile):
        one.join()
    return found, beside


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """How long past their deadline hostile queries end over HTTP, and what a modest client notices."""
    late, calm, harried = [], [], []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        folder = Path(scratch)
        (folder / "graphtide.toml").write_text(f'base = "{BASE}"\n[limits]\nspares = 2\n')
        linked(folder / ".graphtide")
        port = free_port()
        command = [sys.executable, "-m", "graphtide", "serve", "--dir", str(folder), "--port", str(port)]
        with serving(command, port, "/sparql?query=ASK%20%7B%7D"):
            time.sleep(3)
            for _ in range(rounds):
                calm.append(percentile(round_over_http(port, 0, 1.0)[1], 0.95))
                found, beside = round_over_http(port, 2, 1.0)
                late.append(max(0.0, percentile(found, 0.99) * 1e3))
                harried.append(percentile(beside, 0.95))
    return [
        Figure("200 hostile queries, past their deadline of 1 s, p99", "ms", tuple(late), aim=100),
        Figure("a modest client alone, p95", "ms", tuple(calm)),
        Figure("a modest client beside two hostile ones, p95", "ms", tuple(harried)),
        ratios("a modest client beside two hostile ones, p95 / alone", harried, calm, aim=2),
    ]
