"""What was erased from the graph is also in what was told about it: logs, and the history Dagster keeps beside it."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

LOGS, DAGSTER = "logs", "dagster"
TELLING = 4
"""A shorter value is in too many lines to tell anything."""
WAIT = 20.0
"""Seconds to wait for a database that Dagster is writing to."""


def scrub(state: Path, sources: Iterable[str] | None, words: Iterable[str]) -> list[str]:
    """Lines of our logs with one of `words` are gone, and so is what Dagster was told of these sources (None: of all).

    Dagster keeps sample rows and violations of a source; which value came from which record is not told there, so the
    whole of its history goes. Returns a note for each file that could not be cleaned.
    """
    words = [word for word in words if word.strip()]
    notes: list[str] = []
    for folder in (state / LOGS, state / DAGSTER):
        for path in sorted(folder.glob("*.log*")) if folder.is_dir() and words else ():
            _without(path, words)
    home = state / DAGSTER
    for path in sorted(home.rglob("*.db")) if home.is_dir() else ():
        try:
            _forget(path, None if sources is None else list(sources))
        except sqlite3.Error as wrong:
            notes.append(f"{path} could not be cleaned ({wrong}): stop Dagster and erase again, or delete the file.")
    for name in ("storage", "compute_logs"):
        shutil.rmtree(home / name, ignore_errors=True)
    return notes


def _without(path: Path, words: list[str]) -> None:
    """In place, since whoever writes the file has it open."""
    lines = path.read_bytes().splitlines(keepends=True)
    needles = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(words)).encode())
    kept = [line for line in lines if not needles.search(line)]
    if len(kept) != len(lines):
        with path.open("r+b") as file:
            file.write(b"".join(kept))
            file.truncate()


def _forget(path: Path, sources: list[str] | None) -> None:
    with closing(sqlite3.connect(path, timeout=WAIT, isolation_level=None)) as database:
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables & {"event_logs", "asset_check_executions"}:
            return
        database.execute("PRAGMA secure_delete = ON")
        where, values = _of(sources)
        if "event_logs" in tables:
            # Log lines and step events have no asset; they quote rows and messages all the same.
            database.execute(f"DELETE FROM event_logs WHERE asset_key IS NULL OR {where}", values)
        if "asset_check_executions" in tables:
            database.execute(f"DELETE FROM asset_check_executions WHERE {where}", values)
        if "asset_keys" in tables:
            emptied = "last_materialization = NULL, cached_status_data = NULL"
            database.execute(f"UPDATE asset_keys SET {emptied} WHERE {where}", values)
        database.execute("VACUUM")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _of(sources: list[str] | None) -> tuple[str, list[str]]:
    """A condition on `asset_key`, a JSON list whose last two parts are the source and the stage."""
    if sources is None:
        return "1", []
    named = [f"%{json.dumps(source)}, %" for source in sources]
    return "(" + " OR ".join(["asset_key LIKE ?"] * len(named)) + ")" if named else "0", named
