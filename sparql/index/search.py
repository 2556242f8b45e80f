"""Whoever types a word means a thing: one hit a thing, the best match first, and every hit says what matched.

A hit is an IRI of the default graph. Its *names* are its labels (`LABELS`, and any property called name, title or
label) and the last part of its IRI; its *words* are all its literals. Matches come in this order: a name that is the
text; a literal that is; a name that begins with it; a name with all its words; a thing with all its words, over all its
literals; and, where few were found, a name with words like them. Within each the more important comes first.
The last word of a text may be unfinished.

The rows of a thing are a function of what the default graph says of it, so that an index kept by deltas equals one made
anew (test_search_index). Ids are made of rank and name: the full-text index hands out the important first, and the most
common word costs no more than its first `MOST` hits.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby, islice
from typing import Any, Protocol
from urllib.parse import unquote

from pyoxigraph import Literal, NamedNode, Store

from sparql.index.folding import fold, humps, spans, tokens
from sparql.index.following import Exact
from sparql.index.importance import ABOVE, DEFAULT, RDFS, TYPE, degrees, describes, is_vocabulary, rank

LABELS = (
    f"{RDFS}label", "http://www.w3.org/2004/02/skos/core#prefLabel", "https://schema.org/name",
    "http://schema.org/name", "http://xmlns.com/foaf/0.1/name", "http://purl.org/dc/terms/title",
    "http://purl.org/dc/elements/1.1/title", "http://usefulinc.com/ns/doap#name",
    "http://www.w3.org/2004/02/skos/core#altLabel",
)  # fmt: skip
_ABOVE = frozenset(term.value for term in ABOVE)
_CALLED = ("label", "name", "title")
SUBCLASS = NamedNode(f"{RDFS}subClassOf")
SILENT = frozenset({"http://www.w3.org/2001/XMLSchema#boolean", "http://www.w3.org/2001/XMLSchema#base64Binary"})
LITERALS, CHARACTERS = 200, 1000
"""How many literals of a thing are searched, and how much of each."""
MOST = 500
"""How many things one search ranks."""
FEW = 10
"""With fewer than this, words like those asked for are looked for."""
LONGEST, WORDS = 500, 16
"""Characters and words of a search that count."""
ALIKE = 0.4
"""How alike two words are, as the share of three-letter pieces they have in common."""
_BEGIN = "\ue000"  # before each value, so that a phrase can begin with it and spans no two
_EXACT, _SAID, _PREFIX, _NAMED, _WORDS, _FUZZY = range(6)
KINDS = ("exact", "exact", "prefix", "token", "token", "fuzzy")

SCHEMA = """
CREATE TABLE search_entity (
    id INTEGER PRIMARY KEY, iri TEXT NOT NULL UNIQUE, label TEXT NOT NULL, types TEXT NOT NULL, said TEXT NOT NULL,
    incoming INTEGER NOT NULL, outgoing INTEGER NOT NULL, importance INTEGER NOT NULL, vocabulary INTEGER NOT NULL);
CREATE INDEX search_rank ON search_entity (vocabulary, importance DESC, iri);
CREATE TABLE search_value (
    value INTEGER NOT NULL, name INTEGER NOT NULL, entity INTEGER NOT NULL,
    PRIMARY KEY (value, name, entity)) WITHOUT ROWID;
CREATE TABLE search_type (class TEXT NOT NULL, entity INTEGER NOT NULL, PRIMARY KEY (class, entity)) WITHOUT ROWID;
CREATE TABLE search_subclass (sub TEXT NOT NULL, super TEXT NOT NULL, PRIMARY KEY (super, sub)) WITHOUT ROWID;
CREATE INDEX search_sub ON search_subclass (sub);
CREATE VIRTUAL TABLE search_names USING fts5(
    name, kind, content='', prefix='1 2 3', tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co'");
CREATE VIRTUAL TABLE search_words USING fts5(
    word, kind, content='', prefix='2 3', tokenize="unicode61 remove_diacritics 0 categories 'L* N* M* Co'");
CREATE VIRTUAL TABLE search_grams USING fts5(name, content='', detail=none, tokenize='trigram case_sensitive 1');
"""
TABLES = (
    "search_entity", "search_value", "search_type", "search_subclass", "search_names", "search_words", "search_grams",
)  # fmt: skip


class Commit(Protocol):
    """What of a log entry the index needs."""

    @property
    def change(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Match:
    """Which literal matched: `property` is None for the last part of the IRI. `parts` are its pieces, hit or not."""

    property: str | None
    value: str
    language: str
    kind: str
    parts: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class Hit:
    """A thing that was found, and why."""

    iri: str
    label: str
    types: tuple[str, ...]
    importance: int
    vocabulary: bool
    match: Match | None
    key: tuple[int, int, int, str]
    """Where it stands among the hits: the next page begins after the last one's."""


@dataclass(frozen=True, slots=True)
class Hits:
    """One page of hits. `total` are all that were ranked; `capped` when there are more than were ranked."""

    hits: tuple[Hit, ...]
    total: int
    capped: bool
    more: bool


@dataclass(frozen=True, slots=True)
class _Thing:
    """What the index keeps of one IRI, but for its id."""

    iri: str
    label: str
    types: tuple[str, ...]
    said: tuple[tuple[str, str, str, int], ...]
    incoming: int
    outgoing: int
    vocabulary: bool

    @property
    def importance(self) -> int:
        return self.incoming + self.outgoing

    def names(self) -> list[str]:
        own = [value for _, value, _, name in self.said if name]
        return list(dict.fromkeys([*own, local(self.iri)]))

    def values(self) -> set[tuple[int, int]]:
        """(what stands for it, whether it is a name) of each value short enough to be typed."""
        said = [(value, name) for _, value, _, name in self.said if len(value) <= 200]
        return {(_value(words), name) for value, name in [*said, (local(self.iri), 1)] if (words := tokens(value))}

    def texts(self) -> tuple[str, str, str, str]:
        """What the full-text tables hold of it: names, all words, three-letter pieces, and what it is."""
        names = self.names()
        kind = " ".join(_class(iri) for iri in self.types)
        values = [*names, *(value for _, value, _, name in self.said if not name)]
        words = [_enclosed(value) for value in values]
        words += [" ".join(tokens(apart)) for value in values if (apart := humps(value[:200])) != value[:200]]
        return (
            " ".join(map(_enclosed, names)), " ".join(words),
            "".join(f"  {' '.join(tokens(name[:200]))} " for name in names), kind,
        )  # fmt: skip


class Search:
    """Keeps the search tables of an index database at the commit of the store it is given."""

    name = "search"
    version = 1

    def rebuild(self, db: sqlite3.Connection, store: Store) -> None:
        """The tables are those of the store's default graph, whatever they were."""
        db.execute("PRAGMA cache_size = -131072")  # with the 2 MB SQLite has by itself, ids in no order read the disk
        for table in TABLES:
            db.execute(f"DROP TABLE IF EXISTS {table}")
        for statement in SCHEMA.split(";\n"):
            if statement.strip():
                db.execute(statement)
        for quad in store.quads_for_pattern(None, SUBCLASS, None, DEFAULT):
            if isinstance(quad.subject, NamedNode) and isinstance(quad.object, NamedNode):
                db.execute(
                    "INSERT OR IGNORE INTO search_subclass VALUES (?, ?)", (quad.subject.value, quad.object.value)
                )
        for thing in _things(store):
            _note(db, thing)
        # In the order of their ids: for any other FTS5 empties its memory at every row, which took five times as long.
        for (iri,) in db.execute("SELECT iri FROM search_entity ORDER BY id"):
            kept = _kept(db, iri)
            assert kept is not None
            _write(db, kept)
        for table in ("search_names", "search_words", "search_grams"):
            db.execute(f"INSERT INTO {table}({table}) VALUES ('optimize')")

    def apply(self, db: sqlite3.Connection, entry: Commit, store: Store) -> None:
        """The tables are those of the store, which stands at `entry`."""
        exact = isinstance(entry, Exact)
        touched, classes, below, points = _touched(entry.change, exact=exact)
        for iri in below:
            db.execute("DELETE FROM search_subclass WHERE sub = ?", (iri,))
            for quad in store.quads_for_pattern(NamedNode(iri), SUBCLASS, None, DEFAULT):
                if isinstance(quad.object, NamedNode):
                    db.execute("INSERT OR IGNORE INTO search_subclass VALUES (?, ?)", (iri, quad.object.value))
        for iri in classes - touched:
            # That one more thing is of a class says nothing new of the class.
            row = db.execute("SELECT vocabulary FROM search_entity WHERE iri = ?", (iri,)).fetchone()
            of_it = any(True for _ in store.quads_for_pattern(None, TYPE, NamedNode(iri), DEFAULT))
            if row is None or not of_it or not row[0]:
                touched.add(iri)
        touched |= _point(db, {iri: n for iri, n in points.items() if iri not in touched})
        for iri in sorted(touched):
            _refresh(db, iri, _thing(store, iri))


def search(
    db: sqlite3.Connection, text: str, *, of_class: str | None = None, limit: int = 20,
    after: tuple[int, int, int, str] | None = None,
) -> Hits:  # fmt: skip
    """The things a text means, `of_class` or a class below it. Without a text, the most important of the class."""
    text = text.encode("utf-8", "replace").decode()
    asked = tokens(text[:LONGEST])[:WORDS]
    classes = below(db, of_class) if of_class is not None else None
    found: dict[int, int] = {}
    capped = False
    if not asked and text.strip():
        return Hits((), 0, False, False)
    if not asked:
        rows = _of_classes(db, classes or [])
        found, capped = dict.fromkeys(rows, _EXACT), len(rows) >= MOST
    else:
        iri = db.execute("SELECT id FROM search_entity WHERE iri = ?", (text.strip().strip("<>"),)).fetchone()
        if iri is not None and (classes is None or _is_of(db, iri[0], classes)):
            found[iri[0]] = _EXACT
        for tier, rows in _tiers(db, asked, classes):
            capped = capped or len(rows) >= MOST
            for row in rows:
                found.setdefault(row, tier)
            if len(found) >= MOST:
                break
        if len(found) < FEW:
            for row in _like(db, asked, classes):
                found.setdefault(row, _FUZZY)
    ranked = sorted(_ranked(db, found))[:MOST]
    start = 0 if after is None else sum(1 for key, _ in ranked if key <= after)
    page = ranked[start : start + limit]
    hits = tuple(_hit(db, key, row, asked) for key, row in page)
    return Hits(hits, len(ranked), capped, start + limit < len(ranked))


def below(db: sqlite3.Connection, iri: str) -> list[str]:
    """The class and all its subclasses, at most 1,000, the class first."""
    rows = db.execute(
        "WITH RECURSIVE c(iri) AS (VALUES (?) UNION SELECT sub FROM search_subclass JOIN c ON super = c.iri) "
        "SELECT iri FROM c LIMIT 1000",
        (iri.encode("utf-8", "replace").decode(),),
    )
    return [row[0] for row in rows]


def rows(db: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """All that the tables hold, comparable between two indexes."""
    found = {
        "entity": db.execute("SELECT * FROM search_entity ORDER BY id").fetchall(),
        "value": db.execute("SELECT * FROM search_value ORDER BY 1, 2, 3").fetchall(),
        "type": db.execute("SELECT * FROM search_type ORDER BY 1, 2").fetchall(),
        "subclass": db.execute("SELECT * FROM search_subclass ORDER BY 1, 2").fetchall(),
    }
    for table in ("names", "words", "grams"):
        kind = "row" if table == "grams" else "instance"
        db.execute(
            f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.seen_{table} USING fts5vocab(main, search_{table}, {kind})"
        )
        found[table] = db.execute(f"SELECT * FROM temp.seen_{table} ORDER BY 1, 2, 3").fetchall()
    return found


def local(iri: str) -> str:
    """The last part of an IRI, as a person reads it."""
    rest = iri.rstrip("/#")
    return unquote(rest[max(rest.rfind("/"), rest.rfind("#"), rest.rfind(":") if "/" not in rest else -1) + 1 :]) or iri


@lru_cache(maxsize=4096)
def is_label(iri: str) -> bool:
    """Whether the property says what a thing is called."""
    return iri in LABELS or local(iri).lower() in _CALLED


# -- what is kept


def _things(store: Store) -> Iterator[_Thing]:
    """What `_thing` says of every IRI of the default graph, in two passes over it: a tenth of the look-ups."""
    subjects: set[str] = set()
    objects: set[str] = set()
    above: set[str] = set()
    incoming: Counter[str] = Counter()
    grouped, last = True, ""
    for quad in store.quads_for_pattern(None, None, None, DEFAULT):
        subject, predicate, term = quad.subject, quad.predicate.value, quad.object
        me = subject.value if isinstance(subject, NamedNode) else ""
        if me and me != last:
            grouped, last = grouped and me not in subjects, me
            subjects.add(me)
        if predicate in _ABOVE and me:
            above.add(me)
        if isinstance(term, NamedNode):
            value = term.value
            objects.add(value)
            if predicate == TYPE.value or predicate in _ABOVE:
                above.add(value)
            if predicate != TYPE.value and value != me:
                incoming[value] += 1
    if not grouped:  # a store in memory has another order
        yield from (thing for iri in subjects | objects if (thing := _thing(store, iri)) is not None)
        return
    every = store.quads_for_pattern(None, None, None, DEFAULT)
    for subject, quads in groupby(every, key=lambda quad: quad.subject):
        if isinstance(subject, NamedNode):
            types, said, out = _read(subject, quads)
            yield _composed(subject.value, types, said, incoming[subject.value], out, subject.value in above)
    for iri in objects - subjects:
        yield _composed(iri, set(), [], incoming[iri], 0, iri in above)


def _read(node: NamedNode, quads: Iterable[Any]) -> tuple[set[str], list[tuple[str, str, str, int]], int]:
    """(types, literals, how many statements lead to other nodes) of the statements with this subject."""
    types, said, out = set(), [], 0
    for quad in quads:
        value, predicate = quad.object, quad.predicate.value
        if isinstance(value, NamedNode):
            if predicate == TYPE.value:
                types.add(value.value)
            elif value != node:
                out += 1
        elif isinstance(value, Literal) and value.value and value.datatype.value not in SILENT:
            said.append((predicate, value.value[:CHARACTERS], value.language or "", int(is_label(predicate))))
    return types, said, out


def _composed(
    iri: str, types: set[str], said: list[tuple[str, str, str, int]], incoming: int, outgoing: int, above: bool
) -> _Thing:
    vocabulary = above or describes(iri, types)
    kept = sorted(set(said), key=lambda one: (not one[3], one))[:LITERALS]
    into, out = (0, 0) if vocabulary else (incoming, outgoing)
    return _Thing(iri, _label(iri, kept), tuple(sorted(types)), tuple(kept), into, out, vocabulary)


def _thing(store: Store, iri: str) -> _Thing | None:
    """What the default graph says of the node; None when it says nothing."""
    node = NamedNode(iri)
    quads = list(store.quads_for_pattern(node, None, None, DEFAULT))
    if not quads and not any(True for _ in store.quads_for_pattern(None, None, node, DEFAULT)):
        return None
    types, said, _ = _read(node, quads)
    above = is_vocabulary(store, node, types)
    return _composed(iri, types, said, *((0, 0) if above else degrees(store, node)), above)


def _label(iri: str, said: Sequence[tuple[str, str, str, int]]) -> str:
    """The name shown: of the first property of `LABELS` it has, in English or without a language if there is one."""

    def order(one: tuple[str, str, str, int]) -> tuple[int, int, str, str]:
        place = LABELS.index(one[0]) if one[0] in LABELS else len(LABELS)
        return place, {"": 0, "en": 0}.get(one[2].partition("-")[0], 1), one[2], one[1]

    names = [one for one in said if one[3]]
    return min(names, key=order)[1] if names else local(iri)


def _touched(change: Any, *, exact: bool) -> tuple[set[str], set[str], set[str], Counter[str]]:
    """(nodes whose rows may differ, classes of which something is or is no more, classes with other superclasses,
    by how many more statements a node is pointed to where that is all there is to it).

    Only of an `exact` change, of which every statement makes a difference, can the last be told.
    """
    points: Counter[str] = Counter()
    touched: set[str] = set()
    classes: set[str] = set()
    below: set[str] = set()
    for graphs, sign in ((change.removed, -1), (change.added, 1)):
        for statement in graphs.get("", ()):
            subject, predicate, value = statement.split(" ", 2)
            if subject.startswith("<") and not subject.startswith("<<"):
                touched.add(subject[1:-1])
                if predicate[1:-1] == SUBCLASS.value:
                    below.add(subject[1:-1])
            if value.startswith("<") and not value.startswith("<<"):
                if predicate[1:-1] == TYPE.value:
                    classes.add(value[1:-1])
                elif not exact or predicate[1:-1] in _ABOVE or value == subject:
                    touched.add(value[1:-1])
                else:
                    points[value[1:-1]] += sign
    return touched, classes, below, points


def _point(db: sqlite3.Connection, points: Mapping[str, int]) -> set[str]:
    """So many more statements point to each node, or fewer. Returns those that have to be looked at as a whole."""
    whole, counted, asked = set(points), [], list(points)
    for start in range(0, len(asked), 500):
        part = asked[start : start + 500]
        for iri, row, incoming, outgoing, vocabulary in db.execute(
            "SELECT iri, id, incoming, outgoing, vocabulary FROM search_entity "
            f"WHERE iri IN ({','.join('?' * len(part))})",
            part,
        ):
            now = incoming + points[iri]
            if vocabulary:  # whatever points to it; but what nothing points to may be there no more
                whole -= {iri} if points[iri] >= 0 else set()
            elif now > 0 and rank(now + outgoing) == rank(incoming + outgoing):
                whole.discard(iri)
                if now != incoming:
                    counted.append((now, now + outgoing, row))
    db.executemany("UPDATE search_entity SET incoming = ?, importance = ? WHERE id = ?", counted)
    return whole


def _id(thing: _Thing) -> int:
    """The more important, the smaller: what the full-text index hands out first."""
    name = int.from_bytes(blake2b(thing.iri.encode("utf-8", "surrogatepass"), digest_size=7).digest(), "big")
    return (63 - (0 if thing.vocabulary else rank(thing.importance) + 1)) << 56 | name


def _note(db: sqlite3.Connection, thing: _Thing) -> None:
    said = json.dumps([list(one) for one in thing.said], ensure_ascii=False, separators=(",", ":"))
    row = (_id(thing), thing.iri, thing.label, " ".join(thing.types), said, thing.incoming, thing.outgoing,
           thing.importance, int(thing.vocabulary))  # fmt: skip
    db.execute("INSERT INTO search_entity VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.executemany("INSERT INTO search_type VALUES (?, ?)", [(one, row[0]) for one in thing.types])
    db.executemany("INSERT INTO search_value VALUES (?, ?, ?)", [(*one, row[0]) for one in sorted(thing.values())])


def _write(db: sqlite3.Connection, thing: _Thing) -> None:
    row, (names, words, grams, kind) = _id(thing), thing.texts()
    db.execute("INSERT INTO search_names(rowid, name, kind) VALUES (?, ?, ?)", (row, names, kind))
    db.execute("INSERT INTO search_words(rowid, word, kind) VALUES (?, ?, ?)", (row, words, kind))
    db.execute("INSERT INTO search_grams(rowid, name) VALUES (?, ?)", (row, grams))


def _refresh(db: sqlite3.Connection, iri: str, now: _Thing | None) -> None:
    before = _kept(db, iri)
    if before == now:
        return
    if (
        before is not None
        and now is not None
        and _id(before) == _id(now)
        and before.types == now.types
        # To the word and in order: a text that is deleted otherwise than it was written breaks the table.
        and before.texts() == now.texts()
        and before.values() == now.values()
    ):
        said = json.dumps([list(one) for one in now.said], ensure_ascii=False, separators=(",", ":"))
        db.execute(
            "UPDATE search_entity SET label = ?, said = ?, incoming = ?, outgoing = ?, importance = ? WHERE id = ?",
            (now.label, said, now.incoming, now.outgoing, now.importance, _id(now)),
        )
        return
    if before is not None:
        _drop(db, before)
    if now is not None:
        _note(db, now)
        _write(db, now)


def _kept(db: sqlite3.Connection, iri: str) -> _Thing | None:
    row = db.execute(
        "SELECT label, types, said, incoming, outgoing, vocabulary FROM search_entity WHERE iri = ?", (iri,)
    ).fetchone()
    if row is None:
        return None
    label, types, said, incoming, outgoing, vocabulary = row
    kept = tuple((one[0], one[1], one[2], one[3]) for one in json.loads(said))
    return _Thing(iri, label, tuple(filter(None, types.split(" "))), kept, incoming, outgoing, bool(vocabulary))


def _drop(db: sqlite3.Connection, thing: _Thing) -> None:
    # The full-text tables keep no text of their own: they are told what they hold.
    row, (names, words, grams, kind) = _id(thing), thing.texts()
    db.execute(
        "INSERT INTO search_names(search_names, rowid, name, kind) VALUES ('delete', ?, ?, ?)", (row, names, kind)
    )
    db.execute(
        "INSERT INTO search_words(search_words, rowid, word, kind) VALUES ('delete', ?, ?, ?)", (row, words, kind)
    )
    db.execute("INSERT INTO search_grams(search_grams, rowid, name) VALUES ('delete', ?, ?)", (row, grams))
    db.executemany("DELETE FROM search_type WHERE class = ? AND entity = ?", [(one, row) for one in thing.types])
    db.executemany(
        "DELETE FROM search_value WHERE value = ? AND name = ? AND entity = ?", [(*one, row) for one in thing.values()]
    )
    db.execute("DELETE FROM search_entity WHERE id = ?", (row,))


def _enclosed(value: str) -> str:
    return f"{_BEGIN} {' '.join(tokens(value))}"


def _value(words: Iterable[str]) -> int:
    """What stands for a whole value where only equality is asked."""
    text = " ".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=6).digest(), "big")


def _class(iri: str) -> str:
    return "k" + blake2b(iri.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


# -- what is found


def _tiers(
    db: sqlite3.Connection, asked: Sequence[str], classes: Sequence[str] | None
) -> Iterator[tuple[int, list[int]]]:
    """(how well they match, the most important that do), the best first; each is looked for when it is asked for."""
    for tier, name in ((_EXACT, 1), (_SAID, 0)):
        found = db.execute(
            "SELECT entity FROM search_value WHERE value = ? AND name = ? ORDER BY entity", (_value(asked), name)
        )
        mine = (row[0] for row in found if classes is None or _is_of(db, row[0], classes))
        yield tier, list(islice(mine, MOST))
    only = "" if classes is None else f" AND kind : ({' OR '.join(map(_class, classes))})"
    phrase, last = " ".join(asked), "*" if len(asked[-1]) > 1 else ""
    every = " AND ".join([*(f'"{word}"' for word in asked[:-1]), f'"{asked[-1]}"{last}'])
    yield _PREFIX, _matching(db, "search_names", f'name : "{_BEGIN} {phrase}" *{only}')
    yield _NAMED, _matching(db, "search_names", f"name : ({every}){only}")
    yield _WORDS, _matching(db, "search_words", f"word : ({every}){only}")


def _matching(db: sqlite3.Connection, table: str, query: str) -> list[int]:
    return [row[0] for row in db.execute(f"SELECT rowid FROM {table} WHERE {table} MATCH ? LIMIT {MOST}", (query,))]


def _like(db: sqlite3.Connection, asked: Sequence[str], classes: Sequence[str] | None) -> list[int]:
    """Things whose names have, for each word asked for, one like it; the likest first."""
    longest = max(asked, key=len)
    if len(longest) < 3:
        return []
    pieces = [f'"{piece}"' for piece in sorted(_grams(longest, 3)) if '"' not in piece]
    inner = [f'"{longest[n : n + 3]}"' for n in range(len(longest) - 2)]
    ends = max(1, (len(inner) - 3) // 2)
    queries = [" AND ".join(inner[:ends]), " AND ".join(inner[-ends:]), *pieces]
    seen: dict[int, int] = {}
    for query in queries:
        for row in db.execute("SELECT rowid FROM search_grams WHERE search_grams MATCH ? LIMIT 150", (query,)):
            seen[row[0]] = seen.get(row[0], 0) + 1
    best = sorted(seen, key=lambda row: (-seen[row], row))[:100]
    scored = []
    for row in best:
        found = db.execute("SELECT iri, said FROM search_entity WHERE id = ?", (row,)).fetchone()
        if classes is not None and not _is_of(db, row, classes):
            continue
        names = {word for name in _names(*found) for word in tokens(name[:200])}
        alike = min(max((_alike(one, word) for word in names), default=0.0) for one in asked)
        if alike >= ALIKE:
            scored.append((-alike, row))
    return [row for _, row in sorted(scored)]


def _names(iri: str, said: str) -> list[str]:
    return [*(one[1] for one in json.loads(said) if one[3]), local(iri)]


def _grams(word: str, size: int) -> set[str]:
    padded = f"  {word} "
    return {padded[n : n + size] for n in range(len(padded) - size + 1)}


def _alike(one: str, other: str) -> float:
    if one == other:
        return 1.0
    if abs(len(one) - len(other)) > 3:
        return 0.0
    a, b = _grams(one, 3), _grams(other, 3)
    close = 2 * len(a & b) / (len(a) + len(b))
    # Two letters the wrong way round break most pieces of a short word, and change none of its letters.
    return max(close, 0.5) if sorted(one) == sorted(other) and one[0] == other[0] else close


def _of_classes(db: sqlite3.Connection, classes: Sequence[str]) -> list[int]:
    marks = ",".join("?" * len(classes))
    rows = db.execute(
        f"SELECT DISTINCT entity FROM search_type WHERE class IN ({marks}) ORDER BY entity LIMIT {MOST}", list(classes)
    )
    return [row[0] for row in rows]


def _is_of(db: sqlite3.Connection, row: int, classes: Iterable[str]) -> bool:
    return any(db.execute("SELECT 1 FROM search_type WHERE class = ? AND entity = ?", (one, row)).fetchone()
               for one in classes)  # fmt: skip


def _ranked(db: sqlite3.Connection, found: dict[int, int]) -> Iterator[tuple[tuple[int, int, int, str], int]]:
    wanted = list(found)
    for start in range(0, len(wanted), 500):
        part = wanted[start : start + 500]
        for row, iri, label, importance in db.execute(
            f"SELECT id, iri, label, importance FROM search_entity WHERE id IN ({','.join('?' * len(part))})", part
        ):
            yield (found[row], -importance, len(label), iri), row


def _hit(db: sqlite3.Connection, key: tuple[int, int, int, str], row: int, asked: Sequence[str]) -> Hit:
    iri, label, types, said, importance, vocabulary = db.execute(
        "SELECT iri, label, types, said, importance, vocabulary FROM search_entity WHERE id = ?", (row,)
    ).fetchone()
    match = _match(iri, json.loads(said), asked, key[0]) if asked else None
    return Hit(iri, label, tuple(filter(None, types.split(" "))), importance, bool(vocabulary), match, key)


def _match(iri: str, said: Sequence[Sequence[Any]], asked: Sequence[str], tier: int) -> Match:
    """The literal that has most of the words asked for, and a name sooner than another."""
    values = [(str(one[0]), str(one[1]), str(one[2]), bool(one[3])) for one in said]
    values.append(("", local(iri), "", True))
    best, score = values[-1], (-1.0, False, 0)
    for one in values:
        has = tokens(one[1])
        if tier == _FUZZY:
            much = sum(max((_alike(word, other) for other in has), default=0.0) for word in asked)
        else:
            whole = " ".join(has)
            much = float(sum(1 for word in asked if any(other.startswith(word) for other in has)))
            much += (whole == " ".join(asked)) + whole.startswith(" ".join(asked))
        mine = (much, one[3], -len(one[1]))
        if mine > score:
            best, score = one, mine
    parts = tuple(_parts(best[1], asked, fuzzy=tier == _FUZZY))
    return Match(best[0] or None, best[1], best[2], KINDS[tier], parts)


def _parts(value: str, asked: Sequence[str], *, fuzzy: bool) -> Iterator[tuple[str, bool]]:
    """The value in pieces, each a hit or not; what is joined is the value."""
    last, whole = asked[-1], set(asked)
    at = 0
    for start, end, words in spans(value):
        hit = any(word in whole or word.startswith(last) for word in words)
        hit = hit or (fuzzy and any(_alike(word, one) >= ALIKE for word in words for one in asked))
        if hit:
            if start > at:
                yield value[at:start], False
            yield value[start:end], True
            at = end
    if at < len(value):
        yield value[at:], False


__all__ = ["KINDS", "LABELS", "Hit", "Hits", "Match", "Search", "below", "fold", "is_label", "local", "rows", "search"]
