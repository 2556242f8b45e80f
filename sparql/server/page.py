"""The page at `/` is one file that asks this server and no other."""

from __future__ import annotations

import contextlib
import re
from importlib import resources
from pathlib import Path

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

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
        return JSONResponse(
            {
                "base": self.serving.config.base,
                "prefixes": self.serving.prefixes,
                "examples": examples(self.serving.config.queries),
                "deadline": self.serving.config.deadline,
                "dagster": self.serving.config.dagster_url,
            }
        )


def examples(folder: Path | None) -> list[dict[str, str]]:
    """The example queries of a folder, by file name: the first comment line is the title."""
    found = []
    for path in sorted(folder.glob("*.rq")) if folder is not None and folder.is_dir() else ():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = path.read_text("utf-8")
            title = re.match(r"\s*#\s*(.+)", text)
            found.append({"name": path.stem, "title": title.group(1).strip() if title else path.stem, "query": text})
    return found
