"""A query that is late, or takes too much memory, is killed by a thread that looks often, whatever else happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sparql.query.failures import QueryFailed, QueryTimeout
from sparql.query.process import HAS_MEMORY_CAP, Worker

if TYPE_CHECKING:
    from sparql.query.call import Call
    from sparql.query.pool import Pool

WATCH_SECONDS = 0.025
# A query older than this has the processor only when no other wants it. Where the system does not give the rank back
# its worker is replaced when it is over, which is worth it for a longer one only.
NICE_SECONDS, NICE_FOR_GOOD_SECONDS = 0.05, 0.25


def watch(pool: Pool) -> None:
    """No query of the pool runs past its deadline or over its memory; returns when the pool is closed."""
    idle_since = time.monotonic()
    while True:
        ended: list[tuple[Call, QueryFailed]] = []
        with pool._lock:
            if pool._closed:
                return
            now = time.monotonic()
            busy = [each for each in (*pool._busy.values(), *pool._pins.values()) if each.call is not None]
            if busy:
                idle_since = now
            elif now - idle_since > 1.0:
                pool._watching = False
                pool._watched.wait()
                pool._watching = True
                idle_since = time.monotonic()
                continue
            pool._watching = True
            wait = WATCH_SECONDS
            for worker in busy:
                verdict = _verdict(pool, worker, now)
                if not worker.nice and now - worker.since > (
                    NICE_SECONDS if worker.steps_forth else NICE_FOR_GOOD_SECONDS
                ):
                    worker.step_back()
                if verdict is None:
                    wait = min(wait, worker.ends - now)
                elif worker.call is not None:
                    ended.append((worker.call, verdict))
                    pool._condemn(worker, verdict)
        for call, verdict in ended:
            call.end(verdict)
        time.sleep(max(0.001, wait))


def _verdict(pool: Pool, worker: Worker, now: float) -> QueryFailed | None:
    """Why the worker's query may not go on, if it may not."""
    if now >= worker.ends:
        return QueryTimeout("The query was stopped at its deadline.")
    if HAS_MEMORY_CAP and pool.memory_bytes:
        memory = worker.memory()
        worker.peak = max(worker.peak, memory)
        if memory - worker.baseline > pool.memory_bytes:
            return pool._too_large()
    return None
