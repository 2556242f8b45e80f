"""Every route of the server is declared, here or beside its handler, and `/openapi.json` is those declarations."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparql.query.results import BY_NAME
from sparql.server import api
from sparql.server.api.operation import JSON, Body, Operation, Parameter, Reply
from sparql.server.api.schema import COUNT, FLAG, TEXT, Schema, many, maybe, obj, ref
from sparql.server.serving import Serving

PROBLEM_JSON = "application/problem+json"
FORM, QUERY, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
RDF = ("text/turtle", "application/n-triples", "application/n-quads", "application/trig", "application/ld+json",
       "application/rdf+xml", "text/n3")  # fmt: skip
HTML = "text/html"

PROBLEM = obj({
    "type": {"type": "string", "format": "uri", "description": "`urn:graphtide:problem:` and the code."},
    "title": TEXT, "status": {"type": "integer"}, "code": {**TEXT, "description": "For programs."},
    "detail": {**TEXT, "description": "For people: what, where and what next."},
}, more=True)  # fmt: skip
STATUS = obj({
    "dir": TEXT, "base": TEXT, "commit": COUNT, "commit_time": maybe("string"), "writer": {"type": ["object", "null"]},
    "sources": many({"type": "object"}), "notes": many(TEXT), "query": {"type": "object"},
}, optional=("dir", "base", "commit", "commit_time", "writer", "notes", "query"), more=True)  # fmt: skip
SCHEMAS: Mapping[str, Schema] = {
    "Problem": PROBLEM,
    "Health": obj({"alive": FLAG}, more=True),
    "Backup": obj({"name": TEXT, "commit": COUNT, "time": TEXT}, more=True),
    "Backups": obj({"backups": many(ref("Backup"))}, more=True),
    "Ready": obj({"ready": FLAG}, more=True),
    "Status": STATUS,
    "Violations": obj({"violations": many({"type": "object"})}, more=True),
    "Page": obj({"base": TEXT, "prefixes": {"type": "object", "additionalProperties": TEXT}}, more=True),
    **{name: schema for part in api.PARTS for name, schema in part.SCHEMAS.items()},
}  # fmt: skip

_GRAPH = {"type": "string", "maxLength": 8192}
_QUERY = {"type": "string", "maxLength": 100_000}
_RESULT_TYPES = tuple(dict.fromkeys(form.content_type.partition(";")[0] for form in BY_NAME.values()))
_DATASET = (
    Parameter("default-graph-uri", _GRAPH, "A graph of the default graph, instead of ours. May be repeated."),
    Parameter("named-graph-uri", _GRAPH, "A named graph. May be repeated."),
)
_HOW = (
    Parameter("format", TEXT, "The format by name, instead of `Accept`: `json`, `csv`, `turtle` and others."),
    Parameter("timeout", {"type": "number", "exclusiveMinimum": 0}, "Seconds; at most the server's own deadline."),
    Parameter("epoch", COUNT, "The commit to read at; 410 when it is gone, 409 when it has not come."),
    Parameter("download", TEXT, "The answer as a file of this name."),
)
_SELECT = "SELECT ?service ?label { ?service a gt:Service ; rdfs:label ?label } LIMIT 10"
_ASKED = Parameter("query", _QUERY, "The query. Without one the answer is the service description.", example=_SELECT)
_STORE = (
    Parameter("graph", _GRAPH, "The named graph.", example="https://e.example/graph"),
    Parameter("default", TEXT, "The default graph; without a value."),
)
_HERE = (Parameter("path", _GRAPH, "The rest of the graph's IRI.", "path", True, "notes"),)
_DOCUMENT = Body({"type": "string"}, "", (*RDF, "multipart/form-data"), required=False)
_ANSWERED = Reply("The solutions, yes or no, or triples; in which format `Accept` or `format` says. An answer that "
                  "fails after its first byte ends without the end of its body.",
                  None, (*_RESULT_TYPES, *RDF))  # fmt: skip
_WRITTEN = Reply("What became of it, with its commit.", None, (JSON,))
_CREATED = Reply("The graph was not there before.", None, ())
_NOTHING = Reply("Done; nothing to say.", None, ())

OTHER: tuple[Operation, ...] = (
    Operation("GET", "/sparql", "query", "A SPARQL query",
              {200: _ANSWERED, 304: _NOTHING}, "sparql",
              "SPARQL 1.1 and 1.2 Protocol. Also by HTTP `QUERY` with the query as the body. Every answer has its "
              "commit (`X-Graphtide-Epoch`) and an `ETag` that stands until a commit touches what the query reads.",
              (_ASKED, *_DATASET, *_HOW), refusals=(404, 406, 409, 410, 413, 422, 429, 502, 503, 504)),
    Operation("POST", "/sparql", "query or update", "A SPARQL query or update in the body",
              {200: _ANSWERED, 204: _NOTHING}, "sparql",
              "As a form (`query=` or `update=`), or the text itself. An update needs a token that writes.",
              (*_DATASET, *_HOW), Body(
                  {"type": "object", "properties": {"query": _QUERY, "update": _QUERY}}, "", (FORM,),
                  others={QUERY: _QUERY, UPDATE: _QUERY}, example={"query": _SELECT},
              ), refusals=(404, 406, 409, 410, 412, 413, 415, 422, 429, 501, 502, 503, 504, 507)),
    Operation("GET", "/store", "graph", "A graph",
              {200: Reply("The graph.", None, RDF), 304: _NOTHING}, "sparql", "SPARQL 1.1 Graph Store HTTP Protocol.",
              _STORE, refusals=(404, 406, 429, 503, 504)),
    Operation("GET", "/store/{path}", "named graph", "The graph whose IRI is this URL",
              {200: Reply("The graph.", None, RDF), 304: _NOTHING}, "sparql", "",
              _HERE, refusals=(404, 406, 429, 503, 504)),
    *(Operation(method, path, name, summary,
                {200: _WRITTEN, 201: _CREATED, 204: _NOTHING}, "sparql",
                "Conditional by `If-Match` and `If-None-Match`. Record graphs are read-only.", where, body,
                refusals=(404, 405, 406, 409, 411, 412, 413, 415, 422, 501, 502, 503, 504, 507), needs="write")
      for path, where in (("/store", _STORE), ("/store/{path}", _HERE))
      for method, name, summary, body in (
          ("PUT", "replace", "Replace a graph", _DOCUMENT), ("POST", "merge", "Add to a graph", _DOCUMENT),
          ("PATCH", "patch", "Change a graph by an update",
           Body({"type": "string"}, "", (UPDATE,), required=False)),
          ("DELETE", "drop", "Remove a graph", None),
      )),
    Operation("GET", "/ns", "vocabulary", "The vocabulary `gt:`",
              {200: Reply("The vocabulary.", None, (*RDF, HTML, JSON)), 304: _NOTHING}, "description", refusals=(406,)),
    Operation("GET", "/.well-known/void", "void", "What is in the graph, counted",
              {200: Reply("VoID, always as of the newest commit but a few.", None, (*RDF, HTML)), 304: _NOTHING,
               303: _NOTHING}, "description", refusals=(406, 503)),
    Operation("GET", "/void", "void page", "What is in the graph, counted, as a page",
              {200: Reply("VoID.", None, (*RDF, HTML)), 304: _NOTHING}, "description", "As `/.well-known/void`.",
              refusals=(406, 503)),
    Operation("GET", "/.well-known/sparql-examples", "examples", "The stored example queries, and how each went",
              {200: Reply("The examples.", None, (*RDF, JSON)), 303: _NOTHING, 304: _NOTHING}, "description",
              refusals=(406,)),
    Operation("GET", "/resource", "resource", "What the graph says of an IRI, as a page or RDF",
              {200: Reply("The thing.", None, (*RDF, HTML)), 304: _NOTHING,
               404: Reply("The graph says nothing of it.", None, (PROBLEM_JSON, HTML))}, "description",
              "An IRI below the base is also answered at its own path. `/api/entity` is the same for apps.",
              (Parameter("iri", {"type": "string", "minLength": 1}, "The thing.", required=True,
                         example="https://webshop.example/service/checkout"),),
              refusals=(406, 414, 503, 504)),
    Operation("GET", "/id/{rest}", "id", "Where the thing of that name is",
              {303: Reply("There.", None, (), headers={"Location": "Its own path."})}, "description", "",
              (Parameter("rest", TEXT, "Its IRI after the base.", "path", True, "service/checkout"),)),
    Operation("GET", "/health", "health", "Whether the server lives", {200: Reply("It does.", ref("Health"))},
              "operations", needs="none"),
    Operation("GET", "/ready", "ready", "Whether the server can answer",
              {200: Reply("It can.", ref("Ready")), 503: Reply("It cannot, yet.", ref("Ready"))}, "operations",
              needs="none"),
    Operation("GET", "/metrics", "metrics", "Counts for Prometheus",
              {200: Reply("The metrics.", None, ("text/plain", "application/openmetrics-text"))}, "operations"),
    Operation("GET", "/api/backup", "backups", "The backups there are",
              {200: Reply("The newest first.", ref("Backups"))}, "operations", refusals=(404,), needs="admin"),
    Operation("POST", "/api/backup", "backup", "Make a backup",
              {201: Reply("It is made, and whole, and holds this commit.", ref("Backup"))}, "operations",
              "In the folder `backups` of the settings, without stopping writes for longer than a checkpoint.", (),
              Body(obj({"name": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"}}, optional=("name",)),
                   "", required=False, example={"name": "before-the-move"}),
              refusals=(404, 409, 413, 503), needs="admin"),
    Operation("GET", "/api/status", "status", "Where everything stands",
              {200: Reply("The status, as `graphtide status --json`.", ref("Status"))}, "operations"),
    Operation("GET", "/api/violations", "violations", "What was refused or reported",
              {200: Reply("Findings, refusals first.", ref("Violations"))}, "sources", "",
              (Parameter("source", TEXT, "Only of this source.", example="services"),
               Parameter("limit", {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 100}, "How many.",
                         example=100)), refusals=(503,)),
    Operation("POST", "/writer", "writer", "A request to the writer itself",
              {200: Reply("Events and then the answer, a line each.", None, ("application/x-ndjson",))}, "operations",
              "What the command line asks the writer, for another machine's. Most of it is under /api too.", (),
              Body({"type": "object", "properties": {"do": TEXT}, "required": ["do"]}, "", example={"do": "status"}),
              refusals=(409, 413, 415, 503), needs="admin"),
    Operation("GET", "/", "page", "The page", {200: Reply("The web client.", None, (HTML,)), 304: _NOTHING},
              "description"),
    Operation("GET", "/api/page", "about", "What the page shows besides answers",
              {200: Reply("Base, prefixes and example queries.", ref("Page"))}, "description"),
    Operation("GET", "/openapi.json", "openapi", "This document",
              {200: Reply("OpenAPI 3.1.", {"type": "object"}), 304: _NOTHING}, "description"),
)  # fmt: skip

OPERATIONS: tuple[Operation, ...] = (*OTHER, *(one for part in api.PARTS for one in part.OPERATIONS))
TAGS = {
    "sparql": "Queries, updates and graphs, by the standard.",
    "graph": "Things, searches and neighbourhoods, for apps.",
    "sources": "What the graph is made of, and reading it again.",
    "description": "What this server is and holds.",
    "operations": "Running it.",
}
_SAID = {
    400: "What was sent cannot be meant.", 401: "A token is needed.", 403: "The token may not, or nobody may.",
    404: "There is none.", 405: "Not this method; `Allow` says which.", 406: "None of the accepted formats.",
    409: "Not as things are.", 410: "That epoch is gone.", 411: "A length is needed.", 412: "It is another by now.",
    414: "Longer than an IRI may be.",
    413: "Longer than may be.", 415: "Not that media type.", 421: "Not a name of this server.",
    422: "Understood, and it cannot be done.", 429: "Too much at once; `Retry-After` says when.",
    431: "The head of the request is longer than may be.",
    501: "The writer is older than this server.", 502: "Another server did not answer.",
    503: "Not now: the writer, the index or a worker is needed and not there.", 504: "The deadline came first.",
    507: "The disk is full.",
}  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/openapi.json`."""
    return [Route("/openapi.json", _Documenting(serving).openapi, methods=["GET", "HEAD"])]


class _Documenting:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def openapi(self, request: Request) -> Response:
        data, tag = _written(str(request.scope.get("root_path", "")))
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in [each.strip() for each in request.headers.get("if-none-match", "").split(",")]:
            return Response(None, 304, headers)
        return Response(data, 200, headers, media_type=JSON)


@lru_cache(maxsize=16)
def _written(root_path: str) -> tuple[bytes, str]:
    data = json.dumps(document(root_path), ensure_ascii=False, separators=(",", ":")).encode()
    return data, f'"{hashlib.sha256(data).hexdigest()[:24]}"'


def document(root_path: str = "") -> dict[str, Any]:
    """The OpenAPI 3.1 document of a server that is reached below `root_path`."""
    paths: dict[str, dict[str, Any]] = {}
    for one in OPERATIONS:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Graphtide", "version": metadata.version("graphtide"),
            "description": "A knowledge graph that keeps up with the things it describes. Every refusal is an RFC 9457 "
            "problem; every answer from the graph says its commit in `X-Graphtide-Epoch`; what has pages has `next`. "
            "A parameter that is not declared is refused under /api.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": root_path or "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {name: _exampled(name, schema) for name, schema in sorted(SCHEMAS.items())},
            "responses": {"Problem": {"description": "Any other refusal.", "content": _problem()}},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A token of `graphtide token add`."},
                "basic": {"type": "http", "scheme": "basic", "description": "The password is the token."},
            },
        },
    }  # fmt: skip


def _operation(one: Operation) -> dict[str, Any]:
    refused = {*(() if one.needs == "none" else (401, 403)), 421, 431, *one.refusals}
    if one.parameters or one.body:
        refused |= {400, 413} if one.body else {400}
    name = re.sub(r"\W+", "_", f"{one.method.lower()}{one.path}").strip("_")
    found: dict[str, Any] = {
        "operationId": name,
        "summary": one.summary,
        "tags": [one.tag],
        "responses": {
            **{str(status): _reply(one, status, reply) for status, reply in one.replies.items()},
            **{str(status): {"description": _SAID[status], "content": _problem()} for status in sorted(refused)
               if status not in one.replies},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }  # fmt: skip
    if one.description:
        found["description"] = one.description
    if one.parameters:
        found["parameters"] = [_parameter(each) for each in one.parameters]
    if one.body is not None:
        found["requestBody"] = _body(one.body)
    if one.needs in ("write", "admin"):
        found["security"] = [{"bearer": []}]
        found["x-graphtide-needs"] = one.needs
    elif one.needs == "read":
        found["security"] = [{}, {"bearer": []}, {"basic": []}]
    else:
        found["security"] = []
    return found


def _parameter(one: Parameter) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": one.name, "in": one.where, "description": one.description, "schema": dict(one.schema),
        "required": one.required or one.where == "path",
    }  # fmt: skip
    if one.example is not None:
        found["example"] = one.example
    return found


def _body(one: Body) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for kind in one.media_types:
        content[kind] = {"schema": ref(one.name) if one.name else dict(one.schema)}
        if one.example is not None:
            content[kind]["example"] = one.example
    for kind, schema in one.others.items():
        content[kind] = {"schema": dict(schema)}
    return {"required": one.required, "content": content}


def _reply(one: Operation, status: int, reply: Reply) -> dict[str, Any]:
    found: dict[str, Any] = {"description": reply.description}
    content: dict[str, Any] = {}
    for kind in reply.media_types:
        content[kind] = {"schema": dict(reply.schema)} if reply.schema is not None and kind == JSON else {}
    if content:
        found["content"] = content
    headers = {name: {"description": text, "schema": {"type": "string"}} for name, text in reply.headers.items()}
    if one.path.startswith("/api/") and one.tag in ("graph", "sources") and one not in OTHER:
        headers["X-Graphtide-Epoch"] = {"description": "The commit of the answer.", "schema": {"type": "string"}}
    if headers:
        found["headers"] = headers
    return found


def _problem() -> dict[str, Any]:
    return {PROBLEM_JSON: {"schema": ref("Problem")}}


def _exampled(name: str, schema: Schema) -> dict[str, Any]:
    return {**schema, "examples": [EXAMPLES[name]]} if name in EXAMPLES else dict(schema)


_NODE = {"iri": "https://webshop.example/service/checkout", "label": "Checkout"}
_CLASS = {"iri": "https://w3id.org/graphtide/ns#Service", "label": "Service"}
_USES = {"iri": "https://w3id.org/graphtide/ns#dependsOn", "label": "depends on"}
EXAMPLES: Mapping[str, Mapping[str, Any]] = {
    "Problem": {"type": "urn:graphtide:problem:unknown-entity", "title": "Not Found", "status": 404,
                "code": "unknown-entity", "detail": "The graph says nothing of 'https://webshop.example/x'."},
    "Node": _NODE,
    "Entity": {
        **_NODE, "description": "Takes the money", "types": [_CLASS],
        "outgoing": [{"property": _USES, "count": 1, "next": None, "values": [
            {"kind": "iri", "value": "https://webshop.example/service/cart", "label": "Cart"}]}],
        "incoming": [], "provenance": [{
            "source": "services", "key": "checkout", "record": "https://webshop.example/record/services/checkout",
            "locators": ["services.csv:2"], "hash": "b9e12e934bcd1f81fecbae82c249b998", "commit": 1}],
        "provenance_more": False, "epoch": 7, "commit_time": "2026-01-02T03:04:05.678Z", "next": None,
    },
    "Hits": {
        "hits": [{**_NODE, "types": [_CLASS], "importance": 12, "vocabulary": False, "match": {
            "property": {"iri": "http://www.w3.org/2000/01/rdf-schema#label", "label": "label"}, "value": "Checkout",
            "language": "", "kind": "prefix", "parts": [{"text": "Checkout", "hit": True}]}}],
        "total": 1, "total_is": "exact", "behind": 0, "epoch": 7, "next": None,
    },
    "Job": {
        "id": "0f9a1b2c3d4e5f60", "kind": "sync", "state": "running", "phase": "read", "sources": ["services"],
        "allow_deletes": False, "created": "2026-01-02T03:04:05.678Z", "started": "2026-01-02T03:04:05.700Z",
        "ended": None, "counts": {"records": 250, "statements": 0, "by_source": {"services": 250}}, "commits": [],
        "reports": [], "error": None, "last_event": 3,
    },
    "NewSource": {"name": "teams", "path": "teams.csv", "key": "id"},
    "SyncRequest": {"sources": ["services"]},
    "NewToken": {"name": "ci", "read": True, "write": ["https://webshop.example/ci"]},
}  # fmt: skip


def declared() -> Sequence[tuple[str, str]]:
    """(method, path) of everything the document has."""
    return [(one.method, one.path) for one in OPERATIONS]
