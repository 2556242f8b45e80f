"""`graphtide up` is a few processes that each do one thing; this one starts them, starts them again, and stops them."""

from __future__ import annotations

import importlib.util
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from types import FrameType

import click

from sparql.client import WriterClient

from .serving import server_config
from .settings import Settings, load, own

RESTARTS = (0.2, 1.0, 3.0, 10.0, 30.0)
"""Seconds until a process that ended is started again, the nth time in a row."""
STEADY = 30.0
"""Seconds after which a process has started well."""
PATIENCE = 12.0
"""Seconds a process has to stop when asked."""
ANY = frozenset({"0.0.0.0", "::", "localhost", ""})
"""Hosts that answer at 127.0.0.1 too."""
LOG_BYTES, LOG_FILES = 5 * 2**20, 3
USAGE, STORE, BUSY = 2, 5, 4
HOPELESS = frozenset({USAGE, BUSY, STORE})
"""Exit codes of a process that would end the same way if it were started again: it has said why."""


class PortTaken(OSError):
    """Another program listens where we want to."""


@dataclass
class Child:
    """One process: its command, how often it ended in a row, and what it says when it is ready."""

    name: str
    command: list[str]
    ready_when: Callable[[str], str | None] = lambda line: None
    ready: str = ""
    process: subprocess.Popen[str] | None = None
    started: float = 0.0
    failures: int = 0
    again: float = 0.0
    last: list[str] = field(default_factory=list)


def up(dir: str, *, port: int | None = None, dagster: bool = True) -> int:
    """Run the writer (when none runs yet), the server and Dagster until SIGINT or SIGTERM; returns the exit code.

    Raises SettingsError, and PortTaken and ServerError before anything is started.
    """
    settings = load(dir)
    own(settings.state)
    server_config(settings).check()
    return _Up(settings, settings.server.port if port is None else port, dagster).run()


class _Up:
    def __init__(self, settings: Settings, port: int, dagster: bool) -> None:
        self.settings, self.port = settings, port
        self.children: list[Child] = []
        self.code = 0
        self._stop = threading.Event()
        self._said = threading.Lock()
        self._announced = ""
        self._logs: dict[str, logging.Handler] = {}
        if dagster and importlib.util.find_spec("dagster_project") and importlib.util.find_spec("dagster") is None:
            self.say("Dagster is not installed: going on without its UI (pip install dagster dagster-webserver).")
            dagster = False
        self.dagster = dagster

    def run(self) -> int:
        settings, here = self.settings, str(self.settings.dir)
        dagster_port = settings.server.dagster_port
        self.port = _free(settings.server.host, self.port)
        if self.dagster:
            dagster_port = _free("127.0.0.1", dagster_port)
        host = settings.server.host.strip("[]")
        page = f"http://{'127.0.0.1' if host in ANY else f'[{host}]' if ':' in host else host}:{self.port}"
        graphtide = [sys.executable, "-m", "graphtide"]
        if WriterClient(settings.state).available():
            self.say("A writer runs here already: it goes on, and this only serves.")
        else:
            self.children.append(Child("writer", [*graphtide, "writer", here]))
        served = [*graphtide, "server", here, "--port", str(self.port)]
        if self.dagster:
            served += ["--dagster-url", f"http://127.0.0.1:{dagster_port}"]
        self.children.append(Child("server", served, _url("Graphtide answers at ")))
        if self.dagster:
            command = [sys.executable, "-m", "dagster_project", here, "--port", str(dagster_port), "--query-url", page]
            self.children.append(Child("dagster", command, _url("ready ")))
        signals = {number: signal.signal(number, self._asked) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            for child in self.children:
                self._start(child)
            while not self._stop.wait(0.1):
                self._look()
        finally:
            self._end()
            for number, before in signals.items():
                signal.signal(number, before)
        return self.code

    def say(self, text: str) -> None:
        """A line for the person who started us."""
        with self._said:
            click.echo(text)

    # -- children

    def _start(self, child: Child) -> None:
        child.last.clear()
        child.process = subprocess.Popen(
            child.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            errors="replace", start_new_session=True,
            env={**os.environ, "GRAPHTIDE_SUPERVISOR": str(os.getpid()), "PYTHONSAFEPATH": "1"},
        )  # fmt: skip
        child.started = time.monotonic()
        threading.Thread(target=self._listen, args=(child, child.process), daemon=True).start()

    def _listen(self, child: Child, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            line = line.rstrip("\n")
            self._log(child.name, line)
            child.last = [*child.last[-4:], line]
            ready = child.ready_when(line)
            if ready:
                child.ready = ready
            elif child.name != "dagster":
                self.say(f"{child.name}: {line}")

    def _look(self) -> None:
        now = time.monotonic()
        for child in self.children:
            process = child.process
            if process is None:
                if child.again <= now:
                    self._start(child)
                continue
            code = process.poll()
            if code is None:
                if child.failures and now - child.started > STEADY:
                    child.failures = 0
                continue
            child.process, child.ready = None, ""
            if code in HOPELESS and child.failures == 0 and not self._announced:
                self.say("\n".join([f"{child.name} cannot start:", *child.last]))
                self.code = code
                self._stop.set()
                return
            wait = RESTARTS[min(child.failures, len(RESTARTS) - 1)]
            child.failures += 1
            child.again = now + wait
            why = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
            self.say(f"{child.name} {why}; it is started again in {wait:g} s.")
        self._announce()

    def _announce(self) -> None:
        if self._announced or not WriterClient(self.settings.state).available():
            return
        waiting = [child for child in self.children if child.name != "writer" and not child.ready]
        if waiting:
            return
        served = next(child.ready for child in self.children if child.name == "server")
        dagster = next((child.ready for child in self.children if child.name == "dagster"), "")
        self._announced = served
        self.say(f"Ready. Query page and SPARQL: {served}" + (f"  Dagster: {dagster}" if dagster else ""))
        self.say("Stop with Ctrl-C.")

    def _asked(self, number: int, frame: FrameType | None) -> None:
        self._stop.set()

    def _end(self) -> None:
        """All are asked to stop, the writer last; whoever does not in time is killed."""
        order = sorted(self.children, key=lambda child: child.name == "writer")
        limits = self.settings.limits
        until = time.monotonic() + max(PATIENCE, limits.drain_notice + limits.drain_seconds + 7.0)
        for group in ([one for one in order if one.name != "writer"], [one for one in order if one.name == "writer"]):
            alive = [one.process for one in group if one.process is not None and one.process.poll() is None]
            for process in alive:
                process.terminate()
            for process in alive:
                try:
                    process.wait(max(0.5, until - time.monotonic()))
                except subprocess.TimeoutExpired:
                    _kill(process)
        for handler in self._logs.values():
            handler.close()

    def _log(self, name: str, line: str) -> None:
        handler = self._logs.get(name)
        if handler is None:
            folder = self.settings.state / "logs"
            folder.mkdir(parents=True, exist_ok=True)
            handler = RotatingFileHandler(folder / f"{name}.log", maxBytes=LOG_BYTES, backupCount=LOG_FILES)
            handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
            self._logs[name] = handler
        handler.handle(logging.LogRecord(name, logging.INFO, "", 0, line, None, None))


def _url(before: str) -> Callable[[str], str | None]:
    """The first word after `before` in a line."""

    def find(line: str) -> str | None:
        _, found, rest = line.partition(before)
        return rest.split()[0].rstrip(")") if found and rest.strip() else None

    return find


def _free(host: str, port: int) -> int:
    """The port, or a free one for 0. Raises PortTaken naming it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host.strip("[]"), port))
        except OSError as wrong:
            raise PortTaken(
                f"{host}:{port} cannot be listened on ({wrong.strerror}). Stop what listens there, choose another "
                "with --port, or set port and dagster_port under [server] in graphtide.toml."
            ) from wrong
        return int(probe.getsockname()[1])


def _kill(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def die_with_supervisor() -> None:
    """This process ends when the one that supervises it does, where the system can do that."""
    named = os.environ.pop("GRAPHTIDE_SUPERVISOR", "")
    if not named or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != int(named):
        sys.exit(0)
