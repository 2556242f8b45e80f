"""A query has a process to itself, and whatever it does it is over at its deadline: the process is killed."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sparql.log import read_head
from sparql.query import results
from sparql.query.frames import ASK, DATA, END, ERROR, HEADER, READY, Cut, FrameReader, frame_json
from sparql.query.worker import absolute

WATCH_SECONDS = 0.025
START_SECONDS = 60.0
# A worker this many commits behind the newest when its query ends is replaced rather than caught up.
FAR_BEHIND = 500
# A worker killed from outside so soon after it was given a query was not killed for the query.
STILLBORN_SECONDS = 0.25
HAS_MEMORY_CAP = sys.platform.startswith("linux")


class QueryFailed(Exception):
    """A query has no whole answer. Its subclasses say why; `str()` is for people."""


class QueryError(QueryFailed, ValueError):
    """The text is not a query we run: `line` and `column` count from 1 and are 0 when unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(f"line {line}, column {column}: {message}" if line else message)


class QueryTimeout(QueryFailed, TimeoutError):
    """The deadline came before the end of the answer had been taken."""


class QueryTooLarge(QueryFailed, MemoryError):
    """The query needed more memory than it may add to its worker, or more stack than there is."""


class QueryCancelled(QueryFailed):
    """Whoever asked no longer wants the answer."""


class PoolBusy(QueryFailed):
    """No worker was free in time and the queue is as long as it may be, or the pool is closed: nothing was run."""


class WorkerLost(QueryFailed, RuntimeError):
    """The worker's process ended in the middle of the query, and not by us. Asking again is safe."""


class _Stillborn(Exception):
    """The worker was killed from outside as it was given the query."""


NotAcceptable = results.NotAcceptable


class _Worker:
    """The pool's end of one worker process."""

    def __init__(self, pid: int, sock: socket.socket) -> None:
        self.pid, self.sock = pid, sock
        self.reader = FrameReader(sock)
        self.epoch = 0
        self.first_memory = 0
        self.baseline = 0
        self.peak = 0
        self.ends = float("inf")
        self.verdict: QueryFailed | None = None
        self.status: int | None = None
        self.buried = threading.Event()


class _Waiter:
    def __init__(self) -> None:
        self.turn = threading.Event()
        self.worker: _Worker | None = None
        self.cancelled = False


class Pool:
    """Runs queries on replicas of the graph in `state`, at most `workers` at a time, each in a process of its own.

    Every answer stands at the newest commit that was durable when its query started, or a later one. Use it from any
    thread; `start` returns at once, and a query waits for the first worker. Unless the system takes it away, a macOS
    pool has no memory cap (`HAS_MEMORY_CAP`).
    """

    def __init__(
        self,
        state: Path,
        base: str,
        *,
        workers: int = 2,
        spares: int = 1,
        queue: int = 64,
        deadline: float = 30.0,
        memory_bytes: int = 2**30,
        prefixes: Mapping[str, str] | None = None,
    ) -> None:
        self.state, self.base = Path(state).absolute(), base
        for name, iri in (prefixes or {}).items():
            if not absolute(iri):
                raise ValueError(f"The prefix {name}: stands for {iri!r}, which is not an absolute IRI.")
        self.workers, self.spares, self.queue = workers, spares, queue
        self.deadline, self.memory_bytes = deadline, memory_bytes
        self.prefixes = dict(prefixes or {})
        self.network: bool | None = None
        self.trouble = ""
        self._lock = threading.Lock()
        self._idle: list[_Worker] = []
        self._busy: dict[int, _Worker] = {}
        self._waiting: deque[_Waiter] = deque()
        self._all: dict[int, _Worker] = {}
        self._wanted = threading.Condition(self._lock)
        self._watched = threading.Condition(self._lock)
        self._watching = False
        self._closed = False
        self._ready = threading.Event()
        self._zygote: _Zygote | None = None
        self._threads: list[threading.Thread] = []

    def start(self) -> Pool:
        """Workers are being made ready."""
        for target in (self._spawn_forever, self._watch_forever):
            thread = threading.Thread(target=target, name=f"graphtide-{target.__name__}", daemon=True)
            thread.start()
            self._threads.append(thread)
        return self

    def close(self) -> None:
        """No worker runs, none of their folders is left, and waiting queries were told."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            for waiter in self._waiting:
                waiter.turn.set()
            self._waiting.clear()
            for worker in self._all.values():
                worker.verdict = worker.verdict or PoolBusy("The query service is stopping.")
            self._wanted.notify_all()
            self._watched.notify_all()
            zygote = self._zygote
        if zygote is not None:
            zygote.close()
        for thread in self._threads:
            thread.join(10)
        with self._lock:
            for worker in self._all.values():
                if worker.pid not in self._busy:
                    worker.sock.close()

    def __enter__(self) -> Pool:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def ready(self, timeout: float = 0.0) -> bool:
        """Whether a worker can take a query, waiting so long for the first."""
        if self._closed or not self._ready.wait(timeout):
            return False
        with self._lock:
            return bool(self._all)

    def status(self) -> dict[str, Any]:
        """What the pool is doing, for people and monitors."""
        with self._lock:
            return {
                "workers": len(self._all),
                "busy": len(self._busy),
                "waiting": len(self._waiting),
                "pids": sorted(self._all),
                "memory_cap": HAS_MEMORY_CAP,
                "network": self.network,
                "trouble": self.trouble,
            }

    def call(
        self,
        query: str,
        *,
        format: str | Mapping[str, str] = "json",
        deadline: float | None = None,
        default_graphs: Sequence[str] = (),
        named_graphs: Sequence[str] = (),
        prefixes: Mapping[str, str] | None = None,
    ) -> Call:
        """A query about to run; its deadline counts from now. Raises NotAcceptable for a format there is not."""
        ask = {
            "query": query,
            "formats": results.named(format) if isinstance(format, str) else dict(format),
            "default_graphs": list(default_graphs),
            "named_graphs": list(named_graphs),
            "prefixes": dict(prefixes or {}),
        }
        return Call(self, ask, self.deadline if deadline is None else deadline)

    def run(self, query: str, **options: Any) -> Answer:
        """The query's answer from its first byte on; options as for `call`.

        Raises QueryError, QueryTimeout, QueryTooLarge, PoolBusy, WorkerLost or NotAcceptable, here or while the
        answer is read.
        """
        return self.call(query, **options).answer()

    # -- workers ------------------------------------------------------------------------------------------------------

    def _acquire(self, waiter: _Waiter, ends: float) -> _Worker:
        with self._lock:
            if self._closed:
                raise PoolBusy("The query service is stopping.")
            self._bury_idle()
            if not self._waiting and self._idle and len(self._busy) < self.workers:
                return self._take(ends)
            if len(self._waiting) >= self.queue:
                raise PoolBusy(f"{len(self._busy)} queries run and {len(self._waiting)} wait. Try again in a moment.")
            self._waiting.append(waiter)
        waiter.turn.wait(max(0.0, ends - time.monotonic()))
        with self._lock:
            worker = waiter.worker
            if worker is not None and not waiter.cancelled:
                worker.ends = ends
                return worker
            if worker is not None:
                self._release_locked(worker)
            with contextlib.suppress(ValueError):
                self._waiting.remove(waiter)
            if waiter.cancelled:
                raise QueryCancelled("The query was cancelled before it ran.")
            trouble = f" The last worker did not start: {self.trouble}" if self.trouble else ""
            if self._closed:
                raise PoolBusy("The query service is stopping.")
            raise PoolBusy(f"No worker was free in time.{trouble}")

    def _take(self, ends: float) -> _Worker:
        worker = self._idle.pop()
        worker.ends, worker.verdict, worker.peak = ends, None, 0
        worker.baseline = _memory(worker.pid)
        self._busy[worker.pid] = worker
        if not self._watching:
            self._watched.notify()
        return worker

    def _release(self, worker: _Worker) -> None:
        with self._lock:
            self._release_locked(worker)

    def _release_locked(self, worker: _Worker) -> None:
        if self._busy.pop(worker.pid, None) is None:
            return
        worker.ends = float("inf")
        grown = worker.first_memory and _memory(worker.pid) - worker.first_memory > self.memory_bytes // 2
        if grown or read_head(self.state) - worker.epoch > FAR_BEHIND:
            self._drop(worker)
            worker.sock.close()
        else:
            self._idle.append(worker)
        self._dispatch()

    def _condemn(self, worker: _Worker, verdict: QueryFailed) -> None:
        """With the lock held: the worker is killed, its place is free, and whoever reads from it hears the verdict."""
        if worker.verdict is None:
            worker.verdict = verdict
        self._drop(worker)
        self._dispatch()

    def _drop(self, worker: _Worker) -> None:
        self._busy.pop(worker.pid, None)
        if worker in self._idle:
            self._idle.remove(worker)
        if self._all.pop(worker.pid, None) is not None:
            if self._zygote is not None:
                self._zygote.kill(worker)
            self._wanted.notify_all()

    def _bury_idle(self) -> None:
        """With the lock held: the worker that would be taken next is alive, as far as its connection tells."""
        while self._idle and not _open(self._idle[-1].sock):
            self._drop(self._idle[-1])

    def _dispatch(self) -> None:
        self._bury_idle()
        while self._waiting and self._idle and len(self._busy) < self.workers:
            waiter = self._waiting.popleft()
            if not waiter.cancelled:
                waiter.worker = self._take(float("inf"))
            waiter.turn.set()

    def _lost(self, worker: _Worker) -> QueryFailed:
        """Why the worker's connection ended."""
        with self._lock:
            verdict = worker.verdict
            self._condemn(worker, WorkerLost("The worker ended."))
        worker.sock.close()
        if verdict is not None:
            return verdict
        worker.buried.wait(2.0)
        status = worker.status
        if status is not None and os.WIFSIGNALED(status):
            name = signal.Signals(os.WTERMSIG(status)).name
            if name == "SIGABRT" and worker.peak - worker.baseline > self.memory_bytes // 2:
                return self._too_large()
            if name in ("SIGSEGV", "SIGBUS", "SIGABRT"):
                return QueryTooLarge(
                    f"The engine could not stand this query ({name}): too long, or nested too deeply. Take it apart."
                )
            return WorkerLost(f"The worker that ran the query was ended by {name}. Ask again.")
        return WorkerLost("The worker that ran the query ended. Ask again.")

    def _too_large(self) -> QueryTooLarge:
        return QueryTooLarge(
            f"The query needed more than {self.memory_bytes / 2**20:,.0f} MiB and was stopped. "
            "Filter earlier, or order and group fewer rows."
        )

    def _watch_forever(self) -> None:
        idle_since = time.monotonic()
        while True:
            with self._lock:
                if self._closed:
                    return
                now = time.monotonic()
                if self._busy:
                    idle_since = now
                elif now - idle_since > 1.0:
                    self._watching = False
                    self._watched.wait()
                    self._watching = True
                    idle_since = time.monotonic()
                    continue
                self._watching = True
                wait = WATCH_SECONDS
                for worker in list(self._busy.values()):
                    if now >= worker.ends:
                        self._condemn(worker, QueryTimeout("The query was stopped at its deadline."))
                        continue
                    wait = min(wait, worker.ends - now)
                    if HAS_MEMORY_CAP and self.memory_bytes:
                        memory = _memory(worker.pid)
                        worker.peak = max(worker.peak, memory)
                        if memory - worker.baseline > self.memory_bytes:
                            self._condemn(worker, self._too_large())
            time.sleep(max(0.001, wait))

    def _spawn_forever(self) -> None:
        pause = 0.05
        while True:
            with self._lock:
                while not self._closed and len(self._all) >= self.workers + self.spares:
                    self._wanted.wait()
                if self._closed:
                    return
            try:
                zygote = self._zygote
                if zygote is None or zygote.gone:
                    zygote = _Zygote(self)
                    with self._lock:
                        self._zygote = zygote
                        if self._closed:
                            break
                worker = zygote.fork()
            except (OSError, Cut, ValueError) as wrong:
                self.trouble = str(wrong)
                time.sleep(pause)
                pause = min(2.0, pause * 2)
                continue
            pause, self.trouble = 0.05, ""
            with self._lock:
                if self._closed or worker.buried.is_set():
                    worker.sock.close()
                    continue
                self._all[worker.pid] = worker
                self._idle.insert(0, worker)
                self._ready.set()
                self._dispatch()
        zygote.close()

    def _buried(self, worker: _Worker) -> None:
        """A worker's process has ended, for whatever reason."""
        with self._lock:
            if worker.pid not in self._busy:  # else whoever reads its answer finds out
                self._drop(worker)
                worker.sock.close()


class _Zygote:
    """The pool's end of the process that forks, kills and buries workers."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.gone = False
        self._workers: dict[int, _Worker] = {}
        self._early: dict[int, int] = {}
        self._replies: deque[dict[str, Any]] = deque()
        self._replied = threading.Condition()
        self._sending = threading.Lock()
        self._control, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sparql.query.zygote", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,  # a Ctrl-C in the terminal is for the server, which closes the pool
                env={**os.environ, "PYTHONPATH": path},
            )
        finally:
            theirs.close()
        self._send(
            {
                "state": str(pool.state),
                "base": pool.base,
                "prefixes": pool.prefixes,
                "memory_bytes": pool.memory_bytes if HAS_MEMORY_CAP else 0,
            }
        )
        threading.Thread(target=self._listen, name="graphtide-zygote", daemon=True).start()
        pool.network = bool(self._reply("home")["network"])

    def fork(self) -> _Worker:
        """A worker that is caught up and waits for a query. Raises OSError or Cut when it did not start."""
        ours, theirs = socket.socketpair()
        try:
            with self._sending:
                socket.send_fds(self._control, [b'{"fork": {}}\n'], [theirs.fileno()])
        finally:
            theirs.close()
        pid = int(self._reply("pid")["pid"])
        worker = _Worker(pid, ours)
        with self._replied:
            self._workers[pid] = worker
            if pid in self._early:
                self._bury(worker, self._early.pop(pid))
        ours.settimeout(START_SECONDS)
        try:
            kind, payload = worker.reader.next()
            if kind != READY:
                raise OSError(str(json.loads(payload).get("message")))
        except (OSError, Cut):
            self.kill(worker)
            ours.close()
            raise
        worker.epoch = int(json.loads(payload)["epoch"])
        worker.first_memory = _memory(pid)
        return worker

    def kill(self, worker: _Worker) -> None:
        """The worker's process is being killed, if it is still there. Never blocks for long, never raises."""
        if not worker.buried.is_set():
            with contextlib.suppress(OSError):
                self._send({"kill": worker.pid})

    def close(self) -> None:
        """The process, its workers and their folders are gone."""
        with contextlib.suppress(OSError):
            self._control.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, value: dict[str, Any]) -> None:
        with self._sending:
            self._control.sendall(json.dumps(value).encode() + b"\n")

    def _reply(self, key: str) -> dict[str, Any]:
        with self._replied:
            if not self._replied.wait_for(lambda: self._replies or self.gone, START_SECONDS):
                raise OSError("the process that makes query workers does not answer")
            if not self._replies:
                raise OSError("the process that makes query workers ended")
            reply = self._replies.popleft()
        if key not in reply:
            raise OSError(f"the process that makes query workers answered {reply}")
        return reply

    def _listen(self) -> None:
        with contextlib.suppress(OSError), self._control.makefile("rb") as lines:
            for line in lines:
                said = json.loads(line)
                if "exit" not in said:
                    with self._replied:
                        self._replies.append(said)
                        self._replied.notify_all()
                    continue
                with self._replied:
                    worker = self._workers.pop(said["exit"], None)
                    if worker is None:
                        self._early[said["exit"]] = said["status"]
                        continue
                    self._bury(worker, said["status"])
                self._pool._buried(worker)
        with self._replied:
            self.gone = True
            left, self._workers = list(self._workers.values()), {}
            for worker in left:
                worker.buried.set()
            self._replied.notify_all()
        for worker in left:
            self._pool._buried(worker)
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)

    def _bury(self, worker: _Worker, status: int) -> None:
        worker.status = status
        worker.buried.set()


class Call:
    """One query, from the queue to its answer. `cancel` may be called from another thread at any time."""

    def __init__(self, pool: Pool, ask: dict[str, Any], seconds: float) -> None:
        self._pool, self._ask = pool, ask
        self._seconds = seconds
        self.ends = time.monotonic() + seconds
        self._waiter = _Waiter()
        self._worker: _Worker | None = None
        self._retries = 3

    def answer(self) -> Answer:
        """The answer from its first byte on. Raises as `Pool.run` says."""
        while True:
            try:
                return self._attempt()
            except _Stillborn:
                continue  # its worker was dying already: nothing was answered, and asking another is safe

    def _attempt(self) -> Answer:
        worker = self._pool._acquire(self._waiter, self.ends)
        began = time.monotonic()
        self._worker = worker
        if self._waiter.cancelled:
            self.cancel()
        try:
            # The watch enforces the deadline; this is for a watch that could not.
            worker.sock.settimeout(max(0.1, self.ends - time.monotonic()) + 10.0)
            worker.sock.sendall(frame_json(ASK, self._ask))
            kind, payload = worker.reader.next()
        except (OSError, Cut):
            at_once = time.monotonic() - began < STILLBORN_SECONDS
            verdict = self._pool._lost(worker)
            if type(verdict) is WorkerLost and worker.status == signal.SIGKILL and at_once and self._retries:
                with self._pool._lock:
                    if not self._waiter.cancelled:
                        self._retries -= 1
                        self._waiter = _Waiter()
                        raise _Stillborn from None
            raise self._told(verdict) from None
        if kind == HEADER:
            return Answer(self, worker, json.loads(payload))
        self._pool._release(worker)
        raise self._failure(json.loads(payload))

    def cancel(self) -> None:
        """The query does not run any more."""
        pool = self._pool
        with pool._lock:
            self._waiter.cancelled = True
            self._waiter.turn.set()
            worker = self._worker
            if worker is not None and pool._busy.get(worker.pid) is worker:
                pool._condemn(worker, QueryCancelled("The query was cancelled."))

    def _told(self, verdict: QueryFailed) -> QueryFailed:
        if type(verdict) is QueryTimeout:
            return QueryTimeout(
                f"The query was stopped at its deadline of {self._seconds:g} s. Add a LIMIT or a narrower pattern."
            )
        return verdict

    def _failure(self, said: dict[str, Any]) -> Exception:
        code, message = said.get("code"), str(said.get("message"))
        if code == "query":
            return QueryError(message, int(said.get("line") or 0), int(said.get("column") or 0))
        if code == "format":
            return NotAcceptable(message)
        if code == "memory":
            return self._pool._too_large()
        return QueryFailed(f"The query failed: {message}")


class Answer:
    """An answer being read, once: iterate it for its bytes. It is whole only if the iteration ends without raising.

    Not reading on does not hold the worker longer than the deadline; `close` gives it up at once.
    """

    def __init__(self, call: Call, worker: _Worker, head: dict[str, Any]) -> None:
        self._call, self._worker = call, worker
        self.kind: str = head["kind"]
        self.format: str = head["format"]
        self.columns: list[str] = head["columns"]
        self.epoch: int = head["epoch"]
        self.commit_time: str = head["time"]
        self.ends = call.ends
        self.ms: float | None = None
        self.done = False

    @property
    def content_type(self) -> str:
        return results.BY_NAME[self.format].content_type

    def chunk(self) -> bytes | None:
        """The next bytes, None at the end of a whole answer. Raises as `Pool.run` says."""
        if self.done:
            return None
        pool, worker = self._call._pool, self._worker
        if self.ends <= time.monotonic():
            self.close(QueryTimeout("late"))
        try:
            kind, payload = worker.reader.next()
        except (OSError, Cut):
            self.done = True
            raise self._call._told(pool._lost(worker)) from None
        if kind == DATA:
            if worker.reader.ready() and worker.reader._buffer[:1] == END:
                self._end(worker.reader.next()[1])
            return payload
        if kind == END:
            self._end(payload)
            return None
        assert kind == ERROR
        self.done = True
        pool._release(worker)
        raise self._call._failure(json.loads(payload))

    def _end(self, payload: bytes) -> None:
        said = json.loads(payload)
        self.done, self.ms = True, said["ms"]
        self._worker.epoch = said["epoch"]
        self._call._pool._release(self._worker)

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
        pool = self._call._pool
        with pool._lock:
            if pool._busy.get(self._worker.pid) is self._worker:
                pool._condemn(self._worker, verdict or QueryCancelled("The answer was not wanted any more."))

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open(sock: socket.socket) -> bool:
    # An idle worker says nothing: what can be read from it is the end of it.
    poller = select.poll()
    poller.register(sock, select.POLLIN)
    return not poller.poll(0)


def _memory(pid: int) -> int:
    """Bytes of memory only this process holds, so without mapped files; 0 where that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            _, resident, shared, *_ = file.read().split()
        return (int(resident) - int(shared)) * _PAGE
    except (OSError, ValueError):
        return 0


_PAGE = os.sysconf("SC_PAGE_SIZE")
