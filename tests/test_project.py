"""The project keeps its own promises: contracts, licences, documents that name real tests, nothing that points home."""

from __future__ import annotations

import ast
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import licences

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = ("sources", "ontology", "transforms", "sparql", "graphtide")


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    return [REPOSITORY / name for name in listed.decode().split("\0") if name and (REPOSITORY / name).is_file()]


def test_imports_run_against_the_data() -> None:
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_dagster_project_imports_dagster() -> None:
    for room in ROOMS:
        for path in (REPOSITORY / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not [name for name in names if name.split(".")[0] == "dagster"], f"{path} imports Dagster"


def test_every_module_imports_in_an_empty_environment_and_does_nothing(tmp_path: Path) -> None:
    modules = [
        found.name
        for room in ROOMS
        for found in pkgutil.walk_packages([str(REPOSITORY / room)], prefix=f"{room}.")
        if not found.name.endswith("__main__")
    ]
    script = f"import importlib\nfor name in {modules!r}: importlib.import_module(name)\n"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and list(tmp_path.iterdir()) == []


def test_every_dependency_has_an_allowed_licence() -> None:
    assert licences.refused() == []


def test_each_promise_names_a_test_that_exists() -> None:
    text = (REPOSITORY / "docs" / "promises.md").read_text()
    promises = re.findall(r"^\d+\. .+?(?=^\d+\. |\Z)", text, flags=re.MULTILINE | re.DOTALL)
    assert promises, "docs/promises.md holds no numbered promise"
    for promise in promises:
        kept = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", promise)
        assert kept, f"no test is named by: {promise[:80]}"
        for file, name in kept:
            assert re.search(
                rf"^\s*(?:async )?(?:def|class) {name}\b|^{name} = ", (REPOSITORY / file).read_text(), re.M
            ), f"{file} has no {name}"


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_what_it_knows(room: str) -> None:
    for path in (REPOSITORY / room).rglob("*.py"):
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path.relative_to(REPOSITORY)} has no docstring"
    assert importlib.import_module(room).__doc__


def test_the_repository_points_at_no_machine_and_no_registry() -> None:
    # Spelled in pieces, so that this file does not trip over itself.
    pointing = re.compile(
        "|".join((r"(?<![\w.*])/wo" + "rk/", r"(?<![\w.*])/ro" + "ot/", r"pypi\.o" + "rg", r"registry\.np" + "mjs"))
    )
    for path in tracked():
        if path.suffix in {".xlsx", ".parquet", ".png"}:
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            assert not pointing.search(line), f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:120]}"
