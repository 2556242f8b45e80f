"""A user's own Python: loaded by path, hashed with what it imports, told by file and line when it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from graphtide.load import LoadError, UserCode


@pytest.fixture
def code(tmp_path: Path) -> Iterator[UserCode]:
    (tmp_path / "mappings").mkdir()
    made = UserCode(tmp_path)
    yield made
    made.close()


def write(code: UserCode, name: str, text: str) -> None:
    path = code.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_function_is_found_by_file_and_name(code: UserCode) -> None:
    write(code, "mappings/people.py", "def person(): return 7")
    path, modules = list(sys.path), set(sys.modules)
    assert code.named("mappings/people.py:person")() == 7
    assert sys.path == path
    assert all(name.startswith("_graphtide_user_") for name in set(sys.modules) - modules)


def test_a_file_named_like_a_room_hides_nothing(code: UserCode) -> None:
    write(code, "sources.py", "mine = True")
    write(code, "sparql/__init__.py", "mine = True")
    assert code.named("sources.py:mine") and code.named("sparql/__init__.py:mine")
    import sources

    assert not hasattr(sources, "mine")


def test_a_version_covers_every_module_that_is_imported(code: UserCode) -> None:
    write(code, "mappings/people.py", "from .names import slug\nfrom ..shared import text\ndef person(): return slug")
    write(code, "mappings/names.py", "from ..shared.deep import x\nslug = 1")
    write(code, "shared/__init__.py", "")
    write(code, "shared/text.py", "")
    write(code, "shared/deep.py", "x = 1")
    write(code, "mappings/other.py", "")
    assert code.named("mappings/people.py:person")() == 1
    versions = {code.version("mappings/people.py")}
    for name in ("mappings/people.py", "mappings/names.py", "shared/__init__.py", "shared/text.py", "shared/deep.py"):
        write(code, name, (code.root / name).read_text() + "\n# another")
        versions.add(code.version("mappings/people.py"))
    assert len(versions) == 6
    write(code, "mappings/other.py", "# another")
    assert code.version("mappings/people.py") in versions


def test_a_replacement_of_the_same_size_and_time_is_seen(code: UserCode) -> None:
    import os

    path = code.root / "m.py"
    path.write_text("x = 1")
    os.utime(path, (1, 1))
    assert code.named("m.py:x") == 1
    path.write_text("x = 2")
    os.utime(path, (1, 1))
    again = UserCode(code.root)
    assert again.named("m.py:x") == 2
    again.close()
    assert not (code.root / "__pycache__").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import os\n1 / 0\n", "mappings/a.py:2: ZeroDivisionError: division by zero."),
        ("def f(:\n", "mappings/a.py:1: SyntaxError: invalid syntax."),
        ("from .gone import x\n", "mappings/a.py:1: ModuleNotFoundError: No module named "),
        ("import beside\n", "It lies in your folder: write `from .beside import ...`."),
        ("import shared.deep\n", "It lies in your folder: write `from ..shared import ...`."),
        ("import surely_not_installed\n", "Install it beside Graphtide."),
        ("fone = 1\n", "mappings/a.py: there is no 'one' in this file. Did you mean 'fone'?"),
    ],
)
def test_an_error_in_user_code_names_its_file_and_line(code: UserCode, text: str, said: str) -> None:
    write(code, "mappings/a.py", text)
    write(code, "mappings/beside.py", "")
    write(code, "shared/deep.py", "")
    with pytest.raises(LoadError) as found:
        code.named("mappings/a.py:one")
    assert said in str(found.value)


def test_a_file_outside_the_folder_is_refused(code: UserCode, tmp_path: Path) -> None:
    for name in ("gone.py", "../other.py"):
        with pytest.raises(LoadError, match="there is no such file|lies outside"):
            code.named(f"{name}:x")
