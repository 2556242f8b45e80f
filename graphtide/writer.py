"""The writer is the one process that changes the graph: it watches before it reads, and commits what is whole."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sources.content import has_writer
from sources.formats import format_of
from sources.patterns import SKIPPED
from sources.record import ScopedSource
from sparql.store import DiskFull, StoreError
from sparql.store.socket import Refusal
from sparql.store.socket import serve as listen
from sparql.sync.edit import Refused

from . import __version__, sources_edit
from .engine import Emit, Engine, handlers
from .settings import FILE, STATE
from .settle import Settling
from .tree import Kind, Root
from .watch import Watch

log = logging.getLogger("graphtide.writer")

RETRY = (1.0, 5.0, 15.0, 60.0, 300.0)
"""Seconds until a source that failed is read again, the nth time in a row."""
REFUSED_AGAIN = 5.0
"""Seconds between looks at settings that are not in force, whose missing file may have come meanwhile."""


class Writer:
    """Keeps the graph of one engine in step with its sources until `stop`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.stop = threading.Event()
        self._wake = threading.Event()
        self._guard = threading.Lock()
        self._told: list[tuple[Kind, str, float]] = []
        self._lost = True  # the first look is at everything
        self._changed = False
        self._settling = Settling(engine.settings.limits.settle_ms / 1000, _written_to)
        self._oldest: dict[str, float] = {}
        self._polls: dict[str, float] = {}
        self._failures: dict[str, int] = {}
        self._reload_at: float | None = None
        self._files: frozenset[str] = frozenset()
        self._keep: frozenset[str] = frozenset()
        self._watch: Watch | None = None

    # -- life

    def run(self) -> None:
        """Watch, answer, read everything once, then follow; returns after `stop`, with a checkpoint made."""
        engine = self.engine
        self._follow_project()
        server = listen(engine.settings.state, self._handlers(), version=__version__, on_error=_tell)
        checkpoint = threading.Thread(target=self._checkpoints, name="checkpoints", daemon=True)
        checkpoint.start()
        try:
            while not self.stop.is_set():
                wait = self._round()
                self._wake.wait(wait)
                self._wake.clear()
        finally:
            self.stop.set()
            server.close()
            if self._watch is not None:
                self._watch.close()
            checkpoint.join(5.0)
            engine.close()

    def ask_to_stop(self) -> None:
        """`run` returns soon."""
        self.stop.set()
        self._wake.set()

    def _handlers(self) -> dict[str, Callable[[dict[str, Any], Emit], Any]]:
        engine = self.engine
        found = {name: _refusing(handler) for name, handler in handlers(engine).items()}

        def taken_up(change: Callable[[dict[str, Any], Emit], Any]) -> Callable[[dict[str, Any], Emit], Any]:
            def take_up(ask: dict[str, Any], emit: Emit) -> Any:
                answer = change(ask, emit)
                if not answer.get("dry_run"):
                    self._changed = True  # what is watched is for the writer's own thread to change
                    self._everything()
                return answer

            return take_up

        def end(ask: dict[str, Any], emit: Emit) -> dict[str, Any]:
            self.ask_to_stop()
            return {"stopping": True}

        return {
            **found,
            "reload": taken_up(found["reload"]),
            "sources": _refusing(lambda ask, emit: sources_edit.sources(engine)),
            "source-add": taken_up(_refusing(lambda ask, emit: sources_edit.add(engine, ask))),
            "source-remove": taken_up(_refusing(lambda ask, emit: sources_edit.remove(engine, ask))),
            "stop": end,
        }

    # -- what is told

    def tell(self, kind: Kind, path: str) -> None:
        """Something happened to a file; called by the watch's threads."""
        if kind == "lost":
            self._everything()
            return
        with self._guard:
            self._told.append((kind, path, time.monotonic()))
        if kind != "found":
            self._wake.set()

    def _everything(self) -> None:
        self._lost = True
        self._wake.set()

    # -- one round

    def _round(self) -> float:
        """Do what is due; returns the seconds until something may be due again."""
        now = time.monotonic()
        if self._changed:
            self._changed = False
            self._follow_project()
        self._take(now)
        ready, wait = self._settling.due(now)
        scopes: dict[tuple[str, str], bool] = {}
        for one in ready:
            if self._decides(one.path):
                self._reload_at = now
                continue
            for source, scope in self.engine.project.scopes_of(Path(one.path)):
                if one.gone and self._homeless(source, one.path):
                    if self.engine.project.discovered:
                        self._reload_at = now  # without settings the one folder that counts is the project's own
                    else:
                        self._polls[source] = now  # a missing folder is no deletion: read whole, the source is held
                else:
                    scopes[source, scope] = one.gone
        if self._reload_at is not None and self._reload_at <= now:
            self._reload(now)
        if self._lost:
            self._lost = False
            self._sync(None, now)
        elif scopes:
            self._sync_scopes([(source, scope, gone) for (source, scope), gone in scopes.items()], now)
        due = [name for name, at in self._polls.items() if at <= now and self.engine.project.pipeline(name)]
        if due and not self.stop.is_set():
            self._sync(due, now)
        self._show(now)
        times = [at for at in (*self._polls.values(), self._reload_at) if at is not None]
        soonest = min(times, default=now + 60.0) - time.monotonic()
        return max(0.0, min(soonest, 60.0 if wait is None else wait))

    def _take(self, now: float) -> None:
        with self._guard:
            told, self._told = self._told, []
        project = self.engine.project
        for kind, path, at in told:
            if self._decides(path):
                self._settling.note(kind, path, at)
                continue
            mine = list(project.scopes_of(Path(path)))
            for source, _ in mine:
                if kind != "found":
                    self._oldest.setdefault(source, at)
            if mine:
                self._settling.note(kind, path, at)
            elif kind not in ("found", "gone") and project.discovered and format_of(path) is not None:
                self._reload_at = now + self.engine.settings.limits.settle_ms / 1000  # a new file is a new source

    def _decides(self, path: str) -> bool:
        return path in self._files

    def _sync_scopes(self, scopes: list[tuple[str, str, bool]], now: float) -> None:
        reports = self._done(lambda: self.engine.sync_scopes(scopes), {source for source, _, _ in scopes}, now)
        for report in reports:
            self._again(report, now)

    def _sync(self, names: Iterable[str] | None, now: float) -> None:
        chosen = None if names is None else list(names)
        every = [one.name for one in self.engine.project.pipelines]
        for report in self._done(lambda: self.engine.sync(chosen), set(every if chosen is None else chosen), now):
            self._again(report, now)

    def _done(self, do: Callable[[], list[Any]], sources: set[str], now: float) -> list[Any]:
        """The reports; a failure that is no source's own (disk full, say) is shown, and tried again later."""
        try:
            reports = do()
        except (DiskFull, StoreError, OSError) as wrong:
            log.error("%s", wrong)
            for name in sources:
                self._fail(name, str(wrong), now)
            return []
        for name in sources:
            self._oldest.pop(name, None)
        return reports

    def _again(self, report: Any, now: float) -> None:
        """What a report asks for: moved scopes at once, a source that failed later, one with a clock at its time."""
        name = report.source
        for scope in report.again:
            self._settling.note("touched", str(self.engine.settings.dir / scope), now)
        if report.message and not _waits_for_a_person(report.message):
            self._fail(name, report.message, now)
            return
        self._failures.pop(name, None)
        self.engine.live.get(name, {}).pop("message", None)
        every = self.engine.project.every(name)
        if every is not None:
            self._polls[name] = now + every
        else:
            self._polls.pop(name, None)
        if report.changed or report.gone or report.violations:
            log.info("%s: %s changed, %s gone, %s rejected, commit %s", name, report.changed, report.gone,
                     report.rejected, report.commit)  # fmt: skip

    def _fail(self, name: str, message: str, now: float) -> None:
        count = self._failures.get(name, 0)
        self._failures[name] = count + 1
        self._polls[name] = now + RETRY[min(count, len(RETRY) - 1)]
        self.engine.live.setdefault(name, {})["message"] = message

    def _reload(self, now: float) -> None:
        before = self.engine.refused
        try:
            found = self.engine.reload()
        except Exception as wrong:  # whatever the user's files raise: the old stay in force, and status says why
            if str(wrong) != before:
                log.error("not taken up: %s", wrong)
            self._reload_at = now + REFUSED_AGAIN
            return
        self._reload_at = None
        said = ", ".join(f"{key} {' '.join(names)}" for key, names in found.items() if names)
        log.info("settings taken up: %s", said or "nothing changes")
        self._follow_project()
        self._lost = True

    # -- what is watched

    def _follow_project(self) -> None:
        """Watch what the project as it is now reads and what decides it; the first look comes after."""
        engine, project = self.engine, self.engine.project
        root = engine.settings.dir
        self._files = frozenset(str(path) for path in (root / FILE, *project.files))
        folders = {root}
        for _, source, _ in project.pipelines:
            with suppress(OSError):
                folders |= {Path(os.path.abspath(folder)) for folder in getattr(source, "watched", list)()}
        self._keep = frozenset(str(folder) for folder in (*folders, *(path.parent for path in project.files)))
        # Each folder is a root of its own, since only a root is looked for again after it vanished or was mounted over.
        before, self._watch = self._watch, Watch(
            [Root(str(folder)) for folder in folders], self.tell, self._skip,
            poll_seconds=engine.settings.limits.poll_seconds,
        )  # fmt: skip
        if before is not None:
            before.close()
        own = {one.name for one in project.pipelines}
        self._polls = {name: at for name, at in self._polls.items() if name in own}
        for name in own:
            every = project.every(name)
            if every is not None:
                self._polls.setdefault(name, time.monotonic() + every)

    def _homeless(self, source: str, path: str) -> bool:
        """Whether the folder in which the source's files live is missing, and not the file alone."""
        found = self.engine.project.pipeline(source)
        folders: list[Path] = getattr(found[1], "watched", list)() if found else []
        return any(Path(path).is_relative_to(folder) and not folder.is_dir() for folder in folders)

    def _skip(self, folder: str) -> bool:
        """Folders nobody reads: our state, hidden ones and installed code, unless a source names something in them."""
        name = os.path.basename(folder)
        if name == STATE:
            return True
        if name.startswith(".") or name in SKIPPED:
            return not any(kept == folder or kept.startswith(folder + os.sep) for kept in self._keep)
        return False

    def _show(self, now: float) -> None:
        """What `status` says of each source beyond what the graph knows."""
        project, live = self.engine.project, self.engine.live
        modes = self._watch.modes if self._watch is not None else {}
        for name, source, _ in project.pipelines:
            row = live.setdefault(name, {})
            if isinstance(source, ScopedSource):
                polled = next((mode for mode in modes.values() if mode.mode == "polling"), None)
                row["mode"] = "polling" if polled is not None else "events"
                row["why"] = polled.reason if polled is not None else ""
            else:
                row["mode"] = "polling" if project.every(name) is not None else "manual"
            row["lag_seconds"] = round(now - self._oldest[name], 3) if name in self._oldest else 0.0
            at = self._polls.get(name)
            row["next_poll"] = _clock(at - now) if at is not None else None
        for gone in set(live) - {one.name for one in project.pipelines}:
            del live[gone]

    def _checkpoints(self) -> None:
        """A checkpoint every `checkpoint_seconds` when there were commits."""
        store, last = self.engine.store, 0
        while not self.stop.wait(self.engine.settings.limits.checkpoint_seconds):
            self.engine.updates.rest()
            if store.head == last:
                continue
            try:
                last = self.engine.checkpoint()
            except (StoreError, OSError) as wrong:
                log.error("no checkpoint: %s", wrong)


def main(dir: str = ".") -> int:
    """Run the writer of a folder until SIGTERM or SIGINT; returns the exit code."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(message)s")
    for noisy in ("rdflib", "pyshacl"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    writer = Writer(Engine(dir, holder="graphtide writer"))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: writer.ask_to_stop())
    for note in writer.engine.notes:
        log.info("%s", note)
    writer.run()
    return 0


def _written_to(path: str) -> bool:
    return bool(has_writer(Path(path)))


def _waits_for_a_person(message: str) -> bool:
    """Whether reading again would end the same: the fuse."""
    return "--allow-deletes" in message


def _clock(seconds: float) -> str:
    when = datetime.now(UTC) + timedelta(seconds=max(0.0, seconds))
    return when.isoformat(timespec="seconds").replace("+00:00", "Z")


def _refusing(handler: Callable[[dict[str, Any], Emit], Any]) -> Callable[[dict[str, Any], Emit], Any]:
    """Errors that are about the request are a no with the error's own name, for the other side to tell apart."""

    def answer(ask: dict[str, Any], emit: Emit) -> Any:
        try:
            return handler(ask, emit)
        except Refused as no:
            raise Refusal(no.code, no.message, no.details) from no
        except (ValueError, TypeError, StoreError, OSError, KeyError) as wrong:
            raise Refusal(type(wrong).__name__, str(wrong)) from wrong

    return answer


def _tell(do: str, wrong: BaseException) -> None:
    log.error("%s failed: %s: %s", do, type(wrong).__name__, wrong)
