"""A table of `graphtide.toml` comes or goes, and every other line, comments and order included, is as it was."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from .settings import FILE

_HEADER = re.compile(r"\s*\[")


class CannotEdit(ValueError):
    """The file is written in a way that cannot be changed here: `str()` says what to do by hand."""


def with_source(text: str, name: str, table: Mapping[str, Any]) -> str:
    """`text` with `[sources.NAME]` after all else. Raises CannotEdit."""
    new = f"{text.rstrip()}\n\n" if text.strip() else ""
    new += rendered(name, table)
    wanted = _read(text)
    wanted.setdefault("sources", {})[name] = dict(table)
    return _checked(new, wanted, name, "Add")


def without_source(text: str, name: str) -> str:
    """`text` without `[sources.NAME]`, its subtables and the comment right above it. Raises CannotEdit."""
    wanted = _read(text)
    del wanted["sources"][name]
    if not wanted["sources"]:
        del wanted["sources"]
    lines = _without_lines(text, name)
    if lines is not None and _same(lines, wanted):
        return lines
    try:
        document = tomlkit.parse(text)
        sources: Any = document["sources"]
        del sources[name]
        return _checked(document.as_string(), wanted, name, "Remove")
    except (TOMLKitError, KeyError, TypeError) as wrong:
        raise CannotEdit(f"{FILE} names {name!r} in a way that cannot be changed here. Remove it by hand.") from wrong


def rendered(name: str, table: Mapping[str, Any]) -> str:
    """`[sources.NAME]` as it stands in the file. Raises CannotEdit for a value that TOML has no word for."""
    document = tomlkit.document()
    sources = tomlkit.table(is_super_table=True)
    try:
        sources.append(name, tomlkit.item(dict(table)))
        document.append("sources", sources)
        return document.as_string().rstrip() + "\n"
    except (TOMLKitError, ValueError, TypeError) as wrong:
        raise CannotEdit(f"{name!r} cannot be written as TOML: {wrong}.") from wrong


def _without_lines(text: str, name: str) -> str | None:
    """The text without the lines of the source's tables; None when no line opens one."""
    mine = re.compile(
        rf"\s*\[\[?\s*(?:sources|\"sources\")\s*\.\s*(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')\s*[.\]]"
    )
    lines = text.splitlines(keepends=True)
    kept: list[str] = []
    found = inside = False
    taken: list[str] = []
    for line in lines:
        if _HEADER.match(line):
            ours = mine.match(line) is not None
            if ours and not inside:
                while kept and kept[-1].lstrip().startswith("#"):  # what is right above the table is about it
                    kept.pop()
            elif inside and not ours:
                kept += _above(taken)
            if inside and ours:
                taken.clear()
            inside, found = ours, found or ours
            taken = [] if ours else taken
        if inside:
            taken.append(line)
        else:
            kept.append(line)
    if not found:
        return None
    return "".join(kept).rstrip() + "\n" if "".join(kept).strip() else ""


def _above(taken: list[str]) -> list[str]:
    """The comments at the end of a removed table, which are about what follows it."""
    place = len(taken)
    while place > 1 and (not taken[place - 1].strip() or taken[place - 1].lstrip().startswith("#")):
        place -= 1
    left = taken[place:]
    while left and not left[0].strip():
        left.pop(0)
    return left


def _read(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def _same(text: str, wanted: Mapping[str, Any]) -> bool:
    try:
        found = _read(text)
    except tomllib.TOMLDecodeError:
        return False
    if not found.get("sources", True):
        del found["sources"]
    return found == wanted


def _checked(text: str, wanted: Mapping[str, Any], name: str, do: str) -> str:
    if not _same(text, wanted):
        raise CannotEdit(f"{FILE} is written in a way that cannot be changed here. {do} {name!r} by hand.")
    return text
