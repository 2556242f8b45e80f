"""What is said back: an answer with its proof, two readings to choose from, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

Term = NamedNode | BlankNode | Literal | Triple
Row = tuple[Term | None, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a query gave. `kind` is rows, triples or boolean (one row of one boolean); cut short when `truncated`."""

    kind: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    truncated: bool
    epoch: int
    ms: float
    time: str = ""


class Graph(Protocol):
    """Where queries are run: a pool of workers, or in a test a store. Every way to ask goes through here."""

    def query(
        self, text: str, *, seconds: float | None = None, rows: int | None = None, epoch: int | None = None
    ) -> Result:
        """The whole result, at most `rows` rows and within `seconds`. Raises QueryFailed or SyntaxProblem."""
        ...  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The record behind a statement, as its record graph tells it."""

    graph: str
    source: str
    key: str
    locator: str
    hash: str
    commit: int | None
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Cited:
    """One statement that a row rests on, and the records that say it; none for one that only rules or nobody said."""

    triple: Triple
    sources: tuple[Source, ...]
    graph: str | None = None
    """The named graph that it was asked of; None for the default graph."""


@dataclass(frozen=True, slots=True)
class Citation:
    """What supports one row, by its place in the result. Not `complete` when it was bounded: `note` says how."""

    row: int
    statements: tuple[Cited, ...]
    complete: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a model cost: tokens in and out, calls, and money when the settings name a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """`how` says which way it was found: example, planner, model. `sentence` is the result in plain words."""

    question: str
    sparql: str
    result: Result
    citations: tuple[Citation, ...]
    confidence: float
    how: str
    epoch: int
    sentence: str = ""
    spent: Spent = Spent()
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reading:
    """One way to understand a question: in words, and as a query."""

    words: str
    sparql: str
    score: float


@dataclass(frozen=True, slots=True)
class Unclear:
    """Two or more readings are as good as each other: the asker chooses."""

    question: str
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Declined:
    """`reason` is one of the codes below; `message` says it in words, `nearest` what the graph does know of."""

    question: str
    reason: str
    message: str
    nearest: tuple[str, ...] = ()


UNKNOWN_TERM, UNKNOWN_ENTITY, NO_LINK, NOT_A_QUESTION, NOT_ALLOWED, NO_MODEL, TIMED_OUT = (
    "unknown-term", "unknown-entity", "not-connected", "not-a-question", "not-allowed", "model-failed", "timed-out",
)  # fmt: skip
"""A word for a class or property the graph does not have; for a thing it does not have; known words that no statement
joins; no question; a wish to write or to reach out; no model answered; the deadline."""
