"""A SPARQL request says its query, its dataset and its format, in four spellings that mean the same."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import Receive, Scope

from sparql.query import results
from sparql.server import compress, negotiate
from sparql.server.problem import Problem

FORM, DIRECT, UPDATE = "application/x-www-form-urlencoded", "application/sparql-query", "application/sparql-update"
METHODS = ("GET", "HEAD", "OPTIONS", "POST", "QUERY")
ALLOW = {"Allow": ", ".join(METHODS)}
QUERIES = f"{FORM}, {DIRECT}"
# What a QUERY may carry (draft-ietf-httpbis-safe-method-w-body); Accept-Post says the same of POST (LDP 7.1).
ACCEPTS = {"Accept-Query": QUERIES, "Accept-Post": f"{QUERIES}, {UPDATE}"}
LONGEST_URL = 60_000  # httptools reads none of 65,536 bytes
LONGEST_HEADER = 4096
MOST_FIELDS = 1000
_QUERY = {"query"}
_UTF8 = ("utf-8", "utf8", "us-ascii")


@dataclass(frozen=True, slots=True)
class Head:
    """What a request says before its body: the headers that are looked at, the rest is not ours to judge."""

    accept: str | None = None
    coding: str | None = None
    kind: str = ""
    charset: str = "utf-8"
    content_coding: str = ""
    length: int | None = None
    chunked: bool = False
    none_match: str | None = None
    expect: str = ""
    origin: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One query as asked: `formats` is the format for each kind of answer, `seconds` a deadline of the client's own.

    `codings` are the content codings the client takes, best first. `epoch` pins the commit the answer stands at,
    `least` is the oldest it may stand at.
    """

    query: str
    formats: Mapping[str, str]
    default_graphs: tuple[str, ...] = ()
    named_graphs: tuple[str, ...] = ()
    seconds: float | None = None
    download: str | None = None
    codings: tuple[str, ...] = (negotiate.IDENTITY,)
    none_match: str | None = None
    epoch: int | None = None
    least: int | None = None
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Changing:
    """One update as asked, with the graphs its WHERE reads instead of its own USING."""

    update: str
    using: tuple[str, ...] = ()
    using_named: tuple[str, ...] = ()
    values: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No query at all: the client wants to know what this is."""

    accept: str | None = None


def head(scope: Scope) -> Head:
    """The headers of a request that say how to read it. Raises Problem 417 for an expectation there is not."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = _WANTED.get(name)
        if key is not None:
            text = value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
    for key in ("accept", "coding", "kind"):
        if len(found.get(key, "")) > LONGEST_HEADER:
            detail = f"A header that says what is taken or sent is longer than {LONGEST_HEADER:,} bytes."
            raise Problem(431, "head-too-long", detail)
    kind, _, parameters = found.get("kind", "").partition(";")
    charset = "utf-8"
    if parameters:
        charset = dict(parse_qsl(parameters.replace(" ", "").lower(), separator=";")).get("charset", charset).strip('"')
    expect = found.get("expect", "").strip().lower()
    if expect not in ("", "100-continue"):
        raise Problem(417, "expectation", f"Expect: {expect!r} is nothing this server does. Leave it out.")
    length = found.get("length", "").strip()
    return Head(
        accept=found.get("accept"),
        coding=found.get("coding"),
        kind=kind.strip().lower(),
        charset=charset,
        content_coding=found.get("content_coding", "").strip().lower(),
        length=int(length) if length.isdigit() else None,
        chunked="transfer" in found,
        none_match=found.get("none_match"),
        expect=expect,
        origin=found.get("origin"),
    )


_WANTED = {
    b"accept": "accept",
    b"accept-encoding": "coding",
    b"content-type": "kind",
    b"content-encoding": "content_coding",
    b"content-length": "length",
    b"transfer-encoding": "transfer",
    b"if-none-match": "none_match",
    b"expect": "expect",
    b"origin": "origin",
}


async def read(scope: Scope, receive: Receive, longest: int, longest_update: int) -> Asked | Changing | Nothing:
    """What an HTTP request asks: a query of `longest` bytes at most, or an update of `longest_update`.

    Raises Problem with 400, 405, 406, 411, 413, 414, 415 or 417.
    """
    method: str = scope["method"]
    if method not in METHODS:
        raise Problem(
            405,
            "method-not-allowed",
            f"{method} {scope['path']}: a query is sent by GET, POST or QUERY, an update by POST.",
            headers={**ALLOW, **ACCEPTS},
        )
    raw: bytes = scope["query_string"]
    if len(raw) > LONGEST_URL:
        raise Problem(414, "url-too-long", f"The URL is longer than {LONGEST_URL:,} bytes. Send the query by POST.")
    said = head(scope)
    given = pairs(raw, "the URL")
    query: str | None = None
    update: str | None = None
    if method in ("POST", "QUERY"):
        _check_body(said, method)
        # A form may hold an update, but only of somebody who may send one.
        long = said.kind == UPDATE or (said.kind == FORM and scope.get("state", {}).get("token") is not None)
        data = await _whole(said, receive, longest_update if long else longest)
        if said.kind == FORM:
            given += pairs(data, "the form")
        else:
            text = _text(data, "the body")
            if said.kind == DIRECT:
                query = text
            else:
                update = text
            if any(key in ("query", "update") for key, _ in given):
                raise Problem(400, "query-twice", "There is a query in the URL and one in the body. Send one.")
    values: dict[str, list[str]] = {}
    for key, value in given:
        values.setdefault(key, []).append(value)
    if update is not None or "update" in values:
        return _changing(method, update, values, longest_update)
    if query is None:
        queries = values.get("query", [])
        if not queries and method in ("GET", "HEAD"):
            return Nothing(said.accept)
        if len(queries) != 1:
            many = f"{len(queries)} queries" if queries else "no query"
            raise Problem(400, "no-query", f"The request holds {many}. Send one, as `query=`.")
        query = queries[0]
    _check_text(query, longest)
    try:
        wanted = values.get("format")
        formats = _wanted(wanted) if wanted else negotiated(said.accept)
        codings = negotiate.codings(said.coding)
    except results.NotAcceptable as no:
        raise Problem(406, "not-acceptable", str(no), available=list(results.media_types())) from no
    except negotiate.NoCoding as no:
        raise Problem(406, "no-coding", str(no), available=[*negotiate.CODINGS, negotiate.IDENTITY]) from no
    if not values.keys() - _QUERY:
        return Asked(query, formats, codings=codings, none_match=said.none_match, safe=method != "POST")
    return Asked(
        query,
        formats,
        graphs(values, "default-graph-uri"),
        graphs(values, "named-graph-uri"),
        _seconds(values.get("timeout")),
        values.get("download", [None])[-1],
        codings,
        said.none_match,
        _commit(values, "epoch"),
        _commit(values, "min-epoch"),
        method != "POST",
    )


@lru_cache(maxsize=256)
def negotiated(accept: str | None) -> Mapping[str, str]:
    """The format for each kind of answer under an Accept header. Raises NotAcceptable."""
    return results.negotiate(accept)


@lru_cache(maxsize=256)
def named(text: str) -> Mapping[str, str]:
    """The format for each kind of answer that `format=` names. Raises NotAcceptable."""
    return results.named(text)


def _wanted(given: Sequence[str]) -> Mapping[str, str]:
    """The last `format=` that names one: SPARQLWrapper sends the name and a list of media types behind it."""
    for text in reversed(given[1:]):
        with contextlib.suppress(results.NotAcceptable):
            return named(text)
    return named(given[0])


async def body(request: Request, longest: int) -> bytes:
    """The request's body. Raises Problem 413 as soon as it is longer than `longest`."""
    return await _whole(head(request.scope), request.receive, longest)


async def _whole(said: Head, receive: Receive, longest: int) -> bytes:
    if said.length is not None and said.length > longest:
        raise Problem(413, "too-long", f"The body has {said.length:,} bytes; {longest:,} are allowed.")
    data, more = await _next(receive)
    if len(data) > longest:
        raise Problem(413, "too-long", f"The body is longer than {longest:,} bytes.")
    if more:
        parts = bytearray(data)
        while more:
            data, more = await _next(receive)
            parts += data
            if len(parts) > longest:
                raise Problem(413, "too-long", f"The body is longer than {longest:,} bytes.")
        data = bytes(parts)
    if said.content_coding in ("", "identity"):
        return data
    if said.content_coding not in ("gzip", "x-gzip"):
        raise Problem(
            415,
            "unsupported-coding",
            f"A body in {said.content_coding!r} is not read. Send it as it is, or as gzip.",
            headers={"Accept-Encoding": "gzip, identity"},
        )
    try:
        found = compress.inflate(data, longest)
    except ValueError as wrong:
        raise Problem(400, "bad-coding", f"The body is {wrong}.") from wrong
    if found is None:
        raise Problem(413, "too-long", f"The body holds more than {longest:,} bytes.")
    return found


async def _next(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise Problem(400, "cut", "The request ended in the middle.")
    return message.get("body", b""), message.get("more_body", False)


def _check_body(said: Head, method: str) -> None:
    if said.length is None and not said.chunked:
        raise Problem(411, "length-required", f"A {method} has a body: send its Content-Length.")
    kinds = (FORM, DIRECT, UPDATE) if method == "POST" else (FORM, DIRECT)
    if said.kind not in kinds:
        raise Problem(
            415,
            "unsupported-media-type",
            f"A query is sent as {FORM} or {DIRECT}, not {said.kind or 'without a Content-Type'!r}.",
            headers=dict(ACCEPTS),
        )
    if said.charset not in _UTF8:
        raise Problem(415, "unsupported-charset", f"The query is in {said.charset!r}. Send UTF-8.")


def _changing(method: str, update: str | None, values: Mapping[str, list[str]], longest: int) -> Changing:
    if method != "POST":
        raise Problem(400, "update-by-get", "An update is sent by POST, and never in a URL.", headers=dict(ACCEPTS))
    if update is None:
        updates = values["update"]
        if len(updates) != 1 or "query" in values:
            raise Problem(400, "update-twice", "The request holds more than one text. Send one, as `update=`.")
        update = updates[0]
    _check_text(update, longest)
    return Changing(update, graphs(values, "using-graph-uri"), graphs(values, "using-named-graph-uri"), values)


def _check_text(text: str, longest: int) -> None:
    if len(text) * 4 > longest and len(text.encode()) > longest:
        raise Problem(413, "query-too-long", f"The query is longer than {longest:,} bytes.")
    if "\x00" in text:
        raise Problem(400, "query-error", "The query holds a NUL character.", line=0, column=0)


def pairs(data: bytes, where: str) -> list[tuple[str, str]]:
    """The parameters of a URL or a form, in their order. Raises Problem 400."""
    if not data:
        return []
    try:
        return parse_qsl(data.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError as wrong:
        raise Problem(400, "not-utf-8", f"The parameters in {where} are not UTF-8 ({wrong}).") from wrong


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        raise Problem(400, "not-utf-8", f"The query in {where} is not UTF-8 (byte {wrong.start}).") from wrong


def graphs(values: Mapping[str, list[str]], key: str) -> tuple[str, ...]:
    """The graphs a parameter names. Raises Problem 400 for what is no absolute IRI."""
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


def _commit(values: Mapping[str, list[str]], key: str) -> int | None:
    if key not in values:
        return None
    text = values[key][-1]
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Problem(400, "bad-epoch", f"{key}={text!r} is not the number of a commit, as X-Graphtide-Epoch says it.")
    return int(text)
