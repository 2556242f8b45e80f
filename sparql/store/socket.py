"""The writer's socket: any number of peers, none of which can stop it or the work they asked for."""

from __future__ import annotations

import json
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sparql.client import ABOUT, LONGEST, SOCKET, address

Emit = Callable[[dict[str, Any]], None]
Handler = Callable[[dict[str, Any], Emit], Any]
Oops = Callable[[str, BaseException], None]

SIGN_OF_LIFE = 5.0  # seconds between blank lines while a request is worked on
READ = 1 << 16


class Refusal(Exception):
    """A handler's no: `code` is for programs, the message for people, `details` for both, as JSON can say them."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        self.code, self.message, self.details = code, message, dict(details or {})
        super().__init__(message)


def serve(
    state: Path,
    handlers: Mapping[str, Handler],
    *,
    version: str = "",
    max_request: int = 256 << 20,
    max_peers: int = 256,
    on_error: Oops | None = None,
) -> Server:
    """Listen in `state` until `close()`. Only the process that holds the store's lock may call this.

    Each handler gets the request's arguments and an `emit` for events, on its peer's own thread, and returns what
    JSON can say; `Refusal` is its no. A peer that goes away does not stop its handler. `writer.json` says who listens.
    """
    return Server(Path(state).absolute(), handlers, version, max_request, max_peers, on_error)


class Server:
    """The listening socket and the peers at it."""

    def __init__(
        self,
        state: Path,
        handlers: Mapping[str, Handler],
        version: str,
        max_request: int,
        max_peers: int,
        on_error: Oops | None,
    ) -> None:
        self._state, self._handlers, self._max_request = state, dict(handlers), max_request
        self._on_error, self._places = on_error, threading.BoundedSemaphore(max_peers)
        self._peers: set[_Peer] = set()
        self._guard, self._closed = threading.Lock(), threading.Event()
        self.path, self._own_folder = _place(state)
        self._listener = _listen(self.path)
        self._inode = os.stat(self.path).st_ino
        self.since = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        _say(state / ABOUT, {"pid": os.getpid(), "socket": str(self.path), "since": self.since, "version": version})
        self._thread = threading.Thread(target=self._accept, name="writer-socket", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> int:
        """How many requests are being worked on."""
        with self._guard:
            return sum(1 for peer in self._peers if peer.working)

    def close(self, wait: float = 10.0) -> bool:
        """Take no more requests; True when those being worked on were answered within `wait` seconds."""
        self._closed.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        end = time.monotonic() + wait
        while self.busy and time.monotonic() < end:
            time.sleep(0.01)
        finished = not self.busy
        with self._guard:
            peers = list(self._peers)
        for peer in peers:
            peer.hang_up()
        self._thread.join(1.0)
        self._tidy()
        return finished

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _tidy(self) -> None:
        try:
            if os.stat(self.path).st_ino == self._inode:
                self.path.unlink()
                (self._state / ABOUT).unlink(missing_ok=True)
            if self._own_folder:
                self.path.parent.rmdir()
        except OSError:
            pass

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.is_set():
                    return
                time.sleep(0.05)  # out of descriptors, say: those in use come back
                continue
            peer = _Peer(connection, self)
            if not self._places.acquire(blocking=False):
                peer.refuse("busy", "Too many connections to the writer at once. Try again.")
                continue
            with self._guard:
                self._peers.add(peer)
            threading.Thread(target=self._attend, args=(peer,), name="writer-peer", daemon=True).start()

    def _attend(self, peer: _Peer) -> None:
        try:
            peer.attend(self._handlers, self._max_request, self._closed)
        finally:
            with self._guard:
                self._peers.discard(peer)
            self._places.release()

    def oops(self, do: str, wrong: BaseException) -> None:
        if self._on_error is not None:
            self._on_error(do, wrong)


class _Peer:
    def __init__(self, connection: socket.socket, server: Server) -> None:
        self._connection, self._server = connection, server
        self._sending, self._gone = threading.Lock(), False
        self.working = False
        connection.settimeout(30.0)  # for sending to a peer that does not read

    def attend(self, handlers: Mapping[str, Handler], most: int, closed: threading.Event) -> None:
        with self._connection:
            kept = bytearray()
            while not self._gone and not closed.is_set():
                line = self._line(kept, most)
                if line is None:
                    return
                if line.strip():
                    self.working = True
                    try:
                        self._answer(line, handlers)
                    finally:
                        self.working = False

    def refuse(self, code: str, message: str) -> None:
        self._send({"error": {"code": code, "message": message}})
        self.hang_up()
        self._connection.close()

    def hang_up(self) -> None:
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def _line(self, kept: bytearray, most: int) -> bytes | None:
        start = 0
        while True:
            end = kept.find(b"\n", start)
            if end >= 0:
                line = bytes(kept[:end])
                del kept[: end + 1]
                return line
            start = len(kept)
            if len(kept) > most:
                self._discard()
                words = f"A request may hold {most} bytes. Send smaller batches."
                self._send({"error": {"code": "too-large", "message": words}})
                return None
            try:
                got = self._connection.recv(READ)
            except TimeoutError:
                continue  # a quiet peer costs one thread
            except OSError:
                return None
            if not got:
                return None
            kept += got

    def _discard(self) -> None:
        # Hanging up on unread bytes would lose the answer that says why.
        end = time.monotonic() + 10.0
        try:
            while time.monotonic() < end:
                got = self._connection.recv(READ)
                if not got or got.endswith(b"\n"):
                    return
        except OSError:
            return

    def _answer(self, line: bytes, handlers: Mapping[str, Handler]) -> None:
        try:
            request = json.loads(line)
            do = request.pop("do")
            if not isinstance(do, str):
                raise TypeError
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            shown = line[:60].decode("utf-8", "replace")
            words = f'{shown!r} is not a request. Send {{"do": NAME, ...}} on one line.'
            self._send({"error": {"code": "bad-request", "message": words}})
            return
        handler = handlers.get(do)
        if handler is None:
            words = f"The writer does not know {do!r}. It knows: {', '.join(sorted(handlers))}."
            self._send({"error": {"code": "unknown", "message": words}})
            return
        done = threading.Event()
        pulse = threading.Thread(target=self._live, args=(done,), name="writer-pulse", daemon=True)
        pulse.start()
        try:
            answer: dict[str, Any] = {"ok": handler(request, self._event)}
        except Refusal as no:
            answer = {"error": {**no.details, "code": no.code, "message": no.message}}
        except Exception as wrong:  # the outermost edge of one request: the next one must be heard
            self._server.oops(do, wrong)
            answer = {"error": {"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"}}
        finally:
            done.set()
        self._send(answer)

    def _live(self, done: threading.Event) -> None:
        while not done.wait(SIGN_OF_LIFE) and not self._gone:
            self._write(b"\n")

    def _event(self, event: dict[str, Any]) -> None:
        self._send({"event": event})

    def _send(self, message: dict[str, Any]) -> None:
        if not self._gone:
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=str)
            self._write(text.encode("utf-8", "surrogatepass") + b"\n")

    def _write(self, data: bytes) -> None:
        with self._sending:
            if self._gone:
                return
            try:
                self._connection.sendall(data)
            except OSError:
                self._gone = True  # a handler goes on without its peer


def _place(state: Path) -> tuple[Path, bool]:
    here = state / SOCKET
    if len(os.fsencode(str(here))) <= LONGEST or os.path.isdir("/proc/self/fd"):
        return here, False
    return Path(tempfile.mkdtemp(prefix="graphtide-")) / SOCKET, True


def _listen(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with address(path) as name:
            listener.bind(name)
            os.chmod(path, 0o600)  # before listen(): until then nobody can connect
            listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _say(path: Path, what: dict[str, Any]) -> None:
    part = path.with_name(f"{path.name}.{os.getpid()}")
    part.write_text(json.dumps(what) + "\n", "utf-8")
    os.replace(part, path)
