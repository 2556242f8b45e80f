"""A record path names where the records of a document are: `data.items`, `$.data.items[*]`, `services.*`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sources.record import ReadError

_STEP = re.compile(r"""\.?(?:(\*)|\[\*\]()|\[(\d+)\]|\[(?:'([^']*)'|"([^"]*)")\]|([^.\[\]*]+))""")
EVERY = object()
Step = str | int | object


class RecordPathError(ValueError):
    """A record path that cannot be read as one."""


def parse(path: str | None) -> list[Step]:
    """The steps of a path: member names, list positions, EVERY. Raises RecordPathError."""
    steps: list[Step] = []
    rest = (path or "").strip().removeprefix("$")
    at = 0
    while at < len(rest):
        found = _STEP.match(rest, at)
        if found is None:
            raise RecordPathError(
                f"record_path {path!r} cannot be read at {rest[at:]!r}. Write it like 'data.items' or 'services.*'."
            )
        star, every, index, single, double, name = found.groups()
        if star is not None or every is not None:
            steps.append(EVERY)
        elif index is not None:
            steps.append(int(index))
        else:
            steps.append(next(text for text in (single, double, name) if text is not None))
        at = found.end()
    return steps


def elements(document: Any, steps: list[Step], where: str) -> Iterator[tuple[str, str | None, Any]]:
    """(path, member name or None, value) of each record of a document, in order.

    A list at the end of the path is its elements, an object one record, `.*` the members of an object, whose names
    are then keys. Null is no record. Raises ReadError when the path leads nowhere.
    """
    found: list[tuple[str, str | None, Any]] = [("$", None, document)]
    for step in steps:
        found = [inner for place, _, value in found for inner in _follow(place, value, step, where)]
    for place, name, value in found:
        if isinstance(value, list) and name is None:
            for position, item in enumerate(value):
                if item is not None:
                    yield f"{place}[{position}]", None, item
        elif value is not None:
            yield place, name, value


def data_of(value: Any, name: str | None) -> dict[str, Any]:
    """A record's data: an object's members, or {"value": ...}; `$key` is the name a member was found under."""
    data = dict(value) if isinstance(value, dict) else {"value": value}
    if name is not None:
        data.setdefault("$key", name)
    return data


def member(place: str, name: str) -> str:
    """The path of a member, quoted where it must be."""
    return f"{place}.{name}" if re.fullmatch(r"[\w$@#-]+", name) else f"{place}['{name}']"


def _follow(place: str, value: Any, step: Step, where: str) -> list[tuple[str, str | None, Any]]:
    if step is EVERY:
        if isinstance(value, list):
            return [(f"{place}[{position}]", None, item) for position, item in enumerate(value)]
        if isinstance(value, dict):
            return [(member(place, str(name)), str(name), item) for name, item in value.items()]
        raise ReadError(f"{where}#{place}", f"is {kind(value)}, not a list or an object", "Correct record_path.")
    if isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            return [(f"{place}[{step}]", None, value[step])]
        raise ReadError(f"{where}#{place}", f"is {kind(value)} without an element {step}", "Correct record_path.")
    if isinstance(value, dict) and step in value:
        return [(member(place, str(step)), None, value[step])]
    has = ""
    if isinstance(value, dict):
        has = "; it has " + (", ".join(repr(name) for name in list(value)[:8]) or "nothing")
    raise ReadError(f"{where}#{place}", f"is {kind(value)} without {step!r}{has}", "Correct record_path.")


def kind(value: Any) -> str:
    """What a value is, in JSON's words."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else repr(value if len(str(value)) < 40 else str(value)[:37] + "...")
