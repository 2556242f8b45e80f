"""A plain store is what is written to it: blank nodes are blank nodes, and sources keep to their record graphs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphtide.engine import Engine, EngineError
from graphtide.settings import SettingsError
from sparql.query.worker import Replica
from sparql.sync.edit import Refused
from sparql.sync.updating import Written

BASE = "https://p.example/"
SETTINGS = f'base = "{BASE}"\nmerge = false\n'
PEOPLE = '[sources.people]\npath = "people.csv"\nkey = "id"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    (tmp_path / "graphtide.toml").write_text(SETTINGS + PEOPLE)
    return tmp_path


@pytest.fixture
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(folder) as found:
        found.sync()
        yield found


def write(engine: Engine, text: str) -> Written:
    return engine.updates.update({"text": f"PREFIX : <{BASE}>\n{text}", "token": "alice", "graphs": "*"})


def test_sources_have_their_record_graphs_and_the_default_graph_is_left_alone(engine: Engine) -> None:
    assert engine.store.statements("") == frozenset()
    assert engine.store.statements(f"{BASE}record/people/1")
    write(engine, "INSERT DATA { :a :b :c }")
    (engine.settings.dir / "people.csv").write_text("id,name\n1,Anna\n")
    engine.sync()
    assert engine.store.statements("") == {f"<{BASE}a> <{BASE}b> <{BASE}c>"}
    assert not engine.store.statements(f"{BASE}record/people/2")
    with pytest.raises(Refused, match="the source 'people' says"):
        write(engine, f"INSERT DATA {{ GRAPH <{BASE}record/people/1> {{ :a :b :c }} }}")
    found = engine.verify(repair=True)
    assert found.clean
    assert engine.store.statements("") == {f"<{BASE}a> <{BASE}b> <{BASE}c>"}
    assert [row["name"] for row in engine.status()["sources"]] == ["people"]


def test_a_blank_node_is_one_node_for_later_updates(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :has [ :v 1 ] , [ :v 2 ] }")
    write(engine, "DELETE { ?x :v 1 } INSERT { ?x :v 3 . ?x :next [] } WHERE { :a :has ?x . ?x :v 1 }")
    said = sorted(engine.store.statements(""))
    nodes = {match for line in said for match in re.findall(r"_:\w+", line)}
    assert len(nodes) == 3
    assert sum(f"<{BASE}v>" in line for line in said) == 2
    assert write(engine, "DELETE WHERE { ?x :v ?v }").removed == 2
    assert write(
        engine, "INSERT { :a :n ?n } WHERE { SELECT (COUNT(?x) AS ?n) { :a :has ?x FILTER(isBlank(?x)) } }"
    ).added
    assert f'<{BASE}a> <{BASE}n> "2"^^<http://www.w3.org/2001/XMLSchema#integer>' in engine.store.statements("")
    assert write(engine, "INSERT DATA { :a :said <<( :x :y 'z' )>> }").added == 1
    assert write(engine, "DELETE WHERE { ?s ?p ?o }").removed == 5
    assert engine.store.statements("") == frozenset()


def test_users_see_no_system_graph_of_a_plain_store_and_those_who_keep_it_do(engine: Engine, tmp_path: Path) -> None:
    write(engine, "INSERT DATA { GRAPH :g { :a :b :c } } ; CREATE GRAPH :empty")
    graphs = "SELECT ?g { GRAPH ?g { } }"
    (tmp_path / "asked").mkdir()
    (tmp_path / "kept").mkdir()
    asked = Replica(engine.settings.state, tmp_path / "asked", asked=BASE)
    seen = {row["g"].value for row in asked.store.query(graphs)}
    assert seen == {f"{BASE}g", f"{BASE}empty", f"{BASE}record/people/1", f"{BASE}record/people/2"}
    write(engine, "DROP GRAPH :empty ; DELETE WHERE { GRAPH :g { ?s ?p ?o } }")
    asked.advance()
    assert {row["g"].value for row in asked.store.query(graphs)} == seen - {f"{BASE}g", f"{BASE}empty"}
    kept = Replica(engine.settings.state, tmp_path / "kept")
    assert f"{BASE}system/cursor" in {row["g"].value for row in kept.store.query(graphs)}


def test_an_update_that_needs_too_much_memory_ends_alone(folder: Path) -> None:
    (folder / "graphtide.toml").write_text(SETTINGS + '[limits]\nquery_memory_bytes = "96MiB"\n')
    digits = " ".join(f"VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}" for n in range(7))
    text = "CONCAT(" + ", ".join(f"STR(?v{n})" for n in range(7)) + f", '{'x' * 300}')"
    with Engine(folder) as engine:
        with pytest.raises(Refused, match="query_memory_bytes") as refused:
            write(engine, f"INSERT {{ :a :n ?n }} WHERE {{ SELECT (COUNT(DISTINCT {text}) AS ?n) {{ {digits} }} }}")
        assert refused.value.code == "update-lost"
        assert write(engine, "INSERT DATA { :a :b :c }").added == 1


def test_a_store_stays_plain_or_merged(folder: Path) -> None:
    with Engine(folder) as engine:
        engine.sync()
        (folder / "graphtide.toml").write_text(f'base = "{BASE}"\n{PEOPLE}')
        with pytest.raises(SettingsError, match="merge is true, but the store was made otherwise"):
            engine.reload()
    with pytest.raises(SettingsError, match="merge is true"):
        Engine(folder)
    other = folder / "other"
    other.mkdir()
    (other / "graphtide.toml").write_text(f'base = "{BASE}"\n')
    with Engine(other) as engine:
        engine.sync()
    (other / "graphtide.toml").write_text(SETTINGS)
    with pytest.raises(SettingsError, match="graphtide.toml:2: merge is false, but the store was made otherwise"):
        Engine(other)
    (folder / "graphtide.toml").write_text(SETTINGS + PEOPLE)
    Engine(folder).close()


def test_a_plain_store_is_erased_backed_up_and_exported_with_its_blank_nodes(engine: Engine, tmp_path: Path) -> None:
    write(
        engine, 'INSERT DATA { :a :has [ :secret "hunter2 hunter2" ; :v 1 ] GRAPH :g { :a :b [] } } ; CREATE GRAPH :e'
    )
    before = write(engine, "DELETE WHERE { ?x :secret ?y }").commit
    assert engine.backup(tmp_path / "backup").exists()
    path = engine.export("nquads", tmp_path / "out.nq")
    assert path.read_text().count("_:") == 3
    engine.store.erase_history()
    assert engine.store.head > before
    assert engine.store.exists(f"{BASE}e")
    assert len(engine.store.statements("")) == 2
    assert write(engine, "DELETE WHERE { :a :has ?x . ?x :v 1 }").removed == 2


def test_an_iri_is_erased_from_a_plain_store_too(engine: Engine) -> None:
    write(engine, "INSERT DATA { :gone :has [ :about :gone ] . :b :knows :gone GRAPH :g { :gone :v 1 . :b :v 2 } }")
    found = engine.erase(f"{BASE}gone")
    assert found["statements"] == 4
    assert not any(f"{BASE}gone" in str(quad) for quad in engine.store.match())
    assert len(engine.store.statements(f"{BASE}g")) == 1
    for path in engine.settings.state.rglob("*.rdfp"):
        assert f"{BASE}gone".encode() not in path.read_bytes()


def test_the_name_of_what_tokens_write_is_no_name_for_a_source(tmp_path: Path) -> None:
    (tmp_path / "token.csv").write_text("id,name\n1,Ann\n")
    with Engine(tmp_path) as engine:
        assert [one.name for one in engine.project.pipelines] == ["ontology", "token_"]
        engine.sync()
        engine.updates.update({"text": "INSERT DATA { <urn:a> <urn:b> 1 }", "token": "alice", "graphs": [""]})
        engine.sync()
        assert engine.store.holds('<urn:a> <urn:b> "1"^^<http://www.w3.org/2001/XMLSchema#integer>')
        for old, new in (("token", "other"), ("token_", "token")):
            with pytest.raises(EngineError, match="cannot be renamed|no name for a source"):
                engine.rename(old, new)
    (tmp_path / "graphtide.toml").write_text('[sources.token]\npath = "token.csv"\n')
    with pytest.raises(SettingsError, match="'token' is taken"):
        Engine(tmp_path)
