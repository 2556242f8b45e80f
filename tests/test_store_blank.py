"""A blank node keeps its label from commit to log to every copy; a graph is there while it is said to be."""

from __future__ import annotations

from pathlib import Path

import pyoxigraph
import pytest
from pyoxigraph import NamedNode

from ontology.facts import GT, RDF
from sparql import checkpoint as checkpoints
from sparql import log
from sparql.log import Change, LogReader
from sparql.names import Names
from sparql.query import warm
from sparql.store import Store, open_store

BASE = "https://blank.example/"
NAMES = Names(BASE)
G = BASE + "g"
A = f"_:a <{BASE}p> _:b"
B = f'_:b <{BASE}p> "_:not a node"'
C = f'<{BASE}s> <{BASE}p> <<( <{BASE}a> <{BASE}b> "x y"@en )>>'
GROUND = f'<{BASE}s> <{BASE}p> "ground _:x"'
THERE = f"<{G}> <{RDF}type> <{GT}Graph>"


def commit(store: Store, removed: dict[str, set[str]], added: dict[str, set[str]]) -> None:
    sides = ({name: frozenset(found) for name, found in side.items()} for side in (removed, added))
    store.commit(Change(*sides), blank=True)


def replica(state: Path, folder: Path) -> pyoxigraph.Store:
    oldest = checkpoints.every(state)[0]
    checkpoints.clone(oldest, folder)
    graph = pyoxigraph.Store(str(folder))
    for entry in LogReader(state, oldest.commit).entries():
        entry.change.apply(graph)
    return graph


def test_blank_nodes_keep_their_labels_in_the_store_in_a_replica_and_after_recovery(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", BASE) as store:
        commit(store, {}, {G: {A, B, GROUND}, "": {A, C}})
        commit(store, {G: {B}}, {G: {C}})
        expected = ({A, C, GROUND}, {A, C})
        assert (store.statements(G), store.statements("")) == expected
        copy = replica(tmp_path / "s", tmp_path / "copy")
        assert sorted(map(str, copy)) == sorted(map(str, store._graph))
        store._graph.remove_graph(NamedNode(G))  # as if it had been cut off in the middle of the last commit
        cursor = NamedNode(NAMES.cursor)
        store._graph.remove_graph(cursor)
        store._graph.extend(
            [quad for quad in Change(added={NAMES.cursor: log_statement(0)}).quads({NAMES.cursor: log_statement(0)})]
        )
    with open_store(tmp_path / "s", BASE) as store:
        assert store.head == 2
        assert (store.statements(G), store.statements("")) == expected
        store.erase_history()
        assert len(store.statements(G)) == 3


def log_statement(commit: int) -> frozenset[str]:
    from sparql.store.layout import own_statements

    return own_statements(NAMES, commit)


def test_without_leave_a_blank_node_is_refused(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", BASE) as store:
        for statement in (A, f"<{BASE}s> <{BASE}p> _:b", C):
            with pytest.raises(ValueError, match="not ground"):
                store.commit(Change({}, {"": frozenset({statement})}))
        store.commit(Change({}, {"": frozenset({GROUND})}))
        with pytest.raises(ValueError, match="Not a statement"):
            store.commit(Change({}, {"": frozenset({A, "_:x <nonsense"})}), blank=True)
        assert store.statements("") == {GROUND}


def test_a_large_change_with_blank_nodes_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "LARGE", 10)
    many = {f'_:n{n} <{BASE}p> "{n}"' for n in range(30)} | {f'<{BASE}{n}> <{BASE}p> "{n}"' for n in range(30)}
    with open_store(tmp_path / "s", BASE) as store:
        commit(store, {}, {G: many})
        commit(store, {G: set(list(many)[::2])}, {})
        assert store.statements(G) == many - set(list(many)[::2])
        copy = replica(tmp_path / "s", tmp_path / "copy")
        assert sorted(map(str, copy)) == sorted(map(str, store._graph))


def test_an_emptied_graph_is_gone_and_one_that_is_said_to_be_there_is_there(tmp_path: Path) -> None:
    with open_store(tmp_path / "s", BASE) as store:
        commit(store, {}, {G: {GROUND}})
        assert store.exists(G)
        commit(store, {G: {GROUND}}, {})
        assert not store.exists(G)
        commit(store, {}, {NAMES.graphs: {THERE}})
        assert store.exists(G)
        store.erase_history()
        assert store.exists(G)
        commit(store, {}, {G: {GROUND}})
        commit(store, {G: {GROUND}}, {NAMES.graphs: {THERE}})
        assert store.exists(G)
        copy = replica(tmp_path / "s", tmp_path / "copy")
        assert copy.contains_named_graph(NamedNode(G))
        store.checkpoint()
        held = warm.hold(store.state, tmp_path / "held", BASE, 2**30)
        assert held.store.contains_named_graph(NamedNode(G))
        commit(store, {NAMES.graphs: {THERE}}, {})
        assert not store.exists(G)
