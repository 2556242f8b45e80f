"""An answer that fails after its first byte must not look whole: the connection breaks before the end of the body."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from sparql.query.pool import Answer, Call, QueryCancelled, QueryFailed, QueryTimeout
from sparql.query.results import BY_NAME, NotAcceptable
from sparql.server.problem import of_query

log = logging.getLogger("graphtide.server")
T = TypeVar("T")


class AnswerResponse:
    """Runs a query and streams its answer, with back-pressure, until the client has it or goes away."""

    def __init__(self, call: Call, threads: Executor, *, download: str | None = None) -> None:
        self.call, self.threads, self.download = call, threads, download
        self.started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._cancel_when_gone(receive))
        answer: Answer | None = None
        try:
            try:
                begun = await self._off_loop(self._begin)
                answer = begun[0]
            except QueryCancelled:
                return
            except (QueryFailed, NotAcceptable) as wrong:
                await of_query(wrong).response()(scope, receive, send)
                return
            await self._send(*begun, scope, send)
        except (QueryFailed, TimeoutError) as wrong:
            if not self.started:
                await of_query(wrong).response()(scope, receive, send)
                return
            # Returning without the last message makes the server close the connection mid-body.
            if not isinstance(wrong, QueryCancelled):
                log.warning("an answer was cut: %s", wrong or "the client did not take it in time")
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone
            if answer is not None:
                answer.close()
            else:
                self.call.cancel()

    def _begin(self) -> tuple[Answer, bytes]:
        answer = self.call.answer()
        try:
            return answer, answer.chunk() or b""
        except BaseException:
            answer.close()
            raise

    async def _send(self, answer: Answer, first: bytes, scope: Scope, send: Send) -> None:
        rest: list[bytes] = []
        if scope.get("http_version") == "1.0":  # its bodies end where the connection does: a cut would look whole
            while (more := await self._off_loop(answer.chunk)) is not None:
                rest.append(more)
        headers = self._headers(answer)
        self.started = True
        if answer.done:
            body = b"".join((first, *rest))
            headers.append((b"content-length", str(len(body)).encode()))
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
            return
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        data: bytes | None = first
        while data is not None:
            left = answer.ends - time.monotonic()
            if left <= 0:
                raise QueryTimeout("The answer was not taken before the deadline.")
            await asyncio.wait_for(send({"type": "http.response.body", "body": data, "more_body": True}), left)
            data = await self._off_loop(answer.chunk)
        await send({"type": "http.response.body", "body": b""})

    def _headers(self, answer: Answer) -> list[tuple[bytes, bytes]]:
        found = {
            "content-type": answer.content_type,
            "x-graphtide-epoch": str(answer.epoch),
            "x-graphtide-commit-time": answer.commit_time or "none",
            "x-graphtide-kind": answer.kind,
            "vary": "Accept",
            "cache-control": "no-cache",
            "x-content-type-options": "nosniff",
        }
        if answer.ms is not None:
            found["server-timing"] = f"query;dur={answer.ms}"
        if self.download is not None:
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.download).strip(".-") or "result"
            found["content-disposition"] = f'attachment; filename="{name}.{BY_NAME[answer.format].extension}"'
        return [(key.encode(), value.encode("latin-1")) for key, value in found.items()]

    async def _off_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.threads, work)

    async def _cancel_when_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.call.cancel()
