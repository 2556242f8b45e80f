"""A relative IRI means what RFC 3986 says it means, dots and all; `urljoin` knows only some schemes."""

from __future__ import annotations

import re

_SPLIT = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.\-]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def absolute(iri: str) -> bool:
    """Whether it begins with a scheme."""
    return _SCHEME.match(iri) is not None


def resolve(reference: str, base: str) -> str:
    """The IRI that `reference` means in a document at `base` (RFC 3986, 5.2.2)."""
    if absolute(reference):
        # Strictly its dots would go as well; the engine leaves what is absolute as it is written (test_syntax_print).
        return reference
    _, authority, path, query, fragment = _parts(reference)
    scheme, base_authority, base_path, base_query, _ = _parts(base)
    if authority is not None:
        path = _without_dots(path)
    else:
        authority = base_authority
        if not path:
            path = base_path
            query = base_query if query is None else query
        elif path.startswith("/"):
            path = _without_dots(path)
        else:
            folder = base_path[: base_path.rfind("/") + 1]
            path = _without_dots(("/" if base_authority is not None and not base_path else folder) + path)
    return "".join(
        (
            f"{scheme}:" if scheme is not None else "",
            f"//{authority}" if authority is not None else "",
            path,
            f"?{query}" if query is not None else "",
            f"#{fragment}" if fragment is not None else "",
        )
    )


def _parts(iri: str) -> tuple[str | None, str | None, str, str | None, str | None]:
    found = _SPLIT.fullmatch(iri)
    assert found is not None
    scheme, authority, path, query, fragment = found.groups()
    return scheme, authority, path, query, fragment


def _without_dots(path: str) -> str:
    """RFC 3986, 5.2.4, in one pass."""
    if "." not in path:
        return path
    rooted = path.startswith("/")
    kept: list[str] = []
    parts = path.split("/")[1 if rooted else 0 :]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == ".":
            if last:
                kept.append("")
        elif part == "..":
            if kept:
                kept.pop()
            if last:
                kept.append("")
        else:
            kept.append(part)
    return ("/" if rooted else "") + "/".join(kept)
