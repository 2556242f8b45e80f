"""What can be asked of a graph is what its data says, called what its vocabulary calls it, bounded by its shapes.

A term is in the profile when data uses it, or when it is declared in a vocabulary that data uses a term of. It is read
from the index `profile`, which is kept by deltas: see `sparql.index.profile`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from ontology.facts import PROV, RDF, RDFS, SH
from sparql.index.folding import humps
from sparql.index.profile import CLASSES, LABELS, LANGUAGE, MACHINERY, OTHERS, OWL, SKOS
from sparql.index.profile import WORDS as DESCRIBING
from sparql.index.reading import at
from sparql.question.schema import Class, Named, Property, Range, Schema, Use

TOP, FEW = 8, 60
"""How many common values are kept of a property, and up to how many distinct ones all are."""
MOST_USES, MOST_TERMS, MOST_CHARACTERS = 5_000, 5_000, 300
_TAIL = re.compile(r"[^/#:]+(?=[/#]*\Z)")


@dataclass
class _Term:
    """What is said of one term while the profile is made."""

    labels: list[tuple[int, int, str]] = field(default_factory=list)
    synonyms: list[str] = field(default_factory=list)
    description: tuple[int, str] = (99, "")
    says: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))


def schema_of(db: sqlite3.Connection, *, prefixes: Mapping[str, str] | None = None) -> Schema:
    """The profile as the index has it."""
    classes = dict(_most(db, "SELECT class, n FROM profile_class ORDER BY n DESC, class", MOST_TERMS))
    every = dict(_most(db, "SELECT property, n FROM profile_property ORDER BY n DESC, property", MOST_TERMS))
    told_rows = {name: json.loads(value) for name, value in db.execute("SELECT name, value FROM profile_told")}
    uses = _uses(db, classes, told_rows)
    used = {one.property for one in uses}
    theirs = {namespace(iri) for iri in {*classes, *used}} - {*MACHINERY, SKOS, PROV}
    declared: dict[bool, set[str]] = {True: set(), False: set()}
    for term, kind in told_rows["declared"]:
        if namespace(term) in theirs:
            declared[kind in CLASSES].add(term)
    told = _told(told_rows)
    properties = {one for one in {*used, *declared[False]} if not one.startswith((RDF, SH))}
    return Schema(
        at(db),
        {
            iri: Class(_named(iri, told), classes.get(iri, 0), _above(iri, told, f"{RDFS}subClassOf"))
            for iri in sorted({*classes, *declared[True]})
        },
        {
            iri: Property(
                _named(iri, told),
                every.get(iri, 0),
                _above(iri, told, f"{RDFS}domain"),
                _above(iri, told, f"{RDFS}range"),
                _above(iri, told, f"{RDFS}subPropertyOf"),
                next(iter(_above(iri, told, f"{OWL}inverseOf")), None),
            )
            for iri in sorted(properties)
        },
        uses,
        dict(prefixes or {}),
    )


def _uses(db: sqlite3.Connection, classes: Mapping[str, int], told: Mapping[str, Any]) -> tuple[Use, ...]:
    key = tuple[str, str]
    bounds: dict[key, tuple[int | None, int | None]] = {
        (one, property): (_maybe(least), _maybe(most)) for one, property, least, most in told["bounds"]
    }
    allowed: dict[key, list[str]] = defaultdict(list)
    for one, property, value in told["allowed"]:
        allowed[one.strip("<>"), property.strip("<>")].append(value)
    cells = {
        (one, property): row
        for one, property, *row in _most(
            db, "SELECT class, property, id, n, subjects, literals FROM profile_cell ORDER BY n DESC, class, property",
            MOST_USES,
        )
    }  # fmt: skip
    found = []
    for pair in sorted({*cells, *(pair for pair in {*bounds, *allowed} if pair[0] in classes)}):
        cell, statements, subjects, literals = cells.get(pair, (0, 0, 0, 0))
        (most,) = db.execute("SELECT MAX(many) FROM profile_many WHERE cell = ?", (cell,)).fetchone()
        ranges = db.execute(
            "SELECT range, literal, n FROM profile_range WHERE cell = ? ORDER BY n DESC, range", (cell,)
        ).fetchall()
        top = db.execute(
            "SELECT value, n FROM profile_value WHERE cell = ? AND value NOT LIKE '#%' ORDER BY n DESC, value LIMIT ?",
            (cell, FEW if literals <= FEW else TOP),
        ).fetchall()
        least, greatest = bounds.get(pair, (None, None))
        found.append(
            Use(pair[0], pair[1], statements, subjects, literals, most or 0,
                tuple(Range(iri, bool(literal), n) for iri, literal, n in ranges),
                tuple(sorted(allowed[pair])), tuple(top), least, greatest)
        )  # fmt: skip
    return tuple(found)


def _told(rows: Mapping[str, Any]) -> dict[str, _Term]:
    """What terms are called and what is said of them."""
    told: dict[str, _Term] = defaultdict(_Term)
    for term, property, other in rows["said"]:
        told[term].says[property].append(other)
    for term, said, value, language in rows["called"]:
        one, text = told[term], value.strip()[:MOST_CHARACTERS]
        tongue = 0 if (language or LANGUAGE).partition("-")[0] == LANGUAGE else 1
        if said in LABELS:
            one.labels.append((tongue, LABELS.index(said), text))
        elif said in OTHERS:
            one.synonyms.append(text)
        else:
            one.description = min(one.description, (DESCRIBING.index(said) + 10 * tongue, text))
    return told


def _named(iri: str, told: Mapping[str, _Term]) -> Named:
    one = told.get(iri) or _Term()
    labels = [text for _, _, text in sorted(one.labels)]
    label = labels[0] if labels else words(iri)
    rest = dict.fromkeys([*labels[1:], *sorted(one.synonyms)])
    rest.pop(label, None)
    return Named(iri, label, tuple(rest), one.description[1])


def words(iri: str) -> str:
    """The last part of an IRI as a person would write it: `hasManager` is `has manager`."""
    found = _TAIL.search(iri)
    tail = unquote(found.group()) if found else iri
    return " ".join(humps(tail.replace("_", " ").replace("-", " ")).split()).lower()


def namespace(iri: str) -> str:
    """The IRI up to its last part."""
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]


def _above(iri: str, told: Mapping[str, _Term], property: str) -> tuple[str, ...]:
    one = told.get(iri)
    return tuple(sorted(set(one.says[property]) - {iri})) if one is not None and property in one.says else ()


def _most(db: sqlite3.Connection, query: str, most: int) -> list[Any]:
    return db.execute(f"{query} LIMIT ?", (most,)).fetchall()


def _maybe(number: str | None) -> int | None:
    try:
        return None if number is None else int(float(number))
    except (ValueError, OverflowError):
        return None
