"""A connection that dawdles or swells is closed, and nobody holds them all."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sparql.server import proxy
from sparql.server.config import ServerConfig
from sparql.server.metrics import Metrics


class Connections:
    """The connections of one server, and what each may do before its request is there."""

    def __init__(self, config: ServerConfig, metrics: Metrics) -> None:
        self.config, self.metrics = config, metrics
        self.trusted = proxy.networks(config.trusted_proxies)
        self.of: Counter[str] = Counter()
        self.open = 0

    def protocol(self) -> type[asyncio.Protocol]:
        """The class of a connection, as uvicorn takes it."""
        connections = self

        class Bounded(_Bounded):
            of = connections

        return Bounded

    def enter(self, address: str) -> bool:
        """Whether one more may come from there; it is counted if so."""
        config = self.config
        mine = self.of[address]
        full = self.open >= config.max_connections or (
            mine >= config.max_client_connections and not proxy.trusts(self.trusted, address)
        )
        if full:
            self.metrics.connections["refused"] += 1
            return False
        self.of[address] += 1
        self.open += 1
        self.metrics.connections["open"] = self.open
        return True

    def leave(self, address: str) -> None:
        """One that had come from there is closed."""
        self.of[address] -= 1
        if not self.of[address]:
            del self.of[address]
        self.open -= 1
        self.metrics.connections["open"] = self.open


class _Bounded(HttpToolsProtocol):
    of: Connections

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._entered: str | None = None
        self._head = 0
        self._in_head = True
        self._late: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        address = self.client[0] if self.client else "local"
        if self.of.enter(address):
            self._entered = address
            self._late = self.loop.call_later(self.of.config.header_seconds, self._dawdled)
        else:
            self._refuse(503, "busy", "There are as many connections as there may be.", "Retry-After: 5\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_time()
        if self._unread is not None:
            self._unread.cancel()
        if self._entered is not None:
            self.of.leave(self._entered)
            self._entered = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            if self._late is None:
                self._late = self.loop.call_later(self.of.config.header_seconds, self._dawdled)
            most = self.of.config.max_header_bytes
            # Fed in parts no longer than what may still come, so that no more than that is ever kept.
            while data and self._in_head and not self.transport.is_closing():
                part, data = data[: max(1, most - self._head)], data[max(1, most - self._head) :]
                self._head += len(part)
                super().data_received(part)
                if self._in_head and self._head >= most and not self.transport.is_closing():
                    self._refuse(431, "head-too-long", f"The request line and headers are longer than {most:,} bytes.")
                    return
            if not data:
                return
        if not self.transport.is_closing():
            super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[str, Any] = {"graphtide.abort": self.transport.abort}
        self.scope["extensions"] = extensions

    def on_headers_complete(self) -> None:
        self._on_time()
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._head = True, 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.of.config.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, "not-http", "This is not a request of HTTP/1.1.")

    def _on_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _dawdled(self) -> None:
        if self.transport.is_closing() or not (self.cycle is None or self.cycle.response_complete):
            return
        if not self._head:
            self.transport.close()
        else:
            seconds = self.of.config.header_seconds
            self._refuse(408, "too-slow", f"The headers did not come within {seconds:g} s.")

    def _refuse(self, status: int, code: str, detail: str, more: str = "") -> None:
        if (
            self.cycle is not None
            and not self.cycle.response_complete
            and (self._in_head or self.cycle.response_started)
        ):
            # What is wrong came behind a request that is being answered: a refusal would stand inside that answer.
            self.transport.close()
            return
        phrase = {
            400: "Bad Request",
            408: "Request Timeout",
            431: "Request Header Fields Too Large",
            503: "Service Unavailable",
        }[status]
        body = (
            f'{{"type":"urn:graphtide:problem:{code}","title":"{phrase}","status":{status},"code":"{code}",'
            f'"detail":"{detail}"}}'
        ).encode()
        head = (
            f"HTTP/1.1 {status} {phrase}\r\nContent-Type: application/problem+json\r\nContent-Length: {len(body)}\r\n"
            f"{more}Connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
