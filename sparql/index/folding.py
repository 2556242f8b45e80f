"""Two texts that a person would call the same word fold to the same token, in any script."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

_ASCII = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])")
# Marks that a person leaves out when typing. Those of Indic scripts are vowels, and those of kana are letters.
_MARKS = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670]")
_ALIKE = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ħ": "h"})
# Scripts written without blanks between words: each character is a token, and words are phrases of them.
_UNSPACED = (
    (0x0E00, 0x0EFF), (0x1000, 0x109F), (0x1780, 0x17FF), (0x3040, 0x31FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3), (0xF900, 0xFAFF), (0x20000, 0x3FFFF),
)  # fmt: skip


def fold(text: str) -> str:
    """`text` without case, diacritics and compatibility forms."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFC", _MARKS.sub("", apart)).casefold().translate(_ALIKE)


def tokens(text: str) -> list[str]:
    """The tokens of a text, in order: letters, digits and marks only, so that none means anything to a query."""
    if text.isascii():
        return _ASCII.findall(text.lower())
    folded = fold(text)
    return [folded[start:end] for start, end in _runs(folded)]


def humps(text: str) -> str:
    """`PaymentService2` as `Payment Service 2`; the text itself when it has no humps."""
    return _HUMP.sub(" ", text)


@lru_cache(maxsize=65536)
def singular(word: str) -> str:
    """A folded word without the ending of an English plural."""
    if not word.isascii() or not word.isalpha() or len(word) < 4 or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    if word.endswith(("ses", "xes", "zes", "ches", "shes")):
        return word[:-2]
    return word.removesuffix("s")


def split(text: str) -> tuple[str, ...]:
    """A name's tokens in order, each as one of its kind: `Production` is not `Products`."""
    return tuple(singular(one) for one in tokens(text))


def spans(text: str) -> Iterator[tuple[int, int, list[str]]]:
    """(start, end, tokens) of each word of the text as it is written, for marking it."""
    for start, end in _runs(text):
        yield start, end, tokens(text[start:end])


def _runs(text: str) -> Iterator[tuple[int, int]]:
    start = -1
    for place, letter in enumerate(text):
        kind = _kind(letter)
        if kind == 1:
            if start < 0:
                start = place
            continue
        if kind == 3 and start >= 0:  # a mark belongs to what is before it
            continue
        if start >= 0:
            yield start, place
            start = -1
        if kind == 2:
            yield place, place + 1
    if start >= 0:
        yield start, len(text)


@lru_cache(maxsize=65536)
def _kind(letter: str) -> int:
    """1 part of a word, 2 a word of its own, 3 a mark, 0 between words."""
    code = ord(letter)
    category = unicodedata.category(letter)[0]
    if category == "M":
        return 3
    if category not in "LN":
        return 0
    if code > 0xE00 and any(first <= code <= last for first, last in _UNSPACED):
        return 2
    return 1
