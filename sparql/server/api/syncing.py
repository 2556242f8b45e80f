"""A sync is asked for and not waited for: the answer is a job."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sparql.server.api.operation import (
    CURSOR,
    EVENTS,
    JSON,
    Body,
    Given,
    Operation,
    Parameter,
    Reply,
    answer,
    head,
    limit,
    next_link,
    unpack,
)
from sparql.server.api.operation import routes as made
from sparql.server.api.schema import COUNT, FLAG, TEXT, many, maybe, obj, ref
from sparql.server.gate import client_of
from sparql.server.jobs import STATES, Job, Jobs, KeyReused, Started, TooManyJobs
from sparql.server.problem import Problem
from sparql.server.serving import Serving

HEARTBEAT_SECONDS = 15.0

REPORT = obj({"source": TEXT, "read": COUNT, "changed": COUNT, "gone": COUNT, "message": TEXT}, more=True)
JOB = obj({
    "id": TEXT, "kind": {"type": "string", "enum": ["sync"]}, "state": {"type": "string", "enum": list(STATES)},
    "phase": TEXT, "sources": {"type": ["array", "null"], "items": TEXT}, "allow_deletes": FLAG, "created": TEXT,
    "started": maybe("string"), "ended": maybe("string"),
    "counts": obj({"records": COUNT, "statements": COUNT,
                   "by_source": {"type": "object", "additionalProperties": COUNT}}),
    "commits": many(COUNT), "reports": many(ref("SyncReport")),
    "error": {"oneOf": [obj({"code": TEXT, "message": TEXT}), {"type": "null"}]}, "last_event": COUNT,
    "how": {"type": "string", "enum": ["new", "joined", "replayed"]}, "epoch": COUNT, "next": maybe("string"),
}, optional=("how", "epoch", "next"))  # fmt: skip
JOBS = obj({"jobs": many(ref("Job")), "total": COUNT, "epoch": COUNT, "next": maybe("string")})
SYNC = obj({
    "sources": {"type": ["array", "null"], "maxItems": 1000,
                "items": {"type": "string", "minLength": 1, "maxLength": 200},
                "description": "Which to read; null is all."},
    "allow_deletes": {"type": "boolean",
                      "description": "Let a read retract more than the fuse allows. Needs an admin."},
}, optional=("sources", "allow_deletes"))  # fmt: skip
SCHEMAS = {"SyncReport": REPORT, "Job": JOB, "Jobs": JOBS, "SyncRequest": SYNC}

ID = Parameter("id", {"type": "string", "minLength": 1, "maxLength": 64}, "The job.", "path", True, "0f9a1b2c3d4e5f60")
KEY = Parameter(
    "idempotency-key", {"type": "string", "minLength": 1, "maxLength": 255},
    "Two requests with the same key are one: the second is answered with the first's job.", "header",
    example="c0ffee",
)  # fmt: skip
LAST = Parameter(
    "last-event-id", {"type": "string", "maxLength": 20},
    "Go on after this event; what is not kept any more is said as a `gap`.", "header", example="3",
)  # fmt: skip

OPERATIONS = (
    Operation(
        "POST", "/api/sync", "sync", "Read sources now",
        {202: Reply("The job that does it.", ref("Job"), headers={"Location": "Where the job is."})}, "sources",
        "Jobs run one after the other. A job that asks the same and has not begun is joined (`how` is `joined`); one "
        "that runs is not, since it may have read past what you mean, and the new job waits for it. At most 16 wait.",
        (KEY,), Body(SYNC, "SyncRequest", required=False, example={"sources": ["services"]}),
        refusals=(409, 415, 422, 429, 503), needs="write",
    ),
    Operation(
        "GET", "/api/jobs", "jobs", "The jobs of this server, the newest first",
        {200: Reply("A page of jobs.", ref("Jobs"))}, "sources",
        "The newest 200 are kept while the server runs.", (limit(50, 200), CURSOR),
    ),
    Operation(
        "GET", "/api/jobs/{id}", "job", "One job, or its events as they come",
        {200: Reply("The job. As `text/event-stream`: `step` for what the writer says, `gap`, and `end` with the job.",
                    ref("Job"), (JSON, EVENTS))}, "sources",
        "With `Accept: text/event-stream` the answer is a stream that ends with the job. A comment every 15 s shows "
        "that it lives; `Last-Event-ID` goes on where a stream broke.",
        (ID, LAST), refusals=(404,),
    ),
    Operation(
        "DELETE", "/api/jobs/{id}", "cancel", "Take back a job that has not begun",
        {200: Reply("The job, cancelled.", ref("Job"))}, "sources",
        "What has begun is not stopped half way: 409. A cancelled job may be cancelled again.",
        (ID,), refusals=(404, 409), needs="write",
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/sync` and `/api/jobs`."""
    endpoints = _Syncing(Jobs(serving.client))
    serving.on_start(endpoints.jobs.running)
    return made(
        serving, OPERATIONS,
        {"sync": endpoints.sync, "jobs": endpoints.list, "job": endpoints.one, "cancel": endpoints.cancel},
    )  # fmt: skip


class _Syncing:
    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    async def sync(self, given: Given) -> Response:
        body = given.body or {}
        sources, allow = body.get("sources"), bool(body.get("allow_deletes"))
        token = given.request.state.token
        if allow and not token.admin:
            raise Problem(403, "wrong-scope", "allow_deletes needs a token made with --admin.")
        known = [row["name"] for row in (await given.serving.ask_writer("sources", silence=10.0))["sources"]]
        for name in sources or ():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(known)}."
                raise Problem(422, "unknown-source", f"There is no source {name!r}. {hint}")
        key = given.get("idempotency-key")
        try:
            job, how = self.jobs.sync(
                sources, allow_deletes=allow, key=f"{client_of(given.request)} {key}" if key is not None else None
            )
        except KeyReused:
            raise Problem(
                422, "idempotency-key-reused", "This Idempotency-Key came with another request. Take a new one."
            ) from None
        except TooManyJobs:
            raise Problem(
                429,
                "too-many-jobs",
                "As many jobs wait as may. Try again when one is done.",
                headers={"Retry-After": "5"},
            ) from None
        place = given.request.scope.get("root_path", "") + f"/api/jobs/{job.id}"
        body = {**self.jobs.document(job), "how": how}
        return answer(given, body, epoch=head(given), status=202, headers={"Location": place})

    async def list(self, given: Given) -> Response:
        place, size = unpack(given, str), given.get("limit", 50)
        found = self.jobs.list()
        ids = [job["id"] for job in found]
        start = ids.index(place[0]) + 1 if place and place[0] in ids else 0
        page = found[start : start + size]
        more = next_link(given, [page[-1]["id"]]) if start + size < len(found) else None
        return answer(given, {"jobs": page, "total": len(found)}, epoch=head(given), next=more)

    async def one(self, given: Given) -> Response:
        job = self._found(given)
        if not _wants_events(given):
            return answer(given, self.jobs.document(job), epoch=head(given))
        text = given.get("last-event-id", "").strip()
        after = int(text) if text.isascii() and text.isdecimal() else 0
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"}
        headers["X-Graphtide-Epoch"] = str(head(given))
        if given.request.method == "HEAD":
            return Response(None, headers=headers, media_type=EVENTS)
        return StreamingResponse(self._stream(job, after), headers=headers, media_type=EVENTS)

    async def cancel(self, given: Given) -> Response:
        try:
            job = self.jobs.cancel(given.values["id"])
        except Started as has:
            raise Problem(
                409,
                "has-begun",
                f"The job is {has}: only one that waits can be taken back. What runs goes on to its end.",
            ) from None
        if job is None:
            raise _unknown(given)
        return answer(given, self.jobs.document(job), epoch=head(given))

    async def _stream(self, job: Job, after: int) -> AsyncIterator[bytes]:
        yield b"retry: 2000\n\n"
        events = self.jobs.follow(job, min(after, job.last), HEARTBEAT_SECONDS)
        try:
            async for event in events:
                if event is None:
                    yield b": alive\n\n"
                    continue
                number, kind, data = event
                text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
                yield f"id: {number}\nevent: {kind}\ndata: {text}\n\n".encode("utf-8", "replace")
        except asyncio.CancelledError:
            raise
        finally:
            await events.aclose()  # type: ignore[attr-defined]

    def _found(self, given: Given) -> Job:
        job = self.jobs.find(given.values["id"])
        if job is None:
            raise _unknown(given)
        return job


def _wants_events(given: Given) -> bool:
    accept: str = given.request.headers.get("accept", "")
    return any(part.partition(";")[0].strip().lower() == EVENTS for part in accept.split(","))


def _unknown(given: Given) -> Problem:
    what = f"There is no job {given.values['id'][:80]!r}."
    return Problem(404, "unknown-job", f"{what} It may be from before this server started: the newest 200 are kept.")
