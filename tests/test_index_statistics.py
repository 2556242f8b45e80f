"""The counts that deltas keep are those a full recount by SPARQL gives, at every commit."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, Store

from sparql.index.following import exact, merged
from sparql.index.statistics import Counts, Statistics, counts, graphs, syncs
from sparql.log import Change, Entry

E = "https://e.example/"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
NODES = [f"<{E}n{n}>" for n in range(5)] + ["_:b1", "_:b2"]
CLASSES = [f"<{E}C{n}>" for n in range(3)]
VALUES = ['"1"', '"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"a"@en']


def recount(store: Store) -> Counts:
    """The same counts, asked of the engine."""

    def ask(text: str) -> list[tuple[object, ...]]:
        found = store.query(text)
        names = [one.value for one in found.variables]  # type: ignore[union-attr]
        return [
            tuple(int(row[n].value) if n in "txy" else str(row[n]) for n in names)
            for row in found  # type: ignore
        ]

    (((total, subjects, objects),)) = ask(
        "SELECT (COUNT(*) AS ?t) (COUNT(DISTINCT ?s) AS ?x) (COUNT(DISTINCT ?o) AS ?y) { ?s ?p ?o }"
    )
    return Counts(
        total, subjects, objects,  # type: ignore[arg-type]
        {p: (t, x, y) for p, t, x, y in ask(  # type: ignore[misc]
            "SELECT ?p (COUNT(*) AS ?t) (COUNT(DISTINCT ?s) AS ?x) (COUNT(DISTINCT ?o) AS ?y) "
            "{ ?s ?p ?o } GROUP BY ?p")},
        {c: (x, t) for c, x, t in ask(  # type: ignore[misc]
            "SELECT ?c (COUNT(DISTINCT ?s) AS ?x) (COUNT(*) AS ?t) { ?s a ?c ; ?p ?o } GROUP BY ?c")},
        {(c, p): (t, x) for c, p, t, x in ask(  # type: ignore[misc]
            "SELECT ?c ?p (COUNT(*) AS ?t) (COUNT(DISTINCT ?s) AS ?x) { ?s a ?c ; ?p ?o } GROUP BY ?c ?p")},
    )  # fmt: skip


def database() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def rebuilt(store: Store) -> sqlite3.Connection:
    db = database()
    Statistics().rebuild(db, store)
    return db


statement = st.one_of(
    st.tuples(st.sampled_from(NODES), st.just(A), st.sampled_from([*CLASSES, *NODES])),
    st.tuples(
        st.sampled_from(NODES), st.sampled_from([f"<{E}p>", f"<{E}q>"]), st.sampled_from([*NODES, *VALUES, *CLASSES])
    ),
).map(" ".join)
side = st.dictionaries(st.sampled_from(["", "", f"{E}g1", f"{E}g2"]), st.frozensets(statement, max_size=8))


def entries(changes: Iterable[tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]]) -> list[Entry]:
    return [Entry(n + 1, n, f"t{n}", (), Change(*change)) for n, change in enumerate(changes)]


@settings(max_examples=40)
@given(st.lists(st.tuples(side, side), max_size=6), st.integers(1, 3))
def test_counts_kept_by_deltas_equal_a_full_recount_and_counts_made_anew(changes, together) -> None:  # type: ignore
    with TemporaryDirectory() as folder:
        store = Store(folder)
        db = rebuilt(store)
        statistics = Statistics()
        history = entries(changes)
        for start in range(0, len(history), together):
            entry = exact(merged(history[start : start + together]), store)
            statistics.before(entry, store)
            entry.change.apply(store)
            statistics.apply(db, entry, store)
            assert counts(db) == recount(store)
        anew = rebuilt(store)
        assert counts(anew) == counts(db)
        assert graphs(db, E, limit=9) == graphs(anew, E, limit=9)
        del store


@settings(max_examples=60)
@given(st.lists(st.tuples(side, side), min_size=1, max_size=5))
def test_entries_that_were_merged_take_a_store_where_one_after_the_other_does(changes) -> None:  # type: ignore
    one, other = Store(), Store()
    for entry in entries(changes):
        entry.change.apply(one)
    merged(entries(changes)).change.apply(other)
    assert set(one) == set(other)
    assert set(one.named_graphs()) == set(other.named_graphs())


def test_a_plain_store_hides_its_system_graphs_and_an_empty_graph_is_counted_as_empty(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    store.load(
        f'<{E}system/store> <https://w3id.org/graphtide/ns#merge> "false" <{E}system/cursor> .\n'
        f"<{E}a> <{E}p> <{E}b> <{E}mine> .\n".encode(),
        RdfFormat.N_QUADS,
    )
    db, statistics = rebuilt(store), Statistics()
    assert graphs(db, E, limit=9) == ([(f"{E}mine", 1)], 1)
    told = f"<{E}empty> {A} <https://w3id.org/graphtide/ns#Graph>"
    for change in (Change(added={f"{E}system/graphs": frozenset({told})}), Change(removed={f"{E}mine": frozenset(
        {f"<{E}a> <{E}p> <{E}b>"})})):  # fmt: skip
        entry = exact(Entry(1, 0, "", (), change), store)
        statistics.before(entry, store)
        change.apply(store)
        statistics.apply(db, entry, store)
    assert graphs(db, E, limit=9) == ([(f"{E}empty", 0)], 1)


def test_the_last_commit_of_each_source_is_known_from_the_journal_and_from_deltas(tmp_path: Path) -> None:
    prov, xsd = "http://www.w3.org/ns/prov#", "http://www.w3.org/2001/XMLSchema#"

    def activity(n: int, source: str) -> frozenset[str]:
        me = f"<{E}system/commit/{n}>"
        return frozenset({f"{me} <{prov}used> <{E}system/source/{source}>",
                          f'{me} <{prov}endedAtTime> "2026-01-0{n}T00:00:00Z"^^<{xsd}dateTime>'})  # fmt: skip

    store = Store(str(tmp_path))
    journal = f"{E}system/journal"
    Change(added={journal: activity(1, "a") | activity(2, "a") | activity(1, "b")}).apply(store)
    db, statistics = rebuilt(store), Statistics()
    assert [(row[0][-1], row[1][-1]) for row in syncs(db)] == [("a", "2"), ("b", "1")]
    entry = exact(Entry(3, 2, "", (), Change(added={journal: activity(3, "b")})), store)
    statistics.before(entry, store)
    entry.change.apply(store)
    statistics.apply(db, entry, store)
    assert [(row[0][-1], row[1][-1]) for row in syncs(db)] == [("b", "3"), ("a", "2")]
