"""Real public data, through the whole of it: files, mapping, store, query."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

from pyoxigraph import DefaultGraph, RdfFormat, parse

from graphtide.engine import Engine
from ontology.facts import statement

ACME = """base = "https://acme.example/"
[prefixes]
in = "https://acme.example/ns#"
[sources.policies]
path = "Policy.csv"
key = "Policy_Identifier"
[sources.policies.map]
class = "in:Policy"
iri = "policy/{Policy_Identifier}"
columns = { Policy_Number = "in:policyNumber", Expiration_Date = { property = "in:expires", datatype = "xsd:date" } }
[sources.claims]
path = "Claim.csv"
key = "Claim_Identifier"
[sources.claims.map]
class = "in:Claim"
iri = "claim/{Claim_Identifier}"
[sources.claims.map.columns]
Company_Claim_Number = "in:claimNumber"
Claim_Open_Date = { property = "in:opened", datatype = "xsd:date" }
Claim_Close_Date = { property = "in:closed", datatype = "xsd:date" }
Catastrophe_Identifier = { property = "in:catastrophe", link = "catastrophe/{Catastrophe_Identifier}" }
[sources.catastrophes]
path = "Catastrophe.csv"
key = "Catastrophe_Identifier"
[sources.catastrophes.map]
class = "in:Catastrophe"
iri = "catastrophe/{Catastrophe_Identifier}"
columns = { Catastrophe_Name = "rdfs:label" }
"""
IN = "PREFIX in: <https://acme.example/ns#> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "


def test_every_acme_table_loads_as_it_is(shared: Path, tmp_path: Path) -> None:
    for table in (shared / "acme" / "data").glob("*.csv"):
        shutil.copy(table, tmp_path)
    with Engine(tmp_path) as engine:
        reports = {one.source: one for one in engine.sync()}
        assert len(reports) == 30 and all(one.rejected == 0 and not one.held_scopes for one in reports.values())
        for table in tmp_path.glob("*.csv"):
            with table.open(newline="") as file:
                assert reports[table.stem].changed == sum(1 for _ in csv.DictReader(file)), table.name
        assert engine.verify().clean


def test_acme_with_a_mapping_answers_as_its_tables_do(shared: Path, tmp_path: Path) -> None:
    data = shared / "acme" / "data"
    for name in ("Policy.csv", "Claim.csv", "Catastrophe.csv"):
        shutil.copy(data / name, tmp_path)
    (tmp_path / "graphtide.toml").write_text(ACME)

    def table(name: str) -> list[dict[str, str]]:
        with (tmp_path / name).open(newline="", encoding="utf-8-sig") as file:
            return list(csv.DictReader(file))

    with Engine(tmp_path) as engine:
        engine.sync()

        def asked(query: str) -> set[tuple[str, ...]]:
            return {tuple(term.value for term in row) for row in engine.store.query(IN + query)}

        names = {row["Catastrophe_Identifier"]: row["Catastrophe_Name"] for row in table("Catastrophe.csv")}
        claims = table("Claim.csv")
        assert asked("SELECT ?n { ?p a in:Policy ; in:policyNumber ?n }") == {
            (row["Policy_Number"],) for row in table("Policy.csv")
        }
        assert asked("SELECT ?n ?c { ?x a in:Claim ; in:claimNumber ?n ; in:catastrophe/rdfs:label ?c }") == {
            (row["Company_Claim_Number"], names[row["Catastrophe_Identifier"]])
            for row in claims
            if names.get(row["Catastrophe_Identifier"])
        }
        assert asked("SELECT ?n { ?x in:claimNumber ?n FILTER NOT EXISTS { ?x in:closed ?d } }") == {
            (row["Company_Claim_Number"],) for row in claims if not row["Claim_Close_Date"]
        }


def test_ck25_loads_as_it_is(shared: Path, tmp_path: Path) -> None:
    for name in ("prod-inst.ttl", "prod-vocab.ttl"):
        shutil.copy(shared / "ck25" / name, tmp_path)
    with Engine(tmp_path) as engine:
        engine.sync()
        there = {str(quad.triple) for quad in engine.store.match(None, None, None, DefaultGraph())}
        for name in ("prod-inst.ttl", "prod-vocab.ttl"):
            said = [quad.triple for quad in parse(path=str(tmp_path / name), format=RdfFormat.TURTLE)]
            ground = [statement(triple) for triple in said if "_:" not in str(triple)]
            assert len(ground) > 100 and not [one for one in ground if one not in there]
        assert engine.verify().clean
