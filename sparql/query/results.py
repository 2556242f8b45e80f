"""What kind of answer a query gives is known only when it has been parsed, so a format is agreed for every kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from pyoxigraph import QueryResultsFormat, RdfFormat

ROWS, BOOLEAN, TRIPLES = "rows", "boolean", "triples"
KINDS = (ROWS, BOOLEAN, TRIPLES)


@dataclass(frozen=True, slots=True)
class Format:
    """One way to write an answer; `accepts` are the media types that ask for it, the first is what is sent."""

    name: str
    accepts: tuple[str, ...]
    extension: str
    rows: QueryResultsFormat | None = None
    triples: RdfFormat | None = None

    @property
    def media_type(self) -> str:
        return self.accepts[0]

    @property
    def content_type(self) -> str:
        """The media type as sent: text formats name their encoding."""
        return self.media_type + ("; charset=utf-8" if self.media_type.startswith("text/") else "")

    def writes(self, kind: str) -> bool:
        """Whether an answer of this kind can be written so."""
        return (self.triples if kind == TRIPLES else self.rows) is not None


_XML = ("application/xml", "text/xml")

# In order of preference: the first that fits is sent to a client that does not care.
FORMATS: tuple[Format, ...] = (
    Format("json", ("application/sparql-results+json", "application/json"), "json", rows=QueryResultsFormat.JSON),
    Format("xml", ("application/sparql-results+xml", *_XML), "xml", rows=QueryResultsFormat.XML),
    Format("csv", ("text/csv",), "csv", rows=QueryResultsFormat.CSV),
    Format("tsv", ("text/tab-separated-values",), "tsv", rows=QueryResultsFormat.TSV),
    Format("turtle", ("text/turtle", "application/x-turtle"), "ttl", triples=RdfFormat.TURTLE),
    Format("ntriples", ("application/n-triples", "text/plain"), "nt", triples=RdfFormat.N_TRIPLES),
    Format("jsonld", ("application/ld+json", "application/json"), "jsonld", triples=RdfFormat.JSON_LD),
    Format("trig", ("application/trig", "application/x-trig"), "trig", triples=RdfFormat.TRIG),
    Format("rdfxml", ("application/rdf+xml", *_XML), "rdf", triples=RdfFormat.RDF_XML),
)
BY_NAME: Mapping[str, Format] = {each.name: each for each in FORMATS}

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
}
_QUALITY = re.compile(r"\s*([^;,\s]+)\s*((?:;[^,]*)?)")
_Q = re.compile(r";\s*q\s*=\s*([0-9.]+)", re.IGNORECASE)


class NotAcceptable(ValueError):
    """None of the formats asked for can be written. `str()` lists the ones there are."""


def media_types(kind: str | None = None) -> tuple[str, ...]:
    """The media types an answer of this kind can be sent as, best first."""
    return tuple(each.media_type for each in FORMATS if kind is None or each.writes(kind))


def named(text: str) -> dict[str, str]:
    """The format to use for each kind, by name (`csv`), alias (`ttl`) or media type. Raises NotAcceptable."""
    key = text.strip().lower().replace(" ", "+")  # a `+` in a query string arrives as a space
    names = _ALIASES.get(key) or ((key,) if key in BY_NAME else ())
    found = [BY_NAME[name] for name in names] or [each for each in FORMATS if key in each.accepts]
    if not found:
        raise NotAcceptable(f"{text!r} is not a format. Use one of {', '.join(BY_NAME)}.")
    return {kind: each.name for kind in KINDS for each in reversed(found) if each.writes(kind)}


def negotiate(accept: str | None) -> dict[str, str]:
    """The format to use for each kind under an HTTP Accept header; a kind nothing fits is left out.

    The highest q-value wins, then the more exact range, then our own order. Raises NotAcceptable when no kind is left.
    """
    if accept is None or not accept.strip():
        accept = "*/*"
    ranges: list[tuple[str, float]] = []
    for found in _QUALITY.finditer(accept):
        quality = _Q.search(found.group(2))
        try:
            ranges.append((found.group(1).lower(), min(float(quality.group(1)), 1.0) if quality else 1.0))
        except ValueError:
            continue
    chosen: dict[str, str] = {}
    for kind in KINDS:
        best: tuple[float, int] = (0.0, 0)
        for each in FORMATS:
            if each.writes(kind):
                # Only the first is what is sent: the others count when asked for by name.
                first, *others = (_match(media, ranges) for media in each.accepts)
                quality_and_exactness = max(first, *(found for found in others if found[1] == 2), (0.0, 0))
                if quality_and_exactness[0] > 0 and quality_and_exactness > best:
                    best, chosen[kind] = quality_and_exactness, each.name
    if not chosen:
        raise NotAcceptable(f"None of {accept!r} can be written. Ask for one of {', '.join(media_types())}.")
    return chosen


def _match(media: str, ranges: list[tuple[str, float]]) -> tuple[float, int]:
    """(q, exactness) the most exact matching range gives this media type: q=0 there means never."""
    best = (-1, 0.0)
    for asked, quality in ranges:
        exactness = 2 if asked == media else 1 if asked == media.split("/")[0] + "/*" else 0 if asked == "*/*" else -1
        if exactness >= 0:
            best = max(best, (exactness, quality))
    return (best[1], best[0]) if best[0] >= 0 else (0.0, 0)
