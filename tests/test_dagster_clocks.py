"""Dagster's schedule and sensor keep a folder in step when no writer runs, and leave it alone when one does."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.clocks import cron
from dagster_project.definitions import definitions
from dagster_project.folder import fingerprint
from sparql.store.socket import serve


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.csv").write_text("k,v\n1,x\n")
    (tmp_path / "b.csv").write_text("k,v\n1,x\n")
    (tmp_path / "graphtide.toml").write_text(
        '[sources.a]\npath = "a.csv"\nkey = "k"\n[sources.b]\npath = "b.csv"\nkey = "k"\nevery = "1h"\n'
    )
    return tmp_path


def sense(folder: Path, cursor: str | None = None) -> dg.SensorResult | dg.SkipReason:
    found = definitions(folder).resolve_sensor_def("graphtide_changes")
    with dg.build_sensor_context(cursor=cursor) as context:
        made = found(context)
    assert isinstance(made, dg.SensorResult | dg.SkipReason)
    return made


def asked(made: dg.SensorResult | dg.SkipReason) -> list[str]:
    assert isinstance(made, dg.SensorResult), made
    assert made.run_requests and made.run_requests[0].run_key is None
    return sorted({key.path[0] for key in made.run_requests[0].asset_selection or () if key.path[-1] == "records"})


def test_the_sensor_asks_for_what_changed_and_what_is_due(folder: Path) -> None:
    first = sense(folder)
    assert asked(first) == ["a", "b", "ontology"]
    assert isinstance(first, dg.SensorResult)
    assert isinstance(sense(folder, first.cursor), dg.SkipReason)
    (folder / "a.csv").write_text("k,v\n1,y\n")
    assert asked(sense(folder, first.cursor)) == ["a"]


def test_a_replacement_of_the_same_size_and_time_is_a_change(folder: Path) -> None:
    path = folder / "a.csv"
    before, stat = fingerprint(folder, ["a.csv"]), path.stat()
    (folder / "new").write_text("k,v\n1,z\n")
    os.utime(folder / "new", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    (folder / "new").replace(path)
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (stat.st_size, stat.st_mtime_ns)
    assert fingerprint(folder, ["a.csv"]) != before


def test_while_the_writer_runs_the_sensor_and_the_schedule_skip_and_say_why(folder: Path) -> None:
    (folder / ".graphtide").mkdir()
    with serve(folder / ".graphtide", {}), dg.build_schedule_context() as context:
        sensed = sense(folder)
        scheduled = definitions(folder).resolve_schedule_def("graphtide_reconcile")(context)
    for made in (sensed, scheduled):
        assert isinstance(made, dg.SkipReason)
        assert f"The writer (process {os.getpid()}, since " in str(made.skip_message)


def test_without_a_writer_the_schedule_syncs_every_source(folder: Path) -> None:
    with dg.build_schedule_context() as context:
        assert isinstance(definitions(folder).resolve_schedule_def("graphtide_reconcile")(context), dg.RunRequest)


def test_minutes_become_a_line_of_cron() -> None:
    assert [cron(n) for n in (0, 1, 15, 60, 90, 120, 6000)] == [
        "*/1 * * * *", "*/1 * * * *", "*/15 * * * *", "0 */1 * * *", "0 */2 * * *", "0 */2 * * *", "0 0 * * *",
    ]  # fmt: skip
