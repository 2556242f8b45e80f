"""The page about writing is true: its commands are run, one after another, and answer what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner

from graphtide.cli import cli
from tests.endpoint import endpoint

PAGE = Path(__file__).resolve().parents[1] / "docs" / "writing.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_page_about_writing_does_what_it_shows(tmp_path: Path) -> None:
    found = FENCE.findall(PAGE.read_text("utf-8"))
    made, *rest = [text for kind, text in found if kind == "sh"]
    words = made.split()[1:]
    secret = CliRunner().invoke(cli, [*words, "--dir", str(tmp_path)], catch_exceptions=False).stdout.strip()
    with endpoint(tmp_path) as served:
        env = {**os.environ, "TOKEN": secret}
        told = [
            subprocess.run(
                ["bash", "-c", command.replace("http://localhost:8000/", served.url)], env=env, check=True, text=True,
                stdout=subprocess.PIPE, stderr=sys.stderr, timeout=30,
            ).stdout
            for command in rest
        ]  # fmt: skip
    (shown,) = [json.loads(text) for kind, text in found if kind == "json"]
    answer = json.loads(told[0])
    assert {name: answer[name] for name in shown} == shown
    assert told[2] == next(text for kind, text in found if kind == "ntriples")
