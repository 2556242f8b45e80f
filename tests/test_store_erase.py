"""After erasing history no byte of what was removed is left below the state folder."""

from __future__ import annotations

import random
from pathlib import Path

import pyoxigraph
import pytest
from pyoxigraph import RdfFormat

from sparql import checkpoint as checkpoints
from sparql.log import Change, LogGap, LogReader
from sparql.store import open_store

BASE = "https://erase.example/"
NEEDLE = "4111-1111-1111-1111-secret-9f8e7d"
PERSON = f"{BASE}person/erased-7c6b5a4d"
GONE = frozenset({f'<{PERSON}> <{BASE}card> "{NEEDLE}"'})
KEPT = frozenset({f'<{BASE}a> <{BASE}p> "kept, and long enough not to be inlined"'})


def found(state: Path) -> list[str]:
    words = (NEEDLE.encode(), PERSON.encode(), b"erased-7c6b5a4d")
    return [
        str(path) for path in state.rglob("*") if path.is_file() and any(word in path.read_bytes() for word in words)
    ]


@pytest.mark.parametrize("how", ["committed", "built"])
def test_no_byte_of_what_was_removed_is_left(tmp_path: Path, how: str) -> None:
    graph = f"{BASE}record/s/1"
    noise = frozenset(f'<{BASE}n/{n}> <{BASE}p> "{random.Random(n).random()} some more text {n}"' for n in range(500))
    with open_store(tmp_path, BASE) as store:
        if how == "built":
            store.build([f"{one} <{graph}> .\n{one} .\n".encode() for one in GONE | KEPT | noise])
        else:
            store.commit(Change(added={"": GONE | KEPT | noise, graph: GONE | KEPT | noise}), [{"message": NEEDLE}])
        store.checkpoint()
        stage = store.stage()
        store.commit(Change(removed={"": GONE, graph: GONE}))
        store.checkpoint()
        assert found(tmp_path), "the test can find what is there"
        head = store.head
        entry = store.erase_history()
        assert (entry.id, store.head) == (head + 1, head + 1)
        assert found(tmp_path) == []
        assert [one.commit for one in checkpoints.every(tmp_path)] == [store.head]
        assert store.statements("") == KEPT | noise == store.statements(graph)
        with pytest.raises(LogGap):
            list(LogReader(tmp_path, head).entries())
        checkpoints.clone(checkpoints.newest(tmp_path), tmp_path / "clone")
        assert NEEDLE.encode() not in (pyoxigraph.Store(str(tmp_path / "clone")).dump(format=RdfFormat.N_QUADS) or b"")
        assert store.commit(Change(added={"": GONE})).id == head + 2
        del stage
    with open_store(tmp_path, BASE) as store:
        assert store.statements("") == KEPT | noise | GONE
