"""A log line says what happened and to whom; what a query asks for and what opens the door are in no line."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TextIO

FIELDS = "graphtide_fields"
"""The attribute of a record that holds what it says besides its message."""
HIDDEN = "[hidden]"
TOLD = ("graphtide.access", "graphtide.operations")
"""The loggers whose every line a person asked for; of others warnings are kept."""
_SECRET = re.compile(r"(?i)\b(?:bearer|basic)\s+[^\s\"',;]+|\bgt_[A-Za-z0-9_-]{16,}|(?<=://)[^/\s@]+@")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\x80-\x9f]")


def configure(kind: str, secrets: Iterable[str] = (), stream: TextIO | None = None) -> None:
    """This process logs to `stream`, stderr without one, as "text" or "json" lines, and no secret among them."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter((JsonLines if kind == "json" else TextLines)(secrets))
    root = logging.getLogger()
    for before in [one for one in root.handlers if isinstance(one.formatter, TextLines)]:
        root.removeHandler(before)
    root.addHandler(handler)
    for told in TOLD:
        logging.getLogger(told).setLevel(logging.INFO)


def event(logger: logging.Logger, level: int, message: str, **fields: Any) -> None:
    """One line with fields of its own."""
    logger.log(level, message, extra={FIELDS: fields})


def failure(wrong: BaseException) -> dict[str, Any]:
    """Where an exception came from. Not what it says: that may be a piece of a query."""
    frames = traceback.extract_tb(wrong.__traceback__)[-8:]
    return {
        "error": type(wrong).__name__,
        "where": [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno} {frame.name}" for frame in frames],
    }


class TextLines(logging.Formatter):
    """One line a record: time, level, message, fields."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        super().__init__()
        self.secrets = sorted((secret for secret in secrets if secret), key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        fields = self.fields(record)
        more = " ".join(f"{key}={_short(value)}" for key, value in fields.items())
        said = f"{_now(record)} {record.levelname.lower()} {self.clean(record.getMessage())}"
        return _CONTROL.sub(" ", f"{said} {more}".rstrip())

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """What the record says besides its message, clean."""
        found = dict(getattr(record, FIELDS, {}))
        if record.exc_info and record.exc_info[1] is not None:
            found |= failure(record.exc_info[1])
        return {key: self.clean(value) if isinstance(value, str) else value for key, value in found.items()}

    def clean(self, text: str) -> str:
        """The text without what opens a door."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return _SECRET.sub(HIDDEN, text)


class JsonLines(TextLines):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _now(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self.clean(record.getMessage()),
            **self.fields(record),
        }
        return json.dumps(line, default=str)


def _now(record: logging.LogRecord) -> str:
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value)).replace(" ", "_")
    text = str(value)
    return json.dumps(text) if " " in text or '"' in text else text
