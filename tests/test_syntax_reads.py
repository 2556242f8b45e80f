"""What a query reads is said exactly enough: nothing else can change its answer."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Store, Triple

from sparql.syntax import Query, loads, parse, reads, services, writes

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
PREDICATES = ["e:p", "e:q", "e:r", RDF + "type", RDF + "first", RDF + "rest", RDF + "reifies"]
GRAPHS = ["e:g", "e:h"]
NODES = ["<e:a>", "<e:b>", "<e:c>"]


def read(query: str) -> tuple[set[str] | None, set[str] | None]:
    found = reads(parse(query))
    return (
        None if found.predicates is None else set(found.predicates),
        None if found.graphs is None else set(found.graphs),
    )


@pytest.mark.parametrize(
    ("pattern", "predicates"),
    [
        ("", set()),
        ("VALUES ?x { 1 } FILTER(?x > 0) BIND(STR(?x) AS ?y)", set()),
        ("?s <e:p> ?o ; <e:q> 1 . ?o a <e:C>", {"e:p", "e:q", RDF + "type"}),
        ("OPTIONAL { ?s <e:p> ?o } MINUS { ?s <e:q> ?o }", {"e:p", "e:q"}),
        ("{ ?s <e:r> 1 } UNION { ?s <e:t> 1 }", {"e:r", "e:t"}),
        ("FILTER(1 < 2 || NOT EXISTS { ?s <e:p> ?o FILTER EXISTS { ?o <e:q> ?z } })", {"e:p", "e:q"}),
        ("{ SELECT (COUNT(*) AS ?n) { ?s <e:p> ?o } HAVING(EXISTS { ?a <e:q> ?b }) }", {"e:p", "e:q"}),
        ("?s (<e:p>|^<e:q>)/<e:r>+ ?o", {"e:p", "e:q", "e:r"}),
        ("?s <e:p> [ <e:q> ( 1 2 ) ]", {"e:p", "e:q", RDF + "first", RDF + "rest"}),
        ("?s <e:p> ( )", {"e:p"}),
        ("?s <e:p> <<( ?a <e:q> ?b )>>", {"e:p"}),
        ("<< ?s <e:p> ?o >> <e:q> ?z", {RDF + "reifies", "e:q"}),
        ("?s <e:p> ?o {| <e:q> 1 |}", {"e:p", "e:q", RDF + "reifies"}),
        ("?s ?p ?o", None),
        ("?s !<e:p> ?o", None),
        ("?s !(<e:p>|^<e:q>) ?o", None),
        # A node stands in a zero-length path with itself when any triple makes it a node of the graph, a constant too.
        ("?s <e:p>* ?o", None),
        ("<e:a> <e:p>* ?o", None),
        ("<e:a> <e:p>? <e:a>", None),
        ("?s (<e:p>|<e:q>*) ?o", None),
        # Here another triple has made it one already.
        ("?s a/<e:p>* <e:C>", {RDF + "type", "e:p"}),
        ("?c <e:p>* <e:C> . ?s a ?c", {RDF + "type", "e:p"}),
        ("?s a ?c OPTIONAL { ?c <e:p>* ?d }", {RDF + "type", "e:p"}),
        ("?s a ?c { ?c <e:p>* ?d } UNION { ?c <e:q>? ?d }", {RDF + "type", "e:p", "e:q"}),
        ("?s a ?c { OPTIONAL { ?c <e:p>* ?d } }", None),
        ("?s a ?c MINUS { ?c <e:p>* ?d }", None),
        ("?s a [] . [] <e:p>* ?d", None),
        ("GRAPH ?g { ?s a ?c } ?c <e:p>* ?d", None),
        # Which graphs there are depends on every quad.
        ("GRAPH ?g { }", None),
        ("GRAPH <e:g> { }", None),
        ("GRAPH ?g { OPTIONAL { ?s <e:p> ?o } }", None),
        ("GRAPH ?g { SELECT (COUNT(*) AS ?n) { ?s <e:p> ?o } }", None),
        ("GRAPH ?g { ?s <e:p> ?o OPTIONAL { ?s <e:q> ?o } }", {"e:p", "e:q"}),
        ("GRAPH ?g { { ?s <e:p> ?o } UNION { ?s <e:q> ?o } }", {"e:p", "e:q"}),
    ],
)
def test_the_predicates_a_pattern_reads(pattern: str, predicates: set[str] | None) -> None:
    assert read(f"SELECT * {{ {pattern} }}")[0] == predicates


@pytest.mark.parametrize(
    ("query", "graphs"),
    [
        ("ASK {}", set()),
        ("ASK { ?s <e:p> ?o }", {""}),
        ("ASK { GRAPH <e:g> { ?s <e:p> ?o } }", {"e:g"}),
        ("ASK { ?s <e:p> ?o GRAPH <e:g> { ?s <e:p> ?o FILTER EXISTS { ?s <e:q> ?o } } }", {"", "e:g"}),
        ("ASK { GRAPH ?g { ?s <e:p> ?o } }", None),
        ("ASK FROM <e:g> { ?s <e:p> ?o }", {"e:g"}),
        ("ASK FROM <e:g> FROM NAMED <e:h> { ?s <e:p> ?o GRAPH ?x { ?s <e:p> ?o } }", {"e:g", "e:h"}),
        ("ASK FROM NAMED <e:h> { ?s <e:p> ?o }", set()),
        ("DESCRIBE <e:a>", {""}),
    ],
)
def test_the_graphs_a_query_reads(query: str, graphs: set[str] | None) -> None:
    assert read(query)[1] == graphs
    assert reads(parse(query)).named == (graphs is None or bool(graphs - {""}))


@pytest.mark.parametrize("call", ["NOW()", "RAND()", "UUID()", "STRUUID()", "BNODE()", "<e:unknown>(1)"])
def test_what_may_answer_otherwise_the_next_time_says_so(call: str) -> None:
    assert reads(parse(f"SELECT (STR({call}) AS ?x) {{}}")).varies
    assert reads(parse(f"SELECT * {{ FILTER EXISTS {{ BIND({call} AS ?x) }} }}")).varies
    assert reads(parse(f"SELECT * {{}} ORDER BY ({call})")).varies
    assert not reads(parse("SELECT (<http://www.w3.org/2001/XMLSchema#int>(1) AS ?x) {}")).varies


def test_the_endpoints_a_query_calls_are_named_and_what_they_read_is_not_ours() -> None:
    query = parse("SELECT * { SERVICE <e:s> { ?s <e:p> ?o } OPTIONAL { SERVICE SILENT ?where { ?s <e:q> ?o } } }")
    found = reads(query)
    assert (found.services, found.predicates, found.varies) == (("e:s", "?where"), frozenset(), True)
    assert [one.silent for one in services(query)] == [False, True]


def test_what_an_update_loads_and_writes_is_known_before_it_runs() -> None:
    update = parse("LOAD SILENT <e:x> INTO GRAPH <e:g> ; LOAD <e:y> ; MOVE <e:h> TO DEFAULT")
    assert [(one.source.value, one.silent) for one in loads(update)] == [("e:x", True), ("e:y", False)]
    assert writes(update) == {"e:g", "", "e:h"}
    assert writes(parse("WITH <e:g> DELETE { ?s ?p ?o } INSERT { GRAPH <e:h> { ?s ?p ?o } } WHERE { ?s ?p ?o }")) == {
        "e:g",
        "e:h",
    }
    assert writes(parse("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }")) is None
    assert writes(parse("CLEAR NAMED")) is None
    assert reads(parse("WITH <e:g> INSERT {} WHERE { ?s <e:p> ?o }")).graphs == {"e:g"}


# --- The promise, on random graphs, queries and changes ---------------------------------------------------------


def any_path(r: random.Random, depth: int = 2) -> str:
    one = r.choice(["<e:p>", "<e:q>", "a", "<e:r>"])
    if depth == 0 or r.random() < 0.35:
        return one
    inner = any_path(r, depth - 1)
    return r.choice(
        [
            f"({inner})*",
            f"({inner})?",
            f"({inner})+",
            f"^({inner})",
            f"({inner}/{any_path(r, depth - 1)})",
            f"({inner}|{any_path(r, depth - 1)})",
            f"!({r.choice(['', '^'])}{one})",
        ]
    )


def any_node(r: random.Random) -> str:
    return r.choice(["?x", "?x", "?y", "?y", "?z", *NODES, "[]"])


def any_triple(r: random.Random) -> str:
    subject, thing = any_node(r), any_node(r)
    kind = r.random()
    if kind < 0.4:
        return f"{subject} {r.choice(['<e:p>', '<e:q>', 'a', '<e:r>'])} {thing} ."
    if kind < 0.8:
        return f"{subject} {any_path(r)} {thing} ."
    return r.choice(
        [
            f"{subject} ?p {thing} .",
            f"{subject} <e:p> {thing} ; <e:q> {any_node(r)} .",
            f"{subject} <e:p> [ <e:q> {thing} ] .",
            f"{subject} <e:p> ( {thing} ) .",
            f"<< ?x <e:p> {r.choice(NODES)} >> <e:q> {thing} .",
            f"?x <e:p> ?y {{| <e:q> {thing} |}} .",
            "?s <e:q> <<( ?x <e:p> ?y )>> .",
        ]
    )


def any_group(r: random.Random, depth: int) -> str:
    parts = []
    for _ in range(r.choice([0, 1, 1, 2, 2, 3])):
        kind = r.random()
        if depth == 0 or kind < 0.45:
            parts.append(any_triple(r))
            continue
        inner = any_group(r, depth - 1)
        parts.append(
            r.choice(
                [
                    f"OPTIONAL {inner}",
                    f"OPTIONAL {inner}",
                    f"MINUS {inner}",
                    f"{inner} UNION {any_group(r, depth - 1)}",
                    inner,
                    f"GRAPH ?g {inner}",
                    f"GRAPH <{r.choice(GRAPHS)}> {inner}",
                    f"FILTER {r.choice(['', 'NOT '])}EXISTS {inner}",
                    f"{{ SELECT {r.choice(['*', '?x', 'DISTINCT ?y'])} {inner} }}",
                    f"{{ SELECT (COUNT(*) AS ?n{r.randrange(1000)}) {inner} }}",
                    f"{{ SELECT ?x (COUNT(?y) AS ?n{r.randrange(1000)}) {inner} GROUP BY ?x }}",
                    f"FILTER(?x = {r.choice(NODES)})",
                    f"FILTER(!BOUND(?{r.choice('xyz')}))",
                    f"VALUES ?x {{ {r.choice(NODES)} }}",
                    f"VALUES ?z {{ {r.choice(NODES)} UNDEF }}",
                ]
            )
        )
    return "{ " + " ".join(parts) + " }"


def any_query(r: random.Random) -> str:
    sources = r.choice(["", "", "", "FROM <e:g> ", "FROM NAMED <e:h> ", "FROM <e:g> FROM NAMED <e:h> "])
    group = any_group(r, 3)
    return r.choice(
        [
            f"SELECT * {sources}{group}",
            f"SELECT DISTINCT ?x ?y {sources}{group}",
            f"ASK {sources}{group}",
            f"SELECT (COUNT(*) AS ?n) {sources}{group}",
            f"SELECT ?x (EXISTS {any_group(r, 1)} AS ?e) {sources}{group}",
            f"CONSTRUCT {{ ?x <e:made> ?y }} {sources}WHERE {group}",
            f"DESCRIBE ?x {sources}{group}",
        ]
    )


def any_quad(r: random.Random, predicate: str, graph: str) -> Quad:
    nodes = [NamedNode(one[1:-1]) for one in NODES]
    others = [Literal("1"), BlankNode("b"), Triple(nodes[0], NamedNode("e:p"), nodes[1])]
    thing = r.choice(others if r.random() < 0.2 else nodes)
    where = NamedNode(graph) if graph else DefaultGraph()
    return Quad(r.choice(nodes), NamedNode(predicate), thing, where)


def answer(store: Store, query: str) -> object:
    found = store.query(query)
    if hasattr(found, "variables"):
        return sorted(tuple(map(str, row)) for row in found)  # type: ignore[call-overload]
    if isinstance(found, bool) or not hasattr(found, "__iter__"):
        return bool(found)
    return sorted({str(triple) for triple in found})


def check(seed: int) -> bool:
    """Whether the promise was put to the test: a commit that changes nothing the query reads changes no answer."""
    r = random.Random(seed)
    query = any_query(r)
    tree = parse(query)
    assert isinstance(tree, Query)
    found = reads(tree)
    places = [(predicate, graph) for predicate in PREDICATES for graph in ("", *GRAPHS)]
    others = [
        (predicate, graph)
        for predicate, graph in places
        if (found.predicates is not None and predicate not in found.predicates)
        or (found.graphs is not None and graph not in found.graphs)
    ]
    if not others:
        return False
    store = Store()
    store.extend(any_quad(r, *r.choice(places)) for _ in range(r.randrange(8)))
    before = answer(store, query)
    held = [quad for quad in store if any(_stands(quad, *other) for other in others)]
    for quad in r.sample(held, r.randint(0, len(held))):
        store.remove(quad)
    store.extend(any_quad(r, *r.choice(others)) for _ in range(r.randint(1, 5)))
    after = answer(store, query)
    assert after == before, f"seed {seed}: {query}"
    return True


def _stands(quad: Quad, predicate: str, graph: str) -> bool:
    own = quad.graph_name.value if isinstance(quad.graph_name, NamedNode) else ""
    return quad.predicate.value == predicate and own == graph


@settings(max_examples=400)
@given(st.integers(0, 2**64))
def test_a_commit_that_changes_nothing_a_query_reads_changes_no_answer(seed: int) -> None:
    check(seed)


@pytest.mark.soak
def test_fifty_thousand_queries_keep_their_answers() -> None:
    assert sum(check(seed) for seed in range(50_000)) > 10_000
