"""A thing is meant by its name, by a part of its name that no other has, or by what only it says."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache
from itertools import product as cartesian
from typing import Protocol

from pyoxigraph import RdfFormat, parse
from rapidfuzz import fuzz, process

from sparql.index.folding import split
from sparql.question.answer import Term

AMBIGUOUS = 6
"""A part of a name that more things than this have means none of them."""
SAME, LOOKED = 1_000, 20_000
"""How many things of one name are told apart, and how many of one word are looked through for another."""
NEAR, LIKE, ALIKE = 50_000, 4, 70
"""How many words are compared with a misspelt one, how many it may stand for, and how alike they are, in percent."""
REMEMBERED, KEPT = 4_096, 40
"""How many look-ups are remembered, and how much each finds at most."""
_NO_CAP = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Entity:
    """A thing that a span may mean; `score` is 1 for its whole name."""

    iri: str
    label: str
    classes: tuple[str, ...]
    score: float
    incoming: int = 0
    """How many statements point to it."""


@dataclass(frozen=True, slots=True)
class Value:
    """A literal that a span may mean, as `property` of the instances of `class_` has it."""

    class_: str
    property: str
    term: Term
    score: float


class Readable(Protocol):
    """The index `profile`, at one commit while it is read: see `sparql.index.reading.Index`."""

    def read(self) -> AbstractContextManager[sqlite3.Connection]: ...


class Lookup(Protocol):
    """Where the names and values of things are looked up."""

    def entities(self, text: str, most: int = 5) -> Sequence[Entity]:
        """The things that `text` may name, the best first."""
        ...

    def values(self, text: str, most: int = 8) -> Sequence[Value]:
        """The literals that `text` is, the commonest first."""
        ...

    def near(self, text: str, most: int = 3) -> Sequence[str]:
        """The names that begin with `text` or look most like it."""
        ...


class Names:
    """The names and short values of one graph, as the index has them. Safe for any number of threads."""

    def __init__(self, index: Readable) -> None:
        self.index = index
        # What one question asks again and again; a newer commit has a new object.
        self._remembered = lru_cache(maxsize=REMEMBERED)(self._entities)
        self._said = lru_cache(maxsize=REMEMBERED)(self._values)

    def entities(self, text: str, most: int = 5) -> Sequence[Entity]:
        """See `Lookup`. Raises IndexMissing."""
        parts = split(text)
        return self._remembered(parts)[:most] if parts else ()

    def values(self, text: str, most: int = 8) -> Sequence[Value]:
        """See `Lookup`. Raises IndexMissing."""
        parts = split(text)
        return self._said(" ".join(parts))[:most] if parts else ()

    def knows(self, iri: str) -> bool:
        """Whether a thing of that IRI is there."""
        return self.label(iri) is not None

    def label(self, iri: str) -> str | None:
        """What a thing is called; None where nothing is known of it."""
        with self.index.read() as db:
            row = db.execute("SELECT label FROM profile_entity WHERE iri = ?", (iri,)).fetchone()
        return str(row[0]) if row is not None else None

    def near(self, text: str, most: int = 3) -> Sequence[str]:
        """See `Lookup`. A word that no name has stands for those that begin with its first letter and look like it."""
        parts = split(text)
        if not parts:
            return ()
        key = " ".join(parts)
        with self.index.read() as db:
            rows = _things(
                db, "SELECT entity FROM profile_name WHERE key >= ? AND key < ? LIMIT ?", (key, key + _NO_CAP, SAME)
            )
            rows += self._alike(db, sorted(set(parts)))
        best = sorted(rows, key=lambda row: (-fuzz.ratio(key, " ".join(split(row[1]))), -row[3], row[0]))
        return tuple(dict.fromkeys(label for _, label, *_ in best))[:most]

    def _alike(self, db: sqlite3.Connection, parts: list[str]) -> list[_Row]:
        """Things whose names have the words, and words like those that no name has; else, the telling word at least."""
        often = {part: _often(db, part) for part in parts}
        there = sorted((part for part in parts if often[part]), key=lambda part: (often[part], part))
        choices = [_words_like(db, part) for part in parts if not often[part] and len(part) > 2][:2]
        found: list[_Row] = []
        for chosen in cartesian(*choices):
            found += _having(db, [*there, *chosen], SAME) if there or chosen else []
        if not found and there:
            found = _having(db, there, SAME) or _having(db, there[:1], SAME)
        return found

    def values_of(self, property: str, text: str = "", most: int = 20) -> Sequence[tuple[Term, int]]:
        """(literal, statements) of a property whose words begin with `text`, the commonest first."""
        key = " ".join(split(text))
        with self.index.read() as db:
            rows = db.execute(
                "SELECT value, SUM(v.n) AS n FROM profile_value v JOIN profile_cell c ON c.id = v.cell "
                "WHERE property = ? AND (? = '' OR (key >= ? AND key < ?)) AND value NOT LIKE '#%' "
                "GROUP BY value ORDER BY n DESC, value LIMIT ?",
                (property, key, key, key + _NO_CAP, most),
            ).fetchall()
        return [(term, n) for term, (_, n) in zip(_terms([value for value, _ in rows]), rows, strict=True)]

    def properties_of(self, iri: str) -> Sequence[tuple[str, int]]:
        """(property, statements) of the classes of a thing: what can be asked of it, the most used first."""
        with self.index.read() as db:
            row = db.execute("SELECT classes FROM profile_entity WHERE iri = ?", (iri,)).fetchone()
            if row is None:
                return ()
            return db.execute(
                "SELECT property, SUM(n) FROM profile_cell WHERE class IN (SELECT value FROM json_each(?)) "
                "GROUP BY property ORDER BY SUM(n) DESC, property",
                (json.dumps(row[0].split(" ")),),
            ).fetchall()

    def _entities(self, parts: tuple[str, ...]) -> Sequence[Entity]:
        with self.index.read() as db:
            whole = _things(db, "SELECT entity FROM profile_name WHERE key = ? LIMIT ?", (" ".join(parts), SAME))
            if whole:
                # A name that a class has once means that thing; one of many of a class means none of them alone.
                often = Counter(classes for _, _, classes, _, _ in whole)
                return _best([_entity(row, 1.0 if often[row[2]] == 1 else 0.85) for row in whole])
            found = _having(db, sorted(set(parts)), AMBIGUOUS + 1)
        if len(found) > AMBIGUOUS:
            return ()
        if not found or all(len(part) < 2 for part in parts):
            return ()
        size = len(set(parts))
        return _best(
            [
                _entity(row, (0.55 + 0.35 * size / max(size, row[4])) * (1.0 if len(found) == 1 else 0.8))
                for row in found
            ]
        )

    def _values(self, key: str) -> Sequence[Value]:
        with self.index.read() as db:
            rows = db.execute(
                "SELECT class, property, value, c.n, literals "
                "FROM profile_value v JOIN profile_cell c ON c.id = v.cell WHERE key = ? LIMIT ?",
                (key, SAME),
            ).fetchall()
        found = []
        for (class_, property, _, n, literals), term in zip(rows, _terms([row[2] for row in rows]), strict=True):
            # A value that many share says more than one that is somebody's name.
            share = 1.0 - literals / max(1, n)
            score = 0.6 + 0.35 * share if share < 0.2 else 0.82 + 0.1 * share
            found.append(Value(class_, property, term, score))
        return tuple(sorted(found, key=lambda one: (-one.score, one.class_, one.property, str(one.term)))[:KEPT])


_Row = tuple[str, str, str, int, int]


def _things(db: sqlite3.Connection, ids: str, given: tuple[str | int, ...]) -> list[_Row]:
    return db.execute(
        f"SELECT iri, label, classes, incoming, size FROM profile_entity WHERE id IN ({ids})", given
    ).fetchall()


def _often(db: sqlite3.Connection, token: str) -> int:
    """How many things have a word in their names."""
    row = db.execute("SELECT n FROM profile_word WHERE token = ?", (token,)).fetchone()
    return int(row[0]) if row is not None else 0


def _words_like(db: sqlite3.Connection, part: str) -> list[str]:
    rows = db.execute(
        "SELECT token FROM profile_word WHERE token >= ? AND token < ? LIMIT ?", (part[0], part[0] + _NO_CAP, NEAR)
    )
    alike = process.extract(part, [token for (token,) in rows], scorer=fuzz.ratio, limit=LIKE, score_cutoff=ALIKE)
    return [token for token, _, _ in alike]


def _having(db: sqlite3.Connection, parts: Sequence[str], most: int) -> list[_Row]:
    """At most `most` things with all these words in their names; none where too many would be looked through."""
    (least, first), *others = sorted((_often(db, part), part) for part in parts)
    if least == 0 or (least > LOOKED if others else least > most):
        return []
    also = " AND EXISTS (SELECT 1 FROM profile_token WHERE token = ? AND entity = one.entity)" * len(others)
    return _things(
        db, f"SELECT entity FROM profile_token one WHERE token = ?{also} LIMIT ?",
        (first, *(part for _, part in others), most),
    )  # fmt: skip


def _entity(row: _Row, score: float) -> Entity:
    iri, label, classes, incoming, _ = row
    return Entity(iri, label, tuple(classes.split(" ")), score, incoming)


def _best(found: list[Entity]) -> Sequence[Entity]:
    return tuple(sorted(found, key=lambda one: (-one.score, -one.incoming, one.iri))[:KEPT])


def _terms(spelled: Sequence[str]) -> list[Term]:
    """Terms of their N-Triples spelling."""
    return [next(iter(parse(f"<r:s> <r:p> {one} .", format=RdfFormat.N_TRIPLES))).object for one in spelled]
