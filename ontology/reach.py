"""A change can break a shape on a node it never names; walking back what the shape reads finds that node."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import rdflib
from pyoxigraph import NamedNode
from rdflib.term import Node

from ontology.facts import RDF
from ontology.locality import LISTS, ONE, PAIR, Reading, Root, sh
from ontology.view import Match

LIMIT = 10_000
"""Nodes one walk may pass; beyond, every node the shape is about is checked again."""


@dataclass(frozen=True, slots=True)
class Step:
    """From one node to the next over a predicate, backwards when `inverse`, any number of times when `many`."""

    predicate: str
    inverse: bool = False
    many: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """At the node that `steps` lead to from a focus node, statements of this predicate are read."""

    steps: tuple[Step, ...]
    predicate: str
    inverse: bool


def reads(reading: Reading, root: Root) -> tuple[frozenset[Read], bool]:
    """What the root's shapes read beyond the focus node's own statements, and whether that cannot be told."""
    out: set[Read] = set()
    unknown = _walk(reading, root.node, (), out, frozenset())
    unknown = unknown or root.special
    return frozenset(read for read in out if read.steps or read.inverse), unknown


def _walk(reading: Reading, shape: Node, steps: tuple[Step, ...], out: set[Read], seen: frozenset[Any]) -> bool:
    if (shape, len(steps) > 8) in seen or len(steps) > 12:
        return True
    seen = seen | {(shape, len(steps) > 8)}
    unknown = False
    ways: list[tuple[Step, ...]] = [()]
    path = reading.path(shape)
    if path is not None:
        ways = _ways(reading.graph, path)
    for way in ways:
        for place, step in enumerate(way):
            out.add(Read(steps + way[:place] + ((step,) if step.many else ()), step.predicate, step.inverse))
            if step.many:
                out.add(Read(steps + way[:place], step.predicate, step.inverse))
        reached = steps + way
        for param, value in reading.params(shape):
            if param == sh["class"]:
                out.add(Read(reached, RDF + "type", False))
            elif param in PAIR:
                out.add(Read(steps, str(value), False))
            elif param == sh.closed:
                out.add(Read(reached, "", False))
            elif param in ONE or param == sh.property:
                unknown = _walk(reading, value, reached, out, seen) or unknown
            elif param in LISTS:
                for member in reading.graph.items(value):
                    unknown = _walk(reading, member, reached, out, seen) or unknown
            elif param in (sh.sparql, sh.js, sh.expression) or param in reading.custom:
                unknown = True
    return unknown


def _ways(graph: rdflib.Graph, path: Node, inverse: bool = False, depth: int = 0) -> list[tuple[Step, ...]]:
    """The step sequences a path may take."""
    if isinstance(path, rdflib.URIRef):
        return [(Step(str(path), inverse),)]
    if depth > 10:
        return []
    if list(graph.objects(path, rdflib.RDF.first)):
        ways: list[tuple[Step, ...]] = [()]
        members = list(graph.items(path))
        for member in reversed(members) if inverse else members:
            ways = [way + more for way in ways for more in _ways(graph, member, inverse, depth + 1)][:64]
        return ways
    for inner in graph.objects(path, sh.inversePath):
        return _ways(graph, inner, not inverse, depth + 1)
    for options in graph.objects(path, sh.alternativePath):
        return [way for member in graph.items(options) for way in _ways(graph, member, inverse, depth + 1)]
    for name in ("zeroOrMorePath", "oneOrMorePath", "zeroOrOnePath"):
        for inner in graph.objects(path, sh[name]):
            found = _ways(graph, inner, inverse, depth + 1)
            many = [tuple(Step(step.predicate, step.inverse, True) for step in way) for way in found]
            return many if name != "zeroOrOnePath" else [*found, ()]
    return []


def walk_back(start: str, steps: tuple[Step, ...], match: Match) -> set[str] | None:
    """The nodes from which `steps` lead to `start` (bare IRIs), None when there are too many to say."""
    frontier, passed = {start}, 0
    for step in reversed(steps):
        before: set[str] = set(frontier) if step.many else set()
        todo = list(frontier)
        while todo:
            node = todo.pop()
            for other in _sources(node, step, match):
                passed += 1
                if passed > LIMIT:
                    return None
                if other not in before:
                    before.add(other)
                    if step.many:
                        todo.append(other)
        frontier = before
    return frontier


def _sources(node: str, step: Step, match: Match) -> Iterable[str]:
    try:
        term, predicate = NamedNode(node), NamedNode(step.predicate)
    except ValueError:
        return
    if step.inverse:
        for found in match(term, predicate, None):
            if isinstance(found.object, NamedNode):
                yield found.object.value
    else:
        for found in match(None, predicate, term):
            if isinstance(found.subject, NamedNode):
                yield found.subject.value
