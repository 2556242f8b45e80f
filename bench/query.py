"""What a query costs over HTTP through the worker pool, against `oxigraph serve` on the same data."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import load
from bench.figure import Figure, percentile, ratios
from bench.process import run

ROWS = 20_000
PREFIX = "PREFIX b: <https://bench.example/ns#> "
QUERIES = {
    "nothing": "ASK {}",
    "one row": PREFIX + "SELECT ?p ?o WHERE { <https://bench.example/row/123> ?p ?o }",
    "join": PREFIX + "SELECT ?a ?b WHERE { ?a b:c04 ?n . ?b b:c04 ?n . FILTER(?a != ?b) } LIMIT 50",
    "count": PREFIX + "SELECT (COUNT(*) AS ?n) WHERE { ?r b:c02 ?d FILTER(STRSTARTS(STR(?d), '2019-03')) }",
}
SECONDS, CLIENTS = 5.0, 4


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(command: list[str], port: int, path: str, *, seconds: float = 60) -> Iterator[subprocess.Popen[bytes]]:
    """A server process that answers at `path` within `seconds`; stopped at the end. Raises RuntimeError."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(int(seconds * 10)):
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
                connection.request("GET", path)
                if connection.getresponse().status == 200:
                    break
            except OSError:
                pass
            if child.poll() is not None:
                raise RuntimeError(f"{' '.join(command)} ended with {child.returncode} before it answered")
            time.sleep(0.1)
        else:
            raise RuntimeError(f"{' '.join(command)} did not answer within {seconds:g} s")
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()


def asker(port: int, path: str) -> Callable[[str], bytes]:
    """A function that asks over one kept connection."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    headers = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}

    def ask(query: str) -> bytes:
        for attempt in (1, 2):
            try:
                connection.request("POST", path, body=query.encode(), headers=headers)
                answer = connection.getresponse()
                break
            except OSError:  # a server closes a connection that was idle for long
                connection.close()
                if attempt == 2:
                    raise
        body = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{answer.status}: {body[:300]!r}")
        return body

    return ask


def latency(port: int, path: str, query: str, count: int = 200) -> float:
    """Milliseconds, p50 of `count` queries one after another."""
    ask = asker(port, path)
    ask(query)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        ask(query)
        times.append((time.perf_counter() - start) * 1e3)
    return percentile(times, 0.5)


def throughput(port: int, path: str, query: str) -> float:
    """Queries a second with `CLIENTS` clients for `SECONDS`."""
    done = [0] * CLIENTS
    end = time.perf_counter() + SECONDS

    def client(number: int) -> None:
        ask = asker(port, path)
        while time.perf_counter() < end:
            ask(query)
            done[number] += 1

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return sum(done) / SECONDS


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """Latency and throughput, ours over theirs, for each query."""
    oxigraph = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")
    if oxigraph is None:
        print("query: the `oxigraph` command is not installed (pip install oxigraph): nothing to compare with.")
        return []
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        folder = Path(scratch) / "project"
        folder.mkdir()
        (folder / "graphtide.toml").write_text(load.settings(validated=False))
        (folder / "rows.csv").write_text("\n".join(load.rows(ROWS)) + "\n")
        load.sync(folder)
        quads, triples, theirs = Path(scratch) / "all.nq", Path(scratch) / "default.nt", Path(scratch) / "theirs"
        run([sys.executable, "-c", load.DUMP, str(folder / ".graphtide"), str(quads), str(triples)])
        run([sys.executable, "-c", load.BULK, str(quads), str(theirs)])
        port, other = free_port(), free_port()
        mine = [sys.executable, "-m", "graphtide", "serve", "--dir", str(folder), "--port", str(port)]
        rival = [oxigraph, "serve", "--location", str(theirs), "--bind", f"127.0.0.1:{other}"]
        probe = "?" + urllib.parse.urlencode({"query": "ASK {}"})
        with serving(mine, port, "/sparql" + probe), serving(rival, other, "/query" + probe):
            for name, query in QUERIES.items():
                ours, rivals = asker(port, "/sparql")(query), asker(other, "/query")(query)
                assert size(ours) == size(rivals), f"{name}: the two servers disagree"
                mine_ms = [latency(port, "/sparql", query) for _ in range(rounds)]
                rival_ms = [latency(other, "/query", query) for _ in range(rounds)]
                found.append(Figure(f"query '{name}' over HTTP, p50", "ms", tuple(mine_ms)))
                found.append(ratios(f"query '{name}' p50 / oxigraph serve", mine_ms, rival_ms))
                fast = [throughput(port, "/sparql", query) for _ in range(rounds)]
                rival_fast = [throughput(other, "/query", query) for _ in range(rounds)]
                found.append(Figure(f"query '{name}' throughput", "1/s", tuple(fast)))
                found.append(ratios(f"query '{name}' throughput / oxigraph serve", fast, rival_fast))
    found += overhead(out, rounds)
    return found


def overhead(out: Path, rounds: int) -> list[Figure]:
    """What the pool adds to a query that does nothing, HTTP left out."""
    from sparql.query import Pool

    with tempfile.TemporaryDirectory(dir=out) as scratch:
        pool = Pool(Path(scratch), "https://bench.example/", workers=1, spares=0)
        pool.start()
        try:
            medians = []
            for _ in range(rounds):
                times = []
                for _ in range(500):
                    start = time.perf_counter()
                    for _ in pool.run("ASK {}", format="json"):
                        pass
                    times.append((time.perf_counter() - start) * 1e3)
                medians.append(percentile(times, 0.5))
        finally:
            pool.close()
    return [Figure("overhead of the worker pool, p50", "ms", tuple(medians), aim=0.7)]


def size(body: bytes) -> int:
    """How many rows a JSON answer has; a boolean counts as one."""
    answer = json.loads(body)
    return len(answer["results"]["bindings"]) if "results" in answer else 1
