"""Each command, end to end, in a real folder with real files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from graphtide.cli import cli

WEBSHOP = Path(__file__).resolve().parents[1] / "examples" / "webshop"


def run(folder: Path, *words: str, code: int = 0) -> Result:
    """The command in a folder; its exit code is part of what is checked."""
    command = [words[0], "--dir", str(folder), *words[1:]] if words[0] not in ("up", "writer") else list(words)
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == code, f"{words}: {result.exit_code}\n{result.output}\n{result.stderr}"
    return result


def told(folder: Path, *words: str, code: int = 0) -> Any:
    """What the command says with --json."""
    return json.loads(run(folder, *words, "--json", code=code).stdout)


def rows(folder: Path, query: str) -> list[dict[str, str]]:
    found = told(folder, "query", query)["results"]["bindings"]
    return [{name: term["value"] for name, term in row.items()} for row in found]


@pytest.fixture
def fruit(tmp_path: Path) -> Path:
    folder = tmp_path / "fruit"
    folder.mkdir()
    (folder / "fruit.csv").write_text("name,colour,grams\nplum,blue,30\npear,green,180\n")
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    shutil.copytree(WEBSHOP, folder, ignore=shutil.ignore_patterns(".graphtide"))
    return folder


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loaded") / "shop"
    shutil.copytree(WEBSHOP, folder, ignore=shutil.ignore_patterns(".graphtide"))
    run(folder, "sync")
    return folder


@pytest.fixture
def synced(loaded: Path, tmp_path: Path) -> Path:
    """The web shop, synced."""
    shutil.copytree(loaded, tmp_path / "shop")
    return tmp_path / "shop"


def test_a_folder_of_tables_without_settings_just_works(fruit: Path) -> None:
    result = run(fruit, "sync")
    assert "fruit" in result.stdout and "took fruit.csv: csv" in result.stderr
    table = run(fruit, "query", "SELECT DISTINCT ?c ?g WHERE { ?f ?p 'plum' ; <http://localhost:8000/def/colour> ?c ;"
                               " <http://localhost:8000/def/grams> ?g }").stdout  # fmt: skip
    assert table == "c      g\nblue  30\n"


def test_without_settings_a_deleted_file_takes_its_facts_with_it(fruit: Path) -> None:
    (fruit / "colours.csv").write_text("name\nblue\n")
    run(fruit, "sync")
    (fruit / "fruit.csv").unlink()
    run(fruit, "sync")
    assert not rows(fruit, "SELECT ?s WHERE { ?s ?p 'plum' }") and rows(fruit, "SELECT ?s WHERE { ?s ?p 'blue' }")
    assert [one["name"] for one in told(fruit, "status")["sources"]] == ["ontology", "colours"]
    assert told(fruit, "verify")["clean"] is True
    assert "no such file" in run(fruit, "validate", str(fruit / "fruit.csv"), code=2).stderr


def test_a_file_the_settings_no_longer_name_takes_its_facts_with_it(fruit: Path) -> None:
    settings = fruit / "graphtide.toml"
    settings.write_text('[sources.fruit]\npath = "fruit.csv"\nkey = "name"\n')
    run(fruit, "sync")
    settings.write_text('[sources.fruit]\npath = "missing.csv"\nkey = "name"\n')
    assert "missing.csv: there is no such file" in run(fruit, "sync").stderr
    assert not rows(fruit, "SELECT ?s WHERE { ?s ?p 'plum' }")
    assert told(fruit, "verify")["clean"] is True
    settings.write_text('[sources.fruit]\npath = "fruit.csv"\nkey = "name"\n')
    assert "no such file" not in run(fruit, "sync").stderr
    assert rows(fruit, "SELECT ?s WHERE { ?s ?p 'plum' }")


def test_the_webshop_is_loaded_refused_reported_and_asked(shop: Path) -> None:
    report = {one["source"]: one for one in told(shop, "sync")["sources"]}
    rejected = {name: one["rejected"] for name, one in report.items() if one["rejected"]}
    assert rejected == {"services": 2, "people": 1, "incidents": 1, "deployments": 1}
    for query in sorted((shop / "queries").glob("*.rq")):
        assert told(shop, "query", "-f", str(query))["results"]["bindings"], f"{query.name} finds nothing"
    owners = rows(shop, "SELECT ?t WHERE { ?t gt:owns <https://webshop.example/service/cart> }")
    assert owners == [{"t": "https://webshop.example/team/Checkout"}]
    checks = {one["name"]: one["checks"] for one in told(shop, "status")["sources"]}
    assert "Services have an owner" in {check["label"] for check in checks["services"]}
    status = run(shop, "status").stdout
    assert "services: Values fit their mapping: 1 violation\n" in status
    assert "services.csv:15: reported: No team with this service's team name is known.\n" in status
    assert "shop:email        hana.webshop.example  An e-mail" in run(shop, "validate", code=1).stdout


def test_syncing_again_writes_nothing(synced: Path) -> None:
    before = told(synced, "status")["commit"]
    again = told(synced, "sync")["sources"]
    assert [one["changed"] for one in again] == [0] * len(again)
    assert told(synced, "status")["commit"] == before


def test_changes_lists_the_bulk_load_and_what_came_after(synced: Path) -> None:
    people = synced / "people.csv"
    people.write_text(people.read_text().replace("hana.webshop", "hana@webshop"))
    run(synced, "sync")
    found = told(synced, "changes")["changes"]
    assert "services" in found[0]["sources"] and found[0]["added"] > 300
    assert found[-1]["sources"] == ["people"] and found[-1]["added"] == 4
    assert "people" in run(synced, "changes", "--limit", "1").stdout


def test_verify_is_clean_and_finds_and_mends_a_difference(synced: Path) -> None:
    assert told(synced, "verify")["clean"] is True
    from sparql.log import Change
    from sparql.store import open_store

    said = '<https://webshop.example/x> <https://webshop.example/y> "z"'
    with open_store(synced / ".graphtide", "https://webshop.example/") as store:
        store.commit(Change(added={"": frozenset({said})}))
    assert told(synced, "verify", code=1)["differences"]
    assert told(synced, "verify", "--repair")["repaired"] is True
    assert told(synced, "verify")["clean"] is True
    assert not rows(synced, "SELECT ?s WHERE { ?s ?p ?o FILTER(?o = 'z') }")


def test_validate_names_every_bad_row_and_commits_nothing(shop: Path) -> None:
    found = told(shop, "validate", code=1)
    assert found["violations"] == 5
    assert {one["locator"] for one in found["findings"] if one["severity"] == "Violation"} == {
        "services.csv:16", "services.csv:17", "people.csv:9", "incidents.jsonl:6", "deployments.csv:14"
    }  # fmt: skip
    assert told(shop, "validate", str(shop / "people.csv"), code=1)["records"] == 16
    assert not (shop / ".graphtide" / "store.json").exists()


def test_a_source_that_left_the_settings_is_orphaned_until_forgotten(synced: Path) -> None:
    settings = synced / "graphtide.toml"
    text = settings.read_text()
    start = text.index("[sources.oncall]")
    settings.write_text(text[:start] + text[text.index("[sources.incidents]") :])
    assert "still a source" in run(synced, "forget", "people", code=2).stderr
    status = {one["name"]: one["state"] for one in told(synced, "status")["sources"]}
    assert status["oncall"] == "orphaned" and status["people"] == "ok"
    run(synced, "sync")
    assert rows(synced, "SELECT ?s WHERE { ?s a <https://webshop.example/ns#Shift> }")
    assert told(synced, "forget", "oncall")["gone"] == 7
    assert not rows(synced, "SELECT ?s WHERE { ?s a <https://webshop.example/ns#Shift> }")
    assert told(synced, "verify")["clean"] is True


def test_rename_moves_facts_and_settings(synced: Path) -> None:
    before = rows(synced, "SELECT ?s WHERE { ?s a gt:Person } ORDER BY ?s")
    run(synced, "rename", "people", "staff")
    assert "[sources.staff.map.columns]" in (synced / "graphtide.toml").read_text()
    assert "people" not in {one["name"] for one in told(synced, "status")["sources"]}
    run(synced, "sync")
    assert rows(synced, "SELECT ?s WHERE { ?s a gt:Person } ORDER BY ?s") == before
    records = rows(synced, "SELECT DISTINCT ?g WHERE { GRAPH ?g { ?s a gt:Person } }")
    assert all("/record/staff/" in row["g"] for row in records)
    assert told(synced, "verify")["clean"] is True


@pytest.mark.parametrize("format", ["trig", "nquads", "graphml"])
def test_export_writes_a_file_that_parses(synced: Path, tmp_path: Path, format: str) -> None:
    from pyoxigraph import RdfFormat, parse

    out = tmp_path / "graph.out"
    assert told(synced, "export", "--format", format, "-o", str(out))["bytes"] == out.stat().st_size
    if format == "graphml":
        from defusedxml.ElementTree import parse as parse_xml

        assert parse_xml(out).getroot().tag.endswith("graphml")
    else:
        quads = list(parse(path=str(out), format=RdfFormat.TRIG if format == "trig" else RdfFormat.N_QUADS))
        assert len(quads) > 500 and not any("/system/" in str(quad.graph_name) for quad in quads)


def test_what_is_erased_is_nowhere_in_the_folder(shop: Path) -> None:
    people = shop / "people.csv"
    people.write_text(people.read_text() + "zed,Zedekiah Unforgettable,zed@webshop.example,2024-01-01\n")
    run(shop, "sync")
    people.write_text("\n".join(people.read_text().splitlines()[:-1]) + "\n")
    logs = shop / ".graphtide" / "logs"
    logs.mkdir()
    (logs / "writer.log").write_text(
        "people.csv:18: 'Zedekiah Unforgettable' is new\nzed: changed\nzedoary: changed\nzed@webshop.example\n"
    )
    run(shop, "erase", "people/zed", "--yes")
    run(shop, "sync")
    assert (logs / "writer.log").read_text() == "zedoary: changed\n"
    for path in (shop / ".graphtide").rglob("*"):
        assert not path.is_file() or b"Unforgettable" not in path.read_bytes(), path
    assert "Nothing in the graph" in run(shop, "erase", "people/nobody", "--yes", code=2).stderr


def test_a_backup_is_restored(synced: Path, tmp_path: Path) -> None:
    count = "SELECT (COUNT(*) AS ?n) WHERE { ?s ?p ?o }"
    before = rows(synced, count)
    run(synced, "backup", str(tmp_path / "copy"))
    (synced / "people.csv").write_text("login,name,email,joined\nada,Ada Example,ada@webshop.example,2019-02-01\n")
    run(synced, "sync")
    assert rows(synced, count) != before
    assert "--force" in run(synced, "restore", str(tmp_path / "copy"), code=2).stderr
    run(synced, "restore", str(tmp_path / "copy"), "--force")
    assert rows(synced, count) == before


def test_init_drafts_what_then_syncs_without_a_refusal(fruit: Path) -> None:
    assert set(told(fruit, "init")["written"]) == {
        "graphtide.toml", "ontology/vocabulary.ttl", "ontology/shapes.ttl"
    }  # fmt: skip
    assert "--force" in run(fruit, "init", code=2).stderr
    report = {one["source"]: one for one in told(fruit, "sync")["sources"]}
    assert report["fruit"]["changed"] == 2 and report["fruit"]["rejected"] == 0
    assert told(fruit, "validate")["violations"] == 0


def test_query_writes_csv_json_and_turtle(synced: Path) -> None:
    ask = "SELECT ?l WHERE { <https://webshop.example/team/Finance> rdfs:label ?l }"
    assert run(synced, "query", ask, "--format", "csv").stdout.splitlines() == ["l", "Finance"]
    turtle = run(synced, "query", "CONSTRUCT WHERE { <https://webshop.example/team/Finance> a ?c }").stdout
    assert "gt:Team" in turtle
    assert run(synced, "query", "ASK { ?s a gt:Team }").stdout == "yes\n"
    for text, format in (("ASK {}", "turtle"), ("CONSTRUCT WHERE { ?s ?p ?o }", "csv"), ("SELECT * {}", "turtle")):
        assert "ask for one of" in run(synced, "query", text, "--format", format, code=2).stderr
    error = run(synced, "query", "SELECT WHERE {", code=2)
    assert "Traceback" not in error.stderr and "line 1" in error.stderr.lower()


def test_a_broken_settings_file_is_refused_with_its_line(fruit: Path) -> None:
    (fruit / "graphtide.toml").write_text('[sources.fruit]\npath = "fruit.csv"\nkee = "name"\n')
    error = run(fruit, "sync", code=2).stderr
    assert error.startswith("graphtide.toml:3: ") and "'key'" in error


def test_a_source_that_cannot_be_read_is_held_and_the_others_go_on(synced: Path) -> None:
    (synced / "oncall.json").write_text('{"shifts": [')
    people = synced / "people.csv"
    people.write_text(people.read_text().replace("Ada Example", "Ada Changed"))
    report = {one["source"]: one for one in told(synced, "sync", code=3)["sources"]}
    assert report["oncall"]["held"] == 7 and "oncall.json:1" in report["oncall"]["held_scopes"]["oncall.json"]
    assert report["people"]["changed"] == 1
    assert len(rows(synced, "SELECT ?s WHERE { ?s a <https://webshop.example/ns#Shift> }")) == 7


def test_two_syncs_at_once_do_not_fail_on_the_lock(shop: Path) -> None:
    command = [sys.executable, "-m", "graphtide", "sync", "--dir", str(shop), "--json"]
    done: list[subprocess.CompletedProcess[str]] = []

    def sync() -> None:
        done.append(subprocess.run(command, capture_output=True, text=True))

    threads = [threading.Thread(target=sync) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert [one.returncode for one in done] == [0, 0, 0], [one.stderr for one in done]


def test_output_that_is_no_terminal_is_plain(shop: Path) -> None:
    command = [sys.executable, "-m", "graphtide", "sync", "--dir", str(shop)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    assert done.stdout.splitlines()[0].split() == [
        "source", "read", "changed", "gone", "added", "removed", "rejected", "held", "time"
    ]  # fmt: skip


def test_the_generated_pages_are_as_the_code_says() -> None:
    from graphtide.reference import pages

    docs = WEBSHOP.parents[1] / "docs"
    for name, text in pages().items():
        assert (docs / name).read_text() == text, f"docs/{name} is stale: make docs"


def test_what_is_found_of_records_that_go_with_a_rule_goes_too(shop: Path) -> None:
    run(shop, "sync")
    (shop / "services.csv").unlink()
    settings = shop / "graphtide.toml"
    settings.write_text(settings.read_text().replace('files = ["rules/owner.rq"]', "files = []"))
    run(shop, "sync")
    assert told(shop, "verify")["clean"] is True


def test_without_settings_a_file_that_is_renamed_as_a_source_is_not_said_twice(fruit: Path) -> None:
    run(fruit, "sync")
    (fruit / "sub").mkdir()
    (fruit / "sub" / "fruit.csv").write_text("name\nfig\n")
    run(fruit, "sync")
    (fruit / "fruit.csv").write_text("name,colour,grams\nplum,red,30\n")
    run(fruit, "sync")
    assert not rows(fruit, "SELECT ?s WHERE { ?s ?p 'blue' }") and rows(fruit, "SELECT ?s WHERE { ?s ?p 'fig' }")
    (fruit / ".graphtideignore").write_text("sub/\n")
    run(fruit, "sync")
    assert not rows(fruit, "SELECT ?s WHERE { ?s ?p 'fig' }")
    assert "orphaned" not in run(fruit, "status").stdout
