"""What may be asked of the graph: each class and property with what its instances say, and every name and short value.

Counted in the default graph, of subjects that are IRIs and classes that are no machinery (those of RDF, OWL and SHACL,
whose instances are vocabulary and shapes; our own terms are left out too). What a subject adds to the counts is a
function of its statements and of the types of what they point to: a delta takes away what the subjects it touches added
before it, and adds what they add after. So the tables equal those made anew (test_index_profile).
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import unquote

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store

from ontology.facts import GT, RDF, RDFS, SH, XSD
from sparql.index.folding import fold, humps, split
from sparql.index.following import Exact
from sparql.index.reading import Held

OWL, SKOS, SCHEMA_ORG = "http://www.w3.org/2002/07/owl#", "http://www.w3.org/2004/02/skos/core#", "https://schema.org/"
LANGUAGE = "en"
MACHINERY = (RDF, RDFS, OWL, SH)
"""Classes below these say what a term or a shape is."""
LONGEST = 80
"""Characters of a value that a question can hold."""
NAMES, NAME_CHARACTERS = 50, 200
"""How many names of a thing are kept, and of how many characters at most."""
TOLD = 50_000
"""How many statements of vocabularies and shapes are read."""
TEXT = frozenset({f"{XSD}string", f"{RDF}langString"})
LABELS = (f"{RDFS}label", f"{SKOS}prefLabel", f"{SCHEMA_ORG}name")
OTHERS = (f"{SKOS}altLabel", f"{SKOS}hiddenLabel", f"{SCHEMA_ORG}alternateName")
WORDS = (f"{RDFS}comment", f"{SKOS}definition", "http://purl.org/dc/terms/description", f"{SCHEMA_ORG}description")
SAYS = (f"{RDFS}domain", f"{RDFS}range", f"{OWL}inverseOf", f"{RDFS}subClassOf", f"{RDFS}subPropertyOf")
CLASSES = (f"{RDFS}Class", f"{OWL}Class")
PROPERTIES = (f"{RDF}Property", f"{OWL}ObjectProperty", f"{OWL}DatatypeProperty", f"{OWL}AnnotationProperty")
DEFAULT, TYPE = DefaultGraph(), NamedNode(f"{RDF}type")
_NAMING = ("label", "preflabel", "name", "title", "handle", "altlabel")
"""The last parts of properties that name things, the best first."""
_KINDS = " ".join(f"<{one}>" for one in (*CLASSES, *PROPERTIES))
_TELLING = frozenset({*SAYS, f"{RDF}first", f"{RDF}rest"})
_TELLING_KINDS = frozenset({*CLASSES, *PROPERTIES, f"{SH}NodeShape"})
_CALLING = frozenset({*LABELS, *OTHERS, *WORDS})
_FLUSH = 200_000

SCHEMA = """
CREATE TABLE profile_class (class TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE profile_property (property TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE profile_cell (
    id INTEGER PRIMARY KEY, class TEXT NOT NULL, property TEXT NOT NULL, n INTEGER NOT NULL DEFAULT 0,
    subjects INTEGER NOT NULL DEFAULT 0, literals INTEGER NOT NULL DEFAULT 0, UNIQUE (class, property));
CREATE TABLE profile_many (
    cell INTEGER NOT NULL, many INTEGER NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (cell, many)) WITHOUT ROWID;
CREATE TABLE profile_range (
    cell INTEGER NOT NULL, range TEXT NOT NULL, literal INTEGER NOT NULL, n INTEGER NOT NULL,
    PRIMARY KEY (cell, range, literal)) WITHOUT ROWID;
CREATE TABLE profile_value (
    cell INTEGER NOT NULL, value TEXT NOT NULL, key TEXT, n INTEGER NOT NULL, PRIMARY KEY (cell, value)) WITHOUT ROWID;
CREATE TABLE profile_entity (
    id INTEGER PRIMARY KEY, iri TEXT NOT NULL UNIQUE, label TEXT NOT NULL, classes TEXT NOT NULL,
    size INTEGER NOT NULL, incoming INTEGER NOT NULL);
CREATE TABLE profile_name (key TEXT NOT NULL, entity INTEGER NOT NULL, PRIMARY KEY (key, entity)) WITHOUT ROWID;
CREATE TABLE profile_token (token TEXT NOT NULL, entity INTEGER NOT NULL, PRIMARY KEY (token, entity)) WITHOUT ROWID;
CREATE TABLE profile_word (token TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE profile_told (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX profile_value_key ON profile_value (key) WHERE key IS NOT NULL;
CREATE INDEX profile_value_top ON profile_value (cell, n DESC, value);
CREATE INDEX profile_name_entity ON profile_name (entity);
"""

_BOUNDED = f"""{{ ?shape sh:targetClass ?c }} UNION {{ ?shape a sh:NodeShape, <{RDFS}Class> BIND(?shape AS ?c) }}
  UNION {{ ?shape a sh:NodeShape, <{OWL}Class> BIND(?shape AS ?c) }}
  ?shape sh:property ?one . ?one sh:path ?p"""
_TELL = {
    "declared": f"SELECT ?t ?k {{ VALUES ?k {{ {_KINDS} }} ?t a ?k FILTER(isIRI(?t)) }}",
    "said": f"""SELECT ?t ?p ?o {{ VALUES ?p {{ {" ".join(f"<{one}>" for one in SAYS)} }} ?t ?p ?o
  FILTER(isIRI(?t) && isIRI(?o)) }}""",
    "called": f"""SELECT DISTINCT ?t ?p ?o (LANG(?o) AS ?l) {{ VALUES ?k {{ {_KINDS} }} ?t a ?k
  VALUES ?p {{ {" ".join(f"<{one}>" for one in (*LABELS, *OTHERS, *WORDS))} }} ?t ?p ?o
  FILTER(isIRI(?t) && isLiteral(?o)) }}""",
    "bounds": f"""PREFIX sh: <{SH}> SELECT ?c ?p (MAX(?least) AS ?min) (MIN(?greatest) AS ?max) {{ {_BOUNDED}
  FILTER(isIRI(?p)) OPTIONAL {{ ?one sh:minCount ?least }} OPTIONAL {{ ?one sh:maxCount ?greatest }} }}
  GROUP BY ?c ?p""",
    "allowed": f"""PREFIX sh: <{SH}> PREFIX rdf: <{RDF}> SELECT DISTINCT ?c ?p ?v {{ {_BOUNDED} FILTER(isIRI(?p))
  ?one sh:in/rdf:rest*/rdf:first ?v }}""",
}
"""What vocabularies and shapes say, each the rows of a query: what is allowed as terms, all else as texts."""

Term = Any
Types = Callable[[Term], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Thing:
    """A thing as its names are kept: what it is called first, its classes, and its names as keys."""

    label: str
    classes: tuple[str, ...]
    keys: tuple[str, ...]

    @property
    def size(self) -> int:
        """How many different tokens its shortest name has."""
        return min((len(set(key.split(" "))) for key in self.keys), default=1)


@dataclass
class _Seen:
    """What the subjects that an entry touches added before it."""

    subjects: frozenset[NamedNode] = frozenset()
    counts: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    things: dict[str, Thing] = field(default_factory=dict)


class Profile:
    """Keeps the tables. The work for a delta is that of the subjects it touches and of what points to a new kind."""

    name = "profile"
    version = 1

    def __init__(self) -> None:
        self._seen = _Seen()

    def rebuild(self, db: sqlite3.Connection, store: Store) -> None:
        """The tables are those of the store's default graph."""
        quads = store.quads_for_pattern(None, None, None, DEFAULT)  # by subject: its index is SPO
        _fill(db, ((subject, list(found)) for subject, found in groupby(quads, attrgetter("subject"))), store)

    def before(self, entry: Exact, store: Store) -> None:
        """What the subjects that the entry touches add, before it."""
        facts = [quad for quad in (*entry.removed, *entry.added) if quad.graph_name == DEFAULT]
        subjects = {quad.subject for quad in facts}
        for node in {quad.subject for quad in facts if quad.predicate == TYPE}:
            pointing = store.quads_for_pattern(None, None, node, DEFAULT)
            subjects |= {quad.subject for quad in pointing if quad.predicate != TYPE}
        touched = frozenset(one for one in subjects if isinstance(one, NamedNode))
        self._seen = _Seen(touched, *_sums(touched, store))

    def apply(self, db: sqlite3.Connection, entry: Exact, store: Store) -> None:
        """The tables are those of the store, which stands at `entry`."""
        seen, self._seen = self._seen, _Seen()
        counts, things = _sums(seen.subjects, store)
        counts.subtract(seen.counts)
        incoming: Counter[str] = Counter()
        for quads, sign in ((entry.removed, -1), (entry.added, 1)):
            for quad in quads:
                if quad.graph_name == DEFAULT:
                    counts["property", quad.predicate.value] += sign
                    if isinstance(quad.object, NamedNode):
                        incoming[quad.object.value] += sign
        _add(db, counts)
        for iri in sorted({*seen.things, *things}):
            old, new = seen.things.get(iri), things.get(iri)
            if old is not None and new is None:
                _forget(db, iri)
            elif old is None and new is not None:
                _write(db, iri, new, _pointing(store, iri))
                incoming.pop(iri, None)
            elif old != new:
                kept = db.execute("SELECT incoming FROM profile_entity WHERE iri = ?", (iri,)).fetchone()
                _forget(db, iri)
                _write(db, iri, new, kept[0])  # type: ignore[arg-type]
        db.executemany(
            "UPDATE profile_entity SET incoming = incoming + ? WHERE iri = ?",
            [(n, iri) for iri, n in incoming.items() if n],
        )
        if any(_tells(quad, store) for quad in (*entry.removed, *entry.added) if quad.graph_name == DEFAULT):
            _tell(db, store)


def held(store: Store, commit: int = 0) -> Held:
    """The profile of a store of any kind, in memory, at `commit`."""
    db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    db.execute("CREATE TABLE following (at INTEGER NOT NULL)")
    db.execute("INSERT INTO following VALUES (?)", (commit,))
    subjects = dict.fromkeys(quad.subject for quad in store.quads_for_pattern(None, None, None, DEFAULT))
    _fill(db, ((one, list(store.quads_for_pattern(one, None, None, DEFAULT))) for one in subjects), store)
    return Held(db)


def _fill(db: sqlite3.Connection, subjects: Iterable[tuple[Term, Sequence[Quad]]], store: Store) -> None:
    """The tables are made in an empty database, of each subject of the store with all its statements."""
    db.execute("PRAGMA cache_size = -131072")  # keys come in no order
    _run(db, SCHEMA)
    types = lru_cache(maxsize=_FLUSH)(_typed(store))
    counts: Counter[tuple[Any, ...]] = Counter()
    for subject, quads in subjects:
        for quad in quads:
            counts["property", quad.predicate.value] += 1
        if isinstance(subject, NamedNode):
            thing = _says(subject, quads, types, counts)
            if thing is not None:
                _write(db, subject.value, thing, 0)
        if len(counts) > _FLUSH:
            _add(db, counts)
            counts.clear()
    _add(db, counts)
    _run(db, INDEXES)
    things = db.execute("SELECT iri FROM profile_entity").fetchall()
    db.executemany("UPDATE profile_entity SET incoming = ? WHERE iri = ?",
                   ((_pointing(store, iri), iri) for (iri,) in things))  # fmt: skip
    _tell(db, store)


def _sums(subjects: Iterable[NamedNode], store: Store) -> tuple[Counter[tuple[Any, ...]], dict[str, Thing]]:
    """What these subjects add, and which of them are things."""
    counts: Counter[tuple[Any, ...]] = Counter()
    things = {}
    types = lru_cache(maxsize=_FLUSH)(_typed(store))
    for subject in subjects:
        thing = _says(subject, store.quads_for_pattern(subject, None, None, DEFAULT), types, counts)
        if thing is not None:
            things[subject.value] = thing
    return counts, things


def _typed(store: Store) -> Types:
    def types(node: Term) -> tuple[str, ...]:
        found = store.quads_for_pattern(node, TYPE, None, DEFAULT)
        return tuple(quad.object.value for quad in found if isinstance(quad.object, NamedNode))

    return types


def _says(subject: NamedNode, quads: Iterable[Quad], types: Types, counts: Counter[tuple[Any, ...]]) -> Thing | None:
    """What a subject adds is added; what it is, when it is of a class that is no machinery."""
    if subject.value.startswith(GT):
        return None
    classes: list[str] = []
    said: dict[str, list[Term]] = defaultdict(list)
    for quad in quads:
        if quad.predicate == TYPE:
            if isinstance(quad.object, NamedNode) and not quad.object.value.startswith(MACHINERY):
                classes.append(quad.object.value)
        else:
            said[quad.predicate.value].append(quad.object)
    if not classes:
        return None
    for one in classes:
        counts["class", one] += 1
    for property, objects in said.items():
        ranges, values = Counter[tuple[str, int]](), Counter[tuple[str, str | None]]()
        for term in objects:
            if isinstance(term, Literal):
                ranges[term.datatype.value, 1] += 1
                values[_spelled(term)] += 1
            elif isinstance(term, (NamedNode, BlankNode)):
                ranges.update((iri, 0) for iri in types(term))
        for one in classes:
            counts["cell", one, property] += len(objects)
            counts["many", one, property, len(objects)] += 1
            for (iri, literal), n in ranges.items():
                counts["range", one, property, iri, literal] += n
            for (value, key), n in values.items():
                counts["value", one, property, value, key] += n
    return _thing(subject.value, classes, said)


@lru_cache(maxsize=65536)
def _spelled(term: Literal) -> tuple[str, str | None]:
    """(the term, what a question says for it): of a long one only that it is one; of a number or a date no words."""
    if len(term.value) > LONGEST:
        return "#" + blake2b(str(term).encode("utf-8", "replace"), digest_size=16).hexdigest(), None
    return str(term), (" ".join(split(term.value)) or None) if term.datatype.value in TEXT else None


def _thing(iri: str, classes: Iterable[str], said: dict[str, list[Term]]) -> Thing:
    names: list[tuple[int, int, str]] = []
    for property, objects in said.items():
        kind = naming(property)
        if kind is not None:
            for term in objects:
                if isinstance(term, Literal) and 0 < len(term.value) <= NAME_CHARACTERS:
                    tongue = 0 if (term.language or LANGUAGE).partition("-")[0] == LANGUAGE else 1
                    names.append((tongue, kind, term.value))
    # The last part of an IRI is a name too, and all that a thing without a label has.
    listed = list(dict.fromkeys([*(text for _, _, text in sorted(names)), tail(iri)]))[:NAMES]
    keys = dict.fromkeys(" ".join(split(spelled)) for name in listed for spelled in (name, humps(name)))
    keys.pop("", None)
    return Thing(listed[0], tuple(sorted(classes)), tuple(sorted(keys)))


@lru_cache(maxsize=4096)
def naming(property: str) -> int | None:
    """How good a name a property gives, the least the best; None when it names nothing."""
    last = fold(tail(property)).replace("_", "")
    return _NAMING.index(last) if last in _NAMING else None


def tail(iri: str) -> str:
    """The last part of an IRI, as it is read."""
    return unquote(iri.rstrip("/#").replace("#", "/").rpartition("/")[2])


def _pointing(store: Store, iri: str) -> int:
    return sum(1 for _ in store.quads_for_pattern(None, None, NamedNode(iri), DEFAULT))


# -- rows


def _run(db: sqlite3.Connection, statements: str) -> None:
    for statement in statements.split(";\n"):
        if statement.strip():
            db.execute(statement)


def _add(db: sqlite3.Connection, counts: Counter[tuple[Any, ...]]) -> None:
    """Each count is added to the row of its key; a row of nothing is not there."""
    changed = {key: n for key, n in counts.items() if n}
    cells = {key[1:3] for key in changed if len(key) > 2}
    db.executemany("INSERT OR IGNORE INTO profile_cell (class, property) VALUES (?, ?)", cells)
    ids = {
        pair: db.execute("SELECT id FROM profile_cell WHERE class = ? AND property = ?", pair).fetchone()[0]
        for pair in cells
    }
    for key, n in changed.items():
        kind = key[0]
        if kind == "class":
            _count(db, "profile_class", ("class",), key[1:], n)
        elif kind == "property":
            _count(db, "profile_property", ("property",), key[1:], n)
        elif kind == "cell":
            db.execute("UPDATE profile_cell SET n = n + ? WHERE id = ?", (n, ids[key[1:3]]))
        elif kind == "many":
            _count(db, "profile_many", ("cell", "many"), (ids[key[1:3]], key[3]), n)
            db.execute("UPDATE profile_cell SET subjects = subjects + ? WHERE id = ?", (n, ids[key[1:3]]))
        elif kind == "range":
            _count(db, "profile_range", ("cell", "range", "literal"), (ids[key[1:3]], *key[3:]), n)
        else:
            cell = ids[key[1:3]]
            distinct = _count(db, "profile_value", ("cell", "value"), (cell, key[3]), n, key[4])
            if distinct:
                db.execute("UPDATE profile_cell SET literals = literals + ? WHERE id = ?", (distinct, cell))
    db.executemany("DELETE FROM profile_cell WHERE id = ? AND n = 0", [(one,) for one in ids.values()])


def _count(db: sqlite3.Connection, table: str, names: tuple[str, ...], key: Sequence[Any], n: int, *more: Any) -> int:
    """How many rows more there are."""
    statement, gone = _counting(table, names)
    (now,) = db.execute(statement, (*key, *more, n) if table == "profile_value" else (*key, n)).fetchone()
    if now == 0:
        db.execute(gone, key)
        return -1
    return int(now == n)


@lru_cache
def _counting(table: str, names: tuple[str, ...]) -> tuple[str, str]:
    columns = (*names, "key", "n") if table == "profile_value" else (*names, "n")
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({', '.join(names)}) DO UPDATE SET n = n + excluded.n RETURNING n",
        f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = ?' for name in names)}",
    )


def _write(db: sqlite3.Connection, iri: str, thing: Thing, incoming: int) -> None:
    cursor = db.execute("INSERT INTO profile_entity (iri, label, classes, size, incoming) VALUES (?, ?, ?, ?, ?)",
                        (iri, thing.label, " ".join(thing.classes), thing.size, incoming))  # fmt: skip
    me = cursor.lastrowid
    db.executemany("INSERT INTO profile_name VALUES (?, ?)", [(key, me) for key in thing.keys])
    for token in _tokens(thing.keys):
        db.execute("INSERT INTO profile_token VALUES (?, ?)", (token, me))
        _count(db, "profile_word", ("token",), (token,), 1)


def _forget(db: sqlite3.Connection, iri: str) -> None:
    (me,) = db.execute("SELECT id FROM profile_entity WHERE iri = ?", (iri,)).fetchone()
    keys = [key for (key,) in db.execute("SELECT key FROM profile_name WHERE entity = ?", (me,))]
    for token in _tokens(keys):
        db.execute("DELETE FROM profile_token WHERE token = ? AND entity = ?", (token, me))
        _count(db, "profile_word", ("token",), (token,), -1)
    db.executemany("DELETE FROM profile_name WHERE key = ? AND entity = ?", [(key, me) for key in keys])
    db.execute("DELETE FROM profile_entity WHERE id = ?", (me,))


def _tokens(keys: Iterable[str]) -> set[str]:
    return {token for key in keys for token in key.split(" ")}


# -- vocabularies and shapes


def _tells(quad: Quad, store: Store) -> bool:
    """Whether a statement is one of a vocabulary or of a shape."""
    predicate = quad.predicate.value
    if predicate in _TELLING or predicate.startswith(SH):
        return True
    if quad.predicate == TYPE:
        return isinstance(quad.object, NamedNode) and quad.object.value in _TELLING_KINDS
    return predicate in _CALLING and any(
        kind.object.value in _TELLING_KINDS
        for kind in store.quads_for_pattern(quad.subject, TYPE, None, DEFAULT)
        if isinstance(kind.object, NamedNode)
    )


def _tell(db: sqlite3.Connection, store: Store) -> None:
    db.execute("DELETE FROM profile_told")
    for name, query in _TELL.items():
        spell = str if name == "allowed" else attrgetter("value")
        rows = [[None if term is None else spell(term) for term in row] for row in store.query(query)]  # type: ignore
        rows = sorted(rows, key=lambda row: [term or "" for term in row])[:TOLD]
        db.execute("INSERT INTO profile_told VALUES (?, ?)", (name, json.dumps(rows, ensure_ascii=False)))
