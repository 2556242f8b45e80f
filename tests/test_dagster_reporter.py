"""The reporter tells a Dagster instance what the change log says: in sums, once, and also after a restart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project import retention
from dagster_project.home import prepare
from dagster_project.reporter import CURSOR, Reporter
from sparql.log import Change, Entry, Head, Log
from sparql.store.socket import serve

SHAPE = "https://shop.example/ns#TierShape"


class Writer:
    """A writer as the reporter sees it: a log, its published head, and a socket that tells the status."""

    def __init__(self, state: Path) -> None:
        state.mkdir(parents=True)
        self.state, self.log, self.head = state, Log(state), Head(state)
        self.row: dict[str, Any] = {"name": "services", "state": "ok", "records": 3, "rejected": 4, "checks": []}
        self.bad: list[dict[str, Any]] = []
        self.server = serve(state, {"status": self.status, "violations": lambda args, emit: self.bad})

    def status(self, args: dict[str, Any], emit: Any) -> dict[str, Any]:
        return {"commit": self.log.last, "sources": [self.row]}

    def commit(self, **counts: Any) -> None:
        number = self.log.last + 1
        report = {"source": "services", "read": 1, "seconds": 0.5, "commit": number, **counts}
        self.log.append(Entry(number, number - 1, "2026-01-01T00:00:00.000Z", [report], Change()))
        self.log.sync()
        self.head.publish(number)

    def fails(self, count: int) -> None:
        self.row["checks"] = [{"shape": SHAPE, "label": "Tiers", "violations": count, "warnings": 0}]
        self.bad = [
            {"locator": f"services.csv:{n}", "path": "https://shop.example/ns#tier", "value": '"9"', "shape": SHAPE}
            | {"message": "A tier is 1, 2 or 3.", "severity": "Violation"}
            for n in range(count)
        ]

    def close(self) -> None:
        self.server.close()
        self.log.close()
        self.head.close()


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with one source and one shape about it."""
    (tmp_path / "services.csv").write_text("name,tier\ncart,1\npay,2\n")
    (tmp_path / "graphtide.toml").write_text(
        'base = "https://shop.example/"\n[prefixes]\nshop = "https://shop.example/ns#"\n'
        '[ontology]\nshapes = ["shapes.ttl"]\n[rules]\nfiles = ["named.rq"]\n'
        '[sources.services]\npath = "services.csv"\nkey = "name"\n'
        '[sources.services.map]\nclass = "shop:Service"\niri = "service/{name}"\n'
        '[sources.services.map.columns]\ntier = "shop:tier"\n'
    )
    (tmp_path / "named.rq").write_text(
        "PREFIX shop: <https://shop.example/ns#> CONSTRUCT { ?s shop:ranked ?tier } WHERE { ?s shop:tier ?tier }"
    )
    (tmp_path / "shapes.ttl").write_text(
        "@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix shop: <https://shop.example/ns#> .\n"
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        'shop:TierShape a sh:NodeShape ; rdfs:label "Tiers" ; sh:targetClass shop:Service ;\n'
        '  sh:property [ sh:path shop:tier ; sh:in ( "1" "2" "3" ) ] .\n'
    )
    return tmp_path


@pytest.fixture
def writer(shop: Path) -> Iterator[Writer]:
    made = Writer(shop / ".graphtide")
    yield made
    made.close()


@pytest.fixture(scope="module")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of an instance nothing was told yet: making one takes half a second."""
    home = prepare(tmp_path_factory.mktemp("blank"))
    with dg.DagsterInstance.from_config(str(home)):
        return home


@pytest.fixture
def instance(blank: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    home = shutil.copytree(blank, tmp_path_factory.mktemp("home") / "dagster")
    with dg.DagsterInstance.from_config(str(home)) as made:
        yield made


def seen(instance: dg.DagsterInstance, *path: str) -> list[dict[str, Any]]:
    """The metadata of an asset's materialisations, oldest first."""
    found = instance.fetch_materializations(dg.AssetKey(path), limit=1000).records
    made = [record.asset_materialization for record in reversed(found)]
    return [{name: value.value for name, value in one.metadata.items()} for one in made if one is not None]


def evaluations(instance: dg.DagsterInstance, name: str) -> list[dg.AssetCheckEvaluation]:
    key = dg.AssetCheckKey(dg.AssetKey(["services", "facts"]), name)
    found = instance.event_log_storage.get_asset_check_execution_history(key, limit=100)
    return [record.event.dagster_event.asset_check_evaluation_data for record in reversed(found)]  # type: ignore[union-attr]


def test_many_commits_are_one_materialisation_with_their_sum(shop, writer, instance):
    reporter = Reporter(shop, instance)
    reporter.step(0.0)
    for _ in range(5):
        writer.commit(changed=2, added=3, removed=1)
    assert not reporter.step(1.0)
    assert reporter.step(2.5)
    assert len(seen(instance, "services", "graph")) == 1
    shown = seen(instance, "services", "graph")[0]
    assert {name: shown[name] for name in ("added", "removed", "commit", "commits", "seconds")} == {
        "added": 15, "removed": 5, "commit": 5, "commits": 5, "seconds": 2.5
    }  # fmt: skip
    assert seen(instance, "services", "facts")[0]["rejected"] == 4


def test_records_facts_and_the_whole_graph_are_reported_once_a_minute(shop, writer, instance):
    reporter = Reporter(shop, instance)
    reporter.step(-10.0)
    for now in range(0, 130, 5):
        writer.commit(changed=1)
        reporter.step(float(now))
    assert len(seen(instance, "services", "graph")) == 26
    assert [one["changed"] for one in seen(instance, "services", "records")] == [1, 12, 12]
    assert len(seen(instance, "graph")) == len(seen(instance, "rules", "named")) == 3


def test_a_check_is_reported_when_its_outcome_changes_and_not_before(shop, writer, instance):
    reporter = Reporter(shop, instance)
    for now, count in enumerate((0, 0, 2, 2, 2, 0, 0)):
        writer.fails(count)
        writer.commit(changed=1)
        reporter.step(now * 3.0)
    made = evaluations(instance, "TierShape")
    assert [one.passed for one in made] == [True, False, True]
    table = made[1].metadata["table"].records
    assert [(row.data["where"], row.data["field"], row.data["value"], row.data["message"]) for row in table] == [
        ("services.csv:0", "tier", "9", "A tier is 1, 2 or 3."),
        ("services.csv:1", "tier", "9", "A tier is 1, 2 or 3."),
    ]


def test_a_count_that_keeps_changing_is_reported_every_fifteen_seconds(shop, writer, instance):
    reporter = Reporter(shop, instance)
    for now in range(0, 40, 2):
        writer.fails(now + 1)
        writer.commit(changed=1)
        reporter.step(float(now))
    assert [one.metadata["violations"].value for one in evaluations(instance, "TierShape")] == [1, 17, 33]


def test_a_restart_loses_nothing_and_repeats_nothing(shop, writer, instance):
    first = Reporter(shop, instance)
    first.step(0.0)
    writer.commit(added=1)
    first.step(3.0)
    writer.commit(added=10)
    first.step(4.0)  # read, not due: and here it dies
    writer.commit(added=100)
    second = Reporter(shop, instance)
    second.step(0.0)
    assert [one["added"] for one in seen(instance, "services", "graph")] == [1, 110]
    assert sum(one["read"] for one in seen(instance, "services", "records")) == 3
    # Killed after the report and before the cursor was written: the commit in the materialisation says so.
    writer.commit(added=1000)
    before = (shop / ".graphtide" / CURSOR).read_bytes()
    second.step(3.0)
    (shop / ".graphtide" / CURSOR).write_bytes(before)
    Reporter(shop, instance).step(0.0)
    assert [one["added"] for one in seen(instance, "services", "graph")] == [1, 110, 1000]


def test_a_torn_cursor_or_a_log_that_starts_later_reports_how_the_source_stands(shop, writer, instance):
    for _ in range(3):
        writer.commit(added=1)
    (shop / ".graphtide" / CURSOR).write_text('{"commit": 1, "che')
    reporter = Reporter(shop, instance)
    reporter.step(0.0)
    assert [one["commit"] for one in seen(instance, "services", "graph")] == [3]
    assert seen(instance, "services", "records")[0]["dagster/row_count"] == 3
    writer.log.reset(7)
    writer.head.publish(7)
    reporter.step(3.0)
    assert [one["commit"] for one in seen(instance, "services", "graph")] == [3, 7]


def test_a_source_that_fails_fails_its_check_without_any_commit(shop, writer, instance):
    reporter = Reporter(shop, instance)
    reporter.step(0.0)
    writer.row |= {
        "state": "failing",
        "message": "services.csv: it is gone. Put it back, or `graphtide forget services`.",
    }
    reporter.step(11.0)
    key = dg.AssetCheckKey(dg.AssetKey(["services", "records"]), "source_healthy")
    found = instance.event_log_storage.get_asset_check_execution_history(key, limit=9)
    made = [record.event.dagster_event.asset_check_evaluation_data for record in reversed(found)]
    assert [one.passed for one in made] == [True, False]
    assert made[1].description == writer.row["message"]


def test_a_source_in_step_is_reported_every_hour_so_that_it_never_looks_stale(shop, writer, instance):
    reporter = Reporter(shop, instance)
    writer.commit(added=1)
    for hour in range(4):
        reporter.step(hour * 3600.0)
    assert len(seen(instance, "services", "graph")) == 4


def test_old_events_go_and_the_newest_stay(shop, writer, instance, monkeypatch):
    monkeypatch.setattr(retention, "MATERIALISATIONS", 80)
    reporter = Reporter(shop, instance, ours=True)
    for now in range(0, 60, 2):
        writer.fails(now % 4)
        writer.commit(added=1)
        reporter.step(float(now))
    assert reporter.prune() > 10
    assert len(seen(instance, "services", "graph")) == 20
    assert seen(instance, "services", "graph")[-1]["commit"] == 30
    assert evaluations(instance, "TierShape")[-1].passed is False


def test_new_settings_are_taken_up_and_wrong_ones_leave_the_old(shop, writer, instance):
    reporter = Reporter(shop, instance)
    before = reporter.view
    text = (shop / "graphtide.toml").read_text()
    (shop / "graphtide.toml").write_text(text + "[sources.people\n")
    reporter.step(0.0)
    assert reporter.view == before
    (shop / "people.csv").write_text("login\nann\n")
    (shop / "graphtide.toml").write_text(text + '[sources.people]\npath = "people.csv"\nkey = "login"\n')
    reporter.step(3.0)
    assert [source.name for source in reporter.view.sources] == ["ontology", "services", "people"]
