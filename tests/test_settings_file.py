"""graphtide.toml: what it may say, and what is said back when it says something else."""

from __future__ import annotations

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphtide import keys
from graphtide.settings import Limits, Server, SettingsError, load, parse
from graphtide.toml_lines import key_lines


def refusal(text: str) -> str:
    with pytest.raises(SettingsError) as found:
        parse(text, Path("/nowhere"))
    return str(found.value)


def test_a_folder_without_settings_has_the_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path)
    assert (settings.base, settings.vocabulary, settings.merge, settings.sources) == (
        "http://localhost:8000/",
        "open",
        True,
        (),
    )
    assert settings.path is None and settings.state == tmp_path / ".graphtide"
    assert settings.limits.min_free_bytes == 256 * 2**20


def test_every_documented_default_is_the_default() -> None:
    for rows, made in ((keys.LIMITS, Limits()), (keys.SERVER, Server())):
        assert {row.name for row in rows} == {item.name for item in fields(made)}
        for row in rows:
            written = tomllib.loads(f"x = {row.default}")["x"] if row.default else None
            assert (None if written is None else keys.READ.get(row.kind, keys.choice(row.kind))(written)) == getattr(
                made, row.name
            ), row.name


def test_the_settings_of_the_example_are_read() -> None:
    settings = load(Path(__file__).resolve().parent.parent / "examples" / "webshop")
    assert settings.base == "https://webshop.example/"
    assert [source.name for source in settings.sources][:2] == ["services", "stores"]
    assert settings.line("sources", "stores", "map", 1, "class") == 48


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('bsae = "x"', "graphtide.toml:1: 'bsae' (= 'x') is not a key of the top of the file. Did you mean 'base'?"),
        (
            "[limits]\n\nsettle = 5",
            "graphtide.toml:3: 'settle' (= 5) is not a key of [limits]. Did you mean 'settle_ms'?",
        ),
        (
            '[limits]\nlock_seconds = "soon"',
            "graphtide.toml:2: 'limits.lock_seconds' is 'soon', which is not a duration."
            ' Write seconds such as 30, or "30s", "5m", "1h".',
        ),
        (
            'limits = { min_free_bytes = "much" }',
            "graphtide.toml:1: 'limits.min_free_bytes' is 'much', which is not a size."
            ' Write bytes such as 1048576, or "256MB", "2GiB".',
        ),
        (
            'vocabulary = "ajar"',
            "graphtide.toml:1: 'vocabulary' is 'ajar', which is not one of open, closed. Write \"open\" or \"closed\".",
        ),
        (
            'base = "https://x.example"',
            "graphtide.toml:1: 'base' is 'https://x.example', which must end in '/' or '#'.",
        ),
        ("base =", "graphtide.toml:1: 'base =' is not TOML: Invalid value. Write key = value."),
        ("merge = true\nmerge = false", "graphtide.toml:2: 'merge = false' is not TOML: Cannot overwrite a value."),
        ("[server]\nport = 80000", "graphtide.toml:2: 'server.port' is 80000, which is not a port."),
        ("[prefixes]\nshop = 'ns'", "graphtide.toml:2: 'prefixes.shop' is 'ns', which is not an absolute IRI."),
        ("[sources.a]\nkey = 'id'", "graphtide.toml:1: source 'a' has none of path, paths and source."),
        ("[sources.a]\npath = 'a'\npaths = ['b']", "graphtide.toml:1: source 'a' has both 'path' and 'paths'."),
        ("[sources.rule]\npath = 'a'", "graphtide.toml:1: the source name 'rule' is taken by Graphtide."),
        ("[sources.'a b']\npath = 'a'", "graphtide.toml:1: 'a b' cannot name a source."),
        (
            "[sources.a]\npath='a'\npython='x'",
            "'sources.a.python' is 'x', which does not name a file and a name in it.",
        ),
        ("[sources.a]\npath='a'\npython='x.py:y'\n[sources.a.map]\nclass='x'", "graphtide.toml:3: source 'a' has both"),
        ("[sources.a]\npath='a'\nkey=7", "graphtide.toml:3: 'sources.a.key' is 7, which is not a column or a list of"),
        ("[limits]\nworkers = 0", "graphtide.toml:2: 'limits.workers' is 0, which is not a whole number of 1 or more."),
        ("[limits]\nfuse_share = 20", "which is not a share from 0 to 1. Write a number such as 0.2."),
        ("sources = 3", "graphtide.toml:1: 'sources' is 3, which is not a table. Write a [sources] table."),
    ],
)
def test_a_wrong_setting_names_its_line_its_value_and_what_to_write(text: str, said: str) -> None:
    assert said in refusal(text)


@pytest.mark.parametrize(
    ("text", "line", "env"),
    [
        ("token = 'x'", 1, "GRAPHTIDE_TOKEN"),
        ("[server]\ntoken = 'x'", 2, "GRAPHTIDE_TOKEN"),
        ("\nopenai_api_key = 'x'", 2, "OPENAI_API_KEY"),
        ("[sources.pager]\nsource='p.py:P'\n[sources.pager.options]\nurl='u'\napi_key='x'", 5, "PAGER_API_KEY"),
        ("[sources.db]\nsource='p.py:P'\noptions={ dsn={ password='x' } }", 3, "DB_PASSWORD"),
        ("[sources.gh]\nsource='p.py:P'\ngithub_token='x'", 3, "GITHUB_TOKEN"),
    ],
)
def test_a_secret_in_the_settings_is_refused_with_the_variable_to_use(text: str, line: int, env: str) -> None:
    message = refusal(text)
    assert message.startswith(f"graphtide.toml:{line}: ") and message.endswith(f"environment variable {env}.")


def test_a_column_may_be_called_token() -> None:
    text = "[sources.a]\npath='a.csv'\n[sources.a.map]\nclass='x'\n[sources.a.map.columns]\ntoken='rdfs:label'"
    assert parse(text, Path("/")).sources[0].mapping["columns"] == {"token": "rdfs:label"}


def test_settings_that_are_not_utf8_name_the_line(tmp_path: Path) -> None:
    (tmp_path / "graphtide.toml").write_bytes(b"merge = true\n# caf\xe9\n")
    with pytest.raises(SettingsError, match=r"^graphtide.toml:2: is not UTF-8 \(byte 18\)\. Save the file as UTF-8\.$"):
        load(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no such folder"):
        load(tmp_path / "gone")


@pytest.mark.parametrize(
    ("value", "seconds"), [(5, 5.0), ("5m", 300.0), ("200ms", 0.2), ("1.5h", 5400.0), ("1d", 86400.0), ("30", 30.0)]
)
def test_durations_are_numbers_or_text_with_a_unit(value: object, seconds: float) -> None:
    assert keys.duration(value) == seconds


@pytest.mark.parametrize(
    ("value", "count"), [(5, 5), ("256MB", 256_000_000), ("256MiB", 2**28), ("2 GiB", 2**31), ("1kb", 1000), ("7", 7)]
)
def test_sizes_are_numbers_or_text_with_a_unit(value: object, count: int) -> None:
    assert keys.size(value) == count


def test_lines_are_found_past_multi_line_values() -> None:
    text = 'a = """\n[not.a.table]\nb = 1\n"""\nc = [\n  { x = 1 },\n  "[d]", # ]\n]\n'
    text += '[e.f]\n"g h" = 1\n[[e.k]]\n[[e.k]]\nl.m = 2\n'
    found = key_lines(text)
    assert found == {
        ("a",): 1,
        ("c",): 5,
        ("e",): 9,
        ("e", "f"): 9,
        ("e", "f", "g h"): 10,
        ("e", "k"): 11,
        ("e", "k", 0): 11,
        ("e", "k", 1): 12,
        ("e", "k", 1, "l"): 13,
        ("e", "k", 1, "l", "m"): 13,
    }


@given(st.text(alphabet="ab.\"'[]{}=#\n\\ 1,", max_size=80))
def test_any_text_is_settings_or_a_settings_error(text: str) -> None:
    try:
        parse(text, Path("/nowhere"))
    except SettingsError as wrong:
        assert str(wrong).startswith("graphtide.toml:")


def test_the_settings_page_is_what_the_code_says() -> None:
    page = Path(__file__).resolve().parent.parent / "docs" / "settings.md"
    assert page.read_text("utf-8") == keys.reference(), "Write it again: python -m graphtide.reference"
