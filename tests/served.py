"""A server in the test's own process on a port of its own, and the least HTTP that shows every byte."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import uvicorn

from sparql.server.app import create_app
from sparql.server.config import ServerConfig
from sparql.server.connections import Connections
from sparql.server.serve import bind
from sparql.server.serving import Serving


class Served(uvicorn.Server):
    """The application on a port of this process; `serving` is what it stands on."""

    def __init__(self, state: Path, base: str, **options: Any) -> None:
        config = ServerConfig(state, base, **{"port": 0, "workers": 1, "spares": 0, **options})
        self.app = create_app(config)
        connection = Connections(config, self.serving.metrics).protocol()
        super().__init__(
            uvicorn.Config(
                self.app, http=connection, ws="none", log_level="critical", lifespan="on", proxy_headers=False
            )
        )
        self.listener = bind(config)
        self.port = self.listener.getsockname()[1]
        self.url = f"http://localhost:{self.port}/"
        self.thread = threading.Thread(target=self.run, kwargs={"sockets": [self.listener]})

    @property
    def serving(self) -> Serving:
        found: Serving = self.app.state.serving
        return found

    def __enter__(self) -> Served:
        self.thread.start()
        while not self.started:
            assert self.thread.is_alive(), "the server did not start"
            time.sleep(0.005)
        return self

    def __exit__(self, *_: object) -> None:
        self.should_exit = True
        self.thread.join(20)
        self.listener.close()


@dataclass(frozen=True)
class Reply:
    """What came back: `complete` says whether the message ended as HTTP says it must; `raw` is every byte."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    complete: bool
    raw: bytes


def talk(port: int, request: bytes, *, head: bool = False, seconds: float = 20.0) -> Reply:
    """One request on a connection of its own, read until the message is complete or the server is gone."""
    with socket.create_connection(("127.0.0.1", port), seconds) as peer:
        peer.sendall(request)
        return hear(peer, head=head)


def hear(peer: socket.socket, *, head: bool = False) -> Reply:
    """The next message of a server on this connection."""
    raw = b""
    while b"\r\n\r\n" not in raw:
        got = _recv(peer)
        if not got:
            return Reply(0, {}, b"", False, raw)
        raw += got
    start, _, rest = raw.partition(b"\r\n\r\n")
    first, *lines = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    status = int(first.split()[1])
    if head or status in (204, 304):
        return Reply(status, headers, rest, True, raw)
    if "content-length" in headers:
        length = int(headers["content-length"])
        while len(rest) < length and (got := _recv(peer)):
            rest += got
        return Reply(status, headers, rest, len(rest) == length, start + rest)
    body = b""
    while True:
        while b"\r\n" not in rest:
            got = _recv(peer)
            if not got:
                return Reply(status, headers, body, False, raw)
            rest += got
        line, _, rest = rest.partition(b"\r\n")
        try:
            size = int(line, 16)
        except ValueError:
            return Reply(status, headers, body, False, raw)
        while len(rest) < size + 2:
            got = _recv(peer)
            if not got:
                return Reply(status, headers, body + rest[:size], False, raw)
            rest += got
        body, rest = body + rest[:size], rest[size + 2 :]
        if size == 0:
            return Reply(status, headers, body, True, raw)


def _recv(peer: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        return peer.recv(1 << 18)
    return b""


def get(port: int, query: str, *, version: str = "1.1", method: str = "GET", more: str = "", **headers: str) -> bytes:
    """The bytes of a request for a query; underscores in header names are hyphens."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return (
        f"{method} /sparql?query={quote(query)}{more} HTTP/{version}\r\nHost: localhost:{port}\r\n{lines}\r\n".encode()
    )


def until(what: Any, seconds: float = 10.0) -> Any:
    """The first true value of `what()`. Fails when there was none in time."""
    ends = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < ends, "it did not come"
        time.sleep(0.01)
    return found


@contextlib.contextmanager
def serve(state: Path, base: str, **options: Any) -> Iterator[Served]:
    """A server that is ready to answer."""
    with Served(state, base, **options) as server:
        assert server.serving.pool.ready(20)
        yield server
