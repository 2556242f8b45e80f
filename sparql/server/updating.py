"""A write needs a token, goes to the writer, and is answered with the commit that holds it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sparql.client import WriterGone, WriterRefused
from sparql.server.gate import CHALLENGE
from sparql.server.problem import Problem
from sparql.server.protocol import Changing
from sparql.server.serving import Serving
from sparql.tokens import Token

# How the writer's no is said over HTTP; what is not here is a 409 with its own code.
STATUS = {
    "update-error": 400, "dataset-conflict": 400, "too-deep": 400, "not-rdf": 400, "not-a-graph": 400,
    "bad-graph": 400, "bad-request": 400, "service-off": 403, "load-off": 403, "read-only": 403, "not-allowed": 403,
    "other-graph": 403, "no-such-graph": 404, "graph-exists": 409, "precondition-failed": 412, "too-many": 413,
    "too-large": 413, "unsupported-media-type": 415, "rejected": 422, "not-had": 422, "load-failed": 502, "busy": 503,
    "update-lost": 503, "update-timeout": 504, "DiskFull": 507,
    "StoreError": 503, "ValueError": 400, "FactsError": 400, "unknown": 501, "failed": 500,
}  # fmt: skip
_UPDATE = {"no-such-graph": 409}
"""What is said otherwise of an update, whose URL is there."""


async def update(serving: Serving, request: Request, asked: Changing) -> Response:
    """The answer to an update at `/sparql`: 200 with what became of it, or 204 where JSON is not taken."""
    token = writing(request)
    if len(asked.update) * 4 > (most := serving.config.max_update_bytes) and len(asked.update.encode()) > most:
        raise Problem(413, "update-too-long", f"The update is longer than max_update_bytes ({most:,}).")
    found = await ask(
        serving, "update", token, text=asked.update, default_graphs=asked.using, named_graphs=asked.using_named,
        status=_UPDATE,
    )  # fmt: skip
    return done(found, told=takes_json(request, named=False))


def writing(request: Request) -> Token:
    """The token of a request that is to write. Raises Problem 401 and 403."""
    token: Token | None = getattr(request.state, "token", None)
    if token is None:
        raise Problem(
            401, "token-needed",
            "Writing needs a token: send `Authorization: Bearer TOKEN`. Make one with `graphtide token add`.",
            headers=CHALLENGE,
        )  # fmt: skip
    if not token.admin and not token.write:
        raise Problem(403, "not-allowed", f"The token {token.name!r} may write to no graph. Use one made with --write.")
    return token


async def ask(
    serving: Serving, do: str, token: Token, *, status: Mapping[str, int] | None = None, **args: Any
) -> dict[str, Any]:
    """What the writer did for the token. Raises Problem."""
    graphs = "*" if token.admin else list(token.write)
    reads = token.reads or not serving.config.exposed
    call = functools.partial(
        serving.client.call, do, silence=serving.config.update_seconds + 30.0, token=token.name, graphs=graphs,
        reads=reads, **args,
    )  # fmt: skip
    try:
        return await asyncio.get_running_loop().run_in_executor(serving.updates, call)
    except WriterGone as gone:
        raise Problem(503, "writer-gone", str(gone), headers={"Retry-After": "2"}) from gone
    except WriterRefused as no:
        found = (status or {}).get(no.code) or STATUS.get(no.code, 409)
        headers = {"Retry-After": "2"} if found == 503 else {}
        raise Problem(found, no.code, no.message, headers=headers, **no.details) from no


def done(
    found: Mapping[str, Any], *, told: bool, created: bool = False, headers: Mapping[str, str] | None = None
) -> Response:
    """The answer to a write that happened; `created` is whether a graph came to be, `told` whether a body says more."""
    out = {
        **(headers or {}),
        "X-Graphtide-Epoch": str(found["commit"]), "X-Graphtide-Commit-Time": found["time"] or "none",
        "Cache-Control": "no-store",
    }  # fmt: skip
    if not told:
        return Response(status_code=201 if created else 204, headers=out)
    body = {
        "epoch": found["commit"], "commit_time": found["time"] or None, "added": found["added"],
        "removed": found["removed"], "graphs": [graph or "default" for graph in found["graphs"]],
        "kept": found["kept"], "kept_count": found["kept_count"], "notes": found["notes"],
    }  # fmt: skip
    return JSONResponse(body, 201 if created else 200, out)


def takes_json(request: Request, *, named: bool) -> bool:
    """Whether the client takes JSON; with `named`, whether it asks for it by name."""
    accept = ", ".join(request.headers.getlist("accept"))
    if "json" in accept.lower():
        return True
    return not named and (not accept or "*/*" in accept or "application/*" in accept)
