"""Most records are right: what surely conforms is seen on the text, and only the rest is put before pyshacl.

A check here may answer "not sure" for anything; "conforms" is never wrong (test_ontology_conform compares the two).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from rdflib.term import Node

from ontology.facts import XSD
from ontology.graph import from_rdflib, parts
from ontology.locality import COUNT, PAIR, VALUE, Reading, sh

Values = Mapping[str, Sequence[str]]
"""A node's statements: spelled predicate to spelled objects, each once."""
Conforms = Callable[[str, Values], bool]
"""Whether this focus node (spelled) with these statements surely conforms."""
_Test = Callable[[str], bool]

_LEXICAL = {
    "integer": re.compile(r"[+-]?[0-9]+\Z"),
    "decimal": re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?\Z"),
    "double": re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?\Z"),
    "float": re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?\Z"),
    "boolean": re.compile(r"(?:true|false)\Z"),
    "date": re.compile(r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])\Z"),
    "dateTime": re.compile(
        r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?Z?\Z"
    ),
}


def _never(value: str) -> bool:
    return False


def compiled(reading: Reading, shape: Node, seen: frozenset[Node] = frozenset()) -> Conforms:
    """A quick check of everything the shape says about a focus node's own statements."""
    checks: list[Conforms] = []
    seen = seen | {shape}
    if _deactivated(reading, shape):
        return lambda focus, values: True
    path = reading.path(shape)
    if path is not None:
        return _property(reading, shape, path)
    for param, value in reading.params(shape):
        if param == sh.property:
            checks.append(_unsure if value in seen else compiled(reading, value, seen))
        elif param in VALUE or param == sh.hasValue:
            test = _value_test(reading, shape, param, value)
            checks.append(lambda focus, values, test=test: test(focus))  # type: ignore[misc]
        elif param == sh.closed:
            if str(value) in ("true", "1"):
                checks.append(_closed(reading, shape))
        elif param == sh.node and value not in seen:
            checks.append(compiled(reading, value, seen))
        elif param in (sh["and"], sh["or"]):
            members = [compiled(reading, member, seen) for member in reading.graph.items(value) if member not in seen]
            checks.append(_all(members) if param == sh["and"] else _any(members))
        else:
            return _unsure
    return _all(checks)


def _deactivated(reading: Reading, shape: Node) -> bool:
    return any(str(value) in ("true", "1") for value in reading.graph.objects(shape, sh.deactivated))


def _unsure(focus: str, values: Values) -> bool:
    return False


def _all(checks: list[Conforms]) -> Conforms:
    if len(checks) == 1:
        return checks[0]

    def conforms(focus: str, values: Values) -> bool:
        for check in checks:  # noqa: SIM110 - twice as fast as all() over a generator, once a record
            if not check(focus, values):
                return False
        return True

    return conforms


def _any(checks: list[Conforms]) -> Conforms:
    return lambda focus, values: any(check(focus, values) for check in checks)


def _closed(reading: Reading, shape: Node) -> Conforms:
    allowed = {f"<{reading.path(child)}>" for child in reading.graph.objects(shape, sh.property)}
    for ignored in reading.graph.objects(shape, sh.ignoredProperties):
        allowed |= {f"<{item}>" for item in reading.graph.items(ignored)}
    return lambda focus, values: values.keys() <= allowed


def _property(reading: Reading, shape: Node, path: Node) -> Conforms:
    own = reading.own_path(path)
    if own is None:
        return _unsure
    predicates = [f"<{name}>" for name in own]
    tests: list[_Test] = []
    groups: list[Callable[[Sequence[str], Values], bool]] = []
    low, high = 0, None
    for param, value in reading.params(shape):
        if param == sh.minCount:
            low = max(low, int(str(value)))
        elif param == sh.maxCount:
            high = int(str(value)) if high is None else min(high, int(str(value)))
        elif param in COUNT:
            groups.append(_group(param, value))
        elif param in PAIR:
            groups.append(_pair(param, f"<{value}>"))
        else:
            tests.append(_value_test(reading, shape, param, value))
    single = predicates[0] if len(predicates) == 1 else None
    nothing: tuple[str, ...] = ()

    many = low > 1 or high is not None
    only = tests[0] if len(tests) == 1 else None

    def conforms(focus: str, values: Values) -> bool:
        if single is not None:
            found: Sequence[str] = values.get(single, nothing)
        else:
            found = list({value for predicate in predicates for value in values.get(predicate, nothing)})
        if not found:
            return not low and all(group(found, values) for group in groups)
        if many and (len(found) < low or (high is not None and len(found) > high)):
            return False
        for value in found:
            if only is not None:
                if not only(value):
                    return False
            else:
                for test in tests:
                    if not test(value):
                        return False
        return not groups or all(group(found, values) for group in groups)

    return conforms


def _group(param: Node, value: Node) -> Callable[[Sequence[str], Values], bool]:
    if param == sh.hasValue:
        wanted = from_rdflib(value)
        return lambda found, values: wanted in found
    if str(value) not in ("true", "1"):
        return lambda found, values: True
    return lambda found, values: _distinct(found)


def _distinct(found: Sequence[str]) -> bool:
    tags = [tag for text in found if text[0] == '"' and (tag := parts(text)[1]) is not None]
    return len(tags) == len(set(tags))


def _pair(param: Node, other: str) -> Callable[[Sequence[str], Values], bool]:
    if param == sh.equals:
        return lambda found, values: set(found) == set(values.get(other, ()))
    if param == sh.disjoint:
        return lambda found, values: set(found).isdisjoint(values.get(other, ()))
    strict = param == sh.lessThan

    def ordered(found: Sequence[str], values: Values) -> bool:
        for one in found:
            for two in values.get(other, ()):
                order = _compare(one, two)
                if order is None or order > 0 or (strict and order == 0):
                    return False
        return True

    return ordered


def _value_test(reading: Reading, shape: Node, param: Node, value: Node) -> _Test:
    graph = reading.graph
    if param == sh.datatype:
        return _datatype(str(value))
    if param == sh.nodeKind:
        kind = str(value).rsplit("#", 1)[-1]
        first = {"IRI": "<", "BlankNodeOrIRI": "<", "Literal": '"', "BlankNodeOrLiteral": '"', "IRIOrLiteral": '<"'}
        wanted = first.get(kind, "")
        return lambda text: text[0] in wanted
    if param == sh["in"]:
        options = frozenset(from_rdflib(item) for item in graph.items(value))
        return options.__contains__
    if param == sh.hasValue:
        only = from_rdflib(value)
        return lambda text: text == only
    if param == sh.pattern:
        return _pattern(str(value), "".join(str(flags) for flags in graph.objects(shape, sh.flags)))
    if param in (sh.minLength, sh.maxLength):
        size, least = int(str(value)), param == sh.minLength
        return lambda text: (len(_lexical(text)) >= size) if least else (len(_lexical(text)) <= size)
    if param == sh.languageIn:
        ranges = [str(item).lower() for item in graph.items(value)]
        return lambda text: text[0] == '"' and _in_ranges(parts(text)[1], ranges)
    if param in (sh.minInclusive, sh.minExclusive, sh.maxInclusive, sh.maxExclusive):
        return _bound(param, from_rdflib(value))
    if param in (sh["or"], sh["and"]):
        members = [_value_shape(reading, member) for member in graph.items(value)]
        if param == sh["or"]:
            return lambda text: any(member(text) for member in members)
        return lambda text: all(member(text) for member in members)
    if param == sh.node and reading.value_only(value):
        return _value_shape(reading, value)
    return _never


def _value_shape(reading: Reading, shape: Node) -> _Test:
    if not reading.value_only(shape):
        return _never
    if _deactivated(reading, shape):
        return lambda text: True
    tests = [_value_test(reading, shape, param, value) for param, value in reading.params(shape)]
    return lambda text: all(test(text) for test in tests)


def _datatype(datatype: str) -> _Test:
    if datatype == XSD + "string":
        return lambda text: text[-1] == '"'
    pattern = _LEXICAL.get(datatype.removeprefix(XSD)) if datatype.startswith(XSD) else None
    if pattern is None:
        return _never
    tail = f'"^^<{datatype}>'
    size = len(tail)
    match = pattern.match
    return lambda text: text.endswith(tail) and match(text[1:-size]) is not None


def _pattern(pattern: str, flags: str) -> _Test:
    options = (re.IGNORECASE if "i" in flags.lower() else 0) | (re.MULTILINE if "m" in flags.lower() else 0)
    try:
        search = re.compile(pattern, options).search
    except re.error:
        return _never
    return lambda text: search(_lexical(text)) is not None


def _lexical(text: str) -> str:
    return text[1:-1] if text[0] == "<" else parts(text)[0]


def _in_ranges(tag: str | None, ranges: list[str]) -> bool:
    return tag is not None and any(tag == one or tag.startswith(f"{one}-") for one in ranges)


def _bound(param: Node, limit: str) -> _Test:
    least = param in (sh.minInclusive, sh.minExclusive)
    strict = param in (sh.minExclusive, sh.maxExclusive)

    def within(text: str) -> bool:
        order = _compare(text, limit)
        if order is None or (strict and order == 0):
            return False
        return order >= 0 if least else order <= 0

    return within


def _compare(one: str, two: str) -> int | None:
    """-1, 0 or 1 for two numbers or two plain days, None when not sure."""
    if one[0] != '"' or two[0] != '"':
        return None
    left, right = _ordered(one), _ordered(two)
    if left is None or right is None or type(left) is not type(right):
        return None
    return (left > right) - (left < right)  # type: ignore[operator]


def _ordered(text: str) -> Decimal | date | None:
    lexical, _, datatype = parts(text)
    name = datatype.removeprefix(XSD)
    pattern = _LEXICAL.get(name)
    if pattern is None or len(lexical) > 60 or pattern.match(lexical) is None:
        return None
    if name in ("integer", "decimal"):
        return Decimal(lexical)
    return date.fromisoformat(lexical) if name == "date" and lexical[:4] != "0000" else None


def grouped(statements: Sequence[str] | frozenset[str]) -> dict[str, dict[str, list[str]]]:
    """Statements by subject and predicate, spelled."""
    out: dict[str, dict[str, list[str]]] = {}
    for statement in statements:
        subject, predicate, value = statement.split(" ", 2)
        found = out.get(subject)
        if found is None:
            out[subject] = {predicate: [value]}
        else:
            found.setdefault(predicate, []).append(value)
    return out
