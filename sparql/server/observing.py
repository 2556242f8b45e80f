"""Every request is counted, timed and named once, here, and what goes wrong in it ends here as one problem."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Iterator, Mapping
from random import getrandbits
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparql.server import logs
from sparql.server.config import ServerConfig
from sparql.server.gate import client_of
from sparql.server.metrics import Metrics
from sparql.server.problem import Problem
from sparql.server.tracing import Tracing

log = logging.getLogger("graphtide.server")
access = logging.getLogger("graphtide.access")
_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}\Z")
OTHER = "other"
NO_SPAN: contextlib.nullcontext[None] = contextlib.nullcontext()


class Observing:
    """The outermost part of the application. `request.state.request_id` names the request, and its answer says it."""

    def __init__(
        self, app: ASGIApp, config: ServerConfig, metrics: Metrics, tracing: Tracing | None, routes: Mapping[Any, str]
    ) -> None:
        self.app, self.config, self.metrics, self.tracing, self.routes = app, config, metrics, tracing, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name = _given_id(scope) or f"{getrandbits(64):016x}"
        scope.setdefault("state", {})["request_id"] = name
        sent = _Sent(send, name)
        began = time.perf_counter()
        with self._span(scope) if self.tracing is not None else NO_SPAN as span:
            try:
                await self.app(scope, _bounded(receive, self.config.body_seconds), sent)
            except Problem as late:  # the body did not come while an answer was made without an endpoint
                await self._end(late, scope, receive, sent)
            except Exception as wrong:
                logs.event(log, logging.ERROR, "a request failed", request=name, **logs.failure(wrong))
                await self._end(
                    Problem(500, "failed", f"The request failed here, not at you. The log has it as {name}."),
                    scope,
                    receive,
                    sent,
                )
            finally:
                self._over(scope, name, sent, time.perf_counter() - began, span)

    async def _end(self, problem: Problem, scope: Scope, receive: Receive, sent: _Sent) -> None:
        # After its start an answer can only be broken off: returning without its end does that.
        if not sent.status:
            await problem.response()(scope, receive, sent)

    @contextlib.contextmanager
    def _span(self, scope: Scope) -> Iterator[Any]:
        assert self.tracing is not None
        with self.tracing.request(scope["method"], Headers(scope=scope)) as span:
            yield span

    def _over(self, scope: Scope, name: str, sent: _Sent, seconds: float, span: Any) -> None:
        route = self.routes.get(scope.get("endpoint"), OTHER)
        status = sent.status or 499  # the client went before there was an answer
        self.metrics.request(route, scope["method"], status, seconds, whole=sent.whole or not sent.status)
        if span is not None and self.tracing is not None:
            self.tracing.done(span, scope["method"], route, status, name)
        if self.config.access_log:
            logs.event(
                access,
                logging.INFO,
                "request",
                request=name,
                client=client_of(Request(scope)),
                method=scope["method"],
                route=route,
                status=status,
                ms=round(seconds * 1000, 1),
                bytes=sent.bytes,
                whole=sent.whole,
                **({"query": sent.query} if sent.query else {}),
            )


class _Sent:
    """What went out."""

    def __init__(self, send: Send, name: str) -> None:
        self._send, self._name = send, name
        self.status = self.bytes = 0
        self.whole = False
        self.query = ""

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = message["headers"] = list(message.get("headers", ()))
            headers.append((b"x-request-id", self._name.encode()))
            self.query = next((value.decode("latin-1") for name, value in headers if name == b"x-graphtide-query"), "")
        await self._send(message)
        if message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)


def _given_id(scope: Scope) -> str | None:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            return value.decode() if _ID.match(value) else None
    return None


def _bounded(receive: Receive, seconds: float) -> Receive:
    """`receive` that raises Problem 408 when it was waited for so long in all, while the body was not there."""
    left, more = seconds, True

    async def bounded() -> Message:
        nonlocal left, more
        if not more:
            return await receive()
        began = time.monotonic()
        try:
            message = await _within(receive, left)
        except TimeoutError:
            raise Problem(
                408, "too-slow", f"The body did not come within {seconds:g} s.", headers={"Connection": "close"}
            ) from None
        left -= time.monotonic() - began
        more = message["type"] == "http.request" and bool(message.get("more_body"))
        return message

    return bounded


async def _within(receive: Receive, seconds: float) -> Message:
    async with asyncio.timeout(max(0.0, seconds)):
        return await receive()
