"""Evidence is about a statement, not a fact: it stays with who said it, and so does what it gives too little for."""

from __future__ import annotations

from collections.abc import Iterable, Set

from ontology.facts import GT, RDF, split

EVIDENCE = f"<{RDF}type> <{GT}Evidence>"
_TAIL = f"<{GT}Evidence>"
_SUBJECT, _PREDICATE, _OBJECT = f"<{RDF}subject>", f"<{RDF}predicate>", f"<{RDF}object>"
_CONFIDENCE = f"<{GT}confidence>"


def holding(statements: Set[str], least: float) -> Set[str]:
    """The statements of one record that belong in the default graph.

    Not its `gt:Evidence` nodes, and not a statement all of whose evidence has a `gt:confidence` under `least`.
    """
    if not any(statement.endswith(_TAIL) for statement in statements):
        return statements
    nodes = {line.split(" ", 1)[0] for line in statements if line.endswith(EVIDENCE)}
    kept = {line for line in statements if line.split(" ", 1)[0] not in nodes}
    return kept - set(_doubtful(nodes, statements, least))


def _doubtful(nodes: set[str], statements: Iterable[str], least: float) -> Iterable[str]:
    said: dict[str, dict[str, str]] = {}
    for line in statements:
        if line.split(" ", 1)[0] in nodes:
            subject, predicate, value = split(line)
            said.setdefault(subject, {})[predicate] = value
    best: dict[str, float] = {}
    for what in said.values():
        about = " ".join((what.get(_SUBJECT, ""), what.get(_PREDICATE, ""), what.get(_OBJECT, "")))
        best[about] = max(best.get(about, 0.0), _number(what.get(_CONFIDENCE)))
    return (about for about, confidence in best.items() if confidence < least)


def _number(literal: str | None) -> float:
    if literal is None:
        return 1.0
    try:
        return float(literal[1 : literal.rindex('"')])
    except ValueError:
        return 1.0
