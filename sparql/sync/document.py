"""A document is one graph: what it says, its blank nodes named so that no other document's can be meant."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, RdfFormat, Triple, parse

from ontology.facts import spell_term
from sources import blank
from sparql.names import Names
from sparql.sync.edit import Refused

FORMATS = {
    "text/turtle": RdfFormat.TURTLE,
    "application/x-turtle": RdfFormat.TURTLE,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "text/plain": RdfFormat.N_TRIPLES,
    "application/rdf+xml": RdfFormat.RDF_XML,
    "application/xml": RdfFormat.RDF_XML,
    "text/xml": RdfFormat.RDF_XML,
    "application/ld+json": RdfFormat.JSON_LD,
    "application/trig": RdfFormat.TRIG,
    "application/x-trig": RdfFormat.TRIG,
    "application/n-quads": RdfFormat.N_QUADS,
    "text/x-nquads": RdfFormat.N_QUADS,
    "text/n3": RdfFormat.N3,
}
STEPS = 100_000
_PLACE = re.compile(r"line (\d+)(?:,? (?:and |between )?columns? (\d+))?")


def said(data: bytes, kind: str, base: str, names: Names | None, limit: int, *, stable: bool = False) -> set[str]:
    """The statements of a document of the media type `kind`, spelled as the store spells them.

    With `names` blank nodes are IRIs of ours, else they have labels of their own. With `stable` the same document
    has the same IRIs again: each is a hash of what its node says. Raises Refused for what cannot be read.
    """
    form = FORMATS.get(kind.partition(";")[0].strip().lower())
    if form is None:
        raise Refused("unsupported-media-type", f"{kind!r} is not RDF that is read here.")
    found: list[tuple[Any, Any, Any]] = []
    try:
        for quad in parse(data, format=form, base_iri=base):
            if not isinstance(quad.graph_name, DefaultGraph):
                raise Refused(
                    "not-a-graph", f"The document names the graph {quad.graph_name}: send one graph at a time."
                )
            found.append((quad.subject, quad.predicate, quad.object))
            if len(found) > limit:
                words = f"The document says more than update_statements ({limit:,}) statements. Send it in parts."
                raise Refused("too-many", words, limit="update_statements")
    except (SyntaxError, ValueError) as wrong:
        place = _PLACE.search(str(wrong))
        details = {"line": int(place.group(1)), "column": int(place.group(2) or 0)} if place else {}
        remote = " No context is fetched: write it into the document." if "context" in str(wrong).lower() else ""
        raise Refused("not-rdf", f"The body is not {kind.partition(';')[0]}: {wrong}{remote}", **details) from wrong
    named = _named(found, names, stable)
    cache: dict[Any, str] = {}

    def text(term: Any) -> str:
        out = cache.get(term)
        if out is None:
            out = cache[term] = _text(term, named)
        return out

    return {f"{text(s)} {text(p)} {text(o)}" for s, p, o in found}


def _text(term: Any, named: dict[str, str]) -> str:
    if isinstance(term, (NamedNode, Literal)):
        return spell_term(term)
    if isinstance(term, BlankNode):
        return named[term.value]
    return f"<<( {_text(term.subject, named)} {_text(term.predicate, named)} {_text(term.object, named)} )>>"


def _named(found: Iterable[tuple[Any, Any, Any]], names: Names | None, stable: bool) -> dict[str, str]:
    """A name for each blank node."""
    about: dict[str, list[tuple[str, str, bool]]] = {}
    simple = True
    for s, p, o in found:
        for term in (s, o):
            if isinstance(term, BlankNode):
                about.setdefault(term.value, [])
            elif isinstance(term, Triple):
                simple = False
                for node in _inside(term):
                    about.setdefault(node, [])
        if isinstance(s, BlankNode):
            other = isinstance(o, BlankNode)
            about[s.value].append((str(p), o.value if other else str(o), other))
    if not about:
        return {}
    scope = uuid.uuid4().hex
    if names is None:
        return {node: f"_:b{scope}{number:x}" for number, node in enumerate(about)}
    out = {node: f"<{names.skolem}{scope}{number:x}>" for number, node in enumerate(about)}
    if stable and simple:
        try:
            hashed, _ = blank.names(about, lambda digest: digest, STEPS)
        except blank.TooSymmetric:
            return out
        taken: dict[str, int] = {}
        for node in about:
            digest = hashed.get(node)
            if digest is not None:  # two that say the same are still two
                taken[digest] = taken.get(digest, 0) + 1
                out[node] = f"<{names.skolem}{digest}{'' if taken[digest] == 1 else f'-{taken[digest]}'}>"
    return out


def _inside(term: Triple) -> Iterable[str]:
    for one in (term.subject, term.object):
        if isinstance(one, BlankNode):
            yield one.value
        elif isinstance(one, Triple):
            yield from _inside(one)
