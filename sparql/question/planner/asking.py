"""How a question asks: what is wanted of the things it names, and which of its words only say so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date

from sparql.question.planner.words import (
    AUXILIARIES,
    NEGATIONS,
    ORDINALS,
    UNITS,
    Word,
    kin,
    period,
    stem,
)

_UP, _DOWN = "desc", "asc"
MEASURES: dict[str, tuple[tuple[str, ...], str]] = {
    word: (tuple(stem(one) for one in of.split()), way)
    for words, of, way in (
        ("expensive costly pricey priciest dear", "price cost amount fee rate salary", _UP),
        ("cheap inexpensive affordable", "price cost amount fee rate", _DOWN),
        ("heavy", "weight mass", _UP), ("light lightweight", "weight mass", _DOWN),
        ("tall high", "height", _UP), ("short", "length duration height", _DOWN),
        ("wide broad", "width", _UP), ("narrow thin", "width thickness", _DOWN),
        ("deep", "depth", _UP), ("shallow", "depth", _DOWN),
        ("long", "length duration", _UP),
        ("big large huge", "size area volume population gigabytes bytes capacity count amount", _UP),
        ("small little tiny", "size area volume population gigabytes bytes capacity count amount", _DOWN),
        ("new recent late young", "date created launched joined opened started at time birth founded year", _UP),
        ("old early", "date created launched joined opened started at time birth founded year", _DOWN),
        ("fast quick", "speed duration", _UP), ("slow", "speed duration", _DOWN),
        ("severe critical", "severity priority", _UP), ("rich", "salary income amount", _UP),
    )
    for word in words.split()
}  # fmt: skip
"""What an adjective measures: the stems that the property's name may have, and which end its superlative is."""
_IRREGULAR = {
    "latest": "late", "newest": "new", "oldest": "old", "eldest": "old", "earliest": "early", "heaviest": "heavy",
    "priciest": "expensive", "costliest": "costly", "worst": "severe", "later": "late", "earlier": "early",
    "heavier": "heavy", "pricier": "expensive", "biggest": "big", "bigger": "big", "older": "old",
}  # fmt: skip
_TOP = {"highest": _UP, "greatest": _UP, "most": _UP, "maximum": _UP, "max": _UP, "top": _UP, "largest": _UP,
        "biggest": _UP, "best": _UP, "lowest": _DOWN, "least": _DOWN, "fewest": _DOWN, "minimum": _DOWN,
        "min": _DOWN, "smallest": _DOWN, "bottom": _DOWN}  # fmt: skip
_MORE = {
    ("more", "than"): ">", ("greater", "than"): ">", ("higher", "than"): ">", ("larger", "than"): ">",
    ("bigger", "than"): ">", ("above",): ">", ("over",): ">", ("exceeding",): ">", ("exceed",): ">",
    ("exceeds",): ">", ("at", "least"): ">=", ("no", "less", "than"): ">=", ("no", "fewer", "than"): ">=",
    ("minimum", "of"): ">=", ("less", "than"): "<", ("fewer", "than"): "<", ("lower", "than"): "<",
    ("smaller", "than"): "<", ("below",): "<", ("under",): "<", ("at", "most"): "<=", ("no", "more", "than"): "<=",
    ("up", "to"): "<=", ("maximum", "of"): "<=", ("not", "exceed"): "<=", ("exactly",): "=", ("equal", "to"): "=",
    ("equals",): "=", ("of",): "=",
}  # fmt: skip
_WHEN = {"in": "in", "on": "in", "during": "in", "since": ">=", "after": ">", "before": "<", "until": "<", "from": ">=",
         "by": "<", "later": ">", "earlier": "<", "past": ">"}  # fmt: skip
_AVERAGES = {"average": "AVG", "mean": "AVG", "avg": "AVG", "total": "SUM", "sum": "SUM", "combined": "SUM",
             "altogether": "SUM"}  # fmt: skip
_UNENDED = frozenset({"open", "unresolved", "unclosed", "ongoing", "outstanding", "unfinished", "pending"})
ENDED = ("close", "resolv", "finish", "complet", "end")
"""The stems of properties that say that something is over."""
_MEASURED = """
    euro eur dollar usd pound gbp cent percent % mm cm m km metre meter milimeter millimeter millimetre centimeter
    centimetre kilometer kilometre mile inch foot g gram kg kilogram ton lb gb mb kb tb gigabyte megabyte byte second
    minute hour day week month year ms s h unit piece degree watt volt item time
"""
MEASURED = frozenset(map(stem, _MEASURED.split()))
"""What may follow a number and name nothing."""


@dataclass(frozen=True, slots=True)
class Superlative:
    """The end of an order: `of` are stems of the property measured (empty: what is named next), `most` how many."""

    at: int
    end: int
    way: str
    of: tuple[str, ...] = ()
    most: int = 1
    skip: int = 0


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` and a number, or a period; `of` as for a superlative."""

    at: int
    end: int
    operator: str
    number: float | None = None
    days: tuple[date, date] | None = None
    of: tuple[str, ...] = ()


@dataclass(slots=True)
class Asked:
    """What a question wants, and the words that say so (`taken`)."""

    form: str = "list"
    """list, count, ask, or an aggregate: AVG, SUM, MIN, MAX."""
    head: str = ""
    """The question word: who, what, where, when; "" without one."""
    superlatives: list[Superlative] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    negations: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    order: tuple[int, bool] | None = None
    transitive: bool = False
    measure: tuple[str, ...] = ()
    """What `how` asks the measure of: `how big`."""
    open: list[int] = field(default_factory=list)
    """Where a word says that something is not over."""
    taken: set[int] = field(default_factory=set)


def asked(words: Sequence[Word], today: date) -> Asked:
    """How the words ask."""
    found = Asked()
    if not words:
        return found
    _head(words, found)
    at = 0
    while at < len(words):
        at += _step(words, at, found, today)
    return found


def _head(words: Sequence[Word], found: Asked) -> None:
    first = words[0].folded
    for word in words[:6]:
        if word.folded in ("who", "whom", "whose", "where", "when", "what", "which"):
            found.head = {"whom": "who", "whose": "who"}.get(word.folded, word.folded)
            break
    if first in AUXILIARIES and not found.head:
        found.form = "ask"
    for at in range(len(words) - 1):
        pair = (words[at].folded, words[at + 1].folded)
        if pair in (("how", "many"), ("number", "of"), ("count", "of")) or (at == 0 and pair[0] == "count"):
            found.form = "count"
            found.taken |= {at, at + 1} if pair[0] != "count" or pair[1] == "of" else {at}
            break
    for at, word in enumerate(words[:-1]):
        measured = _measure(words[at + 1].folded) if word.folded == "how" else None
        if measured is not None:
            found.measure = measured[0]
            found.taken |= {at, at + 1}
    for at, word in enumerate(words):
        if word.folded in _UNENDED:
            found.open.append(at)
    for word in words:
        if word.folded in ("indirectly", "transitively", "recursively", "ultimately"):
            found.transitive = True


def _step(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    """Reads what begins at a word; how many words it took, at least 1."""
    word = words[at]
    if word.quoted or at in found.taken:
        return 1
    for read in (_compared, _dated, _superlative, _aggregate, _grouped, _ordered, _adverb):
        used = read(words, at, found, today)
        if used:
            found.taken.update(range(at, at + used))
            return used
    if word.folded in NEGATIONS or word.folded.endswith(("n't", "n’t")):
        found.negations.append(at)
        found.taken.add(at)
    return 1


def _phrase(words: Sequence[Word], at: int, table: dict[tuple[str, ...], str]) -> tuple[str, int] | None:
    for size in (3, 2, 1):
        key = tuple(one.folded for one in words[at : at + size])
        if len(key) == size and key in table:
            return table[key], size
    return None


def _compared(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    """`more than 500 euros`, `cheaper than 20`, `between 5 and 10`, `older than 2020`."""
    if words[at].folded == "between":
        return _between(words, at, found, today)
    of: tuple[str, ...] = ()
    phrase = _phrase(words, at, _MORE)
    if phrase is None:
        than = next((size for size in (1, 2) if at + size < len(words) and words[at + size].folded == "than"), 0)
        measured = _measure(words[at + than - 1].folded) if than else None
        if measured is None or (than == 2 and words[at].folded not in ("more", "less")):
            return 0
        of, way = measured
        less = than == 2 and words[at].folded == "less"
        phrase = (">" if (way == _UP) != less else "<", than + 1)
    operator, size = phrase
    span = period(tuple(words), at + size, today)
    number = words[at + size].number if at + size < len(words) else None
    if of and span is not None and words[at + size].folded.isdigit() is False:
        number = None
    if number is None and span is not None:
        # Older than a day is before it: the measure of age runs against the dates.
        found.comparisons.append(Comparison(at, at + size + span[2], operator, None, span[:2], of))
        return size + span[2]
    if number is None or operator == "=" and words[at].folded == "of":
        return 0
    used, number = _unit(words, at + size, number)
    found.comparisons.append(Comparison(at, at + size + used, operator, number, None, of))
    return size + used


def _between(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    spelled = tuple(words)
    first = period(spelled, at + 1, today) if at + 1 < len(words) else None
    if first is not None and at + 1 + first[2] < len(words) and words[at + 1 + first[2]].folded == "and":
        second = period(spelled, at + 2 + first[2], today) if at + 2 + first[2] < len(words) else None
        if second is not None:
            end = at + 2 + first[2] + second[2]
            found.comparisons.append(Comparison(at, end, "in", None, (first[0], second[1])))
            return end - at
    if at + 3 < len(words) and words[at + 2].folded == "and":
        low, high = words[at + 1].number, words[at + 3].number
        if low is not None and high is not None:
            used, high = _unit(words, at + 3, high)
            found.comparisons.append(Comparison(at, at + 3 + used, ">=", low))
            found.comparisons.append(Comparison(at, at + 3 + used, "<=", high))
            return 3 + used
    return 0


def _unit(words: Sequence[Word], at: int, number: float) -> tuple[int, float]:
    """How many words a number with its unit takes, and what it is."""
    used = 1
    if at + used < len(words) and words[at + used].folded in UNITS and words[at + used].folded != "m":
        number *= UNITS[words[at + used].folded]
        used += 1
    if at + used < len(words) and words[at + used].stem in MEASURED:
        used += 1
    return used, number


def _dated(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    operator = _WHEN.get(words[at].folded)
    size = 1
    if operator is None or at + 1 >= len(words):
        return 0
    if words[at + 1].folded in ("than", "the"):
        size = 2
    if at + size >= len(words):
        return 0
    span = period(tuple(words), at + size, today)
    if span is None:
        return 0
    found.comparisons.append(Comparison(at, at + size + span[2], operator, None, span[:2]))
    return size + span[2]


def _measure(word: str) -> tuple[tuple[str, ...], str] | None:
    """What a comparative or superlative adjective measures."""
    base = _IRREGULAR.get(word)
    if base is None:
        for end in ("est", "er", ""):
            root = word.removesuffix(end) if end else word
            tries = (root, root + "e", root[:-1] if len(root) > 2 and root[-1] == root[-2] else root,
                     root[:-1] + "y" if root.endswith("i") else root)  # fmt: skip
            base = next((one for one in tries if one in MEASURES), None)
            if base is not None:
                break
    return MEASURES.get(base) if base is not None else None


def _superlative(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    """`the three cheapest`, `most expensive`, `highest`, `top 5`, `6th to 10th most expensive`."""
    start, most, skip = at, 1, 0
    word = words[at]
    span = _ranks(words, at)
    if span is not None:
        skip, most, used = span
        at += used
    elif word.number is not None and at + 1 < len(words) and _ends(words, at + 1) is not None:
        most, at = int(word.number), at + 1
    elif word.folded in ORDINALS and ORDINALS[word.folded] > 1 and at + 1 < len(words) and _ends(words, at + 1):
        skip, at = ORDINALS[word.folded] - 1, at + 1
    if at >= len(words):
        return 0
    end = _ends(words, at)
    if end is None:
        return 0
    way, of, used = end
    if words[at].folded in ("top", "bottom") and at + used < len(words) and words[at + used].number is not None:
        most = int(words[at + used].number or 1)
        used += 1
    if words[at].folded in ("most", "least", "top", "bottom") and not of and at + used >= len(words):
        return 0
    found.superlatives.append(Superlative(start, at + used, way, of, max(1, most), skip))
    return at + used - start


def _ranks(words: Sequence[Word], at: int) -> tuple[int, int, int] | None:
    """(skipped, how many, words) of `6th to 10th`."""
    if at + 2 >= len(words) or words[at + 1].folded not in ("to", "through", "and"):
        return None
    low, high = _rank(words[at]), _rank(words[at + 2])
    if low is None or high is None or high < low or _ends(words, at + 3) is None:
        return None
    return low - 1, high - low + 1, 3


def _rank(word: Word) -> int | None:
    if word.folded in ORDINALS:
        return ORDINALS[word.folded]
    digits = word.folded.rstrip("stndrh")
    return int(digits) if digits.isdigit() and digits != word.folded else None


def _ends(words: Sequence[Word], at: int) -> tuple[str, tuple[str, ...], int] | None:
    """(which end, what is measured, words) of a superlative that begins at a word."""
    if at >= len(words):
        return None
    word = words[at].folded
    if word in ("most", "least") and at + 1 < len(words):
        if at and words[at - 1].folded == "at":
            return None
        following = _measure(words[at + 1].folded)
        if following is not None:
            of, way = following
            return (way if word == "most" else (_DOWN if way == _UP else _UP)), of, 2
        return _TOP[word], (), 1
    if word in ("first", "last") and (at + 1 == len(words) or words[at - 1].content):
        return (_DOWN if word == "first" else _UP), MEASURES["new"][0], 1
    measured = _measure(word) if word.endswith("st") else None
    if measured is not None and word not in _TOP:
        return measured[1], measured[0], 1
    if word in _TOP:
        of = measured[0] if measured is not None and word in ("largest", "biggest", "smallest") else ()
        return _TOP[word], of, 1
    return None


def _aggregate(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    form = _AVERAGES.get(words[at].folded)
    if form is None or found.form == "ask":
        return 0
    if found.form == "list":
        found.form = form
    return 1


def _grouped(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    """`per team`, `for each team`, `by team` after a count or an aggregate."""
    word = words[at].folded
    following = words[at + 1].folded if at + 1 < len(words) else ""
    if word == "per" or (word in ("for", "by", "of", "in", "from") and following in ("each", "every")):
        used = 1 if word == "per" else 2
        found.groups.append(at + used)
        return used
    if word in ("each", "every") and found.form in ("count", "AVG", "SUM"):
        found.groups.append(at + 1)
        return 1
    if word in ("grouped", "group") and following == "by":
        found.groups.append(at + 2)
        return 2
    if word == "by" and found.form in ("count", "AVG", "SUM") and at + 1 == len(words) - 1:
        found.groups.append(at + 1)
        return 1
    return 0


def _ordered(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    if words[at].folded in ("sorted", "ordered", "sort", "order", "ranked") and at + 2 < len(words) + 1:
        if at + 1 < len(words) and words[at + 1].folded == "by":
            down = any(one.folded.startswith("descend") for one in words[at:])
            found.order = (at + 2, down)
            return 2
        if any(one.folded.startswith(("descend", "ascend")) for one in words[at : at + 4]):
            return 1
    if words[at].folded.startswith(("descending", "ascending", "alphabetical")):
        return 1
    return 0


def _adverb(words: Sequence[Word], at: int, found: Asked, today: date) -> int:
    """`directly or not`, `directly or indirectly`, `transitively`."""
    word = words[at].folded
    if word == "directly":
        rest = [one.folded for one in words[at + 1 : at + 3]]
        if rest[:1] == ["or"]:
            found.transitive = True
            return len(rest) + 1
        return 1
    if word in ("indirectly", "transitively", "recursively", "ultimately"):
        return 1
    return 0


def measures(of: Sequence[str], parts: Sequence[str]) -> float:
    """How well a property whose name has these stems is what an adjective measures; earlier stems are meant rather."""
    best = 0.0
    for place, one in enumerate(of):
        for part in parts:
            best = max(best, kin(one, part) - 0.04 * place - 0.02 * (len(parts) - 1))
    return best
