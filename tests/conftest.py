"""What every test may rely on: the shared data or a plain skip, and no network but loopback."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ABSENT = "../shared/data is not beside this checkout"

settings.register_profile("graphtide", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("graphtide")

_connect = socket.socket.connect


def _loopback_only(self: socket.socket, address: Any) -> None:
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = address[0]
        if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
            raise AssertionError(f"A test tried to reach {host}: only loopback is allowed.")
    _connect(self, address)


@pytest.fixture(autouse=True, scope="session")
def no_network() -> Iterator[None]:
    """Connections from the test process itself stay on this machine."""
    socket.socket.connect = _loopback_only  # type: ignore[method-assign]
    yield
    socket.socket.connect = _connect  # type: ignore[method-assign]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets and folders of the person who runs the tests never reach them."""
    for name in list(os.environ):
        if name.startswith(("GRAPHTIDE_", "OPENAI_", "DAGSTER_")) or name == "GITHUB_TOKEN":
            monkeypatch.delenv(name)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real public data; the test is skipped, saying why, where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(ABSENT)
    return SHARED


_skipped_for_shared: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and "shared" in str(report.longrepr):
        _skipped_for_shared.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    # A suite that quietly skips its real data is not green where that data lies beside it.
    if SHARED.is_dir() and _skipped_for_shared:
        print(f"\n../shared is here, yet these were skipped for want of it: {', '.join(_skipped_for_shared)}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
