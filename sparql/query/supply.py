"""Workers are made ahead of need, by whichever process makes them fastest, and one at an earlier commit on demand."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from sparql.query.failures import EpochGone, QueryFailed, WorkerLost
from sparql.query.frames import Cut
from sparql.query.process import HAS_MEMORY_CAP, Worker, Zygote

if TYPE_CHECKING:
    from sparql.query.pool import Pool

# A graph that was too large for memory is looked at again after so long.
COLD_SECONDS = 60.0


class Supply:
    """The processes behind one pool. `trouble` is why the last worker did not start, `cold` why none has the graph in
    memory; `starting` are the epochs that a worker is being brought to."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.network: bool | None = None
        self.trouble = ""
        self.cold = "" if pool.warm_bytes else "it is not asked for"
        self.starting: list[int] = []
        self.ready, self.stopped = threading.Event(), threading.Event()
        self.zygote: Zygote | None = None
        self.warm: Zygote | None = None
        self.retired: list[Zygote] = []

    def close(self) -> None:
        """No process is left, and none is made any more: the pool is closed."""
        self.stopped.set()
        self.ready.set()
        with self._pool._lock:
            zygotes = [each for each in (self.zygote, self.warm, *self.retired) if each is not None]
        for zygote in zygotes:
            zygote.over.set()
            zygote.close()

    def spawn_forever(self) -> None:
        """There are as many workers as there should be, whatever is killed; returns when the pool is closed."""
        pool = self._pool
        pause = 0.05
        while True:
            with pool._lock:
                while not pool._closed and len(pool._all) >= pool.workers + pool.spares and not self.oldest():
                    pool._wanted.wait()
                if pool._closed:
                    return
            try:
                zygote = self.zygote
                if zygote is None or zygote.gone:
                    zygote = Zygote(self._hello(), pool._buried)
                    self.network = zygote.network
                    with pool._lock:
                        self.zygote = zygote
                        if pool._closed:
                            break
                worker = (self.warm or zygote).fork()
            except (OSError, Cut, ValueError) as wrong:
                self.trouble = str(wrong)
                time.sleep(pause)
                pause = min(2.0, pause * 2)
                continue
            pause, self.trouble = 0.05, ""
            with pool._lock:
                if pool._closed or worker.buried.is_set():
                    worker.close()
                    continue
                pool._all[worker.pid] = worker
                old = self.oldest() if len(pool._all) > pool.workers + pool.spares else None
                if old is not None:
                    pool._drop(old)
                    old.close()
                pool._idle.insert(0, worker)
                self.ready.set()
                pool._dispatch()
        zygote.close()

    def outdated(self, worker: Worker) -> bool:
        """With the lock held: whether workers are forked by another process now than the one that made this."""
        return worker.maker is not (self.warm or self.zygote)

    def oldest(self) -> Worker | None:
        """With the lock held: an idle worker to be replaced, since workers are forked elsewhere now."""
        pool = self._pool
        return next((each for each in pool._idle if self.outdated(each)), None)

    def warm_forever(self) -> None:
        """The graph is held in memory when it fits, and loaded afresh when what holds it is worn or does not follow."""
        pool = self._pool
        self.ready.wait()
        while not pool._closed:
            made = self._warmed()
            with pool._lock:
                old, self.warm = self.warm, made
                if old is not None:
                    self.retired.append(old)
                pool._wanted.notify_all()
            self._close_retired()
            if made is None:
                self.stopped.wait(COLD_SECONDS)
                continue
            while not made.over.wait(1.0):
                self._close_retired()

    def _warmed(self) -> Zygote | None:
        """A process that holds the graph in memory and makes workers; None, and `cold` says why."""
        pool = self._pool
        made: Zygote | None = None
        try:
            made = Zygote({**self._hello(), "warm_bytes": pool.warm_bytes}, pool._buried)
            with pool._lock:
                self.retired.append(made)  # so that `close` knows of it
            self.cold = made.warmed()
        except (OSError, Cut, ValueError) as wrong:
            self.cold = str(wrong)
        if made is None or self.cold or pool._closed:
            return None
        with pool._lock:
            self.retired.remove(made)
        return made

    def _close_retired(self) -> None:
        """What no worker is left of, and makes none any more, is gone."""
        pool = self._pool
        with pool._lock:
            makers = {id(each.maker) for each in pool._all.values()}
            done = [each for each in self.retired if id(each) not in makers]
            self.retired = [each for each in self.retired if id(each) in makers]
        for each in done:
            each.close()

    def pin(self, epoch: int) -> None:
        """A worker stands at `epoch`, or those who wait for it know why none does."""
        pool = self._pool
        worker: Worker | None = None
        failure: QueryFailed | None = None
        try:
            self.ready.wait(60)
            zygote = self.zygote
            if zygote is None:
                raise OSError("no worker was ever ready")
            worker = zygote.fork(epoch)
        except EpochGone as gone:
            failure = gone
        except (OSError, Cut, ValueError) as wrong:
            failure = WorkerLost(f"No worker could be brought to commit {epoch}: {wrong}. Ask again.")
        with pool._lock:
            self.starting.remove(epoch)
            if worker is not None and (pool._closed or worker.buried.is_set()):
                worker.close()
                worker, failure = None, WorkerLost(f"The worker at commit {epoch} ended as it began. Ask again.")
            if worker is not None:
                pool._pins[worker.pid] = worker
            if failure is not None:
                for waiter in pool._pin_turns:
                    if waiter.call.epoch == epoch:
                        pool._forget(waiter, failure)
            pool._dispatch_pinned()

    def _hello(self) -> dict[str, Any]:
        pool = self._pool
        return {
            "state": str(pool.state),
            "base": pool.base,
            "prefixes": pool.prefixes,
            "memory_bytes": pool.memory_bytes if HAS_MEMORY_CAP else 0,
        }
