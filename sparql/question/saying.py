"""An answer in plain words says what was found and no more: how many, which, or that there is none."""

from __future__ import annotations

from collections.abc import Callable

from pyoxigraph import Literal, NamedNode

from sparql.question.answer import Result, Term
from sparql.question.planner.linking import tail

FEW = 5
"""How many things a sentence lists."""


def sentence(result: Result, label: Callable[[str], str | None]) -> str:
    """The result in words. `label` is what a thing is called, None where it has no name."""
    if result.kind == "boolean":
        return "Yes." if str(getattr(result.rows[0][0], "value", "")).lower() == "true" else "No."
    many = f"at least {len(result.rows)}" if result.truncated else str(len(result.rows))
    if not result.rows:
        return "There is none."
    if len(result.rows) == 1 and len(result.columns) == 1:
        return f"{shown(result.rows[0][0], label)}."
    if len(result.columns) == 1:
        listed = [shown(row[0], label) for row in result.rows[:FEW]]
        rest = len(result.rows) - len(listed)
        if result.truncated or rest > 0:
            return f"{many[:1].upper()}{many[1:]}: {', '.join(listed)} and more."
        return f"{', '.join(listed[:-1])} and {listed[-1]}."
    if len(result.rows) == 1:
        pairs = zip(result.columns, result.rows[0], strict=True)
        return f"{'; '.join(f'{name}: {shown(term, label)}' for name, term in pairs)}."
    return f"{many[:1].upper()}{many[1:]} rows of {', '.join(result.columns)}."


def shown(term: Term | None, label: Callable[[str], str | None]) -> str:
    """A term as a person reads it."""
    if term is None:
        return "nothing"
    if isinstance(term, NamedNode):
        return label(term.value) or tail(term.value) or term.value
    if isinstance(term, Literal):
        return term.value
    return str(term)
