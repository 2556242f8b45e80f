"""What apps and the web client ask in JSON; each operation is declared once, and its documentation is made of that."""

from __future__ import annotations

from starlette.routing import Route

from sparql.server.api import entity, exploring, questions, running, searching, sources, syncing
from sparql.server.serving import Serving

PARTS = (entity, searching, exploring, sources, syncing, running, questions)


def routes(serving: Serving) -> list[Route]:
    """`/api/*`, `/ask` and `/text2sparql`."""
    return [route for part in PARTS for route in part.routes(serving)]
