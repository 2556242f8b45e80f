"""A kind is one class of thing a table speaks of: how its IRI is made and what each column says about it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pyoxigraph import Literal

from ontology.facts import RDF, iri
from sources.record import Record
from transforms import column as cells
from transforms.condition import ConditionError, Test, condition
from transforms.iri import TemplateError, expand, segment, template
from transforms.values import BadValue, converter

_KIND = frozenset({"class", "iri", "when", "columns", "constants", "null"})
_COLUMN = frozenset(
    {"property", "datatype", "language", "link", "iri", "split", "when", "format", "required", "values", "else", "null"}
)
_CONSTANT = frozenset({"property", "value", "datatype", "language", "link", "when"})


class SpecError(ValueError):
    """A mapping that cannot be compiled: `key` is the settings key, `reason` what is wrong with it."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(f"{key}: {reason}.")


@dataclass(frozen=True, slots=True)
class Kind:
    """One compiled kind: `describe` appends its statements about a record; `columns` are those it reads."""

    describe: Callable[[Record, list[str]], None]
    columns: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Names:
    source: str
    base: str
    prefixes: Mapping[str, str]

    def term(self, text: Any, key: str) -> str:
        if not isinstance(text, str) or not text:
            raise SpecError(key, f'{text!r} is not a term: write one as in "rdfs:label"')
        try:
            return expand(text, self.prefixes)
        except TemplateError as wrong:
            raise SpecError(key, str(wrong)) from wrong

    def template(self, text: Any, key: str) -> tuple[list[str], list[tuple[str, bool]]]:
        if not isinstance(text, str) or not text:
            raise SpecError(key, f'{text!r} is not a template: write one as in "service/{{name}}"')
        try:
            return template(text, self.base, self.prefixes)
        except TemplateError as wrong:
            raise SpecError(key, str(wrong)) from wrong


def kinds(spec: Any, *, source: str, base: str, prefixes: Mapping[str, str], where: str) -> list[Kind]:
    """The `map` table, or list of tables, of one source, compiled. Raises SpecError."""
    names = _Names(source, base, prefixes)
    if isinstance(spec, Mapping):
        return [_kind(spec, names, where)]
    if isinstance(spec, list) and spec:
        return [_kind(item, names, f"{where}[{number}]") for number, item in enumerate(spec)]
    raise SpecError(where, "a mapping is a table with class, iri and columns, or a list of such tables")


def _kind(spec: Any, names: _Names, where: str) -> Kind:
    _keys(spec, _KIND, where)
    nulls = _nulls(spec.get("null"), f"{where}.null")
    classes = _listed(spec.get("class"))
    types = [f"<{RDF}type> {iri(names.term(name, f'{where}.class'))}" for name in classes]
    pieces, fields = names.template(spec.get("iri") or f"{segment(names.source)}/{{@key}}", f"{where}.iri")
    make = cells.minted(pieces, fields, nulls)
    test, read = _when(spec.get("when"), f"{where}.when")
    read = read | {name for name, _ in fields if not name.startswith("@")}
    emits: list[cells.Emit] = []
    columns = spec.get("columns", {})
    if not isinstance(columns, Mapping):
        raise SpecError(f"{where}.columns", "it is a table of column = property")
    for name, entries in columns.items():
        for entry in _listed(entries):
            emit, more = _column(name, entry, names, nulls, f"{where}.columns.{name}")
            emits.append(emit)
            read = read | more | {name}
    constants = spec.get("constants", [])
    if not isinstance(constants, list):
        raise SpecError(f"{where}.constants", "write each as [[...map.constants]] with property and value")
    for number, entry in enumerate(constants):
        emit, more = _constant(entry, names, nulls, f"{where}.constants[{number}]")
        emits.append(emit)
        read = read | more
    if not types and not emits:
        raise SpecError(where, "it says nothing: give it a class or columns")
    needed = spec.get("iri") or "{@key}"

    def describe(record: Record, out: list[str]) -> None:
        if test is not None and not test(record.data):
            return
        subject = make(record, None)
        if subject is None:
            empty = next(name for name, _ in fields if cells.field_value(record, name, nulls) is None)
            problem = f"empty, so {needed!r} makes no IRI"
            raise cells.BadField(empty, record.data.get(empty) or "", problem, f'Fill it in, or add when = "{empty}"')
        head = f"{subject} "
        for kind in types:
            out.append(head + kind)
        for emit in emits:
            emit(record, head, out)

    return Kind(describe, frozenset(read))


def _column(
    name: str, entry: Any, names: _Names, nulls: frozenset[str], where: str
) -> tuple[cells.Emit, frozenset[str]]:
    if isinstance(entry, str):
        return cells.literal_column(name, iri(names.term(entry, where)), converter(None), nulls), frozenset()
    _keys(entry, _COLUMN, where)
    if "property" not in entry:
        raise SpecError(where, "it has no property")
    if "null" in entry:
        nulls = _nulls(entry["null"], f"{where}.null")
    predicate = iri(names.term(entry["property"], f"{where}.property"))
    split = entry.get("split")
    if split is not None and (not isinstance(split, str) or not split):
        raise SpecError(f"{where}.split", f"{split!r} is not the text between two values")
    read: frozenset[str] = frozenset()
    ways = [way for way in ("datatype", "language", "link", "iri", "values") if entry.get(way)]
    if len(ways) > 1 and set(ways) != {"datatype", "values"}:
        raise SpecError(where, f"{' and '.join(ways)} cannot be used together: a value is one thing")
    if entry.get("link") or entry.get("iri"):
        text = entry.get("link") or f"{{+{name}}}"
        pieces, fields = names.template(text, f"{where}.link")
        if not fields:
            raise SpecError(f"{where}.link", f'{text!r} names no column: write one as in "team/{{{name}}}"')
        read = frozenset(field for field, _ in fields if not field.startswith("@"))
        emit = cells.split_column(name, split, cells.one_link(name, predicate, pieces, fields, nulls), nulls)
    elif entry.get("values"):
        if not isinstance(entry["values"], Mapping):
            raise SpecError(f"{where}.values", 'it is a table of value = "prefix:term"')
        table = {str(k): _object(v, names, f"{where}.values.{k}") for k, v in entry["values"].items()}
        rest = entry.get("else")
        other = None if rest is None else _object(rest, names, f"{where}.else")
        emit = cells.split_column(name, split, cells.mapped_values(name, predicate, table, other), nulls)
    else:
        text_of = _converter(entry, names, where)
        if split is None:
            emit = cells.literal_column(name, predicate, text_of, nulls)
        else:
            emit = cells.split_column(name, split, cells.one_literal(name, predicate, text_of), nulls)
    if entry.get("required"):
        emit = cells.required(name, emit)
    test, more = _when(entry.get("when"), f"{where}.when")
    return (emit if test is None else cells.guarded(test, emit)), read | more


def _object(value: Any, names: _Names, where: str) -> str:
    """A value of a `values` table: a term (`shop:active`) where it reads as one, else a literal."""
    if isinstance(value, str) and re.match(r"[A-Za-z][\w.-]*:\S+\Z", value):
        return iri(names.term(value, where))
    return converter(None)(value)


def _constant(entry: Any, names: _Names, nulls: frozenset[str], where: str) -> tuple[cells.Emit, frozenset[str]]:
    _keys(entry, _CONSTANT, where)
    if "property" not in entry or ("value" not in entry and "link" not in entry):
        raise SpecError(where, "it needs a property and a value or link")
    predicate = iri(names.term(entry["property"], f"{where}.property"))
    read: frozenset[str] = frozenset()
    emit: cells.Emit
    if "link" in entry:
        pieces, fields = names.template(entry["link"], f"{where}.link")
        read = frozenset(name for name, _ in fields if not name.startswith("@"))
        emit = cells.linked(predicate, cells.minted(pieces, fields, nulls))
    else:
        try:
            emit = cells.constant(predicate, _converter(entry, names, where)(entry["value"]))
        except BadValue as wrong:
            raise SpecError(f"{where}.value", f"{entry['value']!r} is {wrong.problem}") from wrong
    test, more = _when(entry.get("when"), f"{where}.when")
    return (emit if test is None else cells.guarded(test, emit)), read | more


def _converter(entry: Mapping[str, Any], names: _Names, where: str) -> Callable[[Any], str]:
    datatype, language, form = entry.get("datatype"), entry.get("language"), entry.get("format")
    if language is not None:
        try:
            Literal("", language=str(language))
        except ValueError as wrong:
            raise SpecError(f"{where}.language", f"{language!r} is not a language tag ({wrong})") from wrong
        return converter(None, str(language))
    if datatype is None:
        if form is not None:
            raise SpecError(f"{where}.format", "a format needs a datatype: xsd:date, xsd:dateTime or xsd:time")
        return converter(None)
    full = names.term(datatype, f"{where}.datatype")
    if full == f"{RDF}langString":
        raise SpecError(f"{where}.datatype", 'write language = "en" instead of rdf:langString')
    if form is not None and not full.endswith(("#date", "#dateTime", "#dateTimeStamp", "#time")):
        raise SpecError(f"{where}.format", f"a format is for dates and times, not {datatype}")
    return converter(full, None, form)


def _when(text: Any, where: str) -> tuple[Test | None, frozenset[str]]:
    if text is None:
        return None, frozenset()
    if not isinstance(text, str):
        raise SpecError(where, f"{text!r} is not a condition: write one as in \"tier == '1'\"")
    try:
        return condition(text)
    except ConditionError as wrong:
        raise SpecError(where, str(wrong)) from wrong


def _nulls(words: Any, where: str) -> frozenset[str]:
    if words is None:
        return frozenset()
    if not isinstance(words, (str, list)) or not all(isinstance(word, str) for word in _listed(words)):
        raise SpecError(where, f'{words!r} is not a list of the words that mean nothing, as in ["NA", "-"]')
    return frozenset(_listed(words))


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _keys(spec: Any, known: frozenset[str], where: str) -> None:
    if not isinstance(spec, Mapping):
        raise SpecError(where, f"{spec!r} is not a table")
    for key in spec:
        if key not in known:
            near = get_close_matches(str(key), sorted(known), n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known))}"
            raise SpecError(f"{where}.{key}", f"{key!r} is not known here: {hint}".rstrip("?"))
