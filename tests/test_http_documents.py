"""What docs/http.md says of codes is what the code says."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SAID = (ROOT / "docs" / "http.md").read_text("utf-8")
MODULES = ("protocol", "query", "problem", "answer", "calling", "gate", "updating")


def test_every_code_in_the_document_is_one_that_is_sent() -> None:
    table = SAID[SAID.index("| status | code |") :]
    named = set(re.findall(r"`([a-z]+(?:-[a-z0-9]+)+|busy)`", table)) - {"answer-too-long-"}
    source = "".join((ROOT / "sparql" / "server" / f"{name}.py").read_text("utf-8") for name in MODULES)
    assert {code for code in named if f'"{code}"' not in source} == set()


def test_every_parameter_in_the_document_is_read() -> None:
    source = (ROOT / "sparql" / "server" / "protocol.py").read_text("utf-8")
    for name in re.findall(r"^\| `([a-z-]+)`", SAID, re.MULTILINE):
        assert f'"{name}"' in source, name
