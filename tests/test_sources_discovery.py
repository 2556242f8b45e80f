from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sources.discovery import discover
from sources.formats import may_be_secret
from sources.limits import Limits
from sources.record import SourceError


def put(root: Path, *paths: str, text: str = "id\n1\n") -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def taken(root: Path) -> list[str]:
    return [path for path, _ in discover(root).taken]


def test_data_is_taken_with_its_format_and_the_rest_has_a_reason(tmp_path):
    put(tmp_path, "a.csv", "b/c.JSON", "b/d.ttl", "b/README.md", ".hidden.csv", ".git/x.csv", "graphtide.toml")
    put(tmp_path, ".graphtide/x.csv", "node_modules/m/x.json", "__pycache__/x.json", "env/pyvenv.cfg", "env/x.csv")
    put(tmp_path, ".env", ".env.local", "key.pem", "b/credentials.json", "~$book.xlsx", "package-lock.json")
    found = discover(tmp_path)
    assert found.taken == (("a.csv", "csv"), ("b/c.JSON", "json"), ("b/d.ttl", "turtle"))
    assert dict(found.skipped) == {
        ".env": "may hold secrets; name it in graphtide.toml to read it",
        ".env.local": "may hold secrets; name it in graphtide.toml to read it",
        ".git/": "hidden",
        ".graphtide/": "Graphtide's own state",
        ".hidden.csv": "hidden",
        "__pycache__/": "installed or generated code",
        "b/README.md": "no format Graphtide knows by its ending",
        "b/credentials.json": "may hold secrets; name it in graphtide.toml to read it",
        "env/": "a virtual environment",
        "key.pem": "may hold secrets; name it in graphtide.toml to read it",
        "node_modules/": "installed or generated code",
        "package-lock.json": "a lock file",
        "~$book.xlsx": "a lock file",
    }


def test_secrets_are_known_by_name():
    for name in (".env", ".env.prod", "id_rsa", "id_ed25519.pub", "server.key", "a.p12", "secrets.yaml",
                 "prod-secrets.json", "credentials.csv", "my_service_account.json"):  # fmt: skip
        assert may_be_secret(name), name
    for name in ("people.csv", "keys.csv", "secretary.csv", "environment.json", "monkey.json", "id.csv"):
        assert not may_be_secret(name), name


def test_ignore_files_hold_from_their_folder_and_the_nearest_wins(tmp_path):
    put(tmp_path, "a.csv", "b.csv", "tmp/c.csv", "d/a.csv", "d/keep.csv", "d/e/x.csv", "out/y.csv")
    put(tmp_path, ".gitignore", text="# comment\n/a.csv\ntmp/\n*.csv\n!b.csv\n!d/**\n")
    put(tmp_path, "d/.gitignore", text="*.csv\n!keep.csv\n")
    assert taken(tmp_path) == ["b.csv", "d/keep.csv"]


def test_graphtideignore_overrules_gitignore(tmp_path):
    put(tmp_path, "a.csv", "b.csv", "c.csv")
    put(tmp_path, ".gitignore", text="*.csv\n")
    put(tmp_path, ".graphtideignore", text="!a.csv\n!b.csv\nb.csv\n")
    found = discover(tmp_path)
    assert found.taken == (("a.csv", "csv"),)
    assert ("c.csv", "ignored by the rules in this folder") in found.skipped


def test_a_rule_that_cannot_be_read_is_named_and_the_others_hold(tmp_path):
    put(tmp_path, "a.csv", "b.csv")
    put(tmp_path, ".gitignore", text="a.csv\n!\n")
    assert taken(tmp_path) == ["b.csv"]


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@settings(max_examples=12)
@given(
    rules=st.lists(
        st.sampled_from(
            ["*.csv", "!a.csv", "/a.csv", "d/", "d/*", "d/**", "!d/b.csv", "**/e", "e/a.csv", "d/**/a.csv", "!/d/", "e"]
        ),
        max_size=5,
    ),
    inner=st.lists(st.sampled_from(["*.csv", "!a.csv", "/e/", "!e/", "b.csv"]), max_size=3),
)  # fmt: skip
def test_the_rules_are_those_of_git(tmp_path_factory, rules, inner):
    root = tmp_path_factory.mktemp("git")
    put(root, "a.csv", "b.csv", "d/a.csv", "d/b.csv", "d/e/a.csv", "e/a.csv", "e/b.csv")
    put(root, ".gitignore", text="\n".join(rules) + "\n")
    put(root, "d/.gitignore", text="\n".join(inner) + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(root), "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "init", "-q"], cwd=root, env=environment, check=True)
    listed = subprocess.run(
        ["git", "ls-files", "--others", "--exclude-standard"],
        cwd=root, env=environment, check=True, capture_output=True, text=True,
    )  # fmt: skip
    assert taken(root) == sorted(path for path in listed.stdout.split() if path.endswith(".csv"))


def test_links_stay_inside_and_loops_end(tmp_path):
    root = tmp_path / "root"
    put(root, "a.csv", "d/b.csv", ".hidden/c.csv")
    put(tmp_path, "outside.csv")
    (root / "inside.csv").symlink_to("d/b.csv")
    (root / "outside.csv").symlink_to("../outside.csv")
    (root / "hidden.csv").symlink_to(".hidden/c.csv")
    (root / "d/loop").symlink_to("..")
    (root / "self.csv").symlink_to("self.csv")
    (root / "gone.csv").symlink_to("nothing.csv")
    found = discover(root)
    assert [path for path, _ in found.taken] == ["a.csv", "d/b.csv", "inside.csv"]
    assert dict(found.skipped) == {
        ".hidden/": "hidden",
        "d/loop": "a link to a folder, which is looked into where it lies",
        "gone.csv": "a link to nothing",
        "hidden.csv": "a link into what is skipped",
        "outside.csv": f"a link that leaves the folder, to {tmp_path / 'outside.csv'}",
        "self.csv": "a link to nothing",
    }


def test_a_file_over_the_limit_and_a_pipe_are_skipped(tmp_path):
    put(tmp_path, "a.csv", text="x" * 100)
    os.mkfifo(tmp_path / "b.csv")
    found = discover(tmp_path, Limits(max_file_bytes=99))
    assert found.skipped == (
        ("a.csv", "100 bytes, over max_file_bytes (99 bytes)"),
        ("b.csv", "not a regular file"),
    )


def test_a_folder_that_cannot_be_read_does_not_stop_the_rest(tmp_path, monkeypatch):
    put(tmp_path, "a.csv", "locked/b.csv", "z/c.csv")
    scandir = os.scandir

    def guarded(path):
        if str(path).rstrip("/").endswith("locked"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)  # as root, no mode keeps us out
    found = discover(tmp_path)
    assert [path for path, _ in found.taken] == ["a.csv", "z/c.csv"]
    assert found.skipped == (("locked/", "cannot be read: Permission denied"),)


def test_a_name_that_is_not_text_is_skipped(tmp_path):
    put(tmp_path, "a.csv")
    with open(os.path.join(os.fsencode(tmp_path), b"b\xff.csv"), "wb"):
        pass
    found = discover(tmp_path)
    assert found.taken == (("a.csv", "csv"),)
    assert found.skipped == (("b\\xff.csv", "its name is not UTF-8"),)


def test_a_folder_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(SourceError, match="cannot be read: No such file or directory. Name a folder."):
        discover(tmp_path / "gone")
