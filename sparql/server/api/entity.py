"""A thing is what the graph says of it, who says it, and what points at it: by property, with counts that are whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from ontology.facts import GT, PROV, RDF, XSD
from sparql.index.search import LABELS
from sparql.names import Names
from sparql.server.api.asking import Row, ask, called, iri, labels, named, string, value
from sparql.server.api.operation import (
    CURSOR,
    Given,
    Operation,
    Parameter,
    Reply,
    answer,
    head,
    limit,
    next_link,
    tag_of,
    unchanged,
    unpack,
)
from sparql.server.api.operation import routes as made
from sparql.server.api.schema import COUNT, IRI, TEXT, Schema, many, maybe, obj, ref
from sparql.server.problem import Problem
from sparql.server.serving import Serving

TYPE = RDF + "type"
DESCRIPTIONS = (
    "http://purl.org/dc/terms/description", "http://www.w3.org/2000/01/rdf-schema#comment",
    "https://schema.org/description", "http://schema.org/description",
    "http://www.w3.org/2004/02/skos/core#definition",
)  # fmt: skip
SAMPLE, POINTERS = 2000, 500
"""Values and nodes that point to it read at once: a thing with more has its large properties read one by one."""
LARGE = 8
"""How many properties too large for that are read one by one; of the rest there is the count and a link."""
RECORDS = 50
"""How many records that say something of a thing are listed."""

NODE = obj({"iri": TEXT, "label": TEXT})
TERM = obj({
    "kind": {"type": "string", "enum": ["iri", "blank", "literal", "triple"]}, "value": TEXT, "language": TEXT,
    "datatype": TEXT, "label": TEXT,
}, optional=("language", "datatype", "label"))  # fmt: skip
GROUP = obj({"property": ref("Node"), "count": COUNT, "values": many(ref("Term")), "next": maybe("string")})
SAID = obj({
    "source": TEXT, "key": TEXT, "record": TEXT, "locators": many(TEXT), "hash": maybe("string"),
    "commit": maybe("integer"),
})  # fmt: skip
ENTITY = obj({
    "iri": TEXT, "label": TEXT, "description": maybe("string"), "types": many(ref("Node")),
    "outgoing": many(ref("PropertyValues")), "incoming": many(ref("PropertyValues")), "provenance": many(ref("Said")),
    "provenance_more": {"type": "boolean"}, "epoch": COUNT, "commit_time": TEXT, "next": maybe("string"),
}, optional=("commit_time",))  # fmt: skip
VALUES = obj({
    "iri": TEXT, "property": ref("Node"), "direction": {"type": "string", "enum": ["outgoing", "incoming"]},
    "values": many(ref("Term")), "epoch": COUNT, "commit_time": TEXT, "next": maybe("string"),
}, optional=("commit_time",))  # fmt: skip
SCHEMAS: Mapping[str, Schema] = {
    "Node": NODE, "Term": TERM, "PropertyValues": GROUP, "Said": SAID, "Entity": ENTITY, "EntityValues": VALUES,
}  # fmt: skip
_EXAMPLE = "https://webshop.example/service/checkout"

OPERATIONS = (
    Operation(
        "GET", "/api/entity", "entity", "What the graph says of a thing",
        {200: Reply("The thing, or one page of the values of one of its properties.",
                    {"oneOf": [ref("Entity"), ref("EntityValues")]})},
        "graph",
        "Everything the default graph says with the IRI as subject (`outgoing`) and as object (`incoming`), by "
        "property. Counts are whole; of the values there are `limit`, and `next` of a property leads to more. "
        "`provenance` are the records that say something of it.",
        (
            Parameter("iri", IRI, "The thing.", required=True, example=_EXAMPLE),
            limit(20, 500),
            Parameter("property", IRI, "Only the values of this property, a page of them.",
                      example="https://w3id.org/graphtide/ns#dependsOn"),
            Parameter("direction", {"type": "string", "enum": ["outgoing", "incoming"], "default": "outgoing"},
                      "Whether `property` leads away from the thing or to it.", example="outgoing"),
            CURSOR,
        ),
        refusals=(404, 409, 410),
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/entity`."""
    return made(serving, OPERATIONS, {"entity": entity})


async def entity(given: Given) -> Response:
    """The thing, 404 when the graph says nothing of it."""
    commit = head(given)
    if (same := unchanged(given, tag_of(given, commit), commit)) is not None:
        return same
    node = iri(given.values["iri"])
    if node is None:
        raise _unknown(given)
    if "property" in given.values:
        return await _page(given, node)
    names = Names(given.serving.config.base)
    records = string(names.record("", "").removesuffix("/"))
    found = await ask(
        given,
        f"""SELECT ?d ?p ?n ?v {{
        {{ SELECT ("out" AS ?d) ?p (COUNT(*) AS ?n) {{ {node} ?p ?o }} GROUP BY ?p }}
        UNION {{ SELECT ("in" AS ?d) ?p (COUNT(*) AS ?n) {{ ?o ?p {node} }} GROUP BY ?p }}
        UNION {{ SELECT ("outs" AS ?d) ?p ?v {{ {node} ?p ?v }} LIMIT {SAMPLE} }}
        UNION {{ SELECT ("ins" AS ?d) ?p ?v {{ ?v ?p {node} }} LIMIT {POINTERS} }}
        UNION {{ SELECT DISTINCT ("said" AS ?d) ?v {{
            GRAPH ?v {{ {node} ?any ?thing }} FILTER(STRSTARTS(STR(?v), {records})) }} LIMIT {RECORDS + 1} }} }}""",
    )
    if not any(row["d"]["value"] in ("out", "in") and "p" in row for row in found.rows):
        raise _unknown(given)
    groups = {
        side: await _groups(given, node, side, found.rows) for side in ("outgoing", "incoming")
    }  # fmt: skip
    graphs = [row["v"]["value"] for row in found.rows if row["d"]["value"] == "said"]
    outs = [row for row in found.rows if row["d"]["value"] == "outs"]
    types = sorted(row["v"]["value"] for row in outs if row["p"]["value"] == TYPE and row["v"]["type"] == "uri")
    shown = [given.values["iri"], *types]
    for one in (*groups["outgoing"], *groups["incoming"]):
        shown += [one["property"], *(term["value"] for term in one["values"] if term["type"] == "uri")]
    journal = " ".join(filter(None, map(iri, graphs[:RECORDS])))
    about = await ask(
        given,
        f"SELECT ?g ?q ?w {{ VALUES ?g {{ {journal} }} GRAPH <{names.journal}> {{ ?g ?q ?w }} }}",
        least=found.epoch,
    )
    known = {**await called(given, shown), **labels(_names(given.values["iri"], outs))}
    body = {
        **named(given.values["iri"], known), "description": _description(outs),
        "types": [named(one, known) for one in types],
        **{side: [_group(one, known) for one in found_groups] for side, found_groups in groups.items()},
        "provenance": _provenance(names, graphs[:RECORDS], about.rows), "provenance_more": len(graphs) > RECORDS,
    }  # fmt: skip
    return answer(given, body, epoch=found.epoch, time=found.time, tag=tag_of(given, found.epoch))


async def _groups(given: Given, node: str, side: str, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Each property of a side: `property`, `count`, its first values in order and the link to the rest."""
    short, many_at_once = ("out", given.get("limit", 20)) if side == "outgoing" else ("in", given.get("limit", 20))
    counts = {row["p"]["value"]: int(row["n"]["value"]) for row in rows if row["d"]["value"] == short and "p" in row}
    sampled: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        if row["d"]["value"] == short + "s":
            sampled.setdefault(row["p"]["value"], []).append(row["v"])
    out, large = [], 0
    for name, count in sorted(counts.items()):
        mine = sampled.get(name, [])
        following: list[Any] | None = None
        if len(mine) == count:
            ordered = sorted(mine, key=_key)
            if count > many_at_once:
                following = [_key(ordered[many_at_once - 1])]
        elif (text := iri(name)) is not None and large < LARGE:
            large += 1
            page = await _values(given, node, text, side, None)
            ordered, following = list(page.terms), page.following
        else:
            ordered, following = [], [""]
        more = next_link(given, following, property=name, direction=side) if following is not None else None
        out.append({"property": name, "count": count, "values": ordered[:many_at_once], "next": more})
    return out


@dataclass(frozen=True)
class _Page:
    """Some values of a property, and the cursor of what follows."""

    terms: tuple[Mapping[str, str], ...]
    following: list[Any] | None
    epoch: int
    time: str


async def _page(given: Given, node: str) -> Response:
    """One page of the values of one property."""
    side, name = given.get("direction", "outgoing"), given.values["property"]
    text, place = iri(name), _place(given)
    if text is None:
        raise _unknown(given)
    page = await _values(given, node, text, side, place)
    if not page.terms and place is None:
        raise _unknown(given)
    known = await called(given, [name, *(term["value"] for term in page.terms if term["type"] == "uri")])
    more = next_link(given, page.following) if page.following is not None else None
    body = {"iri": given.values["iri"], "property": named(name, known), "direction": side,
            "values": [_term(term, known) for term in page.terms]}  # fmt: skip
    return answer(given, body, epoch=page.epoch, time=page.time, next=more, tag=tag_of(given, page.epoch))


def _place(given: Given) -> list[Any] | None:
    """Where a page begins: after a key, or at an offset of an epoch."""
    try:
        return unpack(given, str)
    except Problem:
        place = unpack(given, int, int)
        if place is not None and (min(place) < 0 or max(place) > 2**53):
            raise
        return place


async def _values(given: Given, node: str, name: str, side: str, place: list[Any] | None) -> _Page:
    """A page of values. Up to SAMPLE they are in order, and what changes elsewhere moves no page; more of them are as
    the store has them, page after page at one epoch: sorting 30,000 takes it two seconds.
    """
    size = given.get("limit", 20)
    pattern = f"{node} {name} ?v" if side == "outgoing" else f"?v {name} {node}"
    if place is None or len(place) == 1:
        after = place[0] if place else ""
        found = await ask(given, f"SELECT ?v {{ {pattern} }} LIMIT {SAMPLE + 1}")
        terms = [row["v"] for row in found.rows]
        if len(terms) <= SAMPLE:
            left = [term for term in sorted(terms, key=_key) if not after or _key(term) > after]
            following = [_key(left[size - 1])] if len(left) > size else None
            return _Page(tuple(left[:size]), following, found.epoch, found.time)
        return _Page(tuple(terms[:size]), [size, found.epoch], found.epoch, found.time)
    offset, epoch = place
    text = f"SELECT ?v {{ {pattern} }} OFFSET {offset} LIMIT {size + 1}"
    found = await ask(given, text, epoch=None if epoch == head(given) else epoch)
    if found.epoch != epoch:
        found = await ask(given, text, epoch=epoch)
    terms = [row["v"] for row in found.rows]
    following = [offset + size, epoch] if len(terms) > size else None
    return _Page(tuple(terms[:size]), following, found.epoch, found.time)


def _names(node: str, outs: Sequence[Row]) -> list[Row]:
    """What a thing says of its own name, as `labels` reads it."""
    me = {"type": "uri", "value": node}
    return [{"x": me, "lp": row["p"], "l": row["v"]} for row in outs if row["p"]["value"] in LABELS]


def _key(term: Mapping[str, str]) -> str:
    """Where a value stands among others, as a page orders them."""
    if term["type"] not in ("literal", "typed-literal"):
        return term["value"] if term["type"] == "uri" else ""
    language = term.get("xml:lang", "")
    kind = RDF + "langString" if language else XSD + "string"
    return f"{term['value']}\x01{language}\x01{term.get('datatype', kind)}"


def _group(one: Mapping[str, Any], known: Mapping[str, str]) -> dict[str, Any]:
    return {"property": named(one["property"], known), "count": one["count"],
            "values": [_term(term, known) for term in one["values"]], "next": one["next"]}  # fmt: skip


def _term(term: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    found = value(term)
    return {**found, "label": named(found["value"], known)["label"]} if found["kind"] == "iri" else found


def _description(rows: Sequence[Row]) -> str | None:
    """What a person would read first, in English or without a language if there is one."""
    found = [
        (DESCRIPTIONS.index(row["p"]["value"]), row["v"].get("xml:lang", "").partition("-")[0] not in ("", "en"),
         row["v"]["value"])
        for row in rows
        if row["p"]["value"] in DESCRIPTIONS and "literal" in row["v"]["type"]
    ]  # fmt: skip
    return min(found)[2] if found else None


def _provenance(names: Names, graphs: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Who says something of the thing: source, record, places, hash and the commit that wrote it, by record."""
    said: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        if "g" in row:
            said.setdefault(row["g"]["value"], {}).setdefault(row["q"]["value"], []).append(row["w"]["value"])
    out = []
    for graph in sorted(graphs):
        source, key = names.parse(graph) or ("", "")
        about = said.get(graph, {})
        commits = [one.rpartition("/")[2] for one in about.get(f"{PROV}wasGeneratedBy", ())]
        out.append({
            "source": source, "key": key, "record": graph, "locators": sorted(about.get(f"{GT}locator", ())),
            "hash": next(iter(about.get(f"{GT}hash", ())), None),
            "commit": max((int(one) for one in commits if one.isdecimal()), default=None),
        })  # fmt: skip
    return out


def _unknown(given: Given) -> Problem:
    what = f"{given.values['iri'][:200]!r}"
    if "property" in given.values:
        what += f" with {given.values['property'][:200]!r}"
    return Problem(404, "unknown-entity", f"The graph says nothing of {what}. /api/search finds things by name.",
                   headers={"X-Graphtide-Epoch": str(head(given))})  # fmt: skip
