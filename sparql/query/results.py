"""What kind of answer a query gives is known only when it has been parsed, so a format is agreed for every kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyoxigraph import QueryResultsFormat, RdfFormat

ROWS, BOOLEAN, TRIPLES = "rows", "boolean", "triples"
KINDS = (ROWS, BOOLEAN, TRIPLES)
NDJSON, ARROW, PARQUET = "ndjson", "arrow", "parquet"
# RDF 1.2 and SPARQL 1.2 results: a client that reads triple terms says so by this media-type parameter.
VERSION = "1.2"


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write an answer; `accepts` are the media types that ask for it, the first is what is sent.

    `table` is how we write rows ourselves, `versions` whether the media type has a `version` parameter (RDF 1.2).
    """

    name: str
    accepts: tuple[str, ...]
    extension: str
    rows: QueryResultsFormat | None = None
    triples: RdfFormat | None = None
    table: str = ""
    versions: bool = False

    @property
    def media_type(self) -> str:
        return self.accepts[0]

    @property
    def content_type(self) -> str:
        """The media type as sent: text formats name their encoding."""
        media, _, version = self.media_type.partition(";")
        return media + ("; charset=utf-8" if media.startswith("text/") else "") + (f"; {version}" if version else "")

    def writes(self, kind: str) -> bool:
        """Whether an answer of this kind can be written so."""
        if kind == TRIPLES:
            return self.triples is not None
        return self.rows is not None or bool(self.table)


_XML = ("application/xml", "text/xml")

# In order of preference: the first that fits is sent to a client that does not care.
FORMATS: tuple[Format, ...] = (
    Format(
        "json",
        ("application/sparql-results+json", "application/json"),
        "json",
        rows=QueryResultsFormat.JSON,
        versions=True,
    ),
    Format("xml", ("application/sparql-results+xml", *_XML), "xml", rows=QueryResultsFormat.XML, versions=True),
    Format("csv", ("text/csv",), "csv", rows=QueryResultsFormat.CSV),
    Format("tsv", ("text/tab-separated-values",), "tsv", rows=QueryResultsFormat.TSV, versions=True),
    Format("turtle", ("text/turtle", "application/x-turtle"), "ttl", triples=RdfFormat.TURTLE, versions=True),
    Format("ntriples", ("application/n-triples", "text/plain"), "nt", triples=RdfFormat.N_TRIPLES, versions=True),
    Format("jsonld", ("application/ld+json", "application/json"), "jsonld", triples=RdfFormat.JSON_LD),
    Format("trig", ("application/trig", "application/x-trig"), "trig", triples=RdfFormat.TRIG, versions=True),
    Format("nquads", ("application/n-quads", "text/x-nquads"), "nq", triples=RdfFormat.N_QUADS, versions=True),
    Format("rdfxml", ("application/rdf+xml", *_XML), "rdf", triples=RdfFormat.RDF_XML, versions=True),
    Format(NDJSON, ("application/x-ndjson", "application/jsonl", "application/x-jsonlines"), "ndjson", table=NDJSON),
    Format(ARROW, ("application/vnd.apache.arrow.stream",), "arrows", table=ARROW),
    Format(PARQUET, ("application/vnd.apache.parquet",), "parquet", table=PARQUET),
)


def _versioned(form: Format) -> Format:
    """The format as a client gets it that asked for RDF 1.2 by name."""
    version = f";version={VERSION}"
    return replace(form, name=form.name + version, accepts=tuple(each + version for each in form.accepts))


_VERSIONED = {each.name: _versioned(each) for each in FORMATS if each.versions}
BY_NAME: Mapping[str, Format] = {
    **{each.name: each for each in FORMATS},
    **{each.name: each for each in _VERSIONED.values()},
}

# What people write after `?format=` and `--format`, besides the names themselves and any media type.
_ALIASES = {
    "json": ("json", "jsonld"),
    "xml": ("xml", "rdfxml"),
    "srj": ("json",),
    "srx": ("xml",),
    "ttl": ("turtle",),
    "nt": ("ntriples",),
    "n-triples": ("ntriples",),
    "json-ld": ("jsonld",),
    "rdf": ("rdfxml",),
    "rdf/xml": ("rdfxml",),
    "rdf+xml": ("rdfxml",),
    "n3": ("turtle",),  # every Turtle text is one of N3
    "nq": ("nquads",),
    "n-quads": ("nquads",),
    "jsonl": (NDJSON,),
    "jsonlines": (NDJSON,),
    "arrows": (ARROW,),
    "ipc": (ARROW,),
}
_QUALITY = re.compile(r"([^;,\s]+)\s*((?:;[^,]*)?)")  # no blanks before it: a run of them would cost its square
_Q = re.compile(r";\s*q\s*=\s*([0-9.]+)", re.IGNORECASE)
_VERSION = re.compile(r";\s*version\s*=\s*\"?1\.2(?:-basic)?\"?\s*(?:;|$)", re.IGNORECASE)


class NotAcceptable(ValueError):
    """None of the formats asked for can be written. `str()` lists the ones there are."""


def media_types(kind: str | None = None) -> tuple[str, ...]:
    """The media types an answer of this kind can be sent as, best first."""
    return tuple(each.media_type for each in FORMATS if kind is None or each.writes(kind))


def named(text: str) -> dict[str, str]:
    """The format to use for each kind, by name (`csv`), alias (`ttl`) or media type. Raises NotAcceptable.

    `;version=1.2` behind it asks for that version's media type.
    """
    key = text.strip().lower().replace(" ", "+")  # a `+` in a query string arrives as a space
    key, parameters = key.partition(";")[0].rstrip("+"), key.partition(";")[2]
    names = _ALIASES.get(key) or ((key,) if key in BY_NAME else ())
    found = [BY_NAME[name] for name in names] or [each for each in FORMATS if key in each.accepts]
    if not found:
        raise NotAcceptable(f"{text!r} is not a format. Use one of {', '.join(each.name for each in FORMATS)}.")
    if _VERSION.search(";" + parameters.replace("+", "")):
        found = [_VERSIONED.get(each.name, each) for each in found]
    return {kind: each.name for kind in KINDS for each in reversed(found) if each.writes(kind)}


def negotiate(accept: str | None) -> dict[str, str]:
    """The format to use for each kind under an HTTP Accept header; a kind nothing fits is left out.

    The highest q-value wins, then the more exact range, then our own order. A range with `version=1.2` asks for the
    media type of that version. Raises NotAcceptable when no kind is left.
    """
    if accept is None or not accept.strip():
        accept = "*/*"
    ranges: list[tuple[str, float, bool]] = []
    for found in _QUALITY.finditer(accept):
        quality = _Q.search(found.group(2))
        try:
            value = min(float(quality.group(1)), 1.0) if quality else 1.0
        except ValueError:
            continue
        ranges.append((found.group(1).lower(), value, _VERSION.search(found.group(2)) is not None))
    chosen: dict[str, str] = {}
    for kind in KINDS:
        best: tuple[float, int] = (0.0, 0)
        for each in FORMATS:
            if each.writes(kind):
                # Only the first is what is sent: the others count when asked for by name.
                first, *others = (_match(media, ranges) for media in each.accepts)
                quality_, exactness, new = max(first, *(found for found in others if found[1] == 2), _NO_MATCH)
                if quality_ > 0 and (quality_, exactness) > best:
                    best = (quality_, exactness)
                    chosen[kind] = _VERSIONED[each.name].name if new and each.versions else each.name
    if not chosen:
        raise NotAcceptable(f"None of {accept!r} can be written. Ask for one of {', '.join(media_types())}.")
    return chosen


_NO_MATCH = (0.0, 0, False)


def _match(media: str, ranges: list[tuple[str, float, bool]]) -> tuple[float, int, bool]:
    """(q, exactness, version 1.2) the most exact matching range gives this media type: q=0 there means never."""
    best = (-1, 0.0, False)
    for asked, quality, new in ranges:
        exactness = 2 if asked == media else 1 if asked == media.split("/")[0] + "/*" else 0 if asked == "*/*" else -1
        if exactness >= 0:
            best = max(best, (exactness, quality, new))
    return (best[1], best[0], best[2]) if best[0] >= 0 else _NO_MATCH
