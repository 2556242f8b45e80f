"""Derived facts come and go with the facts they follow from, in the same commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Store as Memory

from ontology.facts import statement
from sparql import journal
from sparql.store import Store, open_store
from sparql.sync import build, sync
from tests.test_sync_graph import BASE, E, holds, plan, rows
from transforms.rules import Rule, load_rq

OWNER = load_rq(
    "owner",
    f"PREFIX e: <{E}> CONSTRUCT {{ ?team e:owns ?service }} WHERE {{ ?service e:team ?name . ?team e:named ?name }}",
)
LONELY = load_rq(
    "lonely",
    f"PREFIX e: <{E}> CONSTRUCT {{ ?s e:is e:lonely }} WHERE {{ ?s e:team ?n FILTER NOT EXISTS {{ ?t e:owns ?s }} }}",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "state", BASE) as opened:
        yield opened


def derived(store: Store) -> set[str]:
    return {line for line in holds(store) if " owns " in line or " is " in line}


def put(store: Store, *said: tuple[str, str], rules: Iterable[Rule] = (OWNER, LONELY), **more: Any) -> Any:
    return sync(store, plan(**more), [rows("a", *said)], rules=rules)


def test_a_derived_fact_comes_in_the_commit_of_what_it_follows_from(store: Store) -> None:
    put(store, ("1", "svc team n"))
    assert derived(store) == {"svc is lonely"}
    head = store.head
    put(store, ("1", "svc team n"), ("2", "t named n"))
    assert derived(store) == {"t owns svc"} and store.head == head + 1


def test_a_derived_fact_goes_with_what_it_follows_from(store: Store) -> None:
    put(store, ("1", "svc team n"), ("2", "t named n"))
    put(store, ("1", "svc team n"), ("2", "t named m"))
    assert derived(store) == {"svc is lonely"}
    put(store)
    assert derived(store) == set() and not [q for q in store.match() if "record/rule" in str(q.graph_name)]


def test_a_derived_fact_stays_while_it_follows_in_another_way(store: Store) -> None:
    put(store, ("1", "svc team n;svc team m"), ("2", "t named n;t named m"))
    put(store, ("1", "svc team n;svc team m"), ("2", "t named m"))
    assert derived(store) == {"t owns svc"}


def test_a_derived_fact_that_a_record_also_says_survives_the_rule(store: Store) -> None:
    put(store, ("1", "svc team n"), ("2", "t named n"), ("3", "t owns svc"))
    put(store, ("1", "svc team n"), ("3", "t owns svc"))
    assert derived(store) == {"t owns svc"}


def test_a_new_changed_or_removed_rule_is_taken_up(store: Store) -> None:
    said = [("1", "svc team n"), ("2", "t named n"), ("3", "other team m")]
    put(store, *said, rules=())
    assert derived(store) == set()
    put(store, *said, rules=[OWNER])
    assert derived(store) == {"t owns svc"}
    put(store, *said, rules=[LONELY])
    assert derived(store) == {"svc is lonely", "other is lonely"}
    head = store.head
    put(store, *said, rules=[LONELY])
    assert store.head == head


def test_the_first_load_derives_what_syncing_would(tmp_path: Path) -> None:
    batch = [rows("a", ("1", "svc team n"), ("2", "t named n"), ("3", "other team m"))]
    with open_store(tmp_path / "one", BASE) as one, open_store(tmp_path / "two", BASE) as two:
        build(one, [(plan(), batch)], rules=[OWNER, LONELY])
        sync(two, plan(), batch, rules=[OWNER, LONELY])
        assert one.statements("") == two.statements("") and derived(one) == {"t owns svc", "other is lonely"}


def test_a_rule_in_python_reads_what_holds(store: Store) -> None:
    def derive(graph: Any) -> Iterator[str]:
        count = len(list(graph.match(None, None, None)))
        yield f'<{E}all> <{E}count> "{count}"'

    rule = Rule("count", frozenset([f"{E}p", f"{E}q"]), derive, frozenset([f"{E}count"]), "1")
    put(store, ("1", "x p y;x q z;x r z"), rules=[rule])
    assert 'all count "2"' in holds(store)
    put(store, ("1", "x p y;x r z"), rules=[rule])
    assert 'all count "1"' in holds(store) and 'all count "2"' not in holds(store)


def test_a_rule_that_fails_keeps_its_last_good_facts_and_says_so(store: Store) -> None:
    bad = []

    def derive(graph: Any) -> Iterator[str]:
        if bad:
            raise KeyError("oops")
        yield f"<{E}a> <{E}is> <{E}good>"

    rule = Rule("r", frozenset([f"{E}p"]), derive, frozenset([f"{E}is"]), "1")
    put(store, ("1", "x p y"), rules=[rule])
    bad.append(1)
    put(store, ("1", "x p z"), rules=[rule])
    assert derived(store) == {"a is good"} and "KeyError" in journal.rules(store, store.names)[0]["message"]
    bad.clear()
    put(store, ("1", "x p z"), ("2", "y p z"), rules=[rule])
    assert journal.rules(store, store.names)[0]["message"] == ""


def test_a_rule_may_not_derive_what_a_rule_before_it_reads(store: Store) -> None:
    rule = Rule("r", frozenset([f"{E}p"]), lambda graph: [f"<{E}a> <{E}p> <{E}b>"], version="1")
    put(store, ("1", "x p y"), rules=[rule])
    assert "Say what it `writes`" in journal.rules(store, store.names)[0]["message"]


BODIES = [
    "{ ?a e:p ?v ; e:k e:one } UNION { ?b e:p ?v ; e:k e:two }",
    "{ ?a e:p ?v . ?a e:k e:one } UNION { ?b e:q ?v } ?v e:k ?k",
    "?a e:p ?v . { ?v e:q ?b } UNION { ?v e:k ?b } ?b e:p ?k",
    "?a e:p ?v BIND(IRI(?v) AS ?b)",
    "?a e:p ?v BIND(IRI(CONCAT(STR(?a), STR(?v), '-b')) AS ?b) { ?a e:q ?k } UNION { ?v e:k ?k }",
    "{ ?a e:p ?v } UNION { ?a e:q ?v BIND(?v AS ?b) } FILTER(?v != ?a)",
]
TEMPLATE = "?a e:r1 ?v . ?b e:r2 ?v . ?a e:r3 ?b . ?b e:r4 e:z . ?v e:r5 ?k"
FACTS = st.lists(
    st.builds(
        " ".join, st.tuples(st.sampled_from("xyzw"), st.sampled_from("pqk"), st.sampled_from(["x", "y", "one", "two"]))
    ),
    max_size=6,
)


@settings(max_examples=60)
@given(st.sampled_from(BODIES), st.lists(FACTS, min_size=2, max_size=5))
def test_what_a_change_brings_and_takes_is_what_deriving_everything_again_says(
    body: str, history: list[list[str]]
) -> None:
    rule = load_rq("r", f"PREFIX e: <{E}> CONSTRUCT {{ {TEMPLATE} }} WHERE {{ {body} }}")
    assert rule.stepwise
    before, held = Memory(), frozenset[str]()
    for said in history:
        now = Memory()
        now.update(f"PREFIX e: <{E}> INSERT DATA {{ {' . '.join('e:' + one.replace(' ', ' e:') for one in said)} }}")
        was, will = (frozenset(map(statement, (quad.triple for quad in one))) for one in (before, now))
        gained = rule.follows(now, will - was)
        doubtful = rule.follows(before, was - will) - gained
        held = (held | gained) - (doubtful - rule.still(now, doubtful))
        assert held == rule.derived(now)
        before = now
