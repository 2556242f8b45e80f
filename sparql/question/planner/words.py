"""A question is words that name something, words that ask, and words that only hold it together."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

import snowballstemmer  # type: ignore[import-untyped]

from sparql.index.folding import fold, humps

MOST_CHARACTERS, MOST_WORDS = 1_000, 120
_WORD = re.compile(r"\d+(?:st|nd|rd|th)\b|\d+(?:[.,]\d+)*(?:%)?|[^\W_]+(?:['’.@&+#/-][^\W_]+)*[+#]*|[^\W_]", re.UNICODE)
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}\Z")
_QUOTED = re.compile(r"\"([^\"]{1,200})\"|“([^”]{1,200})”|«([^»]{1,200})»|(?<!\w)'([^']{1,200})'(?!\w)")
_STEMMER = snowballstemmer.stemmer("english")
_IN_ORDER = str.split


def _listed(words: str) -> frozenset[str]:
    return frozenset(words.split())


STOP = _listed("""
    a an the this that these those of to in on at by with from for and or is are was were be been being am do
    does did done have has had having can could may might must shall should will would we us our ours i me my
    you your they them their it its he she his her him there here as so than then please also any some all
    each every both who whom whose which what where when how why if into onto over about us show give list
    tell find get got display return provide see want need know like out up down off via let lets currently
    current actually exactly just only such but while during within one ones thing things item items something
    anything someone anyone everyone everything called named entries entry exist exists existing kind type
    sort following respective respectively together altogether overall against between among across per too
    still yet ever more most less least fewer many much few
""")
"""Words that name nothing by themselves."""
VERBS = _listed("""
    offer deliver supply provide make made work run use belong employ contain include handle buy sell need
    require hold keep own support serve cover relate connect associate assign involve come go take place
    locate situate live sit be base store ship produce manufacture create write send receive call reach
    contact talk happen occur affect concern apply exceed match meet share carry order look count appear
    feature present report record register mention refer link correspond charge pay cost spend stand say mean
    help lead start end begin stop stay become turn put set lie bring hand speak alternative entire whole
    specific particular certain given different various available possible directory overview table
    report detail details information data summary other another main major written wrote went gone
    sold bought built ran kept held sent given gave taken took found brought met paid spent spoke spoken shown led
    began begun came became driven ridden done
""")
"""Words that join what they stand between, and name nothing the graph must have."""
NEGATIONS = _listed("no not without never none nobody nothing neither nor lack lacks lacking missing cannot")
QUESTION = _listed("who whom whose which what where when how why")
AUXILIARIES = _listed("is are was were do does did has have had can could will would should am")
UNITS = {
    "k": 1e3, "thousand": 1e3, "million": 1e6, "m": 1e6, "billion": 1e9, "hundred": 1e2, "dozen": 12.0,
}  # fmt: skip
NUMBERS = {
    name: float(value)
    for value, name in enumerate(
        _IN_ORDER(
            "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
            " seventeen eighteen nineteen twenty"
        )
    )
}
ORDINALS = {
    name: value
    for value, name in enumerate(_IN_ORDER("first second third fourth fifth sixth seventh eighth ninth tenth"), start=1)
}
MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name} | {
    name.lower(): number for number, name in enumerate(calendar.month_abbr) if name and name != "May"
}
COUNTRIES = {
    adjective: country
    for country, adjectives in {
        "Argentina": "argentinian argentine", "Australia": "australian", "Austria": "austrian", "Belgium": "belgian",
        "Brazil": "brazilian", "Bulgaria": "bulgarian", "Canada": "canadian", "Chile": "chilean", "China": "chinese",
        "Colombia": "colombian", "Croatia": "croatian", "Czech Republic": "czech", "Denmark": "danish",
        "Egypt": "egyptian", "Estonia": "estonian", "Finland": "finnish", "France": "french", "Germany": "german",
        "Greece": "greek", "Hungary": "hungarian", "Iceland": "icelandic", "India": "indian",
        "Indonesia": "indonesian", "Iran": "iranian", "Ireland": "irish", "Israel": "israeli", "Italy": "italian",
        "Japan": "japanese", "Kenya": "kenyan", "Latvia": "latvian", "Lithuania": "lithuanian",
        "Malaysia": "malaysian", "Mexico": "mexican", "Morocco": "moroccan", "Netherlands": "dutch",
        "New Zealand": "newzealander", "Nigeria": "nigerian", "Norway": "norwegian", "Pakistan": "pakistani",
        "Peru": "peruvian", "Philippines": "filipino philippine", "Poland": "polish", "Portugal": "portuguese",
        "Romania": "romanian", "Russia": "russian", "Serbia": "serbian", "Singapore": "singaporean",
        "Slovakia": "slovak slovakian", "Slovenia": "slovenian", "South Africa": "southafrican",
        "South Korea": "korean", "Spain": "spanish", "Sweden": "swedish", "Switzerland": "swiss",
        "Taiwan": "taiwanese", "Thailand": "thai", "Turkey": "turkish", "Ukraine": "ukrainian",
        "United Kingdom": "british uk", "United States": "american us usa", "Vietnam": "vietnamese",
    }.items()
    for adjective in adjectives.split()
}  # fmt: skip
"""What a graph may say of a country by its name, and a question by an adjective or a short form."""


_GROUPS = (
    "staff employee worker personnel colleague people person",
    "vendor supplier provider",
    "customer client buyer",
    "cost price fee spend spending expense expenditure bill",
    "boss manager supervisor head lead leader",
    "product item article good",
    "team squad group",
    "service application app component",
    "repo repository",
    "incident outage",
    "bug issue ticket",
    "country nation",
    "city town locality place",
    "phone telephone",
    "email mail",
    "db database datastore",
    "deployment deploy release rollout ship push",
    "author writer creator",
    "owner holder",
    "firm company organisation organization",
    "begin start",
    "end finish close",
    "close resolve fix",
    "name label title",
    "salary wage pay",
    "department division unit",
    "affect hit impact strike",
    "hire join",
    "chat slack",
    "pager rota duty shift",
    "environment env stage",
    "region location zone",
    "criticality tier",
    "handle slug",
    "status state",
    "amount quantity",
    "expertise skill speciality",
)
KINDRED = {
    word: tuple(dict.fromkeys(other for group in _GROUPS if word in group.split() for other in group.split()
                              if other != word))
    for word in sorted({word for group in _GROUPS for word in group.split()})
}  # fmt: skip
"""Words that mean nearly the same wherever things are catalogued."""


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a question: as written, folded, its stem, and where it stands. `quoted` spans were in quotes."""

    text: str
    folded: str
    stem: str
    start: int
    end: int
    quoted: bool = False

    @property
    def number(self) -> float | None:
        """What number it is, in digits or as a word."""
        if self.quoted:
            return None
        text = self.folded.rstrip("%")
        try:
            return float(
                text.replace(",", "") if text.count(",") and "." in text or _grouped(text) else text.replace(",", ".")
            )
        except ValueError:
            return NUMBERS.get(self.folded)

    @property
    def content(self) -> bool:
        """Whether it names something."""
        # `US` is no `us`: what is written large names something.
        return self.quoted or self.folded not in STOP or (len(self.text) == 2 and self.text.isupper())


def breaks(question: str, words: tuple[Word, ...]) -> frozenset[int]:
    """The words before which the sentence pauses: a comma, a colon, a bracket, a dash."""
    found = set()
    for at in range(1, len(words)):
        if any(sign in question[words[at - 1].end : words[at].start] for sign in ",;:.!?()[]{}—–") or (
            " - " in question[words[at - 1].end : words[at].start]
        ):
            found.add(at)
    return frozenset(found)


def _grouped(text: str) -> bool:
    parts = text.split(",")
    return len(parts) > 1 and all(len(part) == 3 for part in parts[1:])


def read(question: str) -> tuple[Word, ...]:
    """The words of a question, in order; what stands in quotes is one word."""
    text = question[:MOST_CHARACTERS]
    found: list[Word] = []
    quoted = [(one.start(), one.end(), next(filter(None, one.groups()))) for one in _QUOTED.finditer(text)]
    for start, end, inner in quoted:
        found.append(Word(inner, fold(inner), fold(inner), start, end, True))
    for one in _WORD.finditer(text):
        if any(start <= one.start() < end for start, end, _ in quoted):
            continue
        written = one.group()
        folded = fold(written)
        for tail in ("'s", "’s"):
            folded = folded.removesuffix(tail)
        found.append(Word(written, folded, stem(folded), one.start(), one.end()))
    return tuple(sorted(found, key=lambda word: word.start)[:MOST_WORDS])


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """The stem of a folded word: the same for its plural and, mostly, for what is derived from it."""
    return str(_STEMMER.stemWord(word)) if word.isascii() and word.isalpha() else word


@lru_cache(maxsize=65536)
def stems(name: str) -> tuple[str, ...]:
    """The stems of a name, in order, without words that say nothing: `has manager` is `manag`."""
    found = [fold(one.group()) for one in _WORD.finditer(humps(name.replace("_", " ").replace("-", " ")))]
    kept = [stem(one) for one in found if one not in WEAK]
    return tuple(kept or [stem(one) for one in found])


WEAK = _listed("has have is are of the a an by to in at for on with and was been be")
"""Words of the names of properties that say nothing of what they are about."""


def alike(one: Iterable[str], other: Iterable[str]) -> float:
    """How much of two names is the same, 0 to 1; stems of the same root count as nearly the same."""
    mine, theirs = list(dict.fromkeys(one)), list(dict.fromkeys(other))
    if not mine or not theirs:
        return 0.0
    total, left = 0.0, list(theirs)
    for word in mine:
        best, at = 0.0, -1
        for number, candidate in enumerate(left):
            same = kin(word, candidate)
            if same > best:
                best, at = same, number
        if at >= 0:
            total += best
            left.pop(at)
    return total / max(len(mine), len(theirs))


@lru_cache(maxsize=65536)
def kin(one: str, other: str) -> float:
    """1 for the same stem, less for one that begins the other (`expert`, `expertis`), 0 for strangers."""
    if one == other:
        return 1.0
    short, long = sorted((one, other), key=len)
    if len(short) >= 5 and long.startswith(short) and len(long) - len(short) <= 4:
        return 0.85
    shared = 0
    for first, second in zip(one, other, strict=False):
        if first != second:
            break
        shared += 1
    if shared >= 6 and max(len(one), len(other)) - shared <= 3:
        return 0.7
    return 0.0


def period(words: tuple[Word, ...], at: int, today: date) -> tuple[date, date, int] | None:
    """(first day, day after the last, words used) of the date or period that starts at a word; None where none does."""
    if at >= len(words) or words[at].quoted:
        return None
    one = words[at]
    if _ISO.match(one.folded):
        try:
            day = date.fromisoformat(one.folded)
        except ValueError:
            return None
        return day, day + timedelta(days=1), 1
    if one.folded in ("today", "yesterday", "tomorrow"):
        day = today + timedelta(days={"today": 0, "yesterday": -1, "tomorrow": 1}[one.folded])
        return day, day + timedelta(days=1), 1
    following = words[at + 1] if at + 1 < len(words) else None
    if one.folded in ("last", "this", "next", "past") and following is not None:
        return _relative(one.folded, following.stem, today)
    if one.folded in MONTHS:
        return _month(words, at, today)
    if one.folded.isdigit() and following is not None and following.folded in MONTHS and int(one.folded) <= 31:
        third = words[at + 2] if at + 2 < len(words) else None
        year = int(third.folded) if third is not None and _year(third) else today.year
        return _day(year, MONTHS[following.folded], int(one.folded), 3 if third is not None and _year(third) else 2)
    if _year(one):
        year = int(one.folded)
        return date(year, 1, 1), date(year + 1, 1, 1), 1
    return None


def _month(words: tuple[Word, ...], at: int, today: date) -> tuple[date, date, int] | None:
    month, used, day, year = MONTHS[words[at].folded], 1, None, None
    for word in words[at + 1 : at + 3]:
        if _year(word):
            year, used = int(word.folded), used + 1
            break
        digits = re.match(r"(\d{1,2})(?:st|nd|rd|th)?\Z", word.folded)
        if digits and day is None and 1 <= int(digits.group(1)) <= 31:
            day, used = int(digits.group(1)), used + 1
        else:
            break
    if words[at].folded == "may" and year is None and day is None:
        return None
    year = today.year if year is None else year
    if day is not None:
        return _day(year, month, day, used)
    last = date(year + month // 12, month % 12 + 1, 1)
    return date(year, month, 1), last, used


def _day(year: int, month: int, day: int, used: int) -> tuple[date, date, int] | None:
    try:
        found = date(year, month, day)
    except ValueError:
        return None
    return found, found + timedelta(days=1), used


def _relative(which: str, what: str, today: date) -> tuple[date, date, int] | None:
    step = {"last": -1, "past": -1, "this": 0, "next": 1}[which]
    if what == "year":
        return date(today.year + step, 1, 1), date(today.year + step + 1, 1, 1), 2
    if what == "month":
        number = today.year * 12 + today.month - 1 + step
        return date(number // 12, number % 12 + 1, 1), date((number + 1) // 12, (number + 1) % 12 + 1, 1), 2
    if what == "week":
        monday = today - timedelta(days=today.weekday()) + timedelta(weeks=step)
        return monday, monday + timedelta(weeks=1), 2
    return None


def _year(word: Word) -> bool:
    return not word.quoted and word.folded.isdigit() and len(word.folded) == 4 and 1000 <= int(word.folded) <= 2999
