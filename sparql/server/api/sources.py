"""The sources are what `graphtide.toml` says, with where each stands; whoever changes one changes that file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from pyoxigraph import QueryResultsFormat, parse_query_results
from starlette.responses import Response
from starlette.routing import Route

from sparql import journal
from sparql.client import WriterGone, WriterRefused
from sparql.names import Names
from sparql.query.pool import NotAcceptable, QueryFailed
from sparql.server.api.operation import (
    CURSOR,
    Body,
    Given,
    Operation,
    Parameter,
    Reply,
    answer,
    head,
    limit,
    next_link,
    unpack,
)
from sparql.server.api.operation import routes as made
from sparql.server.api.schema import COUNT, FLAG, TEXT, many, maybe, obj, ref
from sparql.server.problem import Problem, of_query
from sparql.server.serving import Serving

SETTINGS = "graphtide.toml"
TAG = "X-Graphtide-Settings"
"""The header that says which version of the settings an answer is of: what `If-Match` compares."""

# How the writer's no is said; what is not here is the settings' own.
STATUS = {
    "Changed": 412, "Fused": 409, "Taken": 409, "UnknownSource": 404, "CodeRefused": 403, "EditRefused": 409,
    "CannotEdit": 409, "EngineError": 409, "StoreError": 503, "DiskFull": 507, "unknown": 501,
}  # fmt: skip
CODES = {
    "Changed": "settings-changed", "Fused": "fuse", "Taken": "source-exists", "UnknownSource": "unknown-source",
    "CodeRefused": "not-for-clients", "EditRefused": "cannot-edit", "CannotEdit": "cannot-edit",
}  # fmt: skip

SOURCE = obj({
    "name": TEXT, "kind": TEXT, "paths": many(TEXT), "mapping": TEXT, "key": many(TEXT), "format": maybe("string"),
    "every": maybe("number"), "configured": FLAG, "records": COUNT, "held": COUNT, "rejected": COUNT, "scopes": COUNT,
    "last_seen": maybe("string"), "lag_seconds": maybe("number"), "next_poll": maybe("string"), "mode": TEXT,
    "state": TEXT, "message": TEXT,
}, more=True)  # fmt: skip
SOURCES = obj({
    "sources": many(ref("Source")), "total": COUNT, "settings": maybe("string"), "writer": FLAG, "epoch": COUNT,
    "commit_time": TEXT, "next": maybe("string"),
}, optional=("commit_time",))  # fmt: skip
ONE = obj({"source": ref("Source"), "settings": maybe("string"), "writer": FLAG, "epoch": COUNT, "commit_time": TEXT,
           "next": maybe("string")}, optional=("commit_time",))  # fmt: skip
NAME_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 200}
NEW = obj({
    "name": {**NAME_SCHEMA, "description": "Letters, digits, '_', '-' and '.'."},
    "path": TEXT, "paths": many(TEXT), "format": TEXT, "encoding": TEXT, "delimiter": TEXT, "sheet": TEXT,
    "record_path": TEXT, "key": {"type": ["string", "array"], "items": TEXT}, "every": {"type": ["string", "number"]},
    "map": {"type": ["object", "array"]}, "python": TEXT, "source": TEXT, "options": {"type": "object"},
}, optional=("path", "paths", "format", "encoding", "delimiter", "sheet", "record_path", "key", "every", "map",
             "python", "source", "options"), more=True)  # fmt: skip
CHANGE = obj({
    "name": TEXT, "dry_run": FLAG, "settings": TEXT, "toml": TEXT, "notes": many(TEXT), "records": COUNT,
    "forgotten": {"type": ["object", "null"]}, "changed": many(TEXT), "added": many(TEXT), "orphaned": many(TEXT),
    "epoch": COUNT, "next": maybe("string"),
}, optional=("toml", "notes", "records", "forgotten", "changed", "added", "orphaned"))  # fmt: skip
SCHEMAS = {"Source": SOURCE, "Sources": SOURCES, "OneSource": ONE, "NewSource": NEW, "SourceChange": CHANGE}

NAME = Parameter("name", NAME_SCHEMA, "The source.", "path", True, "services")
IF_MATCH = Parameter(
    "if-match", {"type": "string", "maxLength": 200},
    f"Only when the settings are these: the `{TAG}` of an answer, in quotes. Else 412.", "header", example='"none"',
)  # fmt: skip
DRY = Parameter("dry_run", {"type": "boolean", "default": False}, "Say what would happen, and change nothing.")

OPERATIONS = (
    Operation(
        "GET", "/api/sources", "sources", "The sources and where each stands",
        {200: Reply("A page of sources, in the settings' order, orphans last.", ref("Sources"),
                    headers={TAG: "Which version of the settings this is."})}, "sources",
        "Without a writer (`writer` is false) the rows are what the graph and the file say, without lag and polls.",
        (limit(100), CURSOR), refusals=(503,),
    ),
    Operation(
        "POST", "/api/sources", "add", "Add a source",
        {201: Reply("The source is in graphtide.toml and in force.", ref("SourceChange"),
                    headers={"Location": "Where the source is.", TAG: "The settings as they are now."}),
         200: Reply("A dry run: what would be written.", ref("SourceChange"))}, "sources",
        "The body is the source's `name` and the keys of its `[sources.NAME]` table (docs/settings.md), checked as "
        "they are in the file: an error names the key. Paths stay inside the project's folder, and what runs code "
        "(`source`, `python`, `options`) is refused unless the settings say `api_python = true`. The file "
        "keeps its comments and order.",
        (DRY, IF_MATCH), Body(NEW, "NewSource", example={"name": "teams", "path": "teams.csv", "key": "id"}),
        refusals=(403, 409, 412, 415, 422, 501, 503, 507), needs="admin",
    ),
    Operation(
        "GET", "/api/sources/{name}", "source", "One source",
        {200: Reply("The source.", ref("OneSource"), headers={TAG: "Which version of the settings this is."})},
        "sources", "", (NAME,), refusals=(404, 503),
    ),
    Operation(
        "DELETE", "/api/sources/{name}", "remove", "Remove a source",
        {200: Reply("The source is not in graphtide.toml any more.", ref("SourceChange"),
                    headers={TAG: "The settings as they are now."})}, "sources",
        "Its facts stay, orphaned, unless `forget=true`. A source with more records than `fuse_count` goes only with "
        "`force=true`.",
        (NAME, Parameter("force", {"type": "boolean", "default": False}, "However many records it has."),
         Parameter("forget", {"type": "boolean", "default": False}, "Its facts go too."), DRY, IF_MATCH),
        refusals=(403, 404, 409, 412, 422, 501, 503, 507), needs="admin",
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/sources`."""
    return made(serving, OPERATIONS, {"sources": listed, "source": one, "add": add, "remove": remove})


async def listed(given: Given) -> Response:
    """A page of sources."""
    found = await _sources(given)
    place, size = unpack(given, str), given.get("limit", 100)
    names = [row["name"] for row in found["sources"]]
    start = names.index(place[0]) + 1 if place and place[0] in names else 0
    page = found["sources"][start : start + size]
    more = next_link(given, [page[-1]["name"]]) if page and start + size < len(names) else None
    return _answer(given, {"sources": page, "total": len(names)}, found, next=more)


async def one(given: Given) -> Response:
    """The source, 404 when there is none."""
    found = await _sources(given)
    row = next((row for row in found["sources"] if row["name"] == given.values["name"]), None)
    if row is None:
        raise Problem(404, "unknown-source", f"There is no source {given.values['name'][:200]!r}.")
    return _answer(given, {"source": row}, found)


async def add(given: Given) -> Response:
    """The source is in the settings."""
    table = {name: value for name, value in given.body.items() if name != "name"}
    dry = given.get("dry_run", False)
    found = await _change(given, "source-add", name=given.body["name"], table=table, dry_run=dry)
    place = given.request.scope.get("root_path", "") + f"/api/sources/{quote(given.body['name'], safe='')}"
    headers = {TAG: str(found["settings"]), **({} if dry else {"Location": place})}
    return answer(given, found, epoch=head(given), status=200 if dry else 201, headers=headers)


async def remove(given: Given) -> Response:
    """The source is not in the settings."""
    found = await _change(
        given, "source-remove", name=given.values["name"], force=given.get("force", False),
        forget=given.get("forget", False), dry_run=given.get("dry_run", False),
    )  # fmt: skip
    return answer(given, found, epoch=head(given), headers={TAG: str(found["settings"])})


async def _change(given: Given, do: str, **args: Any) -> dict[str, Any]:
    match = given.get("if-match")
    if match is not None and match.strip() != "*":
        args["if_match"] = re.sub(r'\AW/|"', "", match.strip())
    try:
        return await given.serving.in_thread(lambda: given.serving.client.call(do, silence=120.0, **args))
    except WriterGone as gone:
        raise Problem(503, "writer-gone", str(gone), headers={"Retry-After": "2"}) from gone
    except WriterRefused as no:
        status = STATUS.get(no.code, 422)
        raise Problem(status, CODES.get(no.code, "invalid-settings" if status == 422 else no.code), no.message) from no


async def _sources(given: Given) -> dict[str, Any]:
    """The writer's word when one runs, else what graph and file say."""
    serving = given.serving
    try:
        return {**await serving.in_thread(lambda: serving.client.call("sources", silence=10.0)), "writer": True}
    except (WriterGone, WriterRefused):
        return await serving.in_thread(lambda: _read(serving))


def _answer(given: Given, body: Mapping[str, Any], found: Mapping[str, Any], *, next: str | None = None) -> Response:
    said = {**body, "settings": found["settings"], "writer": found["writer"]}
    headers = {TAG: str(found["settings"])} if found["settings"] else {}
    return answer(given, said, epoch=found["commit"], time=found.get("commit_time") or "", next=next, headers=headers)


class _Graph:
    """The graph as the journal's questions want it, each asked of a worker."""

    def __init__(self, serving: Serving) -> None:
        self.pool, self.epoch, self.time = serving.pool, 0, ""

    def query(self, text: str, /) -> Any:
        with self.pool.run(text, format="json") as found:
            data = found.read()
        self.epoch, self.time = found.epoch, found.commit_time or ""
        return parse_query_results(data, QueryResultsFormat.JSON)


def _read(serving: Serving) -> dict[str, Any]:
    graph = _Graph(serving)
    try:
        stored = {row["name"]: row for row in journal.source_rows(graph, Names(serving.config.base))}
    except (QueryFailed, NotAcceptable) as wrong:
        raise of_query(wrong) from wrong
    said = _settings(serving)
    rows = []
    for name, table in (said or {}).items():
        rows.append(_row(name, stored.pop(name, None), table if isinstance(table, dict) else {}, configured=True))
    rows += [_row(name, row, {}, configured=False) for name, row in stored.items()]
    return {"sources": rows, "settings": None, "writer": False, "commit": graph.epoch or 0, "commit_time": graph.time}


def _settings(serving: Serving) -> dict[str, Any] | None:
    """The `[sources]` of the file as written; None when it cannot be read."""
    try:
        found = tomllib.loads((serving.config.state.parent / SETTINGS).read_text("utf-8-sig")).get("sources", {})
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _row(name: str, row: Mapping[str, Any] | None, table: Mapping[str, Any], *, configured: bool) -> dict[str, Any]:
    paths = table.get("paths") if isinstance(table.get("paths"), list) else [table["path"]] if "path" in table else []
    own = table.get("map")
    python = "python" in table or (isinstance(own, dict) and "python" in own)
    key = table.get("key", [])
    every = table.get("every")
    kind = "python" if "source" in table else "built-in" if name == "ontology" else "files"
    return {
        "name": name, "kind": kind, "paths": [str(path) for path in paths or []],
        "mapping": "python" if python else "map" if own is not None else "direct",
        "key": [key] if isinstance(key, str) else [str(one) for one in key],
        "format": str(table["format"]) if "format" in table else None,
        "every": every if isinstance(every, (int, float)) and not isinstance(every, bool) else None,
        "configured": configured, "records": row["records"] if row else 0, "held": row["held"] if row else 0,
        "rejected": row["rejected"] if row else 0, "scopes": row["scopes"] if row else 0, "last_seen": None,
        "lag_seconds": None, "next_poll": None, "mode": "unknown", "state": row["state"] if row else "new",
        "message": row["message"] if row else "",
    }  # fmt: skip
