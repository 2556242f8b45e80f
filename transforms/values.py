"""A value becomes a literal of the datatype asked for, or it is not one: nothing is guessed and nothing is rounded."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from ontology.facts import SHORT, XSD, FactsError, literal, string

Text = Callable[[Any], str]
"""A value as spelled N-Triples text. Raises BadValue."""


class BadValue(ValueError):
    """`problem` completes "'born' is '31/02/1990', "; `hint` says what to write."""

    def __init__(self, problem: str, hint: str) -> None:
        self.problem, self.hint = problem, hint
        super().__init__(f"{problem}. {hint}")


_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_PLAIN_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z")
_WHOLE = re.compile(r"([+-]?[0-9]+)\.0+\Z")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\Z")
_PLAIN_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,14})\.[0-9]{0,14}[1-9]\Z")
_DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_ZONE = r"(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9]|[+-]14:00)?"
_DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})" + _ZONE + r"\Z")
_TIME = re.compile(r"([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(\.[0-9]+)?" + f"({_ZONE})" + r"\Z")
_DATETIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[T ]([0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(\.[0-9]+)? ?"
    r"(Z|z|UTC|[+-][0-9]{2}:?[0-9]{2}|[+-][0-9]{2})?\Z"
)
_DURATION = re.compile(
    r"-?P(?=[0-9T])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?\Z"
)
_CALENDAR = {
    "gYear": (re.compile(r"-?(?:[1-9][0-9]{3,}|0[0-9]{3})" + _ZONE + r"\Z"), "a year", "Write YYYY"),
    "gYearMonth": (
        re.compile(r"-?(?:[1-9][0-9]{3,}|0[0-9]{3})-(?:0[1-9]|1[0-2])" + _ZONE + r"\Z"),
        "a year and month",
        "Write YYYY-MM",
    ),
    "gMonth": (re.compile(r"--(?:0[1-9]|1[0-2])" + _ZONE + r"\Z"), "a month", "Write --MM"),
    "gDay": (re.compile(r"---(?:0[1-9]|[12][0-9]|3[01])" + _ZONE + r"\Z"), "a day", "Write ---DD"),
    "gMonthDay": (
        re.compile(r"--(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])" + _ZONE + r"\Z"),
        "a month and day",
        "Write --MM-DD",
    ),
}
_TRUE, _FALSE = frozenset({"true", "1", "yes", "y", "on"}), frozenset({"false", "0", "no", "n", "off"})

INTEGERS: dict[str, tuple[int | None, int | None]] = {
    "integer": (None, None),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-128, 127),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 255),
}
"""The integer datatypes with their ranges: the store keeps them all as xsd:integer."""


def converter(datatype: str | None, language: str | None = None, form: str | None = None) -> Text:
    """The function that spells values of one column. `form` is a strptime format for dates and times."""
    if language is not None:
        tag = language
        return lambda value: _string(plain(value), tag)
    if datatype is None:
        return natural
    name = datatype.removeprefix(XSD) if datatype.startswith(XSD) else ""
    if name == "string":
        return lambda value: _string(plain(value))
    if name in INTEGERS:
        return _integers(name)
    if name == "decimal":
        return _decimal
    if name in ("double", "float"):
        return _cached(_floating(name))
    if name == "boolean":
        return _cached(_boolean)
    if name == "date":
        return _cached(_date if form is None else _formatted(form, _date, "a date"))
    if name in ("dateTime", "dateTimeStamp"):
        return _cached(_datetime if form is None else _formatted(form, _datetime, "a date and time"))
    if name == "time":
        return _cached(_time if form is None else _formatted(form, _time, "a time"))
    if name in ("duration", "dayTimeDuration", "yearMonthDuration"):
        return _cached(_duration(name))
    if name in _CALENDAR:
        return _cached(_calendar(name))
    kept = datatype
    return lambda value: _typed(plain(value), kept)


def natural(value: Any) -> str:
    """A value with the datatype its own type has: text is a string, a float a double, a day a date."""
    if type(value) is str:
        return _string(value)
    if isinstance(value, bool):
        return _TRUE_TEXT if value else _FALSE_TEXT
    if isinstance(value, int):
        return literal(str(value), XSD + "integer")
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, datetime):
        return _datetime(value)
    if isinstance(value, date):
        return _date(value)
    if isinstance(value, time):
        return _time(value)
    if isinstance(value, timedelta):
        return _typed(_day_time(value), XSD + "dayTimeDuration")
    if isinstance(value, (bytes, bytearray)):
        return _typed(bytes(value).hex().upper(), XSD + "hexBinary")
    return _string(plain(value))


def _cached(convert: Text) -> Text:
    # Columns repeat their values; only text is remembered, since 1, 1.0 and True are one key.
    known: dict[str, str] = {}
    get = known.get

    def text(value: Any) -> str:
        if type(value) is not str:
            return convert(value)
        found = get(value)
        if found is None:
            found = convert(value)
            if len(known) < 8192 and len(value) <= SHORT:
                known[value] = found
        return found

    return text


def _string(value: str, language: str | None = None) -> str:
    try:
        return string(value, language)
    except FactsError as wrong:
        raise BadValue("which holds half a character (a lone surrogate)", "Write it as UTF-8") from wrong


def _typed(value: str, datatype: str) -> str:
    try:
        return literal(value, datatype)
    except (FactsError, UnicodeError) as wrong:
        raise BadValue("which holds half a character (a lone surrogate)", "Write it as UTF-8") from wrong


def plain(value: Any) -> str:
    """A single value as a person would write it in a cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray)):
        return bytes(value).hex().upper()
    if isinstance(value, dict):
        raise BadValue("an object, not one value", "Name a field inside it, as in 'owner.name'")
    if isinstance(value, Decimal):
        return format(value, "f")
    return str(value)


_TRUE_TEXT, _FALSE_TEXT = f'"true"^^<{XSD}boolean>', f'"false"^^<{XSD}boolean>'


def _integers(name: str) -> Text:
    low, high = INTEGERS[name]
    bounded = low is not None or high is not None
    tail = f'"^^<{XSD}integer>'

    plain_integer = _PLAIN_INTEGER.match

    def text(value: Any) -> str:
        if isinstance(value, str):
            if not bounded and plain_integer(value):
                return f'"{value}{tail}'
            digits = value.strip()
            whole = _WHOLE.match(digits)
            if whole is not None:
                digits = whole.group(1)
            elif not _INTEGER.match(digits):
                raise BadValue("not a whole number", "Write digits only")
            if len(digits) > 4000:
                raise BadValue("a number of too many digits", "Write it as text")
            number = int(digits)
        elif (
            isinstance(value, (bool, int))
            or isinstance(value, (float, Decimal))
            and math.isfinite(value)
            and value == int(value)
        ):
            number = int(value)
        else:
            raise BadValue("not a whole number", "Write digits only")
        if (low is not None and number < low) or (high is not None and number > high):
            wanted = (
                f"from {low} to {high}"
                if low is not None and high is not None
                else (f"of {low} or more" if low is not None else f"of {high} or less")
            )
            raise BadValue(f"not a number {wanted}", f"Write one, or give the column another datatype than {name}")
        # Beyond 64 bits the store keeps the text, so the text must be made plain here.
        return f'"{number}{tail}'

    return text


def _decimal(value: Any) -> str:
    if isinstance(value, str):
        if _PLAIN_DECIMAL.match(value):
            return f'"{value}"^^<{XSD}decimal>'
        digits = value.strip()
        if not _DECIMAL.match(digits):
            raise BadValue("not a number", "Write digits with a point, as in 12.50")
        return literal(digits, XSD + "decimal")
    if isinstance(value, (bool, int)):
        return literal(str(int(value)), XSD + "decimal")
    if isinstance(value, (float, Decimal)) and math.isfinite(value):
        exact = value if isinstance(value, Decimal) else Decimal(repr(value))
        return literal(format(exact, "f"), XSD + "decimal")
    raise BadValue("not a number", "Write digits with a point, as in 12.50")


def _double_text(value: float) -> str:
    if 1e-4 <= abs(value) < 1e16 or value == 0:
        # Both sides write the shortest digits that read back the same; the store leaves out ".0" and exponents.
        return f'"{repr(value).removesuffix(".0")}"^^<{XSD}double>'
    if not math.isfinite(value):
        return literal("NaN" if math.isnan(value) else "INF" if value > 0 else "-INF", XSD + "double")
    return literal(repr(value), XSD + "double")


def _floating(name: str) -> Text:
    def text(value: Any) -> str:
        if isinstance(value, str):
            digits = value.strip()
            if not _DOUBLE.match(digits):
                if digits.lower().lstrip("+-") in ("nan", "inf", "infinity"):
                    value = float(digits)
                else:
                    raise BadValue("not a number", "Write digits with a point, as in 12.5 or 1.25e3")
            else:
                value = float(digits) if name == "double" else digits
        elif not isinstance(value, (bool, int, float, Decimal)):
            raise BadValue("not a number", "Write digits with a point, as in 12.5 or 1.25e3")
        if name == "double":
            try:
                return _double_text(float(value))
            except OverflowError as wrong:
                raise BadValue("too large a number", "Give the column the datatype xsd:decimal") from wrong
        if isinstance(value, float) and not math.isfinite(value):
            return literal("NaN" if math.isnan(value) else "INF" if value > 0 else "-INF", XSD + "float")
        return literal(value if isinstance(value, str) else repr(float(value)), XSD + "float")

    return text


def _boolean(value: Any) -> str:
    if isinstance(value, bool):
        return _TRUE_TEXT if value else _FALSE_TEXT
    word = plain(value).strip().lower()
    if word in _TRUE:
        return _TRUE_TEXT
    if word in _FALSE:
        return _FALSE_TEXT
    raise BadValue("neither true nor false", "Write true or false")


_NOT_A_DATE = ("not a date", "Write YYYY-MM-DD")


def _date(value: Any) -> str:
    if isinstance(value, datetime):
        if value.time() != time(0):
            raise BadValue("a date with a time", "Give the column the datatype xsd:dateTime")
        return f'"{value.date().isoformat()}"^^<{XSD}date>'
    if isinstance(value, date):
        return f'"{value.isoformat()}"^^<{XSD}date>'
    text = value.strip() if isinstance(value, str) else ""
    found = _DATE.match(text)
    if found is None:
        stamp = _DATETIME.match(text)
        if stamp is None or stamp.group(2).strip("0:") or (stamp.group(3) or "").strip(".0"):
            raise BadValue(*_NOT_A_DATE)
        text = stamp.group(1)
        found = _DATE.match(text)
    assert found is not None
    _day(found.group(1), *_NOT_A_DATE)
    return f'"{text}"^^<{XSD}date>' if found.group(1) == text else literal(text, XSD + "date")


def _day(text: str, problem: str, hint: str) -> None:
    try:
        date.fromisoformat(text)
    except ValueError as wrong:
        raise BadValue(problem, hint) from wrong


_NOT_A_STAMP = ("not a date and time", "Write YYYY-MM-DDTHH:MM:SS")


def _datetime(value: Any) -> str:
    if isinstance(value, datetime):
        return literal(value.isoformat(), XSD + "dateTime")
    if isinstance(value, date):
        return literal(f"{value.isoformat()}T00:00:00", XSD + "dateTime")
    text = value.strip() if isinstance(value, str) else ""
    found = _DATETIME.match(text)
    if found is None:
        if not _DATE.match(text):
            raise BadValue(*_NOT_A_STAMP)
        _day(text[:10], *_NOT_A_STAMP)
        return literal(f"{text[:10]}T00:00:00{text[10:]}", XSD + "dateTime")
    day, clock, fraction, zone = found.groups()
    _day(day, *_NOT_A_STAMP)
    clock = clock if len(clock) == 8 else f"{clock}:00"
    _clock(clock, *_NOT_A_STAMP)
    zone = zone or ""
    if zone in ("z", "UTC"):
        zone = "Z"
    elif len(zone) == 3:
        zone = f"{zone}:00"
    elif len(zone) == 5:
        zone = f"{zone[:3]}:{zone[3:]}"
    if zone[:1] in ("+", "-") and (int(zone[1:3]) * 60 + int(zone[4:]) > 840 or int(zone[4:]) > 59):
        raise BadValue(*_NOT_A_STAMP)
    return literal(f"{day}T{clock}{fraction or ''}{zone}", XSD + "dateTime")


def _clock(text: str, problem: str, hint: str) -> None:
    hours, minutes, seconds = int(text[:2]), int(text[3:5]), int(text[6:8])
    if (hours > 23 and text != "24:00:00") or minutes > 59 or seconds > 59:
        raise BadValue(problem, hint)


def _time(value: Any) -> str:
    if isinstance(value, datetime):
        value = value.timetz()
    if isinstance(value, time):
        return literal(value.isoformat(), XSD + "time")
    found = _TIME.match(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadValue("not a time", "Write HH:MM:SS")
    clock = found.group(1) if len(found.group(1)) == 8 else f"{found.group(1)}:00"
    _clock(clock, "not a time", "Write HH:MM:SS")
    return literal(f"{clock}{found.group(2) or ''}{found.group(3) or ''}", XSD + "time")


def _formatted(form: str, then: Text, what: str) -> Text:
    def text(value: Any) -> str:
        if not isinstance(value, str):
            return then(value)
        try:
            moment = datetime.strptime(value.strip(), form)
        except ValueError as wrong:
            raise BadValue(
                f"not {what} as {form}", f"Write it as in {datetime(2001, 12, 31).strftime(form)}"
            ) from wrong
        return then(moment)

    return text


def _duration(name: str) -> Text:
    def text(value: Any) -> str:
        if isinstance(value, timedelta):
            return _typed(_day_time(value), XSD + name)
        written = value.strip() if isinstance(value, str) else ""
        date_part, _, time_part = written.partition("T")
        bad_day = name == "dayTimeDuration" and re.search("[YM]", date_part)
        bad_month = name == "yearMonthDuration" and (time_part or "D" in date_part)
        if not _DURATION.match(written) or bad_day or bad_month:
            raise BadValue("not a duration", "Write one as in P1DT2H30M")
        return literal(written, XSD + name)

    return text


def _day_time(value: timedelta) -> str:
    sign = "-" if value < timedelta(0) else ""
    value = abs(value)
    fraction = f".{value.microseconds:06d}".rstrip("0") if value.microseconds else ""
    return f"{sign}P{value.days}DT{value.seconds}{fraction}S"


def _calendar(name: str) -> Text:
    pattern, what, hint = _CALENDAR[name]

    def text(value: Any) -> str:
        written = plain(value).strip()
        if not pattern.match(written):
            raise BadValue(f"not {what}", hint)
        return literal(written, XSD + name)

    return text
