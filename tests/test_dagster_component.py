"""People who run Dagster already add a folder to their project in a few lines of YAML and query it in their assets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import dagster as dg
import pytest

from dagster_project.home import prepare
from dagster_project.resource import Graph, GraphError, rows

REPOSITORY = Path(__file__).resolve().parents[1]
DG = Path(sys.executable).with_name("dg")
YAML = """\
type: dagster_project.component.GraphtideComponent
attributes:
  dir: ../data
  prefix: shop
  automatic: true
  owners: ["team:platform"]
"""
ASSET = """\
import dagster as dg

from dagster_project.resource import Graph


@dg.asset(deps=[dg.AssetKey(["shop", "people", "graph"])])
def names(graph: Graph) -> dg.MaterializeResult:
    found = graph.query("SELECT ?name { ?person a gt:Person ; rdfs:label ?name } ORDER BY ?name")
    return dg.MaterializeResult(metadata={"names": ", ".join(row["name"] for row in found)})
"""
TOML = """\
base = "https://shop.example/"
[sources.people]
path = "people.csv"
key = "login"
[sources.people.map]
class = "gt:Person"
iri = "person/{login}"
[sources.people.map.columns]
name = "rdfs:label"
"""
RUN = """\
import json, sys
import dagster as dg
from theirs.definitions import defs
found = defs()
with dg.DagsterInstance.get() as instance:
    ran = found.resolve_implicit_global_asset_job_def().execute_in_process(instance=instance)
    key = dg.AssetKey("names")
    print(json.dumps(ran.asset_materializations_for_node("names")[0].metadata["names"].value))
"""


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    """A dg project of someone else's, beside a folder of data."""
    files = {
        "data/people.csv": "login,name\nann,Ann\nbob,Bob\n",
        "data/graphtide.toml": TOML,
        "project/pyproject.toml": '[project]\nname = "theirs"\nversion = "0"\n'
        '[tool.dg]\ndirectory_type = "project"\n[tool.dg.project]\nroot_module = "theirs"\n'
        'code_location_target_module = "theirs.definitions"\n',
        "project/src/theirs/__init__.py": "",
        "project/src/theirs/definitions.py": "from pathlib import Path\n\nfrom dagster import definitions, "
        "load_from_defs_folder\n\n\n@definitions\ndef defs():\n"
        "    return load_from_defs_folder(path_within_project=Path(__file__).parent)\n",
        "project/src/theirs/defs/__init__.py": "",
        "project/src/theirs/defs/shop/defs.yaml": YAML,
        "project/src/theirs/defs/names.py": ASSET,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "project"


def environment(home: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "1", **more}


def test_the_component_is_at_most_twelve_lines_of_yaml() -> None:
    assert len(YAML.splitlines()) <= 12


def test_their_project_passes_dg_check_and_their_asset_asks_the_graph(theirs: Path) -> None:
    home = prepare(theirs.parent)
    env = environment(home, PYTHONPATH=str(theirs / "src"))
    checked = subprocess.run([DG, "check", "defs"], cwd=theirs, env=env, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    ran = subprocess.run([sys.executable, "-c", RUN], cwd=theirs, env=env, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == "Ann, Bob"


def test_our_own_definitions_pass_dg_check(theirs: Path) -> None:
    env = environment(prepare(theirs.parent), GRAPHTIDE_DIR=str(theirs.parent / "data"))
    command = [DG, "check", "defs"]
    checked = subprocess.run(command, cwd=REPOSITORY, env=env, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_rows_are_python_values_and_unbound_is_none() -> None:
    xsd = "http://www.w3.org/2001/XMLSchema#"
    answer = {
        "head": {"vars": ["n", "x", "b", "who", "none"]},
        "results": {
            "bindings": [
                {
                    "n": {"type": "literal", "value": "7", "datatype": xsd + "integer"},
                    "x": {"type": "literal", "value": "1.5", "datatype": xsd + "decimal"},
                    "b": {"type": "literal", "value": "true", "datatype": xsd + "boolean"},
                    "who": {"type": "uri", "value": "https://shop.example/person/ann"},
                }
            ]
        },
    }
    assert rows(answer) == [{"n": 7, "x": 1.5, "b": True, "who": "https://shop.example/person/ann", "none": None}]
    assert rows({"head": {}, "boolean": False}) == [{"boolean": False}]


def test_a_graph_that_cannot_be_reached_says_what_to_start() -> None:
    with pytest.raises(GraphError, match=r"cannot be reached .* Is `graphtide up` or `serve` running\?"):
        Graph(url="http://127.0.0.1:9").query("ASK {}")
    with pytest.raises(GraphError, match="needs a url or a dir"):
        Graph().query("ASK {}")


def test_the_resource_is_asked_by_an_asset_in_a_process_of_its_own_instance(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("login,name\nann,Ann\n")
    (tmp_path / "graphtide.toml").write_text(TOML)

    @dg.asset
    def synced(graph: Graph) -> int:
        return int(graph.sync("people")["changed"])

    made = dg.materialize([synced], resources={"graph": Graph(dir=str(tmp_path))})
    assert made.output_for_node("synced") == 1
