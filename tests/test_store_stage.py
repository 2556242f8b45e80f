"""A stage is the graph as it will be, follows the commits, and gives a change back exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparql.log import Change
from sparql.store import Stage, Store, open_store

BASE = "https://stage.example/"
GRAPHS = ["", f"{BASE}record/s/1", f"{BASE}record/s/2"]
FACTS = [f'<{BASE}a> <{BASE}p> "{n}"' for n in range(6)]


def agree(stage: Stage, store: Store) -> bool:
    return all(stage.statements(graph) == store.statements(graph) for graph in [*GRAPHS, store.names.cursor])


def test_a_change_on_the_stage_is_not_in_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        store.commit(Change(added={"": frozenset(FACTS[:3])}))
        stage = store.stage()
        change = Change({"": frozenset(FACTS[:1])}, {"": frozenset(FACTS[3:4])})
        stage.apply(change)
        assert stage.statements("") == frozenset(FACTS[1:4])
        assert store.statements("") == frozenset(FACTS[:3])
        assert bool(stage.query('ASK { ?s ?p "3" }')) and not bool(store.query('ASK { ?s ?p "3" }'))
        with pytest.raises(ValueError, match="commit it or undo it"):
            stage.apply(change)
        stage.undo()
        assert agree(stage, store)


sides = st.dictionaries(st.sampled_from(GRAPHS), st.frozensets(st.sampled_from(FACTS)))
changes = st.builds(Change, sides, sides)
steps = st.lists(st.tuples(st.sampled_from(["commit", "part", "undo", "other", "checkpoint"]), changes), max_size=8)


@settings(max_examples=8)
@given(history=steps)
def test_after_any_history_the_stage_is_the_store(tmp_path_factory: pytest.TempPathFactory, history) -> None:
    with open_store(tmp_path_factory.mktemp("stage"), BASE) as store:
        stage = store.stage()
        for step, change in history:
            if step == "checkpoint":
                store.checkpoint()
                continue
            stage.apply(change)
            if step == "undo":
                stage.undo()
            elif step == "commit":
                store.commit(change)
            elif step == "part":
                more = {"": change.added.get("", frozenset()) | frozenset(FACTS[4:])}
                store.commit(Change({**change.removed, GRAPHS[1]: frozenset(FACTS)}, {**change.added, **more}))
            else:
                store.commit(Change(change.added, {"": frozenset(FACTS[:2])}))
            assert agree(stage, store)
        assert agree(store.stage(), store)


def test_nothing_of_a_stage_is_left_after_closing(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        stage = store.stage()
        assert stage.holds(FACTS[0]) is False and list(stage.asserted_by(FACTS[0])) == []
        assert len(list((tmp_path / "stage").iterdir())) == 1
    assert list((tmp_path / "stage").iterdir()) == []


def test_a_stage_outlives_a_bulk_load_and_an_erasure(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        stage = store.stage()
        store.build([f"{FACTS[0]} .\n".encode()])
        assert agree(stage, store)
        stage.apply(Change(added={"": frozenset(FACTS)}))
        store.erase_history()
        assert agree(stage, store) and stage.statements("") == frozenset(FACTS[:1])


def test_a_stage_nobody_uses_any_more_leaves_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE) as store:
        stage = store.stage()
        stage.holds(FACTS[0])
        del stage
        assert list((tmp_path / "stage").iterdir()) == []
        assert store.commit(Change(added={"": frozenset(FACTS)})).id == 1
