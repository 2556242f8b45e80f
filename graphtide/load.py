"""A user's own Python is loaded by file path, under names nobody else can import, and never through `sys.path`."""

from __future__ import annotations

import ast
import difflib
import hashlib
import importlib
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

_PREFIX = "_graphtide_user_"
_numbers = itertools.count()


class LoadError(ValueError):
    """A user's Python file cannot be used: `str()` names file, line and reason."""


class UserCode:
    """The Python files of one folder, loaded once each until `close`; a new one reads every file anew."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.package = f"{_PREFIX}{next(_numbers)}"
        module = ModuleType(self.package)
        module.__path__ = [str(self.root)]
        sys.modules[self.package] = module
        if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
            sys.meta_path.insert(0, _Finder())

    def named(self, reference: str) -> Any:
        """What `folder/file.py:name` names. Raises LoadError with file and line."""
        file, _, name = reference.partition(":")
        module = self.module(file)
        try:
            return getattr(module, name)
        except AttributeError:
            near = difflib.get_close_matches(name, [item for item in vars(module) if not item.startswith("_")], 1, 0.5)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise LoadError(f"{file}: there is no {name!r} in this file.{hint}") from None

    def module(self, file: str) -> ModuleType:
        """The module of a file, by its path in the folder."""
        path = (self.root / file).resolve()
        if not path.is_file():
            raise LoadError(f"{file}: there is no such file in {self.root}.")
        try:
            inside = path.relative_to(self.root)
        except ValueError:
            raise LoadError(f"{file}: lies outside {self.root}. Move it into the folder.") from None
        if any("." in part for part in (*inside.parts[:-1], inside.stem)):
            raise LoadError(f"{file}: a Python file's path may hold no dot but that of '.py'. Rename it.")
        try:
            return importlib.import_module(".".join((self.package, *inside.parts[:-1], inside.stem)))
        except (Exception, SystemExit) as wrong:  # a user's code
            raise LoadError(self.told(wrong, file)) from wrong

    def told(self, wrong: BaseException, file: str) -> str:
        """An exception of the user's code as `file:line: Kind: message`, the line being the deepest one of theirs."""
        place = f"{file}"
        if isinstance(wrong, SyntaxError) and wrong.filename:
            place = f"{self._inside(wrong.filename) or file}:{wrong.lineno}"
            return f"{place}: {type(wrong).__name__}: {wrong.msg}."
        for frame in traceback.extract_tb(wrong.__traceback__):
            inside = self._inside(frame.filename)
            if inside:
                place = f"{inside}:{frame.lineno}"
        message = f"{place}: {type(wrong).__name__}: {wrong}".rstrip(".: ") + "."
        if isinstance(wrong, ModuleNotFoundError) and wrong.name:
            top = wrong.name.split(".")[0]
            beside = (self.root / file).parent / top
            for folder, dots in ((beside, "."), (self.root / top, "." * len(Path(file).parts))):
                if folder.is_dir() or folder.with_suffix(".py").is_file():
                    return f"{message} It lies in your folder: write `from {dots}{wrong.name} import ...`."
            return f"{message} Install it beside Graphtide."
        return message

    def files(self, file: str) -> list[Path]:
        """The file and every project module it imports, directly or not, sorted."""
        found: set[Path] = set()
        todo = [(self.root / file).resolve()]
        while todo:
            path = todo.pop()
            if path in found or not path.is_file():
                continue
            found.add(path)
            todo += _imported(path, self.root)
        return sorted(found)

    def version(self, file: str) -> str:
        """A hash of the file and of every project module it imports."""
        digest = hashlib.sha256()
        for path in self.files(file):
            digest.update(f"{path.relative_to(self.root)}\0".encode() + path.read_bytes() + b"\0")
        return digest.hexdigest()[:16]

    def close(self) -> None:
        for name in [name for name in sys.modules if name == self.package or name.startswith(self.package + ".")]:
            del sys.modules[name]

    def _inside(self, filename: str) -> str | None:
        try:
            return str(Path(filename).resolve().relative_to(self.root))
        except ValueError:
            return None


class _Loader(SourceFileLoader):
    """Compiles the text each time: a cached .pyc is trusted by time and size, which a quick replacement keeps."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return compile(self.get_data(path), path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PREFIX) or path is None:
            return None
        tail = fullname.rpartition(".")[2]
        for entry in path:
            folder, module = Path(entry) / tail, Path(entry) / f"{tail}.py"
            init = folder / "__init__.py"
            if module.is_file():
                return importlib.util.spec_from_file_location(fullname, module, loader=_Loader(fullname, str(module)))
            if init.is_file():
                return importlib.util.spec_from_file_location(
                    fullname, init, loader=_Loader(fullname, str(init)), submodule_search_locations=[str(folder)]
                )
            if folder.is_dir():
                spec = ModuleSpec(fullname, None, is_package=True)
                spec.submodule_search_locations = [str(folder)]
                return spec
        return None


def _imported(path: Path, root: Path) -> Iterator[Path]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return
    folder = path.parent
    while folder != root and root in folder.parents:
        yield folder / "__init__.py"
        folder = folder.parent
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            start = path.parent
            for _ in range(node.level - 1):
                start = start.parent
            if root != start and root not in start.parents:
                continue
            for part in (node.module or "").split(".") if node.module else ():
                start = start / part
                yield start / "__init__.py"
            yield start.with_suffix(".py") if node.module else start / "__init__.py"
            for alias in node.names:
                yield start / f"{alias.name}.py"
                yield start / alias.name / "__init__.py"
