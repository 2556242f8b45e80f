"""A graph is a resource: read, put, added to, changed and deleted by its own URL, or by `?graph=` and `?default`.

The URL of `{base}store/x` is `/store/x`. What a token may write there is what it may write by SPARQL.
"""

from __future__ import annotations

import base64
import re
import time
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from sparql.log import read_head
from sparql.query import results
from sparql.query.pool import QueryFailed
from sparql.server import negotiate, protocol
from sparql.server.answer import etag
from sparql.server.gate import require_read
from sparql.server.patch import as_update
from sparql.server.problem import Problem, of_query
from sparql.server.protocol import Asked
from sparql.server.query import SparqlEndpoint
from sparql.server.serving import Serving
from sparql.server.updating import ask, done, takes_json, writing
from sparql.tokens import Token

PATH = "/store"
METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
TURTLE = "text/turtle"
READ = (
    TURTLE, "application/n-triples", "application/rdf+xml", "application/ld+json", "application/trig",
    "application/n-quads", "text/n3", "application/x-turtle", "application/x-trig", "text/x-nquads", "text/plain",
    "application/xml", "text/xml",
)  # fmt: skip
PATCHES = (protocol.UPDATE, "application/rdf-patch")
FORM = "multipart/form-data"
EXTENSIONS = {
    "ttl": TURTLE, "nt": "application/n-triples", "rdf": "application/rdf+xml", "owl": "application/rdf+xml",
    "xml": "application/rdf+xml", "jsonld": "application/ld+json", "trig": "application/trig",
    "nq": "application/n-quads", "n3": "text/n3",
}  # fmt: skip
OFFERS = {
    "Allow": ", ".join(METHODS),
    "Accept-Post": ", ".join((*READ[:6], FORM)),
    "Accept-Put": ", ".join((*READ[:6], FORM)),
    "Accept-Patch": ", ".join(PATCHES),
}  # fmt: skip
MOST_FILES = 100
KNOWN = 10_000
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*\Z")
_TAG = re.compile(r'(W/)?"([^"]*)"')


def routes(serving: Serving) -> list[Route]:
    """`/store` and every path below it."""
    endpoint = GraphStore(serving)
    return [Route(PATH, endpoint), Route(PATH + "/{path:path}", endpoint)]


@dataclass(frozen=True, slots=True)
class Target:
    """The graph a request is about: None is the default graph; `new` when the store is to find a name for it."""

    graph: str | None
    new: bool = False

    @property
    def shown(self) -> str:
        return "the default graph" if self.graph is None else f"<{self.graph}>"

    @property
    def query(self) -> str:
        inner = "{ ?s ?p ?o }"
        where = inner if self.graph is None else f"{{ GRAPH <{self.graph}> {inner} }}"
        return f"CONSTRUCT {inner} WHERE {where}"


class GraphStore:
    """The Graph Store HTTP Protocol."""

    def __init__(self, serving: Serving) -> None:
        self.serving, self.config = serving, serving.config
        self._there: OrderedDict[str, tuple[int, bool]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            method = request.method
            if method not in METHODS:
                raise Problem(405, "method-not-allowed", f"{method} is nothing to do with a graph.", headers=OFFERS)
            if method == "OPTIONS":
                await Response(status_code=204, headers=OFFERS)(scope, receive, send)
                return
            target = self._target(request)
            if method in ("GET", "HEAD"):
                require_read(request, self.config)
                await self._get(target, request, scope, receive, send)
                return
            response = await self._write(target, request, writing(request))
            await response(scope, receive, send)
        except Problem as wrong:
            await wrong.response()(scope, receive, send)

    @property
    def _sparql(self) -> SparqlEndpoint:
        found: SparqlEndpoint = self.serving.sparql
        return found

    # -- which graph

    def _target(self, request: Request) -> Target:
        raw: bytes = request.scope["query_string"]
        if len(raw) > protocol.LONGEST_URL:
            raise Problem(414, "url-too-long", f"The URL is longer than {protocol.LONGEST_URL:,} bytes.")
        given = [(key, value) for key, value in protocol.pairs(raw, "the URL") if key in ("graph", "default")]
        path = self._path(request)
        if path:
            if given:
                raise Problem(
                    400, "two-graphs", "The path names a graph, and so does the query string. Use one of them."
                )
            return Target(_checked(f"{self.config.base}store/{path}"))
        if not given:
            if request.method == "POST":
                return Target(f"{self.config.base}store/{uuid.uuid4().hex}", new=True)
            raise Problem(
                400, "no-graph", f"Say which graph: {PATH}?graph=IRI, {PATH}?default, or {PATH}/PATH for one of ours."
            )
        if len(given) > 1:
            raise Problem(400, "two-graphs", "The request names more than one graph. Send one `graph=`, or `default`.")
        key, value = given[0]
        return Target(None) if key == "default" else Target(_checked(value))

    def _path(self, request: Request) -> str:
        """What is below `/store/`, with escapes as they were written."""
        raw: bytes = request.scope.get("raw_path") or quote(request.scope["path"]).encode()
        text = raw.partition(b"?")[0].decode("latin-1")
        head, found, path = text.partition(f"{PATH}/")
        return path if found and unquote(head) in ("", request.scope.get("root_path", "")) else ""

    # -- reading

    async def _get(self, target: Target, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        values = dict(protocol.pairs(request.scope["query_string"], "the URL"))
        said = protocol.head(scope)
        try:
            wanted = values.get("format")
            found = protocol.named(wanted) if wanted else protocol.negotiated(said.accept)
            codings = negotiate.codings(said.coding)
        except results.NotAcceptable as no:
            raise Problem(406, "not-acceptable", str(no), available=list(results.media_types("triples"))) from no
        except negotiate.NoCoding as no:
            raise Problem(406, "no-coding", str(no), available=[*negotiate.CODINGS, negotiate.IDENTITY]) from no
        if "triples" not in found:
            available = list(results.media_types("triples"))
            detail = f"A graph is not written as {said.accept or wanted!r}. Ask for one of {', '.join(available)}."
            raise Problem(406, "not-acceptable", detail, available=available)
        if not await self._exists(target):
            raise Problem(404, "no-such-graph", f"There is no graph {target.shown}.")
        asked = Asked(target.query, found, codings=codings, none_match=said.none_match, download=values.get("download"))
        await self._sparql._query(asked, scope, receive, send)

    async def _exists(self, target: Target) -> bool:
        """Whether there is such a graph at the newest commit, empty or not."""
        if target.graph is None:
            return True
        fresh, head = self._sparql.fresh, read_head(self.config.state)
        last = fresh.touched(None, default=(), named=True, graphs=(target.graph,))
        known = self._there.get(target.graph)
        if known is not None and fresh.at >= head and known[0] == last:
            return known[1]
        try:
            call = self.serving.pool.call(f"ASK {{ GRAPH <{target.graph}> {{}} }}", format="json", admitted=True)
            answer = await call.begin()
            try:
                body = b""
                while (chunk := await answer.chunk_async()) is not None:
                    body += chunk
            finally:
                answer.close()
        except QueryFailed as wrong:
            raise of_query(wrong) from wrong
        found = b"true" in body
        if fresh.at >= answer.epoch >= last:
            self._there[target.graph] = (last, found)
            self._there.move_to_end(target.graph)
            if len(self._there) > KNOWN:
                self._there.popitem(last=False)
        return found

    # -- writing

    async def _write(self, target: Target, request: Request, token: Token) -> Response:
        method = request.method
        must = await self._must(target, request)
        if method == "PATCH":
            return await self._patch(target, request, token, must)
        documents: list[dict[str, str]] = []
        if method != "DELETE":
            documents = await self._documents(request)
        found = await ask(
            self.serving, "graph", token, method=method, graph=target.graph, documents=documents,
            against=target.graph or self.config.base, must=must,
        )  # fmt: skip
        told = takes_json(request, named=method == "PUT")
        created = method != "DELETE" and found["created"]
        return done(found, told=told, created=created, headers=self._names(target, request))

    async def _patch(self, target: Target, request: Request, token: Token, must: dict[str, Any] | None) -> Response:
        kind = _kind(request)
        if kind not in PATCHES:
            raise Problem(
                415, "unsupported-media-type", f"A PATCH is {' or '.join(PATCHES)}, not {kind or 'without a type'!r}.",
                headers={"Accept-Patch": ", ".join(PATCHES)},
            )  # fmt: skip
        data = await protocol.body(request, self.config.max_update_bytes)
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as wrong:
            raise Problem(400, "not-utf-8", f"The patch is not UTF-8 (byte {wrong.start}).") from wrong
        if not await self._exists(target):
            raise Problem(404, "no-such-graph", f"There is no graph {target.shown}. Make it with PUT.")
        if kind != protocol.UPDATE:
            patch = text
            text = await self.serving.in_thread(lambda: as_update(patch))
        found = await ask(self.serving, "update", token, text=text, within=target.graph or "", must=must)
        return done(found, told=takes_json(request, named=False))

    async def _documents(self, request: Request) -> list[dict[str, str]]:
        """The documents of a body, one or those of a form. Raises Problem 400, 413 and 415."""
        kind, most = _kind(request), self.config.max_write_bytes
        said = protocol.head(request.scope)
        if kind not in (*READ, FORM) and (kind or said.length not in (None, 0) or said.chunked):
            shown = repr(kind) if kind else "a body without a Content-Type"
            raise Problem(
                415, "unsupported-media-type",
                f"A graph is not read from {shown}. Send one of {', '.join(READ[:6])}.",
                headers={"Accept-Post": OFFERS["Accept-Post"], "Accept-Put": OFFERS["Accept-Put"]},
            )  # fmt: skip
        if kind != FORM and said.charset not in ("utf-8", "utf8", "us-ascii"):
            raise Problem(415, "unsupported-charset", f"The body is in {said.charset!r}. Send UTF-8.")
        data = await protocol.body(request, most)
        if kind != FORM:
            return [_document(kind or TURTLE, data)]
        return await self._form(request, data)

    async def _form(self, request: Request, data: bytes) -> list[dict[str, str]]:
        sent = False

        async def receive() -> Message:
            nonlocal sent
            if sent:
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": data, "more_body": False}

        headers = [(name, value) for name, value in request.scope["headers"] if name != b"content-encoding"]
        replay = Request({**request.scope, "headers": headers}, receive)
        try:
            form = await replay.form(max_files=MOST_FILES, max_fields=MOST_FILES)
        except (MultiPartException, ValueError, KeyError) as wrong:
            detail = getattr(wrong, "message", "") or getattr(wrong, "detail", "") or str(wrong)
            raise Problem(400, "bad-form", f"The form cannot be read: {detail}") from wrong
        except Exception as wrong:
            if getattr(wrong, "status_code", None) != 400:
                raise
            raise Problem(400, "bad-form", f"The form cannot be read: {getattr(wrong, 'detail', wrong)}") from wrong
        out = []
        try:
            for name, part in form.multi_items():
                if not isinstance(part, UploadFile):
                    raise Problem(400, "bad-form", f"The field {name!r} is no file. Send each document as a file.")
                kind = (part.content_type or "").partition(";")[0].strip().lower()
                if kind not in READ:
                    extension = (part.filename or "").rpartition(".")[2].lower()
                    if kind not in ("", "application/octet-stream") or extension not in EXTENSIONS:
                        raise Problem(
                            415, "unsupported-media-type", f"The file {part.filename!r} is {kind or 'of no type'!r}."
                        )
                    kind = EXTENSIONS[extension]
                out.append(_document(kind, await part.read()))
        finally:
            await form.close()
        if not out:
            raise Problem(400, "bad-form", "There is no file in the form.")
        return out

    def _names(self, target: Target, request: Request) -> dict[str, str]:
        """What a graph that got its name here is called, and where it is on this server, behind a proxy too."""
        if not target.new or target.graph is None:
            return {}
        path = target.graph[len(f"{self.config.base}store") :]
        root = request.scope.get("root_path", "")
        return {"Location": quote(target.graph, safe=_SAFE), "Content-Location": f"{root}{PATH}{path}"}

    # -- conditions

    async def _must(self, target: Target, request: Request) -> dict[str, Any] | None:
        """What the writer has to find. Raises Problem 412 where it is known already."""
        match, none_match = (", ".join(request.headers.getlist(name)) for name in ("if-match", "if-none-match"))
        if not match and not none_match:
            return None
        must: dict[str, Any] = {"graph": target.graph}
        if none_match.strip() == "*":
            must["exists"] = False
        elif none_match:
            tags = {tag for _, tag in _TAG.findall(none_match)}
            since, current = await self._tags(target)
            if current & tags:
                raise Problem(412, "precondition-failed", f"{target.shown} is still what If-None-Match names.")
            must["untouched_since"] = since
        if match.strip() == "*":
            must["exists"] = True
        elif match:
            strong = {tag for weak, tag in _TAG.findall(match) if not weak}
            since, current = await self._tags(target)
            if not current & strong:
                raise Problem(412, "precondition-failed", f"{target.shown} is not what If-Match names. Read it again.")
            must["untouched_since"] = since
        return must

    async def _tags(self, target: Target) -> tuple[int, set[str]]:
        """(the commit they were found at, every entity tag that the graph has now, in any form)."""
        endpoint, head = self._sparql, read_head(self.config.state)
        until = time.monotonic() + 5.0
        while endpoint.fresh.at < head and time.monotonic() < until:
            await endpoint.following.reach(head, 0.5)
        at = endpoint.fresh.at
        if not await self._exists(target):
            return at, set()
        asked = Asked(target.query, {})
        validator = endpoint._reading(asked).touched(endpoint.fresh, (), ())
        tags = set()
        for form in results.FORMATS:
            if form.writes("triples"):
                tag = f"{validator:x}-{endpoint._digest(asked)}-{form.name}"
                for coding in (*negotiate.CODINGS, negotiate.IDENTITY):
                    tags.add(etag(tag, coding).decode().strip('"'))
        return at, tags


_SAFE = "/?#[]-._~!$&'()*+,;=:@%"


def _document(kind: str, data: bytes) -> dict[str, str]:
    return {"type": kind, "data": base64.b64encode(data).decode()}


def _kind(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def _checked(iri: str) -> str:
    if not _ABSOLUTE.match(iri) or not iri.isprintable():
        raise Problem(400, "bad-graph", f"{iri[:200]!r} is not an absolute IRI.")
    return iri
