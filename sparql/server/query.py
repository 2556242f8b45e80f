"""A query is read, run in a worker and streamed; the graph is as open to reading as this server is."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from sparql.server import protocol
from sparql.server.answer import AnswerResponse
from sparql.server.serving import Serving


def routes(serving: Serving) -> list[Route]:
    """`/sparql`."""
    endpoints = _Query(serving)
    return [
        Route("/sparql", endpoints.sparql, methods=["GET", "HEAD", "POST"]),
    ]


class _Query:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def sparql(self, request: Request) -> ASGIApp:
        asked = await protocol.read(request, self.serving.config.max_query_bytes)
        call = self.serving.pool.call(
            asked.query,
            format=asked.formats,
            deadline=min(asked.seconds or self.serving.config.deadline, self.serving.config.deadline),
            default_graphs=asked.default_graphs,
            named_graphs=asked.named_graphs,
        )
        return AnswerResponse(call, self.serving.threads, download=asked.download)
