"""The page of a thing puts who said so beside what is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

from pyoxigraph import BlankNode, Literal, NamedNode

from ontology.facts import RDF, RDFS, XSD
from sparql.index.search import LABELS, local
from sparql.names import Names
from sparql.server import html, places
from sparql.server.documents import RDF_FORMS
from sparql.server.html import link, text
from sparql.server.resource import COUNTED, MANY, PROPERTIES, Asked, Record, Resource, Values

Term = Any
TYPE = RDF + "type"
LONG = 2000
"""Characters of a literal that are shown before the rest is left to the other forms."""
STANDARD = {
    RDF: "rdf", RDFS: "rdfs", XSD: "xsd", "http://www.w3.org/2002/07/owl#": "owl", "https://schema.org/": "schema",
    "http://www.w3.org/2004/02/skos/core#": "skos", "http://purl.org/dc/terms/": "dcterms",
    "http://www.w3.org/ns/prov#": "prov", "http://xmlns.com/foaf/0.1/": "foaf", "http://www.w3.org/ns/shacl#": "sh",
}  # fmt: skip


@dataclass(frozen=True)
class Writing:
    """How names are written: under which base and prefixes, and with which labels of other things."""

    base: str
    prefixes: Mapping[str, str]
    labels: Mapping[str, str]
    path: str = ""

    def href(self, iri: str) -> str:
        """Where the page of an IRI is."""
        return self.path + places.path_of(self.base, iri)

    def short(self, iri: str) -> str:
        """The IRI as a prefixed name, as a path under the base, or as it is."""
        best = ""
        for space, prefix in (*STANDARD.items(), *((one, name) for name, one in self.prefixes.items())):
            if space and iri.startswith(space) and len(space) > len(best) and "/" not in iri[len(space) :]:
                best, shown = space, f"{prefix}:{iri[len(space) :]}"
        if best:
            return shown
        return _readable(iri[len(self.base) :]) if iri.startswith(self.base) and iri != self.base else _readable(iri)

    def node(self, iri: str) -> str:
        """A link to the page of an IRI, under its label."""
        label = self.labels.get(iri)
        return link(self.href(iri), label or self.short(iri), title=iri)

    def term(self, term: Term) -> str:
        """A term as markup."""
        if isinstance(term, NamedNode):
            return self.node(term.value)
        if isinstance(term, Literal):
            return self.literal(term)
        if isinstance(term, BlankNode):
            return f"<code>_:{text(term.value[:12])}</code>"
        inner = " ".join(self.term(part) for part in (term.subject, term.predicate, term.object))
        return f"<code>&lt;&lt;(</code> {inner} <code>)&gt;&gt;</code>"

    def literal(self, term: Literal) -> str:
        value = term.value
        shown = text(value[:LONG]) + ("&hellip;" if len(value) > LONG else "")
        if term.language:
            language = text(term.language)
            return f'<span class="text" lang="{language}">{shown}</span><span class="lang">{language}</span>'
        kind = term.datatype.value
        if kind == XSD + "anyURI" and value.startswith(("https://", "http://")):
            return link(value, value[:LONG])
        if kind in (XSD + "string", XSD + "integer", XSD + "decimal", XSD + "boolean", XSD + "double"):
            return f'<span class="text">{shown}</span>'
        return f'<span class="text">{shown}</span><span class="lang">{text(self.short(kind))}</span>'


def resource(found: Resource, write: Writing, asked: Asked) -> str:
    """The page of a resource."""
    names = Names(write.base)
    label = label_of(found)
    records = [record for record in found.records if names.merged(record.graph)]
    number = {record.graph: n for n, record in enumerate(records, 1)}
    who: dict[tuple[str, str], list[int]] = {}
    for graph, name, value in found.said:
        if graph in number:
            who.setdefault((str(name), str(value)), []).append(number[graph])
    types = "".join(f"<li>{write.node(one.value)}</li>" for one in found.types if isinstance(one, NamedNode))
    head = f'<h1>{text(label)}</h1>\n<p class="iri">{text(found.iri)}</p>\n'
    head += f'<ul class="chips" aria-label="Types">{types}</ul>\n' if types else ""
    here = _here(write, found.iri)
    parts = [head]
    if asked.direction is None:
        parts.append(_uses(found, write))
    out = [one for one in found.out if types == "" or one.property.value != TYPE or asked.direction is not None]
    parts.append(_values("says", "What is said of it", out, write, here, "out", who, asked))
    parts.append(_values("links", "What points to it", list(found.into), write, here, "in", {}, asked))
    parts.append(_holds(found, write, here, asked))
    if asked.direction is None:
        parts += [_elsewhere(found, write, names, number), _who(records, found, write, names)]
    return html.page(
        f"{label} - Graphtide", "\n".join(filter(None, parts)), path=write.path, foot=_foot(found, write, here)
    )


def missing(iri: str, write: Writing) -> str:
    """The page of an IRI that the graph says nothing of."""
    body = f"""<h1>Nothing is known of this</h1>
<p class="iri">{text(iri[:2000])}</p>
<p>The graph says nothing of this IRI, and nothing in it points there. It may be spelled otherwise, or what said it is
gone. {link(f"{write.path}/", "Ask the graph")} for what there is.</p>"""
    return html.page("Nothing is known of this - Graphtide", body, path=write.path)


def label_of(found: Resource) -> str:
    """What the thing is called, in English or without a language if it can be."""
    best: tuple[int, int, str] | None = None
    for values in found.out:
        if values.property.value in LABELS:
            for value in values.values:
                if isinstance(value, Literal) and value.value.strip():
                    plain = 0 if (value.language or "en").partition("-")[0] == "en" else 1
                    order = (LABELS.index(values.property.value), plain, value.value)
                    best = min(best, order) if best else order
    return best[2] if best else local(found.iri)


def mentioned(found: Resource) -> list[str]:
    """The IRIs whose labels make the page readable."""
    seen: dict[str, None] = {}
    for values in (*found.out, *found.into):
        for term in (values.property, *values.values):
            if isinstance(term, NamedNode):
                seen[term.value] = None
    for row in (*found.said, *found.holds):
        for term in row:
            if isinstance(term, NamedNode):
                seen[term.value] = None
    return list(seen)[:3000]


def _values(
    anchor: str, title: str, groups: list[Values], write: Writing, here: Callable[[str], str], direction: str,
    who: Mapping[tuple[str, str], list[int]], asked: Asked,
) -> str:  # fmt: skip
    if asked.direction is not None:
        groups = [one for one in groups if (direction, one.property.value) == (asked.direction, asked.property)]
    if not groups:
        return ""
    rows = []
    for group in groups[:PROPERTIES]:
        items = "".join(
            f"<li>{write.term(value)}{_marks(who.get((str(group.property), str(value)), []))}</li>"
            for value in group.values
        )
        rows.append(f'<tr><th scope="row">{write.node(group.property.value)}</th><td><ul class="values">{items}</ul>'
                    f"{_more(group, here, direction)}</td></tr>")  # fmt: skip
    for group in groups[PROPERTIES:]:
        where = here(f"{direction}={quote(group.property.value, safe='')}")
        name = write.node(group.property.value)
        rows.append(f'<tr><th scope="row">{name}</th><td>{link(where, f"{group.count:,}")}</td></tr>')
    return f'<section><h2 id="{anchor}">{title}</h2>\n<table><tbody>{"".join(rows)}</tbody></table></section>'


def _more(group: Values, here: Callable[[str], str], direction: str) -> str:
    shown = len(group.values)
    if shown == group.count:
        return ""
    name, parts = quote(group.property.value, safe=""), []
    if group.start:
        before = max(0, group.start - MANY)
        parts.append(link(here(f"{direction}={name}&start={before}"), "previous"))
    if group.start + shown < group.count:
        parts.append(link(here(f"{direction}={name}&start={group.start + shown}"), "more"))
    of = f"{group.start + 1:,}&ndash;{group.start + shown:,} of {group.count:,}"
    return f'<p class="note">{of} {" &middot; ".join(parts)}</p>'


def _marks(numbers: list[int]) -> str:
    shown = "".join(
        f'<a href="#record-{n}" aria-label="said by record {n}">[{n}]</a>' for n in sorted(set(numbers))[:5]
    )
    more = f"+{len(set(numbers)) - 5}" if len(set(numbers)) > 5 else ""
    return f"<sup>{shown}{more}</sup>" if shown else ""


def _uses(found: Resource, write: Writing) -> str:
    if not found.uses:
        return ""
    number = f"{found.uses:,}" if found.uses <= COUNTED else f"more than {COUNTED:,}"
    return f'<p class="note">A property: {number} statement{"" if found.uses == 1 else "s"} of the graph use it.</p>'


def _holds(found: Resource, write: Writing, here: Callable[[str], str], asked: Asked) -> str:
    if not found.holds or asked.direction not in (None, "graph"):
        return ""
    rows = "".join(
        f"<tr><td>{write.term(s)}</td><td>{write.node(p.value)}</td><td>{write.term(o)}</td></tr>"
        for s, p, o in found.holds
    )
    number = f"{found.holds_count:,}" if found.holds_count <= COUNTED else f"more than {COUNTED:,}"
    start = asked.start if asked.direction == "graph" else 0
    end = start + len(found.holds)
    more = link(here(f"graph=1&start={end}"), "more") if end < found.holds_count else ""
    return f"""<section><h2 id="holds">What this graph says</h2>
<table><caption>{start + 1:,}&ndash;{end:,} of {number} statements {more}</caption>
<thead><tr><th scope="col">Subject</th><th scope="col">Property</th><th scope="col">Value</th></tr></thead>
<tbody>{rows}</tbody></table></section>"""


def _elsewhere(found: Resource, write: Writing, names: Names, number: Mapping[str, int]) -> str:
    """What named graphs say that the default graph does not: evidence, the journal, plain graphs."""
    holds = {(str(one.property), str(value)) for one in found.out for value in one.values}
    many = {str(one.property) for one in found.out if len(one.values) < one.count}
    rows = [
        f"<tr><td>{write.node(name.value)}</td><td>{write.term(value)}</td>"
        f'<td class="where">{write.node(graph)}</td></tr>'
        for graph, name, value in found.said
        if (str(name), str(value)) not in holds and not (graph in number and str(name) in many)
    ]
    if not rows:
        return ""
    shown = f" The first {4 * MANY} of {len(rows)}." if len(rows) > 4 * MANY else ""
    return f"""<section><h2 id="elsewhere">Said only in a graph of its own</h2>
<table><caption>Not part of what holds.{shown}</caption>
<thead><tr><th scope="col">Property</th><th scope="col">Value</th><th scope="col">Graph</th></tr></thead>
<tbody>{"".join(rows[: 4 * MANY])}</tbody></table></section>"""


def _who(records: list[Record], found: Resource, write: Writing, names: Names) -> str:
    if not records:
        return ""
    rows = []
    for n, record in enumerate(records, 1):
        parsed = names.parse(record.graph)
        source = parsed[0] if parsed else ""
        shown = link(write.href(record.source), source) if record.source else text(source)
        where = "<br>".join(text(one) for one in record.locators) or "&ndash;"
        commit = link(write.href(record.commit), local(record.commit)) if record.commit else "&ndash;"
        name = link(write.href(record.graph), parsed[1] if parsed else record.graph)
        rows.append(
            f'<tr id="record-{n}"><td class="num">{n}</td><td>{name}</td><td>{shown}</td><td>{where}</td>'
            f'<td class="num">{record.count:,}</td><td>{commit} <span class="note">{text(record.time)}</span></td>'
            f'<td class="wide"><code title="{text(record.hash)}">{text(record.hash[:12])}</code></td></tr>'
        )
    more = f"<caption>The first {len(found.records)} graphs by name.</caption>" if found.more_records else ""
    return f"""<section><h2 id="who">Who said so</h2>
<table>{more}<thead><tr><th scope="col" class="num">#</th><th scope="col">Record</th><th scope="col">Source</th>
<th scope="col">Place</th>
<th scope="col" class="num">Statements</th>
<th scope="col">Commit</th><th scope="col" class="wide">Hash</th></tr></thead>
<tbody>{"".join(rows)}</tbody></table></section>"""


def _here(write: Writing, iri: str) -> Callable[[str], str]:
    path = f"{write.path}/resource?iri={quote(iri, safe='')}"
    return lambda more: f"{path}&{more}"


def _foot(found: Resource, write: Writing, here: Callable[[str], str]) -> str:
    forms = "".join(link(here(f"format={form.name}"), form.title) for form in RDF_FORMS)
    when = f", made {text(found.time)}" if found.time else ""
    return f"<p>As data: {forms}</p><p>As of commit {found.epoch}{when}.</p>"


def _readable(iri: str) -> str:
    try:
        return unquote(iri, errors="strict")
    except UnicodeDecodeError:
        return iri
