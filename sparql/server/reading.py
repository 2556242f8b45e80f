"""What a query reads is in its shape and a few of its names: a text known but for its other constants is not parsed."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from sparql.query import results
from sparql.server.fresh import Fresh
from sparql.syntax import Footprint, Query, SyntaxProblem, parse, reads, walk
from sparql.syntax.tree import Ask, Call, Construct, Describe, Iri, Repeat
from sparql.syntax.tree import Query as Tree

MOST_TEXTS, MOST_SHAPES, MOST_NAMES = 2048, 256, 16
LONGEST_SHAPE = 8192

_PROLOGUE = re.compile(r"(?:\s+|#[^\n\r]*|BASE\s*<[^<>\s]*>|PREFIX\s*[^\s:]*:\s*<[^<>\s]*>)*", re.IGNORECASE)
_TOKEN = re.compile(
    r"""(?P<iri><[A-Za-z][A-Za-z0-9+.-]*:[^<>"{}|^`\\\x00-\x20]*>)
      | <[^<>"{}|^`\\\x00-\x20]*>                                     # relative: it stays as it is
      | (?P<text>\"{3}(?:[^"\\]|\\.|"(?!""))*\"{3} | '{3}(?:[^'\\]|\\.|'(?!''))*'{3}
        | "(?:[^"\\\n\r]|\\.)*" | '(?:[^'\\\n\r]|\\.)*')
      | \#[^\n\r]* | [?$]\w+ | _:[\w.-]+ | @[\w-]+
      | (?P<name>(?:[^\W\d_][\w.-]*)?:(?:[\w.:%-]|\\.)*(?<!\.))
      | (?P<word>[^\W\d]\w*)
      | (?P<number>\d+(?:\.\d+)?)""",
    re.VERBOSE | re.DOTALL,
)
_DECLARES = frozenset(("prefix", "base", "version"))


@dataclass(frozen=True, slots=True)
class Reading:
    """What a query reads, and the kind of its answer."""

    kind: str
    footprint: Footprint

    @property
    def steady(self) -> bool:
        """Whether the same graph gives the same answer at any time."""
        return not self.footprint.varies and not self.footprint.services

    def touched(self, fresh: Fresh, default_graphs: tuple[str, ...], named_graphs: tuple[str, ...]) -> int:
        """The last commit that can have changed the answer, with the dataset of the request if it has one."""
        print_ = self.footprint
        if default_graphs or named_graphs:  # instead of the query's own: any of them may be read, as either
            return fresh.touched(print_.predicates, default=(*default_graphs, *named_graphs))
        if print_.graphs is None:
            return fresh.touched(print_.predicates, named=True)
        named = [graph for graph in print_.graphs if graph]
        default: tuple[str, ...] | None = None if "" in print_.graphs else ()
        return fresh.touched(print_.predicates, default=default, named=bool(named), graphs=named)


@dataclass(slots=True)
class _Shape:
    """`matters` are the holes whose names decide, None when even the constants that are no names may."""

    matters: tuple[int, ...] | None
    known: dict[tuple[str, ...], Reading]


class Readings:
    """The readings of texts, under the prefixes and the base a server has."""

    def __init__(self, prefixes: Mapping[str, str], base: str) -> None:
        self.prefixes, self.base = dict(prefixes), base
        self.parsed = 0
        self._texts: OrderedDict[str, Reading] = OrderedDict()
        self._shapes: OrderedDict[tuple[str, str], _Shape] = OrderedDict()

    def of(self, text: str) -> Reading:
        """What the query reads. Raises SyntaxProblem for a text that is no query, if it has to look."""
        found = self._texts.get(text)
        if found is None:
            found = self._by_shape(text)
            if len(text) > LONGEST_SHAPE:
                return found
            self._texts[text] = found
            if len(self._texts) > MOST_TEXTS:
                self._texts.popitem(last=False)
        else:
            self._texts.move_to_end(text)
        return found

    def _by_shape(self, text: str) -> Reading:
        spelled = _shape(text)
        if spelled is None:
            return self._parse(text)[0]
        key, values, starts = spelled
        shape = self._shapes.get(key)
        if shape is not None:
            self._shapes.move_to_end(key)
            known = shape.known.get(_at(values, shape.matters))
            if known is not None:
                return known
        found, mattering = self._parse(text)
        if shape is None:
            # A constant that the tree does not tell apart from a name that matters, matters.
            matters = (
                None if mattering is None else tuple(n for n, start in enumerate(starts) if mattering.get(start, True))
            )
            shape = self._shapes[key] = _Shape(matters, {})
            if len(self._shapes) > MOST_SHAPES:
                self._shapes.popitem(last=False)
        if shape.matters is not None:
            if len(shape.known) >= MOST_NAMES:
                shape.known.clear()
            shape.known[_at(values, shape.matters)] = found
        return found

    def _parse(self, text: str) -> tuple[Reading, dict[int, bool] | None]:
        """The reading, and for each place with an IRI whether the reading depends on which it is.

        A path that holds without a triple is read otherwise where its ends stand elsewhere too: then nothing is said.
        """
        self.parsed += 1
        tree = parse(text, prefixes=self.prefixes, base=self.base, only="query")
        assert isinstance(tree, Tree)
        footprint = reads(tree)
        named = (footprint.predicates or frozenset()) | (footprint.graphs or frozenset()) | set(footprint.services)
        mattering: dict[int, bool] = {}
        for node in walk(tree):
            if isinstance(node, Iri):
                mattering[node.span[0]] = mattering.get(node.span[0], False) or node.value in named
            elif isinstance(node, Call):
                mattering[node.function.span[0]] = True
            elif isinstance(node, Repeat):
                return Reading(_kind(tree), footprint), None
        return Reading(_kind(tree), footprint), mattering


def _shape(text: str) -> tuple[tuple[str, str], list[str], list[int]] | None:
    """((prologue, text with holes), the values in the holes, where they start); None for what has no safe shape.

    Strings and numbers are holes whose values never matter: they start at -1.
    """
    if len(text) > LONGEST_SHAPE or "\\u" in text or "\\U" in text or "\x00" in text:
        return None
    opening = _PROLOGUE.match(text)
    start = opening.end() if opening else 0
    values: list[str] = []
    starts: list[int] = []
    pieces: list[str] = []
    at = start
    for found in _TOKEN.finditer(text, start):
        kind = found.lastgroup
        if kind is None:
            continue
        if kind == "word":
            if found.group().lower() in _DECLARES:
                return None
            continue
        begin = found.start()
        pieces.append(text[at:begin])
        at = found.end()
        if kind == "iri" or kind == "name":
            pieces.append("\x00")
            values.append(text[begin:at])
            starts.append(begin)
        else:
            pieces.append("\x01" if kind == "text" else "\x02")
    pieces.append(text[at:])
    return (text[:start], "".join(pieces)), values, starts


def _at(values: list[str], places: tuple[int, ...] | None) -> tuple[str, ...]:
    return tuple([values[n] for n in places or ()])


def _kind(tree: Query) -> str:
    if isinstance(tree.form, Ask):
        return results.BOOLEAN
    return results.TRIPLES if isinstance(tree.form, (Construct, Describe)) else results.ROWS


__all__ = ["Reading", "Readings", "SyntaxProblem"]
