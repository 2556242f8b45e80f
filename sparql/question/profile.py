"""What can be asked of a graph is what its data says, called what its vocabulary calls it, bounded by its shapes.

A term is in the profile when data uses it, or when it is declared in a vocabulary that data uses a term of. Classes of
RDF, OWL and SHACL, whose instances are vocabulary and shapes, are not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from pyoxigraph import Literal, NamedNode

from sparql.index.folding import humps
from sparql.question.answer import Graph, Row
from sparql.question.schema import Class, Named, Property, Range, Schema, Use

RDF, RDFS, OWL, SH, SKOS, XSD = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#",
    "http://www.w3.org/2002/07/owl#", "http://www.w3.org/ns/shacl#", "http://www.w3.org/2004/02/skos/core#",
    "http://www.w3.org/2001/XMLSchema#",
)  # fmt: skip
GT = "https://w3id.org/graphtide/ns#"
LANGUAGE = "en"
TOP, FEW = 8, 60
"""How many common values are kept of a property, and up to how many distinct ones all are."""
MOST_USES, MOST_TERMS, MOST_CHARACTERS = 5_000, 5_000, 300
SECONDS = 60.0
_MACHINERY = (RDF, RDFS, OWL, SH)
_SCHEMA = "https://schema.org/"
_LABELS = (f"{RDFS}label", f"{SKOS}prefLabel", f"{_SCHEMA}name")
_OTHERS = (f"{SKOS}altLabel", f"{SKOS}hiddenLabel", f"{_SCHEMA}alternateName")
_WORDS = (f"{RDFS}comment", f"{SKOS}definition", "http://purl.org/dc/terms/description", f"{_SCHEMA}description")
_SAYS = (f"{RDFS}domain", f"{RDFS}range", f"{OWL}inverseOf", f"{RDFS}subClassOf", f"{RDFS}subPropertyOf")
_KINDS = frozenset({f"{RDFS}Class", f"{OWL}Class"})
_PREDICATES = frozenset(
    {f"{RDF}Property", f"{OWL}ObjectProperty", f"{OWL}DatatypeProperty", f"{OWL}AnnotationProperty"}
)
_TAIL = re.compile(r"[^/#:]+(?=[/#]*\Z)")

# The instances of classes that are no machinery, and not our own terms.
_OF = f"""?s a ?c FILTER(isIRI(?c) && !STRSTARTS(STR(?c), "{RDF}") && !STRSTARTS(STR(?c), "{RDFS}")
  && !STRSTARTS(STR(?c), "{OWL}") && !STRSTARTS(STR(?c), "{SH}")
  && !STRSTARTS(STR(?s), "{GT}"))"""
CLASSES = f"SELECT ?c (COUNT(DISTINCT ?s) AS ?n) {{ {_OF} }} GROUP BY ?c"
PROPERTIES = "SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p"
USES = f"""SELECT ?c ?p (COUNT(*) AS ?n) (COUNT(DISTINCT ?s) AS ?k) (COUNT(DISTINCT ?o) AS ?d) {{ {_OF} ?s ?p ?o }}
GROUP BY ?c ?p"""
MOST = f"""SELECT ?c ?p (MAX(?k) AS ?most) {{
  {{ SELECT ?c ?p ?s (COUNT(?o) AS ?k) {{ {_OF} ?s ?p ?o }} GROUP BY ?c ?p ?s }} }} GROUP BY ?c ?p"""
LITERALS = f"""SELECT ?c ?p ?r (COUNT(*) AS ?n) {{ {_OF} ?s ?p ?o FILTER(isLiteral(?o)) BIND(DATATYPE(?o) AS ?r) }}
GROUP BY ?c ?p ?r"""
LINKS = f"SELECT ?c ?p ?r (COUNT(*) AS ?n) {{ {_OF} ?s ?p ?o . ?o a ?r }} GROUP BY ?c ?p ?r"
SHAPES = f"""PREFIX sh: <{SH}> SELECT ?c ?p (MAX(?least) AS ?min) (MIN(?greatest) AS ?max) {{
  {{ ?shape sh:targetClass ?c }} UNION {{ ?shape a sh:NodeShape, <{RDFS}Class> BIND(?shape AS ?c) }}
  UNION {{ ?shape a sh:NodeShape, <{OWL}Class> BIND(?shape AS ?c) }}
  ?shape sh:property ?one . ?one sh:path ?p FILTER(isIRI(?p))
  OPTIONAL {{ ?one sh:minCount ?least }} OPTIONAL {{ ?one sh:maxCount ?greatest }} }} GROUP BY ?c ?p"""
ALLOWED = f"""PREFIX sh: <{SH}> PREFIX rdf: <{RDF}> SELECT DISTINCT ?c ?p ?v {{
  {{ ?shape sh:targetClass ?c }} UNION {{ ?shape a sh:NodeShape, <{RDFS}Class> BIND(?shape AS ?c) }}
  UNION {{ ?shape a sh:NodeShape, <{OWL}Class> BIND(?shape AS ?c) }}
  ?shape sh:property ?one . ?one sh:path ?p ; sh:in/rdf:rest*/rdf:first ?v }}"""
DECLARED = "SELECT ?t ?k {{ VALUES ?k {{ {kinds} }} ?t a ?k FILTER(isIRI(?t)) }}"
SAID = "SELECT ?t ?p ?o {{ VALUES ?p {{ {properties} }} ?t ?p ?o }}"


@dataclass
class _Term:
    """What is said of one term while the profile is made."""

    labels: list[tuple[int, int, str]] = field(default_factory=list)
    synonyms: list[str] = field(default_factory=list)
    description: tuple[int, str] = (9, "")
    says: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def schema_of(graph: Graph, *, prefixes: Mapping[str, str] | None = None) -> Schema:
    """The profile of the graph, counted whole. Raises QueryFailed as the graph does."""
    counted = graph.query(CLASSES, seconds=SECONDS, rows=MOST_TERMS)
    classes = {_iri(row[0]): _number(row[1]) for row in counted.rows}
    every = {_iri(row[0]): _number(row[1]) for row in _rows(graph, PROPERTIES, MOST_TERMS)}
    uses = _uses(graph, classes)
    used = {one.property for one in uses}
    wanted = {*classes, *used}
    theirs = {namespace(iri) for iri in wanted} - {*_MACHINERY, f"{SKOS}", "http://www.w3.org/ns/prov#"}
    kinds = " ".join(f"<{one}>" for one in sorted({*_KINDS, *_PREDICATES}))
    extra_classes, extra_properties = set[str](), set[str]()
    for row in _rows(graph, DECLARED.format(kinds=kinds), MOST_TERMS):
        term, kind = _iri(row[0]), _iri(row[1])
        if namespace(term) in theirs:
            (extra_classes if kind in _KINDS else extra_properties).add(term)
    told = _told(graph)
    properties = {one for one in {*used, *extra_properties} if not one.startswith((RDF, SH))}
    return Schema(
        counted.epoch,
        {
            iri: Class(_named(iri, told), classes.get(iri, 0), _above(iri, told, f"{RDFS}subClassOf"))
            for iri in sorted({*classes, *extra_classes})
        },
        {
            iri: Property(
                _named(iri, told),
                every.get(iri, 0),
                _above(iri, told, f"{RDFS}domain"),
                _above(iri, told, f"{RDFS}range"),
                _above(iri, told, f"{RDFS}subPropertyOf"),
                next(iter(_above(iri, told, f"{OWL}inverseOf")), None),
            )
            for iri in sorted(properties)
        },
        uses,
        dict(prefixes or {}),
    )


def _uses(graph: Graph, classes: Mapping[str, int]) -> tuple[Use, ...]:
    key = tuple[str, str]
    counts: dict[key, tuple[int, int, int]] = {}
    for row in _rows(graph, USES, MOST_USES):
        if _iri(row[1]) != f"{RDF}type":
            counts[_iri(row[0]), _iri(row[1])] = (_number(row[2]), _number(row[3]), _number(row[4]))
    most = {(_iri(row[0]), _iri(row[1])): _number(row[2]) for row in _rows(graph, MOST, MOST_USES)}
    ranges: dict[key, list[Range]] = defaultdict(list)
    for query, literal in ((LITERALS, True), (LINKS, False)):
        for row in _rows(graph, query, MOST_USES):
            if row[2] is not None:
                ranges[_iri(row[0]), _iri(row[1])].append(Range(_iri(row[2]), literal, _number(row[3])))
    bounds = {(_iri(row[0]), _iri(row[1])): (_maybe(row[2]), _maybe(row[3])) for row in _rows(graph, SHAPES, MOST_USES)}
    allowed: dict[key, list[str]] = defaultdict(list)
    for row in _rows(graph, ALLOWED, MOST_USES):
        allowed[_iri(row[0]), _iri(row[1])].append(str(row[2]))
    top: dict[key, tuple[tuple[str, int], ...]] = {}
    for pair, (_, _, distinct) in counts.items():
        if any(one.literal for one in ranges[pair]):
            top[pair] = _top(graph, pair, FEW if distinct <= FEW else TOP)
    found = []
    for pair in sorted({*counts, *(pair for pair in {*bounds, *allowed} if pair[0] in classes)}):
        statements, subjects, distinct = counts.get(pair, (0, 0, 0))
        least, greatest = bounds.get(pair, (None, None))
        kinds = sorted(ranges[pair], key=lambda one: (-one.statements, one.iri))
        found.append(
            Use(pair[0], pair[1], statements, subjects, distinct, most.get(pair, 0), tuple(kinds),
                tuple(sorted(allowed[pair])), top.get(pair, ()), least, greatest)
        )  # fmt: skip
    return tuple(found)


def _top(graph: Graph, pair: tuple[str, str], many: int) -> tuple[tuple[str, int], ...]:
    class_, property = (str(NamedNode(one)) for one in pair)
    text = (
        f"SELECT ?o (COUNT(*) AS ?n) {{ ?s a {class_} ; {property} ?o FILTER(isLiteral(?o) && STRLEN(STR(?o)) <= 80) }}"
        f" GROUP BY ?o ORDER BY DESC(?n) ?o LIMIT {many}"
    )
    return tuple((str(row[0]), _number(row[1])) for row in _rows(graph, text, many))


def _told(graph: Graph) -> dict[str, _Term]:
    """What terms are called and what is said of them, for all that anything is called."""
    told: dict[str, _Term] = defaultdict(_Term)
    for row in _said(graph, (*_SAYS,)):
        if isinstance(row[2], NamedNode):
            told[_iri(row[0])].says[_iri(row[1])].append(row[2].value)
    # What instances are called is no part of the profile: only terms that are declared are asked for.
    kinds = " ".join(f"<{one}>" for one in sorted({*_KINDS, *_PREDICATES}))
    names = " ".join(f"<{one}>" for one in (*_LABELS, *_OTHERS, *_WORDS))
    text = f"SELECT DISTINCT ?t ?p ?o {{ VALUES ?k {{ {kinds} }} ?t a ?k . VALUES ?p {{ {names} }} ?t ?p ?o }}"
    for row in _rows(graph, text, 10 * MOST_TERMS):
        subject, property, value = row
        if not isinstance(value, Literal) or not isinstance(subject, NamedNode):
            continue
        one, words = told[subject.value], value.value.strip()[:MOST_CHARACTERS]
        tongue = 0 if (value.language or LANGUAGE).partition("-")[0] == LANGUAGE else 1
        said = _iri(property)
        if said in _LABELS:
            one.labels.append((tongue, _LABELS.index(said), words))
        elif said in _OTHERS:
            one.synonyms.append(words)
        elif (_WORDS.index(said) + 10 * tongue, words) < one.description:
            one.description = (_WORDS.index(said) + 10 * tongue, words)
    return told


def _said(graph: Graph, properties: Iterable[str]) -> Iterator[Row]:
    named = " ".join(f"<{one}>" for one in properties)
    yield from _rows(graph, SAID.format(properties=named), 10 * MOST_TERMS)


def _named(iri: str, told: Mapping[str, _Term]) -> Named:
    one = told.get(iri) or _Term()
    labels = [text for _, _, text in sorted(one.labels)]
    label = labels[0] if labels else words(iri)
    rest = dict.fromkeys([*labels[1:], *sorted(one.synonyms)])
    rest.pop(label, None)
    return Named(iri, label, tuple(rest), one.description[1])


def words(iri: str) -> str:
    """The last part of an IRI as a person would write it: `hasManager` is `has manager`."""
    found = _TAIL.search(iri)
    tail = unquote(found.group()) if found else iri
    return " ".join(humps(tail.replace("_", " ").replace("-", " ")).split()).lower()


def namespace(iri: str) -> str:
    """The IRI up to its last part."""
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]


def _above(iri: str, told: Mapping[str, _Term], property: str) -> tuple[str, ...]:
    one = told.get(iri)
    return tuple(sorted(set(one.says[property]) - {iri})) if one is not None and property in one.says else ()


def _rows(graph: Graph, text: str, most: int) -> tuple[Row, ...]:
    return graph.query(text, seconds=SECONDS, rows=most).rows


def _iri(term: object) -> str:
    return term.value if isinstance(term, NamedNode) else str(term)


def _number(term: object) -> int:
    return int(float(term.value)) if isinstance(term, Literal) else 0


def _maybe(term: object) -> int | None:
    return _number(term) if isinstance(term, Literal) else None
