"""JSON, JSON Lines and YAML keep the types they write; what a document would grow to is checked before it grows."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import yaml

from sources.limits import Limits
from sources.paths import Step, data_of, elements
from sources.record import ReadError
from sources.tables import Row


def json_rows(text: str, where: str, steps: list[Step], limits: Limits) -> Iterator[Row]:
    """The records of a JSON document. Raises ReadError naming the line where it stops being JSON."""
    document = _json(text, where, 1, limits)
    suspect = _SURROGATE.search(text) is not None
    for place, name, value in elements(document, steps, where):
        data = data_of(value, name)
        yield f"#{place}", name, data, _half(data) if suspect else ""


def line_rows(file: BinaryIO, where: str, encoding: str, steps: list[Step], limits: Limits) -> Iterator[Row]:
    """One JSON document a line; empty lines are nothing. Raises ReadError naming the line that is not JSON."""
    text = io.TextIOWrapper(file, encoding=encoding)
    try:
        for number, line in enumerate(text, 1):
            if line.isspace():
                continue
            value = _json(line.rstrip("\r\n"), where, number, limits)
            suspect = "\\" in line and _SURROGATE.search(line) is not None
            if not steps:
                data = data_of(value, None)
                yield f":{number}", None, data, _half(data) if suspect else ""
                continue
            for place, name, item in elements(value, steps, f"{where}:{number}"):
                data = data_of(item, name)
                yield f":{number}#{place}", name, data, _half(data) if suspect else ""
    finally:
        text.detach()


def _json(text: str, where: str, first: int, limits: Limits) -> Any:
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except RecursionError:
        raise _too_deep(f"{where}:{first - 1 + _deep_line(text, limits.max_depth)}", limits) from None
    except json.JSONDecodeError as wrong:
        line = first - 1 + wrong.lineno
        if not text.strip():
            raise ReadError(f"{where}:{line}", "is empty, which is not JSON", "Write [] for no records.") from None
        cut = "It ends too soon: is it half-written?" if not text[wrong.pos :].strip() else ""
        if wrong.msg.startswith("Unterminated string"):
            cut = "A string that opens here never closes: is it half-written?"
        problem = wrong.msg.removesuffix(" starting at")
        raise ReadError(f"{where}:{line}", f"is not JSON: {problem} at column {wrong.colno}", cut) from None
    except ValueError as wrong:  # NaN, or a number of more digits than Python turns into an integer
        raise ReadError(f"{where}:{first}", f"is not JSON that can be read: {wrong}", "") from None
    if _depth_exceeds(value, limits.max_depth):
        raise _too_deep(f"{where}:{first - 1 + _deep_line(text, limits.max_depth)}", limits)
    return value


def _half(data: dict[str, Any]) -> str:
    """Why the data cannot be written as UTF-8, if it cannot: JSON may escape half of a character."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as wrong:
        half = ascii(wrong.object[wrong.start])
        return f"it holds {half}, which is half of a character. Write both halves, or the character itself."
    return ""


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number; write null or a string")


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if inner.__class__ is dict or inner.__class__ is list
        ]
    return bool(level)


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}\n]')


def _deep_line(text: str, limit: int) -> int:
    depth, line = 0, 1
    for found in _BRACKETS.finditer(text):
        mark = found.group()
        if mark == "\n":
            line += 1
        elif mark in "[{":
            depth += 1
            if depth > limit:
                break
        elif mark in "]}":
            depth -= 1
    return line


def _too_deep(place: str, limits: Limits) -> ReadError:
    return ReadError(place, f"nests deeper than max_depth ({limits.max_depth})", "Raise max_depth under [limits].")


class _Loader(yaml.CSafeLoader):
    """Safe YAML whose plain words are those of YAML 1.2: `no` is a word, `1:30` is not 90, `010` is ten."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def _plain_scalars(loader: type[_Loader]) -> None:
    # YAML 1.1, which PyYAML speaks, reads Norway's code `NO` as false and `12:30:45` as 45045.
    keep = {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"}
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag in keep]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
    for tag, pattern, firsts in (
        ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
        ("null", r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
        ("int", r"^(?:[-+]?[0-9]+|0x[0-9a-fA-F]+|0o[0-7]+)$", "-+0123456789"),
        (
            "float",
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
            "-+0123456789.",
        ),
    ):
        loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(pattern), list(firsts))
    loader.add_constructor("tag:yaml.org,2002:int", _yaml_int)


def _yaml_int(loader: Any, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    return int(text, 16) if text.startswith("0x") else int(text, 8) if text.startswith("0o") else int(text)


_plain_scalars(_Loader)


def yaml_rows(text: str, where: str, steps: list[Step], limits: Limits) -> Iterator[Row]:
    """The records of every document of a YAML file. Raises ReadError naming the line.

    Every alias is counted as if written out before any is: a bomb costs what its own text costs.
    """
    loader = _Loader(text)
    many = 0
    try:
        while loader.check_node():
            node = loader.get_node()
            many += 1
            _check_expansion(node, where, limits)
            document = _plain(loader.construct_document(node))
            lines = _lines(node)
            for place, name, value in elements(document, steps, where):
                line = lines.get(place)
                yield (f":{line}" if line else f"#{place}"), name, data_of(value, name), ""
    except yaml.MarkedYAMLError as wrong:
        mark = wrong.problem_mark or wrong.context_mark
        line = mark.line + 1 if mark else 1
        problem = (wrong.problem or wrong.context or "cannot be read").rstrip(".")
        raise ReadError(f"{where}:{line}", f"is not YAML: {problem}", "") from None
    except yaml.YAMLError as wrong:
        raise ReadError(f"{where}:1", f"is not YAML: {wrong}", "") from None
    except RecursionError:
        raise _too_deep(f"{where}:1", limits) from None
    except (ValueError, OverflowError) as wrong:
        if isinstance(wrong, ReadError):
            raise
        raise ReadError(f"{where}:1", f"has a value that cannot be read: {wrong}", "Quote it.") from None
    finally:
        loader.dispose()
    if not many:
        raise ReadError(f"{where}:1", "is empty", "Write [] for no records, or delete the file.")


def _check_expansion(root: Any, where: str, limits: Limits) -> None:
    """Refuse a node graph that is not a tree of bounded depth and size once aliases are written out."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, done = stack.pop()
        key = id(node)
        if isinstance(node, yaml.ScalarNode):
            sizes[key] = 1
            continue
        inner = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        place = f"{where}:{node.start_mark.line + 1}"
        if done:
            open_nodes.discard(key)
            sizes[key] = 1 + sum(sizes[id(part)] for part in inner)
            if sizes[key] > limits.max_nodes:
                raise ReadError(
                    place,
                    f"its aliases would write out to more than max_nodes ({limits.max_nodes}) values",
                    "Raise max_nodes under [limits] if this is meant.",
                )
            continue
        if key in sizes:
            continue
        if key in open_nodes:
            raise ReadError(place, "an alias refers to what it is inside of", "Records have no cycles.")
        open_nodes.add(key)
        if len(open_nodes) > limits.max_depth:
            raise _too_deep(place, limits)
        stack.append((node, True))
        stack.extend((part, False) for part in inner)


def _plain(value: Any) -> Any:
    """The value in JSON's shapes plus dates: names are text, sets lists, bytes base64."""
    if isinstance(value, dict):
        return {_name(name): _plain(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, set):
        return sorted((_plain(inner) for inner in value), key=str)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    return value


def _name(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _lines(root: Any) -> dict[str, int]:
    """The line of each record a short path can reach: elements of lists and members of objects, by path."""
    from sources.paths import member

    lines: dict[str, int] = {}
    stack: list[tuple[str, Any]] = [("$", root)]
    seen = 0
    while stack and seen < 1_000_000:
        place, node = stack.pop()
        seen += 1
        lines[place] = node.start_mark.line + 1
        if isinstance(node, yaml.SequenceNode):
            stack.extend((f"{place}[{n}]", inner) for n, inner in enumerate(node.value))
        elif isinstance(node, yaml.MappingNode):
            for name, inner in node.value:
                if isinstance(name, yaml.ScalarNode) and not isinstance(inner, yaml.ScalarNode):
                    stack.append((member(place, name.value), inner))
    return lines
