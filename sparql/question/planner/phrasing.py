"""What people say in many ways is said in one: the words that only a person needs go, and idioms become plain words.

A phrase is put in other words only where the graph has a term for those, and none for its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Known = Callable[[str], bool]
"""Whether a word is one of a class or a property that the graph has."""

_FAR = ", directly or indirectly"
_DOWN = (
    r"(?:(?:goes?|went|is|are|was|were|gets?|becomes?) (?:gone )?(?:down|offline|broken|dead|unavailable|out|failing|"
    r"slow|unreachable|stopped|on fire|in trouble|lost)|fails?|failed|breaks?|broke|dies|died|crash(?:es|ed)?|"
    r"stops?(?: working| responding)?|stopped(?: working| responding)?|has an outage|disappears?)"
)
_HIT = (
    r"(?:hit|affected|impacted|broken|at risk|in trouble|break|breaks|broke|fail|fails|suffer|suffers|"
    r"go down|goes down|stop|stops|stop working|stops working|notice|feel it|affected too)"
)
_LOSS = r"(?:(?:an?|the|any) )?(?:outage|failure|loss|crash|downtime|breakdown|problem)s? (?:of|in|at|with|on)"
_BE = r"(?:(?:are|is|would|will|could|can|may|might|do|does|be|get|gets|also|then) )*"
_HOW = r"(?P<how>,? ?(?:directly|indirectly|transitively)[^?]*)?"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A pattern, what it becomes, the words the graph must know for it, and those it must not know."""

    pattern: re.Pattern[str]
    becomes: str
    known: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def _rule(pattern: str, becomes: str, known: str = "", unknown: str = "") -> _Rule:
    return _Rule(re.compile(pattern, re.IGNORECASE), becomes, tuple(known.split()), tuple(unknown.split()))


_POLITE = (
    _rule(r"^(?:(?:hey|hi|hello|please|ok|okay|so|quick question|question)\b[,!.:]* +)+(?=\w)", ""),
    _rule(r"^(?:can|could|would|will) (?:you|we|i|someone|anyone) (?:please )?(?:tell|show|give|list|find|name|get|see|"
          r"look up)(?: me| us)?\b", "show"),
    _rule(r"^do (?:you|we) (?:happen to )?know\b", "show"),
    _rule(r"^(?:i(?:'d| would) (?:like|love)|i (?:need|want|have)|we need|i'm trying|help me) (?:to )?"
          r"(?:know|see|find(?: out)?|understand|learn)\b", "show"),
    _rule(r"[,.!]? *(?:please|thanks|thank you|cheers|thx)[ .!?]*$", ""),
)  # fmt: skip
_IDIOMS = (
    _rule(r"\bdirectly or (?:through|via|by way of|over|not|otherwise)\b[^?.,]*", "directly or indirectly"),
    _rule(r"\b(?:in)?directly (?:and|or) (?:in)?directly\b", "directly or indirectly"),
    # What an outage does is what depends on.
    _rule(rf"^(?:if|when|should|once|suppose|assuming|in case) (?P<x>.{{1,80}}?) {_DOWN},? (?:then )?(?:which|what)\b"
          rf"(?P<of>.*?) {_BE}{_HIT}\b{_HOW}", r"which\g<of> depend on \g<x>\g<how>", "depend"),
    _rule(rf"^(?:which|what)\b(?P<of>.*?) {_BE}{_HIT}\b{_HOW},? (?:if|when|should|once) (?P<x>.{{1,80}}?) {_DOWN}",
          r"which\g<of> depend on \g<x>\g<how>", "depend"),
    _rule(rf"^(?:which|what)\b(?P<of>.*?) {_BE}{_HIT}\b{_HOW} by {_LOSS} (?P<x>[^?,]+)",
          r"which\g<of> depend on \g<x>\g<how>", "depend"),
    _rule(rf"^(?:which|what)\b(?P<of>.*?) (?:would|could|will|does|can|might) {_LOSS} (?P<x>.+?) "
          rf"(?:reach|hit|affect|impact|break|take down|bring down)\b{_HOW}",
          r"which\g<of> depend on \g<x>\g<how>", "depend"),
    _rule(rf"^(?:would|could|will|does|can|might|may) {_LOSS} (?P<x>.+?) (?:reach|hit|affect|impact|break|take down|"
          r"bring down|spread to) (?P<y>[^,?]+)", r"does \g<y> depend on \g<x>", "depend"),
    _rule(r"\b(?:blast radius|impact) of (?:losing )?(?P<x>[^?,]+)", rf"everything that depends on \g<x>{_FAR}",
          "depend", "impact blast"),
    _rule(r"\b(?:is|are|sits?|lies?) downstream (?:of|from)\b", "depends on", "depend", "downstream"),
    _rule(r"\b(?:rel(?:y|ies|ied|ying)|count(?:s|ing)? ) ?(?:up)?on\b", "depends on", "depend", "rely"),
    _rule(r"\bdependents of\b", "things that depend on", "depend"),
    _rule(r"\b(?:dependencies|prerequisites) of (?P<x>[^?,]+)", r"what \g<x> depends on", "depend", "prerequisite"),
    # Who looks after something owns it.
    _rule(r"\bin charge of (?=(?:the )?[\w-]+ (?:team|group|squad|department)\b)", "leading", "lead", "charge"),
    _rule(r"\b(?:(?:is|are) )?(?:responsible|accountable|in charge|on the hook) (?:for|of)\b", "that owns", "own",
          "responsible"),
    _rule(r"\b(?:(?:is|are) )?(?:looking after|looks? after|takes? care of|taking care of)\b", "that owns", "own",
          "care"),
    _rule(r"\bmaintain(?:s|ing)?\b", "owns", "own", "maintain"),
    _rule(r"\bmaintained by\b", "owned by", "own", "maintain"),
    _rule(r"\b(?:owner|keeper|maintainer)less\b|\borphan(?:ed)?\b|\bunowned\b|\bwithout an owning team\b",
          "without an owner", "own", "orphan"),
    # What goes out is deployed, or launched.
    _rule(r"\broll(?:ed|ing)?[ -]?outs?\b", "deployed", "deploy", "rollout"),
    _rule(r"\b(?:released|shipped|pushed)\b", "deployed", "deploy", "release ship push"),
    _rule(r"\b(?:went|gone|goes|go|going) live\b", "launched", "launch"),
    # Who came is who joined.
    _rule(r"\b(?:start(?:ed)?|beg[au]n|hired) (?:working )?(?:here|with us|at the company|in the company)\b", "joined",
          "join"),
    _rule(r"\b(?:has |have )?(?:been|worked|stayed|serving|working) (?:(?:here|around|with us|for us|with the company|"
          r"at the company|in the company|employed) )?(?:the )?longest\b", "joined earliest", "join"),
    _rule(r"\blongest[ -](?:serving|standing|tenured|employed)\b", "earliest joined", "join", "tenure"),
    _rule(r"\b(?:newest|latest|most recent) (?:hire|joiner|recruit|starter|addition)\b", "newest person", "join person",
          "recruit"),
    # Said of a number.
    _rule(r"\bhow much (?:data|storage|disk(?: space)?|space|money|memory)\b", "how much"),
    _rule(r"\b(?:summed|added|adding|totalled)(?: up)?(?: over| across)?\b", "total"),
    _rule(r"\b(?:in all|in sum|all together|all in all|taken together)\b", "in total"),
    _rule(r", *(?:starting|beginning) with the \w+(?: one| ones)?\b", ""),
    _rule(r"\b(?:at|in|with|of|for|by|within|across) (?:the|our|this|the whole) (?:company|organi[sz]ation|firm|"
          r"business)\b", "", unknown="company organisation organization firm business"),
)  # fmt: skip
_STATED = re.compile(
    r"^(?P<x>[^,:;.?!]{1,60}?) (?:is|are|looks?|seems?|keeps?) (?:down|broken|offline|dead|failing|slow|unavailable|"
    r"acting up|on fire|misbehaving|stuck|crashing)\s*[:;,.!—–-]+\s*(?P<rest>\S.*)$",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.?!;])\s+(?=\S)")
_LISTED = re.compile(
    r"(?:please )?(?:name|list|show|give|tell)(?: me| us)? (?:them|those|these|all|each|which(?: ones)?|the names?|"
    r"their names?)\b",
    re.IGNORECASE,
)
_ASIDE = re.compile(
    r"(?:please )?(?:leave|ignore|exclude|skip|omit|no need|thanks|thank|cheers|just|only|one number|a number|i need|"
    r"i want|name|list|show|give|tell|any|count only|do not|don't)\b",
    re.IGNORECASE,
)
_ANY = re.compile(r"^(?:are|is) there (?:any |some |a |an )?|^do we have (?:any |some )?", re.IGNORECASE)
_AFTER = re.compile(r"\s+")


def rephrase(question: str, known: Known) -> str:
    """The question in plainer words, or as it is."""
    text = question.strip()
    first, *rest = _SENTENCE.split(text)
    listed = any(_LISTED.match(one) for one in rest)
    if rest and all(_ASIDE.match(one) or _LISTED.match(one) for one in rest):
        far = next((one for one in rest if "indirectly" in one.lower()), "")
        text = first.rstrip(" .") + ("" if not far or "indirectly" in first.lower() else _FAR)
        if listed:
            text = _ANY.sub("which ", text)
    for rule in _POLITE:
        text = rule.pattern.sub(rule.becomes, text).strip()
    stated = _STATED.match(text)
    if stated is not None:
        text = _pronouns(stated.group("x"), stated.group("rest")) or text
    for rule in _IDIOMS:
        if rule.pattern.search(text) and all(map(known, rule.known)) and not any(map(known, rule.unknown)):
            text = rule.pattern.sub(rule.becomes, text)
    return _AFTER.sub(" ", text).strip() or question


def _pronouns(thing: str, rest: str) -> str | None:
    """What is asked of `it`, asked of the thing by its name; None where nothing is asked of it."""
    named = re.sub(r"\bits (\w+)\b", lambda one: f"the {one.group(1)} of {thing}", rest, flags=re.IGNORECASE)
    named = re.sub(r"\b(?:it|that one|this one)\b", lambda _: thing, named, flags=re.IGNORECASE)
    return None if named == rest else named


__all__ = ["rephrase"]
