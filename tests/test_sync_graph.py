"""The graph says what the records say: refcounts, scopes, refusals, holds, the fuse."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ontology.facts import GT, RDF, Facts, string
from sources.record import Batch, Moved, ReadError, Record
from sparql import journal
from sparql.names import Names
from sparql.store import Store, open_store
from sparql.sync import Plan, SyncReport, build, sync, sync_many, unreadable
from transforms.mapping import MappingError

BASE = "http://localhost:8000/"
E = "http://example.org/"


@dataclass(frozen=True)
class Says:
    """A mapping whose records list what they say: `s p o` triples of local names, `?` for a bad value."""

    source: str
    version: str = "1"

    def facts(self, record: Record) -> Facts:
        lines = set()
        for said in record.data["says"]:
            if "?" in said:
                raise MappingError(record.locator, "says", said, "not a fact")
            s, p, o = said.split(" ")
            lines.add(f"<{E}{s}> <{E}{p}> <{E}{o}>")
        return Facts(Names(BASE).record(self.source, record.key), frozenset(lines), record.locator)


def plan(source: str = "t", version: str = "1", **more: Any) -> Plan:
    return Plan(source, Says(source, version), **more)


def rows(scope: str, *said: tuple[str, str], source: str = "t", start: int = 1, **more: Any) -> Batch:
    """A complete batch of (key, what it says: statements apart by `;`)."""
    records = [
        Record(source, key, {"says": [one for one in text.split(";") if one]}, f"{scope}:{start + number}")
        for number, (key, text) in enumerate(said)
    ]
    more.setdefault("cursor", repr((said, start)))
    return Batch(source, scope, records, **more)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "state", BASE) as opened:
        yield opened


def holds(store: Store) -> set[str]:
    """The default graph in short."""
    return {line.replace(f"<{E}", "").replace(">", "") for line in store.statements("")}


def said(store: Store, key: str, source: str = "t") -> set[str]:
    lines = store.statements(store.names.record(source, key))
    return {line.replace(f"<{E}", "").replace(">", "") for line in lines}


def test_a_record_says_its_facts_in_its_own_graph_and_they_hold(store: Store) -> None:
    report = sync(store, plan(), [rows("a.csv", ("1", "x p y;x p z"), ("2", "x p y"))])
    assert said(store, "1") == {"x p y", "x p z"} and said(store, "2") == {"x p y"}
    assert holds(store) == {"x p y", "x p z"}
    assert (report.read, report.changed, report.gone, report.added, report.removed) == (2, 2, 0, 3, 0)
    assert report.commit == store.head


def test_syncing_again_writes_nothing(store: Store) -> None:
    batch = [rows("a.csv", ("1", "x p y"), ("2", "x q ?"), ("3", "a b c"), ("3", "a b d"))]
    first = sync(store, plan(), batch)
    head = store.head
    again = sync(store, plan(), batch)
    assert store.head == head
    other_cursor = sync(store, plan(), [rows("b.csv")])
    assert (again.changed, again.rejected, first.rejected, other_cursor.rejected) == (0, 2, 2, 2)


def test_a_fact_said_by_two_records_survives_the_removal_of_one(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y;x p z"), ("2", "x p y"))])
    report = sync(store, plan(), [rows("a.csv", ("2", "x p y"))])
    assert holds(store) == {"x p y"}
    assert (report.gone, report.removed) == (1, 2)


def test_two_records_that_lose_a_fact_in_one_commit_lose_it_for_good(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y"), ("2", "x p y"))])
    sync(store, plan(), [rows("a.csv", ("1", "x p z"))])
    assert holds(store) == {"x p z"}


def test_a_refused_record_changes_not_at_all_and_is_held(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y;x p z"))])
    report = sync(store, plan(), [rows("a.csv", ("1", "x p new;x q ?"))])
    assert holds(store) == {"x p y", "x p z"}
    assert (report.changed, report.rejected, report.held) == (0, 1, 1)
    [row] = journal.refusals(store, store.names)
    assert (row["path"], row["value"], row["locator"], row["held"]) == ("says", '"x q ?"', "a.csv:1", True)
    assert row["message"] == "'says' is 'x q ?', not a fact."


def test_a_refused_record_whose_key_vanishes_is_removed(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y"), ("2", "x p z"))])
    sync(store, plan(), [rows("a.csv", ("1", "?"), ("2", "x p z"))])
    report = sync(store, plan(), [rows("a.csv", ("2", "x p z"))])
    assert holds(store) == {"x p z"}
    assert (report.gone, report.rejected) == (1, 0) and journal.violations(store, store.names) == []


def test_a_moved_row_changes_only_the_journal(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y"))])
    report = sync(store, plan(), [rows("a.csv", ("1", "x p y"), start=7)])
    assert (report.changed, report.added) == (0, 0)
    assert f'"a.csv:7"' in " ".join(store.statements(store.names.journal))  # noqa: F541


def test_a_key_met_twice_is_a_violation_that_names_both_places(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y"))])
    report = sync(store, plan(), [rows("a.csv", ("1", "x p a"), ("2", "b b b"), ("1", "x p c"))])
    assert holds(store) == {"x p y", "b b b"}
    assert (report.rejected, report.held) == (1, 1)
    [row] = journal.refusals(store, store.names)
    assert "a.csv:1, a.csv:3" in row["message"]
    sync(store, plan(), [rows("a.csv", ("1", "x p c"), ("2", "b b b"))])
    assert holds(store) == {"x p c", "b b b"} and journal.violations(store, store.names) == []


def test_a_key_in_two_scopes_is_held_until_one_gives_it_up(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p a"))])
    sync(store, plan(), [rows("b.csv", ("1", "x p b"))])
    assert holds(store) == {"x p a"}
    assert {row["locator"] for row in journal.refusals(store, store.names)} == {"a.csv:1", "b.csv:1"}
    report = sync(store, plan(), [rows("a.csv", cursor=None)])
    assert report.again == ("b.csv",) and holds(store) == {"x p a"}
    sync(store, plan(), [rows("b.csv", ("1", "x p b"))])
    assert holds(store) == {"x p b"} and journal.violations(store, store.names) == []


def test_a_record_that_moves_between_scopes_in_one_read_is_neither_gone_nor_twice(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p a")), rows("b.csv")])
    report = sync(store, plan(), [rows("b.csv", ("1", "x p a")), rows("a.csv", cursor=None)])
    assert holds(store) == {"x p a"} and (report.gone, report.rejected, report.changed) == (0, 0, 0)


def test_a_scope_that_cannot_be_read_keeps_its_last_good_facts(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y")), rows("b.csv", ("2", "x p z"))])

    def torn() -> Iterator[Record]:
        yield Record("t", "9", {"says": ["x p nine"]}, "a.csv:1")
        raise ReadError("a.csv:2", "it ends in the middle of a quoted field")

    report = sync(store, plan(), [Batch("t", "a.csv", torn()), rows("b.csv", ("2", "x p new"))])
    assert holds(store) == {"x p y", "x p new"}
    assert report.held == 1 and report.held_scopes == {"a.csv": "a.csv:2: it ends in the middle of a quoted field."}
    head = store.head
    sync(store, plan(), [unreadable("t", "a.csv", ReadError("a.csv:2", "it ends in the middle of a quoted field"))])
    assert store.head == head
    good = sync(store, plan(), [rows("a.csv", ("1", "x p y"))])
    assert good.held == 0 and journal.held_scopes(store, store.names, "t") == {}


def test_a_scope_that_moved_while_it_was_read_is_to_be_read_again(store: Store) -> None:
    sync(store, plan(), [rows("a.csv", ("1", "x p y"))])
    head = store.head
    report = sync(store, plan(), [unreadable("t", "a.csv", Moved("a.csv", "it changed while it was read"))])
    assert (report.again, report.held, store.head) == (("a.csv",), 0, head)


def test_the_fuse_stops_a_read_that_takes_away_too_much(store: Store) -> None:
    full = rows("a.csv", *((str(n), f"x p n{n}") for n in range(30)))
    fused = plan(fuse_count=5)
    sync(store, fused, [full])
    less = rows("a.csv", *((str(n), f"x p n{n}") for n in range(10)))
    report = sync(store, fused, [less])
    assert len(holds(store)) == 30 and report.held == 30
    assert "20 of 30" in report.message and "graphtide sync t --allow-deletes" in report.message
    assert journal.source_rows(store, store.names)[0]["state"] == "held"
    sync(store, fused, [less], allow_deletes=True)
    assert len(holds(store)) == 10 and journal.source_rows(store, store.names)[0]["state"] == "ok"
    sync(store, fused, [rows("a.csv", cursor=None)], events_deleted={"a.csv"})
    assert holds(store) == set()


def test_a_new_plan_takes_every_record_again_and_the_refused_too(store: Store) -> None:
    batch = [rows("a.csv", ("1", "x p y"), ("2", "?"))]
    sync(store, plan(), batch)
    report = sync(store, plan(version="2"), batch)
    assert (report.read, report.changed, report.rejected) == (2, 0, 1)
    assert {row.plan for row in scopes(store).values()} == {plan(version="2").version}


def scopes(store: Store) -> dict[str, Any]:
    from sparql.sync import scopes_of

    return scopes_of(store, "t")


def test_a_partial_batch_removes_only_what_it_says_is_gone(store: Store) -> None:
    sync(store, plan(), [rows("page", ("1", "x p a"), ("2", "x p b"))])
    sync(store, plan(), [rows("page", ("3", "x p c"), complete=False, gone=["1"])])
    assert holds(store) == {"x p b", "x p c"}


def test_low_evidence_stays_with_who_said_it(store: Store) -> None:
    def facts(confidence: str) -> Any:
        class Mapping:
            version = confidence

            def facts(self, record: Record) -> Facts:
                e = f"<{E}evidence>"
                parts = [f"<{RDF}subject> <{E}x>", f"<{RDF}predicate> <{E}p>", f"<{RDF}object> <{E}y>",
                         f"<{RDF}type> <{GT}Evidence>", f"<{GT}confidence> {string(confidence)}"]  # fmt: skip
                lines = [f"<{E}x> <{E}p> <{E}y>", f"<{E}x> <{E}p> <{E}z>", *(f"{e} {part}" for part in parts)]
                return Facts(Names(BASE).record("t", record.key), frozenset(lines), record.locator)

        return Mapping()

    sync(store, Plan("t", facts("0.4")), [rows("a", ("1", ""))])
    assert holds(store) == {"x p z"} and len(said(store, "1")) == 7
    sync(store, Plan("t", facts("0.9")), [rows("a", ("1", ""))])
    assert holds(store) == {"x p y", "x p z"}
    sync(store, Plan("t", facts("0.9"), holds_confidence=0.95), [rows("a", ("1", ""))])
    assert holds(store) == {"x p z"}


def test_a_fact_leaves_when_only_low_evidence_for_it_is_left(store: Store) -> None:
    class Doubts:
        version = "1"

        def facts(self, record: Record) -> Facts:
            lines = {f"<{E}x> <{E}p> <{E}y>", f"<{E}e> <{RDF}type> <{GT}Evidence>",
                     f"<{E}e> <{RDF}subject> <{E}x>", f"<{E}e> <{RDF}predicate> <{E}p>",
                     f"<{E}e> <{RDF}object> <{E}y>", f'<{E}e> <{GT}confidence> "0.1"'}  # fmt: skip
            return Facts(Names(BASE).record("doubts", record.key), frozenset(lines), record.locator)

    sync(store, plan(), [rows("a", ("1", "x p y"))])
    sync(store, Plan("doubts", Doubts()), [rows("a", ("1", ""), source="doubts")])
    assert holds(store) == {"x p y"}
    sync(store, plan(), [rows("a", cursor=None)])
    assert holds(store) == set()


def test_the_first_load_says_what_syncing_would_say(tmp_path: Path) -> None:
    batches = [rows("a.csv", ("1", "x p y"), ("2", "?"), ("3", "x q z")), rows("b.csv", ("3", "k k k"), ("4", ""))]
    with open_store(tmp_path / "one", BASE) as one, open_store(tmp_path / "two", BASE) as two:
        [built] = build(one, [(plan(), batches)])
        [synced] = sync_many(two, [(plan(), batches)])
        assert quads(one) == quads(two)
        assert without_time(built) == without_time(synced)
        assert holds(one) == {"x p y"} and built.rejected == 2
        head = one.head
        sync(one, plan(), batches)
        assert one.head == head


def quads(store: Store, *, system: bool = True) -> set[str]:
    """Everything but times and commit counts."""
    out = set()
    for quad in store.match():
        text = str(quad)
        if any(word in text for word in ("AtTime>", "ns#commit>")) or (not system and "/system/" in text):
            continue
        out.add(text)
    return out


def without_time(report: SyncReport) -> dict[str, Any]:
    return {key: value for key, value in report.to_dict().items() if key not in ("seconds", "violations")}


def test_commits_are_chunked_by_record_and_each_is_whole(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparql.sync.syncing.CHUNK", 60)
    sync(store, plan(), [rows("a.csv", *((str(n), f"x{n} p y;x{n} q z") for n in range(40)))])
    assert store.head > 3 and len(holds(store)) == 80
    head = store.head
    sync(store, plan(fuse_count=1000), [rows("a.csv", *((str(n), f"x{n} p new") for n in range(20, 60)))])
    assert store.head > head + 1 and holds(store) == {f"x{n} p new" for n in range(20, 60)}


def test_a_deleted_scope_goes_in_one_commit(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparql.sync.syncing.CHUNK", 60)
    sync(store, plan(), [rows("a.csv", *((str(n), f"x{n} p y;x{n} q z") for n in range(150)))])
    head = store.head
    report = sync(store, plan(), [Batch("t", "a.csv", ())], events_deleted={"a.csv"})
    assert (report.gone, store.head, holds(store)) == (150, head + 1, set())


def test_a_commit_is_an_activity_while_a_record_comes_from_it(store: Store) -> None:
    for number in range(5):
        sync(store, plan(), [rows("a.csv", ("1", f"x p n{number}"), ("2", "x q z"))])
    assert [row["commit"].rsplit("/", 1)[1] for row in journal.commits(store, store.names)] == [
        str(store.head), str(store.head - 4),
    ]  # fmt: skip


def test_locators_with_odd_characters_do_not_write_again(store: Store) -> None:
    odd = [Batch("t", "a", [Record("t", "k", {"says": ["x p y"]}, 'a\t"\\\n\x01é\u2028:1')], cursor=None)]
    sync(store, plan(), odd)
    head = store.head
    sync(store, plan(), odd)
    assert store.head == head
