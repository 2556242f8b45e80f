"""What a key's claims come to: one accepted wins, one refused is held, several are a violation, none a removal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote

from pyoxigraph import NamedNode

from sparql.sync.entries import DUPLICATE, Claim, duplicate, journal_entry, refusal
from sparql.sync.known import Graph, Seen, accepted_claim, plain, refused_claims, spelled
from sparql.sync.reading import APART, Found, Read
from sparql.sync.weave import Weave

_RECORD, _REFUSED, _REPORTED, _CONSTRAINT = (
    NamedNode(iri)
    for iri in (
        "https://w3id.org/graphtide/ns#record",
        "https://w3id.org/graphtide/ns#refused",
        "https://w3id.org/graphtide/ns#reported",
        "http://www.w3.org/ns/shacl#sourceConstraintComponent",
    )
)
STALE = ""
"""The hash of a claim whose record must be mapped again though it did not change."""


class Alive(NamedTuple):
    """One claim that stands after this read; `found` when this read brought it anew."""

    claim: Claim
    found: Found | None
    seen: Seen | None


@dataclass
class Tally:
    """What one source's part of a commit came to."""

    changed: int = 0
    gone: int = 0
    added: int = 0
    removed: int = 0
    records: int = 0
    """By how many the source has more accepted records."""
    again: set[str] = field(default_factory=set)
    graphs: int = 0


def order(read: Read) -> Iterator[str]:
    """The record graphs a read touches, those that may bring something before those that only take away."""
    yield from read.found
    yield from (graph for graph in read.touched if graph not in read.found)
    yield from (graph for graph in read.vanished if graph not in read.found and graph not in read.touched)


def retracted(store: Graph, read: Read, exempt: set[str]) -> int:
    """How many accepted records the read would remove, those of `exempt` scopes apart."""
    count = 0
    for graph, scopes in read.vanished.items():
        if set(scopes) <= exempt or graph in read.found:
            continue
        accepted = accepted_claim(store, graph)
        if accepted is not None and not _alive(store, read, graph, accepted, refused_claims(store, graph)):
            count += 1
    return count


def _alive(store: Graph, read: Read, graph: str, accepted: Seen | None, refused: dict[str, Seen]) -> dict[str, Alive]:
    source, names = read.plan.source, store.names
    prefix = names.scope(source, "")
    out: dict[str, Alive] = {}
    for seen in (*refused.values(), *([accepted] if accepted else ())):
        if seen.scope not in out:
            claim = Claim(_scope_name(seen.scope, prefix), seen.hash, tuple(plain(one) for one in seen.locators))
            out[seen.scope] = Alive(claim, None, seen)
    for scope in read.vanished.get(graph, ()):
        out.pop(names.scope(source, scope), None)
    touched = read.touched.get(graph)
    if touched is not None:
        scope = names.scope(source, touched[2].scope)
        before = out.get(scope)
        if before is not None:
            out[scope] = Alive(Claim(before.claim.scope, before.claim.hash, touched[2].locators), None, before.seen)
    for scope, found in read.found.get(graph, {}).items():
        out[names.scope(source, scope)] = Alive(found.claim, found, None)
    return out


def _scope_name(iri: str, prefix: str) -> str:
    return unquote(iri[len(prefix) :])


def take(store: Graph, read: Read, graph: str, weave: Weave, tally: Tally, commit: str) -> None:
    """Gather in `weave` what becomes of one record graph."""
    names, source = store.names, read.plan.source
    accepted, refused = accepted_claim(store, graph), refused_claims(store, graph)
    alive = _alive(store, read, graph, accepted, refused)
    tally.graphs += 1
    journal_before = spelled(store, graph, names.journal) if accepted else set()
    results_before = result_lines(store, graph) if accepted else set()
    refused_before = {node: refusal_lines(store, node) for node in refused}
    if not alive:
        _remove(store, graph, weave, tally, accepted is not None)
        weave.system(names.journal, journal_before, set())
        weave.system(names.quarantine, results_before.union(*refused_before.values()), set())
        return
    if len(alive) > 1:
        claims = [one.claim for one in alive.values()]
        key = _key(store, graph)
        why = duplicate(graph, key, claims)
        after: set[str] = set()
        for claim in claims:
            after |= refusal(names, source, key, claim, [why])
        weave.system(names.quarantine, set().union(*refused_before.values()), after)
        _move(store, graph, accepted, alive, journal_before, weave)
        return
    scope, only = next(iter(alive.items()))
    if only.found is not None and only.found.accepted:
        text = read.spool.get(only.found.ticket)
        body, _, found = text.partition(APART)
        statements = frozenset(body.split("\n")) if body else frozenset()
        before = store.statements(graph) if accepted else frozenset()
        added, removed = weave.replace(graph, before, statements)
        tally.added += added
        tally.removed += removed
        if added or removed or accepted is None:
            tally.changed += 1
            made = commit
        else:
            made = _made(journal_before) or commit
        tally.records += accepted is None
        entry = journal_entry(names, source, graph, only.claim, made)
        weave.system(names.journal, journal_before, entry)
        weave.system(names.quarantine, results_before.union(*refused_before.values()),
                     set(found.split("\n")) if found else set())  # fmt: skip
        return
    if only.found is not None:
        after = set(read.spool.get(only.found.ticket).split("\n"))
        weave.system(names.quarantine, set().union(*refused_before.values()), after)
        _move(store, graph, accepted, alive, journal_before, weave)
        return
    _stored(store, read, graph, scope, only, accepted, refused, refused_before, journal_before, weave, tally)


def _stored(
    store: Graph, read: Read, graph: str, scope: str, only: Alive, accepted: Seen | None, refused: dict[str, Seen],
    refused_before: dict[str, set[str]], journal_before: set[str], weave: Weave, tally: Tally,
) -> None:  # fmt: skip
    """The one claim left was not read anew: its place moved, or another claim of its key is gone."""
    names, source = store.names, read.plan.source
    mine = [node for node, seen in refused.items() if seen.scope == scope]
    others = set().union(*(lines for node, lines in refused_before.items() if node not in mine))
    if not mine:
        weave.system(names.quarantine, others, set())
        if accepted is not None:
            claim = Claim(only.claim.scope, accepted.hash, only.claim.locators)
            entry = journal_entry(names, source, graph, claim, _made(journal_before) or names.commit(store.head))
            weave.system(names.journal, journal_before, entry)
        return
    node = mine[0]
    before = refused_before[node]
    about = {line for line in before if line.startswith(f"<{node}> ")}
    stale = len(refused) > 1 or (accepted is not None and accepted.scope != scope)
    digest = STALE if stale and _because_of_another(store, node) else refused[node].hash
    key = _key(store, graph)
    claim = Claim(only.claim.scope, digest, only.claim.locators)
    weave.system(names.quarantine, before | others, (before - about) | refusal(names, source, key, claim, ()))
    if digest == STALE:
        tally.again.add(only.claim.scope)
    _move(store, graph, accepted, {scope: only}, journal_before, weave)


def _move(
    store: Graph, graph: str, accepted: Seen | None, alive: dict[str, Alive], before: set[str], weave: Weave
) -> None:
    """A held record's facts stay with a scope that still claims it."""
    if accepted is None or accepted.scope in alive:
        return
    tail = " <https://w3id.org/graphtide/ns#inScope> "
    after = {line for line in before if tail not in line} | {f"<{graph}>{tail}<{min(alive)}>"}
    weave.system(store.names.journal, before, after)


def _remove(store: Graph, graph: str, weave: Weave, tally: Tally, accepted: bool) -> None:
    if accepted:
        _, removed = weave.replace(graph, store.statements(graph), frozenset())
        tally.removed += removed
        tally.gone += 1
        tally.records -= 1


def _key(store: Graph, graph: str) -> str:
    found = store.names.parse(graph)
    return found[1] if found else ""


def _made(journal: set[str]) -> str | None:
    for line in journal:
        if " <http://www.w3.org/ns/prov#wasGeneratedBy> " in line:
            return line.rsplit(" ", 1)[1][1:-1]
    return None


def result_lines(store: Graph, graph: str) -> set[str]:
    """What is reported of the accepted version of a record."""
    quarantine, out = store.names.quarantine, set()
    for quad in store.match(None, _RECORD, NamedNode(graph), NamedNode(quarantine)):
        lines = spelled(store, quad.subject.value, quarantine)
        if not any(f" <{_REFUSED.value}> " in line or line.endswith('"wide"') for line in lines) and any(
            f" <{_REPORTED.value}> " in line for line in lines
        ):
            out |= lines
    return out


def refusal_lines(store: Graph, node: str) -> set[str]:
    """All that quarantine says of one refused claim."""
    quarantine = store.names.quarantine
    out = spelled(store, node, quarantine)
    for quad in store.match(None, _REFUSED, NamedNode(node), NamedNode(quarantine)):
        out |= spelled(store, quad.subject.value, quarantine)
    return out


def _because_of_another(store: Graph, node: str) -> bool:
    quarantine = NamedNode(store.names.quarantine)
    return any(
        next(store.match(quad.subject, _CONSTRAINT, NamedNode(DUPLICATE), quarantine), None) is not None
        for quad in store.match(None, _REFUSED, NamedNode(node), quarantine)
    )


__all__ = ["STALE", "Tally", "order", "refusal_lines", "result_lines", "retracted", "take"]
