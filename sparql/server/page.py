"""The page at `/` is one file that asks this server and no other."""

from __future__ import annotations

from importlib import resources

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from sparql.server import describing
from sparql.server import examples as stored
from sparql.server.serving import Serving

_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def routes(serving: Serving) -> list[Route]:
    """`/` and what it shows besides answers."""
    endpoints = _Page(serving)
    return [
        Route("/", endpoints.page),
        Route("/api/page", endpoints.about),
    ]


class _Page:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def page(self, _: Request) -> Response:
        return HTMLResponse(
            resources.files("sparql.server").joinpath("page.html").read_text("utf-8"), 200, _PAGE_HEADERS
        )

    async def about(self, _: Request) -> Response:
        """What the page shows besides answers."""
        found = await self.serving.in_thread(describing.examples(self.serving).all)
        return JSONResponse(
            {
                "base": self.serving.config.base,
                "prefixes": self.serving.prefixes,
                "examples": [stored.about(one) for one in found],
                "deadline": self.serving.config.deadline,
                "dagster": self.serving.config.dagster_url,
            }
        )
