"""tomllib does not say on which line a key stands, so the text is scanned once more for the message to name it."""

from __future__ import annotations

import re

Where = tuple[str | int, ...]

_PART = r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'"""
_DOTTED_KEY = re.compile(rf"\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*")
_INLINE_KEY = re.compile(rf"[{{,]\s*((?:{_PART})(?:\s*\.\s*(?:{_PART}))*)\s*=")


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part[1:-1] if part[0] in "\"'" else part for part in re.findall(_PART, dotted))


def key_lines(text: str) -> dict[Where, int]:
    """The line on which each key and table starts. tomllib does not tell, so the text is scanned."""
    lines: dict[Where, int] = {}
    counts: dict[Where, int] = {}
    table: Where = ()
    depth, quote = 0, ""

    def resolve(parts: tuple[str, ...]) -> Where:
        path: Where = ()
        for part in parts:
            path = (*path, part)
            if path in counts:
                path = (*path, counts[path])
        return path

    for number, line in enumerate(text.splitlines(), 1):
        if not quote and depth == 0:
            start = line.lstrip()
            if start.startswith("["):
                array = start.startswith("[[")
                found = _DOTTED_KEY.match(start, 2 if array else 1)
                if found:
                    parts = _parts(found.group(1))
                    if array:
                        owner = (*resolve(parts[:-1]), parts[-1])
                        counts[owner] = counts.get(owner, -1) + 1
                    table = resolve(parts)
                    for end in range(1, len(table) + 1):
                        lines.setdefault(table[:end], number)
                continue
            found = _DOTTED_KEY.match(line)
            if found and line[found.end() :].startswith("="):
                path = table
                for part in _parts(found.group(1)):
                    path = (*path, part)
                    lines.setdefault(path, number)
                for inner in _INLINE_KEY.finditer(line, found.end()):
                    lines.setdefault((*path, *_parts(inner.group(1))), number)
                line = line[found.end() :]
        depth, quote = _after(line, depth, quote)
    return lines


def _after(line: str, depth: int, quote: str) -> tuple[int, str]:
    """How many brackets, and which multi-line quote, are open at the end of the line."""
    at = 0
    while at < len(line):
        if quote:
            end = line.find(quote, at)
            if end < 0:
                return depth, quote if len(quote) == 3 else ""
            if quote[0] == '"' and end > 0 and line[end - 1] == "\\":
                at = end + 1
                continue
            at, quote = end + len(quote), ""
            continue
        char = line[at]
        if char == "#":
            break
        if char in "\"'":
            quote = line[at : at + 3] if line[at : at + 3] in ('"""', "'''") else char
            at += len(quote)
            continue
        depth += (char in "[{") - (char in "]}")
        at += 1
    return depth, quote if len(quote) == 3 else ""
