"""A job is one request to the writer that a client need not wait for: it can be looked at, followed and, before its
turn comes, taken back.

Jobs live in the server that took them, the newest `KEPT`; the writer's work does not depend on anyone looking.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sparql.client import WriterClient, WriterGone, WriterRefused

KEPT, QUEUED, EVENTS, KEYS = 200, 16, 1000, 1000
FINDINGS = 20
"""How many findings of each source a job's report holds; `/api/violations` has all."""
WAITING, RUNNING, DONE, FAILED, CANCELLED = "queued", "running", "done", "failed", "cancelled"
STATES = (WAITING, RUNNING, DONE, FAILED, CANCELLED)


class TooManyJobs(Exception):
    """As many jobs wait as may."""


class KeyReused(Exception):
    """An idempotency key came with another request before."""


class Started(Exception):
    """The job has begun or is over, so that it cannot be taken back."""


@dataclass
class Job:
    """One request and how far it is. Read it with `document`."""

    id: str
    sources: tuple[str, ...] | None
    allow_deletes: bool
    created: str
    state: str = WAITING
    phase: str = "queued"
    started: str | None = None
    ended: str | None = None
    records: int = 0
    statements: int = 0
    by_source: dict[str, int] = field(default_factory=dict)
    commits: list[int] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    error: dict[str, str] | None = None
    last: int = 0
    events: deque[tuple[int, str, dict[str, Any]]] = field(default_factory=lambda: deque(maxlen=EVENTS))

    @property
    def over(self) -> bool:
        return self.state in (DONE, FAILED, CANCELLED)

    def document(self) -> dict[str, Any]:
        """The job as JSON says it."""
        return {
            "id": self.id, "kind": "sync", "state": self.state, "phase": self.phase,
            "sources": list(self.sources) if self.sources is not None else None,
            "allow_deletes": self.allow_deletes, "created": self.created, "started": self.started, "ended": self.ended,
            "counts": {"records": sum(self.by_source.values()), "statements": self.statements,
                       "by_source": dict(self.by_source)},
            "commits": list(self.commits), "reports": list(self.reports), "error": self.error, "last_event": self.last,
        }  # fmt: skip


class Jobs:
    """The jobs of one server, one at a time, in the order they came. Any thread may ask."""

    def __init__(self, client: WriterClient) -> None:
        self.client = client
        self._lock = threading.Lock()
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: OrderedDict[str, tuple[tuple[Any, ...], str]] = OrderedDict()
        self._hears: dict[str, set[Callable[[], None]]] = {}
        self._runner = ThreadPoolExecutor(1, thread_name_prefix="graphtide-jobs")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """After it no job begins."""
        try:
            yield
        finally:
            self._runner.shutdown(wait=False, cancel_futures=True)

    def sync(self, sources: Sequence[str] | None, *, allow_deletes: bool, key: str | None = None) -> tuple[Job, str]:
        """The job, and "new", "joined" (one that asks the same has not begun) or "replayed" (of the same key).

        A job that runs is never joined: it may have read past what the client means. Raises TooManyJobs, KeyReused.
        """
        wanted = tuple(sorted(set(sources))) if sources is not None else None
        asked = (wanted, allow_deletes)
        with self._lock:
            if key is not None and key in self._keys:
                before, id = self._keys[key]
                if before != asked:
                    raise KeyReused
                if id in self._jobs:
                    return self._jobs[id], "replayed"
            waiting = [job for job in self._jobs.values() if job.state == WAITING]
            found = next((job for job in waiting if (job.sources, job.allow_deletes) == asked), None)
            how = "joined"
            if found is None:
                if len(waiting) >= QUEUED:
                    raise TooManyJobs
                found, how = Job(secrets.token_hex(8), wanted, allow_deletes, _now()), "new"
                self._jobs[found.id] = found
                self._forget()
                self._runner.submit(self._run, found)
            if key is not None:
                self._keys[key] = (asked, found.id)
                while len(self._keys) > KEYS:
                    self._keys.popitem(last=False)
        return found, how

    def find(self, id: str) -> Job | None:
        with self._lock:
            return self._jobs.get(id)

    def list(self) -> list[dict[str, Any]]:
        """All that are kept, the newest first."""
        with self._lock:
            return [job.document() for job in reversed(self._jobs.values())]

    def document(self, job: Job) -> dict[str, Any]:
        with self._lock:
            return job.document()

    def cancel(self, id: str) -> Job | None:
        """The job will not begin. None when there is none. Raises Started."""
        with self._lock:
            job = self._jobs.get(id)
            if job is None:
                return None
            if job.state == CANCELLED:
                return job
            if job.state != WAITING:
                raise Started(job.state)
            job.state, job.ended = CANCELLED, _now()
            self._event(job, "end", {})
        return job

    async def follow(self, job: Job, after: int, heartbeat: float) -> AsyncIterator[tuple[int, str, Any] | None]:
        """(number, kind, data) of each event after `after`, as they come, to the end of the job; None after a silence.

        The kinds are "step", what the writer said; "gap", events that are not kept any more; "end", the whole job.
        """
        loop, woken = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the server stopped meanwhile
                loop.call_soon_threadsafe(woken.set)

        with self._lock:
            self._hears.setdefault(job.id, set()).add(wake)
        try:
            while True:
                woken.clear()
                with self._lock:
                    over, document = job.over, job.document()
                    found = [event for event in job.events if event[0] > after]
                    first = job.events[0][0] if job.events else 1
                if after + 1 < first:
                    yield first - 1, "gap", {"from": after + 1, "to": first - 1}
                for number, kind, data in found:
                    yield number, kind, document if kind == "end" else data
                    after = number
                if over:
                    return
                try:
                    async with asyncio.timeout(heartbeat):
                        await woken.wait()
                except TimeoutError:
                    yield None
        finally:
            with self._lock:
                self._hears.get(job.id, set()).discard(wake)

    # How

    def _run(self, job: Job) -> None:
        with self._lock:
            if job.state != WAITING:
                return
            job.state, job.phase, job.started = RUNNING, "begun", _now()
            self._event(job, "step", {"phase": "begun"})
        state, error, reports = DONE, None, []
        try:
            found = self.client.call(
                "sync", lambda event: self._heard(job, event),
                sources=list(job.sources) if job.sources is not None else None, allow_deletes=job.allow_deletes,
            )  # fmt: skip
            reports = [_report(one) for one in found.get("reports", ())]
            if found.get("refused"):
                error = {"code": "settings-refused", "message": str(found["refused"])}
        except WriterRefused as no:
            state, error = FAILED, {"code": no.code, "message": no.message}
        except WriterGone as gone:
            state, error = FAILED, {"code": "writer-gone", "message": str(gone)}
        except Exception as wrong:  # the outermost edge of a job: the next one must run
            state, error = FAILED, {"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"}
        with self._lock:
            job.state, job.phase, job.ended, job.error, job.reports = state, "over", _now(), error, reports
            for report in reports:
                job.by_source[str(report["source"])] = int(report.get("read") or 0)
            self._event(job, "end", {})

    def _heard(self, job: Job, event: Mapping[str, Any]) -> None:
        with self._lock:
            job.phase = str(event.get("phase", job.phase))
            if "records" in event and "source" in event:
                job.by_source[str(event["source"])] = int(event["records"])
            if job.phase == "commit":
                job.statements += int(event.get("statements") or 0)
                if event.get("commit") is not None:
                    job.commits.append(int(event["commit"]))
            self._event(job, "step", dict(event))

    def _event(self, job: Job, kind: str, data: dict[str, Any]) -> None:
        job.last += 1
        job.events.append((job.last, kind, data))
        hears = self._hears.get(job.id, set()) if kind != "end" else self._hears.pop(job.id, set())
        for wake in tuple(hears):
            wake()

    def _forget(self) -> None:
        over = [id for id, job in self._jobs.items() if job.over]
        for id in over[: max(0, len(self._jobs) - KEPT)]:
            del self._jobs[id]


def _report(found: Mapping[str, Any]) -> dict[str, Any]:
    findings = list(found.get("violations") or ())
    return {**found, "violations": findings[:FINDINGS], "violations_total": len(findings)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
