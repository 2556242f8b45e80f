"""A dotted path names what is inside nested data; a list on the way yields every one of its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def values_at(data: Mapping[str, Any], path: str) -> Iterator[Any]:
    """Every value at `path`, lists opened. A column whose name is the whole path comes first."""
    if path in data:
        yield from _opened(data[path])
        return
    head, dot, rest = path.partition(".")
    while dot:
        if head in data:
            for inner in _opened(data[head]):
                if isinstance(inner, Mapping):
                    yield from values_at(inner, rest)
            return
        more, dot, rest = rest.partition(".")
        head = f"{head}.{more}"


def holds(data: Mapping[str, Any], path: str) -> bool:
    """Whether the data has a place of that name, empty or not."""
    if path in data:
        return True
    return any(True for _ in values_at(data, path))


def _opened(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple, set, frozenset)):
        for inner in value:
            yield from _opened(inner)
    else:
        yield value
