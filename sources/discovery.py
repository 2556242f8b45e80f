"""Discovery takes what is plainly data and says why it left the rest; it opens nothing but ignore files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

from sources.formats import format_of, may_be_secret
from sources.limits import MIB, Limits, size
from sources.patterns import SKIPPED, spellable
from sources.record import SourceError

_IGNORE_FILES = (".gitignore", ".graphtideignore")
_SETTINGS = frozenset({"graphtide.toml", *_IGNORE_FILES})
_LOCK_FILES = frozenset({"package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "composer.lock"})


@dataclass(frozen=True, slots=True)
class Discovery:
    """What was found below a folder, in order of path: (path, format) of what is data, (path, reason) of the rest.

    A folder that was not looked into ends in `/` and stands for everything in it.
    """

    taken: tuple[tuple[str, str], ...]
    skipped: tuple[tuple[str, str], ...]


def discover(root: Path, limits: Limits | None = None) -> Discovery:
    """Look through `root`. Raises SourceError when it cannot be read; a folder below it that cannot is skipped.

    `.gitignore` and `.graphtideignore` hold from the folder they are in; the second overrules the first. Files of
    unknown ending, hidden ones, and what may be a secret are skipped. A link to a file inside is taken, any other not.
    """
    limits = limits or Limits()
    taken: list[tuple[str, str]] = []
    skipped: list[tuple[str, str]] = []
    real = os.path.realpath(root)
    todo: list[tuple[str, tuple[tuple[str, GitIgnoreSpec], ...]]] = [("", ())]
    while todo:
        folder, rules = todo.pop()
        try:
            with os.scandir(root / folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as wrong:
            if not folder:
                raise SourceError(f"'{root}' cannot be read: {wrong.strerror}. Name a folder.") from wrong
            skipped.append((folder, f"cannot be read: {wrong.strerror}"))
            continue
        names = {entry.name for entry in entries}
        rules += _rules(root, folder, names, skipped)
        for entry in entries:
            path = folder + entry.name
            if not spellable(entry.name):
                shown = os.fsencode(path).decode("utf-8", "backslashreplace")
                skipped.append((shown, "its name is not UTF-8"))
                continue
            if entry.is_dir(follow_symlinks=False):
                reason = _folder_reason(entry) or _ignored(path + "/", rules)
                if reason:
                    skipped.append((path + "/", reason))
                else:
                    todo.append((path + "/", rules))
                continue
            reason = _file_reason(entry, path, real, limits) or _ignored(path, rules)
            format = format_of(path)
            if reason:
                if entry.name not in _SETTINGS:
                    skipped.append((path, reason))
            elif format is not None:
                taken.append((path, format))
    return Discovery(tuple(sorted(taken)), tuple(sorted(skipped)))


def _folder_reason(entry: os.DirEntry[str]) -> str:
    name = entry.name
    if name == ".graphtide":
        return "Graphtide's own state"
    if name in SKIPPED:
        return "installed or generated code"
    if os.path.exists(os.path.join(entry.path, "pyvenv.cfg")) or os.path.isdir(os.path.join(entry.path, "conda-meta")):
        return "a virtual environment"
    return "hidden" if name.startswith(".") else ""


def _file_reason(entry: os.DirEntry[str], path: str, real: str, limits: Limits) -> str:
    name = entry.name
    if may_be_secret(name):
        return "may hold secrets; name it in graphtide.toml to read it"
    if name.startswith("."):
        return "hidden"
    if name in _SETTINGS:
        return "settings"
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if target != real and not target.startswith(real + os.sep):
            return f"a link that leaves the folder, to {target}"
        if os.path.isdir(target):
            return "a link to a folder, which is looked into where it lies"
        if not os.path.exists(target):
            return "a link to nothing"
        inner = os.path.relpath(target, real).split(os.sep)
        if may_be_secret(inner[-1]) or any(part.startswith(".") or part in SKIPPED for part in inner[:-1]):
            return "a link into what is skipped"
    if format_of(path) is None:
        return "no format Graphtide knows by its ending"
    if name.startswith(("~$", "#")) or name in _LOCK_FILES:
        return "a lock file"
    try:
        found = entry.stat()
    except OSError as wrong:
        return f"cannot be read: {wrong.strerror}"
    if not os.path.isfile(entry.path):
        return "not a regular file"
    if found.st_size > limits.max_file_bytes:
        return f"{size(found.st_size)}, over max_file_bytes ({size(limits.max_file_bytes)})"
    return "" if os.access(entry.path, os.R_OK) else "cannot be read: Permission denied"


def _rules(
    root: Path, folder: str, names: set[str], skipped: list[tuple[str, str]]
) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    """The folder's own rules, those that overrule last."""
    found = []
    for name in _IGNORE_FILES:
        if name not in names:
            continue
        try:
            with open(root / folder / name, encoding="utf-8", errors="replace") as file:
                lines = file.read(MIB).splitlines()
        except OSError as wrong:
            skipped.append((folder + name, f"its rules cannot be read: {wrong.strerror}"))
            continue
        good = []
        for number, line in enumerate(lines, 1):
            try:
                GitIgnoreSpec.from_lines([line])
            except ValueError:
                skipped.append((f"{folder}{name}", f"line {number} is no rule: {line!r}"))
                continue
            good.append(line)
        found.append((folder, GitIgnoreSpec.from_lines(good)))
    return tuple(found)


def _ignored(path: str, rules: tuple[tuple[str, GitIgnoreSpec], ...]) -> str:
    """Why the rules ignore a path whose folders they do not; a folder's path ends in `/`."""
    for folder, spec in reversed(rules):
        name = path[len(folder) :]
        for pattern in reversed(list(spec.patterns)):
            if pattern.include is not None and pattern.regex and _matches(pattern.regex, name):
                return f"ignored by the rules in {folder or 'this folder'}" if pattern.include else ""
    return ""


def _matches(regex: re.Pattern[str], name: str) -> bool:
    # pathspec lets a rule for a folder decide about what is in it; in git the rule decides about the folder alone, so
    # that `*.csv` here still ignores what `!sub/` elsewhere lets in (test_the_rules_are_those_of_git).
    found = regex.match(name)
    if found is None:
        return False
    mark = found.end("ps_d") if "ps_d" in regex.groupindex else -1
    if mark >= 0:
        return mark == len(name)
    return not (name.endswith("/") and found.end() == len(name))  # `sub/**` is what is in sub, not sub
