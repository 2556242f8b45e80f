"""Graph names are fixed: who said it is in the name, and only record graphs are merged."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote

from pyoxigraph import Literal, NamedNode

from ontology.facts import GT

# Everything an IRI path segment may hold unescaped, so that keys like `a/b` or `Käse` have one spelling.
_SAFE = "-._~!$'()*+,;=:@"
GRAPHS = "system/graphs"
TOKEN = "token"
"""The source of what tokens write to the default graph: one record a token, its key the token's name."""


def _segment(text: str) -> str:
    # Most keys are plain: `quote` costs 4 us a record, looking costs 0.1.
    return text if text.isascii() and text.isalnum() else quote(text, safe=_SAFE)


@dataclass(frozen=True, slots=True)
class Names:
    """The IRIs under one base (ends in `/` or `#`). All results are bare IRIs, without `<>`."""

    base: str

    def record(self, source: str, key: str) -> str:
        return f"{self.base}record/{_segment(source)}/{_segment(key)}"

    def derived(self, rule: str, key: str) -> str:
        return f"{self.base}record/rule/{quote(rule, safe=_SAFE)}/{quote(key, safe=_SAFE)}"

    def scope(self, source: str, scope: str) -> str:
        return f"{self.base}system/scope/{quote(source, safe=_SAFE)}/{quote(scope, safe=_SAFE)}"

    def source(self, source: str) -> str:
        return f"{self.base}system/source/{quote(source, safe=_SAFE)}"

    def commit(self, number: int) -> str:
        return f"{self.base}system/commit/{number}"

    @property
    def store(self) -> str:
        return f"{self.base}system/store"

    @property
    def journal(self) -> str:
        return f"{self.base}system/journal"

    @property
    def cursor(self) -> str:
        return f"{self.base}system/cursor"

    @property
    def quarantine(self) -> str:
        return f"{self.base}system/quarantine"

    @property
    def plain(self) -> tuple[NamedNode, NamedNode, Literal]:
        """What the cursor graph of a plain store says: its default graph is its own, and nothing is merged into it."""
        return NamedNode(self.store), NamedNode(GT + "merge"), Literal("false")

    @property
    def graphs(self) -> str:
        """The graph that says which graphs are there though they may be empty."""
        return f"{self.base}{GRAPHS}"

    @property
    def system(self) -> str:
        """What the names of all system graphs begin with."""
        return f"{self.base}system/"

    @property
    def skolem(self) -> str:
        """What the IRI of a blank node begins with."""
        return f"{self.base}.well-known/genid/"

    def merged(self, graph: str) -> bool:
        """Whether the graph is one whose statements make up the default graph."""
        return graph.startswith(f"{self.base}record/")

    def parse(self, graph: str) -> tuple[str, str] | None:
        """(source, key) of a record graph; ("rule/NAME", key) of a derived one; None for any other graph."""
        if not self.merged(graph):
            return None
        source, _, key = graph[len(self.base) + len("record/") :].partition("/")
        if source == "rule":
            name, _, key = key.partition("/")
            source = f"rule/{unquote(name)}"
            return source, unquote(key)
        return unquote(source), unquote(key)
