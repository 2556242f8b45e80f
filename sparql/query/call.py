"""One query, from the queue to the last byte of its answer; it ends once, and whoever watches the pool hears how."""

from __future__ import annotations

import contextlib
import secrets
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sparql.log import read_head
from sparql.query import results
from sparql.query.failures import (
    AnswerTooLong,
    EpochAhead,
    EpochGone,
    QueryCancelled,
    QueryError,
    QueryFailed,
    QueryTimeout,
    WorkerLost,
)
from sparql.query.frames import ASK, COUNT, DATA, END, HEADER, Cut, count_of, frame_json, said
from sparql.query.process import Worker
from sparql.query.turns import Waiter
from sparql.query.waiting import Steps, Wait, in_loop, in_thread

if TYPE_CHECKING:
    from sparql.query.pool import Pool

# A worker killed from outside so soon after it was given a query was not killed for the query.
STILLBORN_SECONDS = 0.25
# Longer than the deadline, for the watch enforces that: this is for a watch that could not.
GRACE_SECONDS = 10.0
LOOK_SECONDS = 0.01
PIECE = 256 * 1024
WAITING, RUNNING, SENDING = "waiting", "running", "sending"


@dataclass(frozen=True, slots=True)
class Running:
    """A query that waits, runs or is being sent; `started` is a time of day, `seconds` its age, `rows` about how many
    were written, `bytes` how many were taken."""

    id: str
    client: str | None
    query: str
    state: str
    started: float
    seconds: float
    deadline: float
    epoch: int | None
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a query went: `outcome` is "answered" or the `code` of its failure; `engine_ms` is None but when answered."""

    id: str
    client: str | None
    outcome: str
    kind: str
    format: str
    queue_seconds: float
    seconds: float
    rows: int
    bytes: int
    epoch: int | None
    engine_ms: float | None


class _Again(Exception):
    """Nothing was answered, and another worker is to be asked."""


class Call:
    """One query. From a thread, `answer()` and `Answer.chunk()`; from an event loop

        async with pool.call(text, format=..., client=...) as call:      # leaving it ends the query, if it still runs
            answer = await call.begin()                                  # raises QueryFailed, NotAcceptable
            headers(call.id, answer.content_type, answer.epoch, ...)
            while (data := await answer.chunk_async()) is not None:      # raises QueryFailed: the answer is not whole
                await send(data)                                         # not longer than until `answer.ends`

    A small answer is `answer.done` after its first chunk, so its length is known before anything is sent. Cancelling
    the task that awaits cancels the query. `cancel` may be called from any thread at any time.
    """

    def __init__(
        self,
        pool: Pool,
        ask: dict[str, Any],
        *,
        seconds: float,
        client: str | None = None,
        epoch: int | None = None,
        least: int | None = None,
    ) -> None:
        self.id = secrets.token_hex(6)
        self.client, self.epoch, self.least = client, epoch, least
        self.started, self.began = time.time(), time.monotonic()
        self.ends = self.began + seconds
        self.state = WAITING
        self.rows = self.bytes = 0
        self._pool, self._ask, self._seconds = pool, ask, seconds
        self._cancelled: QueryCancelled | None = None
        self._worker: Worker | None = None
        self._waiter: Waiter | None = None
        self._ran: float | None = None
        self._retries = 3
        self._answer: Answer | None = None
        self._over = False
        self.pinned = False

    def answer(self) -> Answer:
        """The answer from its first byte on. Raises as `Pool.run` says."""
        return in_thread(self._begin())

    async def begin(self) -> Answer:
        """As `answer`, on the running event loop."""
        return await in_loop(self._begin())

    def cancel(self, message: str = "The query was cancelled.") -> None:
        """The query does not run any more."""
        with self._pool._lock:
            if self._over or self._cancelled is not None:
                return
            self._cancelled = QueryCancelled(message)
            if self._worker is not None:
                self._pool._condemn(self._worker, self._cancelled)
            elif self._waiter is not None:
                self._pool._forget(self._waiter, self._cancelled)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, wrong: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """The query does not run any more, and what it left is counted."""
        if not self._over:
            self.cancel("The answer was not wanted any more.")
            self.end(self._cancelled)

    def running(self) -> Running:
        """What it does now."""
        epoch = self._answer.epoch if self._answer is not None else self.epoch
        return Running(
            self.id,
            self.client,
            " ".join(self._ask["query"][:400].split())[:200],
            self.state,
            self.started,
            time.monotonic() - self.began,
            self._seconds,
            epoch,
            self.rows,
            self.bytes,
        )

    def end(self, wrong: BaseException | None) -> None:
        """It is over, answered or for this reason. The first time counts."""
        pool, answer = self._pool, self._answer
        with pool._lock:
            if self._over:
                return
            self._over = True
            pool._calls.pop(self.id, None)
        if not pool._observers:
            return
        now = time.monotonic()
        outcome = "answered"
        if wrong is not None:
            outcome = getattr(wrong, "code", "format" if isinstance(wrong, results.NotAcceptable) else "cancelled")
        ended = Ended(
            self.id,
            self.client,
            str(outcome),
            answer.kind if answer else "",
            answer.format if answer else "",
            (self._ran or now) - self.began,
            now - self.began,
            self.rows,
            self.bytes,
            answer.epoch if answer else self.epoch,
            answer.ms if answer else None,
        )
        for observer in pool._observers:
            observer(ended)

    # -- steps --------------------------------------------------------------------------------------------------------

    def _begin(self) -> Steps[Answer]:
        pool = self._pool
        try:
            pool._admit(self)
            if self.epoch is not None or self.least is not None:
                yield from self._reached()
            while True:
                worker = pool._enter(self)
                if worker is None:
                    waiter = self._waiter
                    assert waiter is not None
                    yield Wait(self.ends, waiter=waiter)
                    worker = pool._called(waiter)
                self._ran = self._ran or time.monotonic()
                self.state = RUNNING
                try:
                    self._answer = yield from self._attempt(worker)
                except _Again:
                    self.state = WAITING
                    continue
                self.state = SENDING
                return self._answer
        except BaseException as wrong:
            if isinstance(wrong, EpochGone) and self.epoch is not None:
                pool._leases.drop(self.epoch)
            self.cancel()
            self.end(wrong)
            raise

    def _reached(self) -> Steps[None]:
        """The commit that was asked for is there, and will stay for a while."""
        asked = max(self.epoch or 0, self.least or 0)
        ends = min(self.ends, self.began + self._pool.ahead_seconds)
        while (head := read_head(self._pool.state)) < asked:
            if time.monotonic() >= ends:
                raise EpochAhead(asked, head)
            yield Wait(time.monotonic() + LOOK_SECONDS)
        if self.epoch is not None:
            self._pool._leases.hold(self.epoch, self.client)
            self.pinned = self.epoch < head

    def _attempt(self, worker: Worker) -> Steps[Answer]:
        began = time.monotonic()
        try:
            yield from self._send(worker, frame_json(ASK, self._ask))
            yield Wait(self.ends + GRACE_SECONDS, worker.sock)
            while (found := worker.reader.take()) is None:
                yield from self._fill(worker)
        except (OSError, Cut):
            at_once = time.monotonic() - began < STILLBORN_SECONDS
            verdict = self._pool._lost(worker)
            stillborn = worker.status == signal.SIGKILL or (worker.pin is not None and worker.status == 0)
            if type(verdict) is WorkerLost and stillborn and at_once and self._retries and self._cancelled is None:
                self._retries -= 1
                raise _Again from None
            raise self._told(verdict) from None
        kind, payload = found
        told = said(payload)
        if kind == HEADER:
            return Answer(self, worker, told)
        self._pool._release(worker)
        if told.get("code") == "past" and not self.pinned:
            self.pinned = True
            raise _Again
        raise self._failure(told)

    def _send(self, worker: Worker, data: bytes) -> Steps[None]:
        sent = 0
        while sent < len(data):
            try:
                sent += worker.sock.send(data[sent:] if sent else data)
            except BlockingIOError:
                yield self._patience(worker, write=True)

    def _fill(self, worker: Worker) -> Steps[None]:
        """More of the worker's frames is here. Raises Cut, OSError."""
        try:
            worker.reader.fill()
        except BlockingIOError:
            yield self._patience(worker)

    def _patience(self, worker: Worker, *, write: bool = False) -> Wait:
        until = self.ends + GRACE_SECONDS
        if time.monotonic() >= until:
            with self._pool._lock:
                self._pool._condemn(worker, QueryTimeout("late"))
            raise Cut("nothing came, long after the deadline")
        return Wait(until, worker.sock, write)

    def _told(self, verdict: QueryFailed) -> QueryFailed:
        if type(verdict) is QueryTimeout:
            return QueryTimeout(
                f"The query was stopped at its deadline of {self._seconds:g} s. Add a LIMIT or a narrower pattern."
            )
        return verdict

    def _failure(self, told: dict[str, Any]) -> Exception:
        code, message = told.get("code"), str(told.get("message"))
        if code == "query":
            return QueryError(message, int(told.get("line") or 0), int(told.get("column") or 0))
        if code == "format":
            return results.NotAcceptable(message)
        if code == "memory":
            return self._pool._too_large()
        if code == "too-long":
            return AnswerTooLong(str(told["what"]), int(told["most"]))
        if code == "gone":
            return EpochGone(self.epoch or 0, message)
        return QueryFailed(f"The query failed: {message}")


class Answer:
    """An answer being read, once: iterate it for its bytes. It is whole only if the iteration ends without raising.

    Not reading on does not hold the worker longer than the deadline; `close` gives it up at once.
    """

    def __init__(self, call: Call, worker: Worker, head: dict[str, Any]) -> None:
        self._call, self._worker = call, worker
        self.kind: str = head["kind"]
        self.format: str = head["format"]
        self.columns: list[str] = head["columns"]
        self.epoch: int = head["epoch"]
        self.commit_time: str = head["time"]
        self.ends = call.ends
        self.ms: float | None = None
        self.rows: int | None = None
        self.done = False

    @property
    def id(self) -> str:
        """What the query is cancelled by."""
        return self._call.id

    @property
    def content_type(self) -> str:
        return results.BY_NAME[self.format].content_type

    def chunk(self) -> bytes | None:
        """The next bytes, None at the end of a whole answer. Raises as `Pool.run` says."""
        return None if self.done else in_thread(self._next())

    async def chunk_async(self) -> bytes | None:
        """As `chunk`, on the running event loop; what has come already is given without a wait."""
        return None if self.done else await in_loop(self._next())

    def _next(self) -> Steps[bytes | None]:
        call, worker = self._call, self._worker
        try:
            if self.ends <= time.monotonic():
                with call._pool._lock:
                    if call._worker is worker:
                        call._pool._condemn(worker, QueryTimeout("late"))
            parts: list[bytes] = []
            size = 0
            while size < PIECE:
                found = worker.reader.take()
                if found is None:
                    if parts:
                        break
                    yield from call._fill(worker)
                    continue
                kind, payload = found
                if kind == DATA:
                    parts.append(payload)
                    size += len(payload)
                elif kind == COUNT:
                    call.rows = count_of(payload)
                elif kind == END:
                    self._end(said(payload), size)
                    break
                else:
                    self.done = True
                    call._pool._release(worker)
                    raise call._failure(said(payload))
            call.bytes += size if not self.done else 0
            return parts[0] if len(parts) == 1 else b"".join(parts) or None
        except (OSError, Cut):
            self.done = True
            verdict = call._told(call._pool._lost(worker))
            call.end(verdict)
            raise verdict from None
        except BaseException as wrong:
            self.done = True
            call.cancel()
            call.end(wrong)
            raise

    def _end(self, told: dict[str, Any], size: int) -> None:
        self.done, self.ms, self.rows = True, told["ms"], told["rows"]
        self._worker.epoch = told["epoch"]
        self._call.rows, self._call.bytes = told["rows"], self._call.bytes + size
        self._call._pool._release(self._worker)
        self._call.end(None)

    def __iter__(self) -> Iterator[bytes]:
        while (data := self.chunk()) is not None:
            yield data

    def read(self) -> bytes:
        """The whole answer."""
        return b"".join(self)

    def close(self, verdict: QueryFailed | None = None) -> None:
        """The worker is free, or killed if it was still writing."""
        if self.done:
            return
        call = self._call
        with call._pool._lock:
            if call._worker is self._worker:
                call._pool._condemn(self._worker, verdict or QueryCancelled("The answer was not wanted any more."))
        with contextlib.suppress(OSError, Cut):
            call.end(verdict or self._worker.verdict)

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
