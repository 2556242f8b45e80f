"""The graph on disk, with one writer. The default graph is what holds; a named graph is who said so.

What sync needs of a store, so that a SPARQL 1.1 server by URL can be one next: `names`, `head`, `empty`, `match`,
`statements`, `holds`, `present`, `asserted_by`, `query`, `commit`, `build`, `stage` and `close`. The others
(checkpoints, backup, erasure) are this store's own.

A commit has happened when its log entry is synced. So the order is: log, sync, store, sync, head; and when the store
is opened, what the log has and the store does not is applied.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyoxigraph
from pyoxigraph import NamedNode, Quad, RdfFormat

from sparql import checkpoint as checkpoints
from sparql import durable
from sparql.checkpoint import Checkpoint
from sparql.log import Change, Entry, Head, Log, LogError
from sparql.names import Names

from . import bulk, layout, reading, retention
from .errors import DiskFull, StoreError
from .layout import Layout
from .limits import Limits
from .lock import Lock
from .migrate import migrate
from .stage import Stage
from .wal import Wal

Report = Sequence[Mapping[str, Any]]
BACKUPS = "backups"
MANIFEST_BYTES = 4 * 2**20  # grows by 4.5 kB a checkpoint, and each copies it; 12 MB a day at one in 30 s


def open_store(state: Path, base: str, *, limits: Limits | None = None, holder: str = "graphtide") -> Store:
    """The store in `state` (made if there is none), whole: what was acknowledged is in it, torn writes are not.

    Raises StoreBusy when another process has held it for `lock_seconds`, StoreTooNew, WrongBase, StoreError.
    """
    state, limits = Path(state).absolute(), limits or Limits()
    state.mkdir(parents=True, exist_ok=True)
    lock = Lock(state, holder, limits.lock_seconds)
    try:
        return Store(state, base, limits, lock)
    except BaseException:
        lock.release()
        raise


class Store:
    """An open store; made by `open_store`. Its methods may be called from any thread."""

    def __init__(self, state: Path, base: str, limits: Limits, lock: Lock) -> None:
        self.state, self.limits, self.names = state, limits, Names(base)
        self._lock, self._writing, self._queue = lock, threading.RLock(), deque[_Pending]()
        self._stages: weakref.WeakSet[Stage] = weakref.WeakSet()  # one nobody uses any more is not kept up
        self._closed, self._broken = False, ""
        self.plain = False
        """Whether the default graph is its own, and nothing is merged into it."""
        self._graph: pyoxigraph.Store
        self.head: int
        self.head_time: str
        self._layout = layout.settle(state, base)
        self._wal = Wal(state / self._layout.data)
        self._open_data()
        try:
            self._log = Log(state, after=self._layout.log_from, knows=self.head)
            self._roll_forward()
        except LogError as wrong:
            del self._graph
            raise StoreError(str(wrong)) from wrong
        self._tidy()
        self.head_time = self._time_of_head()
        self._head = Head(state)
        self._head.publish(self.head)
        if self._layout.format < layout.FORMAT:
            self._migrate()
        newest = checkpoints.newest(state)
        if newest is None or newest.commit < self._log.first:
            with suppress(DiskFull):  # reads go on
                self._room()
                self._publish_checkpoint(())

    # Reading

    @property
    def empty(self) -> bool:
        """Whether there is nothing in the store but what it says about itself."""
        own = NamedNode(self.names.store)
        return all(quad.subject == own for quad in self._graph)

    def match(
        self,
        s: NamedNode | None = None,
        p: NamedNode | None = None,
        o: Any = None,
        graph: Any = None,
    ) -> Iterator[Quad]:
        """The quads of a pattern; None is any, also for the graph."""
        return self._graph.quads_for_pattern(s, p, o, graph)

    def statements(self, graph: str) -> frozenset[str]:
        """What the graph says ("" is the default graph)."""
        return reading.statements(self._graph, graph)

    def holds(self, statement: str) -> bool:
        """Whether the statement is in the default graph."""
        return reading.holds(self._graph, statement)

    def present(self, statements: Collection[str], graph: str = "") -> frozenset[str]:
        """Those of the statements that the graph ("": the default one) has; a third of the time of asking each."""
        return reading.present(self._graph, statements, graph)

    def exists(self, graph: str) -> bool:
        """Whether there is a named graph of that name, empty or not."""
        return self._graph.contains_named_graph(NamedNode(graph))

    def asserted_by(self, statement: str) -> Iterator[str]:
        """The merged record graphs that contain the statement."""
        return reading.asserted_by(self._graph, self.names, statement)

    def query(self, text: str, **options: Any) -> Any:
        """The answer to a SPARQL query, as pyoxigraph gives it."""
        return self._graph.query(text, **options)

    # Writing

    def commit(self, change: Change, report: Report = (), *, blank: bool = False) -> Entry:
        """`change` is in the graph and on disk, all of it, as the commit that is returned.

        `blank` allows blank nodes, as a plain store always does.

        Commits that come together share their syncs. Raises DiskFull, StoreError; ValueError for a statement that is
        none. After any of these the graph is as it was, or the store says that it must be opened again.
        """
        mine = _Pending(change, report, blank or self.plain)
        self._queue.append(mine)
        with self._writing:
            if not mine.done:
                self._write([self._queue.popleft() for _ in range(len(self._queue))])
        if mine.wrong is not None:
            raise mine.wrong
        assert mine.entry is not None
        return mine.entry

    def build(self, quads: Iterable[bytes], report: Report = ()) -> Entry:
        """The empty store holds `quads` (N-Quads in pieces), loaded in bulk: after a kill all of them or none.

        The entry returned has no change, and none is logged: the log and the checkpoints start here.
        Raises StoreError when the store is not empty, SyntaxError for what is not N-Quads, DiskFull.
        """
        with self._writing:
            self._usable()
            if not self.empty:
                raise StoreError(f"{self.state} is not empty: `build` is for the first load. Use `commit`.")
            self._room()
            data, commit = layout.new_data(self.state), self.head + 1
            path = self.state / data
            try:
                self._load(path, quads, commit)
                return self._replace(data, commit, report)
            except BaseException:
                if self._layout.data != data:
                    layout.discard(self.state, path)
                raise

    def stage(self) -> Stage:
        """A private copy of the graph that follows the commits and can take a change before the store does."""
        with self._writing:
            self._usable()
            newest = checkpoints.newest(self.state) or self.checkpoint()
            folder = self.state / layout.STAGE
            folder.mkdir(exist_ok=True)
            made = Stage(newest, folder, self.names)
            for entry in self._log.entries(newest.commit):
                made.follow(entry)
            self._stages.add(made)
            return made

    def checkpoint(self, report: Report = ()) -> Checkpoint:
        """A checkpoint of the last commit, on disk and published; the newest one when nothing was committed since."""
        with self._writing:
            self._usable()
            newest = checkpoints.newest(self.state)
            if newest is not None and newest.commit == self.head:
                return newest
            self._room()
            made = self._publish_checkpoint(report)
            if self._wal.manifest() > MANIFEST_BYTES:
                self._renew(made)
            return made

    def retain(self) -> None:
        """History is within its limits; what is leased stays."""
        with self._writing:
            self._usable()
            retention.prune(self.state, self._data, self._log, self.limits)

    def backup(self, dest: Path) -> Checkpoint:
        """`dest`, a new folder, is a copy of the graph as it is now, for `restore`. Nothing in it is shared."""
        with self._writing:
            found = self.checkpoint()
            if dest.exists():
                raise StoreError(f"{dest} exists already. Name a new folder for the backup.")
            part = dest.with_name(f".{dest.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(found.path, part)
            self._layout.write(part)
            durable.sync_tree(part)
            os.rename(part, dest)
            durable.sync_folder(dest.parent)
            return Checkpoint(dest, found.commit, found.time)

    def erase_history(self) -> Entry:
        """What is not in the graph is nowhere below the state folder: store, log and checkpoints are written anew.

        Copies that others made (replicas, backups) are theirs to drop: a replica finds a gap in the log.
        """
        with self._writing:
            self._usable()
            self._room()
            data, commit = layout.new_data(self.state), self.head + 1
            text = self.state / layout.TRASH / "erase.nq"
            text.parent.mkdir(exist_ok=True)
            try:
                self._graph.dump(str(text), RdfFormat.N_QUADS)
                self._load(self.state / data, bulk.without_commit(text, self.names), commit)
                entry = self._replace(data, commit, ())
            except BaseException:
                if self._layout.data != data:
                    layout.discard(self.state, self.state / data)
                raise
            finally:
                text.unlink(missing_ok=True)
            layout.discard(self.state, self.state / BACKUPS)
            return entry

    def close(self) -> None:
        """Another process may open the store. Iterators over it that are still alive keep its files open."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            for stage in self._stages:
                stage.close()
            self._wal.close()
            self._log.close()
            self._head.close()
            del self._graph
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # How

    def _write(self, batch: list[_Pending]) -> None:
        """Every one of the batch is committed, or has its error."""
        try:
            self._usable()
            self._room()
            self._apply_all(self._log_all(batch))
        except Exception as wrong:
            _fail(batch, wrong)
        except BaseException as wrong:  # Ctrl-C: what is in the log has happened, and is not in the store
            self._break(f"it was interrupted ({type(wrong).__name__})")
            _fail(batch, StoreError(self._broken))
            raise

    def _log_all(self, batch: list[_Pending]) -> list[_Pending]:
        """Those of the batch that can be taken are in the log, on disk; the others have their error."""
        if self._log.full:
            self._log.rotate()
        start, last, time = self._log.end, self._log.last, _now()
        taken: list[_Pending] = []
        try:
            for pending in batch:
                commit = last + 1 + len(taken)
                try:
                    pending.change.check(blank=pending.blank)
                    change = self._with_id(pending.change, commit)
                    pending.entry = Entry(commit, commit - 1, time, pending.report, change)
                    pending.position = self._log.append(pending.entry)
                except (ValueError, TypeError) as wrong:
                    pending.fail(wrong)
                    continue
                taken.append(pending)
            durable.reach("commit.written")
            self._log.sync()
        except OSError as wrong:
            try:
                self._log.take_back(start, last)
            except OSError as worse:
                self._break(f"the log could neither be written nor taken back ({worse})")
            raise self._no_room(wrong) from wrong
        return taken

    def _apply_all(self, batch: list[_Pending]) -> None:
        """What is in the log is in the store."""
        for number, pending in enumerate(batch):
            assert pending.entry is not None
            durable.reach("commit.logged")
            try:
                pending.entry.change.apply(self._graph, self.names.cursor)
            except (SyntaxError, ValueError) as wrong:  # refused, whenever it is tried: nobody was told it happened
                self._log.take_back(pending.position, self.head)
                pending.fail(ValueError(f"Not a change the store can take: {wrong}"))
                self._settled(batch[:number])
                if batch[number + 1 :]:
                    self._write(batch[number + 1 :])
                return
            except Exception as wrong:
                self._break(f"commit {pending.entry.id} is in the log but could not be applied ({wrong})")
                _fail(batch[number:], StoreError(self._broken))
                self._settled(batch[:number])
                return
            self.head, self.head_time = pending.entry.id, pending.entry.time
        self._settled(batch)

    def _settled(self, batch: list[_Pending]) -> None:
        if not batch:
            return
        durable.reach("commit.applied")
        try:
            self._wal.sync()
        except OSError as wrong:
            self._break(f"the store's own log could not be synced ({wrong})")
        durable.reach("commit.synced")
        self._head.publish(self.head)
        for pending in batch:
            assert pending.entry is not None
            for stage in self._stages:
                stage.follow(pending.entry)
            pending.done = True

    def _with_id(self, change: Change, commit: int) -> Change:
        cursor = self.names.cursor
        before = frozenset({layout.commit_statement(self.names, commit - 1)})
        after = frozenset({layout.commit_statement(self.names, commit)})
        return Change(
            {**change.removed, cursor: change.removed.get(cursor, frozenset()) | before},
            {**change.added, cursor: change.added.get(cursor, frozenset()) | after},
        )

    def _publish_checkpoint(self, report: Report) -> Checkpoint:
        folder = self.state / checkpoints.FOLDER
        folder.mkdir(exist_ok=True)
        part, path = folder / f".{self.head:020d}.part", folder / f"{self.head:020d}"
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
            self._graph.backup(str(part / checkpoints.DATA))
            durable.reach("checkpoint.made")
            about = {"commit": self.head, "time": self.head_time, "report": list(report)}
            durable.write_json(part / checkpoints.ABOUT, about)
            durable.sync_tree(part)
        except OSError as wrong:
            shutil.rmtree(part, ignore_errors=True)
            raise self._no_room(wrong) from wrong
        durable.reach("checkpoint.synced")
        os.rename(part, path)
        durable.sync_folder(folder)
        durable.reach("checkpoint.published")
        return Checkpoint(path, self.head, self.head_time)

    def _replace(self, data: str, commit: int, report: Report) -> Entry:
        """The store is the folder `data`, which stands at `commit`; log and checkpoints start there."""
        path = self.state / data
        durable.sync_tree(path)
        durable.sync_folder(self.state)
        durable.reach("replace.made")
        entry = Entry(commit, self.head, _now(), report, Change())
        before = self._data
        self._layout = Layout(layout.FORMAT, self.names.base, data, commit)
        self._layout.write(self.state)
        durable.reach("replace.decided")
        try:
            self._open_data()
            self._log.reset(commit)
            self.head_time = entry.time
            durable.reach("replace.log")
            newest = self._publish_checkpoint(report)
            self._head.publish(commit)
            for stage in self._stages:
                stage.renew(newest)
        except BaseException as wrong:
            self._break(f"commit {commit} is made but not published ({wrong})")
            raise
        for one in checkpoints.every(self.state):
            if one.commit < commit:
                layout.discard(self.state, one.path)
        layout.discard(self.state, before)
        return entry

    def _renew(self, newest: Checkpoint) -> None:
        """The store goes on in a copy of `newest`, its last commit, with a short MANIFEST."""
        before, data = self._data, layout.new_data(self.state)
        checkpoints.clone(newest, self.state / data)
        durable.sync_tree(self.state / data)
        durable.sync_folder(self.state)
        durable.reach("renew.made")
        self._layout = replace(self._layout, data=data)
        self._layout.write(self.state)
        durable.reach("renew.decided")
        try:
            self._open_data()
        except BaseException as wrong:
            self._break(f"{self.state / data} could not be opened ({wrong})")
            raise
        layout.discard(self.state, before)

    def _open_data(self) -> None:
        self._wal.close()
        self._data = self.state / self._layout.data
        try:
            self._graph = pyoxigraph.Store(str(self._data))
        except OSError as wrong:
            raise StoreError(
                f"{self._data} cannot be opened ({wrong}). Restore a backup: `graphtide restore`."
            ) from wrong
        self._wal = Wal(self._data)
        self.head = layout.stands_at(self._graph, self.names)

    def _roll_forward(self) -> None:
        """What the log has and the store does not is applied."""
        with suppress(LogError):  # the last commit may have been cut off behind its statements
            for entry in self._log.entries(self.head - 1, self.head):
                entry.change.found(self._graph)
        for entry in self._log.entries(self.head):
            try:
                entry.change.apply(self._graph, self.names.cursor)
            except (SyntaxError, ValueError):  # it was being taken back: nobody was told it happened
                self._log.drop(entry.id)
                break
            self.head = entry.id
            durable.reach("open.forward")
        self._wal.sync()

    def _time_of_head(self) -> str:
        newest = checkpoints.newest(self.state)
        if newest is not None and newest.commit == self.head:
            return newest.time
        with suppress(LogError):
            for entry in self._log.entries(self.head - 1):
                return entry.time
        return _now()

    def _migrate(self) -> None:
        """The store has this code's format; a backup of it as it was is in `backups/`."""
        old, commit = self._layout.format, self.head + 1
        dest = self.state / BACKUPS / f"format-{old}-commit-{self.head}"
        if not dest.exists():
            self.backup(dest)
        data = layout.new_data(self.state)
        newest = checkpoints.newest(self.state)
        assert newest is not None
        checkpoints.clone(newest, self.state / data)
        fresh = pyoxigraph.Store(str(self.state / data))
        migrate(fresh, self.names, old)
        layout.stand_at(fresh, self.names, commit)
        fresh.flush()
        del fresh
        durable.reach("migrate.made")
        self._replace(data, commit, ({"message": f"Migrated from format {old} to {layout.FORMAT}."},))

    def _tidy(self) -> None:
        """Nothing is left of what was interrupted, nor of checkpoints that are not of this log."""
        for name in (layout.STAGE, layout.TRASH):
            shutil.rmtree(self.state / name, ignore_errors=True)
        for _, path in layout.data_folders(self.state):
            if path != self._data:
                layout.discard(self.state, path)
        for one in checkpoints.every(self.state):
            if not self._layout.log_from <= one.commit <= self.head:
                layout.discard(self.state, one.path)
        folder = self.state / checkpoints.FOLDER
        for name in os.listdir(folder) if folder.is_dir() else ():
            if name.startswith("."):
                shutil.rmtree(folder / name, ignore_errors=True)

    def _load(self, path: Path, quads: Iterable[bytes], commit: int) -> None:
        try:
            bulk.load(path, quads, self._own(commit), self._room)
        except OSError as wrong:
            raise self._no_room(wrong) from wrong

    def _own(self, commit: int) -> bytes:
        lines = layout.own_statements(self.names, commit)
        return "".join(f"{line} <{self.names.cursor}> .\n" for line in sorted(lines)).encode()

    def _usable(self) -> None:
        if self._closed:
            raise StoreError(f"The store in {self.state} is closed.")
        if self._broken:
            raise StoreError(self._broken)

    def _break(self, why: str) -> None:
        self._broken = f"The store in {self.state} stopped writing: {why}. Reads go on; open it again to settle it."

    def _room(self) -> None:
        free = os.statvfs(self.state)
        left = free.f_bavail * free.f_frsize
        if left < self.limits.min_free_bytes:
            raise DiskFull(
                f"{self.state} has {_mb(left)} free and {_mb(self.limits.min_free_bytes)} are needed to write. "
                "Reads go on; free some space, or lower min_free_bytes or history_bytes."
            )

    def _no_room(self, wrong: Exception) -> Exception:
        if isinstance(wrong, OSError) and (wrong.errno in (errno.ENOSPC, errno.EDQUOT) or "No space" in str(wrong)):
            return DiskFull(f"{self.state}: no space left to write. Reads go on; free some space and try again.")
        return wrong


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fail(batch: Iterable[_Pending], wrong: Exception) -> None:
    for pending in batch:
        if not pending.done:
            pending.fail(wrong)


class _Pending:
    """A commit that waits for its turn."""

    def __init__(self, change: Change, report: Report, blank: bool) -> None:
        self.change, self.report, self.blank = change, tuple(report), blank
        self.entry: Entry | None = None
        self.position = 0
        self.wrong: Exception | None = None
        self.done = False

    def fail(self, wrong: Exception) -> None:
        self.wrong, self.done = wrong, True


def _mb(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"
