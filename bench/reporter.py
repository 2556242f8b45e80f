"""What telling Dagster costs: per commit while files are edited without pause, and on disk after a million changes."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.figure import Figure

COMMITS_A_SECOND = 50
SECONDS = 60.0  # of edits, played on a clock of our own as fast as the machine goes
CHANGES = 1_000_000
SETTINGS = """base = "https://bench.example/"
[sources.rows]
path = "rows.csv"
key = "id"
[sources.rows.map]
class = "gt:Service"
iri = "row/{id}"
columns = { name = "rdfs:label" }
"""


def figures(out: Path, *, rounds: int = 3, minutes: float = 10.0) -> list[Figure]:
    """The reporter's own CPU a commit, and the size of the event database after `CHANGES` changes."""
    costs, sizes = [], []
    for _ in range(rounds):
        costs.append(play(COMMITS_A_SECOND, SECONDS)[0])
    # The worst for the database is the slowest pace, a report and a failed check a change: it soon stops growing.
    reports = 2_000
    _, size = play(1 / 2, reports * 2.0)
    sizes.append(size / 2**20)
    return [
        Figure("reporting to Dagster, CPU a commit", "ms", tuple(costs), note=f"{COMMITS_A_SECOND} a second"),
        Figure(
            "Dagster's event database at its bound",
            "MB",
            tuple(sizes),
            aim=100.0,
            note=f"after {reports:,} reports of one change each; pruned, so {CHANGES:,} changes end at the same size",
        ),
    ]


def play(commits_a_second: float, seconds: float) -> tuple[float, int]:
    """(CPU milliseconds a commit, bytes of the event database) after so many seconds of such commits."""
    import dagster as dg

    from dagster_project.home import prepare
    from dagster_project.reporter import Reporter
    from sparql.log import Change, Entry, Head, Log
    from sparql.store.socket import serve

    folder = Path(tempfile.mkdtemp(prefix="graphtide-bench-"))
    (folder / "graphtide.toml").write_text(SETTINGS)
    (folder / "rows.csv").write_text("id,name\n1,one\n")
    state = folder / ".graphtide"
    state.mkdir()
    log, head = Log(state), Head(state)
    bad = 0

    def status(args: dict[str, Any], emit: Any) -> dict[str, Any]:
        shape = {"shape": "https://w3id.org/graphtide/ns#NamedShape", "label": "", "violations": bad % 7, "warnings": 0}
        row = {"name": "rows", "state": "ok", "records": 1, "mode": "events", "checks": [shape]}
        return {"commit": log.last, "sources": [row]}

    def violations(args: dict[str, Any], emit: Any) -> list[dict[str, Any]]:
        one = {"locator": "rows.csv:2", "path": "name", "value": "x" * 40, "message": "It has no rdfs:label." * 2}
        return [{**one, "severity": "Violation", "shape": "https://w3id.org/graphtide/ns#NamedShape"}] * (bad % 7)

    try:
        with (
            serve(state, {"status": status, "violations": violations}),
            dg.DagsterInstance.from_config(str(prepare(state))) as instance,
        ):
            reporter = Reporter(folder, instance, ours=True)
            reporter.step(0.0)
            tick = max(0.25, 1 / commits_a_second)
            steps = int(seconds / tick)
            spent = 0.0
            made = 0
            for step in range(1, steps + 1):
                bad = step
                for _ in range(max(1, round(commits_a_second * tick))):
                    made += 1
                    number = log.last + 1
                    report = {"source": "rows", "read": 20, "changed": 1, "added": 1, "removed": 1, "seconds": 0.001}
                    log.append(Entry(number, number - 1, "2026-01-01T00:00:00Z", [report], Change()))
                log.sync()
                head.publish(log.last)
                start = time.process_time()
                reporter.step(step * tick)
                spent += time.process_time() - start
            reporter.prune()
            home = state / "dagster"
            size = sum(path.stat().st_size for path in home.rglob("*") if path.is_file())
            return spent / made * 1000, size
    finally:
        log.close()
        head.close()
        shutil.rmtree(folder)
