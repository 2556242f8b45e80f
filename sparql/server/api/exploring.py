"""An explorer begins with what matters most, and of each node it is told how much is not shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from sparql.index import importance
from sparql.index.search import local
from sparql.server.api.asking import Row, ask, iri, labels, labels_pattern, named
from sparql.server.api.indexed import Index, indexed
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
from sparql.server.api.schema import COUNT, FLAG, IRI, TEXT, many, maybe, obj, ref
from sparql.server.problem import Problem
from sparql.server.serving import Serving

TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
MOST_NODES = 300
MOST_EDGES = 5000
MOST_GROUPS = 100
SAMPLE = 1000
"""Neighbours of one property that are looked at to show the most important of them."""

NODE = obj({
    "iri": TEXT, "label": TEXT, "types": many(TEXT), "importance": maybe("integer"), "incoming": maybe("integer"),
    "outgoing": maybe("integer"), "depth": COUNT,
}, optional=("depth",))  # fmt: skip
EDGE = obj({"source": TEXT, "target": TEXT, "property": TEXT})
NEIGHBOURS = obj({
    "node": TEXT, "property": ref("Node"), "direction": {"type": "string", "enum": ["outgoing", "incoming"]},
    "count": COUNT, "shown": COUNT, "more": COUNT, "order": {"type": "string", "enum": ["importance", "sample"]},
    "next": maybe("string"),
})  # fmt: skip
GRAPH = obj({
    "nodes": many(ref("GraphNode")), "edges": many(ref("Edge")), "properties": many(ref("Node")),
    "types": many(ref("Node")), "groups": many(ref("Neighbours")), "edges_cut": FLAG, "epoch": COUNT,
    "commit_time": TEXT, "next": maybe("string"),
}, optional=("commit_time",))  # fmt: skip
SCHEMAS = {"GraphNode": NODE, "Edge": EDGE, "Neighbours": NEIGHBOURS, "Graph": GRAPH}

OPERATIONS = (
    Operation(
        "GET", "/api/graph", "graph", "What matters most, or what is around a node",
        {200: Reply("Nodes and the edges among them.", ref("Graph"))}, "graph",
        "Without `node`: the nodes of most importance, by page, with every edge among them. A node's importance is how "
        "many statements of the default graph join it to another node, either way; `rdf:type` and literals do not "
        "count. Classes, properties and shapes stand apart: `vocabulary=true` lists them instead.\n\n"
        "With `node`: its neighbours, in `groups` by property and direction with their whole counts: `more` is how "
        "many of a group are not shown. `limit` is how many of each group are, the most important first (`order` is "
        "`sample` when a group has more than 1,000, of which the first 1,000 are ranked). `property` and `direction` "
        "keep one group, which then has pages. `depth=2` goes on from the neighbours shown.",
        (
            Parameter("node", IRI, "The node to look around.", example="https://webshop.example/service/checkout"),
            Parameter("depth", {"type": "integer", "minimum": 1, "maximum": 2, "default": 1},
                      "How many steps from the node.", example=1),
            Parameter("property", IRI, "Only neighbours by this property.",
                      example="https://w3id.org/graphtide/ns#dependsOn"),
            Parameter("direction", {"type": "string", "enum": ["outgoing", "incoming"]},
                      "Only neighbours in this direction.", example="outgoing"),
            Parameter("vocabulary", {"type": "boolean", "default": False},
                      "Classes, properties and shapes instead of things.", example=False),
            limit(50, MOST_NODES),
            CURSOR,
        ),
        refusals=(404, 503),
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/graph`."""
    return made(serving, OPERATIONS, {"graph": graph})


async def graph(given: Given) -> Response:
    """The top of the graph, or a node's surroundings."""
    if "node" in given.values:
        return await _around(given)
    for name in ("property", "direction", "depth"):
        if name in given.values and (name != "depth" or given.values[name] != 1):
            raise Problem(400, "needs-node", f"{name!r} says what is around a node. Give `node` too.")
    return await _top(given)


async def _top(given: Given) -> Response:
    place, size = unpack(given, int, str), given.get("limit", 50)
    after = (min(place[0], 2**53), place[1].encode("utf-8", "replace").decode()) if place and place[0] >= 0 else None

    def work(index: Index) -> tuple[list[importance.Important], int, str]:
        vocabulary = given.get("vocabulary", False)
        found = importance.top(index.db, size + 1, after=after, vocabulary=vocabulary)
        return found, index.commit, index.time

    found, commit, time = await indexed(given.serving, work)
    # The edges come from the graph as it is, which may be a commit or two ahead of the index.
    tag = tag_of(given, commit, head(given))
    if (same := unchanged(given, tag, commit)) is not None:
        return same
    shown = found[:size]
    edges, cut = await _edges(given, [one.iri for one in shown])
    more = next_link(given, [shown[-1].importance, shown[-1].iri]) if len(found) > size else None
    nodes = [_node(one.iri, one.label, one) for one in shown]
    body = {**await _named(given, nodes, edges, []), "nodes": nodes, "edges": edges, "groups": [],
            "edges_cut": cut}  # fmt: skip
    return answer(given, body, epoch=commit, time=time, next=more, tag=tag)


async def _edges(given: Given, nodes: Sequence[str]) -> tuple[list[dict[str, str]], bool]:
    """The statements that join any two of the nodes, and whether there are more than were read."""
    terms = " ".join(filter(None, map(iri, nodes)))
    if not terms:
        return [], False
    found = await ask(
        given,
        f"""SELECT ?s ?p ?o {{ VALUES ?s {{ {terms} }} VALUES ?o {{ {terms} }} ?s ?p ?o
        FILTER(?p != <{TYPE}> && ?s != ?o) }} LIMIT {MOST_EDGES + 1}""",
    )
    edges = sorted({(row["s"]["value"], row["p"]["value"], row["o"]["value"]) for row in found.rows})
    return [_edge(*one) for one in edges[:MOST_EDGES]], len(found.rows) > MOST_EDGES


async def _around(given: Given) -> Response:
    commit = head(given)
    tag = tag_of(given, commit)
    if (same := unchanged(given, tag, commit)) is not None:
        return same
    place, size, start = unpack(given, int), given.get("limit", 50), given.values["node"]
    offset = max(0, place[0]) if place else 0
    if place and not ("property" in given.values and "direction" in given.values):
        raise Problem(400, "bad-cursor", "Only one property in one direction has pages. Follow the `next` of a group.")
    if iri(start) is None:
        raise _unknown(given)
    nodes: dict[str, dict[str, Any]] = {}
    edges: set[tuple[str, str, str]] = set()
    groups: list[dict[str, Any]] = []
    todo, epoch, time, cut = [start], commit, "", False
    for depth in range(1, given.get("depth", 1) + 1):
        following: list[str] = []
        for node in todo:
            if len(nodes) >= MOST_NODES:
                cut = True
                break
            found, epoch, time = await _neighbours(given, node, size if depth == 1 else min(size, 10), offset)
            if depth == 1 and not found and not await _known(given, start):
                raise _unknown(given)
            for one in found:
                for other in one.pop("nodes"):
                    if other not in nodes and other != start and len(nodes) >= MOST_NODES:
                        cut = True
                        continue
                    if other != start and other not in nodes:
                        nodes[other] = {"depth": depth}
                        following.append(other)
                    out = one["direction"] == "outgoing"
                    name = one["property"]
                    edges.add((node, name, other) if out else (other, name, node))
                groups.append(one)
        todo = following
    listed = [start, *nodes]
    about = await _important(given, listed)
    known = await _labels(given, [one for one in listed if one not in about])
    shown = [{**_node(one, about[one].label if one in about else known.get(one) or local(one), about.get(one)),
              "depth": nodes.get(one, {}).get("depth", 0)} for one in listed]  # fmt: skip
    lines = [_edge(*one) for one in sorted(edges)]
    names = await _named(given, shown, lines, [one["property"] for one in groups])
    called = {one["iri"]: one["label"] for one in names["properties"]}
    for one in groups:
        one["property"] = named(one["property"], called)
    body = {**names, "nodes": shown, "edges": lines, "groups": groups, "edges_cut": cut}
    return answer(given, body, epoch=epoch, time=time, tag=tag_of(given, epoch),
                  next=groups[0]["next"] if len(groups) == 1 and "property" in given.values else None)  # fmt: skip


async def _neighbours(given: Given, node: str, size: int, offset: int) -> tuple[list[dict[str, Any]], int, str]:
    """Each property and direction of a node, the largest first: its count, and `size` neighbours after `offset`."""
    me = iri(node)
    if me is None:
        return [], head(given), ""
    only = iri(given.values["property"]) if "property" in given.values else None
    name = only or "?p"
    wanted = f"FILTER(?p != <{TYPE}>)" if only is None else f"VALUES ?p {{ {only} }}"
    sides = [given.values["direction"]] if "direction" in given.values else ["outgoing", "incoming"]
    patterns = {"outgoing": f"{me} {name} ?v", "incoming": f"?v {name} {me}"}
    nodes_only = "FILTER(isIRI(?v))"
    parts = []
    for side in sides:
        parts.append(f"""{{ SELECT ("{side}" AS ?d) ?p (COUNT(*) AS ?n) {{ {patterns[side]} {wanted} {nodes_only} }}
            GROUP BY ?p ORDER BY DESC(?n) ?p LIMIT {MOST_GROUPS} }}""")
    counted = await ask(given, f"SELECT ?d ?p ?n {{ {' UNION '.join(parts)} }}")
    groups = [(row["d"]["value"], row["p"]["value"], int(row["n"]["value"])) for row in counted.rows if "p" in row]
    reads = []
    for number, (side, property, _) in enumerate(groups):
        text = iri(property)
        pattern = f"{me} {text} ?v" if side == "outgoing" else f"?v {text} {me}"
        reads.append(f"{{ SELECT ({number} AS ?g) ?v {{ {pattern} {nodes_only} }} LIMIT {SAMPLE + 1} }}")
    found: dict[int, list[str]] = {}
    for start in range(0, len(reads), 20):
        for row in (await ask(given, f"SELECT ?g ?v {{ {' UNION '.join(reads[start : start + 20])} }}")).rows:
            found.setdefault(int(row["g"]["value"]), []).append(row["v"]["value"])
    ranks = await _important(given, {one for mine in found.values() for one in mine})
    out = []
    for number, (side, property, count) in enumerate(groups):
        mine = found.get(number, [])
        sampled = len(mine) > SAMPLE
        ordered = sorted(mine[:SAMPLE], key=lambda one: (-(ranks[one].importance if one in ranks else 0), one))
        if offset >= SAMPLE:
            ordered = await _beyond(given, me, property, side, size, offset)
        else:
            ordered = ordered[offset : offset + size]
        left = max(0, count - offset - len(ordered))
        further = next_link(given, [offset + len(ordered)], node=node, property=property, direction=side, depth=1)
        out.append({
            "node": node, "property": property, "direction": side, "count": count, "shown": len(ordered), "more": left,
            "order": "sample" if sampled else "importance", "next": further if left and ordered else None,
            "nodes": ordered,
        })  # fmt: skip
    return sorted(out, key=lambda one: (-int(one["count"]), one["property"])), counted.epoch, counted.time


async def _beyond(given: Given, me: str, property: str, side: str, size: int, offset: int) -> list[str]:
    """Neighbours past those that are ranked, as the graph hands them out."""
    pattern = f"{me} {iri(property)} ?v" if side == "outgoing" else f"?v {iri(property)} {me}"
    found = await ask(given, f"SELECT ?v {{ {pattern} FILTER(isIRI(?v)) }} LIMIT {size} OFFSET {min(offset, 2**31)}")
    return [row["v"]["value"] for row in found.rows]


async def _known(given: Given, node: str) -> bool:
    found = await ask(given, f"SELECT ?p {{ {{ {iri(node)} ?p ?o }} UNION {{ ?s ?p {iri(node)} }} }} LIMIT 1")
    return bool(found.rows)


async def _important(given: Given, nodes: Iterable[str]) -> Mapping[str, importance.Important]:
    """What the index knows of them; nothing while there is none."""
    wanted = list(nodes)
    try:
        return await indexed(given.serving, lambda index: importance.of(index.db, wanted))
    except Problem:
        return {}


async def _labels(given: Given, nodes: Sequence[str]) -> dict[str, str]:
    if not nodes:
        return {}
    rows: tuple[Row, ...] = (await ask(given, f"SELECT ?x ?lp ?l {{ {labels_pattern(nodes)} }}")).rows
    return labels(rows)


async def _named(
    given: Given, nodes: Sequence[Mapping[str, Any]], edges: Sequence[Mapping[str, str]], more: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The properties and classes that nodes and edges name, with what they are called."""
    properties = sorted({*(one["property"] for one in edges), *more})
    types = sorted({name for one in nodes for name in one["types"]})
    wanted = [*properties, *types]
    about = await _important(given, wanted)
    known = {name: found.label for name, found in about.items()}
    known |= await _labels(given, [one for one in wanted if one not in known])
    return {"properties": [named(one, known) for one in properties], "types": [named(one, known) for one in types]}


def _node(node: str, label: str, about: importance.Important | None) -> dict[str, Any]:
    return {
        "iri": node, "label": label, "types": list(about.types) if about else [],
        "importance": about.importance if about else None, "incoming": about.incoming if about else None,
        "outgoing": about.outgoing if about else None,
    }  # fmt: skip


def _edge(source: str, name: str, target: str) -> dict[str, str]:
    return {"source": source, "target": target, "property": name}


def _unknown(given: Given) -> Problem:
    return Problem(404, "unknown-node", f"The graph has no node {given.values['node'][:200]!r}. "
                   "/api/search finds nodes by name.")  # fmt: skip
