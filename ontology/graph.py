"""Turtle is read by the store's parser and handed to rdflib term by term, so that both mean the same literals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import rdflib
from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse
from rdflib.term import Node

from ontology.facts import SHORT, XSD, literal, spell_term, string

_PLACE = re.compile(r"^Parser error (?:at|between) line .*?: ")
_RDF_STRING = rdflib.URIRef(XSD + "string")


class TurtleError(ValueError):
    """A file that is not what it should be: `path`, `reason`, and `line` where the parser knows it."""

    def __init__(self, path: str, reason: str, line: int | None = None) -> None:
        self.path, self.reason, self.line = path, reason, line
        super().__init__(f"{path}{'' if line is None else f':{line}'}: {reason}")


def read_turtle(path: Path) -> list[Triple]:
    """The triples of one Turtle file. Raises TurtleError naming the line."""
    return parse_turtle(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The file as text. Raises TurtleError when it cannot be read or is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as wrong:
        raise TurtleError(str(path), f"it cannot be read ({wrong.strerror}).") from wrong
    except UnicodeDecodeError as wrong:
        raise TurtleError(str(path), f"it is not UTF-8 (byte {wrong.start}). Save it as UTF-8.") from wrong


def parse_turtle(text: str, name: str) -> list[Triple]:
    """The triples of Turtle text. Raises TurtleError naming `name` and line."""
    return parse_prefixed(text, name)[0]


def parse_prefixed(text: str, name: str) -> tuple[list[Triple], dict[str, str]]:
    """The triples of Turtle text and its prefixes. Raises TurtleError naming `name` and line."""
    try:
        parser = parse(text, format=RdfFormat.TURTLE)
        triples = [quad.triple for quad in parser]
        return triples, {prefix: space for prefix, space in parser.prefixes.items() if prefix}
    except SyntaxError as wrong:
        reason = _PLACE.sub("", str(wrong.msg or wrong)).strip().rstrip(".")
        raise TurtleError(name, f"it is not Turtle: {reason}.", wrong.lineno) from wrong


def to_rdflib(term: NamedNode | BlankNode | Literal, scope: str = "") -> Node:
    """A term as rdflib has it, literals spelled as the store spells them; `scope` keeps blank nodes of files apart."""
    if isinstance(term, NamedNode):
        return rdflib.URIRef(term.value)
    if isinstance(term, BlankNode):
        return rdflib.BNode(scope + term.value)
    return text_to_rdflib(spell_term(term))


def spelled(term: NamedNode | BlankNode | Literal) -> str:
    """A term that comes out of a store, which has spelled it, as text."""
    return str(term)


def text_to_rdflib(text: str) -> Node:
    """Spelled N-Triples text as an rdflib term; what it spells is kept as it is."""
    return _term(text) if len(text) <= SHORT else _term.__wrapped__(text)


@lru_cache(maxsize=32768)
def _term(text: str) -> Node:
    if text[0] == "<":
        return rdflib.URIRef(text[1:-1])
    if text[0] == "_":
        return rdflib.BNode(text[2:])
    lexical, language, datatype = parts(text)
    if language is not None:
        # rdflib knows no base direction (`en--rtl`): its shapes see the language alone.
        return rdflib.Literal(lexical, lang=language.partition("--")[0], normalize=False)
    if datatype == XSD + "string":
        return rdflib.Literal(lexical)
    return rdflib.Literal(lexical, datatype=rdflib.URIRef(datatype), normalize=False)


def parts(text: str) -> tuple[str, str | None, str]:
    """(lexical form, language or None, datatype) of a spelled literal."""
    end = text.rindex('"')
    raw, tail = text[1:end], text[end + 1 :]
    lexical = raw if "\\" not in raw else _unescaped(text)
    if tail.startswith("@"):
        return lexical, tail[1:], "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString"
    return lexical, None, tail[3:-1] if tail else XSD + "string"


def _unescaped(text: str) -> str:
    line = f"<urn:x> <urn:x> {text} ."
    found = next(iter(parse(line, format=RdfFormat.N_TRIPLES))).object
    assert isinstance(found, Literal)
    return found.value


def from_rdflib(node: Node) -> str:
    """An rdflib term as spelled N-Triples text; a blank node as `_:name`."""
    if isinstance(node, rdflib.Literal):
        if node.language:
            return string(str(node), node.language)
        if node.datatype is None or node.datatype == _RDF_STRING:
            return string(str(node))
        return literal(str(node), str(node.datatype))
    if isinstance(node, rdflib.BNode):
        return f"_:{node}"
    return f"<{node}>"


def to_oxigraph(node: Node | None) -> NamedNode | Literal | BlankNode | None:
    """An rdflib term as the store has it."""
    if node is None:
        return None
    if isinstance(node, rdflib.Literal):
        if node.language:
            return Literal(str(node), language=str(node.language).lower())
        if node.datatype is None:
            return Literal(str(node))
        return Literal(str(node), datatype=NamedNode(str(node.datatype)))
    if isinstance(node, rdflib.BNode):
        return BlankNode(str(node))
    return NamedNode(str(node))


def graph_of(triples: Iterable[Triple], scope: str = "") -> Iterator[tuple[Node, Node, Node]]:
    """Triples as rdflib tuples."""
    for triple in triples:
        yield (
            to_rdflib(triple.subject, scope),  # type: ignore[arg-type]
            rdflib.URIRef(triple.predicate.value),
            to_rdflib(triple.object, scope),  # type: ignore[arg-type]
        )


PREFIXES = {
    "gt": "https://w3id.org/graphtide/ns#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": XSD,
    "sh": "http://www.w3.org/ns/shacl#",
    "prov": "http://www.w3.org/ns/prov#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "https://schema.org/",
}


def shown(text: str, prefixes: dict[str, str] | None = None) -> str:
    """Spelled text as a person reads it: `shop:tier`, `'abc'`, `12`."""
    if text.startswith("<"):
        text = text[1:-1]
    elif text.startswith('"'):
        lexical, language, datatype = parts(text)
        if datatype in (XSD + "integer", XSD + "decimal", XSD + "double", XSD + "boolean"):
            return lexical
        cut = lexical if len(lexical) <= 100 else f"{lexical[:90]}... ({len(lexical)} characters)"
        return f"{cut!r}" + (f"@{language}" if language else "")
    for prefix, namespace in {**PREFIXES, **(prefixes or {})}.items():
        if text.startswith(namespace) and "/" not in text[len(namespace) :] and len(text) > len(namespace):
            return f"{prefix}:{text[len(namespace) :]}"
    return f"<{text}>"
