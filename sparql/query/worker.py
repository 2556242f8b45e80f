"""A worker is a replica: a clone of the newest checkpoint that follows the change log and answers between commits."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import resource
import select
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode, QueryBoolean, QuerySolutions, QueryTriples, Store, serialize

from sparql import checkpoint
from sparql.log import LogError, LogReader, read_head
from sparql.names import Names
from sparql.query import results
from sparql.query.admit import Refused, admit, declared_prefixes, syntax_error
from sparql.query.frames import ASK, END, ERROR, READY, Cut, FrameReader, FrameWriter, frame_json

# An idle worker looks for commits this often: soon after one, and long after the last.
LOOK_SECONDS, DOZE_SECONDS, AWAKE_SECONDS = 0.05, 0.25, 10.0
# How often it asks whether the checkpoint it was cloned from is still kept.
ORIGIN_SECONDS = 1.0
# An idle worker begins again from a newer checkpoint this often, so that it shares its files and not only once did.
RENEW_SECONDS = 300.0
ATTEMPTS = 20


class Replica:
    """A private store at one commit. `epoch` is that commit and `time` when it was made ("" before the first)."""

    def __init__(self, state: Path, folder: Path, *, asked: str = "") -> None:
        """`asked` is the base when what is asked of the replica are a user's queries: the system graphs of a plain
        store, which are not the user's, are not in it then."""
        self.state, self.folder, self._asked = state, folder, asked
        self.plain = False
        self._generation = 0
        self._origin: checkpoint.Checkpoint | None = None
        self._looked = 0.0
        self._cloned = 0.0
        self.epoch, self.time = 0, ""
        self._renew()
        self.advance()

    def advance(self, *, idle: bool = False) -> bool:
        """The replica stands at the newest durable commit. Returns whether that changed anything."""
        before = self.epoch
        self._check_origin(idle)
        # What is committed from now on is for the next query: chasing a busy writer would never end.
        head = read_head(self.state)
        if head < self.epoch:
            self._renew()
        for _ in range(ATTEMPTS):
            if self.epoch >= head:
                break
            if not self._follow():
                # Restored, loaded in bulk, or pruned under us: the log does not lead from here to there.
                self._renew()
                if self.epoch < head:
                    time.sleep(0.01)
        else:
            raise LogError(f"{self.state} is at commit {head}, and neither log nor checkpoint lead there.")
        return self.epoch != before

    def _follow(self) -> bool:
        began = self.epoch
        try:
            for entry in self._log.entries():
                if entry.previous != self.epoch:
                    return False
                entry.change.apply(self.store)
                self.epoch, self.time = entry.id, entry.time
                if self._asked:
                    self._hide({*entry.change.added, *entry.change.removed})
        except LogError:
            return False
        return self.epoch != began

    def _check_origin(self, idle: bool) -> None:
        # A clone of a checkpoint that is no longer kept holds its files on disk, erased facts among them.
        now = time.monotonic()
        if now - self._looked < ORIGIN_SECONDS:
            return
        self._looked = now
        origin = self._origin
        old = idle and self.epoch != (origin.commit if origin else 0) and now - self._cloned > self._renew_after
        if (origin is not None and not origin.path.exists()) or (self.epoch and (old or origin is None)):
            newest = checkpoint.newest(self.state)
            if newest is not None and newest != origin:
                self._renew()

    def _renew(self) -> None:
        """Begin again from the newest checkpoint, or from nothing where there is none."""
        for attempt in range(ATTEMPTS):
            self._generation += 1
            data = self.folder / str(self._generation)
            found = checkpoint.newest(self.state)
            try:
                if found is not None:
                    checkpoint.clone(found, data)
                break
            except checkpoint.CheckpointGone:
                if attempt == ATTEMPTS - 1:
                    raise
        old = self.folder / str(self._generation - 1)
        self.store: Store = Store(str(data))
        gc.collect()  # the old store is closed when its last reference goes
        shutil.rmtree(old, ignore_errors=True)
        self._origin = found
        self._cloned = time.monotonic()
        self._renew_after = RENEW_SECONDS * random.uniform(1.0, 1.5)  # not all workers at once
        self.epoch, self.time = (found.commit, found.time) if found else (0, "")
        self._log = LogReader(self.state, self.epoch)
        if self._asked:
            self.plain = False
            self._hide(graph.value for graph in self.store.named_graphs() if isinstance(graph, NamedNode))

    def _hide(self, graphs: Iterable[str]) -> None:
        names = Names(self._asked)
        found = list(graphs)
        if not self.plain and names.cursor in found:
            self.plain = next(self.store.quads_for_pattern(*names.plain, NamedNode(names.cursor)), None) is not None
            found = [graph.value for graph in self.store.named_graphs() if isinstance(graph, NamedNode)]
        for graph in found if self.plain else ():
            if graph.startswith(names.system):
                self.store.remove_graph(NamedNode(graph))


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to know when it starts."""

    state: Path
    folder: Path
    base: str
    prefixes: Mapping[str, str]
    memory_bytes: int


def work(job: Job, sock: socket.socket) -> None:
    """Serve queries that come over `sock` until the other side closes it."""
    try:
        replica = Replica(job.state, job.folder, asked=job.base)
    except Exception as wrong:
        sock.sendall(frame_json(ERROR, {"code": "start", "message": f"{type(wrong).__name__}: {wrong}"}))
        return
    _limit_memory(job.memory_bytes)
    sock.sendall(frame_json(READY, {"epoch": replica.epoch, "time": replica.time}))
    reader, writer = FrameReader(sock), FrameWriter(sock)
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    changed = time.monotonic()
    while True:
        doze = LOOK_SECONDS if time.monotonic() - changed < AWAKE_SECONDS else DOZE_SECONDS
        if not reader.ready() and not poller.poll(doze * 1000):
            if replica.advance(idle=True):
                changed = time.monotonic()
            continue
        try:
            kind, payload = reader.next()
        except Cut:
            return
        if kind == ASK:
            try:
                answer(job, replica, json.loads(payload), writer)
            except (BrokenPipeError, ConnectionResetError):
                return


def answer(job: Job, replica: Replica, ask: dict[str, Any], writer: FrameWriter) -> None:
    """One query's answer is on its way, whole, or ended with an error that says why."""
    began = time.perf_counter()
    try:
        replica.advance()
        stand = {"epoch": replica.epoch, "time": replica.time}
        query, prefixes = ask["query"], {**job.prefixes, **(ask.get("prefixes") or {})}
        try:
            _evaluate(job, replica, ask, query, prefixes, writer, stand)
        except SyntaxError as wrong:
            raise syntax_error(query, str(wrong.msg or wrong), prefixes, job.base) from None
        except RuntimeError as wrong:
            if "custom function" in str(wrong):
                raise Refused(str(wrong)) from None
            raise
        writer.end({"ms": round((time.perf_counter() - began) * 1000, 3), **stand})
    except Refused as no:
        writer.fail({"code": "query", "message": no.message, "line": no.line, "column": no.column, "token": no.token})
    except results.NotAcceptable as no:
        writer.fail({"code": "format", "message": str(no)})
    except (BrokenPipeError, ConnectionResetError):
        raise
    except MemoryError:
        writer.fail({"code": "memory", "message": ""})
    except Exception as wrong:
        writer.fail({"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"})


def _evaluate(
    job: Job,
    replica: Replica,
    ask: dict[str, Any],
    query: str,
    prefixes: dict[str, str],
    writer: FrameWriter,
    stand: dict[str, Any],
) -> None:
    tree = admit(query, prefixes, job.base)
    default, named = ask.get("default_graphs") or [], ask.get("named_graphs") or []
    options: dict[str, Any] = {}
    if default or named:  # the protocol's dataset replaces the query's: what is not listed is not in it
        options["default_graph"] = [NamedNode(iri) if iri else DefaultGraph() for iri in default]
        options["named_graphs"] = [NamedNode(iri) for iri in named]
    found = replica.store.query(query, base_iri=job.base, prefixes=prefixes, **options)
    if isinstance(found, QuerySolutions):
        kind, columns = results.ROWS, [variable.value for variable in found.variables]
    elif isinstance(found, QueryBoolean):
        kind, columns = results.BOOLEAN, []
    else:
        kind, columns = results.TRIPLES, ["subject", "predicate", "object"]
    name = (ask.get("formats") or {}).get(kind)
    if name is None or not results.BY_NAME[name].writes(kind):
        raise results.NotAcceptable(
            f"The answer to this query is {kind}: ask for one of {', '.join(results.media_types(kind))}."
        )
    form = results.BY_NAME[name]
    writer.head({"kind": kind, "format": name, "columns": columns, **stand})
    if isinstance(found, QueryTriples):
        assert form.triples is not None
        shown = prefixes | declared_prefixes(tree) if name in _PREFIXED else {}
        usable = {prefix: iri for prefix, iri in shown.items() if absolute(iri)}
        serialize(found, writer, form.triples, prefixes=usable)  # type: ignore[arg-type]
    else:
        found.serialize(writer, form.rows)  # type: ignore[arg-type]


_PREFIXED = ("turtle", "trig", "rdfxml", "jsonld")


def absolute(iri: str) -> bool:
    """Whether the engine takes this for an IRI that stands by itself."""
    try:
        return bool(NamedNode(iri))
    except ValueError:
        return False


def _limit_memory(memory_bytes: int) -> None:
    """A hard stop well above the cap: one allocation larger than a poll can see aborts the worker, not the machine."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory_bytes or not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, ValueError, IndexError):
        # RLIMIT_DATA counts private writable memory; an idle worker maps 430-960 MB of it for a 540 MB store.
        now = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (now + 2 * memory_bytes + 2**28,) * 2)


__all__ = ["END", "Job", "Replica", "answer", "work"]
