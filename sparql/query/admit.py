"""Whether a text is a query that stays inside this store is the engine's own parser to decide, not a second grammar."""

from __future__ import annotations

import re

from pyoxigraph import Store

_SERVICE = re.compile(r"service", re.IGNORECASE)
_PROLOGUE = re.compile(
    r"(?:\s+|#[^\n\r]*|BASE\s*<[^<>\"{}|^`\\\s]*>|PREFIX\s*[^\s:]*:\s*<[^<>\"{}|^`\\\s]*>|VERSION\s*(?:\"[^\"]*\"|'[^']*'))*",
    re.IGNORECASE,
)
_DECLARED = re.compile(r"#[^\n\r]*|PREFIX\s*([^\s:]*):\s*<([^<>\"{}|^`\\\s]*)>|<[^<>\s]*>", re.IGNORECASE)
_UPDATES = re.compile(r"(INSERT|DELETE|LOAD|CLEAR|CREATE|DROP|COPY|MOVE|ADD|WITH)\b", re.IGNORECASE)
_PLACE = re.compile(r"error at (\d+):(\d+): ?(.*)", re.DOTALL)
# The engine lists what it expected as character classes of its grammar: noise to a person.
_CLASS = re.compile(r"\[(?:[^\[\]'\"]|'(?:\\.|[^'\\])[^']*')*\](?:\s*,\s*)?", re.DOTALL)


_SIGNS = ("{", "}", "(", ")", ".", ";", ",")


class Refused(ValueError):
    """A text that is not a query we run: `message` says why, `line` and `column` (from 1) where, 0 when unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def declared_prefixes(query: str) -> dict[str, str]:
    """The prefixes a query declares in its prologue."""
    prologue = _PROLOGUE.match(query)
    return dict(pair for pair in _DECLARED.findall(prologue.group()) if pair[1]) if prologue else {}


def syntax_error(query: str, message: str) -> Refused:
    """What the engine's syntax error says, in words a person can use."""
    prologue = _PROLOGUE.match(query)
    start = prologue.end() if prologue else 0
    update = _UPDATES.match(query, start)
    if update:
        line, column = _line_and_column(query, start)
        return Refused(
            f"{update.group(1).upper()} is an update, and this is the query path: it cannot change the graph. "
            "Change the source the fact comes from.",
            line,
            column,
        )
    found = _PLACE.match(message)
    if not found:
        return Refused(message or "not a SPARQL query")
    line, column, said = int(found.group(1)), int(found.group(2)), found.group(3)
    if start >= len(query):
        return Refused("The query is empty. Write for example SELECT * WHERE { ?s ?p ?o } LIMIT 10.", line, column)
    if "Prefix not found" in said:
        name = re.search(r"([^\s<>{}();,.|/^!*+?=\[\]\"']*):[^\s:]*$", _text_before(query, line, column))
        prefix = f"{name.group(1)}:" if name else "a prefix"
        column = name.start(1) + 1 if name else column
        return Refused(
            f"{prefix} is not declared. Add PREFIX {prefix} <...> at the start or under [prefixes] in graphtide.toml.",
            line,
            column,
        )
    near = _text_after(query, line, column)
    where = f"at {near!r}" if near else "at the end"
    return Refused(f"Not understood {where}: {_expected(said)}.", line, column)


def _expected(said: str) -> str:
    """The engine's list of what it expected, short: its own sentences, else words and brackets, eight at most."""
    listed = re.sub(r"\s+", " ", _CLASS.sub("", said)).strip(" ,").removeprefix("expected ").removeprefix("one of ")
    found = [item.strip() for item in re.split(r', (?=["A-Za-z])', listed) if item.strip()]
    sentences = [item for item in found if " " in item and not item.startswith('"')]
    if sentences:
        return "; ".join(sentences)
    words = [item for item in found if not item.startswith('"')] + [item for item in found if item[1:-1] in _SIGNS]
    if not words:
        return "the query is not complete here"
    more = ", ..." if len(words) > 8 else ""
    return ("expected one of " if len(words) > 1 else "expected ") + ", ".join(words[:8]) + more


def refuse_service(query: str, prefixes: dict[str, str], base: str | None) -> None:
    """Raise Refused when the query calls another endpoint: a SERVICE would really post from this machine.

    The engine's parser is the judge: misspelled everywhere, the word still parses inside IRIs, strings, comments,
    prefixes and variables, and does not as a keyword. A lexer of our own would take `?x<5)SERVICE#>` for an IRI.
    """
    found = _SERVICE.search(query)
    if found is None:
        return
    misspelled = _SERVICE.sub(lambda m: m.group()[:-1] + ("f" if m.group()[-1] == "e" else "F"), query)
    renamed = {_SERVICE.sub("servicf", name): iri for name, iri in prefixes.items()} | prefixes
    try:
        Store().query(misspelled, prefixes=renamed, base_iri=base)
    except SyntaxError as wrong:
        place = _PLACE.match(str(wrong))
        line, column = (int(place.group(1)), int(place.group(2))) if place else _line_and_column(query, found.start())
        raise Refused(
            "SERVICE is not allowed: it would send parts of the graph to another server. "
            "Bring that data in as a source instead.",
            line,
            column,
        ) from None


def _line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


def _text_before(query: str, line: int, column: int) -> str:
    lines = query.split("\n")
    return lines[line - 1][: column - 1] if 0 < line <= len(lines) else ""


def _text_after(query: str, line: int, column: int) -> str:
    lines = query.split("\n")
    found = re.match(r"\s*(\S{1,30})", lines[line - 1][column - 1 :]) if 0 < line <= len(lines) else None
    return found.group(1) if found else ""
