"""A question set is run whole and scored by rules that others use: two runs differ only where their answers do."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sparql.question.answer import Answer, Declined, Result, Unclear
from sparql.question.scoring import ALL, NOTHING, Score, score

from .question_set import EvaluationError, Question

GATES = ("f1", "exact", "rows", "abstained")
"""What a run can be required to reach."""


@dataclass(frozen=True)
class Scored:
    """How one question went. `outcome` is answered, declined, unclear or failed."""

    id: str
    question: str
    outcome: str
    score: Score
    seconds: float
    tokens: int = 0
    cost: float | None = None
    how: str = ""
    sparql: str = ""
    message: str = ""
    right: str = ""

    @property
    def good(self) -> bool:
        """Whether there is nothing to better: the rows asked for, or a refusal where there is no answer."""
        return self.score.rows


@dataclass(frozen=True)
class Run:
    """All questions of a set, scored."""

    set: str
    questions: tuple[Scored, ...]
    unanswerable: frozenset[str] = frozenset()
    detail: Mapping[str, Any] = field(default_factory=dict)

    def summary(self) -> dict[str, Any]:
        """Means over the questions that have an answer, and how many were refused: those and the others."""
        can = [one for one in self.questions if one.id not in self.unanswerable]
        cannot = [one for one in self.questions if one.id in self.unanswerable]
        seconds = sorted(one.seconds for one in self.questions) or [0.0]
        costs = [one.cost for one in self.questions if one.cost is not None]
        return {
            "questions": len(self.questions),
            "f1": _mean(one.score.f1 for one in can),
            "precision": _mean(one.score.precision for one in can),
            "recall": _mean(one.score.recall for one in can),
            "exact": _mean(float(one.score.exact) for one in can),
            "rows": _mean(float(one.score.rows) for one in can),
            "answered": _mean(float(one.outcome == "answered") for one in can),
            "declined_falsely": _mean(float(one.outcome == "declined") for one in can),
            "unanswerable": len(cannot),
            "abstained": _mean(float(one.outcome == "declined") for one in cannot),
            "right_reason": _mean(float(one.score.exact) for one in cannot),
            "tokens": sum(one.tokens for one in self.questions),
            "cost": sum(costs) if costs else None,
            "seconds_p50": seconds[len(seconds) // 2],
            "seconds_p95": seconds[min(len(seconds) - 1, int(len(seconds) * 0.95))],
        }

    def document(self) -> dict[str, Any]:
        """The run as JSON, which `load_run` reads again."""
        return {
            "set": self.set,
            **self.detail,
            "summary": self.summary(),
            "unanswerable": sorted(self.unanswerable),
            "questions": [asdict(one) for one in self.questions],
        }


Asking = Callable[[str], Answer | Unclear | Declined]
Running = Callable[[str], Result]


def evaluate(
    name: str, questions: Sequence[Question], ask: Asking, run: Running, told: Callable[[Scored], None] = lambda _: None
) -> Run:
    """Every question asked, in order, and scored; `told` hears of each. `run` gives the result of a right query.

    Raises EvaluationError where a right query does not run: a score against nothing says nothing.
    """
    scored = []
    for one in questions:
        try:
            gold = one.result if one.sparql is None else run(one.sparql)
        except Exception as wrong:
            raise EvaluationError(f"{name}: the query of question {one.id} does not run: {wrong}") from wrong
        found = _ask(one, gold, ask)
        scored.append(found)
        told(found)
    return Run(name, tuple(scored), frozenset(one.id for one in questions if one.declined is not None))


def _ask(one: Question, gold: Result | None, ask: Asking) -> Scored:
    began = time.monotonic()
    try:
        answer = ask(one.text)
    except Exception as wrong:  # one question that fails is a score of nothing, and the others go on
        return Scored(one.id, one.text, "failed", NOTHING, time.monotonic() - began, message=str(wrong),
                      right=one.sparql or one.declined or "")  # fmt: skip
    seconds = time.monotonic() - began
    right = one.sparql or one.declined or ""
    if isinstance(answer, Declined):
        good = one.declined is not None and one.declined in ("", answer.reason)
        return Scored(one.id, one.text, "declined", ALL if good else NOTHING, seconds, right=right,
                      message=f"{answer.reason}: {answer.message}")  # fmt: skip
    if isinstance(answer, Unclear):
        return Scored(one.id, one.text, "unclear", NOTHING, seconds, right=right,
                      message=" | ".join(reading.words for reading in answer.readings))  # fmt: skip
    points = score(gold, answer.result, ordered=one.ordered) if gold is not None else NOTHING
    spent = answer.spent
    return Scored(one.id, one.text, "answered", points, seconds, spent.input_tokens + spent.output_tokens, spent.cost,
                  answer.how, answer.sparql, answer.sentence, right)  # fmt: skip


@dataclass(frozen=True)
class Change:
    """A question that two runs answer differently well."""

    id: str
    question: str
    before: float
    now: float
    was: str
    is_: str


def load_run(path: Path) -> Run:
    """A run as `document` wrote it. Raises EvaluationError."""
    try:
        tree = json.loads(path.read_text("utf-8"))
        scored = tuple(Scored(**{**one, "score": Score(**one["score"])}) for one in tree["questions"])
        return Run(str(tree["set"]), scored, frozenset(tree.get("unanswerable", ())))
    except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as wrong:
        raise EvaluationError(f"{path}: is not a run that `graphtide eval --out` wrote: {wrong}") from wrong


def changes(before: Run, now: Run) -> list[Change]:
    """The questions of both runs whose score or outcome is not the same, the worst first."""
    was = {one.id: one for one in before.questions}
    found = [
        Change(one.id, one.question, was[one.id].score.f1, one.score.f1, was[one.id].outcome, one.outcome)
        for one in now.questions
        if one.id in was and (was[one.id].score, was[one.id].outcome) != (one.score, one.outcome)
    ]
    return sorted(found, key=lambda one: (one.now - one.before, one.id))


def failing(run: Run, least: Mapping[str, float], before: Run | None = None) -> list[str]:
    """A sentence for each requirement that is not met, and for each question that `before` had right alone."""
    summary = run.summary()
    found = []
    for name, wanted in least.items():
        value = summary[name]
        if value is None or value < wanted:
            shown = "nothing" if value is None else f"{value:.3f}"
            found.append(f"{name} is {shown}, less than {wanted:g}.")
    if before is not None:
        good = {one.id for one in before.questions if one.good}
        worse = [one for one in run.questions if one.id in good and not one.good]
        found += [f"Question {one.id} was right and is not: {one.question}" for one in worse]
    return found


def _mean(numbers: Iterable[float]) -> float | None:
    all_ = list(numbers)
    return sum(all_) / len(all_) if all_ else None


def gates(least: Iterable[str]) -> dict[str, float]:
    """`f1=0.45` as what must be reached. Raises EvaluationError for what is no figure of a run."""
    found = {}
    for one in least:
        name, _, number = one.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            raise EvaluationError(f"{one!r} is no figure to reach. Write one such as f1=0.45.") from None
        if name.strip() not in GATES:
            raise EvaluationError(f"{name!r} is no figure of a run. Write one of: {', '.join(GATES)}.")
    return found
