"""A row is proved when the query, asked of nothing but what was cited for it, gives the row again."""

from __future__ import annotations

import random
import time

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Store, Triple

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
