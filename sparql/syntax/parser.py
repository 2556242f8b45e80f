"""What `parse` takes for a query the engine takes too, and what it cannot read need never reach the engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Literal as Either

from sparql.syntax import scope
from sparql.syntax.iris import absolute
from sparql.syntax.problem import SyntaxProblem, place
from sparql.syntax.queries import FORMS, query
from sparql.syntax.tokens import DEPTH, LINKS, Scanner
from sparql.syntax.tree import Base, Operation, Prefix, Prologue, Query, Step, Update, Version
from sparql.syntax.updates import VERBS, operation

NOTHING: Mapping[str, str] = MappingProxyType({})
# A kept tree costs about twenty times its text: 40 MB when every one is as long as may be, 5 MB as queries are.
KEPT, KEPT_LENGTH = 512, 4096
_FORM = re.compile(r"\b(?:PREFIX|SELECT|CONSTRUCT|DESCRIBE|ASK)\b[^{<]{0,200}+[{<]", re.IGNORECASE)


def parse(
    text: str,
    *,
    prefixes: Mapping[str, str] = NOTHING,
    base: str | None = None,
    only: Either["query", "update"] | None = None,
    depth: int = DEPTH,
    links: int = LINKS,
) -> Query | Update:
    """The tree of a query or an update; `prefixes` and `base` hold where the text declares none.

    Raises SyntaxProblem with line, column and token, and with a named limit for what nests deeper than `depth`, or
    has more than `links` patterns and operators. With `only`, the other kind is a problem, said in words. Texts
    parsed before are remembered.
    """
    if len(text) > KEPT_LENGTH:
        return _parse(text, prefixes, base, only, depth, links)
    return _known(text, tuple(prefixes.items()), base, only, depth, links)


@lru_cache(KEPT)
def _known(
    text: str, prefixes: tuple[tuple[str, str], ...], base: str | None, only: str | None, depth: int, links: int
) -> Query | Update:
    return _parse(text, dict(prefixes), base, only, depth, links)


def _parse(
    text: str, prefixes: Mapping[str, str], base: str | None, only: str | None, depth: int, links: int
) -> Query | Update:
    scanner = Scanner(text, prefixes, base, depth, links)
    try:
        found = _unit(scanner, only)
        if scanner.scoped:
            scope.check(found, text)
    except RecursionError:
        message = "Brackets lie too deep in each other here (limit: depth). Write it flatter."
        raise SyntaxProblem(message, limit="depth") from None
    return found


def _unit(s: Scanner, only: str | None) -> Query | Update:
    opening = prologue(s)
    if s.kind in FORMS:
        if only == "update":
            s.stop(f"{s.kind} is a query, and an update is expected here: INSERT, DELETE, LOAD, CLEAR or the like.")
        return query(s, opening)
    if s.kind in VERBS or (s.kind == "end" and only != "query"):
        if only == "query":
            s.stop(f"{s.kind} is an update, and a query is expected here: SELECT, CONSTRUCT, DESCRIBE or ASK.")
        return _update(s, opening)
    if s.kind == "end":
        s.stop("The query is empty. Write for example SELECT * WHERE { ?s ?p ?o } LIMIT 10.")
    if only == "update":
        s.unknown_word("expected an operation: INSERT, DELETE, LOAD, CLEAR or the like", (*VERBS, "PREFIX", "BASE"))
    found = _FORM.search(s.text, s.end)
    if found:
        s.fail(f"leave out what stands before {found[0].split()[0]}, in line {place(s.text, found.start())[0]}")
    s.unknown_word("expected SELECT, CONSTRUCT, DESCRIBE or ASK", (*FORMS, *VERBS, "PREFIX", "BASE"))


def _update(s: Scanner, opening: Prologue) -> Update:
    """Operations between semicolons, each behind its own prologue."""
    start = min(opening[0].span[0] if opening else s.start, s.last)
    steps: list[Step] = []
    while True:
        began = opening[0].span[0] if opening else s.start
        done: Operation | None = None
        if s.kind in VERBS:
            done = operation(s)
        if done is not None or opening:
            steps.append(Step(opening, done, (began, s.last)))
        if s.kind == "end":
            break
        if done is None:
            s.unknown_word("expected an operation: INSERT, DELETE, LOAD, CLEAR or the like", VERBS)
        s.expect(";", "between two operations")
        opening = prologue(s)
        if s.kind == "end" and not opening:
            break
    return Update(tuple(steps), (start, s.last))


def prologue(s: Scanner) -> Prologue:
    """BASE, PREFIX and VERSION; what they declare holds from here on."""
    found: list[Base | Prefix | Version] = []
    while True:
        start, kind = s.start, s.kind
        if kind == "PREFIX":
            s.next()
            if s.kind != "pname" or not s.value.endswith(":") or s.value.count(":") != 1:
                s.fail("expected a prefix with its colon, as in PREFIX ex: <http://example.org/>")
            name = s.value[:-1]
            s.next()
            if s.kind != "iri":
                s.fail(f"expected an IRI in < > for {name}:")
            s.prefixes[name] = iri = s.reference()
            s.next()
            found.append(Prefix(name, iri, (start, s.last)))
        elif kind == "BASE":
            s.next()
            if s.kind != "iri":
                s.fail("expected an IRI in < > behind BASE")
            iri = s.reference()
            if not absolute(iri):
                s.stop(f"BASE is {s.value}, which is relative itself. Begin it with a scheme such as https:.")
            s.base = iri
            s.next()
            found.append(Base(iri, (start, s.last)))
        elif kind == "VERSION":
            s.next()
            if s.kind != "string":
                s.fail('expected a string behind VERSION, as in VERSION "1.2"')
            found.append(Version(s.string(), (start, s.end)))
            s.next()
        else:
            return tuple(found)
