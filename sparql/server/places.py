"""Every IRI has a page here: one under the base at its own path where nothing of ours is, and any at `/resource`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote, unquote, urlsplit

OURS = frozenset(
    (
        "sparql", "store", "writer", "api", "health", "ready", "metrics", "ns", "resource", "id", "void", "ask",
        "changes", "hooks", "mcp", "text2sparql", "openapi.json", "assets", "static", "favicon.ico", "robots.txt",
    )
)  # fmt: skip
GENID = ".well-known/genid/"
_ESCAPED = re.compile(r"(?:%[89A-Fa-f][0-9A-Fa-f])+")
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@/%-]*\Z")


def of_path(base: str, raw_path: str, query: str) -> Iterator[str]:
    """The IRIs that a request for this path may mean, the likeliest first; `raw_path` is as it was sent."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(base))
    for path in dict.fromkeys((raw_path, _spelled(raw_path))):
        iri = origin + path
        if iri.startswith(base) or base.startswith(iri):
            if query:
                yield f"{iri}?{query}"
            yield iri


def ours(path: str) -> bool:
    """Whether what is at this path is part of the server, and no page of a thing."""
    first, _, rest = path.lstrip("/").partition("/")
    return first in OURS or (first == ".well-known" and not rest.startswith("genid/"))


def path_of(base: str, iri: str) -> str:
    """Where the page of an IRI is on this server, as it stands in a link."""
    parts = urlsplit(base)
    origin = f"{parts.scheme}://{parts.netloc}"
    if iri.startswith(base) and not base.endswith("#"):
        path = iri[len(origin) :]
        # What cannot be told apart from a file name, from another path or from a parameter goes the sure way.
        plain = _PATH.match(path) and "//" not in path and "/./" not in path and "/../" not in path
        if plain and path.startswith("/") and not ours(path) and len(path) > 1 and not path.endswith(("/.", "/..")):
            return path
    return f"/resource?iri={quote(iri, safe='')}"


def _spelled(path: str) -> str:
    """The path with letters beyond ASCII as an IRI has them, when they were sent percent-encoded."""

    def letters(found: re.Match[str]) -> str:
        try:
            return unquote(found.group(), errors="strict")
        except UnicodeDecodeError:
            return found.group()

    return _ESCAPED.sub(letters, path)
