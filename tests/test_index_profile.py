"""The profile that deltas keep is the one made anew, and what the engine counts when it is asked."""

from __future__ import annotations

import fcntl
import sqlite3
from collections import defaultdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Store

from ontology.facts import GT, RDF, RDFS, SH, XSD
from sparql.index.bringing import bring
from sparql.index.following import FOLDER, LOCK, Following, exact, merged
from sparql.index.profile import OWL, SKOS, Profile, held
from sparql.index.reading import Index
from sparql.index.statistics import Statistics
from sparql.log import Change, Entry
from sparql.question.planner.names import Names
from sparql.question.profile import schema_of
from sparql.question.schema import Schema
from sparql.store import open_store

E = "https://e.example/"
A = f"<{RDF}type>"
NODES = [f"<{E}n{n}>" for n in range(4)] + ["_:b1"]
CLASSES = [f"<{E}C1>", f"<{E}C2>", f"<{OWL}Class>", f"<{SH}NodeShape>"]
TERMS = [*NODES, f"<{E}C1>", f"<{E}C2>", f"<{E}p>", f"<{GT}own>"]
PREDICATES = [f"<{one}>" for one in (
    f"{E}p", f"{E}name", f"{RDFS}label", f"{SKOS}altLabel", f"{RDFS}domain", f"{RDFS}subClassOf", f"{SH}targetClass",
    f"{SH}property", f"{SH}path", f"{SH}in", f"{SH}minCount", f"{RDF}first")]  # fmt: skip
VALUES = ['"Red shoes"', '"red shoe"@en', '"roter Schuh"@de', f'"1"^^<{XSD}integer>', f'"{"long " * 30}"', '"a"']
_OF = f"""?s a ?c FILTER(isIRI(?c) && isIRI(?s) && !STRSTARTS(STR(?c), "{RDF}") && !STRSTARTS(STR(?c), "{RDFS}")
  && !STRSTARTS(STR(?c), "{OWL}") && !STRSTARTS(STR(?c), "{SH}") && !STRSTARTS(STR(?s), "{GT}"))"""


def asked(store: Store) -> dict[str, Any]:
    """The same counts, asked of the engine."""

    def rows(text: str) -> list[tuple[Any, ...]]:
        found = store.query(text)
        return [tuple(row) for row in found]  # type: ignore

    def count(term: Literal) -> int:
        return int(term.value)

    found: dict[str, Any] = defaultdict(dict)
    found["classes"] = {c.value: count(n) for c, n in rows(
        f"SELECT ?c (COUNT(DISTINCT ?s) AS ?n) {{ {_OF} }} GROUP BY ?c")}  # fmt: skip
    found["properties"] = {p.value: count(n) for p, n in rows("SELECT ?p (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?p")}
    for c, p, n, k in rows(
        f"SELECT ?c ?p (COUNT(*) AS ?n) (COUNT(DISTINCT ?s) AS ?k) {{ {_OF} ?s ?p ?o }} GROUP BY ?c ?p"
    ):
        if p.value != f"{RDF}type":
            found["uses"][c.value, p.value] = (count(n), count(k))
    for c, p, n in rows(f"SELECT ?c ?p (MAX(?k) AS ?most) {{ {{ SELECT ?c ?p ?s (COUNT(?o) AS ?k) {{ {_OF} ?s ?p ?o }} "
                        "GROUP BY ?c ?p ?s } } GROUP BY ?c ?p"):  # fmt: skip
        if p.value != f"{RDF}type":
            found["most"][c.value, p.value] = count(n)
    for literal, tail in (
        (True, "FILTER(isLiteral(?o)) BIND(DATATYPE(?o) AS ?r)"),
        (False, ". ?o a ?r FILTER(isIRI(?r))"),
    ):
        for c, p, r, n in rows(f"SELECT ?c ?p ?r (COUNT(*) AS ?n) {{ {_OF} ?s ?p ?o {tail} }} GROUP BY ?c ?p ?r"):
            if p.value != f"{RDF}type":
                found["ranges"].setdefault((c.value, p.value), {})[r.value, literal] = count(n)
    for c, p, o, n in rows(
        f"SELECT ?c ?p ?o (COUNT(*) AS ?n) {{ {_OF} ?s ?p ?o FILTER(isLiteral(?o)) }} GROUP BY ?c ?p ?o"
    ):
        found["values"].setdefault((c.value, p.value), {})[str(o)] = count(n)
    found["incoming"] = {o.value: count(n) for o, n in rows("SELECT ?o (COUNT(*) AS ?n) { ?s ?p ?o } GROUP BY ?o")
                         if isinstance(o, NamedNode)}  # fmt: skip
    found["things"] = {s.value for (s,) in rows(f"SELECT DISTINCT ?s {{ {_OF} }}")}
    return found


def same(schema: Schema, db: sqlite3.Connection, right: dict[str, Any]) -> None:
    assert {iri: one.instances for iri, one in schema.classes.items() if one.instances} == right["classes"]
    assert dict(db.execute("SELECT property, n FROM profile_property")) == right["properties"]
    uses = {(one.class_, one.property): one for one in schema.uses if one.statements}
    assert {pair: (one.statements, one.subjects) for pair, one in uses.items()} == right["uses"]
    assert {pair: one.most for pair, one in uses.items()} == right["most"]
    ranges = {pair: {(each.iri, each.literal): each.statements for each in one.ranges} for pair, one in uses.items()}
    assert {pair: found for pair, found in ranges.items() if found} == right["ranges"]
    values = right["values"]
    assert {pair: one.distinct for pair, one in uses.items() if one.distinct} == {
        pair: len(found) for pair, found in values.items()
    }
    short = {pair: {term: n for term, n in found.items() if len(term) < 80} for pair, found in values.items()}
    assert {pair: dict(one.top) for pair, one in uses.items() if one.top} == {
        p: found for p, found in short.items() if found
    }
    things = dict(db.execute("SELECT iri, incoming FROM profile_entity"))
    assert things == {iri: right["incoming"].get(iri, 0) for iri in right["things"]}


def content(db: sqlite3.Connection) -> dict[str, Any]:
    """All that the tables say, whatever their ids."""
    cell = "JOIN profile_cell c ON c.id = cell"
    entity = "JOIN profile_entity e ON e.id = entity"
    queries = {
        "class": "SELECT * FROM profile_class", "property": "SELECT * FROM profile_property",
        "cell": "SELECT class, property, n, subjects, literals FROM profile_cell",
        "many": f"SELECT class, property, many, m.n FROM profile_many m {cell}",
        "range": f"SELECT class, property, range, literal, r.n FROM profile_range r {cell}",
        "value": f"SELECT class, property, value, key, v.n FROM profile_value v {cell}",
        "entity": "SELECT iri, label, classes, size, incoming FROM profile_entity",
        "name": f"SELECT key, iri FROM profile_name {entity}", "word": "SELECT * FROM profile_word",
        "token": f"SELECT token, iri FROM profile_token {entity}", "told": "SELECT * FROM profile_told",
    }  # fmt: skip
    return {name: sorted(db.execute(query), key=repr) for name, query in queries.items()}


def database(store: Store) -> sqlite3.Connection:
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("CREATE TABLE following (at INTEGER NOT NULL)")
    db.execute("INSERT INTO following VALUES (0)")
    Profile().rebuild(db, store)
    return db


subjects = st.sampled_from([*NODES, *TERMS])
statement = st.one_of(
    st.tuples(subjects, st.just(A), st.sampled_from(CLASSES)),
    st.tuples(subjects, st.sampled_from(PREDICATES), st.sampled_from([*TERMS, *VALUES])),
    st.tuples(st.sampled_from(NODES[:4]), st.sampled_from(PREDICATES[:3]), st.sampled_from([*NODES, *VALUES])),
).map(" ".join)
side = st.dictionaries(st.sampled_from(["", "", f"{E}g1"]), st.frozensets(statement, max_size=10))


@settings(max_examples=60)
@given(st.lists(st.tuples(side, side), max_size=6), st.integers(1, 3))
def test_a_profile_kept_by_deltas_equals_one_made_anew_and_what_the_engine_counts(changes, together) -> None:  # type: ignore
    with TemporaryDirectory() as folder:
        store = Store(folder)
        db, profile = database(store), Profile()
        history = [Entry(n + 1, n, f"t{n}", (), Change(*change)) for n, change in enumerate(changes)]
        for start in range(0, len(history), together):
            entry = exact(merged(history[start : start + together]), store)
            profile.before(entry, store)
            entry.change.apply(store)
            profile.apply(db, entry, store)
            assert content(db) == content(database(store))
            same(schema_of(db), db, asked(store))
        with held(store).read() as other:
            assert content(other) == content(db)
        del store


def shop(store: Store) -> None:
    store.update(f"""PREFIX : <{E}> PREFIX rdfs: <{RDFS}> PREFIX skos: <{SKOS}> PREFIX sh: <{SH}> INSERT DATA {{
      :C1 a <{OWL}Class> ; rdfs:label "product"@en, "Ware"@de ; skos:altLabel "article" ; rdfs:comment "What is sold." .
      :p a <{OWL}DatatypeProperty> ; rdfs:label "colour"@en ; rdfs:domain :C1 .
      [] sh:targetClass :C1 ; sh:property [ sh:path :p ; sh:minCount 1 ; sh:maxCount 2 ; sh:in ("Red" "Blue") ] .
      :n1 a :C1 ; rdfs:label "Garden chair" ; :p "Red" . :n2 a :C1 ; rdfs:label "Garden table" ; :p "Red", "Blue" .
      :n3 a :C2 ; :of :n1 . :InvoiceWorker a :C2 ; :of :n1 }}""")


def test_terms_are_called_described_and_bounded_as_vocabularies_and_shapes_say() -> None:
    store = Store()
    shop(store)
    with held(store, 7).read() as db:
        schema = schema_of(db, prefixes={"": E})
    assert schema.commit == 7
    product = schema.classes[f"{E}C1"]
    assert (product.name.label, product.name.synonyms, product.name.description) == (
        "product", ("Ware", "article"), "What is sold.")  # fmt: skip
    assert schema.properties[f"{E}p"].domain == (f"{E}C1",)
    [use] = [one for one in schema.uses if one.property == f"{E}p"]
    assert (use.least_shape, use.most_shape, use.values) == (1, 2, ('"Blue"', '"Red"'))
    assert (use.most, use.distinct, use.top) == (2, 2, (('"Red"', 2), ('"Blue"', 1)))


def test_things_are_found_by_whole_names_by_telling_parts_by_beginnings_and_by_misspelt_words() -> None:
    store = Store()
    shop(store)
    names = Names(held(store))
    assert [one.iri for one in names.entities("garden CHAIRS")] == [f"{E}n1"]
    assert names.entities("garden chair")[0].score == 1.0
    assert {one.iri for one in names.entities("garden")} == {f"{E}n1", f"{E}n2"}
    assert [one.iri for one in names.entities("invoice worker")] == [f"{E}InvoiceWorker"]
    assert names.entities("garden sofa") == names.entities("") == names.entities("?!") == ()
    assert names.near("gard") == ("Garden chair", "Garden table")
    assert names.near("gardn chiar")[0] == "Garden chair"
    assert names.label(f"{E}n1") == "Garden chair" and not names.knows(f"{E}nothing")
    assert [str(one.term) for one in names.values("red")] == ['"Red"']
    assert [(str(term), n) for term, n in names.values_of(f"{E}p")] == [('"Red"', 2), ('"Blue"', 1)]
    assert [str(term) for term, _ in names.values_of(f"{E}p", "bl")] == ['"Blue"']
    assert dict(names.properties_of(f"{E}n3")) == {f"{E}of": 2}


def test_a_word_that_thousands_have_means_none_of_them_and_is_found_out_at_once() -> None:
    store = Store()
    lines = "".join(f'<{E}i{n}> a <{E}C1> ; <{RDFS}label> "order item {n}", "order" .\n' for n in range(3_000))
    store.update(f"INSERT DATA {{ {lines} }}")
    names = Names(held(store))
    assert names.entities("item") == () and names.entities("order item") == ()
    assert [one.iri for one in names.entities("item 77")] == [f"{E}i77"]
    many = names.entities("order", 4)
    assert len(many) == 4 and {one.score for one in many} == {0.85}


def test_whoever_asks_without_a_server_brings_the_profile_up_and_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    state = tmp_path / ".graphtide"

    def say(n: int) -> None:
        with open_store(state, E) as store:
            store.commit(Change(added={"": frozenset({f"<{E}n{n}> {A} <{E}C1>"})}))

    say(1)
    others = Following(state, E, [Statistics()])
    others.round()
    others.close()
    for n in (2, 3):
        say(n)
        assert bring(state, E, Profile())
        index = Index(state, "profile")
        with index.read() as db:
            assert schema_of(db).classes[f"{E}C1"].instances == n
        assert index.lag == 0
    assert Index(state, "statistics").lag == 2
    say(4)
    with open(state / FOLDER / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not bring(state, E, Profile(), seconds=0.2)
