"""What a record says alone refuses it; what needs other records is reported, and clears by itself."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ontology.shapes import Shapes
from sources.record import Batch, Record
from sparql import journal
from sparql.store import Store, open_store
from sparql.sync import Plan, build, sync, sync_many, verify
from tests.test_sync_graph import BASE
from tests.test_sync_history import MEMORY
from transforms.mapping import compile_mapping

NS = "http://example.org/"
SHAPES = f"""
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix e: <{NS}> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:ServiceShape a sh:NodeShape ; sh:targetClass e:Service ;
  sh:property [ sh:path e:tier ; sh:in ( "1" "2" ) ] ;
  sh:property [ sh:path e:note ; sh:minCount 1 ; sh:severity sh:Warning ; sh:message "It has no note." ] ;
  sh:property [ sh:path e:by ; sh:class e:Team ; sh:message "It is by no team we know." ] .
e:UsedShape a sh:NodeShape ; sh:targetClass e:Team ;
  sh:property [ sh:path [ sh:inversePath e:by ] ; sh:minCount 1 ; sh:message "It has no service." ] .
"""
SERVICES = {
    "class": "e:Service", "iri": "service/{name}",
    "columns": {"tier": "e:tier", "note": "e:note", "by": {"property": "e:by", "link": "team/{by}"}},
}  # fmt: skip
TEAMS = {"class": "e:Team", "iri": "team/{name}", "columns": {"name": "e:name"}}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    path = tmp_path_factory.mktemp("shapes") / "shapes.ttl"
    path.write_text(SHAPES)
    return Shapes.load([path], builtin=False)


def plans(shapes: Shapes) -> dict[str, Plan]:
    return {
        name: Plan(name, compile_mapping(spec, source=name, base=BASE, prefixes={"e": NS}), shapes)
        for name, spec in (("services", SERVICES), ("teams", TEAMS))
    }


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "state", BASE) as opened:
        yield opened


def batch(source: str, *rows: dict[str, str]) -> Batch:
    records = [Record(source, row["name"], row, f"{source}.csv:{n}") for n, row in enumerate(rows, 2)]
    return Batch(source, f"{source}.csv", records, cursor=repr(rows))


def told(store: Store) -> list[tuple[str, str, str, str]]:
    found = journal.violations(store, store.names)
    return sorted((row["locator"], row["severity"], row["reported"], row["message"]) for row in found)


def svc(name: str, tier: str = "1", by: str = "pay", note: str = "x") -> dict[str, str]:
    return {"name": name, "tier": tier, "by": by, "note": note}


def test_a_record_that_breaks_a_shape_by_itself_is_refused(store: Store, shapes: Shapes) -> None:
    plan = plans(shapes)["services"]
    report = sync(store, plan, [batch("services", svc("api", tier="9", by=""))])
    assert (report.rejected, report.changed) == (1, 0) and len(store.statements("")) == 0
    assert [row[:3] for row in told(store)] == [("services.csv:2", "Violation", "local")]


def test_a_warning_commits_and_is_shown(store: Store, shapes: Shapes) -> None:
    plan = plans(shapes)["services"]
    report = sync(store, plan, [batch("services", svc("api", by="", note=""))])
    assert (report.rejected, report.changed) == (0, 1)
    assert told(store) == [("services.csv:2", "Warning", "local", "It has no note.")]
    sync(store, plan, [batch("services", svc("api", by=""))])
    assert told(store) == []


def test_what_needs_another_record_is_reported_and_clears_when_it_comes(store: Store, shapes: Shapes) -> None:
    plan = plans(shapes)
    sync(store, plan["services"], [batch("services", svc("api"))])
    assert told(store) == [("services.csv:2", "Violation", "wide", "It is by no team we know.")]
    report = sync(store, plan["teams"], [batch("teams", {"name": "pay"})])
    assert told(store) == [] and report.rejected == 0
    sync(store, plan["services"], [batch("services")])
    assert told(store) == [("teams.csv:2", "Violation", "wide", "It has no service.")]
    assert journal.checks(store, store.names, "teams") == {f"{NS}UsedShape": {"violations": 1, "warnings": 0}}


def test_any_order_of_sources_reports_the_same_and_equals_a_full_check(tmp_path: Path, shapes: Shapes) -> None:
    plan = plans(shapes)
    batches = {
        "services": [svc("api"), svc("web", by="gone"), svc("db", tier="9"), svc("ui", note="")],
        "teams": [{"name": "pay"}, {"name": "idle"}],
    }
    found: list[Any] = []
    ways: list[list[list[str]]] = [[[a], [b]] for a, b in itertools.permutations(batches)] + [[["teams", "services"]]]
    for number, way in enumerate([*ways, None]):
        with open_store(tmp_path / str(number), BASE) as store:
            if way is None:
                build(store, [(plan[name], [batch(name, *batches[name])]) for name in batches])
            else:
                for names in way:
                    sync_many(store, [(plan[name], [batch(name, *batches[name])]) for name in names])
            found.append(told(store))
            pairs = [(plan[name], [batch(name, *batches[name])]) for name in batches]
            assert verify(store, pairs).clean
    assert len(found[0]) == 4 and all(one == found[0] for one in found)


def test_a_changed_shape_checks_every_record_again_and_the_refused_too(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "shapes.ttl"
    for tiers, expected in (('"1"', (1, 0)), ('"1" "9"', (0, 1)), ('"1"', (1, 1))):
        path.write_text(SHAPES.replace('"1" "2"', tiers))
        plan = plans(Shapes.load([path], builtin=False))["services"]
        report = sync(store, plan, [batch("services", svc("api", tier="9"))])
        assert (report.rejected, len(store.statements(store.names.record("services", "api"))) // 4) == expected


@settings(max_examples=12)
@given(st.randoms(use_true_random=False))
def test_after_any_history_wide_findings_equal_a_full_check(shapes: Shapes, chance: Any) -> None:
    plan = plans(shapes)
    plan["more"] = Plan("more", compile_mapping(TEAMS, source="more", base=BASE, prefixes={"e": NS}), shapes)
    now: dict[str, Batch] = {}
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, open_store(Path(folder) / "state", BASE) as store:
        for _ in range(6):
            some = chance.sample(sorted(plan), chance.randint(1, 3))
            for name in some:
                if name == "services":
                    keys = chance.sample("pqr", chance.randint(0, 3))
                    said = [svc(key, chance.choice("129"), chance.choice(["a", "b", ""]), "x") for key in keys]
                else:  # two sources may speak of the same team
                    said = [{"name": key} for key in chance.sample("abc", chance.randint(0, 3))]
                now[name] = batch(name, *said)
            (build if store.empty else sync_many)(store, [(plan[name], [now[name]]) for name in some])
            found = verify(store, [(plan[name], [one]) for name, one in now.items()])
            assert found.clean, found.to_dict()
