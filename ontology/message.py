"""A finding says what the value is, what was wanted and what is nearest: a person can act on it as it stands."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches

import rdflib
from rdflib.term import Node

from ontology.facts import SH
from ontology.graph import from_rdflib, shown
from ontology.locality import sh

_NAMED = re.compile(r"\{[?$](\w+)\}")


def message(
    graph: rdflib.Graph,
    shape: Node,
    component: str,
    value: str,
    path: str,
    generic: str,
    prefixes: Mapping[str, str],
) -> str:
    """What one result says: the shape's own sh:message with its `{$value}` filled in, or ours, or else `generic`."""
    written = sorted(graph.objects(shape, sh.message), key=lambda text: (_tag(text) not in ("", "en"), str(text)))
    if written:
        names = {"value": show(value, prefixes), "path": show_path(path, prefixes)}
        for predicate, wanted in graph.predicate_objects(shape):
            if str(predicate).startswith(SH) and isinstance(wanted, (rdflib.URIRef, rdflib.Literal)):
                names.setdefault(str(predicate)[len(SH) :], show(from_rdflib(wanted), prefixes))
        return _NAMED.sub(lambda found: names.get(found.group(1), found.group()), str(written[0]))
    return _ours(
        graph, shape, component.removeprefix(SH).removesuffix("ConstraintComponent"), value, path, prefixes
    ) or (generic or f"It breaks {component.removeprefix(SH)}.")


def _ours(
    graph: rdflib.Graph, shape: Node, kind: str, value: str, path: str, prefixes: Mapping[str, str]
) -> str | None:
    def wanted(name: str) -> str:
        return " and ".join(sorted(show(from_rdflib(item), prefixes) for item in graph.objects(shape, sh[name])))

    it = f"{show_path(path, prefixes)} is {show(value, prefixes)}" if path else f"It is {show(value, prefixes)}"
    where = show_path(path, prefixes)
    if kind == "MinCount":
        low = wanted("minCount")
        if path.startswith("^"):
            return f"Nothing has {show_path(path[1:], prefixes)} to it; at least {low} is wanted."
        return f"It has no {where}." if low == "1" else f"It has fewer than {low} values of {where}."
    if kind == "MaxCount":
        return f"It has more than {wanted('maxCount')} value{'' if wanted('maxCount') == '1' else 's'} of {where}."
    if kind == "Datatype":
        return f"{it}, not {wanted('datatype')}."
    if kind == "Class":
        return f"{it}, which is not known to be {wanted('class')}."
    if kind == "NodeKind":
        kinds = {"sh:IRI": "an IRI", "sh:Literal": "a literal", "sh:BlankNodeOrIRI": "a node"}
        return f"{it}, not {kinds.get(wanted('nodeKind'), wanted('nodeKind'))}."
    if kind == "In":
        options = [
            show(from_rdflib(item), prefixes) for lists in graph.objects(shape, sh["in"]) for item in graph.items(lists)
        ]
        near = get_close_matches(show(value, prefixes), options, n=1, cutoff=0.5)
        listed = ", ".join(options[:12]) + (f" or {len(options) - 12} more" if len(options) > 12 else "")
        return f"{it}, not one of {listed}." + (f" Did you mean {near[0]}?" if near else "")
    if kind == "Pattern":
        return f"{it}, which does not match {wanted('pattern').strip(chr(39))}."
    if kind in ("MinLength", "MaxLength"):
        most = kind == "MaxLength"
        size = wanted("maxLength" if most else "minLength")
        return f"{it}, which is {'longer' if most else 'shorter'} than {size} characters."
    if kind in ("MinInclusive", "MinExclusive", "MaxInclusive", "MaxExclusive"):
        limit = wanted(kind[0].lower() + kind[1:])
        words = {"MinInclusive": "at least", "MinExclusive": "more than", "MaxInclusive": "at most"}
        return f"{it}, where {words.get(kind, 'less than')} {limit} is wanted."
    if kind == "LanguageIn":
        tags = [str(item) for lists in graph.objects(shape, sh.languageIn) for item in graph.items(lists)]
        return f"{it}, which is in none of the languages {', '.join(tags)}."
    if kind == "UniqueLang":
        return f"It has more than one {where} in the same language."
    if kind == "HasValue":
        return f"{where or 'It'} {'lacks' if path else 'is not'} {wanted('hasValue')}."
    if kind == "LessThan":
        return f"{it}, which is not before {wanted('lessThan')}."
    if kind == "LessThanOrEquals":
        return f"{it}, which is after {wanted('lessThanOrEquals')}."
    if kind in ("Or", "Xone", "And"):
        several = sum(1 for lists in graph.objects(shape, sh[kind.lower()]) for _ in graph.items(lists))
        fits = {"Or": "fits none", "Xone": "does not fit exactly one", "And": "does not fit all"}[kind]
        return f"{it}, which {fits} of the {several} alternatives its shape names."
    if kind == "Not":
        return f"{it}, which is what its shape rules out."
    if kind == "Node":
        named = [show(from_rdflib(item), prefixes) for item in graph.objects(shape, sh.node)]
        fitting = " and ".join(sorted(name for name in named if "_:" not in name)) or "the shape asked of it"
        return f"{it}, which does not fit {fitting}."
    if kind in ("QualifiedMinCount", "QualifiedMaxCount"):
        least = kind == "QualifiedMinCount"
        count = wanted("qualifiedMinCount" if least else "qualifiedMaxCount")
        return f"It has {'fewer' if least else 'more'} than {count} {where} of the kind its shape asks for."
    if kind in ("Equals", "Disjoint"):
        other = wanted(kind.lower())
        return f"{it}, which {'differs from' if kind == 'Equals' else 'is also a value of'} {other}."
    if kind == "Closed":
        return f"It has {where} {show(value, prefixes)}, a property its shape does not allow."
    return None


def show(text: str, prefixes: Mapping[str, str]) -> str:
    """Spelled text as a person reads it."""
    return shown(text, dict(prefixes)) if text else "nothing"


def show_path(path: str, prefixes: Mapping[str, str]) -> str:
    """A path as a person reads it: `gt:owns`, `^gt:owns`, `gt:a/gt:b`."""
    if "<" not in path:
        return shown(path, dict(prefixes)) if path else ""
    return re.sub(r"<[^>]*>", lambda found: shown(found.group(), dict(prefixes)), path)


def path_text(graph: rdflib.Graph, path: Node | None) -> str:
    """A bare IRI for a predicate, SPARQL's path syntax with full IRIs for anything longer, "" for none."""
    if path is None:
        return ""
    return str(path) if isinstance(path, rdflib.URIRef) else _path(graph, path, 0)


def _path(graph: rdflib.Graph, path: Node, depth: int) -> str:
    if isinstance(path, rdflib.URIRef):
        return f"<{path}>"
    if depth > 10:
        return "..."
    if list(graph.objects(path, rdflib.RDF.first)):
        return "/".join(_path(graph, item, depth + 1) for item in graph.items(path))
    for name, before, after in (
        ("inversePath", "^", ""), ("zeroOrMorePath", "", "*"), ("oneOrMorePath", "", "+"), ("zeroOrOnePath", "", "?"),
    ):  # fmt: skip
        for inner in graph.objects(path, sh[name]):
            text = _path(graph, inner, depth + 1)
            return f"{before}{f'({text})' if '/' in text.replace('</', '').split('>')[-1] else text}{after}"
    for options in graph.objects(path, sh.alternativePath):
        return "(" + "|".join(_path(graph, item, depth + 1) for item in graph.items(options)) + ")"
    return "?"


def _tag(text: Node) -> str:
    return getattr(text, "language", None) or ""
