"""A term is checked against the vocabulary that owns its namespace; a namespace nobody owns is nobody's to check."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from pyoxigraph import Literal, NamedNode, Triple

from ontology.facts import GT, PROV, RDF, RDFS, SH, XSD, Facts
from ontology.graph import parse_prefixed, read_text, shown
from ontology.violation import INFO, VIOLATION, Violation

OWL = "http://www.w3.org/2002/07/owl#"
UNKNOWN_TERM = GT + "UnknownTerm"
"""The constraint of a Violation about a term its namespace's vocabulary does not have."""
UNOWNED_TERM = GT + "UnownedNamespace"
"""The constraint of the Info about a namespace no loaded vocabulary owns."""

BUILTIN = Path(__file__).with_name("graphtide.ttl")
RULES = "1"

STANDARD = (
    RDF, RDFS, OWL, XSD, SH, PROV,
    "http://www.w3.org/2004/02/skos/core#",
    "http://www.w3.org/ns/org#",
    "http://usefulinc.com/ns/doap#",
    "https://schema.org/",
    "http://schema.org/",
    "http://www.w3.org/ns/dcat#",
    "http://purl.org/dc/terms/",
    "http://purl.org/dc/elements/1.1/",
    "http://xmlns.com/foaf/0.1/",
    "http://rdfs.org/ns/void#",
    "http://purl.org/vocab/vann/",
    "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "http://www.opengis.net/ont/geosparql#",
    "http://www.w3.org/2006/time#",
    "http://www.w3.org/2006/vcard/ns#",
    "http://creativecommons.org/ns#",
)  # fmt: skip
"""Namespaces anyone may use without a word: public, stable, and not loaded to be checked."""

_DECLARING = frozenset(
    [f"{RDFS}{name}" for name in ("Class", "Datatype")]
    + [f"{RDF}Property"]
    + [
        f"{OWL}{name}"
        for name in ("Class", "ObjectProperty", "DatatypeProperty", "AnnotationProperty", "Ontology",
                     "FunctionalProperty", "InverseFunctionalProperty", "TransitiveProperty", "SymmetricProperty",
                     "NamedIndividual", "DeprecatedClass", "DeprecatedProperty")
    ]
    + [f"{SH}NodeShape", f"{SH}PropertyShape", "http://www.w3.org/2004/02/skos/core#Concept",
       "http://www.w3.org/2004/02/skos/core#ConceptScheme"]
)  # fmt: skip
_SAYS_TERM = frozenset(f"{RDFS}{name}" for name in ("subPropertyOf", "domain", "range", "isDefinedBy"))
_TYPE = f"<{RDF}type>"


@dataclass(frozen=True)
class Vocabulary:
    """The terms of the loaded vocabularies, the namespaces they own, and how their classes and properties stand."""

    terms: frozenset[str]
    namespaces: frozenset[str]
    labels: dict[str, str]
    prefixes: dict[str, str]
    superclasses: dict[str, frozenset[str]]
    """Of each class all classes above it, itself included."""
    version: str
    closed: bool = False
    open_namespaces: tuple[str, ...] = ()
    """Namespaces whose terms declare themselves, such as `{base}def/` of directly mapped tables."""
    _known: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def load(
        cls,
        paths: Sequence[Path | str] = (),
        builtin: bool = True,
        closed: bool = False,
        *,
        open_namespaces: Iterable[str] = (),
    ) -> Vocabulary:
        """The vocabularies in these Turtle files, ours included unless `builtin` is off.

        Raises TurtleError naming file, line and reason.
        """
        files = ([BUILTIN] if builtin else []) + [Path(path) for path in paths]
        texts = [(str(path), read_text(path)) for path in files]
        read = _Read()
        for name, text in texts:
            triples, prefixes = parse_prefixed(text, name)
            read.add(triples)
            read.prefixes.update(prefixes)
        opened = tuple(sorted(open_namespaces))
        digest = hashlib.sha256(repr([RULES, closed, opened, *sorted(text for _, text in texts)]).encode())
        return cls(
            terms=frozenset(read.terms),
            namespaces=frozenset(read.namespaces),
            labels=read.labels,
            prefixes=read.prefixes,
            superclasses={name: frozenset(_closure(name, read.above)) for name in read.above},
            version=digest.hexdigest()[:32],
            closed=closed,
            open_namespaces=opened,
        )

    def owns(self, iri: str) -> bool:
        """Whether a loaded vocabulary owns the term's namespace."""
        return namespace_of(iri) in self.namespaces

    def check(self, facts: Facts) -> list[Violation]:
        """Every class and property these facts use that its namespace's vocabulary does not have.

        A term of a namespace nobody owns is an Info (a Violation when closed), one a namespace. Sorted.
        """
        out: dict[tuple[str, str], Violation] = {}
        for statement in facts.statements:
            subject, predicate, value = statement.split(" ", 2)
            if predicate == _TYPE:
                self._note(value, subject, "class", facts, out)
            else:
                self._note(predicate, subject, "property", facts, out)
        return [out[key] for key in sorted(out)]

    def nearest(self, iri: str) -> list[str]:
        """Up to three terms of the same namespace whose names are nearest."""
        space = namespace_of(iri)
        names = sorted(term[len(space) :] for term in self.terms if term.startswith(space) and term != space)
        name = iri[len(space) :]
        lowered = {other.lower(): other for other in names}
        near = get_close_matches(name.lower(), list(lowered), n=3, cutoff=0.5)
        return [space + lowered[other] for other in near]

    def _note(self, term: str, subject: str, what: str, facts: Facts, out: dict[tuple[str, str], Violation]) -> None:
        verdict = self._known.get(term, "")
        if verdict == "":
            verdict = self._verdict(term, what)
            if len(self._known) < 100_000:
                self._known[term] = verdict
        if verdict is None:
            return
        kind, _, message = verdict.partition("|")
        severity = INFO if kind == UNOWNED_TERM and not self.closed else VIOLATION
        key = (message, "" if severity == INFO else term)
        focus = subject[1:-1]
        if key not in out or focus < out[key].focus:
            path = "" if what == "class" else term[1:-1]
            out[key] = Violation(
                record=facts.record,
                focus=focus,
                path=path or RDF + "type",
                value=term,
                constraint=kind,
                severity=severity,
                message=message,
                locator=facts.locator,
                shape=kind,
            )

    def _verdict(self, term: str, what: str) -> str | None:
        """None when the term may be used, else `constraint|message`."""
        if not term.startswith("<"):
            return None
        iri = term[1:-1]
        if iri in self.terms or iri.startswith(self.open_namespaces or ("\0",)):
            return None
        space = namespace_of(iri)
        owned = space in self.namespaces
        if not owned and space in STANDARD:
            return None
        if owned:
            near = self.nearest(iri)
            hint = f" Did you mean {' or '.join(shown(other, self.prefixes) for other in near)}?" if near else ""
            return f"{UNKNOWN_TERM}|{shown(iri, self.prefixes)} is not a {what} of <{space}>.{hint}"
        if self.closed:
            hint = 'Add its vocabulary under [ontology], or set vocabulary = "open".'
            used = shown(iri, self.prefixes)
            return f"{UNOWNED_TERM}|{used} is of a namespace no loaded vocabulary owns, and terms are closed. {hint}"
        return f"{UNOWNED_TERM}|Terms of <{space}> are used and no loaded vocabulary owns them: they are not checked."


def namespace_of(iri: str) -> str:
    """Up to the last `#`, else the last `/` or `:`."""
    cut = iri.rfind("#")
    if cut < 0:
        cut = iri.rfind("/")
    if cut < 0:
        cut = iri.rfind(":")
    return iri[: cut + 1]


@dataclass
class _Read:
    """What the files declare, file by file."""

    terms: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    labels: dict[str, str] = field(default_factory=dict)
    prefixes: dict[str, str] = field(default_factory=dict)
    above: dict[str, set[str]] = field(default_factory=dict)

    def add(self, triples: Sequence[Triple]) -> None:
        terms: set[str] = set()
        ontologies: set[str] = set()
        for triple in triples:
            subject, predicate, value = triple.subject, triple.predicate.value, triple.object
            if not isinstance(subject, NamedNode):
                continue
            name = subject.value
            if predicate == RDF + "type" and isinstance(value, NamedNode) and value.value in _DECLARING:
                (ontologies if value.value == OWL + "Ontology" else terms).add(name)
            elif predicate == RDFS + "label" and isinstance(value, Literal):
                if name not in self.labels or value.language in (None, "en"):
                    self.labels[name] = value.value
            elif predicate == RDFS + "subClassOf" and isinstance(value, NamedNode):
                terms.add(name)
                self.above.setdefault(name, set()).add(value.value)
            elif predicate in _SAYS_TERM:
                terms.add(name)
        self.terms |= terms | ontologies
        if ontologies:
            self.namespaces |= {space for iri in ontologies for space in _spaces(iri, terms)}
        else:
            # A file that names no ontology owns the namespaces it declares terms in, but never a public one.
            self.namespaces |= {namespace_of(term) for term in terms} - set(STANDARD)


def _spaces(ontology: str, terms: Iterable[str]) -> Iterator[str]:
    """The namespaces an ontology of that IRI owns: its own with `#` or `/`, where it declares terms there."""
    options = [ontology] if ontology.endswith(("#", "/")) else [f"{ontology}#", f"{ontology}/"]
    used = {namespace_of(term) for term in terms}
    yield from (space for space in options if space in used)


def _closure(name: str, above: dict[str, set[str]]) -> set[str]:
    seen, todo = {name}, [name]
    while todo:
        for other in above.get(todo.pop(), ()):
            if other not in seen:
                seen.add(other)
                todo.append(other)
    return seen
