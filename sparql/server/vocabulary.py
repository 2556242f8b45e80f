"""The vocabulary of Graphtide is served as it is packaged: Turtle for who reads it, a table of terms for who looks."""

from __future__ import annotations

from functools import lru_cache
from importlib import resources

from pyoxigraph import Literal, NamedNode, Quad, RdfFormat, Store, Triple, parse

from ontology.facts import GT, RDF, RDFS
from sparql.server import html
from sparql.server.documents import RDF_FORMS
from sparql.server.html import link, text

OWL = "http://www.w3.org/2002/07/owl#"
PREFIXES = {
    "schema": "https://schema.org/", "prov": "http://www.w3.org/ns/prov#", "org": "http://www.w3.org/ns/org#",
    "doap": "http://usefulinc.com/ns/doap#", "dcat": "http://www.w3.org/ns/dcat#", "rdf": RDF, "rdfs": RDFS, "owl": OWL,
    "dcterms": "http://purl.org/dc/terms/", "skos": "http://www.w3.org/2004/02/skos/core#",
    "sh": "http://www.w3.org/ns/shacl#", "xsd": "http://www.w3.org/2001/XMLSchema#",
}  # fmt: skip


def packaged() -> bytes:
    """The vocabulary as it was written."""
    return resources.files("ontology").joinpath("graphtide.ttl").read_bytes()


@lru_cache(1)
def statements() -> tuple[Triple, ...]:
    """What the vocabulary says."""
    return tuple(quad.triple for quad in parse(packaged(), RdfFormat.TURTLE))


def page(path: str) -> str:
    """The terms as a table; each can be linked to by its name."""
    store = Store()
    store.extend([Quad(*triple) for triple in statements()])
    classes, properties = _terms(store, "Class"), []
    for kind in ("ObjectProperty", "DatatypeProperty", "AnnotationProperty"):
        properties += _terms(store, kind)
    about = next(iter(_values(store, GT.rstrip("#"), RDFS + "comment")), "")
    body = f"""<h1>The Graphtide vocabulary</h1>
<p class="iri">{text(GT)}</p>
<p>{text(about)}</p>
{_table(store, "Classes", sorted(set(classes)))}
{_table(store, "Properties", sorted(set(properties)))}"""
    forms = "".join(link(f"{path}/ns?format={form.name}", form.title) for form in RDF_FORMS)
    return html.page("The Graphtide vocabulary", body, path=path, foot=f"<p>As data: {forms}</p>")


def _terms(store: Store, kind: str) -> list[str]:
    found = store.quads_for_pattern(None, NamedNode(RDF + "type"), NamedNode(OWL + kind))
    return [quad.subject.value for quad in found if isinstance(quad.subject, NamedNode)]


def _table(store: Store, title: str, terms: list[str]) -> str:
    rows = []
    for term in terms:
        name = term.removeprefix(GT)
        comment = next(iter(_values(store, term, RDFS + "comment")), "")
        above = ", ".join(
            _shown(one)
            for predicate in ("subClassOf", "subPropertyOf")
            for one in sorted(_values(store, term, RDFS + predicate))
        )
        reach = " &rarr; ".join(
            ", ".join(_shown(one) for one in sorted(_values(store, term, RDFS + side))) or "any"
            for side in ("domain", "range")
        )
        reach = reach if title == "Properties" else ""
        rows.append(
            f'<tr id="{text(name)}"><th scope="row"><a href="#{text(name)}">gt:{text(name)}</a></th>'
            f"<td>{text(comment)}</td><td>{above}</td><td>{reach}</td></tr>"
        )
    last = "From &rarr; to" if title == "Properties" else ""
    return f"""<section><h2>{title}</h2><table><thead><tr><th scope="col">Term</th><th scope="col">Meaning</th>
<th scope="col">Is a kind of</th><th scope="col">{last}</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></section>"""


def _shown(iri: str) -> str:
    if iri.startswith(GT):
        return link(f"#{iri.removeprefix(GT)}", f"gt:{iri.removeprefix(GT)}")
    for prefix, space in PREFIXES.items():
        if iri.startswith(space):
            return f'<span title="{text(iri)}">{prefix}:{text(iri.removeprefix(space))}</span>'
    return text(iri)


def _values(store: Store, subject: str, predicate: str) -> list[str]:
    found = store.quads_for_pattern(NamedNode(subject), NamedNode(predicate), None)
    return [quad.object.value for quad in found if isinstance(quad.object, (NamedNode, Literal))]
