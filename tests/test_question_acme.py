"""The insurer's own SPARQL on the graph of its tables says what its own SQL says of the tables, whatever is edited."""

from __future__ import annotations

import csv
import random
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import RdfFormat, Store

from graphtide.engine import Engine
from sparql.syntax import parse, text
from sparql.syntax.tree import Service

GOLDEN = Path(__file__).parent / "golden" / "acme"
PROMPTS = (
    "PREFIX q: <http://models.data.world/benchmarks/QandA#> SELECT ?i ?p ?l ?t"
    " { ?i q:prompt ?p ; q:expects ?e . ?e q:inLanguage ?l ; q:queryText ?t } ORDER BY ?i ?p ?l ?t"
)
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "fn": "http://www.w3.org/2005/xpath-functions#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "in": "http://data.world/schema/insurance/",
    "": "https://acme.example/",
}
DIFFERENT = {
    "What is the average time to settle a claim by policy number?": "asks for days with a function of one vendor's",
    "Return all the claims by claim number that were closed in 2019": "compares a date with a string",
}
"""The prompts whose SPARQL is no standard SPARQL, each with what is not."""
KEYS = {"Claim.csv": "Claim_Identifier", "Claim_Amount.csv": "Claim_Amount_Identifier",
        "Policy_Amount.csv": "Policy_Amount_Identifier", "Policy.csv": "Policy_Identifier"}  # fmt: skip


def prompts(shared: Path) -> dict[str, tuple[str, str]]:
    """(SPARQL, SQL) of every prompt; some say in two ways what is asked."""
    store = Store()
    store.load((shared / "acme" / "investigation" / "acme-benchmark.ttl").read_bytes(), format=RdfFormat.TURTLE)
    found: dict[str, dict[str, str]] = {}
    for row in store.query(PROMPTS):
        language = row["l"].value.rpartition("#")[2]
        found.setdefault(row["p"].value, {})[language] = row["t"].value
    return {prompt: (both["SPARQL"], both["SQL"]) for prompt, both in found.items()}


def without_service(node: Any) -> Any:
    """The tree with each SERVICE put as its own group."""
    if isinstance(node, Service):
        return without_service(node.group)
    if isinstance(node, tuple):
        return tuple(map(without_service, node))
    if is_dataclass(node):
        return replace(node, **{one.name: without_service(getattr(node, one.name)) for one in fields(node)})
    return node


def sql(folder: Path) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    for path in sorted(folder.glob("*.csv")):
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            columns = list(dict.fromkeys(reader.fieldnames or ()))
            # Decimals in the insurer's own database: as integers, SQLite would divide them as integers.
            named = ", ".join(f'"{one}"' + (" REAL" if one.endswith("_Amount") else "") for one in columns)
            database.execute(f'CREATE TABLE "{path.stem}" ({named})')
            marks = ", ".join("?" for _ in columns)
            rows = [[row[one] or None for one in columns] for row in reader]
            database.executemany(f'INSERT INTO "{path.stem}" VALUES ({marks})', rows)
    return database


def plain(value: object) -> object:
    content = getattr(value, "value", value)
    try:
        return round(float(content), 6)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None if content is None else str(content)


def counted(rows: Any) -> Counter[tuple[object, ...]]:
    return Counter(tuple(plain(value) for value in row) for row in rows)


@pytest.fixture
def folder(shared: Path, tmp_path: Path) -> Path:
    for table in (shared / "acme" / "data").glob("*.csv"):
        shutil.copyfile(table, tmp_path / table.name)
    shutil.copy(GOLDEN / "graphtide.toml", tmp_path)
    shutil.copytree(GOLDEN / "rules", tmp_path / "rules")
    return tmp_path


def differing(engine: Engine, folder: Path, asked: dict[str, tuple[str, str]]) -> Iterator[str]:
    """The prompts whose two answers are not the same."""
    database = sql(folder)
    for prompt, (query, statement) in asked.items():
        tree = without_service(parse(query, prefixes=PREFIXES, base="https://acme.example/"))
        try:
            found = counted(engine.store.query(text(tree)))
            if found != counted(database.execute(statement).fetchall()):
                yield prompt
        except (sqlite3.OperationalError, SyntaxError, RuntimeError):
            yield prompt


def test_every_prompt_but_two_is_answered_as_sql_answers_it(shared, folder):
    asked = prompts(shared)
    with Engine(folder) as engine:
        engine.sync()
        different = set(differing(engine, folder, asked))
    assert different == set(DIFFERENT)


def edit(folder: Path, chance: random.Random) -> None:
    """One row of one table is changed, taken out, or added."""
    name = chance.choice(sorted(KEYS))
    with (folder / name).open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        columns, rows = list(reader.fieldnames or ()), list(reader)
    done = chance.random()
    row = dict(chance.choice(rows))
    if done < 0.15 and len(rows) > 2:
        rows.remove(row)
    else:
        new = done < 0.3
        at = rows.index(row)
        if new:
            row[KEYS[name]] = str(1000 + chance.randrange(10**6))
        for column in ("Claim_Amount", "Policy_Amount"):
            if column in row:
                row[column] = str(chance.randrange(1, 100_000))
        # A number is one claim's or one policy's: SQL counts numbers where SPARQL counts things.
        if "Company_Claim_Number" in row:
            row["Company_Claim_Number"] = str(12_312_000 + chance.randrange(10**9))
            row["Claim_Close_Date"] = f"20{chance.randrange(18, 22)}-0{chance.randrange(1, 10)}-1{chance.randrange(10)}"
            row["Catastrophe_Identifier"] = chance.choice(rows)["Catastrophe_Identifier"]
        if "Policy_Number" in row:
            row["Policy_Number"] = str(31_003_000_000 + chance.randrange(10**9))
        rows[at : at if new else at + 1] = [row]
    with (folder / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(rows)


@pytest.mark.parametrize("edits", [10, pytest.param(200, marks=pytest.mark.soak)])
def test_the_answers_stay_equal_through_edits_of_rows(shared, folder, edits):
    asked = {prompt: both for prompt, both in prompts(shared).items() if prompt not in DIFFERENT}
    chance = random.Random(edits)
    with Engine(folder) as engine:
        engine.sync()
        for done in range(edits):
            edit(folder, chance)
            engine.sync()
            assert list(differing(engine, folder, asked)) == [], f"after edit {done + 1}"
