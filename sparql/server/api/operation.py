"""An operation is declared once: what it takes, who may, what it answers; its route and its documentation are made of
that."""

from __future__ import annotations

import base64
import binascii
import contextlib
import difflib
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sparql.log import read_head
from sparql.server import protocol
from sparql.server.api.schema import Schema, Unfit, check, read
from sparql.server.gate import CHALLENGE, require_read
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.tokens import Token

JSON = "application/json"
EVENTS = "text/event-stream"
MOST_BODY = 2**20


@dataclass(frozen=True)
class Parameter:
    """One thing a request may say. `where` is "query", "path" or "header"."""

    name: str
    schema: Schema
    description: str
    where: str = "query"
    required: bool = False
    example: Any = None


@dataclass(frozen=True)
class Body:
    """What a request carries, by media type; `name` is what its schema is called in the documentation."""

    schema: Schema
    name: str
    media_types: tuple[str, ...] = (JSON,)
    required: bool = True
    example: Any = None
    others: Mapping[str, Schema] = field(default_factory=dict)
    """More media types, each with a schema of its own."""


@dataclass(frozen=True)
class Reply:
    """One good answer: its schema when it is JSON, else its media types. `headers` beside those every answer has."""

    description: str
    schema: Schema | None = None
    media_types: tuple[str, ...] = (JSON,)
    example: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """What `method` on `path` does. `refusals` are its problems' codes, beside those every operation may answer."""

    method: str
    path: str
    name: str
    summary: str
    replies: Mapping[int, Reply]
    tag: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    refusals: tuple[int, ...] = ()
    needs: str = "read"


@dataclass(frozen=True)
class Given:
    """A request as its operation declares it: `values` holds what was said and is allowed, and nothing else."""

    request: Request
    serving: Serving
    values: Mapping[str, Any]
    body: Any = None

    def get(self, name: str, default: Any = None) -> Any:
        return self.values.get(name, default)


Handler = Callable[[Given], Awaitable[Response]]


def routes(serving: Serving, operations: Sequence[Operation], handlers: Mapping[str, Handler]) -> list[Route]:
    """A route a path; each operation is answered by the handler of its name."""
    by_path: dict[str, dict[str, Operation]] = {}
    for one in operations:
        by_path.setdefault(one.path, {})[one.method] = one
    made = []
    for path, found in by_path.items():
        methods = [*found, *(["HEAD"] if "GET" in found else [])]
        made.append(Route(path, _endpoint(serving, found, handlers), methods=methods))
    return made


def _endpoint(
    serving: Serving, found: Mapping[str, Operation], handlers: Mapping[str, Handler]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        one = found["GET" if request.method == "HEAD" else request.method]
        allow(request, serving, one.needs)
        return await handlers[one.name](await _given(request, serving, one))

    return answer


def allow(request: Request, serving: Serving, needs: str) -> Token | None:
    """The token, when it is one that may. Raises Problem 401 or 403. `needs` is "read", "write" or "admin"."""
    found: Token | None = getattr(request.state, "token", None)
    if needs == "read":
        require_read(request, serving.config)
        return found
    if found is None:
        raise Problem(
            401, "token-needed",
            f"This needs {'an admin' if needs == 'admin' else 'a writing'} token: send `Authorization: Bearer TOKEN`. "
            "Make one with `graphtide token add`.", headers=CHALLENGE,
        )  # fmt: skip
    if not (found.admin or (needs == "write" and found.write)):
        scope = "--admin" if needs == "admin" else "--write"
        raise Problem(403, "wrong-scope", f"The token {found.name!r} may not do this. Use one made with {scope}.")
    return found


async def _given(request: Request, serving: Serving, one: Operation) -> Given:
    values: dict[str, Any] = {}
    known = {each.name: each for each in one.parameters if each.where == "query"}
    try:
        for name, text in _pairs(request):
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(known) or 'none'}."
                raise Problem(400, "unknown-parameter", f"{name[:80]!r} is no parameter of {one.path}. {hint}")
            if name in values:
                raise Problem(400, "parameter-twice", f"{name!r} is there more than once. Send it once.")
            values[name] = read(text, known[name].schema, name)
        for each in one.parameters:
            if each.where == "path":
                values[each.name] = read(str(request.path_params[each.name]), each.schema, each.name)
            elif each.where == "header" and each.name in request.headers:
                values[each.name] = read(request.headers[each.name], each.schema, each.name)
            if each.required and each.name not in values:
                raise Problem(400, "parameter-missing", f"{each.name!r} is missing: {each.description}")
        return Given(request, serving, values, await _body(request, one))
    except Unfit as no:
        raise Problem(400, "bad-request", str(no)) from no


def _pairs(request: Request) -> list[tuple[str, str]]:
    try:
        return parse_qsl(
            request.url.query.encode("latin-1", "replace").decode("utf-8"), keep_blank_values=True, errors="strict",
            max_num_fields=100,
        )  # fmt: skip
    except ValueError as wrong:
        raise Problem(400, "bad-query-string", f"The parameters cannot be read ({wrong}).") from wrong


async def _body(request: Request, one: Operation) -> Any:
    if one.body is None:
        return None
    data = await protocol.body(request, MOST_BODY)
    if not data and not one.body.required:
        return None
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in one.body.media_types:
        wanted = " or ".join(one.body.media_types)
        raise Problem(415, "unsupported-media-type", f"The body is {kind or 'of no type'!r}. Send {wanted}.")
    try:
        found = json.loads(data, parse_constant=_no_constant)
    except (ValueError, RecursionError) as wrong:
        raise Problem(400, "not-json", f"The body is not JSON ({str(wrong)[:200]}).") from wrong
    check(found, one.body.schema, "The body")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# -- answers


def answer(
    given: Given, body: Mapping[str, Any], *, epoch: int, time: str = "", status: int = 200, next: str | None = None,
    headers: Mapping[str, str] | None = None, tag: str | None = None,
) -> Response:  # fmt: skip
    """`body` with its epoch and the link to what follows, 304 when the client has it."""
    found = {**body, "epoch": epoch, "next": next}
    sent = {"X-Graphtide-Epoch": str(epoch), "Cache-Control": "no-cache", "Vary": "Accept", **(headers or {})}
    sent["X-Content-Type-Options"] = "nosniff"
    if time:
        found["commit_time"] = time
        sent["X-Graphtide-Commit-Time"] = time
    if next:
        sent["Link"] = f'<{next}>; rel="next"'
    if tag:
        sent["ETag"] = tag
        if _has(given.request, tag):
            return Response(None, 304, sent)
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, sent, media_type=JSON)


def head(given: Given) -> int:
    """The newest durable commit."""
    return read_head(given.serving.config.state)


def tag_of(given: Given, commit: int, *more: Any) -> str:
    """The ETag of this request's answer at a commit: it is a function of the two."""
    said = json.dumps([sorted((name, str(value)) for name, value in given.values.items()), commit, *more])
    return f'"{hashlib.sha256((given.request.url.path + said).encode()).hexdigest()[:24]}"'


def unchanged(given: Given, tag: str, commit: int) -> Response | None:
    """304 when the client already has this."""
    if not _has(given.request, tag):
        return None
    return Response(None, 304, {"ETag": tag, "X-Graphtide-Epoch": str(commit), "Cache-Control": "no-cache",
                                "Vary": "Accept"})  # fmt: skip


def _has(request: Request, tag: str) -> bool:
    if request.method not in ("GET", "HEAD"):
        return False
    given = ",".join(request.headers.getlist("if-none-match"))
    names = [each.strip().removeprefix("W/") for each in given.split(",")]
    return tag in names or "*" in names


def next_link(given: Given, cursor: Mapping[str, Any] | Sequence[Any], **more: Any) -> str:
    """The same request, from `cursor` on, as a path on this server."""
    said = {name: _said(value) for name, value in given.values.items() if name != "cursor" and "-" not in name}
    said |= {name: _said(value) for name, value in more.items()}
    path = given.request.scope.get("root_path", "") + given.request.url.path.removeprefix(
        given.request.scope.get("root_path", "")
    )
    return f"{path}?{urlencode({**said, 'cursor': pack(cursor)})}"


def pack(cursor: Mapping[str, Any] | Sequence[Any]) -> str:
    """A place in a list, for a client to hand back."""
    text = json.dumps(cursor, ensure_ascii=True, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def unpack(given: Given, *kinds: type) -> list[Any] | None:
    """The place a client hands back, a list of such values; None at the beginning. Raises Problem 400."""
    text = given.get("cursor")
    if text is None:
        return None
    with contextlib.suppress(binascii.Error, ValueError, UnicodeError, RecursionError):
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        if isinstance(found, list) and len(found) == len(kinds) and all(
            type(value) is kind for value, kind in zip(found, kinds, strict=True)
        ):  # fmt: skip
            return found
    raise Problem(400, "bad-cursor", "The cursor is none that this list gave. Follow the `next` of a page.")


def _said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


LIMIT_MOST = 1000


def limit(default: int, most: int = LIMIT_MOST) -> Parameter:
    """How many to send at once."""
    schema = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return Parameter("limit", schema, f"How many at once, up to {most}.", example=default)


CURSOR = Parameter(
    "cursor", {"type": "string", "minLength": 1, "maxLength": 20_000}, "Where to go on: from the `next` of a page."
)
