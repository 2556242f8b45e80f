"""An index is a function of the graph at one commit: the commit it stands at and its data change in one transaction.

Each follower has a file of its own below `.graphtide/index/`, named by `NAME.json`. An index that cannot be brought to
the newest commit by the log is made anew, in a new file, so that nothing of an erased history is left in the old one.
"""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from pyoxigraph import Quad, Store

from sparql import checkpoint, durable
from sparql.log import Change, Entry, LogError, LogReader, read_head

FOLDER, LOCK = "index", "lock"
MERGED_ENTRIES, MERGED_STATEMENTS = 200, 20_000
"""How much of the log is one transaction, when there is much to catch up with."""
RETRY_SECONDS = 60.0
"""How long a follower that fails on what it is given is left alone."""
ORIGIN_SECONDS = 1.0
FORMAT = 1

log = logging.getLogger("graphtide.index")


@dataclass(frozen=True, slots=True)
class Exact:
    """What one commit, or some that were merged, made of the graph: each statement of `change` made a difference.

    `removed` and `added` are the same as quads. `change` names every graph that was written to, with or without effect.
    """

    id: int
    time: str
    change: Change
    removed: Sequence[Quad]
    added: Sequence[Quad]


def exact(entry: Entry, store: Store) -> Exact:
    """What `entry` will make of the store, which stands before it."""
    change = entry.change
    gone, there = _effective(change.removed, change, store, removed=True)
    come, new = _effective(change.added, change, store, removed=False)
    return Exact(entry.id, entry.time, Change(gone, come), there, new)


def _effective(
    side: Mapping[str, frozenset[str]], change: Change, store: Store, *, removed: bool
) -> tuple[dict[str, frozenset[str]], list[Quad]]:
    kept, quads = {}, []
    for graph, statements in side.items():
        # What is removed and added is there afterwards.
        asked = list(statements - change.added.get(graph, frozenset())) if removed else list(statements)
        found = []
        for statement, quad in zip(asked, change.quads({graph: asked}), strict=True):  # type: ignore[dict-item]
            if (quad in store) == removed:
                found.append(statement)
                quads.append(quad)
        kept[graph] = frozenset(found)
    return kept, quads


class Follower(Protocol):
    """Keeps the tables of one index. `version` grows whenever what it keeps is not what the version before kept."""

    name: str
    version: int

    def rebuild(self, db: sqlite3.Connection, store: Store) -> None:
        """The tables of the empty database are made, and are those of the store."""

    def apply(self, db: sqlite3.Connection, entry: Exact, store: Store) -> None:
        """The tables are those of the store, which stands at `entry`."""


@runtime_checkable
class Foreseeing(Protocol):
    """A follower that also looks at the store before the entry is applied to it."""

    def before(self, entry: Exact, store: Store) -> None: ...


def merged(entries: Sequence[Entry]) -> Entry:
    """One entry that takes a graph where these take it, one after the other."""
    if len(entries) == 1:
        return entries[0]
    removed: dict[str, set[str]] = {}
    added: dict[str, set[str]] = {}
    report: list[Mapping[str, Any]] = []
    for entry in entries:
        for graph, found in entry.change.removed.items():
            removed.setdefault(graph, set()).update(found)
            if graph in added:
                added[graph] -= found
        for graph, found in entry.change.added.items():
            added.setdefault(graph, set()).update(found)
        report += entry.report
    change = Change(
        {graph: frozenset(found) for graph, found in removed.items() if found},
        {graph: frozenset(found) for graph, found in added.items() if found},
    )
    return Entry(entries[-1].id, entries[0].previous, entries[-1].time, report, change)


def forget(state: Path) -> None:
    """No index is left below the state folder, not a byte of it; a running index process begins again."""
    folder = state / FOLDER
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        path.unlink(missing_ok=True)
    for path in sorted(folder.glob("*.sqlite*")) if folder.is_dir() else ():
        path.unlink(missing_ok=True)


class Copy:
    """A store of one's own at one commit, from a checkpoint and the log."""

    def __init__(self, state: Path, folder: Path) -> None:
        self.state, self.folder = state, folder
        self._generation = 0
        self._origin: checkpoint.Checkpoint | None = None
        self._looked = 0.0
        self._reader: LogReader | None = None
        self.commit, self.time = 0, ""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def go_to(self, commit: int | None) -> bool:
        """The store stands at `commit`, or (None) at what the newest checkpoint has. False when nothing leads there."""
        try:
            self._begin(checkpoint.at(self.state, commit))
            if commit is None:
                return True
            while self.commit < commit:
                entries = self.pending(commit)
                if not entries:
                    break
                self.take(merged(entries))
        except (LogError, checkpoint.CheckpointGone):
            return False
        return self.commit == commit

    def pending(self, until: int | None = None) -> list[Entry]:
        """The next entries of the log, at most as many as are one transaction. Raises LogError where there is a gap."""
        found: list[Entry] = []
        size = 0
        for entry in self._log():
            if until is not None and entry.id > until:
                self._reader = None
                break
            found.append(entry)
            size += len(entry.change)
            if len(found) >= MERGED_ENTRIES or size >= MERGED_STATEMENTS:
                break
        return found

    def _log(self) -> Iterator[Entry]:
        if self._reader is None or self._reader.after != self.commit:
            self._reader = LogReader(self.state, self.commit)
        return self._reader.entries()

    def take(self, entry: Entry) -> None:
        """The store stands at `entry`."""
        entry.change.apply(self.store)
        self.commit, self.time = entry.id, entry.time

    def kept(self) -> bool:
        """Whether the checkpoint this was made of is still kept: otherwise it holds files that were to be forgotten."""
        now = time.monotonic()
        if now - self._looked < ORIGIN_SECONDS:
            return True
        self._looked = now
        return self._origin is None or self._origin.path.exists()

    def _begin(self, found: checkpoint.Checkpoint | None) -> None:
        self._generation += 1
        data = self.folder / str(self._generation)
        if found is not None:
            checkpoint.clone(found, data)
        self.store = Store(str(data))
        gc.collect()  # the old store is closed when its last reference goes
        shutil.rmtree(self.folder / str(self._generation - 1), ignore_errors=True)
        self._origin = found
        self.commit, self.time = (found.commit, found.time) if found else (0, "")
        self._reader = None


@dataclass
class _Kept:
    """A follower and its open database; `db` is None while it has none, `rest` until when it is left alone."""

    follower: Follower
    db: sqlite3.Connection | None = None
    path: Path | None = None
    commit: int = 0
    time: str = ""
    rest: float = 0.0
    failures: list[float] = field(default_factory=list)


class Following:
    """Brings the indexes of `followers` to the newest commit, again and again. One a state folder: see `__main__`."""

    def __init__(self, state: Path, base: str, followers: Sequence[Follower]) -> None:
        self.state, self.base = state, base
        self.folder = state / FOLDER
        self.folder.mkdir(parents=True, exist_ok=True)
        self.copy: Copy | None = None
        self._all = [_Kept(follower) for follower in followers]
        for kept in self._all:
            self._open(kept)
        self._tidy()

    def round(self) -> bool:
        """All that was committed until now is in every index that can be kept. Returns whether that changed any."""
        head = read_head(self.state)
        live = [kept for kept in self._all if kept.rest <= time.monotonic()]
        for kept in live:
            # Deleted by someone, or of a time that was taken back: only that it is made anew is safe.
            if kept.db is not None and (not self._pointer(kept).exists() or kept.commit > head):
                self._drop(kept)
        if self.copy is None or not self.copy.kept() or self.copy.commit > head:
            self.copy = self._stand(live)
        before = {kept.follower.name: kept.commit if kept.db is not None else -1 for kept in live}
        self._level(live)
        try:
            while self.copy.commit < head and (entries := self.copy.pending(self._next_stop(live))):
                self._step(merged(entries), live)
                self._level(live)
        except LogError:
            self._begin_again()
        return any(before[kept.follower.name] != kept.commit for kept in live)

    def close(self) -> None:
        """Nothing is open, and the copy of the store is gone."""
        for kept in self._all:
            if kept.db is not None:
                kept.db.close()
                kept.db = None
        if self.copy is not None:
            folder, self.copy = self.copy.folder, None
            gc.collect()
            shutil.rmtree(folder, ignore_errors=True)

    # How

    def _stand(self, live: Sequence[_Kept]) -> Copy:
        """A copy of the store where the first of the indexes stands, or at the newest commit if that is gone."""
        folder, self.copy = self.folder / "replica", None
        gc.collect()
        copy = Copy(self.state, folder)
        for kept in sorted(live, key=lambda kept: kept.commit):
            if kept.db is None:
                continue
            if copy.go_to(kept.commit) and copy.time == kept.time:
                return copy
            self._drop(kept)
        while not copy.go_to(None):
            time.sleep(0.05)
        self._catch_up(copy)
        return copy

    def _catch_up(self, copy: Copy) -> None:
        """The copy is as new as the log can make it, before an index is made of it."""
        with contextlib.suppress(LogError):
            while entries := copy.pending():
                copy.take(merged(entries))

    def _level(self, live: Sequence[_Kept]) -> None:
        """Every index is at the commit of the copy, or at a later one that the copy will come to."""
        assert self.copy is not None
        for kept in live:
            here = kept.db is not None and kept.commit == self.copy.commit
            # The same number in another history is another commit.
            if kept.db is None or kept.commit < self.copy.commit or (here and kept.time != self.copy.time):
                self._rebuild(kept)

    def _next_stop(self, live: Sequence[_Kept]) -> int | None:
        assert self.copy is not None
        ahead = [kept.commit for kept in live if kept.db is not None and kept.commit > self.copy.commit]
        return min(ahead, default=None)

    def _begin_again(self) -> None:
        """The log does not lead on from where the copy stands."""
        self.copy = None
        for kept in self._all:
            self._drop(kept)

    def _step(self, entry: Entry, live: Sequence[_Kept]) -> None:
        copy = self.copy
        assert copy is not None
        here = [kept for kept in live if kept.db is not None and kept.commit == copy.commit]
        effect = exact(entry, copy.store)
        for kept in here:
            if isinstance(kept.follower, Foreseeing):
                self._guarded(kept, partial(kept.follower.before, effect, copy.store))
        copy.take(entry)
        for kept in here:
            if kept.db is not None:
                self._guarded(kept, partial(self._applied, kept, kept.db, effect, copy.store))

    def _applied(self, kept: _Kept, db: sqlite3.Connection, entry: Exact, store: Store) -> None:
        db.execute("BEGIN IMMEDIATE")
        try:
            kept.follower.apply(db, entry, store)
            db.execute("UPDATE following SET at = ?, time = ?", (entry.id, entry.time))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        kept.commit, kept.time = entry.id, entry.time

    def _rebuild(self, kept: _Kept) -> None:
        assert self.copy is not None
        self._drop(kept)
        self._guarded(kept, partial(self._made, kept, self.copy))

    def _made(self, kept: _Kept, copy: Copy) -> None:
        began = time.monotonic()
        name = kept.follower.name
        path = self.folder / f"{name}-{time.time_ns():x}.sqlite"
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute("PRAGMA journal_mode = OFF")
            db.execute("PRAGMA synchronous = OFF")
            db.execute("BEGIN")
            db.execute(
                "CREATE TABLE following (at INTEGER NOT NULL, time TEXT NOT NULL, base TEXT NOT NULL, "
                "version INTEGER NOT NULL, format INTEGER NOT NULL)"
            )
            kept.follower.rebuild(db, copy.store)
            db.execute(
                "INSERT INTO following VALUES (?, ?, ?, ?, ?)",
                (copy.commit, copy.time, self.base, kept.follower.version, FORMAT),
            )
            db.execute("COMMIT")
            db.close()
            durable.sync_file(path)
            durable.write_json(self._pointer(kept), {"file": path.name})
        except BaseException:
            db.close()
            path.unlink(missing_ok=True)
            raise
        self._open(kept)
        log.info("index %s made at commit %d in %.1f s", name, kept.commit, time.monotonic() - began)

    def _guarded(self, kept: _Kept, do: Callable[[], None]) -> None:
        """One index that fails is made anew, and left alone for a while when that fails too; the others go on."""
        try:
            do()
        except Exception:
            log.exception("The index %s cannot be kept, and is made anew.", kept.follower.name)
            self._drop(kept)
            now = time.monotonic()
            kept.failures = [when for when in kept.failures if now - when < RETRY_SECONDS] + [now]
            if len(kept.failures) > 1:
                kept.rest = now + RETRY_SECONDS

    def _pointer(self, kept: _Kept) -> Path:
        return self.folder / f"{kept.follower.name}.json"

    def _open(self, kept: _Kept) -> None:
        """The database there is, if it is of this base, version and format and whole."""
        try:
            path = self.folder / str(json.loads(self._pointer(kept).read_text("utf-8"))["file"])
            db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        except (OSError, ValueError, KeyError, TypeError, sqlite3.Error):
            self._pointer(kept).unlink(missing_ok=True)
            return
        try:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA wal_autocheckpoint = 8000")  # pages: each checkpoint syncs, and took half the time
            at, when, *rest = db.execute("SELECT at, time, base, version, format FROM following").fetchone()
            if rest != [self.base, kept.follower.version, FORMAT]:
                raise ValueError("It is of another base or version.")
        except (sqlite3.Error, ValueError, TypeError):
            db.close()
            self._pointer(kept).unlink(missing_ok=True)
            return
        kept.db, kept.path, kept.commit, kept.time = db, path, at, when

    def _drop(self, kept: _Kept) -> None:
        self._pointer(kept).unlink(missing_ok=True)
        if kept.db is not None:
            kept.db.close()
        if kept.path is not None:
            _unlink(kept.path)
        kept.db, kept.path, kept.commit, kept.time = None, None, 0, ""

    def _tidy(self) -> None:
        """Files of these followers that no index has are of one that was not finished, or was dropped."""
        ours = {kept.path.name for kept in self._all if kept.path is not None}
        for kept in self._all:
            for path in self.folder.glob(f"{kept.follower.name}-*.sqlite"):
                if path.name not in ours:
                    _unlink(path)


def _unlink(path: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{end}")
