"""Whoever wants something of the graph's one writer asks here: a JSON line out, events in, then an answer or a no."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SOCKET = "writer.sock"
ABOUT = "writer.json"
LONGEST = 100  # bytes: `sun_path` holds 108 on Linux and 104 on macOS, the final NUL included

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class WriterGone(ConnectionError):
    """No writer answers, or it went away before it had answered. What was asked may or may not have been done."""


class WriterRefused(RuntimeError):
    """The writer answered no: `code` is for programs, `message` for people, `details` are what else it said of it."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        self.code, self.message, self.details = code, message, details or {}
        super().__init__(message)


def about(state: Path) -> dict[str, Any] | None:
    """What the running writer wrote about itself (`pid`, `since`, `version`, `socket`); None when none did."""
    try:
        found = json.loads((state / ABOUT).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


@contextmanager
def address(path: Path) -> Iterator[str]:
    """A spelling of `path` that a unix socket takes, however long the path is, valid inside the `with`."""
    text = str(path)
    if len(os.fsencode(text)) <= LONGEST:
        yield text
        return
    # The kernel resolves the folder through our own descriptor: the socket stays in its folder (test_client_long_path).
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)


class WriterClient:
    """Asks the writer that owns `state` (a project's `.graphtide`). Nothing stays open between calls."""

    def __init__(self, state: Path, *, silence: float = 120.0) -> None:
        """`silence` is how many seconds without a sign of life end a call; a working writer gives one every 5 s."""
        self.state, self.silence = Path(state).absolute(), silence

    def available(self) -> bool:
        """Whether a writer takes connections now."""
        try:
            with self._connect(1.0):
                return True
        except WriterGone:
            return False

    def call(self, do: str, on_event: OnEvent | None = None, *, silence: float | None = None, **args: Any) -> Event:
        """What the writer answers to `do`; `on_event` hears of the steps in between.

        Raises WriterRefused when it says no, WriterGone when it is not there or goes away.
        """
        text = json.dumps({"do": do, **args}, ensure_ascii=False, separators=(",", ":"))
        line = text.encode("utf-8", "surrogatepass") + b"\n"  # a file name may hold any bytes
        wait = self.silence if silence is None else silence
        with self._connect(wait) as peer:
            with suppress(OSError):  # it may have said why before it hung up
                peer.sendall(line)
            for answer in self._answers(peer, do, wait):
                if "event" in answer:
                    if on_event is not None:
                        on_event(answer["event"])
                elif "error" in answer:
                    details = dict(answer["error"])
                    raise WriterRefused(str(details.pop("code", "")), str(details.pop("message", "")), details)
                else:
                    found = answer.get("ok")
                    return found if isinstance(found, dict) else {"value": found}
        raise WriterGone(
            f"The writer went away before it answered {do!r}. Ask again: `graphtide status` shows what was done."
        )

    def _answers(self, peer: socket.socket, do: str, wait: float) -> Iterator[dict[str, Any]]:
        try:
            with peer.makefile("rb") as lines:
                for line in lines:
                    if not line.endswith(b"\n"):
                        return
                    if line.strip():
                        yield json.loads(line)
        except TimeoutError as wrong:
            raise WriterGone(
                f"The writer gave no sign of life for {wait:g} s after {do!r}. Is it stopped? {self._who()}"
            ) from wrong
        except OSError:
            return

    def _connect(self, wait: float) -> socket.socket:
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        peer.settimeout(wait)
        try:
            with address(self._socket()) as name:
                peer.connect(name)
        except OSError as wrong:
            peer.close()
            raise WriterGone(
                f"No writer runs for {self.state.parent} ({wrong.strerror or wrong}). "
                "Start one with `graphtide serve` or `graphtide up`."
            ) from wrong
        return peer

    def _socket(self) -> Path:
        here = self.state / SOCKET
        elsewhere = None if here.exists() else about(self.state)
        return Path(str(elsewhere["socket"])) if elsewhere and elsewhere.get("socket") else here

    def _who(self) -> str:
        found = about(self.state)
        return f"Its process is {found['pid']}." if found and "pid" in found else ""
