"""The pool's end of its processes: the workers, and the zygote that alone forks, kills and buries them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparql.query.failures import EpochGone, QueryFailed
from sparql.query.frames import READY, Cut, FrameReader

if TYPE_CHECKING:
    from sparql.query.call import Call

HAS_MEMORY_CAP = sys.platform.startswith("linux")
START_SECONDS, WARM_SECONDS = 60.0, 900.0
SEND_BYTES = 2**20
NICE = 10
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Worker:
    """The pool's end of one worker process. `pin` is the commit it stays at, None when it follows the newest."""

    steps_forth = True  # until the system is found to give no rank back

    def __init__(self, pid: int, sock: socket.socket, pin: int | None = None) -> None:
        self.pid, self.sock, self.pin = pid, sock, pin
        self.reader = FrameReader(sock)
        self.maker: Zygote | None = None
        self.epoch = 0
        self.first_memory = self.baseline = self.peak = 0
        self.ends, self.since, self.freed = float("inf"), 0.0, 0.0
        self.call: Call | None = None
        self.verdict: QueryFailed | None = None
        self.status: int | None = None
        self.buried = threading.Event()
        self._statm = -1
        self.nice = False

    def memory(self) -> int:
        """Bytes of memory only this process holds, so without mapped files; 0 where that cannot be told."""
        try:
            if self._statm == -1:
                self._statm = os.open(f"/proc/{self.pid}/statm", os.O_RDONLY | os.O_CLOEXEC)
            _, resident, shared, *_ = os.pread(self._statm, 128, 0).split()
            return (int(resident) - int(shared)) * _PAGE
        except (OSError, ValueError):
            return 0

    def silent(self) -> bool:
        """Whether it is alive, as far as its connection tells: an idle worker says nothing but its end."""
        try:
            self.sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def step_back(self) -> None:
        """It runs when no other process wants the processor."""
        self.nice = True
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, self.pid, NICE)

    def step_forth(self) -> bool:
        """It has the rank of others again. False where the system gives none back."""
        try:
            if self.nice:
                os.setpriority(os.PRIO_PROCESS, self.pid, 0)
                self.nice = False
        except OSError:
            Worker.steps_forth = False
            return False
        return True

    def hang_up(self) -> None:
        """Whoever reads from it finds the end at once: a process with much memory takes long to die."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)

    def given_up(self) -> None:
        """Its memory is not looked at any more."""
        statm, self._statm = self._statm, -2
        if statm >= 0:
            os.close(statm)

    def close(self) -> None:
        """Nothing of it is held."""
        self.given_up()
        self.sock.close()

    def died_by(self) -> str:
        """The name of the signal that ended it, "" when none did; waits a moment for the news."""
        self.buried.wait(2.0)
        if self.status is not None and os.WIFSIGNALED(self.status):
            return signal.Signals(os.WTERMSIG(self.status)).name
        return ""


class Zygote:
    """The process that forks, kills and buries workers. `buried` hears of each worker that ended.

    One that holds the graph in memory is `warmed` before it forks, and `over` when another should take its place.
    """

    def __init__(self, hello: Mapping[str, Any], buried: Callable[[Worker], None]) -> None:
        self._told = buried
        self.gone = False
        self.over = threading.Event()
        self._workers: dict[int, Worker] = {}
        self._early: dict[int, int] = {}
        self._replies: deque[dict[str, Any]] = deque()
        self._replied = threading.Condition()
        self._sending = threading.Lock()
        self._forking = threading.Lock()
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
        self._send(dict(hello))
        threading.Thread(target=self._listen, name="graphtide-zygote", daemon=True).start()
        self.network = bool(self._reply("home")["network"])

    def fork(self, pin: int | None = None) -> Worker:
        """A worker that is caught up, or stands at commit `pin`, and waits for a query.

        Raises EpochGone when there is no such commit (any more), OSError or Cut when it did not start. From any thread.
        """
        ours, theirs = socket.socketpair()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        try:
            with self._forking:  # replies come in the order of the questions, and know nothing else of them
                ask = json.dumps({"fork": {"pin": pin}}).encode() + b"\n"
                with self._sending:
                    socket.send_fds(self._control, [ask], [theirs.fileno()])
                pid = int(self._reply("pid")["pid"])
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        worker = Worker(pid, ours, pin)
        worker.maker = self
        with self._replied:
            self._workers[pid] = worker
            if pid in self._early:
                _bury(worker, self._early.pop(pid))
        ours.settimeout(START_SECONDS)
        try:
            kind, payload = worker.reader.next()
            said = json.loads(payload)
            if kind != READY:
                if said.get("code") == "gone":
                    raise EpochGone(pin or 0, str(said.get("message")))
                raise OSError(str(said.get("message")))
        except (OSError, Cut, EpochGone):
            self.kill(worker)
            worker.close()
            raise
        ours.setblocking(False)
        worker.epoch = int(said["epoch"])
        worker.first_memory = worker.baseline = worker.memory()
        return worker

    def warmed(self) -> str:
        """Waits until it holds the graph in memory. Returns why it does not, "" when it does."""
        return str(self._reply("warm", WARM_SECONDS)["warm"].get("no", ""))

    def kill(self, worker: Worker) -> None:
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

    @property
    def pid(self) -> int:
        return self._process.pid

    def _send(self, value: dict[str, Any]) -> None:
        with self._sending:
            self._control.sendall(json.dumps(value).encode() + b"\n")

    def _reply(self, key: str, seconds: float = START_SECONDS) -> dict[str, Any]:
        with self._replied:
            if not self._replied.wait_for(lambda: self._replies or self.gone, seconds):
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
                if "worn" in said:
                    self.over.set()
                    continue
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
                    _bury(worker, said["status"])
                self._told(worker)
        with self._replied:
            self.gone = True
            self.over.set()
            left, self._workers = list(self._workers.values()), {}
            for worker in left:
                worker.buried.set()
            self._replied.notify_all()
        for worker in left:
            self._told(worker)
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)


def _bury(worker: Worker, status: int) -> None:
    worker.status = status
    worker.buried.set()
