"""What keeping search and statistics in step costs: CPU at 50 commits a second, and the time to make them anew."""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from bench.figure import Figure
from sparql.index.reading import Index, IndexMissing
from sparql.log import Change
from sparql.store import open_store

BASE = "https://bench.example/"
THINGS = 25_000  # of 20 statements, in the default graph and in a record graph: a million quads
COMMITS_A_SECOND, SECONDS = 50, 20.0
NAMES = ("statistics", "search")
_RDF, _RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"


def figures(out: Path, *, rounds: int = 3, minutes: float = 10.0) -> list[Figure]:
    """CPU of the index process as a share of one core, and seconds and memory to index a million quads."""
    cpu, made, peaks = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="graphtide-bench-") as folder:
            share, seconds, peak = measure(Path(folder) / "state")
        cpu.append(share)
        made.append(seconds)
        peaks.append(peak)
    pace = f"{COMMITS_A_SECOND} commits/s of 76 statements, 1,000,000 quads"
    return [
        Figure("index process, share of a core", "", tuple(cpu), aim=0.25, note=pace),
        Figure("search and statistics made anew", "s", tuple(made), note="1,000,000 quads"),
        Figure("memory to make them", "MB", tuple(peaks), note="resident, at most"),
    ]


def measure(state: Path) -> tuple[float, float, float]:
    """(share of a core, seconds to make the indexes, megabytes at most meanwhile)."""
    with open_store(state, BASE) as store:
        store.build(_everything(), ())
        command = [sys.executable, "-P", "-m", "sparql.index", str(state), "--base", BASE]
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.PIPE)
        try:
            watched, peak = psutil.Process(process.pid), 0
            while not _level(state):
                peak = max(peak, watched.memory_info().rss)
                time.sleep(0.05)
            seconds = time.monotonic() - began
            before, start = watched.cpu_times(), time.monotonic()
            version = dict.fromkeys(range(THINGS), 0)
            for n in range(int(COMMITS_A_SECOND * SECONDS)):
                thing = random.randrange(THINGS)
                old, new = _record(thing, version[thing]), _record(thing, version[thing] + 1)
                version[thing] += 1
                graphs = ("", f"{BASE}record/s/{thing}")
                store.commit(Change(dict.fromkeys(graphs, old - new), dict.fromkeys(graphs, new - old)))
                time.sleep(max(0.0, start + (n + 1) / COMMITS_A_SECOND - time.monotonic()))
            while not _level(state):
                time.sleep(0.01)
            after, passed = watched.cpu_times(), time.monotonic() - start
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(10)
    return (after.user + after.system - before.user - before.system) / passed, seconds, peak / 1e6


def _level(state: Path) -> bool:
    try:
        return all(Index(state, name).lag == 0 for name in NAMES)
    except IndexMissing:
        return False


def _everything() -> Iterator[bytes]:
    for thing in range(THINGS):
        said = _record(thing, 0)
        yield "".join(f"{one} .\n{one} <{BASE}record/s/{thing}> .\n" for one in said).encode()


def _record(thing: int, version: int) -> frozenset[str]:
    me = f"<{BASE}thing/{thing}>"
    return frozenset(
        [f"{me} <{_RDF}type> <{BASE}def/C{thing % 20}>", f'{me} <{_RDFS}label> "thing number {thing} {version}"']
        + [f"{me} <{BASE}def/p{n}> <{BASE}thing/{(thing * 7 + n * 13 + version) % THINGS}>" for n in range(6)]
        + [f'{me} <{BASE}def/d{n}> "value {n} {version} {thing % 1000}"' for n in range(12)]
    )
