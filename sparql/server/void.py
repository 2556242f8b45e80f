"""What is in the graph is said in VoID and DCAT, from counts that are kept and not counted when asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from pyoxigraph import Literal, NamedNode

from ontology.facts import PROV, RDFS, SH, XSD
from sparql.index import importance
from sparql.index.reading import Index, IndexMissing, at, when
from sparql.index.statistics import Counts, counts, graphs, syncs
from sparql.server.documents import RDF_FORMS, Document, fragment, time

VOID = "http://rdfs.org/ns/void#"
DCAT, DCTERMS, SD = (
    "http://www.w3.org/ns/dcat#", "http://purl.org/dc/terms/", "http://www.w3.org/ns/sparql-service-description#",
)  # fmt: skip
FORMATS = "http://www.w3.org/ns/formats/"
W3C_FORMATS = {
    "turtle": "Turtle", "ntriples": "N-Triples", "nquads": "N-Quads", "trig": "TriG", "jsonld": "JSON-LD",
    "rdfxml": "RDF_XML", "n3": "N3",
}  # fmt: skip
MOST_GRAPHS = 1000
"""How many named graphs are listed one by one; how many there are is said in any case."""
EXAMPLES = 5
PREFIXES = {"void": VOID, "dcat": DCAT, "dcterms": DCTERMS, "sd": SD, "formats": FORMATS,
            "earl": "http://www.w3.org/ns/earl#"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Standing:
    """What the index knows of a graph at `commit`; `graphs` are at most `MOST_GRAPHS` of `graph_count`."""

    commit: int
    time: str
    counts: Counts
    graphs: tuple[tuple[str, int], ...]
    graph_count: int
    syncs: tuple[tuple[str, str, str, str], ...]
    plain: bool
    examples: tuple[str, ...]


NOTHING = Standing(0, "", Counts(0, 0, 0, {}, {}, {}), (), 0, (), False, ())
"""What is known before anything was counted."""


def standing(index: Index, names: Index, base: str) -> Standing:
    """Where the graph of `base` stands. Raises IndexMissing."""
    with index.read() as db:
        listed, number = graphs(db, base, limit=MOST_GRAPHS)
        plain = bool(db.execute("SELECT n FROM void_total WHERE name = 'plain'").fetchone()[0])
        found = Standing(at(db), when(db), counts(db), tuple(listed), number, tuple(syncs(db)), plain, ())
    try:
        with names.read() as db:
            return replace(found, examples=_examples(db, base))
    except IndexMissing:
        return found


def describe(
    doc: Document, root: str, base: str, found: Standing, prefixes: Mapping[str, str], *, whole: bool = True
) -> str:
    """The document says what is in the graph, and where from. Returns the IRI of the data set.

    Without `whole`, its totals and not those of each class and property.
    """
    page = f"{root}/.well-known/void"
    me = f"{page}#dataset"
    doc.type(me, VOID + "Dataset", DCAT + "Dataset", SD + "Dataset", PROV + "Entity")
    doc.add(me, DCTERMS + "title", Literal(f"The graph of {base}", language="en"))
    doc.link(me, VOID + "sparqlEndpoint", f"{root}/sparql")
    doc.add(me, VOID + "uriSpace", base)
    doc.link(me, VOID + "feature", *(FORMATS + W3C_FORMATS[form.name] for form in RDF_FORMS))
    doc.link(me, VOID + "exampleResource", *found.examples)
    vocabularies = sorted(
        {space for name in (*found.counts.properties, *found.counts.classes) if (space := _space(name))}
    )
    doc.link(me, VOID + "vocabulary", *vocabularies)
    if found.time:
        doc.add(me, DCTERMS + "modified", time(found.time))
    if found is not NOTHING:
        doc.add(me, DCAT + "version", str(found.commit))
    doc.type(page, VOID + "DatasetDescription")
    doc.link(page, "http://xmlns.com/foaf/0.1/topic", me)
    _prefixes(doc, me, page, prefixes)
    _distribution(doc, me, page, root)
    _origin(doc, me, found)
    if found is not NOTHING:
        _numbers(doc, me, page, found.counts, whole=whole)
    return me


def graph_collection(doc: Document, dataset: str, page: str, found: Standing, *, most: int = MOST_GRAPHS) -> None:
    """The document says which graphs the data set has, and what each holds."""
    default = f"{page}#default-graph"
    doc.link(dataset, SD + "defaultGraph", default)
    doc.type(default, SD + "Graph", VOID + "Dataset")
    if found is not NOTHING:
        doc.add(default, VOID + "triples", found.counts.triples)
    for name, triples in found.graphs[:most]:
        here, graph = f"{page}#named-{_digest(name)}", f"{page}#graph-{_digest(name)}"
        doc.link(dataset, SD + "namedGraph", here)
        doc.type(here, SD + "NamedGraph")
        doc.link(here, SD + "name", name)
        doc.link(here, SD + "graph", graph)
        doc.type(graph, SD + "Graph", VOID + "Dataset")
        doc.add(graph, VOID + "triples", triples)
    if found.graph_count > most:
        text = f"There are {found.graph_count} named graphs, of which the first {most} by name are listed here."
        doc.add(dataset, RDFS + "comment", Literal(text, language="en"))


def _numbers(doc: Document, me: str, page: str, numbers: Counts, *, whole: bool) -> None:
    doc.add(me, VOID + "triples", numbers.triples)
    doc.add(me, VOID + "distinctSubjects", numbers.subjects)
    doc.add(me, VOID + "distinctObjects", numbers.objects)
    doc.add(me, VOID + "properties", len(numbers.properties))
    doc.add(me, VOID + "classes", len(numbers.classes))
    if not whole:
        return
    for name, (triples, subjects, objects) in sorted(numbers.properties.items()):
        part = f"{page}#property-{_digest(name)}"
        doc.link(me, VOID + "propertyPartition", part)
        doc.type(part, VOID + "Dataset")
        doc.link(part, VOID + "property", name[1:-1])
        doc.add(part, VOID + "triples", triples)
        doc.add(part, VOID + "distinctSubjects", subjects)
        doc.add(part, VOID + "distinctObjects", objects)
    within: dict[str, list[tuple[str, tuple[int, int]]]] = {}
    for (one, name), found in numbers.by_class.items():
        within.setdefault(one, []).append((name, found))
    for one, (entities, triples) in sorted(numbers.classes.items()):
        if not one.startswith("<"):
            continue  # VoID can name a class, and no blank node or literal that stands in its place
        part = f"{page}#class-{_digest(one)}"
        doc.link(me, VOID + "classPartition", part)
        doc.type(part, VOID + "Dataset")
        doc.link(part, VOID + "class", one[1:-1])
        doc.add(part, VOID + "entities", entities)
        doc.add(part, VOID + "distinctSubjects", entities)
        doc.add(part, VOID + "triples", triples)
        doc.add(part, VOID + "properties", len(within.get(one, ())))
        for name, (cell, subjects) in sorted(within.get(one, ())):
            inner = f"{page}#class-{_digest(one)}-property-{_digest(name)}"
            doc.link(part, VOID + "propertyPartition", inner)
            doc.type(inner, VOID + "Dataset")
            doc.link(inner, VOID + "property", name[1:-1])
            doc.add(inner, VOID + "triples", cell)
            doc.add(inner, VOID + "distinctSubjects", subjects)


def _prefixes(doc: Document, me: str, page: str, prefixes: Mapping[str, str]) -> None:
    for prefix, iri in sorted(prefixes.items()):
        here = f"{page}#prefix-{fragment(prefix)}"
        doc.link(me, SH + "declare", here)
        doc.type(here, SH + "PrefixDeclaration")
        doc.add(here, SH + "prefix", prefix)
        doc.add(here, SH + "namespace", Literal(iri, datatype=NamedNode(XSD + "anyURI")))


def _distribution(doc: Document, me: str, page: str, root: str) -> None:
    here, service = f"{page}#distribution", f"{root}/sparql#service"
    doc.link(me, DCAT + "distribution", here)
    doc.type(here, DCAT + "Distribution")
    doc.link(here, DCAT + "accessURL", f"{root}/sparql")
    doc.link(here, DCAT + "accessService", service)
    doc.type(service, DCAT + "DataService")
    doc.link(service, DCAT + "endpointURL", f"{root}/sparql")
    doc.link(service, DCAT + "endpointDescription", page)
    doc.link(service, DCAT + "servesDataset", me)


def _origin(doc: Document, me: str, found: Standing) -> None:
    """The last commit of each source; the newest of them made what is there now."""
    for number, (source, activity, started, ended) in enumerate(found.syncs):
        if not number:
            doc.link(me, PROV + "wasGeneratedBy", activity)
        doc.link(me, PROV + "wasDerivedFrom", source)
        doc.type(activity, PROV + "Activity")
        doc.link(activity, PROV + "used", source)
        for name, text in (("startedAtTime", started), ("endedAtTime", ended)):
            if text:
                doc.add(activity, PROV + name, time(text))


def _examples(db: sqlite3.Connection, base: str) -> tuple[str, ...]:
    found: Iterable[importance.Important] = importance.top(db, 50)
    ours = [one.iri for one in found if one.iri.startswith(base)]
    return tuple(ours[:EXAMPLES])


def _space(name: str) -> str | None:
    """The namespace of a term; None of one that has none."""
    iri = name[1:-1]
    cut = max(iri.rfind("#"), iri.rfind("/")) + 1
    return iri[:cut] if name.startswith("<") and cut > iri.find("//") + 2 else None


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
