"""A document may need others to be understood: it has them from the places that are allowed, or it has them not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

from sparql.outgoing import Outgoing, OutgoingError

MOST_CONTEXTS, MOST_IMPORTS = 20, 20
CONTEXT = "application/ld+json, application/json;q=0.9"
_IMPORTS = re.compile(r"(?:\S+) <http://www\.w3\.org/2002/07/owl#imports> <([^>]+)>\Z")


class NotHad(ValueError):
    """What a document needs could not be had: `str()` says what and why."""


class Needed:
    """The contexts and imports that documents may have. Each URL is fetched once."""

    def __init__(self, contexts: Outgoing, imports: Outgoing) -> None:
        self.contexts, self.imports = contexts, imports
        self._contexts: dict[str, Any] = {}
        self._imported: set[str] = set()

    def inlined(self, data: bytes, base: str) -> bytes:
        """A JSON-LD document with every remote context written into it. Raises NotHad."""
        if not self.contexts.allow or b"@context" not in data:
            return data
        try:
            tree = json.loads(data)
        except ValueError:
            return data  # whoever parses it says what is wrong
        return json.dumps(self._tree(tree, base, ())).encode()

    def imported(self, statements: Iterable[str], read: Callable[[bytes, str, str], set[str]], accept: str) -> set[str]:
        """What the documents say that are imported, and those they import; `read(data, type, url)` reads one.

        An import that is not on the list is a statement like any other. Raises NotHad.
        """
        if not self.imports.allow:
            return set()
        found: set[str] = set()
        waiting = _imports(statements)
        while waiting:
            url = waiting.pop().partition("#")[0]
            if url in self._imported or not self._may(url):
                continue
            if len(self._imported) >= MOST_IMPORTS:
                raise NotHad(f"The document imports more than {MOST_IMPORTS} others.")
            self._imported.add(url)
            try:
                got = self.imports.get(url, accept)
            except OutgoingError as wrong:
                raise NotHad(f"owl:imports <{url}> failed: {wrong}") from wrong
            said = read(got.body, got.content_type, url)
            found |= said
            waiting += _imports(said)
        return found

    def _may(self, url: str) -> bool:
        try:
            self.imports.check(url)
        except OutgoingError:
            return False
        return True

    def _tree(self, node: Any, base: str, above: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [self._tree(one, base, above) for one in node]
        if not isinstance(node, dict):
            return node
        return {
            key: self._context(value, base, above) if key == "@context" else self._tree(value, base, above)
            for key, value in node.items()
        }

    def _context(self, value: Any, base: str, above: tuple[str, ...]) -> Any:
        if isinstance(value, list):
            return [self._context(one, base, above) for one in value]
        if isinstance(value, str):
            return self._remote(urljoin(base, value), above)
        if isinstance(value, Mapping):
            imported = value.get("@import")
            rest = {key: self._tree(one, base, above) for key, one in value.items() if key != "@import"}
            if isinstance(imported, str):
                brought = self._remote(urljoin(base, imported), above)
                if not isinstance(brought, Mapping):
                    raise NotHad(f"The context <{imported}> is imported and is not one context.")
                return {**brought, **rest}
            return rest
        return value

    def _remote(self, url: str, above: tuple[str, ...]) -> Any:
        if url in above:
            raise NotHad(f"The context <{url}> needs itself.")
        if url not in self._contexts:
            if len(self._contexts) >= MOST_CONTEXTS:
                raise NotHad(f"The document needs more than {MOST_CONTEXTS} contexts.")
            try:
                got = self.contexts.get(url, CONTEXT)
            except OutgoingError as wrong:
                raise NotHad(f"The context <{url}> is not had: {wrong}") from wrong
            try:
                self._contexts[url] = json.loads(got.body)["@context"]
            except (ValueError, KeyError, TypeError) as wrong:
                raise NotHad(f"<{url}> is no JSON-LD context.") from wrong
        return self._context(self._contexts[url], url, (*above, url))


def needed(allowed: Mapping[str, Any]) -> Needed:
    """What documents may have, as the writer was told: {contexts, imports, private, bytes, seconds}."""
    how: dict[str, Any] = {
        "allow_private": allowed["private"], "max_bytes": allowed["bytes"], "seconds": allowed["seconds"],
    }  # fmt: skip
    return Needed(Outgoing(allowed["contexts"], **how), Outgoing(allowed["imports"], **how))


def _imports(statements: Iterable[str]) -> list[str]:
    return sorted({found.group(1) for line in statements if (found := _IMPORTS.match(line))}, reverse=True)
