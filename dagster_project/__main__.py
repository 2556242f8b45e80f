"""`python -m dagster_project DIR` is all of Dagster for one folder: its processes, and the reporter in this one."""

import argparse
import ipaddress
import os
import signal
import sys
import threading
import time
import warnings
from contextlib import suppress
from pathlib import Path

from dagster_project.home import prepare
from dagster_project.services import PortTaken, Services


def main(arguments: list[str] | None = None) -> int:
    """Run until told to stop, or until the process that started us is gone."""
    asked = argparse.ArgumentParser(prog="python -m dagster_project", description=__doc__)
    asked.add_argument("dir")
    asked.add_argument("--host", default="127.0.0.1")
    asked.add_argument("--port", type=int, default=3000, help="port of the Dagster UI; 0 lets the system pick")
    asked.add_argument("--query-url", default=None, help="where the query page answers")
    options = asked.parse_args(arguments)
    if not loopback(options.host):
        say(
            f"--host {options.host}: the Dagster UI has no token, so it listens on this machine only. "
            "Reach it through an SSH tunnel."
        )
        return 2
    dir = Path(options.dir).resolve()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    state = dir / ".graphtide"
    services = Services(dir, state, options.host, options.port, options.query_url, say)
    try:
        services.start()
    except PortTaken as wrong:
        say(str(wrong))
        return 2
    parent = os.getppid()
    reporter = threading.Thread(target=report, args=(services, stop), name="reporter")
    reporter.start()
    ready = False
    try:
        while not stop.wait(0.5):
            services.watch()
            if not ready and services.ready():
                ready = True
                say(f"ready {services.url}")
            if os.getppid() != parent:
                say("the process that started this one is gone.")
                break
    finally:
        stop.set()
        services.stop()
        reporter.join(10)
    return 0


def loopback(host: str) -> bool:
    """Whether only this machine reaches the host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def report(services: Services, stop: threading.Event) -> None:
    """Follow the log until told to stop; what goes wrong is said, and tried again."""
    warnings.filterwarnings("ignore", module="dagster")
    import dagster as dg

    from dagster_project.reporter import Reporter

    wait = 1.0
    while not stop.is_set():
        try:
            with dg.DagsterInstance.from_config(str(prepare(services.state))) as instance:
                follow(Reporter(services.dir, instance, page=services.page, ours=True, say=say), services, stop)
            return
        except Exception as wrong:  # the outermost edge of this thread
            say(f"the reporter stopped: {type(wrong).__name__}: {wrong}. It starts again in {wait:g} s.")
            stop.wait(wait)
            wait = min(60.0, wait * 2)


def follow(reporter: "Reporter", services: Services, stop: threading.Event) -> None:  # noqa: F821
    """Report what is due, four times a second; have the definitions loaded again when the folder shows differently."""
    shown = reporter.view
    while not stop.wait(0.25):
        reporter.step(time.monotonic())
        if reporter.view != shown:
            shown = reporter.view
            services.reload()
    reporter.finish()


def say(line: str) -> None:
    """One line for people, at once."""
    with suppress(OSError):  # whoever read our lines may be gone
        print(f"dagster: {line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
