"""A source has one clock: while the writer watches and polls, Dagster's schedule and sensor skip and say so."""

import json
import time
from collections.abc import Sequence
from typing import Any

import dagster as dg

from dagster_project import folder
from dagster_project.folder import Folder, SourceView, fingerprint
from dagster_project.keys import STAGES, asset_key, graph_key, rule_key, word


def reconcile_schedule(
    view: Folder, prefix: Sequence[str], job: Any, every_minutes: int, *, automatic: bool
) -> dg.ScheduleDefinition:
    """Syncs every source each `every_minutes`, whatever the sensor has seen; skips while the writer does it."""

    @dg.schedule(
        name="__".join([*map(word, prefix), "graphtide_reconcile"]),
        job=job,
        cron_schedule=cron(every_minutes),
        default_status=dg.DefaultScheduleStatus.RUNNING if automatic else dg.DefaultScheduleStatus.STOPPED,
        description=f"Every {every_minutes} minutes, all sources, unless the writer keeps them in step.",
    )
    def reconcile(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        kept = folder.kept_by(view.state)
        return dg.SkipReason(kept) if kept else dg.RunRequest()

    return reconcile


def changes_sensor(view: Folder, prefix: Sequence[str], job: Any, *, automatic: bool) -> dg.SensorDefinition:
    """Syncs the sources whose files changed or whose time has come; skips while the writer does it."""

    @dg.sensor(
        name="__".join([*map(word, prefix), "graphtide_changes"]),
        job=job,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING if automatic else dg.DefaultSensorStatus.STOPPED,
        description="Looks for changed files, and at the clock of sources that have one.",
    )
    def changes(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        kept = folder.kept_by(view.state)
        if kept:
            return dg.SkipReason(kept)
        before = json.loads(context.cursor or "{}")
        seen = {source.name: _seen(view, source, before.get(source.name), time.time()) for source in view.sources}
        due = [source.name for source in view.sources if seen.get(source.name) != before.get(source.name)]
        if not due:
            return dg.SkipReason(f"No file of {len(view.sources)} sources has changed.")
        wanted = [asset_key(prefix, name, stage) for name in due for stage in STAGES]
        wanted += [rule_key(prefix, rule) for rule in view.rules] + [graph_key(prefix)]
        # Without a run key: Dagster would never again run for a file that goes back to what it was.
        request = dg.RunRequest(asset_selection=wanted, tags={"graphtide/changed": ", ".join(due)[:250]})
        return dg.SensorResult([request], cursor=json.dumps(seen))

    return changes


def _seen(view: Folder, source: SourceView, before: Any, now: float) -> Any:
    if source.every:
        return before if before and now - before < source.every else now
    return fingerprint(view.dir, folder.scopes(view.dir, source.name))


def cron(minutes: int) -> str:
    """A cron line for every so many minutes; what does not divide an hour runs at the next that does."""
    if minutes >= 60:
        hours = max(1, min(24, round(minutes / 60)))
        return "0 0 * * *" if hours == 24 else f"0 */{hours} * * *"
    return f"*/{max(1, minutes)} * * * *"
