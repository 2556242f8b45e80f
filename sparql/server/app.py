"""The application is its modules' routes behind one gate."""

from __future__ import annotations

import os
from dataclasses import replace

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from sparql.server import api, backups, describing, graphs, monitoring, openapi, page, query, writing
from sparql.server.config import ServerConfig
from sparql.server.gate import TOKEN, Gate
from sparql.server.observing import Observing
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.server.tracing import tracing

MODULES = (query, graphs, page, monitoring, describing, writing, api, openapi, backups)


def create_app(config: ServerConfig) -> Starlette:
    """The application. Its pool runs from startup to shutdown. Raises ServerError for a configuration to refuse."""
    if config.token is None and os.environ.get(TOKEN):
        config = replace(config, token=os.environ[TOKEN])
    config.check()
    traces = tracing(config)
    serving = Serving(config)
    if traces is not None:
        serving.pool.observe(traces.query)
        serving.on_start(traces.lifespan)
    app = Starlette(
        routes=[route for module in MODULES for route in module.routes(serving)],
        exception_handlers={Problem: _problem, HTTPException: _http},
        lifespan=serving.lifespan,
    )
    app.router.default = describing.fallback(serving, app.router.default)
    serving.metrics.sparql = serving.sparql
    app.add_middleware(Gate, config=config)
    names = {
        getattr(route, "endpoint", None): str(getattr(route, "path", "")).rstrip("/") or "/" for route in app.routes
    }
    app.add_middleware(Observing, config=config, metrics=serving.metrics, tracing=traces, routes=names)
    app.state.serving, app.state.pool = serving, serving.pool
    return app


def _problem(_: Request, wrong: Exception) -> Response:
    assert isinstance(wrong, Problem)
    return wrong.response()


def _http(request: Request, wrong: Exception) -> Response:
    assert isinstance(wrong, HTTPException)
    headers = dict(wrong.headers or {})
    if wrong.status_code == 405:
        headers["Allow"] = ", ".join(_methods(request))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    code = {404: "not-found", 405: "method-not-allowed"}.get(wrong.status_code, "http")
    detail = f"{request.method} {request.url.path}: {wrong.detail}."
    return Problem(wrong.status_code, code, detail, headers=headers).response()


def _methods(request: Request) -> list[str]:
    """What may be done with the path of a request, whichever route does it."""
    found = {"OPTIONS"}
    for route in request.app.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)
