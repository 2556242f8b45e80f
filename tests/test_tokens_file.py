"""A token opens what it says and nothing else, from the moment it is made to the moment it is revoked."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from graphtide.cli import cli
from sparql.tokens import ADMIN, FILE, Token, TokenError, Tokens

GRAPH = "https://e.example/g"


def test_a_token_is_found_by_its_secret_and_by_nothing_else(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    secret = tokens.add("alice", read=True, write=["", GRAPH])
    found = tokens.find(secret)
    assert found is not None
    assert (found.name, found.read, found.write, found.admin) == ("alice", True, ("", GRAPH), False)
    assert [tokens.find(other) for other in (None, "", secret[:-1], secret + "x", "alice", secret.upper())] == [
        None
    ] * 6


def test_the_file_holds_no_secret_and_is_its_owners_alone(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).add("alice", admin=True)
    path = tmp_path / FILE
    assert secret not in path.read_text()
    assert secret.removeprefix("gt_") not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_one_process_adds_and_revokes_another_sees_at_once(tmp_path: Path) -> None:
    here, there = Tokens(tmp_path), Tokens(tmp_path)
    assert not there.any()
    secret = here.add("alice", read=True)
    assert there.find(secret) is not None
    here.revoke("alice")
    assert there.find(secret) is None
    again = here.add("alice", write=["*"])
    assert there.find(secret) is None
    assert there.find(again) == Token("alice", False, ("*",), False, here.list()[0].created)


def test_scopes_are_graphs_the_default_graph_or_everything() -> None:
    own, one, every = Token("a", write=("",)), Token("b", write=(GRAPH,)), Token("c", write=("*",))
    asked = ("", GRAPH, "https://e.example/other")
    assert [[token.writes(graph) for graph in asked] for token in (own, one, every, ADMIN, Token("d", read=True))] == [
        [True, False, False], [False, True, False], [True] * 3, [True] * 3, [False] * 3,
    ]  # fmt: skip


def test_the_environments_token_is_an_admin_and_cannot_be_taken_or_revoked(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path, "sesame öffne dich")
    assert tokens.find("sesame öffne dich") == ADMIN
    assert tokens.any()
    for change in (lambda: tokens.add("admin", read=True), lambda: tokens.revoke("admin")):
        with pytest.raises(TokenError, match="GRAPHTIDE_TOKEN"):
            change()


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("", {"read": True}, "no name"),
        ("a/b", {"read": True}, "no name"),
        ("alice", {}, "allow nothing"),
        ("alice", {"write": ["not an iri"]}, "'not an iri' is not the IRI"),
    ],
)
def test_a_token_that_cannot_be_is_refused(tmp_path: Path, name: str, options: dict[str, object], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        Tokens(tmp_path).add(name, **options)  # type: ignore[arg-type]
    assert Tokens(tmp_path).list() == []


def test_tokens_made_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        secrets = list(threads.map(lambda n: Tokens(tmp_path).add(f"t{n}", read=True), range(24)))
    assert {found.name for secret in secrets if (found := Tokens(tmp_path).find(secret))} == {
        f"t{n}" for n in range(24)
    }


def test_a_damaged_file_opens_nothing_and_says_so(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).add("alice", read=True)
    (tmp_path / FILE).write_text('{"tokens": [{"name": "alice"}]}')
    with pytest.raises(TokenError, match="is damaged"):
        Tokens(tmp_path).find(secret)


def test_the_command_shows_a_secret_once_and_lists_without_it(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        return CliRunner().invoke(cli, ["token", *words, "--dir", str(tmp_path)], catch_exceptions=False).stdout

    secret = run("add", "alice", "--write", "default", "--write", GRAPH).strip()
    made = json.loads(run("add", "ci", "--write-all", "--read", "--json"))
    tokens = Tokens(tmp_path / ".graphtide")
    assert tokens.find(secret) is not None
    assert tokens.find(made["secret"]) is not None
    listed = run("list")
    assert secret not in listed
    assert f"default {GRAPH}" in listed
    assert "every graph" in listed
    assert [row["name"] for row in json.loads(run("list", "--json"))["tokens"]] == ["alice", "ci"]
    run("revoke", "alice")
    assert tokens.find(secret) is None
