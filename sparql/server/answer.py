"""An answer that fails after its first byte must not look whole: the connection breaks before the end of the body."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Receive, Scope, Send

from sparql.query.pool import Answer, Call, QueryCancelled, QueryFailed, QueryTimeout
from sparql.query.results import BY_NAME, NotAcceptable
from sparql.server import compress, negotiate
from sparql.server.cache import Kept
from sparql.server.problem import Problem, of_query
from sparql.server.protocol import Asked

log = logging.getLogger("graphtide.server")
Headers = list[tuple[bytes, bytes]]

# Compressing this much takes long enough for others to wait for it.
LARGE = 16 * 1024
VARY = (b"vary", b"Accept, Accept-Encoding")
NOSNIFF = (b"x-content-type-options", b"nosniff")
NO_CACHE, NO_STORE = (b"cache-control", b"no-cache"), (b"cache-control", b"no-store")
# To an earlier epoch nothing happens any more, but it may be gone tomorrow.
PINNED = (b"cache-control", b"private, max-age=600, immutable")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Up to where an answer is sent as it is, kept in memory for a client of HTTP/1.0, and kept for the next one."""

    compress_from: int
    buffer_bytes: int
    keep_bytes: int


class Marking(Protocol):
    """Says how long an answer is good for."""

    async def mark(self, answer: Answer) -> tuple[tuple[bytes, bytes], str | None]:
        """(its Cache-Control header, its entity tag but for the coding or None)."""

    def keep(self, answer: Answer, body: bytes | None) -> None:
        """The whole answer, or None as soon as it is too long to be kept."""


class AnswerResponse:
    """Runs a query and streams its answer, with back-pressure, until the client has it or goes away."""

    def __init__(self, call: Call, asked: Asked, sizes: Sizes, marking: Marking) -> None:
        self.call, self.asked = call, asked
        self.sizes, self.marking = sizes, marking
        self.started = False
        self._raw: list[bytes] | None = []
        self._raw_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(self._cancel_when_gone(receive))
        try:
            async with self.call as call:
                answer = await call.begin()
                await self._send(answer, await answer.chunk_async() or b"", scope, send)
        except (QueryFailed, NotAcceptable, TimeoutError, Problem) as wrong:
            if not self.started:
                if gone.done():
                    return
                problem = wrong if isinstance(wrong, Problem) else of_query(wrong)
                await problem.response()(scope, receive, send)
                return
            # Returning without the last message makes the server close the connection mid-body.
            if not isinstance(wrong, QueryCancelled):
                log.warning("an answer was cut: %s", wrong or "the client did not take it in time")
            abort = scope.get("extensions", {}).get("graphtide.abort")
            if isinstance(wrong, TimeoutError) and abort is not None:
                abort()  # what lies in buffers for a client that does not read would wait for it for ever
        finally:
            gone.cancel()
            with suppress(asyncio.CancelledError):
                await gone

    async def _send(self, answer: Answer, first: bytes, scope: Scope, send: Send) -> None:
        self._collect(answer, first)
        if not answer.done and scope.get("http_version") == "1.0":
            first = await self._buffered(answer, first)
        cache_control, tag = await self.marking.mark(answer)
        coding = self._coding(answer, first)
        self._keep(answer)
        headers = self._headers(answer, cache_control, tag, coding)
        head = scope["method"] == "HEAD"
        if answer.done:
            if coding != negotiate.IDENTITY:
                first = await self._code(lambda: compress.whole(coding, first), len(first))
            headers.append((b"content-length", b"%d" % len(first)))
            self.started = True
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await self._put(answer, send, b"" if head else first, more=False)
            return
        self.started = True
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        if head:
            await send({"type": "http.response.body", "body": b""})
            return
        out = compress.coder(coding)
        data = first
        while True:
            if out is not None:
                piece, now = out.piece, data
                data = await self._code(lambda piece=piece, now=now: piece(now), len(now))  # type: ignore[misc]
            await self._put(answer, send, data, more=True)
            following = await answer.chunk_async()
            if following is None:
                break
            data = following
            self._collect(answer, data)
        self._keep(answer)
        await self._put(answer, send, b"" if out is None else out.last(b""), more=False)

    async def _put(self, answer: Answer, send: Send, data: bytes, *, more: bool) -> None:
        message = {"type": "http.response.body", "body": data, "more_body": more}
        left = answer.ends - time.monotonic()
        if left <= 0:
            raise QueryTimeout("The answer was not taken before the deadline.")
        if not more and len(data) <= LARGE:
            await send(message)  # it fits into what the system keeps for the client: nothing to wait for
            return
        async with asyncio.timeout(left):
            await send(message)

    async def _buffered(self, answer: Answer, first: bytes) -> bytes:
        """The whole answer: a body of HTTP/1.0 ends where the connection does, so a cut one would look whole."""
        parts, size = [first], len(first)
        while (more := await answer.chunk_async()) is not None:
            parts.append(more)
            self._collect(answer, more)
            size += len(more)
            if size > self.sizes.buffer_bytes:
                raise Problem(
                    505,
                    "http-too-old",
                    f"The answer is longer than {self.sizes.buffer_bytes:,} bytes, and HTTP/1.0 has no way to say that "
                    "such an answer was cut. Ask with HTTP/1.1, or page by LIMIT and OFFSET.",
                )
        return b"".join(parts)

    def _collect(self, answer: Answer, data: bytes) -> None:
        """The marking hears of the answer when it is whole, or when it is too long."""
        if self._raw is None:
            return
        self._raw.append(data)
        self._raw_bytes += len(data)
        if self._raw_bytes > self.sizes.keep_bytes:
            self._raw = None
            self.marking.keep(answer, None)

    def _keep(self, answer: Answer) -> None:
        if answer.done and self._raw is not None:
            self.marking.keep(answer, b"".join(self._raw))
            self._raw = None

    def _coding(self, answer: Answer, first: bytes) -> str:
        if answer.format in negotiate.COMPRESSED:
            return negotiate.IDENTITY
        return choose(self.asked.codings, len(first) if answer.done else None, self.sizes.compress_from)

    def _headers(self, answer: Answer, cache_control: tuple[bytes, bytes], tag: str | None, coding: str) -> Headers:
        found = answer_headers(answer.content_type, answer.kind, answer.epoch, answer.commit_time)
        found += [cache_control, VARY, NOSNIFF, (b"x-graphtide-query", self.call.id.encode())]
        if tag is not None:
            found.append((b"etag", etag(tag, coding)))
        if coding != negotiate.IDENTITY:
            found.append((b"content-encoding", coding.encode()))
        if answer.ms is not None:
            found.append((b"server-timing", f"query;dur={answer.ms}".encode()))
        if self.asked.download is not None:
            found.append(disposition(self.asked.download, answer.format))
        return found

    async def _code(self, work: Callable[[], bytes], size: int) -> bytes:
        return await asyncio.to_thread(work) if size > LARGE else work()

    async def _cancel_when_gone(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self.call.cancel()


def choose(codings: tuple[str, ...], size: int | None, compress_from: int) -> str:
    """The coding for a body of so many bytes (None: not known yet): a small one is sent as it is, if that is taken."""
    small = size is not None and size < compress_from
    return negotiate.IDENTITY if small and negotiate.IDENTITY in codings else codings[0]


def kept_response(
    kept: Kept, asked: Asked, tag: str, epoch: int, time_: str, compress_from: int
) -> tuple[Headers, bytes]:
    """A kept answer as it is sent now: it holds at `epoch`."""
    coding = negotiate.IDENTITY
    if kept.format not in negotiate.COMPRESSED:
        coding = choose(asked.codings, len(kept.body), compress_from)
    body = kept.bytes_in(coding)
    headers = answer_headers(kept.content_type, kept.kind, epoch, time_)
    headers += [NO_CACHE, VARY, NOSNIFF, (b"etag", etag(tag, coding)), (b"x-graphtide-cache", b"hit")]
    if coding != negotiate.IDENTITY:
        headers.append((b"content-encoding", coding.encode()))
    if asked.download is not None:
        headers.append(disposition(asked.download, kept.format))
    headers.append((b"content-length", b"%d" % len(body)))
    return headers, body


def unchanged(tag: bytes, cache_control: tuple[bytes, bytes], epoch: int, time_: str) -> Headers:
    """The headers of a 304: what the client has holds at `epoch`."""
    return [(b"etag", tag), cache_control, VARY, *stand(epoch, time_)]


def stand(epoch: int, time_: str) -> Headers:
    """At which commit an answer stands."""
    return [
        (b"x-graphtide-epoch", b"%d" % epoch),
        (b"x-graphtide-commit-time", time_.encode() or b"none"),
    ]


def answer_headers(content_type: str, kind: str, epoch: int, time_: str) -> Headers:
    return [
        (b"content-type", content_type.encode("latin-1")),
        *stand(epoch, time_),
        (b"x-graphtide-kind", kind.encode()),
    ]


def etag(tag: str, coding: str) -> bytes:
    """The strong entity tag of one representation in one coding."""
    return f'"{tag}"'.encode() if coding == negotiate.IDENTITY else f'"{tag}.{coding}"'.encode()


def disposition(download: str, format: str) -> tuple[bytes, bytes]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", download[:100]).strip(".-") or "result"
    return b"content-disposition", f'attachment; filename="{name}.{BY_NAME[format].extension}"'.encode()
