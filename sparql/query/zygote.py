"""Workers are forked from a process that never had a thread or an open store, and it alone kills and buries them.

Started as `python -m sparql.query.zygote FD`. On FD, a unix stream socket, it takes JSON lines: `{"fork": {"pin": N}}`
(null but for a worker that stays at commit N) with the worker's socket as SCM_RIGHTS, and `{"kill": PID}`; and sends
`{"pid": N}`, `{"exit": PID, "status": S}`. Told to be warm, it holds the graph in memory for its workers: it says
`{"warm": {"quads": N}}` or `{"warm": {"no": WHY}}` once, and `{"worn": true}` when another should take its place.
When FD is closed it kills its workers, removes their folders and ends.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import shutil
import signal
import socket
import sys
from pathlib import Path
from typing import Any

from sparql.log import LogReader
from sparql.query.warm import Held, NotWarm, follow, hold
from sparql.query.worker import Job, work

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG = 1
WORKERS = "workers"
# A graph in memory takes in commits this often; a worker forked from it takes in the rest itself.
FOLLOW_SECONDS = 1.0


def main(fd: int) -> None:
    """Serve one pool until it closes its end."""
    control = socket.socket(fileno=fd)
    hello = json.loads(_line(control)[0])
    home = claim(Path(hello["state"]))
    quiet = leave_network()
    woken, wake = socket.socketpair()
    woken.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    try:
        _send(control, {"home": str(home.folder), "network": not quiet})
        held = _hold(control, home, hello) if hello.get("warm_bytes") else None
        gc.freeze()
        _serve(control, woken, wake, home, hello, held)
    except ConnectionError:
        pass  # the pool is gone while it was told something
    finally:
        home.leave()


def _hold(control: socket.socket, home: Home, hello: dict[str, Any]) -> Held | None:
    try:
        held = hold(Path(hello["state"]), home.folder / "held", hello["base"], int(hello["warm_bytes"]))
    except NotWarm as no:
        _send(control, {"warm": {"no": str(no)}})
        return None
    _send(control, {"warm": {"quads": held.quads}})
    return held


def _serve(
    control: socket.socket,
    woken: socket.socket,
    wake: socket.socket,
    home: Home,
    hello: dict[str, Any],
    held: Held | None,
) -> None:
    children: dict[int, Path] = {}
    state = Path(hello["state"])
    log = LogReader(state, held.epoch) if held is not None else None
    poller = select.poll()
    poller.register(control, select.POLLIN)
    poller.register(woken, select.POLLIN)
    made = 0
    try:
        while True:
            ready = {fd for fd, _ in poller.poll(None if log is None else FOLLOW_SECONDS * 1000)}
            if held and log and not ready and (not follow(held, log, state) or held.worn):
                log = None
                _send(control, {"worn": True})
            if woken.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    while woken.recv(4096):
                        pass
                _bury(children, control)
            if control.fileno() not in ready:
                continue
            while True:
                line, fds = _line(control)
                if not line:
                    return
                ask = json.loads(line)
                if "kill" in ask and ask["kill"] in children:
                    os.kill(ask["kill"], signal.SIGKILL)
                if "fork" in ask:
                    made += 1
                    folder = home.folder / str(made)
                    folder.mkdir(parents=True)
                    pid = os.fork()
                    if pid == 0:
                        _become_worker(control, woken, wake, home, hello | ask["fork"], folder, fds[0], held)
                    for each in fds:
                        os.close(each)
                    children[pid] = folder
                    _send(control, {"pid": pid})
                if b"\n" not in _left:
                    break
    finally:
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _become_worker(
    control: socket.socket,
    woken: socket.socket,
    wake: socket.socket,
    home: Home,
    hello: dict[str, Any],
    folder: Path,
    fd: int,
    held: Held | None,
) -> None:
    status = 1
    try:
        die_with_parent()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (control, woken, wake):
            each.close()
        os.close(home.lock)
        job = Job(
            Path(hello["state"]),
            folder,
            hello["base"],
            hello["prefixes"],
            int(hello["memory_bytes"]),
            hello.get("pin"),
        )
        work(job, socket.socket(fileno=fd), held)
        status = 0
    except BaseException as wrong:
        print(f"graphtide query worker {os.getpid()}: {type(wrong).__name__}: {wrong}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def _bury(children: dict[int, Path], control: socket.socket) -> None:
    """Every child that ended is reaped, its folder is gone, and the pool knows."""
    while children:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        folder = children.pop(pid, None)
        with contextlib.suppress(OSError):
            _send(control, {"exit": pid, "status": status})
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


class Home:
    """The folder of one pool's workers, held by a lock that ends with the process."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.folder, self.lock = folder, lock

    def leave(self) -> None:
        """The folder and its lock are gone."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(self.folder.with_suffix(".lock"))
        os.close(self.lock)


def claim(state: Path) -> Home:
    """A new folder for one pool's workers; folders that dead pools left are gone."""
    workers = state / WORKERS
    workers.mkdir(parents=True, exist_ok=True)
    sweep(workers)
    while True:
        lock = workers / f"{os.getpid()}-{os.urandom(4).hex()}.lock"
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        if lock.exists():  # a sweep of another pool may have come between the two
            folder = lock.with_suffix("")
            folder.mkdir()
            return Home(folder, fd)
        os.close(fd)


def sweep(workers: Path) -> None:
    """What no living pool holds is removed."""
    for path in sorted(workers.iterdir()):
        lock = path if path.suffix == ".lock" else path.with_suffix(".lock")
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            if path.suffix != ".lock" and not lock.exists():
                shutil.rmtree(path, ignore_errors=True)
            continue
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
            with contextlib.suppress(OSError):
                lock.unlink()
        finally:
            os.close(fd)


def die_with_parent() -> None:
    """This process is killed when the one that forked it ends, where the system can do that."""
    if sys.platform.startswith("linux"):
        parent = os.getppid()
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)


def leave_network() -> bool:
    """This process and its children have no network, loopback included. False where the system does not permit it."""
    if not sys.platform.startswith("linux"):
        return False
    unshare = ctypes.CDLL(None, use_errno=True).unshare
    return any(unshare(flags) == 0 for flags in (_CLONE_NEWNET, _CLONE_NEWUSER | _CLONE_NEWNET))


def _send(control: socket.socket, value: dict[str, Any]) -> None:
    control.sendall(json.dumps(value).encode() + b"\n")


_left = bytearray()
_fds: list[int] = []


def _line(control: socket.socket) -> tuple[bytes, list[int]]:
    """The next line and the descriptors that came with it; an empty line when the pool is gone.

    The pool waits for the answer to a fork before it asks for another, so descriptors belong to one line.
    """
    while b"\n" not in _left:
        try:
            data, extra, _, _ = control.recvmsg(65536, socket.CMSG_SPACE(4 * array.array("i").itemsize))
        except ConnectionError:
            return b"", []
        for level, kind, body in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                found = array.array("i")
                found.frombytes(body[: len(body) - len(body) % found.itemsize])
                _fds.extend(found)
        if not data:
            return b"", []
        _left.extend(data)
    line, _, rest = bytes(_left).partition(b"\n")
    _left[:] = rest
    if b'"fork"' not in line:
        return line, []
    fds = list(_fds)
    _fds.clear()
    return line, fds


if __name__ == "__main__":
    main(int(sys.argv[1]))
