"""A worker is a replica in a process: it answers one query at a time, between commits, until it is killed."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparql.query import results
from sparql.query.admit import Refused, syntax_error
from sparql.query.evaluate import absolute, evaluate
from sparql.query.frames import ASK, ERROR, READY, Cut, FrameReader, FrameWriter, TooLong, frame_json, said
from sparql.query.replica import CommitGone, Replica
from sparql.query.warm import Held

# An idle worker looks for commits this often: soon after one, and long after the last.
LOOK_SECONDS, DOZE_SECONDS, AWAKE_SECONDS = 0.05, 0.25, 10.0
# A worker that stays at one commit ends when nobody asked it for so long.
UNUSED_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Job:
    """What a worker needs to know when it starts. `pin` is the commit it stays at, None for the newest."""

    state: Path
    folder: Path
    base: str
    prefixes: Mapping[str, str]
    memory_bytes: int
    pin: int | None = None


def work(job: Job, sock: socket.socket, held: Held | None = None) -> None:
    """Serve queries that come over `sock` until the other side closes it; from the graph in memory, if it is held."""
    try:
        replica = Replica(job.state, job.folder, asked=job.base, pin=job.pin, held=held)
    except CommitGone as gone:
        sock.sendall(frame_json(ERROR, {"code": "gone", "message": str(gone)}))
        return
    except Exception as wrong:
        sock.sendall(frame_json(ERROR, {"code": "start", "message": f"{type(wrong).__name__}: {wrong}"}))
        return
    _limit_memory(job.memory_bytes)
    sock.sendall(frame_json(READY, {"epoch": replica.epoch, "time": replica.time}))
    reader, writer = FrameReader(sock), FrameWriter(sock)
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    changed = asked = time.monotonic()
    while True:
        doze = LOOK_SECONDS if time.monotonic() - changed < AWAKE_SECONDS else DOZE_SECONDS
        if not reader.ready() and not poller.poll(doze * 1000):
            if job.pin is not None:
                if time.monotonic() - asked > UNUSED_SECONDS or not replica.kept():
                    return
            elif replica.advance(idle=True):
                changed = time.monotonic()
            continue
        try:
            kind, payload = reader.next()
        except Cut:
            return
        if kind == ASK:
            try:
                answer(job, replica, said(payload), writer)
            except (BrokenPipeError, ConnectionResetError):
                return
            asked = time.monotonic()


def answer(job: Job, replica: Replica, ask: dict[str, Any], writer: FrameWriter) -> None:
    """One query's answer is on its way, whole, or ended with an error that says why."""
    began = time.perf_counter()
    try:
        epoch = ask.get("epoch")
        if job.pin is None:
            replica.advance(until=epoch)
        elif not replica.kept():
            return writer.fail({"code": "gone", "message": f"Commit {epoch} is not kept any more."})
        if epoch is not None and replica.epoch != epoch:
            return writer.fail({"code": "past", "message": f"This worker stands at commit {replica.epoch}."})
        stand = {"epoch": replica.epoch, "time": replica.time}
        query, prefixes = ask["query"], {**job.prefixes, **(ask.get("prefixes") or {})}
        try:
            evaluate(replica.store, ask, query, prefixes, job.base, writer, stand, job.folder)
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
    except TooLong as much:
        writer.fail({"code": "too-long", "what": much.what, "most": much.most})
    except (BrokenPipeError, ConnectionResetError):
        raise
    except OSError as wrong:
        if "RDF 1.2" not in str(wrong):
            return writer.fail({"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"})
        message = "The answer has triple terms or base directions, which JSON-LD cannot say yet. Ask for text/turtle."
        writer.fail({"code": "format", "message": message})
    except MemoryError:
        writer.fail({"code": "memory", "message": ""})
    except Exception as wrong:
        writer.fail({"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"})


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


__all__ = ["Job", "Replica", "absolute", "answer", "work"]
