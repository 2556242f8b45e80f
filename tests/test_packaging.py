"""The wheel holds what it needs, and every top-level name in it is ours alone."""

from __future__ import annotations

import json
import site
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ROOMS = {"dagster_project", "graphtide", "ontology", "sources", "sparql", "transforms"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Built from a copy of what is committed to, so that neither build/ nor egg-info appears beside the sources.
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0"):
        if name and (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((REPOSITORY / name).read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("graphtide-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new virtual environment with the wheel; what it depends on is lent from the one that runs the tests."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    target = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], capture_output=True, text=True
    ).stdout.strip()
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--quiet", str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    # A plain path line: .pth files inside it are not read, so the editable install of this checkout stays out.
    (Path(target) / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return home


def test_the_wheel_holds_licence_notice_data_files_and_only_our_rooms(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == ROOMS
    for ending in (
        "licenses/LICENSE",
        "licenses/NOTICE",
        "ontology/graphtide.ttl",
        "ontology/shapes.ttl",
        "sparql/server/page.html",
    ):
        assert any(name.endswith(ending) for name in names), f"{ending} is not in the wheel"


def test_the_command_runs_from_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "fruit.csv").write_text("name,colour\nplum,blue\npear,green\n")
    command = str(installed / "bin" / "graphtide")
    done = subprocess.run([command, "sync", "--json"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    asked = subprocess.run(
        [command, "query", "SELECT ?s WHERE { ?s ?p 'blue' }", "--format", "json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert asked.returncode == 0, asked.stderr
    assert len(json.loads(asked.stdout)["results"]["bindings"]) == 1


def test_each_top_level_name_is_ours_alone(installed: Path, tmp_path: Path) -> None:
    script = (
        "import importlib, importlib.metadata, json\n"
        f"names = {sorted(ROOMS)!r}\n"
        "owners = importlib.metadata.packages_distributions()\n"
        "files = {name: importlib.import_module(name).__file__ for name in names}\n"
        "print(json.dumps([{name: sorted(set(owners[name])) for name in names}, files]))\n"
    )
    python = str(installed / "bin" / "python")
    done = subprocess.run([python, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    owners, files = json.loads(done.stdout)
    assert owners == {name: ["graphtide"] for name in ROOMS}
    for name, file in files.items():
        assert file.startswith(str(installed)), f"{name} was imported from {file}"
