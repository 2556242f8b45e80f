"""Whoever has an IRI of ours can ask what it is."""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparql.server.serving import Serving


def routes(serving: Serving) -> list[Route]:
    """`/ns`."""
    endpoints = _Describing(serving)
    return [
        Route("/ns", endpoints.vocabulary),
    ]


class _Describing:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def vocabulary(self, _: Request) -> Response:
        text = resources.files("ontology").joinpath("graphtide.ttl").read_bytes()
        return Response(text, media_type="text/turtle; charset=utf-8")
