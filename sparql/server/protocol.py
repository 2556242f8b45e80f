"""A SPARQL request says its query, its dataset and its format, in three spellings that mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request

from sparql.query import results
from sparql.server.problem import Problem

FORM, DIRECT, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"


@dataclass(frozen=True)
class Asked:
    """One query as asked: `formats` is the format for each kind of answer, `seconds` a deadline of the client's own."""

    query: str
    formats: Mapping[str, str]
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    seconds: float | None = None
    download: str | None = None


async def read(request: Request, longest: int) -> Asked:
    """The query in an HTTP request. Raises Problem with 400, 403, 406, 413 or 415."""
    given = _pairs(request.url.query.encode("latin-1"), "the URL")
    query: str | None = None
    if request.method == "POST":
        kind, _, parameters = request.headers.get("content-type", "").partition(";")
        kind = kind.strip().lower()
        charset = dict(parse_qsl(parameters.replace(" ", ""), separator=";")).get("charset", "utf-8").strip('"')
        if kind not in (FORM, DIRECT, UPDATE):
            raise Problem(
                415,
                "unsupported-media-type",
                f"A query is posted as {FORM} or {DIRECT}, not {kind or 'without a Content-Type'!r}.",
                headers={"Accept-Post": f"{FORM}, {DIRECT}"},
            )
        if charset.lower() not in ("utf-8", "utf8", "us-ascii"):
            raise Problem(415, "unsupported-charset", f"The query is in {charset!r}. Send UTF-8.")
        if kind == UPDATE:
            raise _no_update()
        data = await body(request, longest)
        if kind == DIRECT:
            query = _text(data, "the body")
            if any(key == "query" for key, _ in given):
                raise Problem(400, "query-twice", "There is a query in the URL and one in the body. Send one.")
        else:
            given += _pairs(data, "the form")
    values: dict[str, list[str]] = {}
    for key, value in given:
        values.setdefault(key, []).append(value)
    if "update" in values:
        raise _no_update()
    if "epoch" in values:
        # Answering with the newest one would be a wrong answer to a right question.
        raise Problem(501, "no-epoch", "An answer at an earlier epoch is not there yet. Leave out `epoch=`.")
    if query is None:
        queries = values.get("query", [])
        if len(queries) != 1:
            many = f"{len(queries)} queries" if queries else "no query"
            raise Problem(400, "no-query", f"The request holds {many}. Send one, as `query=`.")
        query = queries[0]
    if len(query.encode()) > longest:
        raise Problem(413, "query-too-long", f"The query is longer than {longest:,} bytes.")
    if "\x00" in query:
        raise Problem(400, "query-error", "The query holds a NUL character.", line=0, column=0)
    try:
        wanted = values.get("format")
        formats = results.named(wanted[-1]) if wanted else results.negotiate(request.headers.get("accept"))
    except results.NotAcceptable as no:
        raise Problem(406, "not-acceptable", str(no)) from no
    return Asked(
        query,
        formats,
        _graphs(values, "default-graph-uri"),
        _graphs(values, "named-graph-uri"),
        _seconds(values.get("timeout")),
        values.get("download", [None])[-1],
    )


async def body(request: Request, longest: int) -> bytes:
    """The request's body. Raises Problem 413 as soon as it is longer than `longest`."""
    said = request.headers.get("content-length", "0")
    if said.isdigit() and int(said) > longest:
        raise Problem(413, "too-long", f"The body has {int(said):,} bytes; {longest:,} are allowed.")
    data = bytearray()
    try:
        async for part in request.stream():
            data += part
            if len(data) > longest:
                raise Problem(413, "too-long", f"The body is longer than {longest:,} bytes.")
    except ClientDisconnect:
        raise Problem(400, "cut", "The request ended in the middle.") from None
    return bytes(data)


def _no_update() -> Problem:
    return Problem(
        403,
        "no-update",
        "The graph is what its sources say and is not updated by SPARQL. Change the source or POST a batch to /writer.",
    )


def _pairs(data: bytes, where: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(data.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except ValueError as wrong:
        raise Problem(400, "not-utf-8", f"The parameters in {where} are not UTF-8 ({wrong}).") from wrong


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise Problem(400, "not-utf-8", f"The query in {where} is not UTF-8 (byte {wrong.start}).") from wrong


def _graphs(values: Mapping[str, list[str]], key: str) -> tuple[str, ...]:
    found = tuple(values.get(key, ()))
    for iri in found:
        if ":" not in iri or any(letter in iri for letter in ' <>"{}|\\^`') or not iri.isprintable():
            raise Problem(400, "bad-graph", f"{key}={iri!r} is not an absolute IRI.")
    return found


def _seconds(values: list[str] | None) -> float | None:
    if not values:
        return None
    try:
        found = float(values[-1])
    except ValueError:
        found = 0.0
    if not 0 < found < float("inf"):
        raise Problem(400, "bad-timeout", f"timeout={values[-1]!r} is not a number of seconds.")
    return found
