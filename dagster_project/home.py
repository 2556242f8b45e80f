"""Dagster's own state lives in `.graphtide/dagster`, small and silent: no telemetry, short retention, no queue."""

import os
from pathlib import Path

FOLDER = "dagster"
MARK = "# Written by graphtide; take this line out to keep your own changes.\n"

# Runs start at once (no queue, whose daemon looks every 5 s): what they do is ask the one writer.
YAML = (
    MARK
    + """telemetry:
  enabled: false
nux:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
run_monitoring:
  enabled: true
  start_timeout_seconds: 180
code_servers:
  local_startup_timeout: 180
freshness:
  enabled: true
retention:
  schedule:
    purge_after_days: {skipped: 1, success: 7, failure: 30, started: 7}
  sensor:
    purge_after_days: {skipped: 1, success: 7, failure: 30, started: 7}
"""
)


def prepare(state: Path) -> Path:
    """The Dagster home under `state`, made when it is not there; a dagster.yaml of the user's own is left alone."""
    home = state / FOLDER
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = home / "dagster.yaml"
    if not settings.exists() or settings.read_text("utf-8").startswith(MARK):
        settings.write_text(YAML, "utf-8")
    return home


def environment(dir: Path, home: Path, page: str | None) -> dict[str, str]:
    """What every Dagster process of a folder is started with."""
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        "GRAPHTIDE_DIR": str(dir),
        "GRAPHTIDE_PAGE": page or "",
        # The working directory never enters sys.path.
        "PYTHONSAFEPATH": "1",
    }
