"""A row is proved when the query, asked of nothing but what was cited for it, gives the row again."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, Triple

from graphtide.engine import Engine
from graphtide.question_set import load_set
from sparql.names import Names
from sparql.question.cite import cite
from sparql.question.graph import StoreGraph
from sparql.question.witness import Prover
from sparql.syntax import parse

E = "http://a/"
P = f"PREFIX : <{E}>\n"

QUERIES = [
    "SELECT ?x ?y { ?x :p ?y }",
    "SELECT ?x { ?x :p ?y . ?y :q ?z }",
    "SELECT ?x ?z { ?x :p [ :q ?z ] }",
    "SELECT ?x ?n { ?x :p ?y OPTIONAL { ?y :n ?n } }",
    "SELECT ?x ?n { ?x :p ?y OPTIONAL { ?y :n ?n . ?y :q ?w } }",
    "SELECT ?x { { ?x :p ?y } UNION { ?x :q ?y . ?y :p ?z } }",
    "SELECT ?x { ?x :p ?y FILTER EXISTS { ?y :q ?z } }",
    "SELECT ?x { ?x :p ?y FILTER NOT EXISTS { ?x :q ?z } }",
    "SELECT ?x { ?x :p ?y MINUS { ?x :q ?z } }",
    "SELECT ?x ?m { ?x :n ?n BIND(?n * 2 AS ?m) }",
    "SELECT ?x (?n + 1 AS ?m) { ?x :n ?n }",
    "SELECT ?x ?y { VALUES ?y { :a :b } ?x :p ?y }",
    "SELECT ?x ?y { ?x :p+ ?y }",
    "SELECT ?x ?y { ?x :p* ?y . ?y :n ?n }",
    "SELECT ?x ?y { ?x :p? ?y . ?y :q ?z }",
    "SELECT ?x ?y { ?x :p/:q ?y }",
    "SELECT ?x ?y { ?x (:p|^:q)+ ?y }",
    "SELECT ?x ?y { ?x (:p/:q)+ ?y }",
    "SELECT ?x ?y { ?x ^:p ?y }",
    "SELECT ?x ?y { ?x !(:p|:n) ?y }",
    "SELECT ?x ?y { ?x !(^:p) ?y }",
    "SELECT (COUNT(*) AS ?c) { ?x :p ?y }",
    "SELECT ?x (COUNT(?y) AS ?c) { ?x :p ?y } GROUP BY ?x",
    "SELECT ?x (SUM(?n) AS ?c) (MAX(?n) AS ?m) { ?x :p ?y . ?y :n ?n } GROUP BY ?x HAVING (SUM(?n) > 2)",
    "SELECT ?k (COUNT(DISTINCT ?x) AS ?c) { ?x :n ?n } GROUP BY (?n + 1 AS ?k)",
    "SELECT DISTINCT ?x { ?x :p ?y } ORDER BY ?x LIMIT 2",
    "SELECT ?x ?n { ?x :n ?n } ORDER BY DESC(?n) LIMIT 1",
    "SELECT ?x ?c { { SELECT ?x (COUNT(?y) AS ?c) { ?x :p ?y } GROUP BY ?x } ?x :n ?n }",
    "SELECT ?x { ?x :n ?n { SELECT (MAX(?m) AS ?n) { ?z :n ?m } } }",
    "SELECT ?x ?p { ?x ?p :a }",
    "SELECT * { ?x :p ?y . ?x :n ?n }",
    "ASK { ?x :p ?y . ?y :q ?z }",
    "CONSTRUCT { ?x :r ?z . ?z :s 5 } { ?x :p ?z }",
    "CONSTRUCT WHERE { ?x :p ?z . ?z :q ?y }",
    "DESCRIBE :a",
    "SELECT ?x { ?x :p ?y . FILTER(?y IN (:a, :b) && EXISTS { ?x :n ?n }) }",
    "SELECT ?x ?l { ?x :l ?l FILTER(LANG(?l) = 'en') }",
]
NODES = "abcde"


def build(chance: random.Random) -> Store:
    store = Store()
    for _ in range(chance.randrange(3, 18)):
        subject = NamedNode(E + chance.choice(NODES))
        kind = chance.choice("ppqqnl")
        value = {
            "n": Literal(chance.randrange(5)),
            "l": Literal(chance.choice(['x "y" \\z', "<a>", "é"]), language=chance.choice(["en", "de"])),
        }.get(kind, NamedNode(E + chance.choice(NODES)))
        store.add(Quad(subject, NamedNode(E + kind), value, DefaultGraph()))
    return store


def proved(store: Store, query: str, *, rows: int = 8) -> int:
    graph = StoreGraph(store)
    result = graph.query(P + query)
    tree = parse(P + query, base=E, only="query")
    done = 0
    for number in range(min(rows, len(result.rows))):
        proof = Prover(graph, tree, epoch=None, ends=time.monotonic() + 20).row(result, number)
        alone = Store()
        alone.extend(
            Quad(one.subject, one.predicate, one.object, where_of(graph_)) for one, graph_ in proof.statements.items()
        )
        for one in proof.statements:
            assert any(
                Triple(*quad.triple) == one for quad in store.quads_for_pattern(one.subject, one.predicate, one.object)
            )
        again = StoreGraph(alone).query(P + query)
        if result.kind == "boolean":
            assert (
                again.rows == result.rows
                or str(result.rows[0][0]) == '"false"^^<http://www.w3.org/2001/XMLSchema#boolean>'
            )
        else:
            assert result.rows[number] in again.rows, (
                query,
                result.rows[number],
                sorted(map(str, proof.statements)),
                proof.notes,
            )
        assert proof.complete, (query, result.rows[number], proof.notes)
        done += 1
    return done


def where_of(name: str | None) -> NamedNode | DefaultGraph:
    return DefaultGraph() if name is None else NamedNode(name)


@pytest.mark.parametrize("graphs", [8, pytest.param(290, marks=pytest.mark.soak)])
def test_the_query_over_only_what_was_cited_gives_the_row(graphs: int) -> None:
    chance = random.Random(graphs)
    done = sum(proved(build(chance), query) for _ in range(graphs) for query in QUERIES)
    assert done > 20 * graphs


def test_the_companys_own_queries_are_proved(shared: Path) -> None:
    store = Store()
    for name in ("prod-inst.ttl", "prod-vocab.ttl"):
        store.load((shared / "ck25" / name).read_bytes(), format=RdfFormat.TURTLE)
    _, questions = load_set(shared / "ck25" / "questions-odd.yml")
    graph = StoreGraph(store)
    for one in questions:
        query = (one.sparql or "").replace("xsd:int(", "xsd:integer(")
        result = graph.query(query)
        prover = Prover(graph, parse(query, base=E, only="query"), epoch=None, ends=time.monotonic() + 30)
        for number in range(min(2, len(result.rows))):
            proof = prover.row(result, number)
            alone = Store()
            alone.extend(Quad(*triple, DefaultGraph()) for triple in proof.statements)
            again = StoreGraph(alone).query(query.partition("OFFSET")[0])
            assert not proof.complete or result.rows[number] in again.rows or result.kind == "boolean", one.id


SHOP = Path(__file__).parents[1] / "examples" / "webshop"
PREFIXES = {"shop": "https://webshop.example/ns#", "gt": "https://w3id.org/graphtide/ns#"}


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    folder = tmp_path / "webshop"
    shutil.copytree(SHOP, folder, ignore=shutil.ignore_patterns(".graphtide"))
    with Engine(folder) as opened:
        opened.sync()
        yield opened


def cited(engine: Engine, query: str) -> list[dict[str, set[str]]]:
    """Of each row, the locators behind each cited statement's predicate."""
    store = Store()
    store.extend(engine.store.match())
    graph = StoreGraph(store, prefixes=PREFIXES)
    tree = parse(query, prefixes=PREFIXES, base=E, only="query")
    found = []
    for one in cite(graph, tree, graph.query(query), Names("https://webshop.example/")):
        places: dict[str, set[str]] = {}
        for statement in one.statements:
            name = statement.triple.predicate.value.rpartition("#")[2]
            places.setdefault(name, set()).update(source.locator or source.source for source in statement.sources)
        found.append(places)
    return found


def test_a_citation_leads_to_the_line_that_says_it_and_follows_it(engine: Engine) -> None:
    query = "SELECT ?tier { <https://webshop.example/service/cart> shop:tier ?tier }"
    assert cited(engine, query) == [{"tier": {"services.csv:4"}}]
    path = engine.project.settings.dir / "services.csv"
    lines = path.read_text().splitlines(keepends=True)
    assert "cart,Shopping cart,1," in lines[3]
    path.write_text("".join([*lines[:3], *lines[4:], lines[3]]))
    engine.sync()
    assert cited(engine, query) == [{"tier": {f"services.csv:{len(lines)}"}}]


def test_what_a_rule_derived_is_cited_with_the_rule(engine: Engine) -> None:
    query = "SELECT ?team { ?team gt:owns <https://webshop.example/service/cart> }"
    assert cited(engine, query) == [{"owns": {"rule/owner"}}]


def test_a_count_is_cited_with_every_record_it_counts(engine: Engine) -> None:
    query = "SELECT (COUNT(?s) AS ?n) { ?s a gt:Service ; shop:language 'Go' }"
    [places] = cited(engine, query)
    assert len(places["language"]) == 3
    assert all(one.startswith("services.csv:") for one in places["language"])


def test_a_proof_without_time_says_so_and_a_cross_join_ends(engine: Engine) -> None:
    store = Store()
    store.extend(engine.store.match())
    graph = StoreGraph(store, prefixes=PREFIXES)
    query = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d a gt:Service . ?e a gt:Team }"
    tree = parse(query, prefixes=PREFIXES, base=E, only="query")
    result = graph.query(query)
    [late] = cite(graph, tree, result, Names("https://webshop.example/"), seconds=0.0)
    assert (late.complete, late.statements) == (False, ())
    assert "no time" in late.note
    began = time.monotonic()
    [bounded] = cite(graph, tree, result, Names("https://webshop.example/"))
    assert not bounded.complete
    assert "Only" in bounded.note
    assert time.monotonic() - began < 60
