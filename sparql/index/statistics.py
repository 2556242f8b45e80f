"""What the default graph holds is counted once and kept by deltas: it equals a full recount at every commit.

Of each property: its statements, distinct subjects and distinct objects. Of each class: its instances and the
statements about them, also by property. Of each named graph: its statements. Terms are spelled as in N-Triples.
The store is one on disk: a count from nothing relies on the order of its indexes, which one in memory does not have.
"""

from __future__ import annotations

import sqlite3
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store

from ontology.facts import GT, PROV, RDF
from sparql.index.following import Exact
from sparql.log import Change
from sparql.names import GRAPHS

TYPE = NamedNode(RDF + "type")
USED, STARTED, ENDED = (NamedNode(PROV + name) for name in ("used", "startedAtTime", "endedAtTime"))
MERGE = NamedNode(GT + "merge")
DEFAULT = DefaultGraph()
SCHEMA = """
CREATE TABLE void_total (name TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE void_property (
    property TEXT PRIMARY KEY, triples INTEGER NOT NULL, subjects INTEGER NOT NULL, objects INTEGER NOT NULL)
    WITHOUT ROWID;
CREATE TABLE void_class (class TEXT PRIMARY KEY, entities INTEGER NOT NULL, triples INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE void_class_property (
    class TEXT NOT NULL, property TEXT NOT NULL, triples INTEGER NOT NULL, subjects INTEGER NOT NULL,
    PRIMARY KEY (class, property)) WITHOUT ROWID;
CREATE TABLE void_graph (graph TEXT PRIMARY KEY, triples INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE void_sync (
    source TEXT PRIMARY KEY, activity TEXT NOT NULL, started TEXT NOT NULL, ended TEXT NOT NULL) WITHOUT ROWID;
"""
_TOTALS = ("triples", "subjects", "objects", "plain")
_BUCKETS = 64

Term = Any


@dataclass(frozen=True, slots=True)
class Counts:
    """What a graph holds, comparable between two ways of counting. Rows of nothing are left out."""

    triples: int
    subjects: int
    objects: int
    properties: Mapping[str, tuple[int, int, int]]
    """property: (triples, distinct subjects, distinct objects)"""
    classes: Mapping[str, tuple[int, int]]
    """class: (instances, statements about them)"""
    by_class: Mapping[tuple[str, str], tuple[int, int]]
    """class, property: (statements, distinct subjects)"""


@dataclass
class _Seen:
    """What was there before an entry, of all that the entry touches."""

    removed: list[Quad] = field(default_factory=list)
    added: list[Quad] = field(default_factory=list)
    graphs: Counter[str] = field(default_factory=Counter)
    there: dict[tuple[Term, Term, Term], bool] = field(default_factory=dict)
    now: dict[tuple[Term, Term, Term], bool] = field(default_factory=dict)
    types: dict[Term, frozenset[Term]] = field(default_factory=dict)
    says: dict[Term, Counter[Term]] = field(default_factory=dict)
    told: set[str] = field(default_factory=set)
    activities: set[tuple[str, str, str]] = field(default_factory=set)


class Statistics:
    """Keeps the counts. Lookups for a statement are four to eight, whatever the size of the graph."""

    name = "statistics"
    version = 1

    def __init__(self) -> None:
        self._seen = _Seen()

    def rebuild(self, db: sqlite3.Connection, store: Store) -> None:
        """The counts are those of the store. Needs eight bytes a distinct object, and a row a class and property."""
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                db.execute(statement)
        triples, subjects = _count_subjects(db, store)
        objects = _count_objects(db, store)
        plain = int(next(store.quads_for_pattern(None, MERGE, Literal("false"), None), None) is not None)
        totals = (triples, subjects, objects, plain)
        db.executemany("INSERT INTO void_total VALUES (?, ?)", zip(_TOTALS, totals, strict=True))
        graphs = {graph.value: 0 for graph in store.named_graphs() if isinstance(graph, NamedNode)}
        for row in store.query("SELECT ?g (COUNT(*) AS ?n) { GRAPH ?g { ?s ?p ?o } } GROUP BY ?g"):  # type: ignore[union-attr]
            graphs[row["g"].value] = int(row["n"].value)
        db.executemany("INSERT INTO void_graph VALUES (?, ?)", graphs.items())
        _sync(db, store, [_activity(quad) for quad in store.quads_for_pattern(None, USED, None) if _journal(quad)])

    def before(self, entry: Exact, store: Store) -> None:
        """What the counts need to know of the store before `entry`."""
        seen = self._seen = _Seen()
        for quad in entry.removed:
            _note(seen, quad, -1)
        for quad in entry.added:
            _note(seen, quad, 1)
        seen.told = _told(entry.change)
        _look(seen, store)

    def apply(self, db: sqlite3.Connection, entry: Exact, store: Store) -> None:
        """The counts are those of the store, which stands at `entry`."""
        seen, self._seen = self._seen, _Seen()
        _apply_terms(db, seen, store)
        _apply_classes(db, seen)
        touched = {*seen.graphs, *seen.told}
        for graph in touched:
            db.execute(
                "INSERT INTO void_graph VALUES (?, ?) "
                "ON CONFLICT(graph) DO UPDATE SET triples = triples + excluded.triples",
                (graph, seen.graphs[graph]),
            )
        for graph in {*touched, *entry.change.removed} - {""}:
            if not store.contains_named_graph(NamedNode(graph)):
                db.execute("DELETE FROM void_graph WHERE graph = ?", (graph,))
        _sync(db, store, seen.activities)


def counts(db: sqlite3.Connection) -> Counts:
    """The counts as kept."""
    total = dict(db.execute("SELECT name, n FROM void_total"))
    return Counts(
        total["triples"],
        total["subjects"],
        total["objects"],
        {name: (n, subjects, objects) for name, n, subjects, objects in db.execute("SELECT * FROM void_property")},
        {name: (entities, n) for name, entities, n in db.execute("SELECT * FROM void_class")},
        {(one, name): (n, subjects) for one, name, n, subjects in db.execute("SELECT * FROM void_class_property")},
    )  # fmt: skip


def graphs(db: sqlite3.Connection, base: str, *, limit: int, own: bool = True) -> tuple[list[tuple[str, int]], int]:
    """(graph, statements) of at most `limit` named graphs by name, and how many there are.

    Without `own`, only those that neither a source nor the system wrote. The system graphs of a plain store are none.
    """
    plain = db.execute("SELECT n FROM void_total WHERE name = 'plain'").fetchone()[0]
    hidden = ["system/"] if plain else [] if own else ["system/", "record/"]
    where = " AND ".join(["substr(graph, 1, ?) != ?"] * len(hidden)) or "1"
    values = [value for start in hidden for value in (len(base + start), base + start)]
    rows = db.execute(f"SELECT graph, triples FROM void_graph WHERE {where} ORDER BY graph LIMIT ?", (*values, limit))
    total = db.execute(f"SELECT COUNT(*) FROM void_graph WHERE {where}", values).fetchone()[0]
    return [(graph, triples) for graph, triples in rows], int(total)


def syncs(db: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    """(source, activity, started, ended) of the last commit of each source, the newest first."""
    return db.execute("SELECT source, activity, started, ended FROM void_sync ORDER BY ended DESC, source").fetchall()


# -- deltas


def _note(seen: _Seen, quad: Quad, sign: int) -> None:
    if quad.graph_name == DEFAULT:
        (seen.added if sign > 0 else seen.removed).append(quad)
        return
    seen.graphs[_graph(quad)] += sign
    if sign > 0 and quad.predicate == USED and _journal(quad):
        seen.activities.add(_activity(quad))


def _graph(quad: Quad) -> str:
    graph: Term = quad.graph_name
    return str(graph.value)


def _activity(quad: Quad) -> tuple[str, str, str]:
    """(source, activity, graph) of the statement that an activity used a source."""
    source: Term = quad.object
    activity: Term = quad.subject
    return source.value, activity.value, _graph(quad)


def _keys(quad: Quad) -> Iterator[tuple[Term, Term, Term]]:
    yield quad.subject, None, None
    yield quad.subject, quad.predicate, None
    yield None, None, quad.object
    yield None, quad.predicate, quad.object


def _find(there: dict[tuple[Term, Term, Term], bool], quad: Quad, store: Store) -> None:
    """What is there of a quad's terms: where a term is with this property, it is."""
    for key, wider in (
        ((quad.subject, quad.predicate, None), (quad.subject, None, None)),
        ((None, quad.predicate, quad.object), (None, None, quad.object)),
    ):
        if key not in there:
            there[key] = there.get(wider) is not False and _any(store, key)
        if there[key]:
            there[wider] = True
        elif wider not in there:
            there[wider] = _any(store, wider)


def _any(store: Store, key: tuple[Term, Term, Term]) -> bool:
    return next(store.quads_for_pattern(*key, DEFAULT), None) is not None


def _look(seen: _Seen, store: Store) -> None:
    """What is there of all that the delta touches: of what it removes from, something is."""
    for quad in seen.removed:
        for key in _keys(quad):
            seen.there[key] = True
    for quad in seen.added:
        _find(seen.there, quad, store)
    retyped = {quad.subject for quads in (seen.removed, seen.added) for quad in quads if quad.predicate == TYPE}
    for subject in {quad.subject for quads in (seen.removed, seen.added) for quad in quads}:
        if seen.there.get((subject, TYPE, None), seen.there[subject, None, None]):
            types = store.quads_for_pattern(subject, TYPE, None, DEFAULT)
            seen.types[subject] = frozenset(quad.object for quad in types)
        else:
            seen.types[subject] = frozenset()
    for subject in retyped:
        seen.says[subject] = Counter(quad.predicate for quad in store.quads_for_pattern(subject, None, None, DEFAULT))


def _apply_terms(db: sqlite3.Connection, seen: _Seen, store: Store) -> None:
    now = seen.now = {key: True for quad in seen.added for key in _keys(quad)}
    for quad in seen.removed:
        _find(now, quad, store)
    total: Counter[str] = Counter(triples=len(seen.added) - len(seen.removed))
    properties: dict[Term, list[int]] = defaultdict(lambda: [0, 0, 0])
    for quads, sign in ((seen.added, 1), (seen.removed, -1)):
        for quad in quads:
            properties[quad.predicate][0] += sign
    for key, there in now.items():
        difference = int(there) - int(seen.there[key])
        if difference:
            subject, predicate, _ = key
            place = 1 if subject is not None else 2
            if predicate is None:
                total["subjects" if place == 1 else "objects"] += difference
            else:
                properties[predicate][place] += difference
    db.executemany("UPDATE void_total SET n = n + ? WHERE name = ?", [(n, name) for name, n in total.items() if n])
    _add(db, "void_property", ("property",), ("triples", "subjects", "objects"),
         [(str(name), *found) for name, found in properties.items() if any(found)])  # fmt: skip


def _apply_classes(db: sqlite3.Connection, seen: _Seen) -> None:
    classes: dict[Term, list[int]] = defaultdict(lambda: [0, 0])
    cells: dict[tuple[Term, Term], list[int]] = defaultdict(lambda: [0, 0])
    delta: dict[Term, Counter[Term]] = defaultdict(Counter)
    types: dict[Term, set[Term]] = {subject: set(found) for subject, found in seen.types.items()}
    for quads, sign in ((seen.removed, -1), (seen.added, 1)):
        for quad in quads:
            delta[quad.subject][quad.predicate] += sign
            if quad.predicate == TYPE:
                (types[quad.subject].add if sign > 0 else types[quad.subject].discard)(quad.object)
    held = _held(seen, delta)
    for subject, changed in delta.items():
        old, new = seen.types[subject], types[subject]
        for one in old & new:
            classes[one][1] += sum(changed.values())
            for predicate, n in changed.items():
                cell = cells[one, predicate]
                cell[0] += n
                cell[1] += held[subject, predicate]
        if old != new:
            before = seen.says[subject]
            after = Counter(before)
            after.update(changed)
            for found, says, sign in ((old - new, before, -1), (new - old, after, 1)):
                for one in found:
                    classes[one][0] += sign
                    classes[one][1] += sign * says.total()
                    for predicate, n in says.items():
                        if n:
                            cell = cells[one, predicate]
                            cell[0] += sign * n
                            cell[1] += sign
    _add(db, "void_class", ("class",), ("entities", "triples"),
         [(str(one), *found) for one, found in classes.items() if any(found)])  # fmt: skip
    _add(db, "void_class_property", ("class", "property"), ("triples", "subjects"),
         [(str(one), str(name), *found) for (one, name), found in cells.items() if any(found)])  # fmt: skip


def _held(seen: _Seen, delta: Mapping[Term, Counter[Term]]) -> Mapping[tuple[Term, Term], int]:
    """How many subjects more (1), or less (-1), say something with a property, for each that is touched."""
    return {
        (subject, predicate): int(seen.now[subject, predicate, None]) - int(seen.there[subject, predicate, None])
        for subject, changed in delta.items()
        for predicate in changed
    }


def _add(
    db: sqlite3.Connection, table: str, keys: tuple[str, ...], values: tuple[str, ...], rows: list[tuple[Any, ...]]
) -> None:
    """Each row is added to the one of its key; one of no statements is not there."""
    columns = (*keys, *values)
    sets = ", ".join(f"{name} = {name} + excluded.{name}" for name in values)
    db.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT({', '.join(keys)}) DO UPDATE SET {sets}",
        rows,
    )
    # A class whose instances are in the graph has at least the statements that say so.
    db.executemany(
        f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in keys)} AND triples = 0",
        [row[: len(keys)] for row in rows],
    )


def _told(change: Change) -> set[str]:
    """The graphs that the change says are there, or are not, though they may be empty."""
    found = set()
    for side in (change.removed, change.added):
        for graph, statements in side.items():
            if graph.endswith(GRAPHS):
                found |= {line[1 : line.index(">")] for line in statements if line.startswith("<")}
    return found


def _journal(quad: Quad) -> bool:
    return isinstance(quad.graph_name, NamedNode) and quad.graph_name.value.endswith("system/journal")


def _sync(db: sqlite3.Connection, store: Store, found: Iterable[tuple[str, str, str]]) -> None:
    """The newest of these activities of each source is the last one of it."""
    for source, activity, graph in found:
        started, ended = (
            next((quad.object.value for quad in store.quads_for_pattern(
                NamedNode(activity), one, None, NamedNode(graph)) if isinstance(quad.object, Literal)), "")
            for one in (STARTED, ENDED)
        )  # fmt: skip
        db.execute(
            "INSERT INTO void_sync VALUES (?, ?, ?, ?) ON CONFLICT(source) DO UPDATE SET activity = excluded.activity, "
            "started = excluded.started, ended = excluded.ended WHERE excluded.ended >= ended",
            (source, activity, started, ended),
        )


# -- from nothing


def _count_subjects(db: sqlite3.Connection, store: Store) -> tuple[int, int]:
    """(triples, distinct subjects); what is counted by class is written."""
    classes: dict[Term, list[int]] = defaultdict(lambda: [0, 0])
    cells: dict[tuple[Term, Term], list[int]] = defaultdict(lambda: [0, 0])
    seen: dict[Term, int] = Counter()
    triples = subjects = 0
    last: Term = None
    types: list[Term] = []
    says: Counter[Term] = Counter()

    def done() -> None:
        total = says.total()
        for one in types:
            found = classes[one]
            found[0] += 1
            found[1] += total
            for predicate, n in says.items():
                cell = cells[one, predicate]
                cell[0] += n
                cell[1] += 1
        seen.update(says.keys())

    for quad in store.quads_for_pattern(None, None, None, DEFAULT):  # by subject: its index is SPO
        subject = quad.subject
        if subject != last:
            done()
            last, types, says = subject, [], Counter()
            subjects += 1
        triples += 1
        predicate = quad.predicate
        says[predicate] += 1
        if predicate == TYPE:
            types.append(quad.object)
    done()
    db.executemany("INSERT INTO void_class VALUES (?, ?, ?)", [(str(one), *found) for one, found in classes.items()])
    db.executemany("INSERT INTO void_class_property VALUES (?, ?, ?, ?)",
                   [(str(one), str(name), *found) for (one, name), found in cells.items()])  # fmt: skip
    db.executemany("INSERT INTO void_property VALUES (?, 0, ?, 0)", [(str(name), n) for name, n in seen.items()])
    return triples, subjects


def _count_objects(db: sqlite3.Connection, store: Store) -> int:
    """How many distinct objects there are; those of each property are written."""
    buckets = [array("q") for _ in range(_BUCKETS)]
    for (name,) in db.execute("SELECT property FROM void_property").fetchall():
        triples = objects = 0
        last: Term = None
        for quad in store.quads_for_pattern(None, NamedNode(name[1:-1]), None, DEFAULT):  # by object: POS
            value = quad.object
            triples += 1
            if value != last:
                last = value
                objects += 1
                digest = hash(value)
                buckets[digest % _BUCKETS].append(digest)
        db.execute("UPDATE void_property SET triples = ?, objects = ? WHERE property = ?", (triples, objects, name))
    return sum(len(set(bucket)) for bucket in buckets)


__all__ = ["Counts", "Statistics", "counts", "graphs", "syncs"]
