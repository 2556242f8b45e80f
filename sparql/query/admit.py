"""What is no query never reaches the engine, and what stays inside this store is read off the tree, not the letters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from pyoxigraph import Store

from sparql.query.casts import CASTS
from sparql.syntax import Query, SyntaxProblem, parse, place, services, text
from sparql.syntax.tree import Prefix
from sparql.syntax.updates import VERBS

NO_PREFIXES: Mapping[str, str] = MappingProxyType({})
_SERVICE = re.compile(r"service", re.IGNORECASE)
_PLACE = re.compile(r"error at (\d+):(\d+): ?(.*)", re.DOTALL)
# The engine lists what it expected as character classes of its grammar: noise to a person.
_CLASS = re.compile(r"\[(?:[^\[\]'\"]|'(?:\\.|[^'\\])[^']*')*\](?:\s*,\s*)?", re.DOTALL)
_SIGNS = ("{", "}", "(", ")", ".", ";", ",")
NO_SERVICE = (
    "SERVICE is not allowed: it would send parts of the graph to another server. "
    "Bring that data in as a source instead."
)


class Refused(ValueError):
    """A text that is not a query we run: `message` says why, `line` and `column` (from 1) where, 0 when unknown.

    `token` is what stands there, "" when unknown.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, token: str = "") -> None:
        super().__init__(message)
        self.message, self.line, self.column, self.token = message, line, column, token


def admit(query: str, prefixes: Mapping[str, str], base: str | None, *, calls_out: bool = False) -> Query:
    """The query's tree. Raises Refused for what is no query, and for SERVICE unless it `calls_out`."""
    tree = _read(query, prefixes, base)
    if not calls_out:
        _stays_inside(tree, query, prefixes, base)
    return tree


def ask_engine(store: Store, query: str, prefixes: Mapping[str, str], base: str | None, **options: Any) -> Any:
    """The engine's answer to an admitted query. Raises SyntaxError where it reads the text in neither spelling.

    It takes no `e:J._K`, no `CONCAT (`, no `BNODE ()`, which are right: printed back from the tree it reads them.
    """
    options["custom_functions"] = CASTS
    try:
        return store.query(query, base_iri=base, prefixes=dict(prefixes), **options)
    except SyntaxError:
        respelled = text(admit(query, prefixes, base))
        try:
            return store.query(respelled, base_iri=base, **options)
        except SyntaxError:
            pass
        raise  # the first one, whose place is in the text as it was written


def declared_prefixes(tree: Query) -> dict[str, str]:
    """The prefixes a query declares in its prologue."""
    return {one.name: one.iri for one in tree.prologue if isinstance(one, Prefix)}


def _read(query: str, prefixes: Mapping[str, str], base: str | None) -> Query:
    try:
        tree = parse(query, prefixes=prefixes, base=base, only="query")
    except SyntaxProblem as wrong:
        raise _refused(wrong) from None
    assert isinstance(tree, Query)
    return tree


def _refused(wrong: SyntaxProblem) -> Refused:
    message, verb = wrong.message, wrong.token.upper()
    if verb in VERBS and message.startswith(f"{verb} is an update"):
        message = (
            f"{verb} is an update, and this is the query path: it cannot change the graph. "
            "Send it as an update, or change the source the fact comes from."
        )
    return Refused(message, wrong.line, wrong.column, wrong.token)


def _stays_inside(tree: Query, query: str, prefixes: Mapping[str, str], base: str | None) -> None:
    """Raise Refused when the query calls another endpoint: a SERVICE would really post from this machine."""
    found = services(tree)
    if found:
        raise Refused(NO_SERVICE, *place(query, found[0].span[0]), "SERVICE")
    if _SERVICE.search(query) is None:
        return
    # The engine reads no tokens but letters, so it is asked as well: misspelled everywhere, the word still parses
    # inside IRIs, strings, comments, prefixes and variables, and does not as a keyword.
    misspelled = _SERVICE.sub(lambda m: m.group()[:-1] + ("f" if m.group()[-1] == "e" else "F"), query)
    renamed = {_SERVICE.sub("servicf", name): iri for name, iri in prefixes.items()} | dict(prefixes)
    try:
        # Without rows no pattern is evaluated, whatever it would cost.
        Store().query(misspelled, prefixes=renamed, base_iri=base, default_graph=[], named_graphs=[])
    except SyntaxError as wrong:
        # It holds a SERVICE that we do not see, or something else that the engine does not read: neither is run.
        raise _by_engine(query, str(wrong.msg or wrong)) from None
    except (RuntimeError, ValueError):
        return  # it parsed


def syntax_error(
    query: str, message: str, prefixes: Mapping[str, str] = NO_PREFIXES, base: str | None = None
) -> Refused:
    """What is wrong with a query the engine refused with this message, in words a person can use."""
    try:
        _read(query, prefixes, base)
    except Refused as wrong:
        if "is not declared" not in wrong.message or "Prefix not found" in message:
            return wrong
    return _by_engine(query, message)


def _by_engine(query: str, message: str) -> Refused:
    found = _PLACE.match(message)
    if not found:
        return Refused(message or "not a SPARQL query")
    line, column, said = int(found.group(1)), int(found.group(2)), found.group(3)
    near = _text_after(query, line, column)
    where = f"at {near!r}" if near else "at the end"
    return Refused(f"Not understood {where}: {_expected(said)}.", line, column, near)


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


def _text_after(query: str, line: int, column: int) -> str:
    lines = query.split("\n")
    found = re.match(r"\s*(\S{1,30})", lines[line - 1][column - 1 :]) if 0 < line <= len(lines) else None
    return found.group(1) if found else ""
