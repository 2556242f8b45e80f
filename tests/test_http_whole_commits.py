"""A read over HTTP is of one commit, whole, whichever way it was answered: worker, memory, cache or 304."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from pathlib import Path

import pytest

from sparql.log import Change
from sparql.store import Store, open_store
from tests.served import get, hear, serve

BASE = "https://e.example/"
PAIRS = 8


def said(n: int) -> frozenset[str]:
    """What commit number `n` makes true: the same number said of eight things, in the default and a named graph."""
    return frozenset(f'<{BASE}s{k}> <{BASE}p> "{n}"' for k in range(PAIRS))


def change(n: int) -> Change:
    old, new = (said(n - 1) if n else frozenset()), said(n)
    return Change({"": old, BASE + "g": old}, {"": new, BASE + "g": new})


SAYS = f"?s <{BASE}p> ?o"
ASKED = (
    f"SELECT ?o (COUNT(*) AS ?n) {{ {{ {SAYS} }} UNION {{ GRAPH ?g {{ {SAYS} }} }} }} GROUP BY ?o",
    f"SELECT ?o (1 AS ?n) {{ {SAYS} }}",
)


def read_on(port: int, reads: int, seed: int, wrong: list[str], committed: dict[int, int]) -> None:
    """So many reads over one connection: cached texts, texts never seen before, and ones that may be answered 304."""
    chosen, tags, newest = random.Random(seed), dict[str, str](), 0
    with socket.create_connection(("127.0.0.1", port), 30) as peer:
        for number in range(reads):
            kind = chosen.randrange(len(ASKED))
            query = ASKED[kind] + (f" # {seed} {number}" if chosen.random() < 0.3 else "")
            more = {"If_None_Match": tags[query]} if query in tags and chosen.random() < 0.3 else {}
            before = max(committed, default=0)
            peer.sendall(get(port, query, **more))
            reply = hear(peer)
            epoch = int(reply.headers.get("x-graphtide-epoch", -1))
            if reply.status not in (200, 304) or not reply.complete:
                wrong.append(f"{reply.status}: {reply.raw[:300]!r}")
                return
            if epoch < newest or epoch < before:
                wrong.append(f"epoch {epoch} came after {newest}, and {before} was committed before it was asked")
                return
            newest = epoch
            tags[query] = reply.headers["etag"]
            if reply.status == 304:
                continue
            rows = json.loads(reply.body)["results"]["bindings"]
            values = {row["o"]["value"] for row in rows}
            total = sum(int(row["n"]["value"]) for row in rows)
            if len(values) != 1 or total != (2 * PAIRS if kind == 0 else PAIRS):
                wrong.append(f"at commit {epoch} the values were {sorted(values)}, {total} of them")
                return
            number_there = int(values.pop())
            if committed.get(epoch, number_there) != number_there:
                wrong.append(f"commit {epoch} made it {committed[epoch]}, and {number_there} was read")
                return


def watch(tmp_path: Path, reads: int, clients: int, pause: float, **options: int) -> tuple[int, int]:
    """Reads during writes; returns how many commits there were and how many reads a second."""
    store: Store = open_store(tmp_path / "state", BASE)
    store.commit(change(0))
    store.checkpoint()
    wrong: list[str] = []
    committed: dict[int, int] = {}
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            entry = store.commit(change(n))
            committed[entry.id] = n
            if n % 200 == 0:
                store.checkpoint()
            time.sleep(pause)

    with serve(store.state, BASE, workers=2, spares=1, **options) as server:
        threads = [
            threading.Thread(target=read_on, args=(server.port, reads // clients, seed, wrong, committed))
            for seed in range(clients)
        ]
        writer = threading.Thread(target=write)
        began = time.monotonic()
        for thread in (writer, *threads):
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.monotonic() - began
        stop.set()
        writer.join()
    store.close()
    assert wrong == []
    return len(committed), int(reads / seconds)


@pytest.mark.parametrize("warm", [0, 2**30], ids=["on disk", "in memory"])
def test_reads_during_writes_never_see_half_a_commit(tmp_path: Path, warm: int) -> None:
    commits, _ = watch(tmp_path, 1_200, 3, 0.005, warm_bytes=warm)
    assert commits > 20


@pytest.mark.soak
def test_a_hundred_thousand_reads_during_writes_never_see_half_a_commit(tmp_path: Path) -> None:
    commits, rate = watch(tmp_path, 100_000, 4, 0.01, warm_bytes=2**30)
    print(f"{commits} commits, {rate} reads a second")
    assert commits > 1_000
