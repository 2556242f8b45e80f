"""Every refusal is one RFC 9457 problem that a program can tell apart by `code` and a person can act on by `detail`."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.responses import JSONResponse

from sparql.query import pool


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


def of_query(wrong: Exception) -> Problem:
    """The problem a failed query is."""
    if isinstance(wrong, pool.QueryError):
        return Problem(400, "query-error", wrong.message, line=wrong.line, column=wrong.column)
    if isinstance(wrong, pool.NotAcceptable):
        return Problem(406, "not-acceptable", str(wrong))
    if isinstance(wrong, pool.QueryTimeout):
        return Problem(504, "query-timeout", str(wrong))
    if isinstance(wrong, pool.QueryTooLarge):
        return Problem(503, "query-too-large", str(wrong))
    if isinstance(wrong, pool.PoolBusy):
        return Problem(503, "busy", str(wrong), headers={"Retry-After": "1"})
    if isinstance(wrong, pool.WorkerLost):
        return Problem(503, "worker-lost", str(wrong), headers={"Retry-After": "1"})
    return Problem(500, "query-failed", str(wrong))
