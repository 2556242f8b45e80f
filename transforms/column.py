"""A column is compiled once into a function that appends statements: what a row costs is what its cells cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ontology.facts import FactsError, awkward
from ontology.facts import iri as checked_iri
from sources.record import Record
from transforms.condition import Test
from transforms.iri import segment
from transforms.nested import values_at
from transforms.values import BadValue, Text, natural, plain

Emit = Callable[[Record, str, list[str]], None]
"""Append this column's statements about the subject (`<iri> `, ready to be put before) to the list."""


class BadField(ValueError):
    """A field whose value cannot be mapped."""

    def __init__(self, field: str, value: Any, problem: str, hint: str) -> None:
        self.field, self.value, self.problem, self.hint = field, value, problem, hint
        super().__init__(f"{field}: {problem}")


def literal_column(name: str, predicate: str, text: Text, nulls: frozenset[str]) -> Emit:
    """One property whose values are literals; `predicate` is spelled. Empty values say nothing."""
    middle = f"{predicate} "
    quoted = f'{predicate} "'
    nested, untyped = "." in name, text is natural

    def emit(record: Record, head: str, out: list[str]) -> None:
        value = None if nested else record.data.get(name)
        if type(value) is str:
            if not value or value.isspace() or value in nulls:
                return
            if untyped and awkward(value) is None:
                out.append(f'{head}{quoted}{value}"')
                return
        elif value is None:
            if not nested:
                return
            _each(record, head, out)
            return
        elif isinstance(value, (list, tuple, set, frozenset)):
            _each(record, head, out)
            return
        try:
            out.append(head + middle + text(value))
        except BadValue as wrong:
            raise BadField(name, value, wrong.problem, wrong.hint) from wrong

    def _each(record: Record, head: str, out: list[str]) -> None:
        for value in present(values_at(record.data, name), nulls):
            try:
                out.append(head + middle + text(value))
            except BadValue as wrong:
                raise BadField(name, value, wrong.problem, wrong.hint) from wrong

    return emit


def split_column(
    name: str, split: str | None, emit: Callable[[Any, Record, str, list[str]], None], nulls: frozenset[str]
) -> Emit:
    """`emit` for each value of the column, text cut at `split` and each piece trimmed."""

    def emit_all(record: Record, head: str, out: list[str]) -> None:
        single = record.data.get(name)
        if type(single) is str and split is None:
            if single and not single.isspace() and single not in nulls:
                emit(single, record, head, out)
            return
        for value in present(values_at(record.data, name), nulls):
            if split is not None and isinstance(value, str):
                for piece in value.split(split):
                    piece = piece.strip()
                    if piece and piece not in nulls:
                        emit(piece, record, head, out)
            else:
                emit(value, record, head, out)

    return emit_all


def one_literal(name: str, predicate: str, text: Text) -> Callable[[Any, Record, str, list[str]], None]:
    """A statement about one value already taken out of its column."""
    middle = f"{predicate} "

    def emit(value: Any, record: Record, head: str, out: list[str]) -> None:
        try:
            out.append(head + middle + text(value))
        except BadValue as wrong:
            raise BadField(name, value, wrong.problem, wrong.hint) from wrong

    return emit


def one_link(
    name: str, predicate: str, pieces: list[str], fields: list[tuple[str, bool]], nulls: frozenset[str]
) -> Callable[[Any, Record, str, list[str]], None]:
    """A statement whose object is the IRI a template makes; a field of the column's own name is this value."""
    middle = f"{predicate} "
    target = minted(pieces, fields, nulls, own=name)
    if fields == [(name, False)]:
        before, after = f"{predicate} <{pieces[0]}", f"{pieces[1]}>"

        def quick(value: Any, record: Record, head: str, out: list[str]) -> None:
            out.append(head + before + key_segment(name, value) + after)

        return quick

    def emit(value: Any, record: Record, head: str, out: list[str]) -> None:
        made = target(record, value)
        if made is not None:
            out.append(f"{head}{middle}{made}")

    return emit


def mapped_values(
    name: str, predicate: str, values: Mapping[str, str], rest: str | None
) -> Callable[[Any, Record, str, list[str]], None]:
    """A statement whose object stands in a table of values, already spelled."""
    middle = f"{predicate} "

    def emit(value: Any, record: Record, head: str, out: list[str]) -> None:
        found = values.get(_key(name, value), rest)
        if found is None:
            shown = ", ".join(repr(known) for known in list(values)[:12])
            raise BadField(name, value, f"not one of {shown}", "Add it under 'values' in the mapping")
        out.append(head + middle + found)

    return emit


def guarded(test: Test, emit: Emit) -> Emit:
    """`emit` for records that pass the test."""

    def when(record: Record, head: str, out: list[str]) -> None:
        if test(record.data):
            emit(record, head, out)

    return when


def required(name: str, emit: Emit) -> Emit:
    """`emit`, refusing a record of which it says nothing."""

    def need(record: Record, head: str, out: list[str]) -> None:
        before = len(out)
        emit(record, head, out)
        if len(out) == before:
            raise BadField(name, record.data.get(name) or "", "empty, though the mapping requires it", "Fill it in")

    return need


def constant(predicate: str, value: str) -> Emit:
    """The same statement about every subject; both are spelled."""
    tail = f"{predicate} {value}"

    def emit(record: Record, head: str, out: list[str]) -> None:
        out.append(head + tail)

    return emit


def linked(predicate: str, make: Callable[[Record, Any], str | None]) -> Emit:
    """A statement whose object is minted from the record, where what it needs is there."""

    def emit(record: Record, head: str, out: list[str]) -> None:
        made = make(record, None)
        if made is not None:
            out.append(f"{head}{predicate} {made}")

    return emit


def minted(
    pieces: list[str], fields: list[tuple[str, bool]], nulls: frozenset[str], own: str | None = None
) -> Callable[[Record, Any], str | None]:
    """`<iri>` of a template for one record, None when a field it needs is empty."""

    def make(record: Record, value: Any) -> str | None:
        made = pieces[0]
        for (name, whole), piece in zip(fields, pieces[1:], strict=True):
            found = value if name == own else field_value(record, name, nulls)
            if found is None:
                return None
            made += (_key(name, found) if whole else key_segment(name, found)) + piece
            if not made:
                return None
        return _checked(own or (fields[0][0] if fields else ""), made) if any(w for _, w in fields) else f"<{made}>"

    return make


def field_value(record: Record, name: str, nulls: frozenset[str]) -> Any:
    """The value a template's field has: a column's, or the record's own key or source; None when empty."""
    value = record.data.get(name)
    if type(value) is str and value and not value.isspace() and value not in nulls:
        return value
    if name == "@key":
        return record.key
    if name == "@source":
        return record.source
    return next(iter(present(values_at(record.data, name), nulls)), None)


def present(values: Iterator[Any], nulls: frozenset[str]) -> Iterator[Any]:
    """The values that say something: not None, not blank text, not one of the words for nothing."""
    for value in values:
        if value is None or (isinstance(value, str) and (not value or value.isspace() or value in nulls)):
            continue
        yield value


def key_segment(name: str, value: Any) -> str:
    """A value as a path segment of an IRI, trimmed and percent-encoded."""
    try:
        return segment(_key(name, value))
    except UnicodeEncodeError as wrong:
        raise BadField(name, value, "which holds half a character (a lone surrogate)", "Write it as UTF-8") from wrong


def _key(name: str, value: Any) -> str:
    if type(value) is str:
        return value.strip()
    try:
        return plain(value).strip()
    except BadValue as wrong:
        raise BadField(name, value, wrong.problem, wrong.hint) from wrong


def _checked(name: str, text: str) -> str:
    try:
        return _iri(text)
    except FactsError as wrong:
        raise BadField(
            name, text, "not an absolute IRI", "Write it in full, as in https://example.org/a%20b"
        ) from wrong


_iri = lru_cache(maxsize=16384)(checked_iri)
