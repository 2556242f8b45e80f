"""A query has a process to itself, and whatever it does it is over at its deadline: the process is killed."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparql.log import read_head
from sparql.query import results
from sparql.query.call import Answer, Call, Ended, Running
from sparql.query.epochs import Leases
from sparql.query.failures import (
    AnswerTooLong,
    EpochAhead,
    EpochGone,
    PoolBusy,
    QueryCancelled,
    QueryError,
    QueryFailed,
    QueryTimeout,
    QueryTooLarge,
    WorkerLost,
)
from sparql.query.process import HAS_MEMORY_CAP, Worker
from sparql.query.supply import Supply
from sparql.query.turns import Turns, Waiter
from sparql.query.watch import watch
from sparql.query.worker import absolute

# A worker this many commits behind the newest when its query ends is replaced rather than caught up; a query that
# took less than this leaves it behind by little.
FAR_BEHIND, LONG_SECONDS = 500, 1.0
# A query as brief as this leaves no memory behind worth looking for, and a worker freed just now is not looked at.
BRIEF_SECONDS, FRESH_SECONDS = 0.005, 0.05

NotAcceptable = results.NotAcceptable


class Pool:
    """Runs queries on replicas of the graph in `state`, at most `workers` at a time, each in a process of its own.

    Whoever has none running gets one of `spares` when all are taken, and queries that take long step back: the system
    runs the others first.

    Every answer stands at the newest commit that was durable when its query started, or a later one; or at the one
    epoch it asks for, from one of at most `pinned` workers more that stay where they are. Use it from any thread, or
    from an event loop (see `Call`); `start` returns at once, and a query waits for the first worker.

    `queue` may wait, and of one client `per_client` run and wait together (0: no limit); turns go round by client.
    `deadline` is the whole time of a query in seconds, `memory_bytes` what it may add to its worker (there is no cap
    on macOS: `HAS_MEMORY_CAP`), `max_rows` and `max_bytes` what an answer may have (0: no limit): a longer one fails.
    """

    def __init__(
        self,
        state: Path,
        base: str,
        *,
        workers: int = 2,
        spares: int = 1,
        queue: int = 64,
        per_client: int = 0,
        pinned: int = 2,
        deadline: float = 30.0,
        ahead_seconds: float = 5.0,
        memory_bytes: int = 2**30,
        max_rows: int = 0,
        max_bytes: int = 0,
        warm_bytes: int = 0,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.state, self.base = Path(state).absolute(), base
        for name, iri in (prefixes or {}).items():
            if not absolute(iri):
                raise ValueError(f"The prefix {name}: stands for {iri!r}, which is not an absolute IRI.")
        self.workers, self.spares, self.pinned = workers, spares, pinned
        self.queue, self.per_client = queue, per_client
        self.deadline, self.ahead_seconds, self.memory_bytes = deadline, ahead_seconds, memory_bytes
        self.max_rows, self.max_bytes = max_rows, max_bytes
        self.warm_bytes = warm_bytes
        self.prefixes = dict(prefixes or {})
        self._leases = Leases(self.state)
        self._observers: list[Callable[[Ended], None]] = []
        self._lock = threading.Lock()
        self._calls: dict[str, Call] = {}
        self._per_client: Counter[str | None] = Counter()
        self._seconds = 0.05  # how long a query holds its worker, of late
        self._all: dict[int, Worker] = {}
        self._idle: list[Worker] = []
        self._busy: dict[int, Worker] = {}
        self._turns = Turns()
        self._pins: dict[int, Worker] = {}  # the longest unused first
        self._pin_turns = Turns()
        self._wanted = threading.Condition(self._lock)
        self._watched = threading.Condition(self._lock)
        self._watching = False
        self._closed = False
        self._threads: list[threading.Thread] = []
        self._supply = Supply(self)

    def start(self) -> Pool:
        """Workers are being made ready."""
        warming = {"warm": self._supply.warm_forever} if self.warm_bytes else {}
        for name, target in {"spawn": self._supply.spawn_forever, "watch": lambda: watch(self), **warming}.items():
            thread = threading.Thread(target=target, name=f"graphtide-{name}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def close(self) -> None:
        """No worker runs, none of their folders is left, and waiting queries were told."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for waiter in (*self._turns, *self._pin_turns):
                self._forget(waiter, self._stopping())
            workers = [*self._all.values(), *self._pins.values()]
            for worker in workers:
                worker.verdict = worker.verdict or self._stopping()
                if worker.call is not None:
                    worker.hang_up()
            self._wanted.notify_all()
            self._watched.notify_all()
        self._supply.close()
        for thread in self._threads:
            thread.join(10)
        with self._lock:
            for worker in workers:
                if worker.call is None:
                    worker.close()

    def __enter__(self) -> Pool:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self, timeout: float = 0.0) -> bool:
        """Whether a worker can take a query, waiting so long for the first."""
        if self._closed or not self._supply.ready.wait(timeout):
            return False
        with self._lock:
            return bool(self._all)

    def status(self) -> dict[str, Any]:
        """What the pool is doing, for people and monitors."""
        with self._lock:
            return {
                "workers": len(self._all),
                "busy": len(self._busy),
                "waiting": len(self._turns) + len(self._pin_turns),
                "pinned": len(self._pins),
                "epochs": sorted({worker.pin for worker in self._pins.values() if worker.pin is not None}),
                "pids": sorted(self._all),
                "memory_cap": HAS_MEMORY_CAP,
                "network": self.network,
                "trouble": self._supply.trouble,
                "in_memory": self._supply.warm is not None,
                "on_disk_because": self._supply.cold,
            }

    @property
    def network(self) -> bool | None:
        """Whether workers have a network, which they need not; None before the first."""
        return self._supply.network

    def lag(self, head: int) -> int:
        """How many commits up to `head` the idle worker furthest behind had not read when it last answered.

        It reads them before it answers again, so this is work to come and not an answer that is old.
        """
        with self._lock:
            return max((head - worker.epoch for worker in self._idle), default=0)

    def running(self) -> list[Running]:
        """The queries that wait, run or are sent, the oldest first."""
        with self._lock:
            calls = list(self._calls.values())
        return [call.running() for call in calls]

    def cancel(self, id: str, message: str = "The query was cancelled by its id.") -> bool:
        """The query of that id runs no more. False when there is none."""
        with self._lock:
            call = self._calls.get(id)
        if call is None:
            return False
        call.cancel(message)
        return True

    def observe(self, ended: Callable[[Ended], None]) -> None:
        """`ended` is called, from whatever thread, once for each query that is over. It must be quick and not raise."""
        self._observers.append(ended)

    def call(
        self,
        query: str,
        *,
        format: str | Mapping[str, str] = "json",
        deadline: float | None = None,
        default_graphs: Sequence[str] = (),
        named_graphs: Sequence[str] = (),
        prefixes: Mapping[str, str] | None = None,
        client: str | None = None,
        epoch: int | None = None,
        least: int | None = None,
        max_rows: int | None = None,
        max_bytes: int | None = None,
        admitted: bool = False,
    ) -> Call:
        """A query about to run; its deadline counts from now. Raises NotAcceptable for a format there is not.

        `admitted` says that the text was parsed (`sparql.query.admit.admit`), so that the worker need not.
        `client` is who asks, for fairness. The answer stands at `epoch`, or at `least` or later; a limit of the
        query's own can only be lower than the pool's.
        """
        ask: dict[str, Any] = {
            "query": query,
            "formats": results.named(format) if isinstance(format, str) else dict(format),
        }
        if default_graphs or named_graphs:
            ask |= {"default_graphs": list(default_graphs), "named_graphs": list(named_graphs)}
        if prefixes:
            ask["prefixes"] = dict(prefixes)
        for name, limit, own in (("max_rows", self.max_rows, max_rows), ("max_bytes", self.max_bytes, max_bytes)):
            if limit or own:
                ask[name] = min(limit or own or 0, own or limit)
        if epoch is not None:
            ask["epoch"] = epoch
        if admitted:
            ask["admitted"] = True
        seconds = self.deadline if deadline is None else deadline
        return Call(self, ask, seconds=seconds, client=client, epoch=epoch, least=least)

    def run(self, query: str, **options: Any) -> Answer:
        """The query's answer from its first byte on; options as for `call`.

        Raises NotAcceptable or a QueryFailed, here or while the answer is read.
        """
        return self.call(query, **options).answer()

    # -- turns --------------------------------------------------------------------------------------------------------

    def _admit(self, call: Call) -> None:
        """The call is one of the pool's. Raises PoolBusy when its client has too many."""
        with self._lock:
            if self._closed:
                raise self._stopping()
            if self.per_client and call.client is not None:
                mine = self._per_client[call.client] + self._turns.of(call.client) + self._pin_turns.of(call.client)
                if mine >= self.per_client:
                    raise PoolBusy(
                        f"{mine} queries of yours run or wait, and that is as many as may.", "client", self._soon(mine)
                    )
            self._calls[call.id] = call

    def _enter(self, call: Call) -> Worker | None:
        """A worker for the call, or None and `call._waiter` waits for one. Raises PoolBusy, QueryCancelled."""
        with self._lock:
            if self._closed:
                raise self._stopping()
            if call._cancelled is not None:
                raise call._cancelled
            if not call.pinned:
                self._bury_idle()
                if self._idle and not self._turns and self._room(self._per_client[call.client]):
                    return self._take(self._idle.pop(), call)
            waiting = len(self._turns) + len(self._pin_turns)
            if waiting >= self.queue:
                raise PoolBusy(f"{len(self._busy)} queries run and {waiting} wait.", "queue", self._soon(waiting + 1))
            waiter = call._waiter = Waiter(call)
            if call.pinned:
                self._pin_turns.put(waiter)
                self._dispatch_pinned()
            else:
                self._turns.put(waiter)
            return None

    def _called(self, waiter: Waiter) -> Worker:
        """The worker whose turn has come. Raises PoolBusy when none has in time, or why there will be none."""
        with self._lock:
            waiter.call._waiter = None
            if waiter.failure is not None:
                raise waiter.failure
            if waiter.worker is not None:
                return waiter.worker
            self._turns.remove(waiter)
            self._pin_turns.remove(waiter)
            waiting = len(self._turns) + len(self._pin_turns) + 1
            trouble = self._supply.trouble and f" The last worker did not start: {self._supply.trouble}"
        raise PoolBusy(f"No worker was free in time.{trouble}", "time", self._soon(waiting))

    def _room(self, running: int) -> bool:
        """With the lock held: whether one more may run, of a client that has so many running."""
        busy = len(self._busy)
        if running and self.spares and len(self._idle) < 2 and len(self._all) < self.workers + self.spares:
            return False  # after a kill, the last that is ready is for somebody who has none
        return busy < self.workers + (0 if running else self.spares)

    def _forget(self, waiter: Waiter, why: Exception) -> None:
        """With the lock held: it waits no more."""
        if not waiter.settled:
            self._turns.remove(waiter)
            self._pin_turns.remove(waiter)
            waiter.settle(failure=why)

    def _soon(self, ahead: int) -> float:
        return float(min(60, max(1, math.ceil(ahead * self._seconds / max(1, self.workers)))))

    def _take(self, worker: Worker, call: Call) -> Worker:
        worker.call, call._worker = call, worker
        worker.ends, worker.verdict, worker.peak = call.ends, None, 0
        worker.since = time.monotonic()
        if worker.pin is None:
            self._busy[worker.pid] = worker
        self._per_client[call.client] += 1
        if not self._watching:
            self._watched.notify()
        return worker

    def _release(self, worker: Worker) -> None:
        """Its query is over, and it can take another."""
        with self._lock:
            worker.freed = time.monotonic()
            seconds = worker.freed - worker.since
            if not self._leave(worker):
                return
            self._seconds += (seconds - self._seconds) * 0.1
            if seconds > BRIEF_SECONDS:
                worker.baseline = worker.memory()
            grown = worker.first_memory and worker.baseline - worker.first_memory > self.memory_bytes // 2
            behind = worker.pin is None and seconds > LONG_SECONDS and read_head(self.state) - worker.epoch > FAR_BEHIND
            if grown or behind or not worker.step_forth() or (worker.pin is None and self._supply.outdated(worker)):
                self._drop(worker)
                worker.close()
            elif worker.pin is None:
                self._idle.append(worker)
            self._dispatch()
            self._dispatch_pinned()

    def _leave(self, worker: Worker) -> bool:
        """With the lock held: no query has the worker. False when none had."""
        call = worker.call
        if call is None:
            return False
        worker.call, worker.ends, call._worker = None, float("inf"), None
        self._busy.pop(worker.pid, None)
        self._per_client[call.client] -= 1
        if not self._per_client[call.client]:
            del self._per_client[call.client]
        return True

    def _condemn(self, worker: Worker, verdict: QueryFailed) -> None:
        """With the lock held: the worker is killed, its place is free, and whoever reads from it hears the verdict."""
        if worker.verdict is None:
            worker.verdict = verdict
        if worker.call is not None:
            self._calls.pop(worker.call.id, None)
        self._drop(worker)
        worker.hang_up()
        self._dispatch()
        self._dispatch_pinned()

    def _drop(self, worker: Worker) -> None:
        self._leave(worker)
        worker.given_up()
        if worker in self._idle:
            self._idle.remove(worker)
        if (self._all.pop(worker.pid, None) or self._pins.pop(worker.pid, None)) is not None:
            if worker.maker is not None:
                worker.maker.kill(worker)
            self._wanted.notify_all()

    def _bury_idle(self) -> None:
        """With the lock held: the worker that would be taken next is alive, as far as its connection tells."""
        while self._idle:
            worker = self._idle[-1]
            if time.monotonic() - worker.freed < FRESH_SECONDS or worker.silent():
                return
            self._drop(worker)

    def _dispatch(self) -> None:
        if not self._turns:
            return
        self._bury_idle()
        while self._idle and self._turns and self._room(self._turns.fewest(self._per_client)):
            waiter = self._turns.next(self._per_client)
            assert waiter is not None
            waiter.settle(self._take(self._idle.pop(), waiter.call))

    def _dispatch_pinned(self) -> None:
        """With the lock held: whoever waits for an epoch has a worker there, or one is being made, or none may be."""
        if not self._pin_turns:
            return
        for waiter in self._pin_turns:
            epoch = waiter.call.epoch
            assert epoch is not None
            idle = [each for each in self._pins.values() if each.call is None]
            here = next((each for each in idle if each.pin == epoch), None)
            if here is not None:
                self._pin_turns.remove(waiter)
                self._pins[here.pid] = self._pins.pop(here.pid)
                waiter.settle(self._take(here, waiter.call))
                continue
            starting = self._supply.starting
            if epoch in starting:
                continue
            if len(self._pins) + len(starting) >= self.pinned:
                if not idle:
                    continue
                self._drop(idle[0])
            starting.append(epoch)
            threading.Thread(target=self._supply.pin, args=(epoch,), name="graphtide-pin", daemon=True).start()

    def _lost(self, worker: Worker) -> QueryFailed:
        """Why the worker's connection ended."""
        with self._lock:
            verdict = worker.verdict
            self._condemn(worker, WorkerLost("The worker ended."))
            worker.close()
        if verdict is not None:
            return verdict
        name = worker.died_by()
        if name == "SIGABRT" and worker.peak - worker.baseline > self.memory_bytes // 2:
            return self._too_large()
        if name in ("SIGSEGV", "SIGBUS", "SIGABRT"):
            return QueryTooLarge(
                f"The engine could not stand this query ({name}): too long, or nested too deeply. Take it apart."
            )
        by = f" by {name}" if name else ""
        return WorkerLost(f"The worker that ran the query was ended{by}. Ask again.")

    def _too_large(self) -> QueryTooLarge:
        return QueryTooLarge(
            f"The query needed more than {self.memory_bytes / 2**20:,.0f} MiB and was stopped. "
            "Filter earlier, or order and group fewer rows."
        )

    def _stopping(self) -> PoolBusy:
        return PoolBusy("The query service is stopping.", "closed", 5.0)

    def _buried(self, worker: Worker) -> None:
        """A worker's process has ended, for whatever reason."""
        with self._lock:
            if worker.call is None:  # else whoever reads its answer finds out
                known = worker.pid in self._all or worker.pid in self._pins
                self._drop(worker)
                if known:
                    worker.close()
                    self._dispatch_pinned()


__all__ = [
    "HAS_MEMORY_CAP",
    "Answer",
    "AnswerTooLong",
    "Call",
    "Ended",
    "EpochAhead",
    "EpochGone",
    "NotAcceptable",
    "Pool",
    "PoolBusy",
    "QueryCancelled",
    "QueryError",
    "QueryFailed",
    "QueryTimeout",
    "QueryTooLarge",
    "Running",
    "WorkerLost",
]
