"""Rules: what a query reads and writes, in which order rules run, and what they may not do."""

from __future__ import annotations

import pytest

from ontology.facts import RDF
from transforms.rules import Rule, RuleCycle, RuleError, layered, load_rq, python_rule

E = "http://example.org/"


def rq(name: str, template: str, body: str) -> Rule:
    return load_rq(name, f"PREFIX e: <{E}> CONSTRUCT {{ {template} }} WHERE {{ {body} }}")


def test_a_query_says_what_it_reads_and_writes() -> None:
    rule = rq("r", "?a e:owns ?b . ?b a e:Owned", "?b e:team ?n . ?a a e:Team ; e:label ?n FILTER(?n != 'x')")
    assert rule.reads == {f"{E}team", f"{E}label", f"{RDF}type {E}Team"}
    assert rule.writes == {f"{E}owns", f"{RDF}type {E}Owned"}
    assert rule.stepwise


@pytest.mark.parametrize(
    "body",
    [
        "?a e:p ?b OPTIONAL { ?b e:q ?c }",
        "?a e:p ?b MINUS { ?b e:q ?c }",
        "?a e:p ?b FILTER NOT EXISTS { ?b e:q ?c }",
        "?a e:p+ ?b",
        "{ SELECT ?a (COUNT(?x) AS ?b) { ?a e:p ?x } GROUP BY ?a }",
        "?a e:p ?b VALUES ?b { e:x }",
    ],
)
def test_a_body_that_is_not_plain_is_derived_whole(body: str) -> None:
    assert not rq("r", "?a e:r ?b", body).stepwise


def test_rules_run_after_those_whose_facts_they_read() -> None:
    one = rq("z", "?a e:q ?b", "?a e:p ?b")
    two = rq("a", "?a e:r ?b", "?a e:q ?b")
    three = Rule("0", frozenset([f"{E}r"]), lambda graph: ())
    assert [rule.name for rule in layered([three, two, one])] == ["z", "a", "0"]


def test_a_cycle_of_rules_is_refused_naming_them() -> None:
    one = rq("one", "?a e:q ?b", "?a e:p ?b")
    two = rq("two", "?a e:p ?b", "?a e:q ?b")
    with pytest.raises(RuleCycle, match="one -> two -> one|two -> one -> two"):
        layered([one, two])


def test_a_class_derived_from_another_class_is_no_cycle() -> None:
    rule = rq("r", "?a a e:Big", "?a a e:Thing")
    assert layered([rule]) == (rule,)
    with pytest.raises(RuleCycle):
        layered([rq("r", "?a a e:Big", "?a a ?kind")])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT * { ?s ?p ?o }", "not a CONSTRUCT"),
        ("CONSTRUCT { ?s ?p }", "not SPARQL"),
        ("CONSTRUCT { [] <e:p> ?o } WHERE { ?s <e:q> ?o }", "blank nodes"),
        ("CONSTRUCT { ?s <e:p> ?o } WHERE { GRAPH ?g { ?s <e:q> ?o } }", "GRAPH"),
        ("CONSTRUCT { ?s <e:p> ?o } WHERE { ?s <e:q> ?x BIND(RAND() AS ?o) }", "RAND"),
        ("CONSTRUCT { ?s <e:p> ?o } WHERE { ?s <e:q> ?o } LIMIT 1", "LIMIT"),
    ],
)
def test_what_a_rule_may_not_do_is_said_with_its_name(text: str, why: str) -> None:
    with pytest.raises(RuleError, match=why) as wrong:
        load_rq("owner", text)
    assert "'owner'" in str(wrong.value)


def test_python_that_is_no_rule_is_refused() -> None:
    with pytest.raises(RuleError, match="reads"):
        python_rule("r", lambda graph: (), version="1")
    found = python_rule("r", Rule("mine", frozenset([f"{E}p"]), lambda graph: ()), version="1")
    assert found.name == "mine" and found.version != python_rule("r", found, version="2").version
