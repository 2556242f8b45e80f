"""Where each source stands, read from any copy of the graph: asking never waits for whoever writes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ontology.facts import GT
from sparql import checkpoint, journal
from sparql.log import FOLDER, LogReader, read_head, segments
from sparql.names import TOKEN, Names

from .settings import own

SEEN = "seen.json"
OURS = {
    GT + "MappingError": "Values fit their mapping", GT + "DuplicateKey": "Keys are used once",
    GT + "UnusableRecord": "Records can be read", GT + "UnknownTerm": "Terms are known",
    GT + "UnownedNamespace": "Namespaces have a vocabulary",
}  # fmt: skip
"""What a person reads for a check that is no shape."""
MOST_REPORTED = 20
ORPHANED = "is not in graphtide.toml any more: its facts stay until `graphtide forget {name}`."


@contextmanager
def replica(state: Path) -> Iterator[Any]:
    """A private copy of the graph at its newest commit (`.store`, `.epoch`, `.time`), for reading without the lock."""
    from sparql.query.worker import Replica

    own(state)
    folder = Path(tempfile.mkdtemp(prefix="reader-", dir=state))
    try:
        yield Replica(state, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def seen(state: Path) -> dict[str, str]:
    """When each source was last read to its end, ISO UTC; losing the file loses only this."""
    with suppress(OSError, ValueError):
        found = json.loads((state / SEEN).read_text("utf-8"))
        if isinstance(found, dict):
            return {str(name): str(when) for name, when in found.items()}
    return {}


def write_seen(state: Path, found: Mapping[str, str]) -> None:
    """Replace the file whole."""
    part = state / f".{SEEN}.{os.getpid()}"
    part.write_text(json.dumps(dict(found)), "utf-8")
    os.replace(part, state / SEEN)


def now() -> str:
    """This moment, ISO UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def since(when: str | None) -> float | None:
    """Seconds since an ISO UTC time."""
    if not when:
        return None
    return max(0.0, (datetime.now(UTC) - datetime.fromisoformat(when)).total_seconds())


def status(
    project: Any,
    graph: Any,
    *,
    commit: int,
    commit_time: str,
    seen_at: Mapping[str, str],
    live: Mapping[str, Mapping[str, Any]] | None = None,
    writer: Mapping[str, Any] | None = None,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The status document: the folder, its newest commit, and a row a source in the settings' order, orphans last.

    `graph` answers SPARQL; `live` is what the writer knows of a source (`mode`, `next_poll`, `lag_seconds`, `message`).
    """
    state = project.settings.state
    names: Names = project.names
    stored = {row["name"]: row for row in journal.source_rows(graph, names)}
    labels = OURS | dict(project.shapes.names())
    rows = []
    for one in project.pipelines:
        row = stored.pop(one.name, None)
        rows.append(_row(one.name, _kind(project, one.name), row, graph, names, labels, seen_at, live or {}))
    written = stored.pop(TOKEN, None)
    if written is not None:
        rows.append({**_row(TOKEN, "http", written, graph, names, labels, seen_at, {}), "mode": "written"})
    for name, row in stored.items():
        orphan = _row(name, "-", row, graph, names, labels, seen_at, {})
        rows.append({**orphan, "state": "orphaned", "message": f"{name} {ORPHANED.format(name=name)}"})
    kept = checkpoint.newest(state)
    free = os.statvfs(state if state.is_dir() else project.settings.dir)
    failing = [f"rule {rule['name']}: {rule['message']}" for rule in journal.rules(graph, names) if rule["message"]]
    return {
        "dir": str(project.settings.dir), "base": project.settings.base, "commit": commit,
        "commit_time": commit_time if commit else None, "writer": dict(writer) if writer else None,
        "checkpoint": kept.commit if kept is not None else None, "free_bytes": free.f_bavail * free.f_frsize,
        "sources": rows, "reported": journal.reported(graph, names, limit=MOST_REPORTED, how="wide"),
        "notes": [*(notes or []), *failing],
    }  # fmt: skip


def _row(
    name: str, kind: str, row: Mapping[str, Any] | None, graph: Any, names: Names, labels: Mapping[str, str],
    seen_at: Mapping[str, str], live: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:  # fmt: skip
    known = live.get(name, {})
    last = seen_at.get(name)
    message = str(known.get("message") or (row or {}).get("message") or "")
    state = "failing" if known.get("message") else (row["state"] if row else "new")
    found = journal.checks(graph, names, name)
    return {
        "name": name, "kind": kind, "records": row["records"] if row else 0, "held": row["held"] if row else 0,
        "rejected": row["rejected"] if row else 0, "scopes": row["scopes"] if row else 0, "last_seen": last,
        "lag_seconds": known["lag_seconds"] if "lag_seconds" in known else since(last),
        "next_poll": known.get("next_poll"), "mode": known.get("mode", "manual"), "state": state, "message": message,
        "why": known.get("why", ""),
        "notes": list(row["notes"]) if row else [], "held_scopes": dict(row["held_scopes"]) if row else {},
        "checks": [
            {"shape": shape, "label": labels.get(shape, shape), **counts} for shape, counts in sorted(found.items())
        ],
    }  # fmt: skip


def _kind(project: Any, name: str) -> str:
    own = next((one for one in project.settings.sources if one.name == name), None)
    if own is not None:
        return str(own.kind)
    return "built-in" if name == "ontology" else "files"


def changes(state: Path, after: int | None, limit: int) -> list[dict[str, Any]]:
    """Commits after `after` (None: the last `limit`), oldest first, as far back as the log goes."""
    head = read_head(state)
    start = max(0, head - limit) if after is None else after
    first = _log_start(state)
    reader = LogReader(state, max(start, first))
    rows: list[dict[str, Any]] = []
    if start < first:  # a bulk load is no entry of the log: its checkpoint has the report
        rows += [_change(one.commit, one.time, one.report) for one in checkpoint.every(state) if one.commit == first]
    try:
        for entry in reader.entries():
            if len(rows) >= limit:
                break
            rows.append(_change(entry.id, entry.time, entry.report))
    finally:
        reader.close()
    return rows


_DID = ("changed", "gone", "added", "removed", "message", "held_scopes")


def _change(commit: int, time: str, report: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    parts = [dict(part) for part in report]
    return {
        "commit": commit, "time": time, "sources": [str(part["source"]) for part in parts if any(map(part.get, _DID))],
        "added": sum(int(part.get("added", 0)) for part in parts),
        "removed": sum(int(part.get("removed", 0)) for part in parts), "report": parts,
    }  # fmt: skip


def _log_start(state: Path) -> int:
    found = segments(state / FOLDER) if (state / FOLDER).is_dir() else []
    return found[0][0] - 1 if found else 0
