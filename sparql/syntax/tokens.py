"""One compiled expression cuts the tokens, one at a time, so that `?x<5` and `<5>` can be told apart by their place."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Final, NoReturn

from sparql.syntax.iris import resolve
from sparql.syntax.problem import SyntaxProblem, place

# How deep brackets, groups, paths and terms may lie in each other: each level costs at most seven frames of Python's
# thousand, and the engine, which descends too, dies of 100,000 where we say no (test_syntax_hostile).
DEPTH: Final = 100
# How many patterns and operators one query may have: the engine dies of 3,000 OPTIONALs or MINUSes in a row.
LINKS: Final = 2000
# Longer texts than this are no query: the server refuses a body long before.
LENGTH: Final = 64 * 2**20

_BASE = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef"
    "\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_U = _BASE + "_"
_NAME = _U + "0-9\u00b7\u0300-\u036f\u203f-\u2040"
_CHARS = _NAME + "\\-"
_ESCAPED = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL = rf"(?:[{_U}:0-9]|{_ESCAPED})(?:[{_CHARS}:]|{_ESCAPED})*+(?:\.++(?:[{_CHARS}:]|{_ESCAPED})++)*+"
_LABEL = rf"[{_CHARS}]*+(?:\.++[{_CHARS}]++)*+"
_STRING = r"[tbnrf\\\"']|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}"
# Possessive everywhere (*+): what a repetition took it keeps, so no text makes the matching more than linear.
_TOKEN = re.compile(
    r"(?:[ \t\r\n]++|#[^\r\n]*+)*+(?:"
    rf"(?P<var>[?$][{_U}0-9][{_NAME}]*+)"
    rf"|(?P<pname>(?:[{_BASE}]{_LABEL})?:(?:{_LOCAL})?)"
    r"|(?P<word>[A-Za-z][A-Za-z0-9_]*+)"
    r"|(?P<iri><(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*+>)"
    r"|(?P<number>[+-]?(?:[0-9]++(?:\.[0-9]*+)?[eE][+-]?[0-9]++|\.[0-9]++[eE][+-]?[0-9]++|[0-9]*+\.[0-9]++|[0-9]++))"
    r"|(?P<op><<\(|\)>>|<<|>>|\^\^|\|\||&&|!=|<=|>=|\{\||\|\}|[{}()\[\].,;=<>!*/+\-^|?~])"
    rf"|(?P<long>\"\"\"(?:\"{{0,2}}+(?:[^\"\\]|\\(?:{_STRING})))*+\"\"\"|'''(?:'{{0,2}}+(?:[^'\\]|\\(?:{_STRING})))*+''')"
    rf"|(?P<string>\"(?!\"\")(?:[^\"\\\n\r]|\\(?:{_STRING}))*+\"|'(?!'')(?:[^'\\\n\r]|\\(?:{_STRING}))*+')"
    rf"|(?P<label>_:[{_U}0-9]{_LABEL})"
    r"|(?P<lang>@[A-Za-z]++(?:-[A-Za-z0-9]++)*+(?:--[A-Za-z]++)?)"
    r"|(?P<end>\Z))"
)
_NAMES: Final = {number: name for name, number in _TOKEN.groupindex.items()}
_PLAIN: Final = frozenset(("var", "pname", "iri", "number", "string", "long", "label", "lang"))
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_CHARACTERS: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}
_LOCAL_ESCAPE = re.compile(r"\\(.)")
_NOT_IN_IRI = re.compile(r"[<>\"{}|^`\\\x00-\x20]")
# A name that goes on, as its writer thought, behind a sign that ends it: dbr:IPhone_(Apple), dbr:Butter's_Episode.
_IN_NAME = re.compile(r"[\w\-]:[\w.\-]+(?:_\(|,_|['&!])\w[^\s(){}\[\]?]*\Z|[\w\-]:[\w.\-]+,_\Z")
NAME_HINT: Final = "Within a name write \\ before ( ) , ' and &, or the whole IRI in < >."
_NEAR = re.compile(r"\S{1,30}")

# What a person most likely means by a prefix nobody declared.
WELL_KNOWN: Final = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dct": "http://purl.org/dc/terms/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "void": "http://rdfs.org/ns/void#",
    "org": "http://www.w3.org/ns/org#",
    "dbo": "http://dbpedia.org/ontology/",
    "dbr": "http://dbpedia.org/resource/",
    "wd": "http://www.wikidata.org/entity/",
    "wdt": "http://www.wikidata.org/prop/direct/",
    "dcterms": "http://purl.org/dc/terms/",
    "schema": "http://schema.org/",
    "prov": "http://www.w3.org/ns/prov#",
    "sh": "http://www.w3.org/ns/shacl#",
    "gt": "https://w3id.org/graphtide/ns#",
}

# What people bring along from other languages.
HINTS: Final = {
    "AND": "Write && for and.",
    "OR": "Write || for or.",
    "NULL": "SPARQL has no NULL: use OPTIONAL and BOUND, or UNDEF in VALUES.",
    "LIKE": "Use FILTER(CONTAINS(?text, 'part')) or REGEX.",
    "TOP": "Write LIMIT at the end.",
    "<": "An IRI in < > holds no spaces, quotes or brackets.",
    "PREFIX": "It stands at the start, before SELECT.",
    "BINDINGS": "It is called VALUES now.",
    "UPDATE": "Write DELETE { ... } INSERT { ... } WHERE { ... }.",
}


class Scanner:
    """The text, where we are in it, and what its prologue has declared so far.

    `kind` is the token's sign, the word in capitals, or one of var, pname, iri, number, string, long, label, lang,
    end; `value` is the token as written; it stands at `start` to `end`, and the one before it ended at `last`.
    """

    __slots__ = (
        "aggregates",
        "base",
        "deepest",
        "depth",
        "end",
        "given",
        "kind",
        "labels",
        "last",
        "links",
        "most",
        "prefixes",
        "scoped",
        "spent",
        "start",
        "text",
        "value",
    )

    def __init__(self, text: str, prefixes: Mapping[str, str], base: str | None, depth: int, links: int) -> None:
        self.text, self.given, self.base = text, prefixes, base
        self.prefixes = dict(prefixes)
        self.kind, self.value = "", ""
        self.start = self.end = self.last = 0
        self.depth, self.deepest = 0, depth
        self.links, self.most = 0, links
        # Labels of blank nodes in this basic pattern, and those that others have used up.
        self.labels: set[str] = set()
        self.spent: set[str] = set()
        # Whether an aggregate may stand here, and whether the rules of scope have anything to say on this text.
        self.aggregates = self.scoped = False
        if len(text) > LENGTH:
            raise SyntaxProblem(f"The text has {len(text):,} characters, more than {LENGTH:,}.", limit="length")
        self.next()

    def next(self) -> None:
        """The next token is the current one."""
        self.last = self.end
        found = _TOKEN.match(self.text, self.end)
        if found is None:
            self._strange()
        number = found.lastindex
        assert number is not None
        self.value = value = found[number]
        self.start, self.end = found.span(number)
        name = _NAMES[number]
        if name in _PLAIN:
            self.kind = name
        elif name == "word":
            self.kind = value.upper()
        else:
            self.kind = value or "end"

    def operator(self) -> str:
        """The sign that stands here, where only one can: `<5>` behind an operand is no IRI, `-1` no number."""
        if self.kind == "iri" or self.kind == "number" or self.kind == "<<" or self.kind == "<<(":
            sign = self.value[0]
            if sign == "<" and self.value[1:2] == "=":
                sign = "<="
            if sign in "<=+-":
                self.kind = self.value = sign
                self.end = self.start + len(sign)
        return self.kind

    def take(self, kind: str) -> bool:
        """Whether the current token was this one; then it is behind us."""
        if self.kind == kind:
            self.next()
            return True
        return False

    def expect(self, kind: str, what: str) -> None:
        """The current token, which had to be this one, is behind us."""
        if self.kind != kind:
            self.fail(f"expected {kind} {what}".rstrip())
        self.next()

    def enter(self) -> None:
        """We are one level deeper; SyntaxProblem names the limit where that is too deep."""
        self.depth += 1
        if self.depth > self.deepest:
            self.stop(
                f"Brackets lie more than {self.deepest} deep in each other here (limit: depth). Write it flatter.",
                limit="depth",
            )

    def leave(self) -> None:
        self.depth -= 1

    def link(self) -> None:
        """One more pattern or operator; SyntaxProblem names the limit where there are too many in one query."""
        self.links += 1
        if self.links > self.most:
            self.stop(
                f"This has more than {self.most:,} patterns and operators (limit: links). "
                "Use VALUES, IN or a property path for what is alike.",
                limit="links",
            )

    # --- What a token means ---

    def prefixed(self) -> str:
        """The IRI that the prefixed name here stands for."""
        name, _, local = self.value.partition(":")
        namespace = self.prefixes.get(name)
        if namespace is None:
            self._undeclared(name)
        if "\\" in local:
            local = _LOCAL_ESCAPE.sub(r"\1", local)
        return namespace + local

    def reference(self) -> str:
        """The IRI between < and > here, resolved against the base."""
        written = self.value[1:-1]
        if "\\" in written:
            written = self._unescape(written)
            if _NOT_IN_IRI.search(written):
                self.stop(f"{self.value} holds an escaped character that no IRI may have.")
        return resolve(written, self.base) if self.base is not None else written

    def string(self) -> str:
        """The characters that the quoted string here stands for."""
        held = self.value[3:-3] if self.kind == "long" else self.value[1:-1]
        return self._unescape(held) if "\\" in held else held

    def _unescape(self, text: str) -> str:
        def one(found: re.Match[str]) -> str:
            short, long, character = found.groups()
            if character is not None:
                return _CHARACTERS[character]
            code = int(short or long, 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                self.stop(f"{found.group()} is no character of Unicode.")
            return chr(code)

        return _ESCAPE.sub(one, text)

    # --- Problems ---

    def unknown_word(self, expected: str, words: tuple[str, ...]) -> NoReturn:
        """Raise what is said of a word that does not fit here, with the one it may be meant for."""
        close = get_close_matches(self.value.upper()[:40], words, 1, 0.75) if self.value.isalpha() else []
        self.fail(f"{expected}. Did you mean {close[0]}?" if close and close[0] != self.kind else expected)

    def fail(self, expected: str) -> NoReturn:
        """Raise what is said of a token that does not fit here."""
        near = self.value if len(self.value) <= 30 else self.value[:30] + "..."
        hint = HINTS.get(self.kind, "")
        if self._in_name():
            hint = NAME_HINT
        said = f"{expected}. {hint}" if hint else expected
        self.stop(f"Not understood {f'at {near!r}' if near else 'at the end'}: {said}{'.' * (said[-1] not in '.?')}")

    def _in_name(self) -> bool:
        return _IN_NAME.search(self.text, max(0, self.start - 80), self.start + 2) is not None

    def stop(self, message: str, *, start: int | None = None, limit: str = "") -> NoReturn:
        """Raise a problem with the current token, or with what stands at `start`."""
        at = self.start if start is None else start
        token = self.value if start is None else near(self.text, at)
        raise SyntaxProblem(message, *place(self.text, at), token[:80], offset=at, limit=limit)

    def _undeclared(self, name: str) -> NoReturn:
        known = {**self.given, **self.prefixes}
        nearest = next((one for one in known if one.lower() == name.lower()), None)
        close = [nearest] if nearest is not None else get_close_matches(name[:80], known, 1, 0.6)
        iri = WELL_KNOWN.get(name, "...")
        hint = f" Did you mean {close[0]}: ({known[close[0]]})?" if close and iri == "..." else ""
        self.stop(
            f"{name}: is not declared.{hint} Add PREFIX {name}: <{iri}> at the start, "
            "or under [prefixes] in graphtide.toml."
        )

    def _strange(self) -> NoReturn:
        """Raise what is wrong with characters that are no token."""
        skip = re.compile(r"(?:[ \t\r\n]++|#[^\r\n]*+)*+").match(self.text, self.end)
        at = self.start = skip.end() if skip else self.end
        self.value = near(self.text, at)
        first = self.text[at]
        if self._in_name():
            self.stop(f"{first} ends the name before it. {NAME_HINT}")
        if first in "\"'":
            escape = re.compile(rf"(?:[^\\{first}]|\\(?:{_STRING}))*+\\").match(self.text, at + 1)
            if escape and self.text[escape.end() - 1 : escape.end()] == "\\" and "\n" not in escape.group():
                at = escape.end() - 1
                self.stop(f"{self.text[at : at + 2]} is no escape: write \\\\ for a backslash.", start=at)
            self.stop(f"The string that begins here is not closed: expected {first} on its line, or three of them.")
        if first == "<":
            self.stop("An IRI holds no spaces, quotes or brackets: expected > here.")
        if first == "\\":
            self.stop("Escapes such as \\u0041 stand in strings and IRIs only.")
        if first == "@":
            self.stop("A language tag is letters behind @, as in 'chat'@fr.")
        if first == "&":
            self.stop("& alone is no operator: write && for and.")
        if first == "%":
            self.stop("% stands before two hexadecimal digits, in names only.")
        if first in "\u2018\u2019\u201c\u201d":
            self.stop(f"{first} is a quote of printed text: write ' or \".")
        if first == "`":
            self.stop("` quotes nothing in SPARQL: leave it out, three of them also.")
        self.stop(f"{first!r} has no meaning in SPARQL here.")


def near(text: str, offset: int) -> str:
    """What stands at `offset`, to show to a person: its token, or up to 30 characters without a space."""
    found = _TOKEN.match(text, offset) or _NEAR.match(text, offset)
    return found[found.lastindex or 0][:80] if found else ""
