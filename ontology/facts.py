"""Facts are ground statements, spelled as the store spells them, so that equal facts are equal text.

A statement is the N-Triples text `<s> <p> <o>` without the final dot. Text, not term objects, is what is compared,
logged and written: making a term object costs 2.5 us a triple here, the text 0.2 us, and both sides of every
seam (bulk load, update, change log, golden files) are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"
SH = "http://www.w3.org/ns/shacl#"
PROV = "http://www.w3.org/ns/prov#"
GT = "https://w3id.org/graphtide/ns#"

_PLAIN_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z")
# Canonical N-Triples escapes, exactly those pyoxigraph writes (test_facts_spelling walks all of Unicode's odd corners).
_ESCAPES = {chr(n): f"\\u{n:04X}" for n in (*range(0x20), 0x7F, 0xFFFE, 0xFFFF)}
_ESCAPES |= {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_ESCAPE = re.compile('[\x00-\x1f"\\\\\x7f\ufffe\uffff]')
_SURROGATE = re.compile("[\ud800-\udfff]")
awkward = re.compile(f"{_ESCAPE.pattern[:-1]}{_SURROGATE.pattern[1:]}").search
"""Finds what keeps a text from being a literal just by quotes around it."""
SHORT = 200
"""Texts up to this length are worth remembering; long ones rarely repeat and would fill memory."""
_STATEMENT = re.compile(r'(<[^>]*>) (<[^>]*>) (<[^>]*>|"(?:[^"\\]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^>]*>)?)\Z', re.DOTALL)


class FactsError(ValueError):
    """A statement that cannot be a fact: a blank node, a bad IRI, a subject that is a literal."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What one record says: `statements` are ground and spelled; `record` is the IRI of its record graph."""

    record: str
    statements: frozenset[str]
    locator: str

    @property
    def triples(self) -> frozenset[Triple]:
        """The same as term objects."""
        return frozenset(triples(self.statements))


def iri(text: str) -> str:
    """`text` as an N-Triples IRI. Raises FactsError when it is not an absolute IRI."""
    try:
        return str(NamedNode(text))
    except ValueError as wrong:
        raise FactsError(f"{text!r} is not an absolute IRI ({wrong}).") from wrong


def string(value: str, language: str | None = None) -> str:
    """`value` as an N-Triples string, with its language tag as the store writes it (lower case).

    Raises FactsError for a lone surrogate, which no store can hold.
    """
    if awkward(value) is None:
        escaped = f'"{value}"'
    elif _SURROGATE.search(value):
        raise FactsError(f"{value!r} holds a lone surrogate: it is half a character.")
    else:
        escaped = '"' + _ESCAPE.sub(_escaped, value) + '"'
    return escaped if language is None else f"{escaped}@{language.lower()}"


def _escaped(found: re.Match[str]) -> str:
    return _ESCAPES[found.group()]


def literal(value: str, datatype: str) -> str:
    """`value` typed, spelled as the store hands it back (`"007"^^xsd:integer` is 7).

    Raises FactsError for a lone surrogate or a datatype that is not an IRI.
    """
    if datatype == XSD + "string":
        return string(value)
    if datatype == XSD + "integer" and _PLAIN_INTEGER.match(value):
        return f'"{value}"^^<{XSD}integer>'
    return _spelled(value, datatype) if len(value) <= SHORT else _spelled.__wrapped__(value, datatype)


@lru_cache(maxsize=65536)
def _spelled(value: str, datatype: str) -> str:
    try:
        return str(_through_a_store(Literal(value, datatype=NamedNode(datatype))))
    except (ValueError, TypeError) as wrong:
        raise FactsError(f"{value!r} of type {datatype!r} cannot be a literal ({wrong}).") from wrong


def _through_a_store(term: Literal) -> Literal:
    # The store itself is the only authority on its spelling (test_spelling): 8 us, cached.
    store, node = Store(), NamedNode("urn:x")  # a new one each time: no state between threads
    store.add(Quad(node, node, term))
    found = next(iter(store)).object
    assert isinstance(found, Literal)
    return found


def spell_term(term: NamedNode | Literal) -> str:
    """A term object as spelled N-Triples text."""
    if isinstance(term, NamedNode):
        return str(term)
    if term.language is not None:
        return str(term)  # pyoxigraph lowers the tag when it makes the term
    if term.datatype.value == XSD + "string":
        return str(term)
    return literal(term.value, term.datatype.value)


def statement(triple: Triple) -> str:
    """A triple object as a spelled statement. Raises FactsError for blank nodes, triple terms and no triple."""
    if not isinstance(triple, Triple):
        raise FactsError(f"{triple!r:.80} is not a Triple. Give pyoxigraph's Triple(subject, predicate, value).")
    subject, predicate, value = triple.subject, triple.predicate, triple.object
    if not isinstance(subject, NamedNode) or not isinstance(value, (NamedNode, Literal)):
        raise FactsError(f"{triple} is not ground: give every node an IRI made from a stable key.")
    return f"{spell_term(subject)} {spell_term(predicate)} {spell_term(value)}"


def split(text: str) -> tuple[str, str, str]:
    """The three terms of a statement, as text. Raises FactsError when it is not one."""
    found = _STATEMENT.match(text)
    if found is None:
        raise FactsError(f"{text!r} is not a statement.")
    return found.group(1), found.group(2), found.group(3)


def triples(statements: Iterable[str]) -> Iterator[Triple]:
    """Statements as term objects, in the order given."""
    text = "".join(line + " .\n" for line in statements)
    for quad in parse(text, format=RdfFormat.N_TRIPLES):
        yield quad.triple
