"""An instance's IRI is its kind and key under the base, percent-encoded: the same key always spells the same IRI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from pyoxigraph import NamedNode

from ontology import facts

DEFAULT_BASE = "http://localhost:8000/"
WELL_KNOWN: Mapping[str, str] = {
    "gt": facts.GT,
    "rdf": facts.RDF,
    "rdfs": facts.RDFS,
    "xsd": facts.XSD,
    "sh": facts.SH,
    "prov": facts.PROV,
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "org": "http://www.w3.org/ns/org#",
    "doap": "http://usefulinc.com/ns/doap#",
    "schema": "https://schema.org/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "geo": "http://www.opengis.net/ont/geosparql#",
}
"""Prefixes that need no declaration."""

# What a path segment may hold unescaped; the same set as record graphs have (test_mapping_iri compares them).
_SAFE = "-._~!$'()*+,;=:@"
_PLAIN = re.compile(r"[A-Za-z0-9._~!$'()*+,;=:@-]+\Z")
_SCHEMES = frozenset(
    ("http", "https", "urn", "mailto", "tel", "did", "tag", "info", "doi", "file", "ftp", "git", "ssh", "arn", "data")
)
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_FIELD = re.compile(r"\{([^{}]*)\}")
_base: ContextVar[str] = ContextVar("base", default=DEFAULT_BASE)


class Namespace:
    """Terms of a vocabulary as attributes: `GT.Service`, `GT["dependsOn"]`."""

    def __init__(self, iri: str) -> None:
        self._iri = iri

    def __getattr__(self, name: str) -> NamedNode:
        if name.startswith("__"):
            raise AttributeError(name)
        return _node(self._iri + name)

    def __getitem__(self, name: str) -> NamedNode:
        return _node(self._iri + name)

    def __str__(self) -> str:
        return self._iri


@lru_cache(maxsize=16384)
def _node(text: str) -> NamedNode:
    return NamedNode(text)


A = NamedNode(facts.RDF + "type")
GT = Namespace(facts.GT)
RDF = Namespace(facts.RDF)
RDFS = Namespace(facts.RDFS)
XSD = Namespace(facts.XSD)
PROV = Namespace(facts.PROV)
SKOS = Namespace(WELL_KNOWN["skos"])
SCHEMA = Namespace(WELL_KNOWN["schema"])
DCTERMS = Namespace(WELL_KNOWN["dcterms"])


class TemplateError(ValueError):
    """A template or compact name that cannot be understood; `str()` says why."""


class Missing(ValueError):
    """A field a template needs is empty in this record; `field` names it."""

    def __init__(self, field: str) -> None:
        self.field = field
        super().__init__(f"{field!r} is empty")


@lru_cache(maxsize=65536)
def segment(value: str) -> str:
    """`value` as one percent-encoded path segment."""
    return value if _PLAIN.match(value) else quote(value, safe=_SAFE)


def iri(kind: str, *keys: Any) -> NamedNode:
    """`{base}{kind}/{key}/{key}`: the base is the one of the mapping being run.

    Raises Missing when a key is None or empty.
    """
    parts = [segment(kind)]
    for key in keys:
        if key is None or key == "":
            raise Missing(f"the key of {kind}")
        parts.append(segment(str(key)))
    return NamedNode(_base.get() + "/".join(parts))


@contextmanager
def under(base: str) -> Iterator[None]:
    """Within, `iri` mints under `base`."""
    token = _base.set(base)
    try:
        yield
    finally:
        _base.reset(token)


def record_graph(base: str, source: str, key: str) -> str:
    """The IRI of the record graph, as `sparql.names.Names.record` has it."""
    return f"{base}record/{segment(source)}/{segment(key)}"


def expand(name: str, prefixes: Mapping[str, str]) -> str:
    """A compact name (`gt:Service`) or absolute IRI as a full IRI. Raises TemplateError naming the prefix."""
    text = name[1:-1] if name.startswith("<") and name.endswith(">") else name
    if text == "a":
        return facts.RDF + "type"
    prefix, colon, local = text.partition(":")
    if not colon:
        raise TemplateError(f"{name!r} is neither prefix:name nor an absolute IRI")
    if prefix in prefixes:
        text = prefixes[prefix] + local
    elif prefix in WELL_KNOWN:
        text = WELL_KNOWN[prefix] + local
    elif prefix.lower() not in _SCHEMES and not local.startswith("//"):
        raise TemplateError(f"{name!r} has the prefix {prefix!r}, which is not declared under [prefixes]")
    try:
        return NamedNode(text).value
    except ValueError as wrong:
        raise TemplateError(f"{name!r} is not a usable IRI ({wrong})") from wrong


def template(text: str, base: str, prefixes: Mapping[str, str]) -> tuple[list[str], list[tuple[str, bool]]]:
    """`text` as literal pieces and the fields between them: `len(pieces) == len(fields) + 1`.

    A field is `{name}`, percent-encoded as one segment, or `{+name}`, put in as it is. The result starts with a
    scheme, with a declared prefix expanded, or else with `base`. Raises TemplateError.
    """
    found = _FIELD.split(text)
    pieces, names = found[0::2], found[1::2]
    if any("{" in piece or "}" in piece for piece in pieces):
        raise TemplateError(f"{text!r} has a brace that does not close")
    if any(not name.strip("+ ") for name in names):
        raise TemplateError(f"{text!r} has an empty field {{}}: name a column, or {{@key}} for the record's key")
    fields = [(name.lstrip("+"), name.startswith("+")) for name in names]
    head = _ABSOLUTE.match(pieces[0])
    if head is None:
        if not (pieces[0] == "" and fields and fields[0][1]):
            pieces[0] = base + pieces[0].lstrip("/")
    elif head.group(1) in prefixes or head.group(1) in WELL_KNOWN:
        known = prefixes.get(head.group(1)) or WELL_KNOWN[head.group(1)]
        pieces[0] = known + pieces[0][head.end() :]
    elif head.group(1).lower() not in _SCHEMES and not pieces[0][head.end() :].startswith("//"):
        raise TemplateError(f"{text!r} has the prefix {head.group(1)!r}, which is not declared under [prefixes]")
    if pieces[0]:
        try:
            NamedNode("x".join(pieces))
        except ValueError as wrong:
            raise TemplateError(f"{text!r} does not make an IRI ({wrong})") from wrong
    return pieces, fields
