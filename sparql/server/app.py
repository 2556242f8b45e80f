"""Reading is open to whoever reaches this machine by its own name; everything else needs the token or is not there."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sparql.client import WriterClient, WriterGone, WriterRefused
from sparql.log import read_head
from sparql.query.pool import NotAcceptable, Pool, QueryFailed
from sparql.server import protocol
from sparql.server.answer import AnswerResponse
from sparql.server.config import ServerConfig
from sparql.server.problem import Problem

TOKEN = "GRAPHTIDE_TOKEN"
# What names a path on this machine, or ends the writer, is for people on this machine.
FORWARDED = frozenset(
    ("status", "sync", "commit", "checkpoint", "changes", "violations", "verify", "forget", "rename", "erase", "reload")
)
_PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "sh": "http://www.w3.org/ns/shacl#",
    "prov": "http://www.w3.org/ns/prov#",
    "gt": "https://w3id.org/graphtide/ns#",
}


def create_app(config: ServerConfig) -> Starlette:
    """The application. Its pool runs from startup to shutdown. Raises ServerError for a configuration to refuse."""
    if config.token is None and os.environ.get(TOKEN):
        config = replace(config, token=os.environ[TOKEN])
    config.check()
    endpoints = _Endpoints(config)
    app = Starlette(
        routes=[
            Route("/", endpoints.page),
            Route("/sparql", endpoints.sparql, methods=["GET", "HEAD", "POST"]),
            Route("/health", endpoints.health),
            Route("/ready", endpoints.ready),
            Route("/ns", endpoints.vocabulary),
            Route("/writer", endpoints.writer, methods=["POST"]),
            Route("/api/status", endpoints.status),
            Route("/api/violations", endpoints.violations),
            Route("/api/page", endpoints.about),
        ],
        exception_handlers={Problem: _problem, HTTPException: _http},
        lifespan=endpoints.lifespan,
    )
    app.add_middleware(_Gate, config=config)
    app.state.pool = endpoints.pool
    return app


def _problem(_: Request, wrong: Exception) -> Response:
    assert isinstance(wrong, Problem)
    return wrong.response()


def _http(request: Request, wrong: Exception) -> Response:
    assert isinstance(wrong, HTTPException)
    headers = dict(wrong.headers or {})
    code = {404: "not-found", 405: "method-not-allowed"}.get(wrong.status_code, "http")
    detail = f"{request.method} {request.url.path}: {wrong.detail}."
    return Problem(wrong.status_code, code, detail, headers=headers).response()


class _Gate:
    """Requests that are not addressed to us by name, or need a token and have none, go no further."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self.app, self.config, self.names = app, config, config.names()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(Request(scope))
            except Problem as no:
                await no.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, request: Request) -> None:
        given = request.headers.getlist("host")
        name = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/@\s]+)(?::\d+)?", given[0]) if len(given) == 1 else None
        if name is None or name.group(1).strip("[]").rstrip(".").lower() not in self.names:
            raise Problem(
                421,
                "not-our-name",
                f"The request is for {', '.join(given) or 'no host'}, which is not a name of this server. "
                "Use localhost, or add the name to `hosts`.",
            )
        open_to_all = self.config.loopback or request.url.path in ("/health", "/ready")
        if not open_to_all and not self.config.opens(_token(request)):
            headers = {"WWW-Authenticate": 'Basic realm="Graphtide: the password is the token", Bearer'}
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`.", headers=headers)


def _token(request: Request, *, basic: bool = True) -> str | None:
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        # Header bytes arrive as Latin-1 whatever they were.
        return value.strip().encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    if basic and scheme.lower() == "basic":  # so that a browser can ask for it
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            return base64.b64decode(value).decode().partition(":")[2]
    return None


class _Endpoints:
    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.prefixes = {**_PREFIXES, **config.prefixes}
        self.client = WriterClient(config.state)
        self.pool = Pool(
            config.state,
            config.base,
            workers=config.workers,
            spares=config.spares,
            queue=config.queue,
            deadline=config.deadline,
            memory_bytes=config.memory_bytes,
            prefixes=self.prefixes,
        )
        # A query holds a thread while it waits for its turn or for its next bytes.
        self.threads = ThreadPoolExecutor(config.workers + config.queue + 8, thread_name_prefix="graphtide-query")
        self.writers = ThreadPoolExecutor(16, thread_name_prefix="graphtide-writer")

    @contextlib.asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        self.pool.start()
        try:
            yield
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self.pool.close)
            self.threads.shutdown(wait=False, cancel_futures=True)
            self.writers.shutdown(wait=False, cancel_futures=True)

    async def page(self, _: Request) -> Response:
        return HTMLResponse(
            resources.files("sparql.server").joinpath("page.html").read_text("utf-8"), 200, _PAGE_HEADERS
        )

    async def sparql(self, request: Request) -> ASGIApp:
        asked = await protocol.read(request, self.config.max_query_bytes)
        call = self.pool.call(
            asked.query,
            format=asked.formats,
            deadline=min(asked.seconds or self.config.deadline, self.config.deadline),
            default_graphs=asked.default_graphs,
            named_graphs=asked.named_graphs,
        )
        return AnswerResponse(call, self.threads, download=asked.download)

    async def health(self, _: Request) -> Response:
        return JSONResponse({"alive": True})

    async def ready(self, _: Request) -> Response:
        ready = self.pool.ready()
        writer = await self._in_thread(self.client.available)
        state = {"ready": ready, "epoch": read_head(self.config.state), "writer": writer, **self.pool.status()}
        return JSONResponse(state, 200 if ready else 503, {"Cache-Control": "no-store"})

    async def vocabulary(self, _: Request) -> Response:
        text = resources.files("ontology").joinpath("graphtide.ttl").read_bytes()
        return Response(text, media_type="text/turtle; charset=utf-8")

    async def about(self, _: Request) -> Response:
        """What the page shows besides answers."""
        return JSONResponse(
            {
                "base": self.config.base,
                "prefixes": self.prefixes,
                "examples": examples(self.config.queries),
                "deadline": self.config.deadline,
                "dagster": self.config.dagster_url,
            }
        )

    async def status(self, _: Request) -> Response:
        try:
            found = await self._in_thread(lambda: self.client.call("status", silence=10.0))
        except (WriterGone, WriterRefused) as wrong:
            found = {"writer": None, "sources": [], "commit": read_head(self.config.state), "notes": [str(wrong)]}
        return JSONResponse({**found, "query": self.pool.status()}, headers={"Cache-Control": "no-store"})

    async def violations(self, request: Request) -> Response:
        source, limit = request.query_params.get("source"), request.query_params.get("limit", "100")
        if not limit.isdigit() or not 0 < int(limit) <= 10_000:
            raise Problem(400, "bad-limit", f"limit={limit!r} is not a number from 1 to 10000.")
        try:
            found = await self._in_thread(
                lambda: self.client.call("violations", silence=10.0, source=source, limit=int(limit))
            )
        except WriterRefused as no:
            raise Problem(400, no.code, no.message) from no
        except WriterGone:
            found = await self._violations_from_graph(source, int(limit))
        return JSONResponse(found, headers={"Cache-Control": "no-store"})

    async def _violations_from_graph(self, source: str | None, limit: int) -> dict[str, Any]:
        """The quarantine as the graph has it: it is readable without a writer."""
        text = (resources.files("sparql.server").joinpath("violations.rq").read_text("utf-8")).replace(
            "$GRAPH", f"{self.config.base}system/quarantine"
        )
        try:
            body = await asyncio.get_running_loop().run_in_executor(
                self.threads, lambda: self.pool.run(text + f"\nLIMIT {limit}", format="json").read()
            )
        except (QueryFailed, NotAcceptable) as wrong:
            raise Problem(503, "busy", str(wrong)) from wrong
        rows = [{key: cell["value"] for key, cell in row.items()} for row in json.loads(body)["results"]["bindings"]]
        return {"violations": [row for row in rows if source in (None, row.get("source"))]}

    async def writer(self, request: Request) -> Response:
        given = _token(request, basic=False)
        if not self.config.token:
            raise Problem(403, "no-token", f"Writing over HTTP is off: this server was started without {TOKEN}.")
        if given is None:
            headers = {"WWW-Authenticate": "Bearer"}
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`.", headers=headers)
        if not self.config.opens(given):
            raise Problem(403, "wrong-token", f"That is not the token of this server. It is what {TOKEN} holds there.")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "unsupported-media-type", "A request to the writer is application/json.")
        try:
            ask = json.loads(await protocol.body(request, self.config.max_write_bytes))
        except ValueError as wrong:
            raise Problem(400, "not-json", f"The body is not JSON ({wrong}).") from wrong
        if not isinstance(ask, dict) or not isinstance(ask.get("do"), str):
            raise Problem(400, "not-a-request", 'The body is not a request: write {"do": "sync", ...}.')
        do = ask.pop("do")
        if do not in FORWARDED or {"on_event", "silence"} & set(ask):
            allowed = ", ".join(sorted(FORWARDED))
            raise Problem(403, "not-over-http", f"{do!r} is not done over HTTP. What is: {allowed}.")
        return await self._forward(do, ask)

    async def _forward(self, do: str, ask: dict[str, Any]) -> Response:
        loop = asyncio.get_running_loop()
        lines: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def put(line: dict[str, Any]) -> None:
            with contextlib.suppress(RuntimeError):  # the server stopped meanwhile
                loop.call_soon_threadsafe(lines.put_nowait, line)

        def work() -> None:
            try:
                put({"ok": self.client.call(do, lambda event: put({"event": event}), **ask)})
            except WriterRefused as no:
                put({"error": {"code": no.code, "message": no.message}})
            except WriterGone as gone:
                put({"error": {"code": "writer-gone", "message": str(gone)}})
            except Exception as wrong:
                put({"error": {"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"}})

        self.writers.submit(work)
        first = await lines.get()
        if "error" in first:
            code, message = str(first["error"]["code"]), str(first["error"]["message"])
            raise Problem(503 if code == "writer-gone" else 409, code, message)

        async def stream() -> AsyncIterator[bytes]:
            line = first
            while True:
                yield json.dumps(line, ensure_ascii=False).encode() + b"\n"
                if "event" not in line:
                    return
                line = await lines.get()

        return StreamingResponse(stream(), media_type="application/x-ndjson")

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.writers, work)


def examples(folder: Path | None) -> list[dict[str, str]]:
    """The example queries of a folder, by file name: the first comment line is the title."""
    found = []
    for path in sorted(folder.glob("*.rq")) if folder is not None and folder.is_dir() else ():
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = path.read_text("utf-8")
            title = re.match(r"\s*#\s*(.+)", text)
            found.append({"name": path.stem, "title": title.group(1).strip() if title else path.stem, "query": text})
    return found
