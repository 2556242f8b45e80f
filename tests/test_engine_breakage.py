"""Whatever a user writes into a folder, the engine answers with a place and a reason, and the rest goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from graphtide.cli import cli
from graphtide.engine import Engine, EngineError

SETTINGS = """
[ontology]
vocabulary = ["words.ttl"]
shapes = ["shapes.ttl"]
[rules]
files = ["rules/same.rq"]
[sources.fruit]
path = "fruit.csv"
key = "id"
[sources.notes]
path = "notes.csv"
python = "notes.py:note"
"""
FILES = {
    "graphtide.toml": SETTINGS,
    "words.ttl": "<http://localhost:8000/v#C> a <http://www.w3.org/2002/07/owl#Class> .\n",
    "shapes.ttl": "@prefix sh: <http://www.w3.org/ns/shacl#> .\n@prefix v: <http://localhost:8000/v#> .\n"
    "v:S a sh:NodeShape ; sh:targetClass v:C ; sh:property [ sh:path v:p ; sh:minCount 0 ] .\n",
    "rules/same.rq": "CONSTRUCT { ?s <http://localhost:8000/same> ?o } WHERE { ?s <http://localhost:8000/def/id> ?o }",
    "notes.py": "from pyoxigraph import Literal, Triple\n"
    "from transforms.iri import RDFS, iri\nfrom .words import said\n"
    '\n\ndef note(record):\n    yield Triple(iri("note", record.key), RDFS.label, Literal(said))\n',
    "words.py": 'said = "one"\n',
    "fruit.csv": "id\n1\n2\n",
    "notes.csv": "id\n1\n",
}
OWN = """from sources.record import Batch, Record
class P:
 def __init__(self, name, root): pass
 def read(self, cursor):
"""


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(fill(tmp_path_factory.mktemp("broken"), FILES)) as made:
        made.sync()
        yield made


@pytest.fixture
def engine(opened: Engine) -> Iterator[Engine]:
    """One engine for all tests of this file; after each its folder is as it was."""
    yield opened
    folder = opened.settings.dir
    for path in [*folder.glob("*.*"), *folder.glob("rules/*"), *folder.glob("more/*")]:
        if path.is_file():
            path.unlink()
    fill(folder, FILES)
    opened.reload()
    opened.sync()
    assert not opened.status()["notes"]


def cycle(text: str) -> dict[str, str]:
    ring = "CONSTRUCT {{ ?s <http://localhost:8000/{}> ?o }} WHERE {{ ?s <http://localhost:8000/{}> ?o }}"
    return {
        "rules/x.rq": ring.format("x", "y"), "rules/y.rq": ring.format("y", "x"),
        "graphtide.toml": text.replace("same.rq", "*.rq"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"graphtide.toml": SETTINGS + "][\n"}, "graphtide.toml:13: '][' is not TOML"),
        ({"graphtide.toml": SETTINGS.replace("key", "kee")}, "graphtide.toml:9: 'kee' (= 'id') is not a key"),
        ({"graphtide.toml": SETTINGS.replace("shapes.ttl", "gone.ttl")}, "graphtide.toml:4: 'gone.ttl' names no file"),
        ({"graphtide.toml": SETTINGS.replace("shapes.ttl", "/etc/*")}, "graphtide.toml:4: '/etc/*' is no pattern"),
        ({"graphtide.toml": SETTINGS.replace('"fruit.csv', '"/etc/passwd')}, "graphtide.toml:8: path '/etc/passwd' is"),
        ({"graphtide.toml": SETTINGS.replace("notes.py:note", "words.py:said")}, "graphtide.toml:12: 'words.py:sai"),
        ({"shapes.ttl": FILES["shapes.ttl"] + "v:x v:y"}, "shapes.ttl:4: it is not Turtle"),
        ({"shapes.ttl": FILES["shapes.ttl"].replace("Count 0", 'Count "many"')}, "shapes.ttl: the property shape of "),
        ({"shapes.ttl": FILES["shapes.ttl"].replace("minCount 0", 'pattern "(("')}, "unterminated subpattern"),
        ({"words.ttl": "nonsense"}, "words.ttl:1: it is not Turtle"),
        ({"notes.py": "def note(:\n"}, "graphtide.toml:12: notes.py:1: SyntaxError"),
        ({"notes.py": "raise SystemExit(3)\n"}, "graphtide.toml:12: notes.py:1: SystemExit: 3."),
        ({"words.py": "said = (\n"}, "graphtide.toml:12: words.py:1: SyntaxError"),
        ({"rules/same.rq": "CONSTRUCT {"}, "rules/same.rq:1: The rule is not SPARQL. Not understood at the end"),
        ({"rules/same.rq": "SELECT * { ?s ?p ?o }"}, "rules/same.rq: The rule 'same': it is not a CONSTRUCT query"),
        (cycle(SETTINGS), "graphtide.toml:6: The rules "),
        (
            {"more/same.rq": FILES["rules/same.rq"],
             "graphtide.toml": SETTINGS.replace('"rules/same.rq"', '"rules/same.rq", "more/same.rq"')},
            "graphtide.toml:6: two rules are called 'same'",
        ),
    ],
)  # fmt: skip
def test_an_invalid_change_of_any_file_is_refused_with_its_place_and_the_old_stays(
    engine: Engine, files: dict[str, str], said: str
) -> None:
    fill(engine.settings.dir, files)
    with pytest.raises(ValueError) as found:
        engine.reload()
    assert said in str(found.value) and len(str(found.value)) < 400
    assert said in engine.status()["notes"][0]
    assert not [one.message for one in engine.sync() if one.message]
    assert engine.store.query("ASK { ?note ?label 'one' . ?fruit ?id 2 }")


def test_a_module_that_a_mapping_imports_is_part_of_it(engine: Engine) -> None:
    fill(engine.settings.dir, {"words.py": 'said = "two"\n'})
    assert engine.reload()["changed"] == ["notes"]
    assert next(report for report in engine.sync() if report.source == "notes").added == 1
    assert engine.store.query("ASK { ?s ?p 'two' }") and not engine.store.query("ASK { ?s ?p 'one' }")


@pytest.mark.parametrize(
    ("batch", "said"),
    [
        ({}, "There is no source ''"),
        ({"source": "fruits"}, "Did you mean 'fruit'?"),
        ({"source": "fruit"}, "'scope' is missing"),
        ({"source": "fruit", "scope": 7}, "scope is 7 (int)"),
        ({"source": "fruit", "scope": "s", "records": [1]}, "This is no batch"),
        ({"source": "fruit", "scope": "s", "records": [{"key": "x"}]}, "'data' is missing"),
        ({"source": "fruit", "scope": "s", "records": [{"key": "", "data": {}}]}, "the key of a record is empty"),
        ({"source": "fruit", "scope": "s", "records": [{"key": "x", "data": [1]}]}, "is list, not a dict"),
        ({"source": "fruit", "scope": "s", "records": [{"key": "x", "data": {"a": "\ud800"}}]}, "not Unicode text"),
        ({"source": "fruit", "scope": "s", "gone": "abc"}, "Give a list of keys"),
        ({"source": "fruit", "scope": "s", "complete": "no"}, "Write True or False"),
        ({"source": "fruit", "scope": "s", "cursor": 5}, "cursor is 5 (int)"),
    ],
)
def test_a_malformed_batch_is_refused_whole(engine: Engine, batch: dict[str, Any], said: str) -> None:
    before = engine.store.head
    with pytest.raises(EngineError) as found:
        engine.commit(batch)
    assert said in str(found.value) and engine.store.head == before


def test_a_batch_of_a_client_is_committed(engine: Engine) -> None:
    rows = [{"key": "n\n\0", "data": {"id": "7", "deep": {"x": [1, {"y": 2}]}}}]
    assert engine.commit({"source": "fruit", "scope": "s", "records": rows}).changed == 1
    assert engine.commit({"source": "fruit", "scope": "s", "records": []}).gone == 1


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("  raise SystemExit(3)", "p.py:5: SystemExit: 3."),
        ("  return None", "'NoneType' object is not iterable"),
        ("  yield 1", "read gave int, not a Batch"),
        ("  yield from self.read(cursor)", "RecursionError"),
        ("  yield Batch('p', None, [])", "scope is None"),
        ("  yield Batch('p', 's', [], cursor=4)", "cursor is 4"),
        ("  yield Batch('p', 's', [], gone=(3,))", "a key that is gone is 3"),
        ("  yield Batch('p', 's', [Record('p', 3, {}, 'x')])", "the key of a record is 3 (int)"),
        ("  yield Batch('p', 's', [Record('p', 'k', [1], 'x')])", "the data of record 'k' is list"),
        ("  yield Batch('p', 's', [Record('p', 'k', {'a': ['\\ud800']}, 'x')])", "not Unicode text"),
    ],
)
def test_whatever_a_source_of_ones_own_gives_the_others_go_on(engine: Engine, body: str, said: str) -> None:
    """Every one of them on the same store: what one leaves behind does not hinder the next."""
    toml = SETTINGS + '[sources.p]\nsource = "p.py:P"\n'
    fill(engine.settings.dir, {"graphtide.toml": toml, "p.py": OWN + body + "\n"})
    engine.reload()
    reports = {one.source: one for one in engine.sync()}
    assert said in " ".join([reports["p"].message, *reports["p"].held_scopes.values()])
    assert not reports["fruit"].message and reports["fruit"].held == 0


def test_a_value_that_ends_like_an_iri_is_only_a_value(engine: Engine) -> None:
    for text in ('7,"Ada <ada@shop.example>"', '7,"see <b>x"', '7,"a < b> <"'):
        fill(engine.settings.dir, {"fruit.csv": f"id,label\n{text}\n"})
        report = next(one for one in engine.sync() if one.source == "fruit")
        assert report.changed == 1 and not report.message
    assert engine.verify().clean


def test_a_folder_may_hold_tables_and_rdf(tmp_path: Path) -> None:
    said = "<http://x.example/a> <http://x.example/says> 'hello', <b> .\n"
    fill(
        tmp_path, {"graphtide.toml": '[sources.all]\npath = "data"\n', "data/a.csv": "id\n1\n", "data/Ünï 名.ttl": said}
    )
    with Engine(tmp_path) as engine:
        engine.sync()
        assert engine.store.query("ASK { <http://x.example/a> <http://x.example/says> 'hello', ?b . ?t ?id 1 }")
        assert not engine.store.query("ASK { <http://localhost:8000/def/statements> ?p ?o }")


def test_a_full_disk_is_one_message_and_reads_go_on(tmp_path: Path) -> None:
    fill(tmp_path, {"fruit.csv": "name\nplum\n"})
    command = [sys.executable, "-m", "graphtide"]
    subprocess.run([*command, "sync"], cwd=tmp_path, check=True, capture_output=True)
    full = '[limits]\nmin_free_bytes = "900TB"\nlock_seconds = 0.2\n[sources.fruit]\npath = "fruit.csv"\n'
    fill(tmp_path, {"fruit.csv": "name\npear\n", "graphtide.toml": full})
    done = subprocess.run([*command, "sync"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 5 and "min_free_bytes" in done.stderr and "Traceback" not in done.stderr
    query = [*command, "query", "SELECT ?n { ?s rdfs:label ?n FILTER(?n = 'plum') }"]
    with Engine(tmp_path):  # whoever holds the lock, reading and asking go on
        asked = [
            subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for words in ([*command, "status", "--json"], query, [*command, "sync"])
        ]
        (status, _), (answer, _), (_, busy) = (one.communicate() for one in asked)
    assert [one.returncode for one in asked] == [0, 0, 4]
    assert json.loads(status)["sources"][1]["records"] == 1 and "plum" in answer
    assert "lock" in busy and "Traceback" not in busy


def test_a_plug_in_is_a_source_and_one_that_does_not_load_is_named(tmp_path: Path) -> None:
    site, folder = tmp_path / "site", tmp_path / "data"
    entry = "[graphtide.sources]\npager = pager_plugin:P\nbroken = pager_plugin:Q\n"
    fill(site, {
        "pager_plugin.py": OWN + "  yield Batch('p', 's', [Record('p', 'k', {'label': 'page'}, 'x')])\n",
        "pager_plugin-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: pager-plugin\nVersion: 1\n",
        "pager_plugin-1.dist-info/entry_points.txt": entry,
    })  # fmt: skip
    script = (
        f"import sys; sys.path.append({str(site)!r}); from graphtide.engine import Engine\n"
        f"with Engine({str(folder)!r}) as e: print([r.changed for r in e.sync(['p'])], '' in sys.path)"
    )
    for name, said in (("pager", "[1] False"), ("broken", "the plug-in 'broken' (pager_plugin:Q) does not load")):
        fill(folder, {"graphtide.toml": f'[sources.p]\nsource = "{name}"\n'})
        done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, cwd=Path.cwd())
        assert said in done.stdout + done.stderr


def test_reading_does_not_wait_for_a_long_sync(engine: Engine) -> None:
    arrived, go = threading.Event(), threading.Event()

    def emit(event: dict[str, Any]) -> None:
        arrived.set()
        go.wait(20)

    fill(engine.settings.dir, {"fruit.csv": "id\n1\n2\n3\n"})
    long = threading.Thread(target=engine.sync, kwargs={"emit": emit})
    long.start()
    try:
        assert arrived.wait(20)
        done: list[object] = []
        ask = threading.Thread(target=lambda: done.extend((engine.status(), engine.violations(), engine.changes())))
        ask.start()
        ask.join(20)
        assert len(done) >= 1 and not ask.is_alive() and long.is_alive()
    finally:
        go.set()
        long.join()


def test_what_cannot_be_meant_is_said_at_once_and_not_done(tmp_path: Path) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    for folder, base in ((data, "https://one.example/"), (other, "https://two.example/")):
        folder.mkdir()
        (folder / "graphtide.toml").write_text(f'base = "{base}"\n')

    def gt(*words: str) -> tuple[int, str]:
        result = CliRunner().invoke(cli, list(words))
        return result.exit_code, result.stderr

    assert gt("sync", "--dir", str(data))[0] == 0
    assert gt("backup", str(tmp_path / "copy"), "--dir", str(data))[0] == 0
    code, said = gt("restore", str(tmp_path / "copy"), "--dir", str(other))
    assert code == 2 and "https://one.example/" in said and not (other / ".graphtide" / "store.json").exists()
    for command in ("up", "serve"):
        code, said = gt(command, "--port", "99999", *([] if command == "up" else ["--dir", str(data)]))
        assert code == 2 and "65535" in said
    assert gt("rename", "a", "a", "--dir", str(data)) == (2, "'a' has that name already.\n")


def test_a_state_folder_that_cannot_be_written_to_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphtide.settings.os.access", lambda path, mode: False)  # the tests may run as root
    for words in (
        ["query", "ASK {}", "--dir", str(tmp_path)],
        ["up", str(tmp_path)],
        ["status", "--dir", str(tmp_path)],
    ):
        result = CliRunner().invoke(cli, words)
        assert result.exit_code == 5 and "keeps its state there" in result.stderr, (words, result.stderr)
