"""An answer is as old as the last commit that touched what its query reads, and the change log says which that was."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sparql.log import Entry, LogError, LogReader, read_head
from sparql.names import GRAPHS

log = logging.getLogger("graphtide.server")

FILE = "fresh.json"
VERSION = 2
# Terms remembered of each kind; what is forgotten counts as touched by the newest commit that was forgotten.
MOST = 100_000
# The file is written this often at most, so that a server that is killed reads no more of the log than that again.
SAVE_SECONDS = 5.0
LOOK_SECONDS = 0.25
# A longer commit counts as touching everything: to read it takes its own size several times over in memory.
LONGEST_ENTRY = 8 * 2**20


def sign(graph: str) -> str:
    """What a graph is remembered by: its name may hold a person's, and an erasure does not look here."""
    return hashlib.blake2b(graph.encode(), digest_size=8).hexdigest()


@dataclass(slots=True)
class Last:
    """For each key the last commit that touched it. An unknown key may have been touched at `floor`."""

    floor: int = 0
    found: dict[str, int] = field(default_factory=dict)

    def put(self, key: str, commit: int) -> None:
        """`key` was touched by `commit`, which is not older than any before."""
        self.found.pop(key, None)  # the order of the dict is the order of the commits
        self.found[key] = commit
        if len(self.found) > MOST:
            self.floor = max(self.floor, self.found.pop(next(iter(self.found))))

    def of(self, keys: Iterable[str]) -> int:
        """The last commit that can have touched one of `keys`; 0 when there are none."""
        return max((self.found.get(key, self.floor) for key in keys), default=0)


class Fresh:
    """What every commit up to `at` has touched. `stand` is that commit and when it was made, "" while unknown.

    One thread at a time follows; any thread may ask. `at` moves when everything the commit touched is there, so
    `touched` may be newer than `at` says, and is never older.
    """

    def __init__(self, state: Path, file: Path | None = None) -> None:
        self.state, self.file = state, file
        self.stand: tuple[int, str] = (0, "")
        self.line = secrets.token_hex(8)
        """The history that commits are counted in: a restored folder counts on from an earlier one, in another."""
        self._default, self._named, self._graphs = Last(), Last(), Last()
        self._newest_default = self._newest_named = self._empty = 0
        self._said = Last()  # what was said of a graph: that it is there, empty or not, or no more
        self._reader: LogReader | None = None
        self._lock = threading.Lock()
        self._saved = 0

    @property
    def at(self) -> int:
        """The commit it stands at."""
        return self.stand[0]

    def learn(self, commit: int, time: str) -> None:
        """`commit` was made at `time`, whoever says so."""
        if self.stand == (commit, "") and self._lock.acquire(blocking=False):
            try:
                if self.stand == (commit, ""):
                    self.stand = (commit, time)
            finally:
                self._lock.release()

    def touched(
        self,
        predicates: Collection[str] | None,
        *,
        default: Collection[str] | None = None,
        named: bool = False,
        graphs: Collection[str] | None = None,
    ) -> int:
        """The last commit that can have changed what a query reads: these predicates (None: all).

        It reads them in the default graph (`default` None), or in the merge of the named graphs `default`, which may be
        none; when `named`, in named graphs too: in `graphs`, or in any (None).
        """
        found = 0
        if default is None:
            found = self._newest_default if predicates is None else self._default.of(predicates)
        elif default:
            found = self._in_graphs(predicates, default)
        if named:
            found = max(found, self._in_graphs(predicates, graphs))
        if not named:
            return max(found, self._empty) if default else found
        return max(found, self._empty if graphs is None else self._said.of(graphs))

    def _in_graphs(self, predicates: Collection[str] | None, graphs: Collection[str] | None) -> int:
        # What touched this predicate in this graph touched both: neither is older.
        by_predicate = self._newest_named if predicates is None else self._named.of(predicates)
        return by_predicate if graphs is None else min(by_predicate, self._graphs.of(map(sign, graphs)))

    # -- following ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """It stands where it was saved, if that can be; else everything counts as touched by the newest commit."""
        head = read_head(self.state)
        try:
            kept = json.loads(self.file.read_text("utf-8")) if self.file is not None else {}
            if kept["version"] != VERSION or kept["at"] > head:
                raise ValueError("of another time")
            self._default, self._named, self._graphs = (
                Last(int(kept[name]["floor"]), {str(key): int(at) for key, at in kept[name]["found"].items()})
                for name in ("default", "named", "graphs")
            )
            self._newest_default, self._newest_named = int(kept["newest_default"]), int(kept["newest_named"])
            self.line = str(kept["line"])
            self._empty, self._saved = int(kept["empty"]), int(kept["at"])
            self._said = Last(self._empty)
            self.stand = (self._saved, str(kept["time"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self._forget(head)

    def follow(self) -> None:
        """It stands at the newest durable commit. Raises nothing: what the log does not tell counts as touched."""
        with self._lock:
            head = read_head(self.state)
            if head == self.at:
                return
            try:
                if head < self.at:
                    raise LogError(f"the newest commit is {head}, and was {self.at}")
                if self._reader is None:
                    self._reader = LogReader(self.state, self.at)
                while self.at < head:
                    if (size := self._reader.next_bytes()) > LONGEST_ENTRY:
                        raise LogError(f"a commit of {size:,} bytes is not looked into")
                    self._take(next(self._reader.entries()))
            except LogError as gap:
                log.info("everything counts as changed: %s", gap)
                self._forget(max(head, read_head(self.state)))

    def _take(self, entry: Entry) -> None:
        for side in (entry.change.removed, entry.change.added):
            for graph, statements in side.items():
                if not statements:
                    continue
                into = self._named if graph else self._default
                for predicate in {statement.split(" ", 2)[1][1:-1] for statement in statements}:
                    into.put(predicate, entry.id)
                if not graph:
                    self._newest_default = entry.id
                    continue
                self._newest_named = entry.id
                self._graphs.put(sign(graph), entry.id)
                if graph.endswith(GRAPHS):  # says of other graphs that they are there, or no more
                    self._empty = entry.id
                    for statement in statements:
                        self._said.put(statement[1 : statement.index(">")], entry.id)
        self.stand = (entry.id, entry.time)

    def _forget(self, commit: int) -> None:
        """Everything counts as touched by `commit`."""
        self._default, self._named, self._graphs = Last(commit), Last(commit), Last(commit)
        self._newest_default = self._newest_named = self._empty = commit
        self._said = Last(commit)
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self.line = secrets.token_hex(8)
        self.stand = (commit, "")  # the log of before is not there to say when

    def save(self) -> None:
        """What is known is in the file, whole: a restart goes on from there."""
        with self._lock:
            if self.file is None or self.at == self._saved:
                return
            kept = {
                "version": VERSION,
                "line": self.line,
                "at": self.stand[0],
                "time": self.stand[1],
                "newest_default": self._newest_default,
                "newest_named": self._newest_named,
                "empty": self._empty,
                "default": {"floor": self._default.floor, "found": self._default.found},
                "named": {"floor": self._named.floor, "found": self._named.found},
                "graphs": {"floor": self._graphs.floor, "found": self._graphs.found},
            }
            part = self.file.with_name(f".{self.file.name}.{os.getpid()}")
            try:
                part.write_text(json.dumps(kept, separators=(",", ":")), "utf-8")
                os.replace(part, self.file)  # not synced: a file that is lost or torn costs a few 304s
                self._saved = self.at
            except OSError as wrong:
                log.warning("%s was not written (%s): after a restart everything counts as changed", self.file, wrong)

    def close(self) -> None:
        self.save()
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class Following:
    """Keeps a Fresh at the head from an event loop: at once when somebody waits for it, else a few times a second."""

    def __init__(self, fresh: Fresh) -> None:
        self.fresh = fresh
        self._running: asyncio.Future[None] | None = None
        # A thread of its own: nobody's long work stands before it.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="graphtide-fresh")

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """It follows inside."""
        await self._off_loop(self.fresh.load)
        task = asyncio.create_task(self._idle())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await self._off_loop(self.fresh.close)
            self._thread.shutdown()

    async def reach(self, commit: int, seconds: float) -> bool:
        """Whether it stands at `commit` or later, after so many seconds at most."""
        if self.fresh.at >= commit:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.fresh.at < commit:
                    await asyncio.shield(self._follow())
                    if self.fresh.at < commit and read_head(self.fresh.state) < commit:
                        return False
        return self.fresh.at >= commit

    def _follow(self) -> asyncio.Future[None]:
        if self._running is None or self._running.done():
            self._running = self._off_loop(self.fresh.follow)
        return self._running

    def _off_loop(self, do: Callable[[], None]) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._thread, do)

    async def _idle(self) -> None:
        saved = asyncio.get_running_loop().time()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._follow()
            if (now := asyncio.get_running_loop().time()) - saved > SAVE_SECONDS:
                saved = now
                await self._off_loop(self.fresh.save)
