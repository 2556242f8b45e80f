"""A coding is the client's to choose and the bytes' to refuse: what is small or compressed already goes as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

# Best first among what a client likes equally: zstd is the fastest here, then br at its streaming quality.
CODINGS = ("zstd", "br", "gzip")
IDENTITY = "identity"
# Their bytes are compressed, or are read by column and not as text.
COMPRESSED = frozenset(("parquet", "arrow"))

_ITEM = re.compile(r"([^;,\s]+)\s*((?:;[^,]*)?)")  # no blanks before it: a run of them would cost its square
_Q = re.compile(r";\s*q\s*=\s*([0-9.]+)", re.IGNORECASE)
_TAG = re.compile(r'(?:W/)?"([^"]*)"')


class NoCoding(ValueError):
    """The client takes none of the codings there are. `str()` lists them."""


@lru_cache(maxsize=256)
def codings(accept: str | None) -> tuple[str, ...]:
    """The codings an Accept-Encoding header takes, best first, `identity` among them unless it is refused.

    Raises NoCoding when nothing is left. Without the header only identity is sent.
    """
    if accept is None:
        return (IDENTITY,)
    given: dict[str, float] = {}
    for found in _ITEM.finditer(accept):
        quality = _Q.search(found.group(2))
        name = found.group(1).lower()
        try:
            given["gzip" if name == "x-gzip" else name] = min(float(quality.group(1)), 1.0) if quality else 1.0
        except ValueError:
            continue
    others = given.get("*")
    taken = {name: given.get(name, others if others is not None else 0.0) for name in CODINGS}
    # Identity is taken unless it is refused by name or by a `*` (RFC 9110, 12.5.3); last among equals.
    taken[IDENTITY] = given.get(IDENTITY, 0.0001 if others is None or others > 0 else 0.0)
    best = sorted((name for name in taken if taken[name] > 0), key=lambda name: -taken[name])
    if not best:
        raise NoCoding(f"None of the codings in {accept!r} is written. Take one of {', '.join(CODINGS)}, {IDENTITY}.")
    return tuple(best)


def matches(header: str | None, tags: Iterable[str]) -> str | None:
    """The first of `tags` (without quotes) an If-None-Match header names, compared weakly; None when none is."""
    if header is None:
        return None
    given = set(_TAG.findall(header))
    for tag in tags:
        if tag in given or header.strip() == "*":
            return tag
    return None
