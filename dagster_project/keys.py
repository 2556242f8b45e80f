"""A source is three assets and one group, and every name the Dagster side uses is made here."""

import re
from collections.abc import Iterable, Sequence

from dagster import AssetKey

STAGES = ("records", "facts", "graph")
HEALTHY = "source_healthy"
WELL_FORMED = "well_formed"


def word(text: str) -> str:
    """`text` as Dagster lets a group, op or check be called: letters, digits and underscores."""
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "_"


def asset_key(prefix: Sequence[str], source: str, stage: str) -> AssetKey:
    """The key of one stage of one source; a slash in the source's name becomes a level of its own."""
    return AssetKey([*prefix, *source.split("/"), stage])


def graph_key(prefix: Sequence[str]) -> AssetKey:
    """The key of the whole graph: what all sources and rules say together."""
    return AssetKey([*prefix, "graph"])


def rule_key(prefix: Sequence[str], rule: str) -> AssetKey:
    """The key of what one rule derives."""
    return AssetKey([*prefix, "rules", *rule.split("/")])


def op_name(prefix: Sequence[str], source: str) -> str:
    """The name of the one op that syncs a source."""
    return "__".join(word(part) for part in [*prefix, "sync", source])


def check_names(shapes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Shape IRI -> the name of its check: the last word of the IRI, numbered where two shapes share it."""
    names: dict[str, str] = {}
    taken = {HEALTHY, WELL_FORMED}
    for shape in sorted({shape for shape, _ in shapes}):
        stem = word(re.split(r"[/#:]", shape.rstrip("/#"))[-1])
        name, number = stem, 1
        while name in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name)
        names[shape] = name
    return names
