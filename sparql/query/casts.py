"""A query may cast to every numeric type of XML Schema, and not only to the six that SPARQL names.

The engine knows xsd:integer, decimal, float, double, boolean, dateTime and string. The types derived from xsd:integer
are casts to that with a range, as XPath has them: what does not fit is an error, and binds nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from pyoxigraph import Literal, NamedNode

XSD = "http://www.w3.org/2001/XMLSchema#"
_RANGES: Mapping[str, tuple[int | None, int | None]] = {
    "long": (-(2**63), 2**63 - 1), "int": (-(2**31), 2**31 - 1), "short": (-(2**15), 2**15 - 1),
    "byte": (-(2**7), 2**7 - 1), "unsignedLong": (0, 2**64 - 1), "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1), "unsignedByte": (0, 2**8 - 1), "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None), "nonPositiveInteger": (None, 0), "negativeInteger": (None, -1),
}  # fmt: skip
_DIGITS = re.compile(r"\s*[+-]?\d+\s*\Z", re.ASCII)
_BOOLEAN = {"true": 1, "1": 1, "false": 0, "0": 0}
_FRACTIONS = frozenset(f"{XSD}{name}" for name in ("decimal", "double", "float"))
_LONGEST = 400


def _cast(low: int | None, high: int | None) -> Callable[..., Literal | None]:
    def cast(*given: Any) -> Literal | None:
        if len(given) != 1 or not isinstance(given[0], Literal) or given[0].language is not None:
            return None
        number = _whole(given[0])
        if number is None or (low is not None and number < low) or (high is not None and number > high):
            return None
        return Literal(str(number), datatype=NamedNode(f"{XSD}integer"))

    return cast


def _whole(term: Literal) -> int | None:
    """The whole number that a literal casts to: a string has to be one, a fraction loses what is behind its point."""
    text, datatype = term.value, term.datatype.value
    if len(text) > _LONGEST:
        return None
    if datatype == f"{XSD}boolean":
        return _BOOLEAN.get(text)
    if datatype in _FRACTIONS:
        try:
            return int(Decimal(text)) if abs(Decimal(text)) < Decimal(10) ** _LONGEST else None
        except (InvalidOperation, ValueError, OverflowError):
            return None
    return int(text) if _DIGITS.match(text) else None


CASTS: Mapping[NamedNode, Callable[..., Literal | None]] = {
    NamedNode(f"{XSD}{name}"): _cast(low, high) for name, (low, high) in _RANGES.items()
}
