"""A writer to be killed: `python -m tests.store_child STATE SEED` writes, saying `ack N` after each commit."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pyoxigraph
from pyoxigraph import RdfFormat

from sparql import checkpoint as checkpoints
from sparql import log
from sparql.log import Change, LogReader
from sparql.names import Names
from sparql.store import Limits, Store, bulk, embedded, open_store

BASE = "https://kill.example/"
NAMES = Names(BASE)
WINDOW = 5  # records that stay
FACTS = 3  # a record
LIMITS = Limits(lock_seconds=20, min_free_bytes=0, keep_newest=2, history_bytes=60_000)


def record(number: int) -> tuple[str, frozenset[str]]:
    """The record that commit `number` writes: its graph and what it says."""
    facts = {f'<{BASE}e/{number}> <{BASE}p/{n}> "value {n} of {number}, long enough"' for n in range(FACTS)}
    return NAMES.record("src", str(number)), frozenset(facts)


def change(store: Store, number: int, *, large: bool = False) -> Change:
    """Commit `number` writes its record, in its graph and merged, and takes away all but the newest."""
    graph, facts = record(number)
    added = {"": facts, graph: facts}
    removed: dict[str, frozenset[str]] = {"": frozenset()}
    for old in range(max(0, number - 60), number - WINDOW + 1):
        name, gone = record(old)
        if store.statements(name):
            removed[name] = gone
            removed[""] |= gone
    if large:
        added[NAMES.quarantine] = frozenset(f'<{BASE}q/{n}> <{BASE}p> "{number}"' for n in range(log.LARGE))
    return Change(removed, added)


def base_quads() -> list[bytes]:
    """What the first load holds."""
    facts = [f"<{BASE}base/{n}> <{BASE}p> <{BASE}base>" for n in range(50)]
    graph = NAMES.record("base", "all")
    return [f"{fact} .\n{fact} <{graph}> .\n".encode() for fact in facts]


def main(state: Path, seed: int, operations: int) -> None:
    dice = random.Random(seed)
    log.LARGE, log.SEGMENT_BYTES, bulk.LOOK, embedded.MANIFEST_BYTES = 40, 20_000, 2_000, 12_000
    with open_store(state, BASE, limits=LIMITS) as store:
        print("open", store.head, flush=True)
        if store.empty:
            print("ack-build", store.build(base_quads()).id, flush=True)
        stage = store.stage()
        for _ in range(operations):
            what = dice.random()
            if what < 0.05:
                store.checkpoint()
                store.retain()
            elif what < 0.055:
                print("ack-erase", store.erase_history().id, flush=True)
            else:
                new = change(store, store.head + 1, large=what > 0.98)
                stage.apply(new)
                if what < 0.2:
                    stage.undo()
                print("ack", store.commit(new, [{"source": "src"}]).id, flush=True)


def check(state: Path, acknowledged: list[str], seen: set[int]) -> int:
    """The store in `state` has everything that was acknowledged, nothing torn, and log and replica agree with it."""
    with open_store(state, BASE, limits=LIMITS) as store:
        acked = [int(line.split()[1]) for line in acknowledged if line.startswith("ack")]
        assert store.head >= max(acked, default=0), (store.head, acked[-3:])
        seen |= {int(line.split()[1]) for line in acknowledged if line.startswith("ack ")}
        if any(line.startswith("ack-build") for line in acknowledged) or seen:
            assert len(store.statements(NAMES.record("base", "all"))) == 50
        merged: set[str] = set(store.statements(NAMES.record("base", "all")))
        assert len(merged) in (0, 50)
        for number in range(1, store.head + 1):
            graph, facts = record(number)
            found = store.statements(graph)
            assert found in (frozenset(), facts), f"torn: {graph}"
            if number in seen and number > store.head - WINDOW:
                assert found == facts, f"commit {number} was acknowledged and is not there"
            merged |= found
        assert store.statements("") == merged
        replica(state, store)
        return store.head


def replica(state: Path, store: Store) -> None:
    """A copy of each checkpoint, brought up by the log, is the store quad for quad."""
    expected = quads(store._graph)
    for number, checkpoint in enumerate(checkpoints.every(state)):
        there = state.parent / f"replica-{state.name}-{number}"
        checkpoints.clone(checkpoint, there)
        graph = pyoxigraph.Store(str(there))
        at = checkpoint.commit
        for entry in LogReader(state, checkpoint.commit).entries():
            entry.change.apply(graph)
            at = entry.id
        assert at == store.head
        assert quads(graph) == expected
        del graph
        for file in there.iterdir():
            file.unlink()
        there.rmdir()


def quads(graph: pyoxigraph.Store) -> list[bytes]:
    """Every quad, sorted."""
    return sorted((graph.dump(format=RdfFormat.N_QUADS) or b"").split(b"\n"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 100_000)
