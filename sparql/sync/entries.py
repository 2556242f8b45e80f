"""The system graphs say who said a record graph and when, what was refused and why, how far each scope was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import quote

from ontology.facts import GT, PROV, RDF, SH, XSD, literal, string
from ontology.violation import VIOLATION, Violation
from sources.record import Record
from sparql.names import Names

TYPE = f"<{RDF}type>"
IN_SCOPE, SOURCE, LOCATOR, HASH = f"<{GT}inScope>", f"<{GT}source>", f"<{GT}locator>", f"<{GT}hash>"
GENERATED = f"<{PROV}wasGeneratedBy>"
RECORD, REFUSED, REPORTED, FIELD = f"<{GT}record>", f"<{GT}refused>", f"<{GT}reported>", f"<{GT}field>"
SCOPE, CURSOR, PLAN, HELD, NOTE, RECORDS = (
    f"<{GT}{name}>" for name in ("scope", "cursor", "plan", "held", "note", "records")
)
MAPPING, DUPLICATE, UNUSABLE = GT + "MappingError", GT + "DuplicateKey", GT + "UnusableRecord"
LONGEST_VALUE = 300  # characters of an offending value that quarantine keeps

_SAFE = "-._~!$'()*+,;=:@"
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*\Z")


@dataclass(frozen=True, slots=True)
class Claim:
    """That a scope has a record of this key: the hash of what it says, and where it says it."""

    scope: str
    hash: str
    locators: tuple[str, ...]


def refused_iri(names: Names, source: str, scope: str, key: str) -> str:
    """The node of a refused claim in the quarantine graph."""
    parts = "/".join(quote(part, safe=_SAFE) for part in (source, scope, key))
    return f"{names.base}system/refused/{parts}"


def journal_entry(names: Names, source: str, graph: str, claim: Claim, commit: str) -> set[str]:
    """What the journal says of one record graph."""
    me = f"<{graph}> "
    return {
        f"{me}{IN_SCOPE} <{names.scope(source, claim.scope)}>",
        f"{me}{SOURCE} <{names.source(source)}>",
        f'{me}{HASH} "{claim.hash}"',
        f"{me}{GENERATED} <{commit}>",
        *(f"{me}{LOCATOR} {string(locator)}" for locator in claim.locators),
    }


def refusal(names: Names, source: str, key: str, claim: Claim, why: Iterable[Violation]) -> set[str]:
    """What the quarantine says of one refused claim: field names and the offending values, not the record."""
    graph, me = names.record(source, key), refused_iri(names, source, claim.scope, key)
    out = {
        f"<{me}> {RECORD} <{graph}>",
        f"<{me}> {SOURCE} <{names.source(source)}>",
        f"<{me}> {IN_SCOPE} <{names.scope(source, claim.scope)}>",
        f'<{me}> {HASH} "{claim.hash}"',
        *(f"<{me}> {LOCATOR} {string(locator)}" for locator in claim.locators),
    }
    for violation in why:
        out |= result(names, violation, [graph], "local", refused=me)
    return out


def results(names: Names, graph: str, found: Iterable[Violation]) -> set[str]:
    """What the quarantine says of an accepted record that is not without fault."""
    out: set[str] = set()
    for violation in found:
        out |= result(names, violation, [graph], "local")
    return out


def result(
    names: Names, violation: Violation, graphs: Sequence[str], reported: str, refused: str | None = None
) -> set[str]:
    """One finding as a `sh:ValidationResult`, its IRI a hash of what it says."""
    value = violation.value if len(violation.value) <= LONGEST_VALUE else violation.value[:LONGEST_VALUE]
    if value and not value.startswith("<") and value != violation.value:
        value = string(value + "...")
    message = violation.message
    if violation.locator and message.startswith(f"{violation.locator}: "):
        message = message[len(violation.locator) + 2 :]
    says = (reported, refused or "", violation.focus, violation.path, value, violation.constraint, violation.severity,
            violation.shape, message, *([] if reported == "wide" else graphs))  # fmt: skip
    name = blake2b("\0".join(says).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    me = f"<{names.base}system/result/{name}> "
    out = {
        f"{me}{TYPE} <{SH}ValidationResult>",
        f"{me}<{SH}resultSeverity> <{SH}{violation.severity}>",
        f"{me}<{SH}resultMessage> {_string(message)}",
        f'{me}{REPORTED} "{reported}"',
        *(f"{me}{RECORD} <{graph}>" for graph in graphs),
    }
    if refused:
        out.add(f"{me}{REFUSED} <{refused}>")
    for predicate, text in (
        ("focusNode", violation.focus), ("sourceConstraintComponent", violation.constraint),
        ("sourceShape", violation.shape),
    ):  # fmt: skip
        if text:
            out.add(f"{me}<{SH}{predicate}> {_node(text)}")
    if violation.path:
        out.add(f"{me}<{SH}resultPath> <{violation.path}>" if _IRI.match(violation.path)
                else f"{me}{FIELD} {_string(violation.path)}")  # fmt: skip
    if value:
        spelled = value if value.startswith(("<", '"')) else _string(value)
        out.add(f"{me}<{SH}value> {spelled}")
    return out


def _node(text: str) -> str:
    return f"<{text}>" if _IRI.match(text) else _string(text)


def _string(text: str) -> str:
    return string(text.encode("utf-8", "replace").decode())


def unmapped(graph: str, record: Record, field: str, value: object, message: str) -> Violation:
    """The finding that a record could not be mapped."""
    text = "" if value is None else str(value)
    shown = _string(text[:LONGEST_VALUE] + ("..." if len(text) > LONGEST_VALUE else "")) if text else ""
    return Violation(graph, "", field, shown, MAPPING, VIOLATION, message, record.locator, MAPPING)


def duplicate(graph: str, key: str, claims: Iterable[Claim]) -> Violation:
    """The finding that a key was met more than once: it names every place, and none wins."""
    places = sorted({locator for claim in claims for locator in claim.locators})
    message = f"The key {key!r} is used {len(places)} times: {', '.join(places[:10])}. Give each record its own key."
    return Violation(graph, "", "", _string(key[:LONGEST_VALUE]), DUPLICATE, VIOLATION, message, "", DUPLICATE)


def scope_entry(
    names: Names, source: str, scope: str, *, cursor: str | None, plan: str, held: str | None = None
) -> set[str]:
    """What the cursor graph says of one scope."""
    me = f"<{names.scope(source, scope)}> "
    out = {f"{me}{SOURCE} {string(source)}", f"{me}{SCOPE} {_string(scope)}", f"{me}{PLAN} {string(plan)}"}
    if cursor is not None:
        out.add(f"{me}{CURSOR} {_string(cursor)}")
    if held is not None:
        out.add(f"{me}{HELD} {_string(held)}")
    return out


def source_entry(names: Names, source: str, *, records: int, plan: str, held: str, notes: Iterable[str]) -> set[str]:
    """What the cursor graph says of one source."""
    me = f"<{names.source(source)}> "
    out = {f"{me}{SOURCE} {string(source)}", f"{me}{RECORDS} {integer(records)}", f"{me}{PLAN} {string(plan)}"}
    out |= {f"{me}{NOTE} {_string(note)}" for note in notes}
    if held:
        out.add(f"{me}{HELD} {_string(held)}")
    return out


def activity(
    names: Names, commit: int, start: str, end: str, sources: Iterable[str], counts: dict[str, int]
) -> set[str]:
    """The PROV-O activity of one commit."""
    me = f"<{names.commit(commit)}> "
    return {
        f"{me}{TYPE} <{PROV}Activity>",
        f"{me}<{PROV}startedAtTime> {literal(start, XSD + 'dateTime')}",
        f"{me}<{PROV}endedAtTime> {literal(end, XSD + 'dateTime')}",
        *(f"{me}<{PROV}used> <{names.source(source)}>" for source in sources),
        *(f"{me}<{GT}{name}> {integer(count)}" for name, count in counts.items()),
    }


def integer(number: int) -> str:
    """A number as the store spells it."""
    return f'"{number}"^^<{XSD}integer>'
