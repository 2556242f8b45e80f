"""A source is forgotten or renamed, and a record or an IRI erased, only because a person said so."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode

from ontology.facts import GT, RDF, SH, split, string
from sparql.log import labelled
from sparql.sync.consequences import Consequences, Wide, forget_stage
from sparql.sync.entries import CURSOR, RECORD, RECORDS, SOURCE, integer
from sparql.sync.known import Graph, accepted_claim, refused_claims, spelled
from sparql.sync.plan import SyncReport
from sparql.sync.steps import refusal_lines, result_lines
from sparql.sync.syncing import CHUNK, records_of
from sparql.sync.weave import Weave
from transforms.rules import Rule

_SOURCE, _RECORD = NamedNode(SOURCE[1:-1]), NamedNode(RECORD[1:-1])
_EVIDENCE = f"<{RDF}type> <{GT}Evidence>"


class Unknown(ValueError):
    """What was named is not in the graph."""


def forget(store: Graph, source: str, *, rules: Iterable[Rule] = (), wide: Wide | None = None) -> SyncReport:
    """Nothing the source said is left, nor that it was ever read. Raises Unknown when the graph does not know it."""
    names, began = store.names, time.monotonic()
    consequences = Consequences(store, rules, wide)
    graphs = _graphs(store, source)
    refused = _refused(store, source)
    about = _cursor_lines(store, source)
    if not graphs and not refused and not about:
        raise Unknown(f"The graph knows no source {source!r}.")
    weave, gone, removed = Weave(store), 0, 0
    for graph in graphs:
        _, lost = _drop(store, graph, weave)
        gone, removed = gone + 1, removed + lost
        if weave.size >= CHUNK // 3:
            _commit(store, weave, consequences, source)
            weave = Weave(store)
    for node in refused:
        weave.system(names.quarantine, refusal_lines(store, node), set())
    weave.system(names.cursor, about, set())
    commit = _commit(store, weave, consequences, source, gone=gone, removed=removed)
    return SyncReport(source, gone=gone, removed=removed, commit=commit, seconds=round(time.monotonic() - began, 6))


def rename(store: Graph, old: str, new: str, *, rules: Iterable[Rule] = (), wide: Wide | None = None) -> SyncReport:
    """What `old` said, `new` says. The next sync of `new` reads everything again, and changes what names the source.

    Raises Unknown when there is no `old`, ValueError when there is a `new`.
    """
    names, began = store.names, time.monotonic()
    if _cursor_lines(store, new) or _graphs(store, new):
        raise ValueError(f"There is a source {new!r} already. Forget it first, or choose another name.")
    graphs, about = _graphs(store, old), _cursor_lines(store, old)
    if not graphs and not about:
        raise Unknown(f"The graph knows no source {old!r}.")
    consequences = Consequences(store, rules, wide)
    moved = _Moved(store, old, new)
    weave, count = Weave(store), 0
    for graph in graphs:
        statements = store.statements(graph)
        weave.replace(graph, statements, frozenset())
        weave.replace(moved.iri(graph), frozenset(), statements)
        entry = spelled(store, graph, names.journal)
        weave.system(names.journal, entry, moved.lines(entry))
        lines = _results_naming(store, graph)
        weave.system(names.quarantine, lines, moved.lines(lines))
        count += 1
        if weave.size >= CHUNK // 3:
            _commit(store, weave, consequences, new)
            weave = Weave(store)
    for node in _refused(store, old):
        lines = refusal_lines(store, node)
        weave.system(names.quarantine, lines, moved.lines(lines))
    kept = {line for line in about if f" {CURSOR} " not in line}
    after = {line.replace(f"{SOURCE} {string(old)}", f"{SOURCE} {string(new)}") for line in moved.lines(kept)}
    weave.system(names.cursor, about, after)
    commit = _commit(store, weave, consequences, new)
    return SyncReport(new, changed=count, commit=commit, seconds=round(time.monotonic() - began, 6))


def erase(store: Any, what: str, *, rules: Iterable[Rule] = (), wide: Wide | None = None) -> dict[str, Any]:
    """A record (`source/key`, or its graph's IRI) or an IRI is nowhere: not in a graph, the quarantine or the history.

    Its source may still have it: what is read again comes back. Raises Unknown when nothing says it.
    """
    consequences = Consequences(store, rules, wide)
    weave = Weave(store)
    graph = _as_record(store, what)
    kind = "iri" if graph is None else "record"
    if graph is not None:
        _erase_record(store, graph, weave)
        _erase_iri(store, graph, weave)
    else:
        _erase_iri(store, what.strip("<>"), weave)
    if not weave.size:
        raise Unknown(f"Nothing in the graph says {what!r}. Give a record as source/key, or an IRI.")
    statements = weave.size
    _commit(store, weave, consequences, None)
    forget_stage(store)
    entry = store.erase_history()
    return {
        "erased": kind, "what": what, "statements": statements, "commit": entry.id,
        "notes": ["If its source still has it, the next change there brings it back: remove it there too."],
    }  # fmt: skip


def _as_record(store: Graph, what: str) -> str | None:
    names, text = store.names, what.strip("<>")
    if names.parse(text) is not None:
        return text
    source, _, key = text.partition("/")
    graph = names.record(source, key)
    if accepted_claim(store, graph) is not None or refused_claims(store, graph):
        return graph
    return None


def _erase_record(store: Graph, graph: str, weave: Weave) -> None:
    names = store.names
    there = accepted_claim(store, graph) is not None
    _drop(store, graph, weave)
    for node in refused_claims(store, graph):
        weave.system(names.quarantine, refusal_lines(store, node), set())
    found = names.parse(graph)
    if there and found is not None:
        me = f"<{names.source(found[0])}> {RECORDS} "
        count = records_of(store, found[0])
        weave.system(names.cursor, {f"{me}{integer(count)}"}, {f"{me}{integer(count - 1)}"})


def _erase_iri(store: Graph, iri: str, weave: Weave) -> None:
    try:
        node = NamedNode(iri)
    except ValueError:
        return
    going: dict[str, set[str]] = {}
    for s, p, o in ((node, None, None), (None, node, None), (None, None, node)):
        for quad in store.match(s, p, o, None):
            graph = "" if isinstance(quad.graph_name, DefaultGraph) else quad.graph_name.value
            going.setdefault(graph, set()).add(f"{quad.subject} {quad.predicate} {quad.object}")
    for graph, lines in going.items():
        lines |= _around(store, graph, lines)
    for quad in store.match(None, None, None, node):
        going.setdefault(iri, set()).add(f"{quad.subject} {quad.predicate} {quad.object}")
    for graph, lines in going.items():
        if store.names.merged(graph):
            before = store.statements(graph)
            weave.replace(graph, before, before - lines)
        elif graph:
            weave.system(graph, lines, set())
    alone = going.get("", set())
    if getattr(store, "plain", False):
        weave.system("", alone, set())
    for line in alone:
        weave.doubt(line)


def _around(store: Graph, graph: str, lines: Iterable[str]) -> set[str]:
    """All of the evidence about an erased statement, and all of a finding about an erased node."""
    out: set[str] = set()
    tell = {f"<{RDF}{name}>" for name in ("subject", "predicate", "object")} | {
        f"<{SH}{name}>" for name in ("focusNode", "value", "resultPath")
    }
    for line in lines:
        if labelled(line):
            continue
        subject, predicate, _ = split(line)
        if predicate in tell:
            about = spelled(store, subject[1:-1], graph)
            if any(one.endswith((_EVIDENCE, f"<{SH}ValidationResult>")) for one in about):
                out |= about
    return out


def _drop(store: Graph, graph: str, weave: Weave) -> tuple[int, int]:
    names = store.names
    counts = weave.replace(graph, store.statements(graph), frozenset())
    weave.system(names.journal, spelled(store, graph, names.journal), set())
    weave.system(names.quarantine, result_lines(store, graph), set())
    return counts


def _graphs(store: Graph, source: str) -> list[str]:
    names = store.names
    found = store.match(None, _SOURCE, NamedNode(names.source(source)), NamedNode(names.journal))
    return sorted(quad.subject.value for quad in found if names.merged(quad.subject.value))


def _refused(store: Graph, source: str) -> list[str]:
    names = store.names
    found = store.match(None, _SOURCE, NamedNode(names.source(source)), NamedNode(names.quarantine))
    return sorted({quad.subject.value for quad in found})


def _cursor_lines(store: Graph, source: str) -> set[str]:
    names = store.names
    text = f"SELECT ?s {{ GRAPH <{names.cursor}> {{ ?s {SOURCE} {string(source)} }} }}"
    out: set[str] = set()
    for row in store.query(text):
        out |= spelled(store, row["s"].value, names.cursor)
    return out


def _results_naming(store: Graph, graph: str) -> set[str]:
    quarantine, out = store.names.quarantine, set()
    for quad in store.match(None, _RECORD, NamedNode(graph), NamedNode(quarantine)):
        lines = spelled(store, quad.subject.value, quarantine)
        if any(" <https://w3id.org/graphtide/ns#reported> " in line for line in lines) and not any(
            " <https://w3id.org/graphtide/ns#refused> " in line for line in lines
        ):
            out |= lines
    return out


class _Moved:
    """The names of one source's own nodes under another name."""

    def __init__(self, store: Graph, old: str, new: str) -> None:
        names = store.names
        self._prefixes: list[tuple[str, ...]] = [
            (names.record(old, ""), names.record(new, "")),
            (names.scope(old, ""), names.scope(new, "")),
        ]
        self._prefixes.append(tuple(one.replace("/system/scope/", "/system/refused/") for one in self._prefixes[1]))
        self._whole = {names.source(old): names.source(new)}

    def iri(self, iri: str) -> str:
        if iri in self._whole:
            return self._whole[iri]
        for old, new in self._prefixes:
            if iri.startswith(old):
                return new + iri[len(old) :]
        return iri

    def lines(self, lines: Iterable[str]) -> set[str]:
        return set(self._each(lines))

    def _each(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            yield " ".join(f"<{self.iri(part[1:-1])}>" if part[0] == "<" else part for part in split(line))


def _commit(
    store: Graph, weave: Weave, consequences: Consequences, source: str | None, *, gone: int = 0, removed: int = 0
) -> int:
    consequences.follow(weave, store.names.commit(store.head + 1))
    if not weave.size:
        return store.head
    report = [] if source is None else [SyncReport(source, gone=gone, removed=removed,
                                                   commit=store.head + 1).to_dict()]  # fmt: skip
    try:
        return int(store.commit(weave.change(), report).id)
    finally:
        consequences.settle()
