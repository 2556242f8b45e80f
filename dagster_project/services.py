"""Dagster is three processes we start, watch, start again and stop: code server, webserver, daemon."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from dagster_project.home import environment, prepare

Say = Callable[[str], None]

RESTARTS = (0.5, 2.0, 5.0, 15.0, 30.0)  # seconds before the nth start in a row; a minute of running forgets them
LOG_BYTES = 10 * 2**20  # of one process's output; what is over is let go
PATIENCE = 8.0  # seconds a process has to stop when asked


class PortTaken(OSError):
    """The port of the UI is in use by another program."""


@dataclass
class Service:
    """One child process: its command, and when it was started last."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    failures: int = 0
    again: float = 0.0


@dataclass
class Services:
    """The processes of Dagster for one folder. `start`, then `watch` often, then `stop`."""

    dir: Path
    state: Path
    host: str = "127.0.0.1"
    port: int = 3000
    page: str | None = None
    say: Say = print
    running: list[Service] = field(default_factory=list)
    _folder: Path | None = None

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def start(self) -> None:
        """Start the first; `watch` starts the others when it answers. Raises PortTaken before anything is started."""
        self.port = free_port(self.host, self.port)
        home = prepare(self.state)
        import dagster

        # Two processes that both make Dagster's databases trip over each other: make them here, first.
        with dagster.DagsterInstance.from_config(str(home)):
            pass
        self.environment = environment(self.dir, home, self.page)
        self.home = home
        # A folder of our own under /tmp: a socket's path holds 100 bytes, a project's path may be longer.
        self._folder = Path(tempfile.mkdtemp(prefix="graphtide-"))
        code = str(self._folder / "code.sock")
        workspace = self._folder / "workspace.yaml"
        name = self.dir.name or "graphtide"
        workspace.write_text(
            f"load_from:\n  - grpc_server:\n      socket: {code}\n      location_name: {json.dumps(name)}\n"
        )
        python = [sys.executable, "-m"]
        module = ["-m", "dagster_project.entry"]
        self.running = [
            Service(
                "code server",
                [*python, "dagster", "code-server", "start", "--socket", code, *module, "--location-name", name]
                + ["--use-python-environment-entry-point", "--log-level", "warning"],
            ),
            Service(
                "webserver",
                [*python, "dagster_webserver", "-h", self.host, "-p", str(self.port), "-w", str(workspace)]
                + ["--dagster-log-level", "warning"],
            ),
            Service("daemon", [*python, "dagster._daemon", "run", "-w", str(workspace), "--log-level", "warning"]),
        ]
        self.code = code
        self._launch(self.running[0])

    def watch(self) -> None:
        """Start again what has died, later and later while it keeps dying."""
        now = time.monotonic()
        for service in self.running:
            self._shorten(service)
            if service.process is not None and service.process.poll() is not None:
                lived = now - service.started
                service.failures = 0 if lived > 60 else service.failures
                wait = RESTARTS[min(service.failures, len(RESTARTS) - 1)]
                service.failures += 1
                service.again, code, service.process = now + wait, service.process.returncode, None
                said = f"the {service.name} ended with code {code} after {lived:.0f} s; it starts again in {wait:g} s."
                self.say(f"{said} Its log is {self.log(service)}.")
            if service.process is None and now >= service.again and self._may_start(service):
                self._launch(service)

    def ready(self) -> bool:
        """Whether the UI answers."""
        try:
            with urllib.request.urlopen(self.url + "/server_info", timeout=1):
                return True
        except (OSError, urllib.error.URLError):
            return False

    def reload(self) -> None:
        """Have Dagster load the definitions again: the settings of the folder changed."""
        name = json.dumps(self.dir.name or "graphtide")
        query = f"mutation {{ reloadRepositoryLocation(repositoryLocationName: {name}) {{ __typename }} }}"
        asked = urllib.request.Request(
            self.url + "/graphql",
            data=json.dumps({"query": query}).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                answer.read()
        except OSError as wrong:
            self.say(f"the definitions could not be loaded again ({wrong}): press Reload in the UI.")

    def stop(self) -> None:
        """Stop all, the webserver first; what does not stop in time is killed with its children."""
        for service in sorted(self.running, key=lambda one: one.name == "code server"):
            _signal(service.process, signal.SIGINT if service.name != "code server" else signal.SIGTERM)
        until = time.monotonic() + PATIENCE
        for service in self.running:
            if service.process is None:
                continue
            try:
                service.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.say(f"the {service.name} did not stop in {PATIENCE:g} s and is killed.")
            _signal_group(service.process, signal.SIGKILL)
        self.running = []
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _may_start(self, service: Service) -> bool:
        # A webserver or daemon that starts before the code answers shows an error until someone presses Reload.
        if service is self.running[0] or service.started:
            return True
        return Path(self.code).exists() and answers(self.code)

    def log(self, service: Service) -> Path:
        """Where a process's output goes: runs write hundreds of lines nobody asked for."""
        return self.home / f"{service.name.replace(' ', '-')}.log"

    def _shorten(self, service: Service) -> None:
        with suppress(OSError):
            if self.log(service).stat().st_size > LOG_BYTES:
                os.truncate(self.log(service), 0)  # it is open for appending, so the next line is the first

    def _launch(self, service: Service) -> None:
        service.started = time.monotonic()
        # A session of its own: Ctrl-C in the terminal reaches us alone, and we stop them in order.
        with open(self.log(service), "ab") as log:
            service.process = subprocess.Popen(
                service.command,
                env=self.environment,
                cwd=self.home,
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def answers(code: str) -> bool:
    """Whether the code server at this socket has loaded the definitions, or says why it cannot."""
    from dagster._core.errors import DagsterUserCodeUnreachableError
    from dagster._grpc.client import DagsterGrpcClient

    try:
        DagsterGrpcClient(socket=code).list_repositories()
    except DagsterUserCodeUnreachableError:
        return False
    return True


def free_port(host: str, port: int) -> int:
    """`port`, or one the system picks for 0. Raises PortTaken when another program listens there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as wrong:
            raise PortTaken(
                f"port {port} on {host} is taken ({wrong.strerror}). Choose another: dagster_port in graphtide.toml."
            ) from wrong
        return int(probe.getsockname()[1])


def _signal(process: subprocess.Popen[bytes] | None, number: int) -> None:
    if process is not None and process.poll() is None:
        process.send_signal(number)


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    try:
        os.killpg(process.pid, number)  # its group is its own: see start_new_session
    except (ProcessLookupError, PermissionError):
        return
