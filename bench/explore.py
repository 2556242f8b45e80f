"""An explore mix over a million triples, against `oxigraph serve` and rdflib-endpoint, with every limit in force."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path

from bench.figure import Figure, percentile, ratios
from bench.process import run
from bench.query import free_port, serving
from bench.shop import MIX, PREFIXES, Shop

PRODUCTS = 3_600  # a little over a million triples
CLIENTS, WARM, VISITS = 4, 4, 40
RDFLIB = ("rdflib-endpoint==0.6.3", "uvicorn")
RDFLIB_SERVE = """
import sys, uvicorn
from rdflib import Dataset
from rdflib_endpoint import SparqlEndpoint
graph = Dataset(default_union=True)
graph.parse(sys.argv[1], format="nt")
uvicorn.run(SparqlEndpoint(graph=graph, path="/query"), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
"""
PROBE = "/{path}?query=ASK%20%7B%7D"
MILLION = PREFIXES + "SELECT ?s ?p ?o WHERE { ?s ?p ?o } LIMIT 1000000"


class Client:
    """One kept connection that asks by POST; the least HTTP that reads both lengths and chunks."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self.sock = socket.create_connection(("127.0.0.1", port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.sock.makefile("rb", 256 * 1024)

    def ask(self, query: str) -> tuple[int, float]:
        """Bytes of the body and milliseconds to its first. Raises RuntimeError for any status but 200."""
        body = query.encode()
        accept = "text/turtle" if makes_triples(query) else "application/sparql-results+json"
        start = time.perf_counter()
        self.sock.sendall(
            f"POST {self.path} HTTP/1.1\r\nHost: localhost:{self.port}\r\nContent-Type: application/sparql-query\r\n"
            f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        status = self.file.readline()
        length: int | None = None
        while (line := self.file.readline()) not in (b"\r\n", b""):
            if line[:15].lower() == b"content-length:":
                length = int(line[15:])
        if b" 200" not in status:
            raise RuntimeError(f"{status!r}: {self.file.read(length or 0)[:300]!r}")
        if length is not None:
            found = self.file.read(length)
            return len(found), (time.perf_counter() - start) * 1e3
        first, total = 0.0, 0
        while size := int(self.file.readline(), 16):
            total += len(self.file.read(size + 2)) - 2
            first = first or (time.perf_counter() - start) * 1e3
        self.file.readline()
        return total, first


def makes_triples(query: str) -> bool:
    """Whether it is one of the mix that makes a graph."""
    return query[len(PREFIXES) :].startswith(("CONSTRUCT", "DESCRIBE"))


def visits(port: int, path: str, seed: int, count: int, out: multiprocessing.Queue[list[float]]) -> None:
    """One client's visits; puts the milliseconds to the first byte of each query."""
    shop, chosen = Shop(PRODUCTS), random.Random(seed)
    asked = [shop.mix(chosen) for _ in range(count)]
    client = Client(port, path)
    out.put([client.ask(query)[1] for mix in asked for query in mix])


def rate(port: int, path: str, seed: int, count: int = VISITS, clients: int = CLIENTS) -> tuple[float, list[float]]:
    """Queries a second of `clients` processes together, and the first-byte times of all."""
    out: multiprocessing.Queue[list[float]] = multiprocessing.Queue()
    each = max(1, count // clients)
    made = [
        multiprocessing.Process(target=visits, args=(port, path, seed * 100 + n, each, out)) for n in range(clients)
    ]
    start = time.perf_counter()
    for one in made:
        one.start()
    firsts = [ms for _ in made for ms in out.get(timeout=1800)]
    seconds = time.perf_counter() - start
    for one in made:
        one.join()
    return len(firsts) / seconds, firsts


def agree(shop: Shop, ask: Callable[[str], list[str]], rival: Callable[[str], list[str]], name: str) -> None:
    """Raises AssertionError when two servers answer one of the twelve differently."""
    chosen = random.Random(99)
    for shape in range(1, 13):
        query = shop.query(shape, chosen)
        assert sorted(ask(query)) == sorted(rival(query)), f"{name} answers query {shape} otherwise"


def lines(port: int, path: str) -> Callable[[str], list[str]]:
    """Asks and gives the rows or triples of an answer, comparable between servers but for order."""

    def ask(query: str) -> list[str]:
        triples = makes_triples(query)
        accept = "application/n-triples" if triples else "application/sparql-results+json"
        body = body_of(Client(port, path), query, accept)
        if triples:
            return body.decode().splitlines()
        answer = json.loads(body)
        if " LIMIT " in query:  # ties in the order are each server's own
            return [str(len(answer["results"]["bindings"]))]
        return [json.dumps(sorted((k, v["value"]) for k, v in row.items())) for row in answer["results"]["bindings"]]

    return ask


def body_of(client: Client, query: str, accept: str) -> bytes:
    """A whole body, over a connection of its own."""
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=600)
    headers = {"Content-Type": "application/sparql-query", "Accept": accept}
    connection.request("POST", client.path, body=query.encode(), headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise RuntimeError(f"{answer.status}: {body[:300]!r}")
    return body


BUILD = """
import sys
from pathlib import Path
from sparql.store import open_store
store = open_store(Path(sys.argv[1]), "https://bench.example/")
with open(sys.argv[2], "rb") as data:
    store.build(iter(lambda: data.read(1 << 20), b""))
store.close()
"""


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """Throughput and first byte of the mix, and a million rows as CSV."""
    oxigraph = shutil.which("oxigraph", path=str(Path(sys.executable).parent)) or shutil.which("oxigraph")
    if oxigraph is None:
        print("explore: the `oxigraph` command is not installed (pip install oxigraph): nothing to compare with.")
        return []
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(dir=out) as scratch, ExitStack() as stack:
        here = Path(scratch)
        data, folder, theirs = here / "shop.nt", here / "project", here / "theirs"
        folder.mkdir()
        (folder / "graphtide.toml").write_text('base = "https://bench.example/"\n')
        count = write(Shop(PRODUCTS).triples(), data)
        run([sys.executable, "-c", BUILD, str(folder / ".graphtide"), str(data)])
        run([oxigraph, "load", "--location", str(theirs), "--file", str(data)])
        port, other = free_port(), free_port()
        mine = [sys.executable, "-m", "graphtide", "serve", "--dir", str(folder), "--port", str(port)]
        rival = [oxigraph, "serve-read-only", "--location", str(theirs), "--bind", f"127.0.0.1:{other}"]
        child = stack.enter_context(serving(mine, port, PROBE.format(path="sparql")))
        stack.enter_context(serving(rival, other, PROBE.format(path="query")))
        agree(Shop(PRODUCTS), lines(port, "/sparql"), lines(other, "/query"), "oxigraph serve")
        in_memory(port)
        for one, path in ((port, "/sparql"), (other, "/query")):
            rate(one, path, 7, count=WARM * CLIENTS)
        ours, rivals, firsts = [], [], []
        for number in range(rounds):
            speed, ms = rate(port, "/sparql", 1000 + number)
            ours.append(speed)
            firsts.append(percentile(ms, 0.5))
            rivals.append(rate(other, "/query", 1000 + number)[0])
        note = f"{count:,} triples, {CLIENTS} clients, {len(MIX)} queries a visit, none twice"
        found.append(Figure("explore mix", "queries/s", tuple(ours), note=note))
        found.append(ratios("explore mix / oxigraph serve", ours, rivals, aim=1.0, at_most=False))
        found.append(Figure("explore mix, first byte p50", "ms", tuple(firsts), aim=5.0))
        slow = rdflib_rate(out, data, stack)
        if slow is not None:
            note = f"one visit of each of the {CLIENTS} clients"
            fast = tuple(each / slow for each in ours)
            found.append(Figure("explore mix / rdflib-endpoint", "x", fast, aim=40.0, at_most=False, note=note))
        speeds, peaks = [], []
        for _ in range(rounds):
            start = time.perf_counter()
            size, peak = million(port, child.pid)
            speeds.append(1e6 / (time.perf_counter() - start))
            peaks.append(peak / 2**20)
        note = f"{size / 2**20:.0f} MB"
        found.append(Figure("a million rows as CSV", "rows/s", tuple(speeds), aim=100_000, at_most=False, note=note))
        found.append(Figure("the server's memory meanwhile, workers left out", "MiB", tuple(peaks), aim=200.0))
    return found


def in_memory(port: int, seconds: float = 120.0) -> None:
    """Workers answer from memory, as they do some seconds after the start. Raises RuntimeError when they do not."""
    import urllib.request

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=10) as answer:
            state = json.load(answer)
        if state["in_memory"]:
            return
        time.sleep(0.2)
    raise RuntimeError(f"the graph is not in memory: {state['on_disk_because']}")


def million(port: int, pid: int) -> tuple[int, float]:
    """Bytes of a million rows as CSV, and the peak resident bytes of the server process while they were sent."""
    import http.client
    import threading

    import psutil

    server = next(one for one in [psutil.Process(pid), *psutil.Process(pid).children(True)] if listens(one, port))
    peak, done = 0.0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.05):
            peak = max(peak, float(server.memory_info().rss))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        headers = {"Content-Type": "application/sparql-query", "Accept": "text/csv"}
        connection.request("POST", "/sparql", body=MILLION.encode(), headers=headers)
        answer = connection.getresponse()
        total, rows = 0, 0
        while part := answer.read(1 << 20):
            total += len(part)
            rows += part.count(b"\n")
        assert rows == 1_000_001, f"{rows - 1:,} rows came"
    finally:
        done.set()
        watcher.join()
    return total, peak


def listens(process: object, port: int) -> bool:
    """Whether the process has the port open."""
    import psutil

    assert isinstance(process, psutil.Process)
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in process.net_connections("inet"))


def rdflib_rate(out: Path, data: Path, stack: ExitStack) -> float | None:
    """Queries a second of rdflib-endpoint on the same data; None, said aloud, where it cannot be installed."""
    python = out / "rdflib-endpoint" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
    done = subprocess.run([str(python), "-m", "pip", "install", "-q", *RDFLIB], capture_output=True, text=True)
    if done.returncode:
        print(f"explore: rdflib-endpoint could not be installed, its figure is left out:\n{done.stderr[-400:]}")
        return None
    port = free_port()
    command = [str(python), "-c", RDFLIB_SERVE, str(data), str(port)]
    stack.enter_context(serving(command, port, PROBE.format(path="query"), seconds=600))
    return rate(port, "/query", 5, count=CLIENTS)[0]


def write(triples: Iterable[str], path: Path) -> int:
    """The lines in a file; returns how many."""
    count = 0
    with path.open("w") as file:
        for line in triples:
            file.write(line)
            count += 1
    return count
