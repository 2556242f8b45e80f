"""Every refusal is one RFC 9457 problem that a program can tell apart by `code` and a person can act on by `detail`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from sparql.query import failures
from sparql.query.results import NotAcceptable, media_types


class Problem(Exception):
    """A request is answered with `status` and no result."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.headers, self.more = dict(headers or {}), more

    def response(self) -> JSONResponse:
        """The problem as sent."""
        body = {
            "type": f"urn:graphtide:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
            **self.more,
        }
        return JSONResponse(body, self.status, self.headers, media_type="application/problem+json")


def of_query(wrong: Exception, *, least: bool = False) -> Problem:
    """The problem a failed query is; `least` when it was to stand at some commit or a later one."""
    text = str(wrong)
    if isinstance(wrong, failures.QueryError):
        return Problem(400, "query-error", wrong.message, line=wrong.line, column=wrong.column)
    if isinstance(wrong, NotAcceptable):
        return Problem(406, "not-acceptable", text, available=list(media_types()))
    if isinstance(wrong, failures.PoolBusy):
        headers = {"Retry-After": str(max(1, math.ceil(wrong.retry_after)))}
        if wrong.which == "client":
            return Problem(429, "too-many-queries", text, headers=headers)
        return Problem(503, "busy", text, headers=headers, full=wrong.which)
    if isinstance(wrong, failures.WorkerLost):
        return Problem(503, "worker-lost", text, headers={"Retry-After": "1"})
    if isinstance(wrong, failures.EpochAhead):
        if least:
            return Problem(503, "epoch-ahead", text, headers={"Retry-After": "1"}, head=wrong.head)
        return Problem(409, "epoch-ahead", text, head=wrong.head)
    for kind, status, code in _STATUS:
        if isinstance(wrong, kind):
            return Problem(status, code, text)
    if isinstance(wrong, TimeoutError):
        return Problem(504, "query-timeout", text or "The answer was not taken before the deadline.")
    return Problem(500, "query-failed", text)


_STATUS: tuple[tuple[type[Exception], int, str], ...] = (
    (failures.QueryTimeout, 504, "query-timeout"),
    (failures.QueryTooLarge, 503, "query-too-large"),
    (failures.AnswerTooLong, 422, "answer-too-long"),
    (failures.QueryCancelled, 503, "query-cancelled"),
    (failures.EpochGone, 410, "epoch-gone"),
)
