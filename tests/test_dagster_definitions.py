"""A folder becomes Dagster assets and checks whose runs ask the one writer, or are it when there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project.definitions import definitions
from dagster_project.home import prepare
from graphtide.engine import Engine

TOML = """\
base = "https://shop.example/"
[prefixes]
shop = "https://shop.example/ns#"
[ontology]
shapes = ["shapes.ttl"]
[rules]
files = ["named.rq"]
[sources.services]
path = "services.csv"
key = "name"
[sources.services.map]
class = "shop:Service"
iri = "service/{name}"
[sources.services.map.columns]
name = "rdfs:label"
tier = { property = "shop:tier", datatype = "xsd:integer" }
[sources.people]
path = "people.csv"
key = "login"
[sources.people.map]
class = "gt:Person"
iri = "person/{login}"
[sources.people.map.columns]
login = "rdfs:label"
"""
SHAPES = """\
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix shop: <https://shop.example/ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
shop:TierShape a sh:NodeShape ; rdfs:label "Tiers are 1 to 3" ; sh:targetClass shop:Service ;
  sh:property [ sh:path shop:tier ; sh:in ( 1 2 3 ) ; sh:message "A tier is 1, 2 or 3." ] .
"""
RULE = """\
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX shop: <https://shop.example/ns#>
CONSTRUCT { ?service shop:named ?name } WHERE { ?service a shop:Service ; rdfs:label ?name }
"""
GOOD = "name,tier\ncart,1\npay,2\n"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    for name, text in (
        ("graphtide.toml", TOML),
        ("shapes.ttl", SHAPES),
        ("named.rq", RULE),
        ("services.csv", GOOD),
        ("people.csv", "login\nann\n"),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.from_config(str(prepare(tmp_path_factory.mktemp("home")))) as made:
        yield made


def run(shop: Path, instance: dg.DagsterInstance, *assets: str) -> dg.ExecuteInProcessResult:
    job = definitions(shop).resolve_job_def("graphtide_sync")
    keys = [dg.AssetKey(["services", stage]) for stage in ("records", "facts", "graph")] if assets else None
    return job.execute_in_process(instance=instance, asset_selection=keys)


def shown(ran: dg.ExecuteInProcessResult, *path: str) -> dict[str, Any]:
    for event in ran.get_asset_materialization_events():
        if event.asset_key == dg.AssetKey(path):
            return {name: value.value for name, value in event.materialization.metadata.items()}
    raise AssertionError(f"{path} was not materialised")


def check(ran: dg.ExecuteInProcessResult, name: str, source: str = "services") -> dg.AssetCheckEvaluation:
    return next(
        one for one in ran.get_asset_check_evaluations() if one.check_name == name and one.asset_key.path[0] == source
    )


def test_a_source_is_records_facts_and_graph_made_by_one_op(shop: Path) -> None:
    found = definitions(shop)
    graph = found.resolve_asset_graph()
    key = dg.AssetKey
    assert {one.to_user_string() for one in graph.get_all_asset_keys()} == {
        *(
            f"{source}/{stage}"
            for source in ("ontology", "services", "people")
            for stage in ("records", "facts", "graph")
        ),
        "rules/named",
        "graph",
    }
    assert graph.get(key(["services", "graph"])).parent_keys == {key(["services", "facts"])}
    assert graph.get(key(["services", "facts"])).parent_keys == {key(["services", "records"])}
    assert key(["services", "graph"]) in graph.get(key("graph")).parent_keys
    assert key(["rules", "named"]) in graph.get(key("graph")).parent_keys
    one = found.resolve_assets_def(key(["services", "graph"]))
    assert len(one.keys) == 3 and not one.can_subset
    assert {output.dagster_type.display_name for output in one.op.output_defs if output.name.endswith("s")} >= {
        "Nothing"
    }


def test_a_shape_is_a_check_of_the_sources_it_is_about(shop: Path) -> None:
    found = definitions(shop).resolve_asset_graph()
    names = {(one.asset_key.path[0], one.name) for one in found.asset_check_keys}
    assert ("services", "TierShape") in names and ("people", "TierShape") not in names
    assert {("services", "source_healthy"), ("services", "well_formed"), ("people", "NamedShape")} <= names


def test_the_code_version_changes_with_the_mapping(shop: Path) -> None:
    key = dg.AssetKey(["services", "facts"])
    before = definitions(shop).resolve_asset_graph().get(key).code_version
    assert definitions(shop).resolve_asset_graph().get(key).code_version == before
    (shop / "graphtide.toml").write_text(TOML.replace("shop:tier", "shop:level"))
    assert definitions(shop).resolve_asset_graph().get(key).code_version != before


def test_a_run_syncs_every_source_and_shows_what_it_did(shop: Path, instance: dg.DagsterInstance) -> None:
    ran = run(shop, instance)
    assert ran.success
    assert shown(ran, "services", "records")["read"] == 2
    assert shown(ran, "services", "records")["sample"].records[0].data["name"] == "cart"
    assert "https://shop.example/service/cart" in shown(ran, "services", "facts")["sample"]
    assert shown(ran, "services", "graph")["added"] == 6
    assert shown(ran, "services", "graph")["query"].startswith("http://127.0.0.1:8000/#SELECT%20")
    assert shown(ran, "graph")["records"] >= 3
    assert all(one.passed for one in ran.get_asset_check_evaluations())
    version = instance.get_latest_materialization_event(dg.AssetKey(["services", "graph"]))
    assert version is not None and version.asset_materialization is not None
    assert version.asset_materialization.tags is not None
    assert version.asset_materialization.tags["dagster/data_version"] == str(shown(ran, "services", "graph")["commit"])


def test_a_bad_row_fails_its_check_with_a_table_and_passes_when_it_is_mended(
    shop: Path, instance: dg.DagsterInstance
) -> None:
    (shop / "services.csv").write_text("name,tier\ncart,1\npay,9\n")
    failed = check(run(shop, instance, "services"), "TierShape")
    assert not failed.passed and failed.severity == dg.AssetCheckSeverity.ERROR
    row = failed.metadata["table"].records[0].data  # type: ignore[attr-defined]
    assert (row["where"], row["field"], row["value"]) == ("services.csv:3", "tier", "9")
    assert row["message"] == "A tier is 1, 2 or 3."
    (shop / "services.csv").write_text("name,tier\ncart,1\npay,3\n")
    assert check(run(shop, instance, "services"), "TierShape").passed


def test_a_value_of_the_wrong_type_fails_well_formed(shop: Path, instance: dg.DagsterInstance) -> None:
    (shop / "services.csv").write_text("name,tier\ncart,1\npay,gold\n")
    ran = run(shop, instance, "services")
    failed = check(ran, "well_formed")
    assert not failed.passed
    assert failed.metadata["table"].records[0].data["where"] == "services.csv:3"  # type: ignore[attr-defined]
    assert check(ran, "TierShape").passed


def test_a_broken_file_fails_source_healthy_and_names_the_line(shop: Path, instance: dg.DagsterInstance) -> None:
    (shop / "services.csv").write_bytes(b"name,tier\ncart,1,too,many,cells\n")
    failed = check(run(shop, instance, "services"), "source_healthy")
    assert not failed.passed
    assert "services.csv:2" in str(failed.description)


def test_a_prefix_lets_two_folders_live_in_one_location(shop: Path) -> None:
    both = dg.Definitions.merge(definitions(shop, prefix="one"), definitions(shop, prefix="two"))
    dg.Definitions.validate_loadable(both)
    keys = {one.to_user_string() for one in both.resolve_asset_graph().get_all_asset_keys()}
    assert {"one/services/graph", "two/services/graph", "one/graph", "two/graph"} <= keys


def test_what_is_erased_is_not_in_dagsters_history_either(shop: Path, tmp_path: Path) -> None:
    state = shop / ".graphtide"
    with dg.DagsterInstance.from_config(str(prepare(state))) as made:
        (shop / "people.csv").write_text("login\nann\nunforgettable\n")
        assert run(shop, made).success
        (shop / "people.csv").write_text("login\nann\n")
        assert run(shop, made).success
    (state / "logs").mkdir()
    (state / "logs" / "writer.log").write_text("good\npeople.csv:3: unforgettable\n")

    def left() -> list[Path]:
        return [path for path in state.rglob("*") if path.is_file() and b"unforgettable" in path.read_bytes()]

    assert left()
    with Engine(shop) as engine:
        engine.sync()
        (shop / "people.csv").write_text("login\nann\nunforgettable\n")
        engine.sync()
        (shop / "people.csv").write_text("login\nann\n")
        assert engine.erase("people/unforgettable")["erased"] == "record"
    assert left() == []
    assert (state / "logs" / "writer.log").read_text() == "good\n"


RUN = """
import sys
import dagster as dg
from dagster_project.definitions import definitions
with dg.DagsterInstance.from_config(sys.argv[2]) as instance:
    job = definitions(sys.argv[1]).resolve_job_def("graphtide_sync")
    sys.exit(0 if job.execute_in_process(instance=instance).success else 1)
"""


def test_two_runs_and_the_command_at_the_same_time_do_not_fail_on_the_lock(shop: Path, tmp_path: Path) -> None:
    # Processes, as Dagster's own runs are: two of its runs in threads of one process lock each other in logging.
    home = str(prepare(tmp_path / "home"))
    # Dagster's databases are made first, as `graphtide up` makes them: two processes that both make them trip.
    with dg.DagsterInstance.from_config(home):
        pass
    commands = [[sys.executable, "-c", RUN, str(shop), home]] * 2
    commands.append([sys.executable, "-m", "graphtide", "sync", "--dir", str(shop), "--json"])
    started = [subprocess.Popen(one, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for one in commands]
    for one in started:
        out, _ = one.communicate(timeout=120)
        assert one.returncode == 0, out


def test_without_dagster_everything_else_imports() -> None:
    program = (
        "import sys, pkgutil, importlib\n"
        "sys.modules.update(dict.fromkeys(('dagster', 'dagster_shared', 'dagster_webserver', 'dagster_project')))\n"
        "for room in ('sources', 'ontology', 'transforms', 'sparql', 'graphtide'):\n"
        "    package = importlib.import_module(room)\n"
        "    for found in pkgutil.walk_packages(package.__path__, room + '.'):\n"
        "        if not found.name.endswith('__main__'):\n"
        "            importlib.import_module(found.name)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_importing_the_entry_reads_nothing_and_loading_it_reads_the_folder(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dagster_project.entry import defs

    monkeypatch.setenv("GRAPHTIDE_DIR", str(shop))
    assert dg.AssetKey(["services", "graph"]) in defs().resolve_asset_graph().get_all_asset_keys()


def test_a_source_of_a_long_name_is_shown(shop: Path) -> None:
    (shop / "graphtide.toml").write_text(TOML.replace("[sources.people", f"[sources.{'p' * 80}"))
    assert dg.AssetKey(["p" * 80, "facts"]) in definitions(shop).resolve_all_asset_keys()
