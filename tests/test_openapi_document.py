"""The OpenAPI document says what the server does: every route, and nothing that is not one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sparql.server.api.schema import Unfit, check, read
from sparql.server.app import create_app
from sparql.server.config import ServerConfig
from sparql.server.openapi import EXAMPLES, OPERATIONS, SCHEMAS, document


def plain(path: str) -> str:
    return re.sub(r"\{(\w+):\w+\}", r"{\1}", path).rstrip("/") or "/"


def test_every_route_of_the_application_is_declared_and_every_declared_one_is_there(tmp_path: Path) -> None:
    app = create_app(ServerConfig(tmp_path, "https://e.example/"))
    routes: dict[str, set[str]] = {}
    for route in app.routes:
        # A route without methods is an application that answers for itself: its methods are as declared.
        routes.setdefault(plain(route.path), set()).update(getattr(route, "methods", None) or ())
    declared: dict[str, set[str]] = {}
    for one in OPERATIONS:
        declared.setdefault(one.path, set()).add(one.method)
    assert routes.keys() == declared.keys()
    for path, methods in routes.items():
        assert methods - {"HEAD", "OPTIONS"} <= declared[path], path
        assert not methods or declared[path] <= methods, path


def test_the_document_is_one_and_names_nothing_it_does_not_hold() -> None:
    found = document("/graph")
    assert (found["openapi"], found["servers"]) == ("3.1.0", [{"url": "/graph"}])
    text = json.dumps(found)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in found["components"]["schemas"]
    operations = [one for path in found["paths"].values() for one in path.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    for one in operations:
        assert one["summary"] and one["tags"] and "default" in one["responses"]
        assert {"401", "421"} <= one["responses"].keys() or one["security"] == []


def test_every_declared_parameter_of_a_path_is_in_it() -> None:
    for one in OPERATIONS:
        assert set(re.findall(r"\{(\w+)\}", one.path)) == {each.name for each in one.parameters if each.where == "path"}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_examples_are_what_their_schemas_say(name: str) -> None:
    root = {"$ref": f"#/components/schemas/{name}", "components": {"schemas": dict(SCHEMAS)}}
    jsonschema.Draft202012Validator(root).validate(EXAMPLES[name])


def test_the_example_of_a_parameter_is_allowed() -> None:
    for one in OPERATIONS:
        for each in one.parameters:
            if each.example is not None:
                read(
                    str(each.example).lower() if each.example in (True, False) else str(each.example), each.schema, "it"
                )


@pytest.mark.parametrize(
    ("value", "schema"),
    [(1.5, {"type": "integer"}), (True, {"type": "integer"}), ("", {"type": "string", "minLength": 1}),
     ([1], {"type": "array", "items": {"type": "string"}}),
     ({"a": 1}, {"type": "object", "additionalProperties": False}),
     ({}, {"type": "object", "required": ["a"]}), (None, {"type": "string"}), ("c", {"enum": ["a", "b"]}),
     (11, {"type": "integer", "maximum": 10}), ("ab", {"type": "string", "maxLength": 1})],
)  # fmt: skip
def test_what_the_published_schema_refuses_is_refused(value: Any, schema: Mapping[str, Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, schema)
    with pytest.raises(Unfit):
        check(value, schema, "it")
