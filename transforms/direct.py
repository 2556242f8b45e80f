"""A table nobody mapped still says something: its file names the class, its columns the properties.

A value's datatype is decided by that value and its column's name alone, never by a sample, so that the facts of a
record do not depend on the records beside it: `12` is an integer, `007` stays text, and a column called version,
phone, postcode or the like is text whatever it holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Table
from datetime import date
from typing import Any

from ontology.facts import RDF, RDFS, XSD, Facts, awkward, string
from sources.record import Record
from transforms.column import BadField
from transforms.iri import DEFAULT_BASE, record_graph, segment
from transforms.mapping import Mapping, version_of
from transforms.values import BadValue, converter, natural

LABELS = ("label", "name", "title", "display_name", "displayname", "full_name", "fullname")
_TEXT = re.compile(
    r"(?:^|[_\W])(?:version|release|phone|telephone|tel|mobile|fax|zip|zip_?code|postcode|postal_?code|plz|sku|isbn|ean|"
    r"iban|ssn|sha|hash|commit|password|token|tag)(?:$|[_\W])",
    re.IGNORECASE,
)
_TYPED = frozenset("-0123456789tTfF")
_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{1,15}\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_STAMP = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?\Z"
)
_integer, _decimal = converter(XSD + "integer"), converter(XSD + "decimal")
_stamp = converter(XSD + "dateTime")
_WORD = re.compile(r"[^0-9A-Za-z\u00c0-\U0010ffff]+")


def direct_mapping(source: str, base: str = DEFAULT_BASE, *, types: bool = True) -> Mapping:
    """Class `{base}def/{Name}`, property `{base}def/{column}`, IRI `{base}{source}/{key}`, rdfs:label from a name.

    Nested objects give dotted properties (`def/owner.name`), lists several values, and an object in a list a node of
    its own under its record's IRI. With `types` off every text stays text.
    """
    kind = f"<{RDF}type> <{class_iri(source, base)}>"
    root = f"{base}{segment(source)}/"
    known: dict[str, tuple[str, bool]] = {}

    def column(path: str) -> tuple[str, bool]:
        found = known.get(path)
        if found is None:
            found = (f"<{property_iri(path, base)}> ", types and not textual(path))
            if len(known) < 10_000:
                known[path] = found
        return found

    def describe(subject: str, data: Table[str, Any], out: list[str], prefix: str) -> None:
        head = f"<{subject}> "
        for name, value in data.items():
            path = f"{prefix}{name}"
            if type(value) is str:
                if value and not value.isspace():
                    predicate, typed = known.get(path) or column(path)
                    if awkward(value) is not None:
                        say(subject, path, value, out)
                    elif typed and value[0] in _TYPED:
                        out.append(f"{head}{predicate}{inferred(value)}")
                    else:
                        out.append(f'{head}{predicate}"{value}"')
            elif isinstance(value, Table):
                describe(subject, value, out, f"{path}.")
            elif isinstance(value, (list, tuple, set, frozenset)):
                for number, member in enumerate(_opened(value)):
                    if isinstance(member, Table):
                        child = f"{subject}/{segment(path)}/{number + 1}"
                        out.append(f"{head}{column(path)[0]}<{child}>")
                        describe(child, member, out, f"{path}.")
                    else:
                        say(subject, path, member, out)
            else:
                say(subject, path, value, out)

    def say(subject: str, path: str, value: Any, out: list[str]) -> None:
        if value is None or (isinstance(value, str) and (not value or value.isspace())):
            return
        predicate, typed = column(path)
        try:
            text = (inferred(value) if typed else natural(value)) if type(value) is str else natural(value)
        except BadValue as wrong:
            raise BadField(path, value, wrong.problem, wrong.hint) from wrong
        out.append(f"<{subject}> {predicate}{text}")

    def program(record: Record) -> list[str]:
        subject = f"{root}{segment(record.key)}"
        out = [f"<{subject}> {kind}"]
        describe(subject, record.data, out, "")
        label = _label(record.data, source)
        if label is not None:
            out.append(f"<{subject}> <{RDFS}label> {string(label)}")
        return out

    return Mapping(source, base, version_of("direct", source, base, types), program)


def textual(column: str) -> bool:
    """Whether a column of this name is text whatever it holds: versions, phone numbers, postcodes and their like."""
    return _TEXT.search(column) is not None


def inferred(value: str) -> str:
    """Text with the datatype it plainly has: only spellings that lose nothing but a decimal's trailing zeros."""
    first = value[0]
    if first in "-0123456789":
        if _INTEGER.match(value):
            return _integer(value)
        if _DECIMAL.match(value):
            return _decimal(value)
        if _DATE.match(value):
            try:
                date.fromisoformat(value)
            except ValueError:
                return natural(value)
            return f'"{value}"^^<{XSD}date>'
        if _STAMP.match(value):
            try:
                return _stamp(value)
            except BadValue:
                return natural(value)
    elif first in "tTfF" and value.lower() in ("true", "false"):
        return f'"{value.lower()}"^^<{XSD}boolean>'
    return natural(value)


def class_iri(source: str, base: str = DEFAULT_BASE) -> str:
    """The class of a directly mapped source: `on-call` is `{base}def/OnCall`."""
    stem = source.rsplit("/", 1)[-1]
    name = "".join(word[:1].upper() + word[1:] for word in _WORD.split(stem) if word) or "Thing"
    return f"{base}def/{segment(name)}"


def property_iri(column: str, base: str = DEFAULT_BASE) -> str:
    """The property of a column: white space becomes `_`, the rest is percent-encoded."""
    return f"{base}def/{segment('_'.join(column.split()) or '_')}"


def direct_vocabulary(source: str, columns: Iterable[str], base: str = DEFAULT_BASE, where: str = "") -> Facts:
    """The declarations of a directly mapped source's class and properties, as the record `ontology` keeps of it."""
    made = class_iri(source, base)
    out = {f"<{made}> <{RDF}type> <{RDFS}Class>", f"<{made}> <{RDFS}label> {string(source)}"}
    for column in columns:
        term = property_iri(column, base)
        out |= {f"<{term}> <{RDF}type> <{RDF}Property>", f"<{term}> <{RDFS}label> {string(column)}"}
    return Facts(record_graph(base, "ontology", f"def/{source}"), frozenset(out), where or source)


def _label(data: Table[str, Any], source: str) -> str | None:
    lowered = {str(name).lower().replace(" ", "_").replace("-", "_"): name for name in reversed(list(data))}
    stem = source.rsplit("/", 1)[-1].lower()
    for wanted in (*LABELS, f"{stem}_name", f"{stem.removesuffix('s')}_name"):
        value = data.get(lowered.get(wanted, ""))
        if isinstance(value, str) and value.strip():
            return value
    return None


def _opened(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple, set, frozenset)):
            yield from _opened(value)
        else:
            yield value
