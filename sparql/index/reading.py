"""Whoever reads an index sees it at one commit, and how far that is behind, and can never change it."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from sparql.index.following import FOLDER
from sparql.log import read_head

REACH_SECONDS = 0.02
"""How often an index that is waited for is looked at."""


class IndexMissing(LookupError):
    """The index is not there (yet): it is being made, or nobody makes it."""


class Index(threading.local):
    """One index of a state folder, for reading from any thread: a connection each, opened anew when it is remade."""

    def __init__(self, state: Path, name: str) -> None:
        self.state, self.name = state, name
        self._db: sqlite3.Connection | None = None
        self._seen: tuple[int, int, int] | None = None

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees one commit until it is left. Raises IndexMissing."""
        db = self._connection()
        try:
            db.execute("BEGIN")
            db.execute("SELECT at FROM following").fetchone()  # the snapshot is taken by the first read
        except sqlite3.Error as wrong:
            self._close()
            raise self._missing() from wrong
        try:
            yield db
        except sqlite3.DatabaseError as wrong:
            self._close()
            raise self._missing() from wrong
        finally:
            if self._db is not None and db.in_transaction:
                db.execute("ROLLBACK")

    @property
    def commit(self) -> int:
        """The commit the index stands at. Raises IndexMissing."""
        with self.read() as db:
            return at(db)

    @property
    def lag(self) -> int:
        """How many commits the index is behind. Raises IndexMissing."""
        return max(0, read_head(self.state) - self.commit)

    def reach(self, seconds: float) -> bool:
        """Whether the index comes to what is the newest commit now, within that time. Raises IndexMissing."""
        newest, ends = read_head(self.state), time.monotonic() + seconds
        while self.commit < newest:
            if time.monotonic() >= ends:
                return False
            time.sleep(REACH_SECONDS)
        return True

    def _connection(self) -> sqlite3.Connection:
        pointer = self.state / FOLDER / f"{self.name}.json"
        try:
            stat = pointer.stat()
            seen = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if self._db is not None and seen == self._seen:
                return self._db
            self._close()
            path = pointer.parent / str(json.loads(pointer.read_text("utf-8"))["file"])
            db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, timeout=5.0)
            db.execute("PRAGMA query_only = ON")
        except (OSError, ValueError, KeyError, TypeError, sqlite3.Error) as wrong:
            self._close()
            raise self._missing() from wrong
        self._db, self._seen = db, seen
        return db

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._seen = None, None

    def _missing(self) -> IndexMissing:
        return IndexMissing(
            f"The index `{self.name}` of {self.state} is not there yet: it is made while a server runs. Ask again soon."
        )


class Held:
    """An index in memory, of a store at hand: for tests and measurements."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db, self._lock = db, threading.RLock()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The connection, for one at a time."""
        with self._lock:
            yield self._db

    @property
    def commit(self) -> int:
        """The commit it stands at."""
        with self.read() as db:
            return at(db)

    def reach(self, seconds: float) -> bool:
        """It stands where it stands."""
        return True


def at(db: sqlite3.Connection) -> int:
    """The commit that a connection's index stands at."""
    found = db.execute("SELECT at FROM following").fetchone()
    return int(found[0])


def when(db: sqlite3.Connection) -> str:
    """When that commit was made; "" before the first."""
    found = db.execute("SELECT time FROM following").fetchone()
    return str(found[0])
