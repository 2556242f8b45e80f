"""The best reading is the one that leaves nothing unread and goes the shortest way; without one there is no answer."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from sparql.question.answer import NO_LINK, NOT_A_QUESTION, NOT_ALLOWED, UNKNOWN_ENTITY, UNKNOWN_TERM, Declined, Unclear
from sparql.question.answer import Reading as Choice
from sparql.question.planner.asking import Asked, asked
from sparql.question.planner.linking import Cover, Terms, covers, soft
from sparql.question.planner.names import Lookup
from sparql.question.planner.phrasing import rephrase
from sparql.question.planner.reading import Made, Reading, Unreadable
from sparql.question.planner.roads import Roads
from sparql.question.planner.words import Word, breaks, read
from sparql.question.schema import Schema
from sparql.syntax import SyntaxProblem, parse, text

TRIED = 16
"""How many ways to read the words are made into queries."""
CLOSE = 0.05
_WRITES = frozenset(
    "delete remove drop insert update add clear erase create change set rename destroy modify overwrite".split()  # noqa: SIM905
)
_UNITS = frozenset({"number"})


@dataclass(frozen=True, slots=True)
class Plan:
    """A query for a question, what it was read as, and how sure that is, 0 to 1."""

    sparql: str
    words: str
    score: float


@dataclass(frozen=True, slots=True)
class _Candidate:
    made: Made
    cover: Cover
    score: float


class Planner:
    """Reads questions about the graph that one schema is of."""

    def __init__(self, schema: Schema, lookup: Lookup, *, base: str = "http://localhost/") -> None:
        self.schema, self.lookup, self.base = schema, lookup, base
        self.terms, self.roads = Terms(schema), Roads(schema)

    def plan(self, question: str, *, today: date) -> Plan | Unclear | Declined:
        """The best reading as a query; or two that are as good; or why there is none."""
        said = rephrase(question, self.terms.knows)
        words = read(said)
        if not any(word.content for word in words) or not any(letter.isalpha() for letter in question):
            return Declined(question, NOT_A_QUESTION, "That asks for nothing. Ask about what the graph holds.")
        if words[0].folded in _WRITES and len(words) > 1:
            return Declined(question, NOT_ALLOWED, "Questions only read the graph. Change its sources to change it.")
        asks = asked(words, today)
        found = covers(words, asks.taken, breaks(said, words), self.terms, self.lookup)
        best, why = self._candidates(words, asks, found)
        if not best:
            return self._declined(question, words, found, why)
        first = best[0]
        missed = [at for at in first.made.unread if not self._passes(words, asks, at)]
        if missed:
            return self._unread(question, words[missed[0]])
        rival = next((one for one in best[1:] if self._rival(first, one)), None)
        if rival is not None:
            readings = tuple(Choice(one.made.words, one.made.sparql, one.score) for one in (first, rival))
            return Unclear(question, readings)
        content = sum(1 for at, word in enumerate(words) if word.content and at not in asks.taken) or 1
        return Plan(first.made.sparql, first.made.words, max(0.05, min(1.0, first.score / content)))

    def _candidates(
        self, words: Sequence[Word], asks: Asked, found: Sequence[Cover]
    ) -> tuple[list[_Candidate], list[str]]:
        made, why = [], []
        for cover in found[:TRIED]:
            try:
                one = Reading(words, copy.deepcopy(asks), cover, self.roads).made()
                sparql = text(parse(one.sparql, prefixes=dict(self.schema.prefixes), base=self.base, only="query"))
            except Unreadable as no:
                why.append(str(no))
                continue
            except SyntaxProblem as wrong:
                why.append(str(wrong))
                continue
            hard = sum(1 for at in one.unread if not self._passes(words, asks, at))
            made.append(_Candidate(replace(one, sparql=sparql), cover, cover.score - 0.3 * one.cost - 2.0 * hard))
        made.sort(key=lambda one: -one.score)
        return made, why

    def _passes(self, words: Sequence[Word], asks: Asked, at: int) -> bool:
        """Whether a word may be left unread: it joins, is a number's unit, or a title before a name."""
        word = words[at]
        return soft(word) or word.folded in _UNITS or word.folded in ("ms", "mr", "mrs", "dr", "prof")

    def _rival(self, first: _Candidate, other: _Candidate) -> bool:
        """Whether another reading is as good, and of other things of the same name."""
        if first.score - other.score > CLOSE or first.made.sparql == other.made.sparql:
            return False
        mine = {one.start: one for one in first.cover.mentions if one.kind == "entity"}
        return any(
            one.kind == "entity"
            and one.start in mine
            and one.ref != mine[one.start].ref
            and one.entity is not None
            and mine[one.start].entity is not None
            and one.entity.classes == mine[one.start].entity.classes  # type: ignore[union-attr]
            for one in other.cover.mentions
        )

    def _declined(self, question: str, words: Sequence[Word], found: Sequence[Cover], why: Sequence[str]) -> Declined:
        cover = found[0] if found else None
        strange = (
            [words[at] for at in cover.unread if not soft(words[at]) and words[at].number is None] if cover else []
        )
        if strange:
            return self._unread(question, strange[0])
        reason = why[0] if why else "it names nothing the graph has"
        nearest = tuple(sorted(one.name.label for one in self.schema.classes.values() if one.instances)[:8])
        return Declined(question, NO_LINK, f"The graph does not hold that: {reason}.", nearest)

    def _unread(self, question: str, word: Word) -> Declined:
        name = word.text[:1].isupper() and word.start > 0 and not (word.text.isupper() and word.text.isalpha())
        called = word.quoted or name or any(letter.isdigit() or letter in "-._@" for letter in word.text)
        code = UNKNOWN_ENTITY if called else UNKNOWN_TERM
        nearest = tuple(self.lookup.near(word.text)) if called else ()
        nearest = nearest or tuple(self.terms.closest(word.text))
        what = "nothing is called" if called else "there is no word for"
        hint = f" Near it are: {', '.join(nearest)}." if nearest else ""
        return Declined(question, code, f"The graph does not hold that: {what} {word.text!r}.{hint}", nearest)
