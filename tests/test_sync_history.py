"""After any history the graph is what its accepted records make of it, and syncing again writes nothing."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.record import Batch, ReadError, Record
from sparql import journal
from sparql.log import LogReader
from sparql.store import Store, open_store
from sparql.sync import SyncReport, build, cursors, scopes_of, sync_many, unreadable, verify
from tests.test_sync_graph import BASE, E, plan
from transforms.rules import load_rq

SOURCES, SCOPES, KEYS = ("s", "t"), ("a.csv", "b.csv"), ("1", "2", "3", "4")
FACTS = ("x p y", "x p z", "y team n", "z team n", "t named n", "u named n", "y team m", "?")
OWNER = load_rq("owner", f"CONSTRUCT {{ ?t <{E}owns> ?s }} WHERE {{ ?s <{E}team> ?n . ?t <{E}named> ?n }}")
LONELY = load_rq(
    "lonely",
    f"CONSTRUCT {{ ?s <{E}is> <{E}lonely> }} WHERE {{ ?s <{E}team> ?n FILTER NOT EXISTS {{ ?t <{E}owns> ?s }} }}",
)
RULES = (OWNER, LONELY)
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # a sync of the disk costs more than what is tested here

Row = tuple[str, str]
says = st.sets(st.sampled_from(FACTS), max_size=3).map(lambda found: ";".join(sorted(found)))
table = st.lists(st.tuples(st.sampled_from(KEYS), says), max_size=5)
edit = st.tuples(st.sampled_from(SOURCES), st.sampled_from(SCOPES), st.one_of(table, st.just(None), st.just("torn")))
step = st.tuples(
    st.lists(edit, min_size=1, max_size=3), st.sampled_from(["all", "live"]), st.booleans(), st.integers(0, 9)
)


class World:
    """Files as they are, and what should have been accepted of them: a second, slow and simple account of sync."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], Any] = {}
        self.claims: dict[tuple[str, str], list[Row]] = {}
        self.accepted: dict[str, dict[str, str]] = {source: {} for source in SOURCES}
        self.version = "1"

    def batch(self, source: str, scope: str) -> Batch:
        found = self.files.get((source, scope))
        if found == "torn":
            return unreadable(source, scope, ReadError(scope, "it is torn"))
        if found is None:
            return Batch(source, scope, [])
        records = [
            Record(source, key, {"says": [one for one in text.split(";") if one]}, f"{scope}:{number}")
            for number, (key, text) in enumerate(found, 1)
        ]
        return Batch(source, scope, records, cursor=repr(found))

    def expect(self, source: str, scopes: set[str], fuse: int) -> bool:
        """Take these scopes of one source; False when the fuse stops it."""
        now = dict(self.claims)
        read = [scope for scope in scopes if self.files.get((source, scope)) != "torn"]
        for scope in read:
            now[source, scope] = list(self.files.get((source, scope)) or [])
        by_key: dict[str, list[tuple[str, str]]] = {}
        for scope in SCOPES:
            for key, text in now.get((source, scope), []):
                by_key.setdefault(key, []).append((scope, text))
        mine = self.accepted[source]
        gone = [key for key in mine if key not in by_key]
        if len(gone) > fuse and len(gone) > 0.2 * len(mine):
            return False
        self.claims = now
        for key in gone:
            del mine[key]
        for key, found in by_key.items():
            if len(found) == 1 and found[0][0] in read and "?" not in found[0][1]:
                mine[key] = found[0][1]
        return True

    def quads(self) -> set[str]:
        """What the graph should say, system graphs apart."""
        out, merged = set(), set()
        for source, records in self.accepted.items():
            for key, text in records.items():
                for one in text.split(";"):
                    if one:
                        s, p, o = one.split(" ")
                        line = f"<{E}{s}> <{E}{p}> <{E}{o}>"
                        merged.add(line)
                        out.add(f"{line} <{BASE}record/{source}/{key}>")
        triples = {tuple(part[1:-1].removeprefix(E) for part in line.split(" ")) for line in merged}
        owns = {(t, "owns", s) for t, p, n in triples if p == "named" for s, q, m in triples if q == "team" and m == n}
        lonely = {(s, "is", "lonely") for s, q, _ in triples if q == "team" and not any(o[2] == s for o in owns)}
        for rule, found in (("owner", owns), ("lonely", lonely)):
            for s, p, o in found:
                line = f"<{E}{s}> <{E}{p}> <{E}{o}>"
                merged.add(line)
                out.add(f"{line} <{BASE}record/rule/{rule}/http:%2F%2Fexample.org%2F{s}>")
        return out | merged


def facts(store: Store) -> set[str]:
    """Everything but the system graphs."""
    out = set()
    for quad in store.match():
        graph = str(quad.graph_name)
        if "/system/" not in graph:
            line = f"{quad.subject} {quad.predicate} {quad.object}"
            out.add(line if graph == "DEFAULT" else f"{line} {graph}")
    return out


def sync_world(store: Store, world: World, scopes: dict[str, set[str]], fuse: int) -> None:
    """One sync of these scopes of these sources, and again what it asks for again."""
    while scopes:
        pairs = []
        for source, names in scopes.items():
            pairs.append((plan(source, world.version, fuse_count=fuse),
                          [world.batch(source, scope) for scope in sorted(names)]))  # fmt: skip
        head = store.head
        reports = sync_many(store, pairs, rules=RULES)
        for source, names in scopes.items():
            fine = world.expect(source, names, fuse)
            report = next(one for one in reports if one.source == source)
            assert fine == (not report.message), report.message
            if report.commit == store.head and store.head != head:
                logged = next(one for one in reversed(list(store_log(store)))
                              if one["source"] == source)  # fmt: skip
                assert (logged["rejected"], logged["held"]) == (report.rejected, report.held)
        scopes = {report.source: set(report.again) for report in reports if report.again}


def store_log(store: Store) -> Iterator[Any]:
    for entry in LogReader(store.state, store.head - 1).entries():
        yield from entry.report


def live(world: World, edits: list[tuple[str, str, Any]]) -> dict[str, set[str]]:
    out: dict[str, set[str]] = {}
    for source, scope, _ in edits:
        out.setdefault(source, set()).add(scope)
    return out


def run(store: Store, history: list[Any], path: Path) -> None:
    world = World()
    for edits, how, fuse, version in history:
        for source, scope, found in edits:
            world.files[source, scope] = found
        if version == 0:
            world.version += "'"
        everything = {source: set(SCOPES) for source in SOURCES}
        # A mapping that changed is taken up by reading everything.
        scopes = live(world, edits) if how == "live" and version else everything
        sync_world(store, world, scopes, 1 if fuse else 100)
        assert facts(store) == world.quads()
    head = store.head
    sync_world(store, world, {source: set(SCOPES) for source in SOURCES}, 100)
    sync_world(store, world, {source: set(SCOPES) for source in SOURCES}, 100)
    assert facts(store) == world.quads()
    settled = store.head
    sync_world(store, world, {source: set(SCOPES) for source in SOURCES}, 100)
    assert store.head == settled and settled - head <= 4
    rows = {row["name"]: row["records"] for row in journal.source_rows(store, store.names)}
    assert rows == {source: len(records) for source, records in world.accepted.items()}
    check_verified(store, world)
    check_built(store, world, path)


def check_verified(store: Store, world: World) -> None:
    pairs = [(plan(source, world.version), [world.batch(source, scope) for scope in SCOPES]) for source in SOURCES]
    report = verify(store, pairs, rules=RULES)
    assert report.clean and not report.behind, report.to_dict()


def check_built(store: Store, world: World, path: Path) -> None:
    """A fresh build of the accepted records says the same."""
    pairs = []
    for source, records in world.accepted.items():
        rows = [Record(source, key, {"says": [one for one in text.split(";") if one]}, key)
                for key, text in records.items()]  # fmt: skip
        pairs.append((plan(source), [Batch(source, "all", rows, cursor="1")]))
    with open_store(path / "fresh", BASE) as fresh:
        build(fresh, pairs, rules=RULES)
        assert facts(fresh) == facts(store)


@settings(max_examples=25)
@given(st.lists(step, min_size=1, max_size=6))
def test_after_any_history_the_graph_is_what_the_accepted_records_say(history: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, open_store(Path(folder) / "state", BASE) as store:
        run(store, history, Path(folder))


@pytest.mark.soak
@settings(max_examples=400)
@given(st.lists(step, min_size=10, max_size=40))
def test_after_any_long_history_the_graph_is_what_the_accepted_records_say(history: list[Any]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, open_store(Path(folder) / "state", BASE) as store:
        run(store, history, Path(folder))


@settings(max_examples=15)
@given(st.dictionaries(st.tuples(st.sampled_from(SOURCES), st.sampled_from(SCOPES)), table, min_size=1),
       st.randoms(use_true_random=False))  # fmt: skip
def test_any_order_of_records_batches_and_sources_ends_in_the_same_graph_and_report(
    files: dict[tuple[str, str], list[Row]], chance: random.Random
) -> None:
    def batches(source: str) -> Iterator[Batch]:
        scopes = [scope for name, scope in files if name == source]
        chance.shuffle(scopes)
        for scope in scopes:
            rows = [Record(source, key, {"says": [one for one in text.split(";") if one]}, f"{scope}:{number}")
                    for number, (key, text) in enumerate(files[source, scope])]  # fmt: skip
            chance.shuffle(rows)
            yield Batch(source, scope, rows, cursor="1")

    found = []
    for way in ("build", "together", "apart"):
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder, open_store(Path(folder) / "state", BASE) as store:
            pairs = [(plan(source), batches(source)) for source in SOURCES]
            chance.shuffle(pairs)
            if way == "build":
                build(store, pairs, rules=RULES)
            elif way == "together":
                sync_many(store, pairs, rules=RULES)
            else:
                for pair in pairs:
                    sync_many(store, [pair], rules=RULES)
            found.append((facts(store), journal.violations(store, store.names, None, 1000),
                          [cursors(store, one, plan(one).version) for one in SOURCES],
                          [set(scopes_of(store, one)) for one in SOURCES]))  # fmt: skip
    assert found[0] == found[1] == found[2]


def test_two_reads_in_a_row_make_one_report() -> None:
    first = SyncReport("s", read=2, changed=1, rejected=1, again=("b.csv",), cursor="1", seconds=1.0, notes=("x",))
    later = SyncReport("s", read=1, changed=1, commit=7, seconds=0.5, notes=("x", "y"))
    assert first.then(later) == SyncReport("s", read=3, changed=2, commit=7, cursor="1", seconds=1.5, notes=("x", "y"))
