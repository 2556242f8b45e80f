"""How a source stands is known before the commit that makes it so: the report is in the commit."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import NamedNode

from sparql import journal
from sparql.sync.entries import HELD, IN_SCOPE, RECORD, SOURCE
from sparql.sync.known import Graph, accepted_claim, refused_claims
from sparql.sync.reading import Read
from sparql.sync.weave import Weave

_SOURCE, _HELD, _IN_SCOPE = NamedNode(SOURCE[1:-1]), NamedNode(HELD[1:-1]), NamedNode(IN_SCOPE[1:-1])


def standing(store: Graph, source: str) -> tuple[int, int]:
    """(records refused, records held) of a source. Held: last good facts stand in for a newer version."""
    if not _any_refused(store, source) and not _any_held(store):
        return 0, 0  # the usual case, without three queries
    return journal.standing(store, store.names, source)


def standing_after(store: Graph, read: Read, weave: Weave, records: int) -> tuple[int, int]:
    """The same once `weave` is committed and the source has `records` records."""
    names, source = store.names, read.plan.source
    rejected, held = journal.refused(store, names, source) if _any_refused(store, source) else (0, 0)
    gone, come = (_nodes(store, source, lines) for lines in weave.pending(names.quarantine))
    journal_gone, journal_come = weave.pending(names.journal)
    refused: dict[str, bool] = {}
    for graph in {*gone, *come}:
        before = set(refused_claims(store, graph))
        after = (before - gone.get(graph, set())) | come.get(graph, set())
        was = accepted_claim(store, graph) is not None
        line = f"<{graph}> {SOURCE} <{names.source(source)}>"
        will = line in journal_come or (was and line not in journal_gone)
        refused[graph] = bool(after)
        rejected += bool(after) - bool(before)
        held += (bool(after) and will) - (bool(before) and was)
    if read.message and not read.fused:
        return rejected, records
    if read.held or _any_held(store):
        scopes = (set(journal.held_scopes(store, names, source)) - set(read.scopes)) | set(read.held)
        for scope in scopes:
            iri = names.scope(source, scope)
            quads = store.match(None, _IN_SCOPE, NamedNode(iri), NamedNode(names.journal))
            graphs = {quad.subject.value for quad in quads}
            tail = f" {IN_SCOPE} <{iri}>"
            graphs -= {line[1 : line.index(">")] for line in journal_gone if line.endswith(tail)}
            graphs |= {line[1 : line.index(">")] for line in journal_come if line.endswith(tail)}
            some = bool(rejected)
            held += sum(1 for graph in graphs if not refused.get(graph, some and bool(refused_claims(store, graph))))
    return rejected, held


def _any_refused(store: Graph, source: str) -> bool:
    quarantine = NamedNode(store.names.quarantine)
    return next(store.match(None, _SOURCE, NamedNode(store.names.source(source)), quarantine), None) is not None


def _any_held(store: Graph) -> bool:
    return next(store.match(None, _HELD, None, NamedNode(store.names.cursor)), None) is not None


def _nodes(store: Graph, source: str, lines: Iterable[str]) -> dict[str, set[str]]:
    """The refused claims of the source in these statements, by record graph."""
    prefix = "<" + store.names.scope(source, "").replace("/system/scope/", "/system/refused/")
    out: dict[str, set[str]] = {}
    for line in lines:
        if line.startswith(prefix) and f" {RECORD} " in line:
            node, _, graph = line.split(" ", 2)
            out.setdefault(graph[1:-1], set()).add(node[1:-1])
    return out
