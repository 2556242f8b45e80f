"""Of the profile a question needs a few lines: what its words mean, then what joins that, then what is used most."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparql.question import known
from sparql.question.planner.linking import Terms, tail
from sparql.question.planner.words import kin, read, stems
from sparql.question.profile import namespace
from sparql.question.schema import Schema, Use

BUDGET = 1_500
"""Tokens a slice may take."""
PER_TOKEN = 3.0
"""Characters to a token: fewer than any tokeniser in use makes of names and IRIs, so that a budget is never passed."""
_XSD = "http://www.w3.org/2001/XMLSchema#"
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
_VALUES, _LONGEST = 4, 32


@dataclass(frozen=True, slots=True)
class Slice:
    """The text, and the classes and properties that are in it."""

    text: str
    classes: frozenset[str]
    properties: frozenset[str]

    @property
    def tokens(self) -> int:
        """How many tokens it takes, at most."""
        return tokens(self.text)


def tokens(text: str) -> int:
    """How many tokens a text takes, at most."""
    return math.ceil(len(text) / PER_TOKEN)


def slice_of(
    schema: Schema, question: str, *, linked: Iterable[str] = (), budget: int = BUDGET, values: bool = True
) -> Slice:
    """The lines of the profile that a question needs most, within the budget. `linked` are IRIs it is known to mean.

    `values` allows the commonest values of a property to be shown. The same for the same profile and question.
    """
    terms = Terms(schema)
    meant = set(linked)
    words = [word for word in read(question) if word.content]
    asked = [part for word in words for part in stems(word.folded)]
    for word in words:
        meant |= {iri for _, iri, score in terms.near(stems(word.folded))[:3] if score >= 0.55}
    names = _prefixed(schema)
    lines = _lines(schema, meant, asked, names, values)
    return _within(lines, schema, names, budget)


@dataclass(frozen=True, slots=True)
class _Line:
    class_: str
    property: str
    text: str
    score: float


def _lines(
    schema: Schema, meant: set[str], asked: list[str], names: Mapping[str, str], values: bool
) -> list[_Line]:  # fmt: skip
    reach = {use.class_ for use in schema.uses if use.property in meant}
    reach |= {one.iri for use in schema.uses if use.property in meant for one in use.ranges if not one.literal}
    found = []
    most = max((use.statements for use in schema.uses), default=1)
    for use in schema.uses:
        property = schema.properties.get(use.property)
        if property is None:
            continue
        score = 3.0 * (use.property in meant) + 1.5 * (use.class_ in meant) + 0.7 * (use.class_ in reach)
        score += 0.7 * any(one.iri in meant for one in use.ranges if not one.literal)
        named = {*stems(property.name.label), *stems(tail(use.property)), *stems(property.name.description)}
        score += 1.2 * max((kin(one, part) for one in asked for part in named), default=0.0)
        score += 0.5 * math.log1p(use.statements) / math.log1p(most) + 0.2 * (use.property == _LABEL)
        found.append(_Line(use.class_, use.property, _use(schema, use, names, values), score))
    return sorted(found, key=lambda one: (-one.score, one.class_, one.property))


def _use(schema: Schema, use: Use, names: Mapping[str, str], values: bool) -> str:
    property = schema.properties[use.property]
    called = "" if property.name.label.lower() == tail(use.property).lower() else f' "{property.name.label}"'
    ranges = " | ".join(
        one.iri.rpartition("#")[2] if one.iri.startswith(_XSD) else _short(one.iri, names) for one in use.ranges[:3]
    )
    many = "" if use.most <= 1 else " *"
    shown = ""
    if values and (use.values or (use.top and use.distinct <= 20)):
        listed = use.values or tuple(term for term, _ in use.top)
        kept = [one.partition("^^")[0] for one in listed if len(one) <= _LONGEST + len(_XSD) + 12][:_VALUES]
        shown = f" e.g. {', '.join(kept)}" if kept else ""
    return f"  {_short(use.property, names)} {ranges or 'IRI'}{many}{called}{shown}"


def _within(lines: list[_Line], schema: Schema, names: Mapping[str, str], budget: int) -> Slice:
    """As many lines as fit, the best first, put together by class in the order of their best."""
    kept: dict[str, list[_Line]] = defaultdict(list)
    heads = {iri: _head(schema, iri, names) for iri in schema.classes}
    declared: dict[str, str] = {}
    left = budget * PER_TOKEN
    for line in lines:
        text = line.text if line.class_ in kept else f"{heads.get(line.class_, '')}\n{line.text}"
        needed = {name: space for space, name in names.items() if f"{name}:" in text and name not in declared}
        price = len(text) + 1 + sum(len(f"PREFIX {name}: <{space}>\n") for name, space in needed.items())
        if price <= left:
            kept[line.class_].append(line)
            declared |= needed
            left -= price
    head = "\n".join(f"PREFIX {name}: <{space}>" for name, space in sorted(declared.items()))
    parts = [head] if head else []
    for iri, mine in kept.items():
        parts.append(heads.get(iri, ""))
        parts += [line.text for line in mine]
    return Slice("\n".join(parts), frozenset(kept), frozenset(line.property for mine in kept.values() for line in mine))


def _head(schema: Schema, iri: str, names: Mapping[str, str]) -> str:
    one = schema.classes[iri]
    above = "".join(f" < {_short(each, names)}" for each in one.above if each in schema.classes)
    called = "" if one.name.label.lower() == tail(iri).lower() else f' "{one.name.label}"'
    return f"{_short(iri, names)}{called} ({one.instances}){above}"


def _prefixed(schema: Schema) -> dict[str, str]:
    """A prefix for each namespace of the profile: the graph's own where it has one."""
    own = {iri: name for name, iri in (*known.PREFIXES.items(), *schema.prefixes.items()) if name}
    found: dict[str, str] = {}
    spaces = sorted({namespace(one) for one in (*schema.classes, *schema.properties)})
    for number, space in enumerate(spaces, start=1):
        found[space] = own.get(space, f"n{number}")
    return found


def _short(iri: str, names: Mapping[str, str]) -> str:
    space = namespace(iri)
    local = iri[len(space) :]
    plain = local.replace("_", "").replace("-", "").isalnum() and local.isascii()
    return f"{names[space]}:{local}" if space in names and plain else f"<{iri}>"
