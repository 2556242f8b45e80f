"""An XML record is one element: attributes are `@name`, its text `#text`, a repeated child a list."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, BinaryIO
from xml.sax import SAXParseException
from xml.sax.handler import ContentHandler, feature_namespaces
from xml.sax.xmlreader import AttributesImpl, Locator

from defusedxml.common import DefusedXmlException, EntitiesForbidden
from defusedxml.sax import make_parser

from sources.limits import KIB, Limits, size
from sources.record import ReadError
from sources.tables import Row

_CHUNK = 64 * KIB


class XmlPathError(ValueError):
    """A record path that is not one of elements."""


def parse(path: str | None) -> list[str]:
    """The element names from the root: `/catalog/book` or `catalog.book`; empty for the root's children."""
    if path is None:
        return []
    text = path.strip().removeprefix("$")
    names = [name.removesuffix("[*]") for name in (text.split("/") if "/" in text else text.split("."))]
    if names and not names[0]:
        names = names[1:]
    if not names or not all(names):
        raise XmlPathError(f"record_path {path!r} is not a path of elements. Write it like '/catalog/book'.")
    return names


def rows(file: BinaryIO, where: str, encoding: str | None, steps: list[str], limits: Limits) -> Iterator[Row]:
    """The elements at the path (or the root's children), each complete before the next is read.

    Names are local: prefixes are dropped. No entity or document is fetched or expanded. Raises ReadError naming the
    line where the document breaks, nests too deep or a record grows over `max_record_bytes`.
    """
    found: list[tuple[int, Any]] = []
    handler = _Handler(steps or ["*", "*"], where, limits, found)
    parser = make_parser()
    parser.setFeature(feature_namespaces, False)
    parser.forbid_external = True
    parser.setContentHandler(handler)
    handler.setDocumentLocator(parser)
    decoder = codecs.getincrementaldecoder(encoding)() if encoding else None
    try:
        while chunk := file.read(_CHUNK):
            # Parsing text overrides the encoding that the document declares.
            parser.feed(decoder.decode(chunk) if decoder else chunk)
            for line, value in found:
                yield f":{line}", None, value if isinstance(value, dict) else {"value": value}, ""
            found.clear()
        parser.close()
    except SAXParseException as wrong:
        line = wrong.getLineNumber() or 1
        problem = wrong.getMessage()
        cut = "Is it half-written?" if problem in ("no element found", "unclosed token") else ""
        raise ReadError(f"{where}:{line}", f"is not XML: {problem}", cut) from None
    except DefusedXmlException as wrong:
        what = "refers outside itself"
        if isinstance(wrong, EntitiesForbidden):
            what = f"declares the entity '{wrong.name}'"
        raise ReadError(
            f"{where}:{handler.line}", f"{what}, and entities are never expanded", "Write the text out."
        ) from None
    except UnicodeDecodeError as wrong:
        raise ReadError(f"{where}:{handler.line}", f"is not {encoding}: {wrong.reason}", "Set encoding.") from None
    except (LookupError, ValueError) as wrong:
        # The encoding that a document declares may be one that Python does not know.
        if isinstance(wrong, ReadError):
            raise
        raise ReadError(f"{where}:{handler.line}", f"cannot be read: {wrong}", "Set encoding.") from None
    for line, value in found:
        yield f":{line}", None, value if isinstance(value, dict) else {"value": value}, ""


class _Handler(ContentHandler):
    """Builds the elements on the path and forgets everything else."""

    def __init__(self, steps: list[str], where: str, limits: Limits, found: list[tuple[int, Any]]) -> None:
        super().__init__()
        self._steps, self._where, self._limits, self._found = steps, where, limits, found
        self._names: list[str] = []
        self._open: list[tuple[dict[str, Any], list[str], int]] = []
        self._held = 0
        self._locator: Locator | None = None

    @property
    def line(self) -> int:
        return (self._locator.getLineNumber() if self._locator else None) or 1

    def setDocumentLocator(self, locator: Locator) -> None:
        self._locator = locator

    def startElement(self, name: str, attrs: AttributesImpl) -> None:
        self._names.append(name.rpartition(":")[2])
        if len(self._names) > self._limits.max_depth:
            raise ReadError(
                f"{self._where}:{self.line}",
                f"nests deeper than max_depth ({self._limits.max_depth})",
                "Raise max_depth under [limits].",
            )
        if self._open or self._on_path():
            data: dict[str, Any] = {}
            for key, value in attrs.items():
                if not (key == "xmlns" or key.startswith("xmlns:")):
                    data["@" + key.rpartition(":")[2]] = value
                    self._hold(len(value))
            self._open.append((data, [], self.line))

    def characters(self, content: str) -> None:
        if self._open:
            self._open[-1][1].append(content)
            self._hold(len(content))

    def endElement(self, name: str) -> None:
        own = self._names.pop()
        if not self._open:
            return
        data, pieces, line = self._open.pop()
        text = "".join(pieces).strip()
        value: Any = data
        if not data:
            value = text
        elif text:
            data["#text"] = text
        if not self._open:
            self._held = 0
            self._found.append((line, value))
            return
        parent = self._open[-1][0]
        if own not in parent:
            parent[own] = value
        elif isinstance(parent[own], list):
            parent[own].append(value)
        else:
            parent[own] = [parent[own], value]

    def _on_path(self) -> bool:
        return len(self._names) == len(self._steps) and all(
            step in ("*", name) for step, name in zip(self._steps, self._names, strict=True)
        )

    def _hold(self, count: int) -> None:
        self._held += count
        if self._held > self._limits.max_record_bytes:
            raise ReadError(
                f"{self._where}:{self.line}",
                f"one record holds more than max_record_bytes ({size(self._limits.max_record_bytes)})",
                "Is record_path right? If so, raise max_record_bytes under [limits].",
            )
