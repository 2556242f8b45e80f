"""The engine holds what fails and goes on with the rest; new settings are in force whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphtide import rooms
from graphtide.cli import cli
from graphtide.engine import Engine
from graphtide.settings import SettingsError

SETTINGS = """
[sources.fruit]
path = "fruit.csv"
key = "id"

[sources.pager]
source = "connectors/pager.py:Pager"
options = { count = 2 }
"""
PAGER = """
from sources.record import Batch, Record


class Pager:
    def __init__(self, name, root, count):
        self.name, self.count = name, count

    def read(self, cursor):
        yield Batch(self.name, "all", self.records(), cursor=None)

    def records(self):
        for number in range(self.count):
            yield Record(self.name, str(number), {"label": f"page {number}"}, f"pager:{number}")
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    (tmp_path / "connectors").mkdir()
    (tmp_path / "connectors" / "pager.py").write_text(PAGER)
    (tmp_path / "fruit.csv").write_text("id,label\n1,apple\n2,pear\n")
    (tmp_path / "graphtide.toml").write_text(SETTINGS)
    with Engine(tmp_path) as made:
        yield made


def labels(engine: Engine) -> set[str]:
    found = engine.store.query("SELECT ?l { ?s <http://www.w3.org/2000/01/rdf-schema#label> ?l . ?s a ?c }")
    wanted = {"apple", "pear", "plum", "page 0", "page 1"}
    return {row["l"].value for row in found} & wanted


def write(engine: Engine, name: str, text: str) -> None:
    (engine.settings.dir / name).write_text(text)


def test_a_source_of_ones_own_is_read_with_its_options(engine: Engine) -> None:
    assert not [report.message for report in engine.sync() if report.message]
    assert labels(engine) == {"apple", "pear", "page 0", "page 1"}


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        (
            10,
            PAGER.replace(
                '        yield Batch(self.name, "all"', '        1 / 0\n        yield Batch(self.name, "all"'
            ),
        ),
        (13, PAGER.replace("        for number", "        1 / 0\n        for number")),
    ],
)
@pytest.mark.parametrize("loaded", [False, True])
def test_an_exception_of_ones_own_source_holds_that_source_alone_and_names_its_line(
    engine: Engine, line: int, broken: str, loaded: bool
) -> None:
    if loaded:
        engine.sync()
    write(engine, "connectors/pager.py", broken)
    write(engine, "fruit.csv", "id,label\n1,apple\n3,plum\n")
    engine.reload()
    reports = {report.source: report for report in engine.sync()}
    said = [reports["pager"].message, *reports["pager"].held_scopes.values()]
    assert f"connectors/pager.py:{line}: ZeroDivisionError: division by zero." in said
    assert not reports["fruit"].message
    assert labels(engine) == {"apple", "plum"} | ({"page 0", "page 1"} if loaded else set())
    rows = {row["name"]: row for row in engine.status()["sources"]}
    assert rows["pager"]["state"] in ("held", "failing") and rows["fruit"]["state"] == "ok"


def test_an_invalid_change_of_the_settings_is_refused_and_the_old_stay_in_force(engine: Engine) -> None:
    engine.sync()
    write(engine, "graphtide.toml", SETTINGS + "\nwrong = 1\n")
    with pytest.raises(SettingsError, match=r"graphtide.toml:10: 'wrong' \(= 1\) is not a key"):
        engine.reload()
    assert any("graphtide.toml:10" in note for note in engine.status()["notes"])
    write(engine, "fruit.csv", "id,label\n3,plum\n")
    engine.sync()
    assert labels(engine) == {"plum", "page 0", "page 1"}
    write(engine, "graphtide.toml", SETTINGS)
    engine.reload()
    assert not engine.status()["notes"]


def test_a_python_file_that_does_not_load_is_refused_and_the_old_code_stays(engine: Engine) -> None:
    engine.sync()
    write(engine, "connectors/pager.py", "import nothing_of_the_kind\n")
    with pytest.raises(ValueError, match="connectors/pager.py:1: ModuleNotFoundError"):
        engine.reload()
    assert not [report.message for report in engine.sync() if report.message]


def test_a_valid_change_takes_effect_as_a_delta(engine: Engine) -> None:
    engine.sync()
    write(
        engine,
        "graphtide.toml",
        SETTINGS + '\n[sources.fruit.map]\nclass = "gt:Note"\n[sources.fruit.map.columns]\nlabel = "rdfs:label"\n',
    )
    assert engine.reload()["changed"] == ["fruit"]
    reports = {report.source: report for report in engine.sync()}
    assert reports["fruit"].added and not reports["pager"].added and not reports["pager"].removed
    assert labels(engine) == {"apple", "pear", "page 0", "page 1"}


def test_another_base_is_refused_once_the_store_exists(engine: Engine) -> None:
    engine.sync()
    write(engine, "graphtide.toml", 'base = "https://other.example/"\n' + SETTINGS)
    with pytest.raises(SettingsError, match="but the store was made with 'http://localhost:8000/'"):
        engine.reload()
    assert labels(engine) == {"apple", "pear", "page 0", "page 1"}


def test_every_command_answers_json_with_one_document(engine: Engine, tmp_path: Path) -> None:
    here = str(engine.settings.dir)
    engine.close()
    backup = str(tmp_path / "backup")
    asked = [
        ["sync"], ["status"], ["changes"], ["verify"], ["validate"], ["query", "SELECT * { ?s ?p ?o } LIMIT 1"],
        ["export", "-o", str(tmp_path / "out.trig")], ["backup", backup], ["restore", backup, "--force"],
        ["rename", "fruit", "food"], ["erase", "food/1", "--yes"], ["forget", "food"], ["sync", "nothing"],
        ["query", "SELECT"], ["init"],
    ]  # fmt: skip
    codes = {}
    for words in asked:
        done = CliRunner().invoke(cli, [*words, "--dir", here, "--json"])
        assert json.loads(done.stdout), words
        assert "Traceback" not in done.output
        codes[" ".join(words[:2])] = done.exit_code
    assert {name for name, code in codes.items() if code} == {"forget food", "sync nothing", "query SELECT", "init"}
    assert {codes[name] for name in ("forget food", "sync nothing", "query SELECT", "init")} == {2}


def test_a_package_that_hides_a_room_is_named(tmp_path: Path) -> None:
    (tmp_path / "sparql").mkdir()
    (tmp_path / "sparql" / "__init__.py").write_text("")
    script = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from graphtide import rooms; rooms.check()"
    done = subprocess.run(
        [sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=Path(rooms.__file__).parent
    )
    assert f"Graphtide's 'sparql' is hidden by {tmp_path / 'sparql'}" in done.stderr


def test_the_working_directory_hides_no_room(tmp_path: Path) -> None:
    for name in (*rooms.ROOMS, "click"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('shadowed')")
    done = subprocess.run([sys.executable, "-m", "graphtide", "status"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_column_the_mapping_names_and_the_table_lacks_is_noted_until_it_is_there(tmp_path: Path) -> None:
    (tmp_path / "graphtide.toml").write_text(
        '[limits]\nmax_columns = 5\n[sources.fruit]\npath = "fruit.csv"\nkey = "name"\n[sources.fruit.map]\n'
        'class = "gt:Note"\ncolumns = { name = "rdfs:label", colour = "rdfs:comment" }\n'
    )
    (tmp_path / "fruit.csv").write_text("name,color\nplum,blue\n")

    def notes() -> str:
        return " ".join(next(row for row in engine.status()["sources"] if row["name"] == "fruit")["notes"])

    with Engine(tmp_path) as engine:
        engine.sync()
        assert "has no column 'colour'" in notes() and "Did you mean 'color'?" in notes()
        (tmp_path / "fruit.csv").write_text("name,colour\nplum,blue\n")
        engine.sync()
        assert notes() == ""
        (tmp_path / "fruit.csv").write_text("name,colour,a,b,c,d\nplum,blue,1,2,3,4\n")
        assert "max_columns (5)" in next(iter(engine.sync(["fruit"])[0].held_scopes.values()))


def test_a_plain_store_has_no_rules_and_says_so_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "r.rq").write_text("CONSTRUCT { ?s <urn:p> ?o } WHERE { ?s <urn:q> ?o }")
    (tmp_path / "graphtide.toml").write_text('merge = false\n[rules]\nfiles = ["r.rq"]\n')
    with pytest.raises(SettingsError, match="graphtide.toml:2: merge = false"):
        Engine(tmp_path)
