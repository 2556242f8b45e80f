"""Text is UTF-8 unless a mark, its bytes or the settings say otherwise; broken UTF-8 is never guessed away."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import BinaryIO

from charset_normalizer import from_bytes

from sources.limits import KIB, MIB, size
from sources.record import ReadError

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_MULTIBYTE = re.compile(rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}")
# What no Western European text has: bytes undefined in cp1252, the marks of broken UTF-8 and of binary data, an
# opening quote or a euro sign right behind an accented letter.
_NOT_WESTERN = re.compile(rb"[\x81\x8d\x8f\x90\x9d\xfe\xff]|[\xc2\xc3](?![A-Za-z])|[\xe0-\xf4][\x80\x82-\x84\x8b]")
_WESTERN = ["cp1252", "latin_1"]
_SAMPLE = 64 * KIB


@dataclass(frozen=True, slots=True)
class Encoding:
    """How to decode a file; `note` says so when it was a guess."""

    name: str
    note: str = ""


def inspect(file: BinaryIO, where: str, declared: str | None, max_line_bytes: int | None) -> Encoding:
    """The encoding of the whole stream, which has been decoded to its end without keeping it.

    Raises ReadError naming the line of the first byte that is not text, or of a line over `max_line_bytes`.
    """
    if declared is not None:
        try:
            codecs.lookup(declared)
        except LookupError:
            raise ReadError(
                where, f"encoding {declared!r} is not known", "Write a name Python knows, such as 'cp1252'."
            ) from None
    chunk_size = MIB if max_line_bytes is None else max(1, min(MIB, max_line_bytes))
    first = file.read(chunk_size)
    name = declared or _marked(first)
    if declared is not None and codecs.lookup(declared).name == "utf-8" and first.startswith(codecs.BOM_UTF8):
        name = "utf-8-sig"
    decoder = codecs.getincrementaldecoder(name)(errors="strict")
    narrow = not codecs.lookup(name).name.startswith(("utf-16", "utf-32"))
    lines, carried, offset = 0, 0, 0
    chunk = first
    pending = wide = False
    while True:
        if not (chunk.isascii() and narrow and not pending and offset) or b"\0" in chunk:
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as wrong:
                return _not_text(file, where, declared, name, chunk, wrong, lines, wide)
            if "\0" in text:
                line = lines + 1 + (chunk[: chunk.find(b"\0")].count(b"\n") if narrow else 0)
                raise ReadError(f"{where}:{line}", "has a NUL byte, so it is not text", "Set format if it is not text.")
            pending = narrow and bool(decoder.getstate()[0])
            wide = wide or not chunk.isascii()
        if not chunk:
            return Encoding(name)
        if max_line_bytes is not None:
            carried = _line_length(chunk, carried, lines, where, max_line_bytes)
        lines += chunk.count(b"\n")
        offset += len(chunk)
        chunk = file.read(chunk_size)


def _marked(first: bytes) -> str:
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    head = first[:4096]
    if len(head) >= 4 and b"\0" in head:
        # Without a mark, Latin text in UTF-16 shows by its zeros on one side only.
        even, odd = head[0::2].count(0), head[1::2].count(0)
        if odd > len(head) // 8 and even == 0:
            return "utf-16-le"
        if even > len(head) // 8 and odd == 0:
            return "utf-16-be"
    return "utf-8"


def _line_length(chunk: bytes, carried: int, lines: int, where: str, limit: int) -> int:
    """Bytes since the last line end after `chunk`, which is no longer than a line may be."""
    end = b"\n" if b"\n" in chunk else b"\r"
    head = chunk.find(end)
    if carried + (len(chunk) if head < 0 else head) > limit:
        raise ReadError(
            f"{where}:{lines + 1}",
            f"the line is longer than max_line_bytes ({size(limit)})",
            "If it is one value, raise max_line_bytes under [limits]; if not, set format.",
        )
    return carried + len(chunk) if head < 0 else len(chunk) - chunk.rfind(end) - 1


def _not_text(
    file: BinaryIO,
    where: str,
    declared: str | None,
    name: str,
    chunk: bytes,
    wrong: UnicodeDecodeError,
    lines: int,
    wide: bool,
) -> Encoding:
    held = len(wrong.object) - len(chunk)  # bytes of an unfinished character kept from the chunk before
    if name.startswith("utf-16") or name.startswith("utf-32"):
        line = lines + 1 + bytes(wrong.object[: wrong.start]).decode(name, "replace").count("\n")
    else:
        line = lines + 1 + chunk[: max(0, wrong.start - held)].count(b"\n")
    position = f"{where}:{line}"
    if not chunk and wrong.reason.startswith(("unexpected end", "truncated")):
        raise ReadError(position, "ends in the middle of a character", "It looks half-written.") from None
    byte = f"0x{wrong.object[wrong.start]:02X}"
    if declared is not None or name != "utf-8":
        raise ReadError(
            position, f"byte {byte} is not {name}", "Save the file in that encoding, or set encoding."
        ) from None
    rest = file.read(_SAMPLE)
    if not wide and _western(chunk + rest):
        return _western_to_the_end(file, chunk, rest, position, byte)
    raise ReadError(
        position, f"byte {byte} is not UTF-8", "Save the file as UTF-8, or set encoding (such as 'cp1252')."
    ) from None


def _western(data: bytes) -> bool:
    """Whether the bytes read as Western European text and hold no sign of UTF-8."""
    if _unwestern(data):
        return False
    odd = b"\n".join(line for line in data.splitlines() if not line.isascii())
    return from_bytes(odd[:_SAMPLE], cp_isolation=_WESTERN).best() is not None


def _unwestern(data: bytes) -> bool:
    if _MULTIBYTE.search(data):
        return True
    found = _NOT_WESTERN.search(data)
    return found is not None and (found.end() < len(data) or found.group()[0] not in b"\xc2\xc3")


def _western_to_the_end(file: BinaryIO, chunk: bytes, rest: bytes, position: str, byte: str) -> Encoding:
    tail = (chunk + rest)[-3:]
    while more := file.read(MIB):
        if _unwestern(tail + more):
            raise ReadError(position, f"byte {byte} is not UTF-8", "Save the file as UTF-8, or set encoding.")
        tail = more[-3:]
    return Encoding("cp1252", "read as cp1252, because it is not UTF-8; set encoding to be sure")
