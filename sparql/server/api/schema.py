"""What a request may say is its schema, and the schema that is published is the one that is checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]


class Unfit(ValueError):
    """A value that its schema does not allow: `str()` names the place and what to write."""


def check(value: Any, schema: Schema, where: str) -> None:
    """Raises Unfit for the first thing in `value` that the schema does not allow.

    Of JSON Schema it knows what the API's own requests use: type, enum, bounds, pattern, items, properties, required,
    additionalProperties.
    """
    kinds = schema.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(_is(value, kind) for kind in allowed):
            raise Unfit(f"{where} is {_short(value)}, which is not {' or '.join(map(_a, allowed))}.")
    if "enum" in schema and value not in schema["enum"]:
        raise Unfit(f"{where} is {_short(value)}. Write one of {', '.join(map(str, schema['enum']))}.")
    if isinstance(value, str):
        _text(value, schema, where)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        low, high = schema.get("minimum"), schema.get("maximum")
        if (low is not None and value < low) or (high is not None and value > high):
            raise Unfit(f"{where} is {value}. Write {_range(low, high)}.")
    elif isinstance(value, list):
        most = schema.get("maxItems")
        if most is not None and len(value) > most:
            raise Unfit(f"{where} has {len(value)} items; {most} are allowed.")
        for number, item in enumerate(value if "items" in schema else ()):
            check(item, schema["items"], f"{where}[{number}]")
    elif isinstance(value, dict):
        _members(value, schema, where)


def read(text: str, schema: Schema, where: str) -> Any:
    """The value that a parameter's text is, checked. Raises Unfit."""
    kind = schema.get("type", "string")
    value: Any = text
    if kind == "integer":
        if not re.fullmatch(r"-?[0-9]{1,15}", text):
            raise Unfit(f"{where}={_short(text)} is not a whole number.")
        value = int(text)
    elif kind == "boolean":
        if text not in ("true", "false"):
            raise Unfit(f"{where}={_short(text)} is not true or false.")
        value = text == "true"
    check(value, schema, where)
    return value


def _text(value: str, schema: Schema, where: str) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Unfit(f"{where} is not Unicode text.")
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least:
        raise Unfit(f"{where} is empty." if not value else f"{where} needs {least} characters.")
    if most is not None and len(value) > most:
        raise Unfit(f"{where} has {len(value):,} characters; {most:,} are allowed.")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        raise Unfit(f"{where} is {_short(value)}. Write {schema.get('x-write', 'what fits ' + schema['pattern'])}.")


def _members(value: Mapping[str, Any], schema: Schema, where: str) -> None:
    known: Mapping[str, Schema] = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            raise Unfit(f"{where} has no {name!r}.")
    for name, item in value.items():
        if name in known:
            check(item, known[name], name if where == "The body" else f"{where}.{name}")
        elif schema.get("additionalProperties") is False:
            raise Unfit(f"{name!r} is not known here. Known: {', '.join(known)}.")


def _is(value: Any, kind: str) -> bool:
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    types = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}
    return isinstance(value, types[kind])


def _a(kind: str) -> str:
    names = {"string": "text", "boolean": "true or false", "array": "a list", "object": "an object", "null": "null",
             "integer": "a whole number", "number": "a number"}  # fmt: skip
    return names[kind]


def _range(low: Any, high: Any) -> str:
    if low is not None and high is not None:
        return f"{low} to {high}"
    return f"{low} or more" if low is not None else f"{high} or less"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def obj(properties: Mapping[str, Schema], *, optional: Sequence[str] = (), more: bool = False, **other: Any) -> Schema:
    """The schema of an object: all its properties are there but those that are `optional`, and no others."""
    needed = [name for name in properties if name not in optional]
    found: dict[str, Any] = {"type": "object", "properties": dict(properties), **other}
    if needed:
        found["required"] = needed
    if not more:
        found["additionalProperties"] = False
    return found


def ref(name: str) -> Schema:
    """A schema by name."""
    return {"$ref": f"#/components/schemas/{name}"}


def many(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def maybe(kind: str) -> Schema:
    return {"type": [kind, "null"]}


TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
IRI: Schema = {"type": "string", "minLength": 1, "maxLength": 8192}
