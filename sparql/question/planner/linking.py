"""Each span of a question may mean a class, a property, a thing or a value; which of them it means is one choice."""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from sparql.question.planner.names import Entity, Lookup, Value
from sparql.question.planner.words import COUNTRIES, KINDRED, STOP, VERBS, Word, alike, kin, stem, stems
from sparql.question.schema import Named, Schema

LONGEST = 7
"""How many words name one thing at most."""
LEAST = 0.55
"""How much of a name a span must say to mean it."""
_INSIDE = frozenset({"of", "for", "in", "on", "by", "the", "and", "to", "a", "at", "with"})
"""What a name may hold between its words."""
COVERS = 24
"""How many ways to read all spans are tried."""
EACH = 4
"""How many meanings one span keeps."""


@dataclass(frozen=True, slots=True)
class Mention:
    """What the words from `start` to `end` mean: `kind` is class, property, entity or value.

    `ref` is the IRI of a class, a property or an entity; `value` the literals it may be.
    """

    start: int
    end: int
    kind: str
    ref: str
    score: float
    entity: Entity | None = None
    values: tuple[Value, ...] = ()

    @property
    def words(self) -> int:
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Cover:
    """One way to read the content words: mentions side by side, and the words that none of them reads."""

    mentions: tuple[Mention, ...]
    unread: tuple[int, ...]
    score: float


class Terms:
    """The names of the classes and properties of one schema, by their stems."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._named: list[tuple[str, str, tuple[str, ...], float]] = []
        for iri, class_ in schema.classes.items():
            self._add("class", iri, class_.name, 1.0 if class_.instances else 0.97)
        for iri, property in schema.properties.items():
            self._add("property", iri, property.name, 1.0 if property.statements else 0.6)
        above = {one for class_ in schema.classes.values() if class_.instances for one in class_.above}
        for iri, property in schema.properties.items():
            for reached in property.range if property.statements else ():
                # `services without a repository`: of a kind that nothing is said to be, what leads to it is meant.
                empty = reached in schema.classes and not schema.classes[reached].instances and reached not in above
                if empty:
                    self._add("property", iri, schema.classes[reached].name, 0.99)
        self._by_stem: dict[str, list[int]] = defaultdict(list)
        for at, (_, _, parts, _) in enumerate(self._named):
            for part in set(parts):
                self._by_stem[part[:5]].append(at)

    def _add(self, kind: str, iri: str, name: Named, weight: float) -> None:
        seen = set()
        for number, text in enumerate((name.label, tail(iri), *name.synonyms)):
            parts = stems(text)
            if parts and parts not in seen:
                seen.add(parts)
                self._named.append((kind, iri, parts, weight * (1.0 if number != 1 else 0.98)))

    def near(self, parts: Sequence[str]) -> list[tuple[str, str, float]]:
        """(kind, IRI, score) of the terms that a span of these stems may mean, the best first."""
        best: dict[tuple[str, str], float] = {}
        for at in {at for part in parts for at in self._by_stem.get(part[:5], ())}:
            kind, iri, named, weight = self._named[at]
            score = alike(parts, named) * weight
            if len(parts) > len(named) and score < 0.72:
                continue  # words are left over: they mean something else
            # `reliable` means the reliability index: one word of a name of two is enough, if it is the telling one.
            if len(parts) < len(named) and all(max(kin(part, one) for one in named) >= 0.85 for part in parts):
                score = max(score, weight * (0.62 if kind == "property" else 0.56))
            if score >= LEAST and score > best.get((kind, iri), 0.0):
                best[kind, iri] = score
        return sorted(((*pair, score) for pair, score in best.items()), key=lambda one: (-one[2], one[0], one[1]))

    def doers(self, root: str) -> list[tuple[str, str, float]]:
        """The properties that say who did it, of the things that a verb's stem names: the deployer of a deployment."""
        found = []
        for kind, iri, score in self.near([root]):
            for use in self.schema.of(iri) if kind == "class" else ():
                if any(not one.literal and person(self.schema, one.iri) for one in use.ranges):
                    found.append(("property", use.property, score))
        return found[:1]

    def knows(self, word: str) -> bool:
        """Whether a word is one of a name that the data uses."""
        return any(score >= 0.85 for _, _, score in self.near([stem(word)]))

    def closest(self, word: str, most: int = 3) -> list[str]:
        """The names of terms that look most like a word, for who asks what there is instead."""
        labels = sorted({one.name.label for one in self.schema.classes.values()}
                        | {one.name.label for one in self.schema.properties.values() if one.statements})  # fmt: skip
        found = process.extract(word, labels, scorer=fuzz.ratio, limit=most, score_cutoff=65)
        return [label for label, _, _ in found]


_PERSONS = ("person", "people", "user", "employe", "member", "develop", "staff", "author", "human", "custom")


def person(schema: Schema, class_: str) -> bool:
    """Whether who asks `who` may mean instances of the class."""
    one = schema.classes.get(class_)
    names = [tail(class_)] + ([one.name.label, *map(tail, one.above)] if one is not None else [])
    return any(part.startswith(_PERSONS) for name in names for part in stems(name))


def tail(iri: str) -> str:
    """The last part of an IRI."""
    return iri.rstrip("/#").replace("#", "/").rpartition("/")[2]


def covers(
    words: Sequence[Word], taken: Iterable[int], breaks: Iterable[int], terms: Terms, lookup: Lookup
) -> list[Cover]:
    """The best ways to read the words that nothing else has taken, the best first; no span goes over a break."""
    held, breaks = set(taken), set(breaks)
    spans: dict[int, list[Mention]] = defaultdict(list)
    for start in range(len(words)):
        if start in held:
            continue
        for end in range(start + 1, min(len(words), start + LONGEST) + 1):
            if (
                end - 1 in held
                or (words[end - 1].quoted and end - start > 1)
                or (end - 1 in breaks and end - 1 > start)
            ):
                break
            spans[start] += _meanings(words, start, end, terms, lookup)
            if words[start].quoted:
                break
    return _best(words, held, spans)


def _meanings(words: Sequence[Word], start: int, end: int, terms: Terms, lookup: Lookup) -> list[Mention]:
    span = words[start:end]
    if any(one.folded in STOP and one.folded not in _INSIDE for one in span[1:-1]):
        return []
    if len(span) == 1 and span[0].number is not None and not span[0].quoted and len(span[0].folded) < 5:
        return []
    # A span begins and ends with a word that says something.
    edge = (span[0], span[-1])
    if any(not one.content and one.folded not in ("type", "kind") for one in edge):
        return []
    found: list[Mention] = []
    if not any(one.quoted for one in span):
        parts = [stem(one.folded) if "-" not in one.folded else one.folded for one in span if one.content]
        spelled = [part for one in parts for part in stems(one)] or list(parts)
        for kind, iri, score in terms.near(spelled)[:EACH]:
            found.append(Mention(start, end, kind, iri, score))
        if not found and len(span) == 1:
            # Who owns is the owner; what stands for a word in one catalogue is another in the next.
            doer = re.fullmatch(r"(\w{3,}?)(?:e?rs?|ors?)", span[0].folded)
            roots = [stem(doer.group(1)), stem(doer.group(1) + "e")] if doer else []
            by = [one for root in roots for one in terms.doers(root)]
            found += [
                Mention(start, end, *near[:2], near[2] * 0.95)
                for near in by or [one for root in roots for one in terms.near([root])[:1]]
            ]
        if len(span) == 1 and all(one.score < 0.8 for one in found):
            root = _KINDRED.get(span[0].stem, ())
            kindred = [
                (kind, iri, 0.8 * score) for one in root for kind, iri, score in terms.near([one]) if score > 0.9
            ]
            found += [Mention(start, end, kind, iri, score) for kind, iri, score in kindred[:EACH]]
    text = " ".join(one.text for one in span)
    things = lookup.entities(text, EACH)
    if not things and span[-1].text.endswith(("'s", "’s")):
        text = text[:-2]
        things = lookup.entities(text, EACH)
    kinds = _kinds(words, start, end, terms)
    alike_ = [one for one in things if one.score < 0.85 and kinds & set(one.classes)]
    if len(alike_) == 1:
        # `the sign-in service`: one service is called so in part.
        found.append(Mention(start, end, "entity", alike_[0].iri, max(0.82, alike_[0].score), alike_[0]))
        things = [one for one in things if one is not alike_[0]]
    for entity in things:
        # A part of a name in lower case is rather a word than a name.
        plain = end - start == 1 and not span[0].quoted and span[0].text.islower()
        score = entity.score - (0.0 if not plain else 0.25 if entity.score < 0.85 else 0.02)
        if score >= LEAST:
            found.append(Mention(start, end, "entity", entity.iri, score, entity))
    values = tuple(lookup.values(text))
    if not values and end - start == 1 and not span[0].quoted and span[0].folded in COUNTRIES:
        values = tuple(lookup.values(COUNTRIES[span[0].folded]))
        found += [
            Mention(start, end, "entity", one.iri, one.score - 0.02, one)
            for one in lookup.entities(COUNTRIES[span[0].folded], EACH)
            if one.score > 0.9
        ]
    if values:
        found.append(Mention(start, end, "value", values[0].property, values[0].score, None, values))
    return found


def _kinds(words: Sequence[Word], start: int, end: int, terms: Terms) -> set[str]:
    """The classes that the word after a span, or before it, says it is of."""
    beside = [
        words[at] for at in (end, start - 1) if 0 <= at < len(words) and words[at].content and not words[at].quoted
    ]
    near = [one for word in beside for one in terms.near(stems(word.folded))]
    return {iri for kind, iri, score in near if kind == "class" and score > 0.9}


def _best(words: Sequence[Word], held: set[int], spans: dict[int, list[Mention]]) -> list[Cover]:
    """The best covers, by a search from the front that keeps the best few at each word."""
    beams: list[list[tuple[float, tuple[Mention, ...], tuple[int, ...]]]] = [[] for _ in range(len(words) + 1)]
    beams[0] = [(0.0, (), ())]
    for at in range(len(words)):
        beams[at] = _distinct(beams[at])
        for score, mentions, unread in beams[at]:
            word = words[at]
            if at in held or not word.content:
                beams[at + 1].append((score, mentions, unread))
            else:
                # What is left unread costs; a word that only joins costs little.
                cost = 0.25 if soft(word) else 1.0
                beams[at + 1].append((score - cost, mentions, (*unread, at)))
            for one in spans.get(at, ()):
                content = sum(1 for word in words[one.start : one.end] if word.content)
                gain = one.score * content + 0.25 * (content - 1) - 0.08
                beams[one.end].append((score + gain, (*mentions, one), unread))
    return [Cover(mentions, unread, score) for score, mentions, unread in _distinct(beams[len(words)])]


def _distinct(
    beam: list[tuple[float, tuple[Mention, ...], tuple[int, ...]]],
) -> list[tuple[float, tuple[Mention, ...], tuple[int, ...]]]:
    return heapq.nlargest(COVERS, beam, key=lambda one: (one[0], -len(one[1])))


def soft(word: Word) -> bool:
    """Whether a word may be left unread: a verb that joins, or a word of no kind."""
    return not word.quoted and (word.folded in VERBS or word.stem in _VERB_STEMS)


_KINDRED = {stem(word): tuple(stem(other) for other in others) for word, others in KINDRED.items()}
_VERB_STEMS = frozenset(stem(word) for word in VERBS)
