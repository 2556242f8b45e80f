"""What a query names is there, what it says the graph says too, and it only reads: or it is told what there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyoxigraph import NamedNode, Store

from sparql.question.check import ERROR, ROWS, WARNING, check, limited
from sparql.question.emptying import emptying
from sparql.question.graph import StoreGraph
from sparql.syntax import parse
from tests.profiled import profile

DATA = """
PREFIX : <http://a/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
PREFIX sh: <http://www.w3.org/ns/shacl#> PREFIX owl: <http://www.w3.org/2002/07/owl#>
INSERT DATA {
  :Service a owl:Class ; rdfs:label "service" . :Team a owl:Class ; rdfs:label "team" .
  :cart a :Service ; :tier 1 ; :name "Cart"@en ; :state "up" ; :since "2020-01-01"^^xsd:date .
  :pay a :Service ; :tier 2 ; :name "Pay"@en ; :state "down" ; :since "2021-01-01"^^xsd:date .
  :web a :Team ; :owns :cart, :pay ; :channel "#web" .
  :shape a sh:NodeShape ; sh:targetClass :Service ; sh:property :state-shape .
  :state-shape sh:path :state ; sh:in ( "up" "down" "gone" ) .
}
"""
P = (
    "PREFIX : <http://a/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>"
    " PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
)


@pytest.fixture(scope="module")
def graph() -> StoreGraph:
    store = Store()
    store.update(DATA)
    return StoreGraph(store)


@pytest.fixture(scope="module")
def checked(graph):
    schema = profile(graph)

    def known(iri: str) -> bool:
        return next(graph.store.quads_for_pattern(NamedNode(iri), None, None), None) is not None

    return lambda text: check(P + text, schema, known=known, forbidden=("http://a/system/",))


@pytest.mark.parametrize(
    ("query", "severity", "code", "nearest"),
    [
        ("SELECT ?s { ?s a :Service ; :teir 1 }", ERROR, "unknown-property", "<http://a/tier>"),
        ("SELECT ?s { ?s a :Servis }", ERROR, "unknown-class", "<http://a/Service>"),
        ("SELECT ?s { :basket :tier ?s }", ERROR, "unknown-thing", None),
        ("SELECT ?s { ?s a :Service ; :state 'upp' }", ERROR, "not-in", '"up"'),
        ("SELECT ?s { ?s a :Service ; :owns ?t }", WARNING, "direction", "^<http://a/owns>"),
        ("SELECT ?s { ?s a :Service . ?t a :Team . ?s :owns ?t }", WARNING, "direction", "^<http://a/owns>"),
        ("SELECT ?s { ?s a :Team ; :tier ?t }", WARNING, "not-of-class", None),
        ("SELECT ?s { ?s a :Service ; :tier '1' }", WARNING, "datatype", None),
        ("SELECT ?s { ?s :since '2020-01-01' }", WARNING, "datatype", None),
        ("SELECT ?s { ?s :name 'Cart' }", WARNING, "language", '"Cart"@en'),
        ("SELECT ?s { ?t :owns 'cart' }", WARNING, "thing-range", None),
        ("SELECT ?s { ?s ?p ?o } ; DROP ALL", ERROR, "syntax", None),
        ("DELETE WHERE { ?s ?p ?o }", ERROR, "writes", None),
        ("# SELECT\nDROP ALL", ERROR, "writes", None),
        ("SELECT ?s { SERVICE <http://b/> { ?s ?p ?o } }", ERROR, "calls-out", None),
        ("SELECT ?s { { SELECT ?s { ?s :tier ?t FILTER EXISTS { SERVICE ?t { ?s ?p ?o } } } } }", ERROR, "calls-out",
         None),
        ("SELECT ?s FROM <http://a/g> { ?s ?p ?o }", ERROR, "dataset", None),
        ("SELECT ?s { GRAPH <http://a/system/journal> { ?s ?p ?o } }", ERROR, "system-graph", None),
        ("SELECT ?s { \\u0053ERVICE <http://b/> { ?s ?p ?o } }", ERROR, "syntax", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_what_there_is_instead(checked, query, severity, code, nearest):
    found = checked(query)
    mine = [one for one in found.findings if one.code == code]
    assert mine, found
    assert mine[0].severity == severity
    assert (found.sparql is None) == (severity == ERROR)
    assert mine[0].message.endswith((".", "language.", "]"))
    if nearest is not None:
        assert nearest in mine[0].nearest


@pytest.mark.parametrize("query", [
    "SELECT ?s { ?s a :Service ; :tier 1 ; :state 'up' ; :name 'Cart'@en }",
    "SELECT ?s ?n { ?t a :Team ; :owns ?s ; :channel ?c . OPTIONAL { ?s rdfs:label ?n } }",
    "ASK { :web :owns :cart }", "SELECT (COUNT(*) AS ?n) { ?s :since '2020-01-01'^^xsd:date }",
    "SELECT ?s { ?s ^:owns :web }", "SELECT ?s { ?s :tier ?t FILTER(xsd:integer(?t) > 1) }", "SELECT * { ?s ?p ?o }",
])  # fmt: skip
def test_a_query_that_speaks_as_the_graph_does_has_no_findings(checked, query):
    found = checked(query)
    assert found.findings == ()
    assert found.sparql is not None


@given(st.one_of(st.none(), st.integers(0, 5_000)), st.integers(1, 3_000))
def test_a_limit_is_imposed_and_a_smaller_one_stays(own, most):
    query = "SELECT ?s { ?s ?p ?o { SELECT ?s { ?s ?p ?o } LIMIT 9 } }" + (f" LIMIT {own}" if own is not None else "")
    tree = limited(parse(query, base="http://a/", only="query"), most)
    assert tree.modifiers.limit == (most if own is None else min(own, most))
    assert limited(parse("ASK {}", base="http://a/", only="query"), 5).modifiers.limit is None


def test_the_limit_is_in_the_text_that_runs(checked):
    assert f"LIMIT {ROWS}" in checked("SELECT ?s { ?s :tier 1 }").sparql


@pytest.mark.parametrize(
    ("query", "patterns"),
    [
        ("SELECT ?s { ?s a :Service ; :tier 1 ; :state 'down' }", [":tier 1", ":state 'down'"]),
        ("SELECT ?s { ?s a :Service ; :tier 9 }", [":tier 9"]),
        ("SELECT ?s { ?t :owns ?s . ?s :tier ?n FILTER(?n > 5) OPTIONAL { ?s :name ?x } }", [":tier ?n", "?n > 5"]),
        ("SELECT ?s { ?s a :Service ; :tier 1 }", None),
    ],
)
def test_an_empty_answer_has_the_fewest_patterns_for_its_reason(graph, query, patterns):
    found = emptying(graph, parse(P + query, base="http://a/", only="query"))
    if patterns is None:
        assert found == ()
        return
    assert len(found) == len(patterns)
    for part in patterns:
        wanted = part.replace(":tier", "<http://a/tier>").replace(":state", "<http://a/state>").replace("'", '"')
        assert any(wanted in one for one in found), found


def test_what_takes_too_long_has_no_reason(graph):
    query = parse(P + "SELECT ?s { ?s :tier 9 }", base="http://a/", only="query")
    assert emptying(graph, query, seconds=0.0) == ()
