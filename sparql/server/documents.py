"""A document about the graph is the same statements in whichever RDF form, or as a page, the client takes best."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import quote

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Triple, serialize
from starlette.requests import Request
from starlette.responses import Response

from ontology.facts import RDF, XSD
from sparql.server import negotiate
from sparql.server.problem import Problem

Statement = Triple | Quad


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a document; `accepts` are the media types that ask for it, the first is what is sent."""

    name: str
    title: str
    accepts: tuple[str, ...]
    extensions: tuple[str, ...]
    rdf: RdfFormat | None
    graphs: bool = False

    @property
    def media_type(self) -> str:
        return self.accepts[0]


HTML = Form("html", "HTML", ("text/html", "application/xhtml+xml"), ("html",), None)
# In order of preference: the first that fits is sent to a client that does not care.
RDF_FORMS = (
    Form("turtle", "Turtle", ("text/turtle", "application/x-turtle"), ("ttl",), RdfFormat.TURTLE),
    Form("ntriples", "N-Triples", ("application/n-triples", "text/plain"), ("nt",), RdfFormat.N_TRIPLES),
    Form("jsonld", "JSON-LD", ("application/ld+json", "application/json"), ("jsonld", "json"), RdfFormat.JSON_LD),
    Form("rdfxml", "RDF/XML", ("application/rdf+xml", "application/xml", "text/xml"), ("rdf", "xml"),
         RdfFormat.RDF_XML),
    Form("trig", "TriG", ("application/trig", "application/x-trig"), ("trig",), RdfFormat.TRIG, True),
    Form("nquads", "N-Quads", ("application/n-quads",), ("nq",), RdfFormat.N_QUADS, True),
    Form("n3", "N3", ("text/n3",), ("n3",), RdfFormat.N3),
)  # fmt: skip
_RANGE = re.compile(r"\s*([^;,\s]+)\s*((?:;[^,]*)?)")
_Q = re.compile(r";\s*q\s*=\s*([0-9.]+)", re.IGNORECASE)


def chosen(request: Request, *, page: bool) -> Form:
    """The form to answer in: by `?format=`, else by Accept. Raises Problem 406 when there is none that is taken."""
    forms = (RDF_FORMS[0], HTML, *RDF_FORMS[1:]) if page else RDF_FORMS
    asked = request.query_params.get("format")
    if asked is not None:
        found = named(asked, forms)
        if found is None:
            raise _none(f"{asked!r} is no form of this", forms)
        return found
    accept = ", ".join(request.headers.getlist("accept")) or "*/*"
    ranges = _ranges(accept)
    best: tuple[float, int] = (0.0, 0)
    which = None
    for form in forms:
        for place, media in enumerate(form.accepts):
            quality, exactness = _quality(media, ranges)
            # Only the first is what is sent: the others count when asked for by name.
            if quality > 0 and (place == 0 or exactness == 2) and (quality, exactness) > best:
                best, which = (quality, exactness), form
    if which is None:
        raise _none(f"{accept!r} takes nothing that this is written in", forms)
    return which


def named(text: str, forms: Iterable[Form] = RDF_FORMS) -> Form | None:
    """The form with this name, extension or media type."""
    key = text.strip().lower().replace(" ", "+")  # a `+` in a query string arrives as a space
    for form in forms:
        if key in (form.name, *form.extensions, *form.accepts):
            return form
    return None


def respond(
    request: Request,
    form: Form,
    statements: Iterable[Statement],
    *,
    prefixes: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
) -> Response:
    """The statements in `form`, or 304 when the client has them. Each is written once, in order."""
    return sent(request, body(form, statements, prefixes), form.media_type, headers)


def body(form: Form, statements: Iterable[Statement], prefixes: Mapping[str, str]) -> bytes:
    """The statements as `form` writes them."""
    assert form.rdf is not None
    usable = {name: iri for name, iri in prefixes.items() if _absolute(iri)}
    written = serialize(_by_subject(statements, graphs=form.graphs), format=form.rdf, prefixes=usable)
    assert written is not None
    return written


def sent(request: Request, content: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
    """A whole body with its entity tag, or 304 when the client has it."""
    tag = hashlib.blake2b(content + media_type.encode(), digest_size=12).hexdigest()
    found = {"Vary": "Accept", "Cache-Control": "no-cache", **(headers or {}), "ETag": f'"{tag}"'}
    if negotiate.matches(request.headers.get("if-none-match"), (tag,)) is not None:
        return Response(status_code=304, headers=found)
    text = media_type.startswith("text/")
    return Response(content, 200, found, media_type=f"{media_type}; charset=utf-8" if text else media_type)


def alternates(path: str, *, page: bool, parameters: str = "") -> list[str]:
    """The `Link` values that lead to the other forms of what is at `path`."""
    forms = (*RDF_FORMS, HTML) if page else RDF_FORMS
    return [f'<{path}?{parameters}format={form.name}>; rel="alternate"; type="{form.media_type}"' for form in forms]


def root(request: Request) -> str:
    """Where this server is for whoever asked, without a `/` at the end."""
    return str(request.base_url).rstrip("/")


class Document:
    """Statements as they are gathered: nodes are IRIs, values are Python's."""

    def __init__(self) -> None:
        self.statements: list[Triple] = []

    def add(self, subject: str, predicate: str, *values: object) -> None:
        """Each value is said: a term as it is, `int` and `float` and `bool` as XSD has them, `str` as a string."""
        for value in values:
            node = value if isinstance(value, (NamedNode, Literal)) else Literal(value)  # type: ignore[arg-type]
            self.statements.append(Triple(NamedNode(subject), NamedNode(predicate), node))

    def link(self, subject: str, predicate: str, *iris: str) -> None:
        """Each of the IRIs is said."""
        self.add(subject, predicate, *map(NamedNode, iris))

    def type(self, subject: str, *classes: str) -> None:
        """The subject is of each of these classes."""
        self.link(subject, RDF + "type", *classes)


def time(text: str) -> Literal:
    """A time of day as a literal."""
    return Literal(text, datatype=NamedNode(XSD + "dateTime"))


def fragment(text: str) -> str:
    """`text` as a part of an IRI."""
    return quote(text, safe="-._~")


def _by_subject(statements: Iterable[Statement], *, graphs: bool) -> Iterator[Quad]:
    """Each statement once, those of one subject of a graph together; without `graphs`, all in one."""
    found: dict[object, dict[Quad, None]] = {}
    for one in statements:
        quad = one if isinstance(one, Quad) and graphs else Quad(one.subject, one.predicate, one.object)
        found.setdefault((quad.graph_name, quad.subject), {})[quad] = None
    for quads in found.values():
        yield from quads


def _absolute(iri: str) -> bool:
    try:
        return bool(NamedNode(iri))
    except ValueError:
        return False


def _none(what: str, forms: Iterable[Form]) -> Problem:
    available = [form.media_type for form in forms]
    return Problem(406, "not-acceptable", f"{what}. Ask for one of {', '.join(available)}.", available=available)


def _ranges(accept: str) -> list[tuple[str, float]]:
    found = []
    for each in _RANGE.finditer(accept[:4096]):
        quality = _Q.search(each.group(2))
        try:
            found.append((each.group(1).lower(), min(float(quality.group(1)), 1.0) if quality else 1.0))
        except ValueError:
            continue
    return found[:100]


def _quality(media: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """(q, exactness) that the most exact range gives this media type."""
    best = (-1, 0.0)
    for asked, quality in ranges:
        exactness = 2 if asked == media else 1 if asked == media.split("/")[0] + "/*" else 0 if asked == "*/*" else -1
        if exactness >= 0:
            best = max(best, (exactness, quality))
    return (best[1], best[0]) if best[0] >= 0 else (0.0, 0)
