"""One engine owns the store of one folder: whatever changes the graph passes through it, one request at a time."""

from __future__ import annotations

import difflib
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoxigraph import Literal, NamedNode

from sources.formats import format_of
from sources.record import Batch, Record
from sparql import journal
from sparql.client import WriterClient, WriterGone, about
from sparql.index import following
from sparql.log import Change
from sparql.names import TOKEN
from sparql.store import Limits, Store, StoreBusy, StoreError, open_store
from sparql.store import restore as restore_store
from sparql.store.layout import read as read_layout
from sparql.sync import Plan, SyncReport, batches_of, build, erase, forget, rename, scopes_of, sync_many, verify
from transforms.direct import direct_mapping

from . import ontology_source, rooms, show, standing
from .own_source import sound, sound_record
from .pipeline import Pipeline, Project
from .scrub import TELLING, scrub
from .settings import FILE, RESERVED, Settings, SettingsError, load, state_of
from .updating import Updates

Emit = Callable[[dict[str, Any]], None]


class EngineError(ValueError):
    """A request that cannot be done as asked; `str()` says what to ask instead."""


class Engine:
    """The project in a folder with its store open, as its only writer, until `close`. Any thread may call it.

    What changes the graph waits for its turn; what only reads does not. `live` is what a writer process knows of each
    source (`mode`, `next_poll`, `lag_seconds`, `message`) and wants shown in `status`.
    """

    def __init__(self, dir: Path | str, *, holder: str = "graphtide", lock_seconds: float | None = None) -> None:
        """Raises SettingsError and its kin, StoreBusy (after `lock_seconds`), StoreTooNew, WrongBase."""
        rooms.check()
        self.lock = threading.RLock()
        self.project = Project.open(dir)
        self.live: dict[str, dict[str, Any]] = {}
        self.refused = ""
        """Why the newest settings are not in force; empty when they are."""
        try:
            self.store: Store = open_store(
                self.settings.state, self.settings.base, limits=_limits(self.settings, lock_seconds), holder=holder
            )
        except BaseException:
            self.project.close()
            raise
        try:
            self._settle_merge()
        except BaseException:
            self.store.close()
            self.project.close()
            raise
        self._seen = standing.seen(self.settings.state)
        self._closed = False
        self.updates = Updates(self)

    @property
    def settings(self) -> Settings:
        return self.project.settings

    @property
    def notes(self) -> tuple[str, ...]:
        return self.project.notes

    # -- what changes the graph

    def sync(
        self, sources: Iterable[str] | None = None, *, allow_deletes: bool = False, emit: Emit | None = None
    ) -> list[SyncReport]:
        """A report a source. A source that fails is held and says so in its report; the others go on."""
        with self.lock:
            named = None if sources is None else set(sources)
            left = [one for one in self._left() if named is None or one.name in named]
            chosen = self._chosen(None if named is None else named - {one.name for one in left})
            if self.store.empty and self.settings.merge:
                pairs = [(one.plan, batches_of(self.store, one.plan, one.source)) for one in chosen]
                reports = build(self.store, pairs, rules=self.project.rules, wide=self.project.shapes, emit=emit)
            else:
                reports = self._synced([*chosen, *left], {}, allow_deletes=allow_deletes, emit=emit)
            self._saw(reports)
            for one in reports:
                if not one.message and any(one.source == gone.name for gone in left):
                    forget(self.store, one.source, rules=self.project.rules, wide=self.project.shapes)
            return [one for one in reports if named is None or one.source in named]

    def sync_scopes(self, scopes: Iterable[tuple[str, str, bool]], *, emit: Emit | None = None) -> list[SyncReport]:
        """(source, scope, deleted by an event): these scopes as they are now, in one commit."""
        by_source: dict[str, dict[str, bool]] = {}
        for source, scope, deleted in scopes:
            by_source.setdefault(source, {})[scope] = deleted
        with self.lock:
            own = self.project.pipeline(ontology_source.NAME)
            declares: frozenset[str] = getattr(own.source, "declares", frozenset()) if own else frozenset()
            for name in declares & set(by_source):
                by_source.setdefault(ontology_source.NAME, {})[ontology_source.DECLARED + name] = True
            chosen = [one for one in self.project.pipelines if one.name in by_source]
            reports = self._synced(chosen, by_source, emit=emit)
            self._saw(reports)
            return reports

    def commit(self, batch: Mapping[str, Any], *, emit: Emit | None = None) -> SyncReport:
        """A batch a client made: {source, scope, records: [{key, data, locator}], gone, complete, cursor}."""
        with self.lock:
            one = self._named(str(batch.get("source", "")))
            try:
                records = [
                    sound_record(Record(one.name, row["key"], row["data"], str(row.get("locator") or row["key"])))
                    for row in batch.get("records", ())
                ]
                made = sound(Batch(
                    one.name, batch["scope"], records, batch.get("gone", ()), batch.get("complete", True),
                    batch.get("cursor"),
                ))  # fmt: skip
            except (KeyError, TypeError, ValueError) as wrong:
                what = f"{wrong.args[0]!r} is missing" if isinstance(wrong, KeyError) else str(wrong)
                raise EngineError(
                    f"This is no batch: {what}. Send source, scope and records, each record with key and data."
                ) from wrong
            pairs = [(one.plan, [made])]
            return sync_many(self.store, pairs, rules=self.project.rules, wide=self.project.shapes, emit=emit)[0]

    def verify(self, *, repair: bool = False) -> Any:
        """Recompute the graph aside from the sources and compare; see `sparql.sync.verify`."""
        with self.lock:
            pairs = [(one.plan, _whole(one)) for one in self.project.pipelines]
            return verify(self.store, pairs, rules=self.project.rules, wide=self.project.shapes, repair=repair)

    def forget(self, source: str) -> SyncReport:
        """The facts of a source that the settings no longer name are gone, or of one token (`token/NAME`).

        Raises EngineError, Unknown.
        """
        with self.lock:
            if source.startswith(f"{TOKEN}/"):
                return self.updates.forget(source[len(TOKEN) + 1 :])
            if self.project.pipeline(source) is not None:
                raise EngineError(
                    f"{source!r} is still a source here, so the next sync would bring it back. "
                    f"Remove it from {FILE if not self.project.discovered else 'the folder'} first."
                )
            self._seen.pop(source, None)
            return forget(self.store, source, rules=self.project.rules, wide=self.project.shapes)

    def rename(self, old: str, new: str) -> SyncReport:
        """The facts of `old` are those of `new`, and so is its table in graphtide.toml. Raises EngineError, Unknown."""
        with self.lock:
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", new) or new in RESERVED:
                raise EngineError(f"{new!r} is no name for a source. Use letters, digits, '_', '-' and '.'.")
            if old == TOKEN:
                raise EngineError(f"{old!r} is what tokens write, each under its own name, and cannot be renamed.")
            if old == new:
                raise EngineError(f"{old!r} has that name already.")
            configured = {one.name for one in self.settings.sources}
            if old in configured and new in configured:
                raise EngineError(f"{FILE} has both {old!r} and {new!r}. Remove one, then rename.")
            if self.project.discovered and self.project.pipeline(old) is not None:
                raise EngineError(f"{old!r} is a file here, named after it. Rename the file, or write a {FILE}.")
            report = rename(self.store, old, new, rules=self.project.rules, wide=self.project.shapes)
            if old in configured:
                _rename_table(self.settings, old, new)
                self.reload()
            if old in self._seen:
                self._seen[new] = self._seen.pop(old)
            return report

    def erase(self, what: str) -> dict[str, Any]:
        """A record (SOURCE/KEY) or an IRI is out of store, history, log, quarantine and caches. Raises Unknown."""
        with self.lock:
            source, key = self.store.names.parse(what.strip("<>")) or what.partition("/")[::2]
            words = {what.strip("<>"), *self._said(what.strip("<>"), source, key)}
            found = erase(self.store, what, rules=self.project.rules, wide=self.project.shapes)
            self.updates.close()  # what evaluates updates has a copy of the graph as it was
            of_record = found["erased"] == "record"
            following.forget(self.settings.state)
            notes = scrub(self.settings.state, [source] if of_record else None, words | {key} if of_record else words)
            return {**found, "notes": [*found["notes"], *notes]}

    def reload(self) -> dict[str, Any]:
        """Take the settings as they are now: {"changed", "added", "orphaned"} sources, not yet synced.

        Raises SettingsError and its kin: then the old ones stay in force and `status` says why.
        """
        with self.lock:
            try:
                fresh = Project.open(self.settings.dir)
                if fresh.settings.base != self.settings.base:
                    fresh.close()
                    raise SettingsError(
                        FILE, fresh.settings.line("base"),
                        f"base is {fresh.settings.base!r}, but the store was made with {self.settings.base!r}. "
                        "Put it back, or move the state folder away and load again.",
                    )  # fmt: skip
                if fresh.settings.merge != self.settings.merge:
                    fresh.close()
                    raise self._merged_otherwise(fresh.settings)
            except Exception as wrong:
                self.refused = str(wrong)
                raise
            before, self.project, self.refused = self.project, fresh, ""
            self.store.limits = _limits(fresh.settings, None)
            had = {one.name: one.plan.version for one in before.pipelines}
            has = {one.name: one.plan.version for one in fresh.pipelines}
            before.close()
            return {
                "changed": sorted(name for name in has if name in had and has[name] != had[name]),
                "added": sorted(has.keys() - had.keys()), "orphaned": sorted(had.keys() - has.keys()),
            }  # fmt: skip

    def checkpoint(self) -> int:
        """The newest commit has a checkpoint, and history is within its limits; returns the commit."""
        with self.lock:
            made = self.store.checkpoint()
            self.store.retain()
            return made.commit

    # -- what only reads

    def status(self) -> dict[str, Any]:
        """Where every source stands: see `standing.status`."""
        refused = [f"The settings as they are now are not in force: {self.refused}"] if self.refused else []
        return standing.status(
            self.project, self.store, commit=self.store.head, commit_time=self.store.head_time, seen_at=self._seen,
            live=self.live, writer=about(self.settings.state), notes=refused,
        )  # fmt: skip

    def violations(self, source: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Findings, refusals first: see `sparql.journal.violations`."""
        return journal.violations(self.store, self.store.names, source, limit)

    def changes(self, after: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Commits, oldest first: see `standing.changes`."""
        return standing.changes(self.settings.state, after, limit)

    def export(self, format: str, path: Path | str, *, everything: bool = False) -> Path:
        """The graph in a file; with `everything`, system graphs too."""
        from .export import write

        write(self.store.match, Path(path), format, system="" if everything else f"{self.settings.base}system/")
        return Path(path)

    def backup(self, dest: Path | str) -> Path:
        """`dest`, a new folder, holds the store as it is now."""
        return self.store.backup(Path(dest)).path

    def close(self) -> None:
        """The store is free for another process; what was committed has a checkpoint."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self.updates.close()
            with suppress(OSError):
                standing.write_seen(self.settings.state, self._seen)
            with suppress(StoreError):  # no room for one: the log has everything
                if not self.store.empty:
                    self.checkpoint()
            self.store.close()
            self.project.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- how

    def _settle_merge(self) -> None:
        """A new store is what the settings say, merged or plain, and says so for good."""
        store, names = self.store, self.store.names
        plain = next(store.match(*names.plain, NamedNode(names.cursor)), None) is not None
        if plain == self.settings.merge:
            if not store.empty or plain:
                raise self._merged_otherwise(self.settings)
            store.commit(Change(added={names.cursor: frozenset({" ".join(map(str, names.plain))})}))
        store.plain = not self.settings.merge

    def _merged_otherwise(self, settings: Settings) -> SettingsError:
        return SettingsError(
            FILE, settings.line("merge"),
            f"merge is {str(settings.merge).lower()}, but the store was made otherwise. "
            "Put it back, or move the state folder away and load again.",
        )  # fmt: skip

    def _said(self, what: str, source: str, key: str) -> set[str]:
        """The values by which a log line would give away what a record, or an IRI, says."""
        graph = self.store.names.record(source, key)
        terms = [quad.object for quad in self.store.match(None, None, None, NamedNode(graph))]
        with suppress(ValueError):
            terms += [quad.object for quad in self.store.match(NamedNode(what), None, None, None)]
        said = {str(term.value) for term in terms if isinstance(term, Literal)}
        for one in journal.refusals(self.store, self.store.names, source, 10_000):
            if one["record"] == graph:
                said |= {show.value(one["value"], {}), one["locator"]}
        return {value for value in said if len(value) >= TELLING}

    def _chosen(self, sources: Iterable[str] | None) -> list[Pipeline]:
        if sources is None:
            return list(self.project.pipelines)
        wanted = {self._named(name).name for name in sources} | {ontology_source.NAME}
        return [one for one in self.project.pipelines if one.name in wanted]

    def _left(self) -> list[Pipeline]:
        """Without settings a file is a source: those whose files are gone, ignored, or another source's by now.

        They are read as empty. What was a source of the user's own, under settings that are gone, is not a file: its
        facts stay until they are forgotten.
        """
        if not self.project.discovered or self.store.empty:
            return []
        here = {one.name for one in self.project.pipelines}
        out = []
        for row in journal.source_rows(self.store, self.store.names):
            name, scopes = str(row["name"]), scopes_of(self.store, str(row["name"]))
            if name in here or name == TOKEN or any(format_of(scope) is None for scope in scopes):
                continue
            out.append(Pipeline(name, _Nothing(name), Plan(name, direct_mapping(name, self.settings.base))))
        return out

    def _named(self, name: str) -> Pipeline:
        found = self.project.pipeline(name)
        if found is None:
            known = [one.name for one in self.project.pipelines]
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
            raise EngineError(f"There is no source {name!r}. {hint}")
        return found

    def _synced(
        self, chosen: list[Pipeline], by_source: Mapping[str, Mapping[str, bool]], *, allow_deletes: bool = False,
        emit: Emit | None = None,
    ) -> list[SyncReport]:  # fmt: skip
        deleted = {name: {scope for scope, gone in found.items() if gone} for name, found in by_source.items()}

        def synced(some: list[Pipeline], scopes: Mapping[str, Iterable[str]]) -> list[SyncReport]:
            pairs = [(one.plan, batches_of(self.store, one.plan, one.source, scopes.get(one.name))) for one in some]
            return sync_many(
                self.store, pairs, rules=self.project.rules, wide=self.project.shapes, events_deleted=dict(deleted),
                allow_deletes=allow_deletes, emit=emit,
            )  # fmt: skip

        reports = synced(chosen, by_source)
        again = {report.source: report.again for report in reports if report.again}
        if again:  # a key that was used twice is used once now, or a file moved while it was read
            later = {report.source: report for report in synced([one for one in chosen if one.name in again], again)}
            reports = [one.then(later[one.source]) if one.source in later else one for one in reports]
        return reports

    def _saw(self, reports: Iterable[SyncReport]) -> None:
        when = standing.now()
        for report in reports:
            if not report.message:
                self._seen[report.source] = when


@dataclass
class _Nothing:
    """A source that has no scope any more."""

    name: str

    def scopes(self) -> list[str]:
        return []

    def read_scope(self, scope: str, cursor: str | None) -> Batch | None:
        return Batch(self.name, scope, ())

    def read(self, cursor: str | None) -> Iterator[Batch]:
        return iter(())


def _whole(one: Pipeline) -> Iterator[Batch]:
    yield from one.source.read(None)


def _limits(settings: Settings, lock_seconds: float | None) -> Limits:
    own = settings.limits
    return Limits(
        lock_seconds=own.lock_seconds if lock_seconds is None else lock_seconds,
        checkpoint_seconds=own.checkpoint_seconds, min_free_bytes=own.min_free_bytes, history_days=own.history_days,
        history_bytes=own.history_bytes, keep_newest=own.keep_newest,
    )  # fmt: skip


def _rename_table(settings: Settings, old: str, new: str) -> None:
    """`[sources.OLD]`, its subtables and `[[sources.OLD.map]]` are NEW's; the rest of the file is as it was."""
    assert settings.path is not None
    text = settings.path.read_text("utf-8")
    name = rf"(?:{re.escape(old)}|\"{re.escape(old)}\")"
    quoted = new if re.fullmatch(r"[A-Za-z0-9_-]+", new) else f'"{new}"'
    text, count = re.subn(
        rf"(?m)^(\s*\[\[?\s*sources\s*\.\s*){name}(?=\s*[.\]])", lambda found: found.group(1) + quoted, text
    )
    if not count:
        raise EngineError(f"{FILE} names {old!r} in a way that cannot be changed here. Rename it there by hand.")
    part = settings.path.with_name(f".{settings.path.name}.part")
    part.write_text(text, "utf-8")
    os.replace(part, settings.path)


@dataclass(frozen=True)
class Told:
    """What the writer answered, with the same face as a report made here."""

    found: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return dict(self.found)


class RemoteEngine:
    """The writer's engine, asked over its socket, with the same methods."""

    notes: tuple[str, ...] = ()
    refused = ""
    """Why the settings on disk were not in force at the last sync; empty when they were."""

    def __init__(self, state: Path) -> None:
        self._client = WriterClient(state)

    def sync(
        self, sources: Iterable[str] | None = None, *, allow_deletes: bool = False, emit: Emit | None = None
    ) -> list[Told]:
        named = None if sources is None else list(sources)
        found = self._client.call("sync", emit, sources=named, allow_deletes=allow_deletes)
        self.refused = str(found.get("refused") or "")
        return [Told(one) for one in found["reports"]]

    def commit(self, batch: Mapping[str, Any], *, emit: Emit | None = None) -> Told:
        return Told(self._client.call("commit", emit, batch=dict(batch)))

    def status(self) -> dict[str, Any]:
        return self._client.call("status")

    def violations(self, source: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.call("violations", source=source, limit=limit)["violations"]
        return found

    def changes(self, after: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.call("changes", after=after, limit=limit)["changes"]
        return found

    def verify(self, *, repair: bool = False) -> Told:
        return Told(self._client.call("verify", repair=repair))

    def forget(self, source: str) -> Told:
        return Told(self._client.call("forget", source=source))

    def rename(self, old: str, new: str) -> Told:
        return Told(self._client.call("rename", old=old, new=new))

    def erase(self, what: str) -> dict[str, Any]:
        return self._client.call("erase", what=what)

    def export(self, format: str, path: Path | str, *, everything: bool = False) -> Path:
        found = self._client.call("export", format=format, path=str(Path(path).absolute()), everything=everything)
        return Path(found["path"])

    def backup(self, dest: Path | str) -> Path:
        return Path(self._client.call("backup", dest=str(Path(dest).absolute()))["path"])

    def reload(self) -> dict[str, Any]:
        return self._client.call("reload")

    def checkpoint(self) -> int:
        return int(self._client.call("checkpoint")["commit"])

    def close(self) -> None:
        """Nothing is held between calls."""


def handlers(engine: Engine) -> dict[str, Callable[[dict[str, Any], Emit], dict[str, Any]]]:
    """What a writer's socket answers to each request, by `do`; the other side of RemoteEngine."""
    return {
        "sync": lambda ask, emit: {
            "reports": [
                one.to_dict()
                for one in engine.sync(ask.get("sources"), allow_deletes=bool(ask.get("allow_deletes")), emit=emit)
            ],
            "refused": engine.refused,
        },
        "commit": lambda ask, emit: engine.commit(ask.get("batch") or {}, emit=emit).to_dict(),
        "status": lambda ask, emit: engine.status(),
        "violations": lambda ask, emit: {
            "violations": engine.violations(ask.get("source"), int(ask.get("limit") or 100))
        },
        "changes": lambda ask, emit: {"changes": engine.changes(ask.get("after"), int(ask.get("limit") or 100))},
        "verify": lambda ask, emit: engine.verify(repair=bool(ask.get("repair"))).to_dict(),
        "forget": lambda ask, emit: engine.forget(str(ask.get("source", ""))).to_dict(),
        "rename": lambda ask, emit: engine.rename(str(ask.get("old", "")), str(ask.get("new", ""))).to_dict(),
        "erase": lambda ask, emit: engine.erase(str(ask.get("what", ""))),
        "export": lambda ask, emit: {
            "path": str(engine.export(str(ask["format"]), ask["path"], everything=bool(ask.get("everything"))))
        },
        "backup": lambda ask, emit: {"path": str(engine.backup(str(ask["dest"])))},
        "reload": lambda ask, emit: engine.reload(),
        "checkpoint": lambda ask, emit: {"commit": engine.checkpoint()},
        "update": lambda ask, emit: engine.updates.update(ask).to_dict(),
        "graph": lambda ask, emit: engine.updates.graph(ask).to_dict(),
    }


def connect(dir: Path | str, *, holder: str = "graphtide") -> Engine | RemoteEngine:
    """The writer when one runs, else an engine of our own, waiting for the lock at most `lock_seconds`.

    Raises StoreBusy naming who holds it.
    """
    state = state_of(dir)  # a running writer answers also while the settings as they are now cannot be used
    if WriterClient(state).available():
        return RemoteEngine(state)
    try:
        return Engine(dir, holder=holder)
    except StoreBusy:
        if WriterClient(state).available():  # one started while we waited
            return RemoteEngine(state)
        raise


def status(dir: Path | str) -> dict[str, Any]:
    """The status of a folder: the writer's word when one runs, else read from a copy, without taking the lock."""
    state = state_of(dir)
    with suppress(WriterGone):
        return WriterClient(state).call("status")
    with _read(dir) as (project, copy):
        seen = standing.seen(state)
        return standing.status(
            project, copy.store, commit=copy.epoch, commit_time=copy.time, seen_at=seen, notes=list(project.notes)
        )


@contextmanager
def _read(dir: Path | str) -> Iterator[tuple[Project, Any]]:
    project = Project.open(dir)
    try:
        with standing.replica(project.settings.state) as copy:
            yield project, copy
    finally:
        project.close()


def restore(dir: Path | str, src: Path | str, *, force: bool = False) -> dict[str, Any]:
    """The store is what the backup `src` holds, as a new commit. Raises EngineError for one that is in the way."""
    settings = load(dir)
    if WriterClient(settings.state).available():
        raise EngineError("A writer runs here. Stop `graphtide up` or `graphtide serve`, then restore.")
    if (settings.state / "store.json").exists() and not force:
        raise EngineError(f"{settings.state} holds a store already. Add --force to replace it with the backup.")
    kept = read_layout(Path(src))
    if kept is not None and kept.base != settings.base:
        raise EngineError(f"{src} is of base {kept.base!r}, the settings here say {settings.base!r}. Make them agree.")
    made = restore_store(Path(src), settings.state, limits=_limits(settings, None))
    return {"commit": made.commit, "time": made.time, "path": str(settings.state)}
