"""What a model writes is nearly a query: rules make it one, and take nothing away that it asks.

The parser says where a text stops being a query, and each rule knows one way of going wrong there. A mend counts when
the text is read further than before; what no rule mends is said to be hopeless. Nothing is run here.
"""

from __future__ import annotations

import heapq
import html
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sparql.question import known
from sparql.syntax import SyntaxProblem, Update, parse

LONGEST = 20_000
"""Characters of a text that are looked at."""
PARSES, PARSED = 120, 600_000
"""How often one text is parsed at most, and how many characters in all: a long text is tried less often."""
_FENCE = re.compile(r"```[ \t]*([A-Za-z]*)[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
_THINK = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)
_START = re.compile(
    r"\bPREFIX\s+[\w.-]*:\s*<|\bBASE\s*<|\bSELECT(?=\s*(?:DISTINCT\b|REDUCED\b|[?$*(]|COUNT\b|SUM\b|AVG\b|MIN\b|MAX\b))"
    r"|\bASK(?=\s*(?:WHERE\b|FROM\b|\{))|\bCONSTRUCT(?=\s*(?:WHERE\b|\{))|\bDESCRIBE(?=\s*[?$*<])",
    re.IGNORECASE,
)
_FORM = re.compile(r"\b(?:SELECT|ASK|CONSTRUCT|DESCRIBE)\b", re.IGNORECASE)
_UPDATE = re.compile(r"\s*(?:INSERT|DELETE|LOAD|CLEAR|DROP|CREATE|COPY|MOVE|ADD|WITH)\b", re.IGNORECASE)
_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "´": "'", "\u00a0": " ", "\u200b": " "})
_UNGROUPED = re.compile(r"([?$]\w+) is neither grouped by")
_UNKNOWN = re.compile(r"([\w.-]*): is not declared")
_NAME = re.compile(r"(?<![\w<:/])([A-Za-z_][\w.-]*)?:([^\s<>{}\"|^`\\]+)")
_BARE = re.compile(r"(?<![<\w\"'])(https?://[^\s<>{}\"',;)]+)")
_GLUED = re.compile(
    r"(?<=[a-z0-9_)}>])(?=(?:ORDER\s+BY|GROUP\s+BY|HAVING|LIMIT\s+\d|OFFSET\s+\d|WHERE\b|SELECT\b|FILTER\b|OPTIONAL\b|UNION\b"
    r"|BIND\b|VALUES\b))"
)
_AGGREGATE = re.compile(r"(?:COUNT|SUM|AVG|MIN|MAX|SAMPLE|GROUP_CONCAT)\s*\(", re.IGNORECASE)
_ALIAS = re.compile(r"\s+AS\s+[?$]?(\w+)", re.IGNORECASE)
_IRI = re.compile(r"<([^<>\"\n]*)>")
_ILLEGAL = re.compile(r"[\x00-\x20{}|\\^`]")
_COMPARED = re.compile(
    r"([?$]\w+)\s*(=|!=|<=|>=|<|>)\s*(<[^<>\s]*>|[?$]\w+|\"[^\"\n]*\"(?:@[\w-]+|\^\^\S+)?|[\d.]+)\s*\.?"
)
_TYPED = re.compile(r"FILTER\s*\(\s*([?$]\w+)\s+(a|rdf:type)\s+(\S+?)\s*\)", re.IGNORECASE)
_DECLARATION = re.compile(r"\s*(?:PREFIX\s+[\w.-]*:\s*<[^>]*>|BASE\s*<[^>]*>)\s*\.?", re.IGNORECASE)
_PROJECTED = re.compile(r"(\bSELECT\s+(?:DISTINCT\s+|REDUCED\s+)?)([^{]*?)(?=\s*(?:WHERE\b|FROM\b|\{))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Repaired:
    """A query that parses, alone and as it is. `done` says what was mended, in order; empty when nothing had to be."""

    sparql: str
    done: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """The text is no query and does not mean to be one: `words` are what it says instead."""

    words: str


@dataclass(frozen=True, slots=True)
class Hopeless:
    """The text means to be a query and cannot be made one: `message` is what the parser says of its best form."""

    message: str


Mend = Iterator[tuple[str, str]]
"""Texts that may be read further, each with what was done."""


def repair(
    text: str, prefixes: Mapping[str, str] | None = None, base: str = "http://localhost/"
) -> Repaired | Refusal | Hopeless:
    """The query that a text holds, or why there is none. `prefixes` are the graph's; they are declared when used.

    Never runs anything, and ends within PARSES parses of PARSED characters in all.
    """
    names = {**known.PREFIXES, **(prefixes or {})}
    given = text[:LONGEST]
    found = _whole(given, base)
    if found is None:
        return Repaired(given, ())
    done: list[str] = []
    body = _extracted(given, done)
    if body is None:
        words = " ".join(_THINK.sub(" ", given).split())
        if words.startswith("#") or "{" in words or "}" in words:
            return Hopeless("It holds no SELECT, ASK, CONSTRUCT or DESCRIBE with a pattern.")
        return Refusal(words[:500])
    return _mended(body, tuple(done), names, base)


def _whole(text: str, base: str) -> SyntaxProblem | None:
    """What is wrong with a text that is to stand alone."""
    try:
        parse(text, prefixes={}, base=base, only="query")
    except SyntaxProblem as wrong:
        return wrong
    return None


def _extracted(text: str, done: list[str]) -> str | None:
    """The part of a text that is a query, by its looks; None when no part is."""
    body = _THINK.sub(" ", text)
    if body != text:
        done.append("left out the thinking")
    fenced = [(one.group(1).lower(), one.group(2)) for one in _FENCE.finditer(body)]
    queries = [(label, inner) for label, inner in fenced if _FORM.search(inner)]
    if queries:
        # The last is what it comes to after having thought aloud.
        body = next((inner for label, inner in reversed(queries) if label == "sparql"), queries[-1][1])
        done.append("took it out of its fence")
    elif "```" in body:
        body = body.replace("```sparql", " ").replace("```", " ")
        done.append("took it out of its fence")
    if "&lt;" in body or "&gt;" in body or "&quot;" in body:
        body = html.unescape(body)
        done.append("read &lt; and its like as the signs they are")
    straight = body.translate(_QUOTES)
    if straight != body:
        body = straight
        done.append("wrote straight quotes")
    uncommented = "\n".join(line for line in body.split("\n") if not line.lstrip().startswith("#"))
    start = _begin(uncommented)
    if start is None:
        # A query in a comment is none.
        return None
    if uncommented[:start].strip():
        done.append("left out what stands before the query")
    return uncommented[start:].strip()


def _begin(text: str) -> int | None:
    """Where a query begins: at the first declaration or form that a pattern follows."""
    for one in _START.finditer(text):
        if "{" in text[one.start() :]:
            return one.start()
    return None


def _mended(body: str, done: tuple[str, ...], names: Mapping[str, str], base: str) -> Repaired | Hopeless:
    """The best first: the text of which the least is left unread."""
    tried: set[str] = set()
    queue: list[tuple[int, int, str, tuple[str, ...], SyntaxProblem]] = []
    first = _whole(body, base)
    if first is None:
        return Repaired(body, done)
    parses, number = 1, 0
    most = min(PARSES, max(10, PARSED // len(body)))
    heapq.heappush(queue, (len(body) - first.offset, number, body, done, first))
    nearest = first
    while queue and parses < most:
        left, _, text, so_far, wrong = heapq.heappop(queue)
        nearest = wrong
        for rule in _RULES:
            for mended, what in rule(text, wrong, names):
                if mended in tried or parses >= most or len(mended) > 2 * LONGEST:
                    continue
                tried.add(mended)
                parses += 1
                found = _whole(mended, base)
                steps = so_far if what in so_far else (*so_far, what)
                if found is None:
                    return Repaired(mended, steps)
                after = len(mended) - found.offset
                if after < left or _other(found, wrong):
                    number += 1
                    heapq.heappush(queue, (after, number, mended, steps, found))
    return Hopeless(nearest.message)


def _other(one: SyntaxProblem, other: SyntaxProblem) -> bool:
    """Whether another thing is wrong now: a name that is declared moves the place of all that follows."""
    return one.message != other.message


# -- the rules ---------------------------------------------------------------------------------------------------------


def _undeclared(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    found = _UNKNOWN.match(wrong.message)
    if found is None:
        return
    prefix = found.group(1)
    if prefix in ("http", "https"):
        fixed = _BARE.sub(lambda one: f"<{one.group(1).rstrip('.')}>" + "." * one.group(1).endswith("."), text)
        yield fixed, "put whole IRIs in < >"
        return
    iri = names.get(prefix) or names.get(prefix.lower()) or _likely(prefix, names)
    if iri is not None:
        yield f"PREFIX {prefix}: <{iri}>\n{text}", f"declared the prefix {prefix}:"


def _likely(prefix: str, names: Mapping[str, str]) -> str | None:
    """What an unknown prefix may stand for: one that begins alike, or of the graph's own the last."""
    alike = [name for name in names if name and prefix and (name.startswith(prefix) or prefix.startswith(name))]
    if alike:
        return names[max(alike, key=len)]
    own = [iri for name, iri in names.items() if name not in known.PREFIXES]
    return own[-1] if own else "http://example.org/"


def _inner_declarations(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    if wrong.token.upper() not in ("PREFIX", "BASE"):
        return
    found = _DECLARATION.match(text, wrong.offset)
    if found is not None:
        yield (
            f"{found.group().strip().rstrip('.')}\n{text[: wrong.offset]}{text[found.end() :]}",
            "declared prefixes at the start",
        )


def _names(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """A prefixed name that holds what a name may not is written as the IRI it stands for."""
    declared = dict(re.findall(r"PREFIX\s+([\w.-]*):\s*<([^>]*)>", text, re.IGNORECASE))
    near = [one for one in _NAME.finditer(text) if one.start() <= wrong.offset + 1 and one.end() + 3 >= wrong.offset]
    for one in reversed(near[-3:]):
        prefix, local = one.group(1) or "", one.group(2)
        if prefix not in declared or not local:
            continue
        for ending in _endings(local, text[one.end() :]):
            iri = declared[prefix] + _ILLEGAL.sub(lambda bad: f"%{ord(bad.group()):02X}", ending)
            end = one.start() + len(prefix) + 1 + len(ending)
            yield f"{text[: one.start()]}<{iri}>{text[end:]}", "wrote names with odd signs as whole IRIs"


def _endings(local: str, after: str) -> Iterator[str]:
    """Where a name may end: with its brackets balanced and no sign that ends a triple, then without that."""
    trimmed = local
    while trimmed and (trimmed[-1] in ".;,?!" or trimmed.count(")") > trimmed.count("(")):
        trimmed = trimmed[:-1]
    if trimmed:
        yield trimmed
    if local != trimmed and local[-1:] == "." and re.match(r"\s+\S", after):
        yield local


def _brackets(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """`SELECT COUNT(?x) AS ?n`: an expression that is selected stands in brackets, with a name."""
    found = _AGGREGATE.match(text, wrong.offset)
    if found is not None:
        end = _closing(text, found.end() - 1)
        if end is not None:
            alias = _ALIAS.match(text, end)
            name = alias.group(1) if alias else _free("count", text)
            stop = alias.end() if alias else end
            call = text[wrong.offset : end]
            yield (
                f"{text[: wrong.offset]}({call} AS ?{name}){text[stop:]}",
                "put what is selected in brackets, with a name",
            )
    if wrong.token.upper() == "AS":
        before = re.search(r"([?$]\w+)\s*\Z", text[: wrong.offset])
        alias = _ALIAS.match(text, wrong.offset - 1)
        if before and alias:
            start = before.start()
            yield (
                f"{text[:start]}({before.group(1)} AS ?{alias.group(1)}){text[alias.end() :]}",
                "put what is selected in brackets, with a name",
            )


def _unnamed(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """`(COUNT(?x))` without AS."""
    for one in _PROJECTED.finditer(text):
        for call in _AGGREGATE.finditer(text, one.start(2), one.end(2)):
            end = _closing(text, call.end() - 1)
            if end is not None and re.match(r"\s*\)", text[end:]) and text[: call.start()].rstrip().endswith("("):
                name = _free("count", text)
                yield f"{text[:end]} AS ?{name}{text[end:]}", "named what is selected"


def _free(name: str, text: str) -> str:
    number, found = 1, name
    while f"?{found}" in text:
        number, found = number + 1, f"{name}{number + 1}"
    return found


def _closing(text: str, opening: int) -> int | None:
    """The place after the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, min(len(text), opening + 2_000)):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth == 0:
            return at + 1
    return None


def _commas(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    if wrong.token != ",":
        return
    yield f"{text[: wrong.offset]} {text[wrong.offset + 1 :]}", "left out commas between variables"


def _glued(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    fixed = _GLUED.sub(" ", text)
    if fixed != text:
        yield fixed, "set apart words that ran together"


def _unions(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """`WHERE { A } UNION { B }`, and `WHERE { A UNION { B } }`: both sides stand in braces, in braces."""
    if wrong.token.upper() != "UNION":
        return
    before, after = text[: wrong.offset].rstrip(), text[wrong.offset :]
    start = text.find("{")
    if start < 0:
        return
    if before.endswith("}"):
        rest = re.match(r"UNION\s*(?:SELECT\b[^{]*)?(?:WHERE\s*)?", after, re.IGNORECASE)
        closing = _brace(after, after.find("{")) if "{" in after else None
        if rest is not None and closing is not None:
            second = after[rest.end() : closing]
            yield (
                f"{text[:start]}{{ {before[start:]} UNION {second} }}{after[closing:]}",
                "put a union inside the braces of the query",
            )
        return
    inner = before.rfind("{")
    if inner >= 0:
        yield f"{before[: inner + 1]} {{ {before[inner + 1 :]} }} {after}", "put both sides of a union in braces"


def _brace(text: str, opening: int) -> int | None:
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at + 1
    return None


def _triples_that_compare(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """`?x = <y> .` and FILTER(?x a :C) say each what the other is for."""
    if wrong.token in ("=", "!=", "<", ">", "<=", ">="):
        for one in _COMPARED.finditer(text):
            if one.start() <= wrong.offset <= one.end():
                left, operator, right = one.groups()
                yield (
                    f"{text[: one.start()]}FILTER({left} {operator} {right}) {text[one.end() :]}",
                    "made a comparison a FILTER",
                )
    for one in _TYPED.finditer(text):
        if one.start() <= wrong.offset <= one.end():
            yield (
                f"{text[: one.start()]}{one.group(1)} {one.group(2)} {one.group(3)} .{text[one.end() :]}",
                "made a triple of a FILTER that was one",
            )


def _filters(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """FILTER ?x > 3, and `==`, `<>`, AND, OR, NOT as other languages have them."""
    for pattern, right, what in (
        (r"==", "=", "wrote = for =="), (r"(?<=\s)<>(?=\s)", "!=", "wrote != for <>"),
        (r"\bAND\b", "&&", "wrote && for AND"), (r"\bOR\b", "||", "wrote || for OR"),
        (r"\bIS\s+NOT\s+NULL\b", "", "left out IS NOT NULL"),
    ):  # fmt: skip
        one = re.compile(pattern, re.IGNORECASE).search(text, max(0, wrong.offset - 20))
        if one is not None and one.start() <= wrong.offset + 20:
            yield f"{text[: one.start()]}{right}{text[one.end() :]}", what
    bare = re.search(r"FILTER\s+(?![\s(]|NOT\b|EXISTS\b)", text[: wrong.offset + 1], re.IGNORECASE)
    for one in re.finditer(r"FILTER\s+(?![\s(])([^.{}\n]+?)(?=\s*[.}\n])", text, re.IGNORECASE):
        if bare and one.start() <= wrong.offset <= one.end() + 1:
            yield (
                f"{text[: one.start()]}FILTER({one.group(1)}){text[one.end() :]}",
                "put a FILTER's condition in brackets",
            )


def _iris(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """An IRI with signs that none may hold is written with them escaped."""

    def legal(one: re.Match[str]) -> str:
        return f"<{_ILLEGAL.sub(lambda bad: f'%{ord(bad.group()):02X}', one.group(1).strip())}>"

    fixed = _IRI.sub(lambda one: legal(one) if ":" in one.group(1) else one.group(), text)
    if fixed != text:
        yield fixed, "escaped what no IRI may hold"


def _closers(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """Brackets that are open at the end are closed; one too many is left out; a last half triple goes."""
    closing = _open(text)
    if closing:
        yield text.rstrip() + closing, "closed what was open at the end"
        cut = max(text.rfind(". "), text.rfind(".\n"), text.rfind("}"), text.rfind("{"))
        if cut > 0 and wrong.offset >= len(text.rstrip()) - 1:
            kept = text[: cut + 1]
            yield kept + _open(kept), "left out the half triple it ends with, and closed what was open"
            word = text.rstrip().rfind(" ")
            if word > 0:
                yield text[:word] + _open(text[:word]), "left out the word it breaks off in, and closed what was open"
    if wrong.token in ("}", ")", "]"):
        yield text[: wrong.offset] + text[wrong.offset + 1 :], f"left out a {wrong.token} too many"
    if "expected )" in wrong.message:
        yield f"{text[: wrong.offset]}) {text[wrong.offset :]}", "closed a bracket"


def _open(text: str) -> str:
    """What closes the brackets that are open at the end of a text, strings and IRIs left aside."""
    stack = []
    bare = re.sub(r"<[^<>\s]*>|\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'", " ", text)
    for sign in bare:
        if sign in "{([":
            stack.append({"{": " }", "(": ")", "[": "]"}[sign])
        elif sign in "})]" and stack and stack[-1].strip() == sign:
            stack.pop()
    return "".join(reversed(stack))


def _dots(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """A dot between two triples, or a second one too many."""
    if "expected . between two triples" in wrong.message:
        yield f"{text[: wrong.offset]} . {text[wrong.offset :]}", "put a dot between two triples"
    if wrong.token in (".", ";") and text[: wrong.offset].rstrip()[-1:] in (".", ";", "{"):
        yield text[: wrong.offset] + text[wrong.offset + 1 :], "left out a dot too many"


def _grouping(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """What is selected beside an aggregate is what is grouped by."""
    found = _UNGROUPED.match(wrong.message)
    if found is None:
        return
    opening = text.find("{", wrong.offset)
    closing = _brace(text, opening) if opening >= 0 else None
    if closing is None:
        return
    group = re.match(r"\s*GROUP\s+BY", text[closing:], re.IGNORECASE)
    at = closing + (group.end() if group else 0)
    added = f" {found.group(1)}" if group else f" GROUP BY {found.group(1)}"
    yield f"{text[:at]}{added}{text[at:]}", "grouped by what is selected beside an aggregate"


def _ellipsis(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    fixed = re.sub(r",?\s*(?:\.\.\.|…)", " ", text)
    if fixed != text:
        yield fixed, "left out ..."


def _tail(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """What stands behind a whole query is no part of it, and of two queries the first counts."""
    if "expected the end of the query" in wrong.message and wrong.token.upper() not in ("UNION", "BY"):
        yield text[: wrong.offset].rstrip(), "left out what stands behind the query"


def _variables(text: str, wrong: SyntaxProblem, names: Mapping[str, str]) -> Mend:
    """SELECT name: what is selected is a variable."""
    word = re.compile(r"\w+").match(text, wrong.offset)
    if (
        word is not None
        and _PROJECTED.search(text)
        and text[: wrong.offset].rstrip().upper().endswith(("SELECT", "DISTINCT", "AS"))
    ):
        yield f"{text[: wrong.offset]}?{text[wrong.offset :]}", "put ? before a variable"


_RULES: tuple[Callable[[str, SyntaxProblem, Mapping[str, str]], Mend], ...] = (
    _undeclared, _inner_declarations, _names, _brackets, _unnamed, _commas, _unions, _triples_that_compare, _filters,
    _grouping, _ellipsis, _iris, _variables, _dots, _glued, _tail, _closers,
)  # fmt: skip


def is_update(text: str, base: str = "http://localhost/") -> bool:
    """Whether a text, its comments and declarations aside, is an update and no query."""
    try:
        return isinstance(parse(text, prefixes=dict(known.PREFIXES), base=base, only="update"), Update)
    except SyntaxProblem:
        stripped = re.sub(r"(?m)^\s*#.*$", "", text)
        while (declared := _DECLARATION.match(stripped)) is not None:
            stripped = stripped[declared.end() :]
        return _UPDATE.match(stripped) is not None
