"""What the writer does for people on this machine it does for a token over HTTP, but for what names a path."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sparql.client import WriterGone, WriterRefused
from sparql.server import protocol
from sparql.server.gate import given_token
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.tokens import Token

# What names a path on this machine, or ends the writer, is for people on this machine.
FORWARDED = frozenset(
    ("status", "sync", "commit", "checkpoint", "changes", "violations", "verify", "forget", "rename", "erase", "reload")
)


def routes(serving: Serving) -> list[Route]:
    """`/writer`."""
    endpoints = _Writing(serving)
    return [
        Route("/writer", endpoints.writer, methods=["POST"]),
    ]


class _Writing:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def writer(self, request: Request) -> Response:
        token: Token | None = getattr(request.state, "token", None)
        if token is None or given_token(request, basic=False) is None:
            headers = {"WWW-Authenticate": "Bearer"}
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`, an admin's.", headers=headers)
        if not token.admin:
            raise Problem(403, "not-admin", f"The token {token.name!r} does not do this. Use one made with --admin.")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "unsupported-media-type", "A request to the writer is application/json.")
        try:
            ask = json.loads(await protocol.body(request, self.serving.config.max_write_bytes))
        except ValueError as wrong:
            raise Problem(400, "not-json", f"The body is not JSON ({wrong}).") from wrong
        if not isinstance(ask, dict) or not isinstance(ask.get("do"), str):
            raise Problem(400, "not-a-request", 'The body is not a request: write {"do": "sync", ...}.')
        do = ask.pop("do")
        if do not in FORWARDED or {"on_event", "silence"} & set(ask):
            allowed = ", ".join(sorted(FORWARDED))
            raise Problem(403, "not-over-http", f"{do!r} is not done over HTTP. What is: {allowed}.")
        return await self._forward(do, ask)

    async def _forward(self, do: str, ask: dict[str, Any]) -> Response:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def put(line: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the server stopped meanwhile
                loop.call_soon_threadsafe(lines.put_nowait, line)

        def work() -> None:
            try:
                put({"ok": self.serving.client.call(do, lambda event: put({"event": event}), **ask)})
            except WriterRefused as no:
                put({"error": {"code": no.code, "message": no.message}})
            except WriterGone as gone:
                put({"error": {"code": "writer-gone", "message": str(gone)}})
            except Exception as wrong:
                put({"error": {"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"}})

        self.serving.writers.submit(work)
        first = await lines.get()
        if "error" in first:
            code, message = str(first["error"]["code"]), str(first["error"]["message"])
            raise Problem(503 if code == "writer-gone" else 409, code, message)

        async def stream() -> AsyncIterator[bytes]:
            line = first
            while True:
                yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
                if "event" not in line:
                    return
                line = await lines.get()

        return StreamingResponse(stream(), media_type="application/x-ndjson")
