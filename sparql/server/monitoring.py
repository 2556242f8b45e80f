"""A monitor asks three things: is it alive, can it answer, and where do the sources stand."""

from __future__ import annotations

import asyncio
import json
from importlib import resources
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sparql.client import WriterGone, WriterRefused
from sparql.log import read_head
from sparql.query.pool import NotAcceptable, QueryFailed
from sparql.server import describing
from sparql.server.metrics import CONTENT_TYPE
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.tokens import Token


def routes(serving: Serving) -> list[Route]:
    """`/health`, `/ready`, `/metrics`, `/api/status` and `/api/violations`."""
    endpoints = _Monitoring(serving)
    return [
        Route("/health", endpoints.health),
        Route("/ready", endpoints.ready),
        Route("/metrics", endpoints.metrics),
        Route("/api/status", endpoints.status),
        Route("/api/violations", endpoints.violations),
    ]


class _Monitoring:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def health(self, _: Request) -> Response:
        return JSONResponse({"alive": True})

    async def ready(self, request: Request) -> Response:
        """Whether a query would be answered; how the server stands, for those who may read."""
        ready = self.serving.pool.ready() and not self.serving.draining
        state: dict[str, Any] = {"ready": ready}
        token: Token | None = getattr(request.state, "token", None)
        if not self.serving.config.exposed or (token is not None and token.reads):
            state |= {
                "draining": self.serving.draining,
                "epoch": read_head(self.serving.config.state),
                "writer": await self.serving.in_thread(self.serving.client.available),
                **self.serving.pool.status(),
            }
        return JSONResponse(state, 200 if ready else 503, {"Cache-Control": "no-store"})

    async def metrics(self, _: Request) -> Response:
        text = await self.serving.in_thread(self.serving.metrics.text)
        return Response(text, headers={"Cache-Control": "no-store", "Content-Type": CONTENT_TYPE})

    async def status(self, _: Request) -> Response:
        try:
            found = await self.serving.in_thread(lambda: self.serving.client.call("status", silence=10.0))
        except (WriterGone, WriterRefused) as wrong:
            found = {
                "writer": None,
                "sources": [],
                "commit": read_head(self.serving.config.state),
                "notes": [str(wrong)],
            }
        notes = [*found.get("notes", ()), *describing.examples(self.serving).broken()]
        status = {**found, "notes": notes, "query": self.serving.pool.status()}
        return JSONResponse(status, headers={"Cache-Control": "no-store"})

    async def violations(self, request: Request) -> Response:
        source, limit = request.query_params.get("source"), request.query_params.get("limit", "100")
        if not limit.isdigit() or not 0 < int(limit) <= 10_000:
            raise Problem(400, "bad-limit", f"limit={limit!r} is not a number from 1 to 10000.")
        try:
            found = await self.serving.in_thread(
                lambda: self.serving.client.call("violations", silence=10.0, source=source, limit=int(limit))
            )
        except WriterRefused as no:
            raise Problem(400, no.code, no.message) from no
        except WriterGone:
            found = await self._violations_from_graph(source, int(limit))
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    async def _violations_from_graph(self, source: str | None, limit: int) -> dict[str, Any]:
        """The quarantine as the graph has it: it is readable without a writer."""
        text = (resources.files("sparql.server").joinpath("violations.rq").read_text("utf-8")).replace(
            "$GRAPH", f"{self.serving.config.base}system/quarantine"
        )
        try:
            body = await asyncio.get_running_loop().run_in_executor(
                self.serving.threads, lambda: self.serving.pool.run(text + f"\nLIMIT {limit}", format="json").read()
            )
        except (QueryFailed, NotAcceptable) as wrong:
            raise Problem(503, "busy", str(wrong)) from wrong
        rows = [{key: cell["value"] for key, cell in row.items()} for row in json.loads(body)["results"]["bindings"]]
        return {"violations": [row for row in rows if source in (None, row.get("source"))]}
