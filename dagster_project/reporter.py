"""Dagster hears of the graph from the change log: sums, not commits, because an event costs 10 ms and 4 KB.

Per source one summed materialisation of its graph at most every two seconds; of its records and facts, and of the
whole graph, at most every minute; a check only when its outcome or a count changes. What was reported is kept in a file
beside the store, and the commit is in each materialisation: a restart goes on where the last report ended.
"""

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project import checks, folder
from dagster_project.definitions import data_versions, rule_metadata, stage_metadata, summary, whole_metadata
from dagster_project.folder import Folder, SourceView
from dagster_project.keys import STAGES, asset_key, graph_key, rule_key
from dagster_project.metadata import COUNTS
from dagster_project.retention import prune
from sparql.log import LogGap, LogReader, read_head

CURSOR = "reporter.json"
EVERY = 2.0  # seconds between two reports of one source
SLOWLY = 60.0  # seconds between two reports of what only people look at: records, facts, the whole graph
RECOUNT = 15.0  # seconds between two reports of a check that stays failed and only counts differently
ALIVE = 3600.0  # a source in step but unchanged is reported this often, so that Dagster does not call it stale
IDLE = 10.0  # seconds between two looks at the status when nothing was committed
PRUNE = 500  # events between two looks for old ones

Say = Callable[[str], None]
Report = Mapping[str, Any]


@dataclass
class Tally:
    """What commits said of one source since its last report."""

    report: dict[str, Any] = field(default_factory=dict)
    commits: int = 0

    def add(self, commit: int, report: Report) -> None:
        """Sum what counts a change; `rejected`, `held` and the rest are as the newest report says."""
        summed: dict[str, Any] = {
            name: int(self.report.get(name) or 0) + int(report.get(name) or 0) for name in COUNTS[:5]
        }
        summed["seconds"] = float(self.report.get("seconds") or 0) + float(report.get("seconds") or 0)
        self.report = {**report, **summed, "commit": commit}
        self.commits += 1


@dataclass
class Reported:
    """What the file says: the last commit reported, how each check stood, and what waits for the slow report."""

    commit: int | None = None
    checks: dict[str, dict[str, list[Any]]] = field(default_factory=dict)
    slow: dict[str, Tally] = field(default_factory=dict)

    @staticmethod
    def load(path: Path) -> "Reported":
        """What the file says; nothing reported when it is missing or torn (a check is then reported once more)."""
        try:
            found = json.loads(path.read_text("utf-8"))
            slow = {name: Tally(*waits) for name, waits in found["slow"].items()}
            return Reported(found["commit"], dict(found["checks"]), slow)
        except (OSError, ValueError, KeyError, TypeError):
            return Reported()

    def save(self, path: Path) -> None:
        """Replace the file whole, on disk when this returns."""
        slow = {name: [tally.report, tally.commits] for name, tally in self.slow.items()}
        aside = path.with_suffix(".new")
        with open(aside, "w", encoding="utf-8") as out:
            json.dump({"commit": self.commit, "checks": self.checks, "slow": slow}, out, default=str)
            out.flush()
            os.fsync(out.fileno())
        os.replace(aside, path)


class Reporter:
    """Follows the log of one folder and reports to one Dagster instance. Call `step` again and again."""

    def __init__(
        self,
        dir: Path | str,
        instance: dg.DagsterInstance,
        *,
        prefix: Sequence[str] = (),
        page: str | None = None,
        every: float = EVERY,
        ours: bool = False,
        say: Say = lambda line: None,
    ) -> None:
        """`ours` says that the instance is ours alone, so that its old events may go. Raises SettingsError."""
        self.dir, self.instance, self.prefix, self.page = Path(dir).resolve(), instance, tuple(prefix), page
        self.every, self.ours, self.say = every, ours, say
        self.view: Folder = folder.describe(self.dir, page)
        self.settings = self.view.settings_now()
        self.known: set[str] = set()
        self.cursor = self.view.state / CURSOR
        self.reported = Reported.load(self.cursor)
        self.pending: dict[str, Tally] = {}
        self.log: LogReader | None = None
        self.read = 0
        self.anew = False
        self._whole = False
        self.events = 0
        self._findings: dict[str, tuple[Report, Sequence[Report]]] = {}  # source -> how it stood, and what was wrong
        self._at: dict[str, float] = {}  # what was done -> when

    def step(self, now: float | None = None) -> bool:
        """Read what was committed and report what is due; True when something was reported."""
        now = time.monotonic() if now is None else now
        self._follow()
        if self.view.settings_now() != self.settings:
            self.look_again()
        waits = self.pending or self.anew or self._due("status", IDLE, now)
        return self.flush(now) if waits and self._due("report", self.every, now) else False

    def finish(self) -> None:
        """Report what was committed until now, before the process ends."""
        self._follow()
        if self.pending:
            self.flush()

    def flush(self, now: float | None = None) -> bool:
        """Report all that waits, whatever the time; True when something was reported."""
        now = time.monotonic() if now is None else now
        before, known = self.events, self.reported.commit
        self._at["report"] = self._at["status"] = now
        status = folder.status_of_writer(self.view.state) or {}
        rows = {row["name"]: row for row in status.get("sources", ())}
        if self.anew and status.get("commit"):
            self._stands(rows, int(status["commit"]))
            self.anew = False
        unknown = {*rows, *self.pending} - {source.name for source in self.view.sources} - self.known
        if unknown:
            self.known |= unknown  # one look each: a source that is orphaned or built in stays unknown
            self.look_again()
        for name in list(self.pending):
            source, tally = self._source(name), self.pending.pop(name)
            if source is not None:
                self._materialise(source, "graph", tally, rows.get(name, {}))
                self._at[f"alive {name}"] = now
        for source in self.view.sources:
            self._check(source, rows.get(source.name, {}), now)
            self._alive(source, rows.get(source.name, {}), status, now)
        self._slowly(rows, status, now)
        self.reported.commit = None if self.anew else self.read
        if self.events != before or known != self.read:
            self.reported.save(self.cursor)
        if self.ours and before // PRUNE != self.events // PRUNE:
            self.prune()
        return self.events != before

    def prune(self) -> int:
        """Let old events go: how many rows went."""
        every = sum(len(source.checks) + 2 for source in self.view.sources)
        return prune(self.instance, 3 * len(self.view.sources) + len(self.view.rules) + 1, every)

    def look_again(self) -> None:
        """Take up the folder's settings as they are; when they are wrong the old stay, and the writer says why."""
        self.settings = self.view.settings_now()
        with suppress(ValueError):
            self.view = folder.describe(self.dir, self.page)

    def _due(self, what: str, seconds: float, now: float) -> bool:
        return now - self._at.get(what, float("-inf")) >= seconds

    def _follow(self) -> None:
        state = self.view.state
        if self.log is not None and read_head(state) < self.read:  # the store was restored to before our cursor
            self._begin(None)
        if self.log is None:
            self._begin(self.reported.commit)
        assert self.log is not None
        try:
            for entry in self.log.entries():
                self.read = entry.id
                for report in entry.report:
                    if report.get("source") is not None:
                        self.pending.setdefault(report["source"], Tally()).add(entry.id, report)
                        self.reported.slow.setdefault(report["source"], Tally()).add(entry.id, report)
        except LogGap:  # a first load, a restore, or older than the history that is kept
            self._begin(None)

    def _begin(self, commit: int | None) -> None:
        """Read on from `commit`; without one from the head, after telling how each source stands there."""
        head = read_head(self.view.state)
        self.anew = commit is None or commit > head
        self.read = head if commit is None or commit > head else commit
        if self.log is not None:
            self.log.close()
        self.log = LogReader(self.view.state, self.read)

    def _stands(self, rows: Mapping[str, Report], commit: int) -> None:
        for name, row in rows.items():
            if name not in self.pending:
                report = {
                    "source": name,
                    "read": row.get("records"),
                    "rejected": row.get("rejected"),
                    "held": row.get("held"),
                }
                self.pending.setdefault(name, Tally()).add(commit, report)
                self.reported.slow.setdefault(name, Tally()).add(commit, report)

    def _source(self, name: str) -> SourceView | None:
        return next((source for source in self.view.sources if source.name == name), None)

    def _materialise(self, source: SourceView, stage: str, tally: Tally, row: Report) -> None:
        key = asset_key(self.prefix, source.name, stage)
        if self._known_commit(key) >= tally.report["commit"]:
            return  # a run reported it, or we did before we were stopped
        shown = stage_metadata(self.view, source, stage, tally.report, row)
        if tally.commits > 1:
            shown["commits"] = tally.commits
        said = summary(source.name, tally.report)
        version = {"dagster/data_version": data_versions(source, tally.report)[stage]}
        self._report(dg.AssetMaterialization(key, description=said, metadata=shown, tags=version))

    def _known_commit(self, key: dg.AssetKey) -> int:
        found = self.instance.get_latest_materialization_event(key)
        made = found.asset_materialization if found else None
        value = made.metadata.get("commit") if made else None
        return int(value.value) if value is not None and isinstance(value.value, int) else -1

    def _check(self, source: SourceView, row: Report, now: float) -> None:
        known = self.reported.checks.setdefault(source.name, {})
        stands = {name: row.get(name) for name in ("rejected", "held", "checks", "notes")}
        if self._findings.get(source.name, ({}, ()))[0] != stands:
            rows = folder.violations_of_writer(self.view.state, source.name) if row else ()
            self._findings[source.name] = (stands, rows)
        rows = self._findings[source.name][1]
        for outcome in checks.outcomes(source, row, rows):
            before, timer = known.get(outcome.name), f"check {source.name} {outcome.name}"
            flipped = before is None or bool(before[0] or before[1]) == outcome.passed
            if flipped or (before != outcome.seen and self._due(timer, RECOUNT, now)):
                self._at[timer] = now
                self._report(checks.evaluation(outcome, source, self.view, self.prefix, rows))
                known[outcome.name] = outcome.seen

    def _alive(self, source: SourceView, row: Report, status: Report, now: float) -> None:
        timer = f"alive {source.name}"
        self._at.setdefault(timer, now)
        if row.get("state") == "ok" and self._due(timer, max(ALIVE, source.every or 0), now):
            self._at[timer] = now
            tally = Tally({"commit": status["commit"]}, 1)
            shown = stage_metadata(self.view, source, "graph", tally.report, row)
            key, said = asset_key(self.prefix, source.name, "graph"), f"{source.name}: in step, nothing changed."
            self._report(dg.AssetMaterialization(key, description=said, metadata=shown))

    def _slowly(self, rows: Mapping[str, Report], status: Report, now: float) -> None:
        due = [name for name in self.reported.slow if self._due(f"slow {name}", SLOWLY, now)]
        for name in due:
            self._at[f"slow {name}"] = now
            tally, source = self.reported.slow.pop(name), self._source(name)
            for stage in STAGES[:2]:
                if source is not None:
                    self._materialise(source, stage, tally, rows.get(name, {}))
        self._whole = self._whole or bool(due)
        if self._whole and status and self._due("whole", SLOWLY, now):
            self._whole, self._at["whole"] = False, now
            version = {"dagster/data_version": str(status["commit"])}
            shown = {rule_key(self.prefix, rule): rule_metadata(self.view, rule) for rule in self.view.rules}
            shown[graph_key(self.prefix)] = whole_metadata(self.view, status)
            for key, metadata in shown.items():
                self._report(dg.AssetMaterialization(key, metadata=metadata, tags=version))

    def _report(self, event: dg.AssetMaterialization | dg.AssetCheckEvaluation) -> None:
        self.instance.report_runless_asset_event(event)
        self.events += 1
