"""A search answers from the index, which says at which commit it stands."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from sparql.index import importance
from sparql.index.search import KINDS, Hit, local, search
from sparql.server.api.indexed import Index, indexed
from sparql.server.api.operation import (
    CURSOR,
    Given,
    Operation,
    Parameter,
    Reply,
    answer,
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

MATCH = obj({
    "property": {"oneOf": [ref("Node"), {"type": "null"}]}, "value": TEXT, "language": TEXT,
    "kind": {"type": "string", "enum": sorted(set(KINDS))},
    "parts": many(obj({"text": TEXT, "hit": FLAG})),
})  # fmt: skip
HIT = obj({
    "iri": TEXT, "label": TEXT, "types": many(ref("Node")), "importance": COUNT, "vocabulary": FLAG,
    "match": {"oneOf": [ref("Match"), {"type": "null"}]},
})  # fmt: skip
HITS = obj({
    "hits": many(ref("Hit")), "total": COUNT, "total_is": {"type": "string", "enum": ["exact", "at least"]},
    "behind": COUNT, "epoch": COUNT, "commit_time": TEXT, "next": maybe("string"),
}, optional=("commit_time",))  # fmt: skip
SCHEMAS = {"Match": MATCH, "Hit": HIT, "Hits": HITS}

OPERATIONS = (
    Operation(
        "GET", "/api/search", "search", "Things by what they are called",
        {200: Reply("The things, best first.", ref("Hits"))}, "graph",
        "One hit a thing, over its labels and all its other literals. First those whose name is `q`, then those with "
        "another literal that is, then names that begin with `q`, then names with all its words, then things with all "
        "its words, then, where few were found, names spelt like it; within each the more important come first. Case, "
        "accents and width do not count; the last word may be unfinished; nothing in `q` is an operator. `match` is "
        "the literal that matched (`property` is null for the end of the IRI), in pieces that are hits or not. At most "
        "500 things are ranked: `total_is` says so. Give `q`, `type` or both; `type` alone lists its things, the most "
        "important first. `behind` is how many commits the index has still to take in.",
        (
            Parameter("q", {"type": "string", "maxLength": 500}, "What a person types.", example="payment gate"),
            Parameter("type", IRI, "Only things of this class, or of a class below it.",
                      example="https://w3id.org/graphtide/ns#Service"),
            limit(20, 100),
            CURSOR,
        ),
        refusals=(503,),
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/search`."""
    return made(serving, OPERATIONS, {"search": find})


async def find(given: Given) -> Response:
    """A page of hits."""
    text, of_class = given.get("q", "").strip(), given.get("type")
    if not text and of_class is None:
        raise Problem(400, "nothing-asked", "Give `q`, what is looked for, or `type`, a class to list.")
    place = unpack(given, int, int, int, str)
    after = (place[0], place[1], place[2], place[3]) if place is not None else None

    def work(index: Index) -> Response:
        tag = tag_of(given, index.commit)
        if (same := unchanged(given, tag, index.commit)) is not None:
            return same
        found = search(index.db, text, of_class=of_class, limit=given.get("limit", 20), after=after)
        wanted = {one for hit in found.hits for one in hit.types}
        wanted |= {hit.match.property for hit in found.hits if hit.match is not None and hit.match.property}
        known = importance.of(index.db, wanted)
        names = {name: known[name].label if name in known else local(name) for name in wanted}
        body = {
            "hits": [_hit(hit, names) for hit in found.hits], "total": found.total,
            "total_is": "at least" if found.capped else "exact", "behind": index.behind,
        }  # fmt: skip
        more = next_link(given, list(found.hits[-1].key)) if found.more else None
        return answer(given, body, epoch=index.commit, time=index.time, next=more, tag=tag)

    return await indexed(given.serving, work)


def _hit(hit: Hit, names: dict[str, str]) -> dict[str, Any]:
    match = None
    if hit.match is not None:
        name = hit.match.property
        match = {
            "property": {"iri": name, "label": names[name]} if name else None, "value": hit.match.value,
            "language": hit.match.language, "kind": hit.match.kind,
            "parts": [{"text": text, "hit": found} for text, found in hit.match.parts],
        }  # fmt: skip
    return {
        "iri": hit.iri, "label": hit.label, "types": [{"iri": one, "label": names[one]} for one in hit.types],
        "importance": hit.importance, "vocabulary": hit.vocabulary, "match": match,
    }  # fmt: skip
