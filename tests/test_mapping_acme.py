"""The insurer's real tables, mapped, answer its own questions as its own SQL answers them on the same CSV files."""

from __future__ import annotations

import csv
import sqlite3
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from pyoxigraph import RdfFormat, Store

from ontology.facts import Facts
from ontology.vocabulary import Vocabulary
from sources.record import Record
from transforms.mapping import compile_mapping

SETTINGS = Path(__file__).parent / "golden" / "acme" / "graphtide.toml"
PREFIXES = """
PREFIX in: <http://data.world/schema/insurance/>
PREFIX acme: <https://acme.example/ns#>
PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>
"""
LOSS = "?amount acme:ofClaim ?claim ; acme:amount ?value ; a ?kind ."
POLICY = "?claim in:claimNumber ?number ; in:against/in:hasPolicy ?policy . ?policy in:policyNumber ?policyNumber ."
PREMIUM = "?premium a in:Premium ; acme:amount ?paid ; acme:ofPolicy ?policy ."

QUESTIONS = {
    "How many claims do we have?": "SELECT (COUNT(*) AS ?n) { ?c a in:Claim }",
    "How many policies do we have?": "SELECT (COUNT(*) AS ?n) { ?c a in:Policy }",
    "Return all the claims we have by claim number, open date and close date?": (
        "SELECT ?n ?open ?close { ?c in:claimNumber ?n ; in:claimOpenDate ?open ; in:claimCloseDate ?close }"
    ),
    "Return all the policies we have by policy number, effective date and expiration date?": (
        "SELECT ?n ?a ?b { ?c in:policyNumber ?n ; in:policyEffectiveDate ?a ; in:policyExpirationDate ?b }"
    ),
    "Return all the claims by claim number that were closed in 2019": (
        "SELECT ?n { ?c in:claimNumber ?n ; in:claimCloseDate ?d FILTER(?d >= '2019-01-01'^^xsd:date"
        " && ?d <= '2019-12-31'^^xsd:date) }"
    ),
    "Return all the policies and their policy holder by id": (
        "SELECT ?n ?id { ?p in:policyNumber ?n ; in:hasPolicyHolder/in:policyHolderId ?id }"
    ),
    "Return all the policies and the agents that sold them by policy number and agent id": (
        "SELECT ?n ?id { ?p in:policyNumber ?n ; in:soldByAgent/in:agentId ?id }"
    ),
    "What is the premium amount of all policies by policy number?": (
        f"SELECT ?n ?paid {{ ?policy in:policyNumber ?n . {PREMIUM} }}"
    ),
    "How many policies does each policy holder have by policy holder id?": (
        "SELECT ?id (COUNT(?p) AS ?n) { ?p in:hasPolicyHolder/in:policyHolderId ?id } GROUP BY ?id"
    ),
    "How many policies have agents sold by agent id?": (
        "SELECT ?id (COUNT(?p) AS ?n) { ?p in:soldByAgent/in:agentId ?id } GROUP BY ?id"
    ),
    "What are the loss reserve amount of all claims by claim number?": (
        f"SELECT ?n ?value {{ ?claim in:claimNumber ?n . {LOSS} FILTER(?kind = in:LossReserve) }}"
    ),
    "What are the expense payment amount of all claims by claim number?": (
        f"SELECT ?n ?value {{ ?claim in:claimNumber ?n . {LOSS} FILTER(?kind = in:ExpensePayment) }}"
    ),
    "What is the total amount of premiums paid by policy number?": (
        f"SELECT ?n (SUM(?paid) AS ?total) {{ ?policy in:policyNumber ?n . {PREMIUM} }} GROUP BY ?n"
    ),
    "What are all our policies that have a claim associated to them by policy and claim number?": (
        f"SELECT ?policyNumber ?number {{ {POLICY} }}"
    ),
    "What is the total amount of premiums that a policy holder has paid?": (
        f"SELECT ?id (SUM(?paid) AS ?total) {{ ?policy in:hasPolicyHolder/in:policyHolderId ?id . {PREMIUM} }}"
        " GROUP BY ?id"
    ),
    "How many claims have been placed by policy number?": (
        f"SELECT ?policyNumber (COUNT(?claim) AS ?n) {{ {POLICY} }} GROUP BY ?policyNumber"
    ),
    "What is the average policy size which is the the total amount of premium divided by the number of policies?": (
        f"SELECT (SUM(?paid) / COUNT(DISTINCT ?policy) AS ?size) {{ {PREMIUM} }}"
    ),
    "What is the total loss of each claim by claim number where total loss is the sum of loss payment, loss reserve, "
    "expense payment, expense reserve amount?": (
        f"SELECT ?n (SUM(?value) AS ?total) {{ ?claim in:claimNumber ?n . {LOSS} }} GROUP BY ?n"
    ),
    "Return policy holders and the claims they have made and the correspoinding catastrophe": (
        f"SELECT ?id ?policyNumber ?number ?name {{ {POLICY} ?policy in:hasPolicyHolder/in:policyHolderId ?id ."
        " ?claim in:hasCatastrophe/in:catastropheName ?name }"
    ),
}


def tables(shared: Path) -> dict[str, list[dict[str, str]]]:
    found = {}
    for path in sorted((shared / "acme" / "data").glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            found[path.name] = list(csv.DictReader(file))
    return found


@pytest.fixture(scope="module")
def said(shared) -> list[Facts]:
    settings = tomllib.loads(SETTINGS.read_text(encoding="utf-8"))
    rows = tables(shared)
    facts = []
    for name, source in settings["sources"].items():
        mapping = compile_mapping(source["map"], source=name, base=settings["base"], prefixes=settings["prefixes"])
        for line, row in enumerate(rows[source["path"]], start=2):
            facts.append(mapping.facts(Record(name, str(line), row, f"{source['path']}:{line}")))
    return facts


@pytest.fixture(scope="module")
def graph(said) -> Store:
    store = Store()
    lines = {f"{text} .\n" for facts in said for text in facts.statements}
    store.bulk_load("".join(lines).encode(), format=RdfFormat.N_TRIPLES)
    return store


@pytest.fixture(scope="module")
def sql(shared) -> sqlite3.Connection:
    """The CSV files as tables, and nothing else, in SQLite."""
    database = sqlite3.connect(":memory:")
    for name, rows in tables(shared).items():
        columns = list(rows[0])
        quoted = ", ".join(f'"{column}"' for column in columns)
        database.execute(f'CREATE TABLE "{name.removesuffix(".csv")}" ({quoted})')
        marks = ", ".join("?" for _ in columns)
        values = [[row[column] or None for column in columns] for row in rows]
        database.executemany(f'INSERT INTO "{name.removesuffix(".csv")}" VALUES ({marks})', values)
    return database


def gold(shared: Path) -> dict[str, str]:
    """The SQL its authors wrote for each question."""
    store = Store()
    store.load((shared / "acme" / "investigation" / "acme-benchmark.ttl").read_bytes(), format=RdfFormat.TURTLE)
    found = store.query(
        "PREFIX q: <http://models.data.world/benchmarks/QandA#> SELECT ?p ?t"
        " { ?i q:prompt ?p ; q:expects ?e . ?e q:inLanguage q:SQL ; q:queryText ?t }"
    )
    return {" ".join(row["p"].value.split()): row["t"].value for row in found}


def plain(value) -> object:
    text = getattr(value, "value", value)
    try:
        return round(float(text), 6)
    except ValueError:
        return str(text)


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_to_the_graph_is_answered_as_sql_answers_it_from_the_csv_files(shared, graph, sql, question):
    rows = sql.execute(gold(shared)[question]).fetchall()

    answer = graph.query(PREFIXES + QUESTIONS[question])
    found = Counter(tuple(plain(value) for value in row) for row in answer)

    assert found == Counter(tuple(plain(value) for value in row) for row in rows)
    assert found


def test_every_term_of_the_mapping_is_one_the_insurers_ontology_declares(shared, said):
    vocabulary = Vocabulary.load([shared / "acme" / "ontology" / "insurance.ttl"])
    found = [violation for facts in said for violation in vocabulary.check(facts)]

    assert vocabulary.owns("http://data.world/schema/insurance/Claim")
    assert {violation.severity for violation in found} == {"Info"}
    assert all("https://acme.example/ns#" in violation.message for violation in found)
