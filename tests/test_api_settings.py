"""Settings edited by clients: what a person wrote stays as it was written, and what is invalid is never in force."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from graphtide.engine import Engine
from graphtide.settings import SettingsError
from graphtide.sources_edit import (
    CannotEdit,
    Changed,
    CodeRefused,
    EditRefused,
    Fused,
    Taken,
    UnknownSource,
    add,
    remove,
    sources,
)
from graphtide.toml_edit import with_source, without_source

TOML = """# The shop.
base = "https://e.example/"   # fixed

[sources.people]  # who
path = "people.csv"
key = "id"

[sources.people.map]
class = "e:Person"

[sources.people.map.columns]
name = "rdfs:label"

# Stores share their names.
[sources.stores]
path = "stores.csv"

[prefixes]
e = "https://e.example/ns#"

[server]
port = 8001
"""


@contextmanager
def shop(dir: Path) -> Iterator[Engine]:
    (dir / "graphtide.toml").write_text(TOML)
    (dir / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    (dir / "stores.csv").write_text("id,name\n1,north\n")
    (dir / "teams.csv").write_text("id,name\nt,Red\n")
    (dir / "link").symlink_to("/etc")
    (dir / "evil.py").write_text("raise SystemExit('ran')")
    with Engine(dir) as found:
        found.sync()
        yield found


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with shop(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """For what changes nothing."""
    with shop(tmp_path_factory.mktemp("unchanged")) as found:
        yield found


def test_a_source_is_added_after_all_else_and_removed_with_what_is_about_it() -> None:
    text = with_source(TOML, "teams", {"path": "teams.csv", "map": {"class": "e:Team", "columns": {"a": "rdfs:label"}}})
    assert text.startswith(TOML)
    assert tomllib.loads(text)["sources"]["teams"]["map"]["class"] == "e:Team"
    assert without_source(text, "teams") == TOML
    assert without_source(TOML, "people") == TOML.replace(
        TOML[TOML.index("[sources.people]") : TOML.index("# Stores")], ""
    )
    assert without_source(TOML, "stores") == TOML.replace(TOML[TOML.index("# Stores") : TOML.index("[prefixes]")], "")


@pytest.mark.parametrize(
    "text",
    ['[sources]\na = {path = "a.csv"}\nb = {path = "b.csv"} # kept\n',
     'sources.a.path = "a.csv"\nsources.b.path = "b.csv"\n',
     '[sources."a"]\npath = "a.csv"\n[sources.b]\npath = "b.csv"\n',
     '[sources.a]\npath = "a.csv"\n[[sources.a.map]]\nclass="x:y"\n[[sources.a.map]]\nclass="x:z"\n'
     '[sources.b]\npath="b.csv"\n',
     '[sources.b]\npath = """\n[sources.a]\n"""\n[sources.a]\npath = "a.csv"\n'],
)  # fmt: skip
def test_however_a_source_is_written_it_can_be_removed_and_nothing_else_is(text: str) -> None:
    found = tomllib.loads(without_source(text, "a"))
    expected = tomllib.loads(text)
    del expected["sources"]["a"]
    assert found == expected


def test_an_added_source_is_in_the_file_and_in_force(engine: Engine) -> None:
    found = add(engine, {"name": "teams", "table": {"path": "teams.csv", "key": "id"}})
    assert found["added"] == ["teams"] and found["notes"] == []
    assert (engine.settings.dir / "graphtide.toml").read_text().startswith(TOML)
    engine.sync(["teams"])
    row = next(one for one in sources(engine)["sources"] if one["name"] == "teams")
    assert (row["records"], row["paths"], row["mapping"], row["configured"]) == (1, ["teams.csv"], "direct", True)


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(unchanged: Engine) -> None:
    found = add(unchanged, {"name": "teams", "table": {"path": "nosuch.csv"}, "dry_run": True})
    assert found["toml"] == '[sources.teams]\npath = "nosuch.csv"\n'
    assert found["notes"] == ["'nosuch.csv' names no file now"]
    assert (unchanged.settings.dir / "graphtide.toml").read_text() == TOML


@pytest.mark.parametrize(
    ("name", "table", "kind", "words"),
    [
        ("x", {"path": "a.csv", "kee": "id"}, SettingsError, "'kee'"),
        ("x", {"path": 3}, SettingsError, "sources.x.path"),
        ("x", {}, SettingsError, "none of path, paths and source"),
        ("rule", {"path": "a.csv"}, SettingsError, "'rule' is taken"),
        ("a b", {"path": "a.csv"}, SettingsError, "cannot name a source"),
        ("x", {"path": "a.csv", "map": {"columns": {"a": "nosuch:b"}}}, SettingsError, "nosuch"),
        ("x", {"path": "a.csv", "api_key": "s"}, SettingsError, "secret"),
        ("people", {"path": "a.csv"}, Taken, "already"),
        ("x", {"path": "../a.csv"}, CodeRefused, "leads out"),
        ("x", {"path": "a/../../b.csv"}, CodeRefused, "leads out"),
        ("x", {"path": "/etc/passwd"}, CodeRefused, "not relative"),
        ("x", {"path": "~/a.csv"}, CodeRefused, "not relative"),
        ("x", {"paths": ["ok.csv", "C:\\\\a.csv"]}, CodeRefused, "not relative"),
        ("x", {"path": ".graphtide/log/x.csv"}, CodeRefused, "own"),
        ("x", {"path": ".git/config", "format": "csv"}, CodeRefused, "hidden"),
        ("x", {"path": "id_rsa", "format": "csv"}, CodeRefused, "secrets"),
        ("x", {"path": "link/passwd", "format": "csv"}, CodeRefused, "link that leads out"),
        ("x", {"paths": ["link/*.csv"]}, CodeRefused, "link that leads out"),
        ("x", {"source": "evil.py:Source"}, CodeRefused, "runs code"),
        ("x", {"path": "a.csv", "python": "evil.py:f"}, CodeRefused, "runs code"),
        ("x", {"path": "a.csv", "map": {"python": "evil.py:f"}}, CodeRefused, "runs code"),
        ("x", {"path": None}, CannotEdit, "TOML"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_source_is_refused_and_the_file_stays(
    unchanged: Engine, name: str, table: dict[str, Any], kind: type[Exception], words: str
) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        add(unchanged, {"name": name, "table": table})
    assert isinstance(raised.value, kind)
    assert (unchanged.settings.dir / "graphtide.toml").read_text() == TOML
    assert unchanged.refused == ""


def test_many_records_go_only_when_told_so_and_facts_only_when_forgotten(engine: Engine) -> None:
    path = engine.settings.dir / "people.csv"
    path.write_text("id,name\n" + "".join(f"{n},P{n}\n" for n in range(150)))
    engine.sync(["people"])
    with pytest.raises(Fused, match="150 records"):
        remove(engine, {"name": "people"})
    found = remove(engine, {"name": "people", "force": True})
    assert found["orphaned"] == ["people"] and found["forgotten"] is None
    row = next(one for one in sources(engine)["sources"] if one["name"] == "people")
    assert (row["state"], row["records"]) == ("orphaned", 150)
    found = remove(engine, {"name": "people", "force": True, "forget": True})
    assert found["forgotten"]["gone"] == 150
    with pytest.raises(UnknownSource):
        remove(engine, {"name": "people"})


def test_an_edit_is_not_lost_to_another(engine: Engine) -> None:
    seen = sources(engine)["settings"]
    path = engine.settings.dir / "graphtide.toml"
    path.write_text(TOML + "# mine\n")
    with pytest.raises(Changed):
        add(engine, {"name": "teams", "table": {"path": "teams.csv"}, "if_match": seen})
    add(engine, {"name": "teams", "table": {"path": "teams.csv"}, "if_match": sources(engine)["settings"]})
    assert "# mine" in path.read_text()


def test_a_folder_without_settings_keeps_taking_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("id,name\n1,Ann\n")
    with Engine(tmp_path) as engine, pytest.raises(EditRefused, match="graphtide init"):
        add(engine, {"name": "teams", "table": {"path": "teams.csv"}})
