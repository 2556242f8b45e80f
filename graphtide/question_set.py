"""A question set says what is asked and what is right, in the formats that others publish and in one of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyoxigraph import Literal, NamedNode, QueryBoolean, QueryResultsFormat, QuerySolutions, parse_query_results

from sparql.question.answer import Result

MOST_QUESTIONS = 10_000
MOST_BYTES = 64 * 2**20


class EvaluationError(ValueError):
    """A question set or an earlier run cannot be used: `str()` says which file, where and what to write."""


@dataclass(frozen=True)
class Question:
    """One question with its right answer: a query, a result, or the reason why there is none."""

    id: str
    text: str
    sparql: str | None = None
    result: Result | None = None
    declined: str | None = None
    ordered: bool = False
    tags: tuple[str, ...] = ()


def load_set(path: Path, language: str = "en") -> tuple[str, list[Question]]:
    """The name of a question set and its questions: TEXT2SPARQL (YAML), QALD (JSON) or ours (YAML, JSON, JSON Lines).

    Raises EvaluationError naming the question that cannot be used.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise EvaluationError(f"{path}: is longer than {MOST_BYTES:,} bytes.")
        text = path.read_text("utf-8")
        if path.suffix in (".jsonl", ".ndjson"):
            tree: Any = [json.loads(line) for line in text.splitlines() if line.strip()]
        elif path.suffix == ".json":
            tree = json.loads(text)
        else:
            tree = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, ValueError, RecursionError, yaml.YAMLError) as wrong:
        if isinstance(wrong, EvaluationError):
            raise
        raise EvaluationError(f"{path}: cannot be read: {' '.join(str(wrong).split())}") from wrong
    listed = tree.get("questions") if isinstance(tree, dict) else tree
    if not isinstance(listed, list) or not listed:
        raise EvaluationError(f"{path}: holds no list of questions. Write questions: with one entry each.")
    head = tree if isinstance(tree, dict) else {}
    name = (
        str((head.get("dataset") or {}).get("id") or path.stem)
        if isinstance(head.get("dataset", {}), dict)
        else path.stem
    )
    found = [_question(path, at, one, language) for at, one in enumerate(listed[:MOST_QUESTIONS], start=1)]
    seen: set[str] = set()
    for one in found:
        if one.id in seen:
            raise EvaluationError(f"{path}: two questions have the id {one.id!r}. Give each its own.")
        seen.add(one.id)
    return name, found


def _question(path: Path, at: int, one: Any, language: str) -> Question:
    where = f"{path}: question {at}"
    if not isinstance(one, dict):
        raise EvaluationError(f"{where} is {one!r:.80}, not an entry with id, question and sparql.")
    text = _text(one.get("question"), language)
    if not text:
        raise EvaluationError(f"{where} has no text in {language!r}. Write question: ...")
    query = one.get("sparql") or one.get("query")
    if isinstance(query, dict):
        query = query.get("sparql")
    features = tuple(str(tag) for tag in one.get("features") or one.get("tags") or ())
    declined = one.get("unanswerable")
    if declined is not None:
        declined = "" if declined is True else str(declined)
    result = None
    if query is None and declined is None:
        result = _given(where, one)
    return Question(
        str(one.get("id", at)), text, str(query) if query else None, result, declined,
        bool(one.get("ordered")) or "RESULT_ORDER_MATTERS" in features, features,
    )  # fmt: skip


def _text(found: Any, language: str) -> str:
    """The text of a question: a string, by language as TEXT2SPARQL has it, or a list as QALD has it."""
    if isinstance(found, str):
        return found.strip()
    if isinstance(found, dict):
        return str(found.get(language) or "").strip()
    if isinstance(found, list):
        for one in found:
            if isinstance(one, dict) and one.get("language") == language:
                return str(one.get("string") or "").strip()
    return ""


def _given(where: str, one: Mapping[str, Any]) -> Result:
    """The right result as written: `answers` as SPARQL JSON (QALD), or `rows`, a list of lists of plain values."""
    if "rows" in one:
        rows = [row if isinstance(row, list) else [row] for row in one["rows"] or ()]
        wide = max((len(row) for row in rows), default=0)
        columns = tuple(f"c{at}" for at in range(wide))
        terms = tuple(tuple(_term(row[at]) if at < len(row) else None for at in range(wide)) for row in rows)
        return Result("rows", columns, terms, False, 0, 0.0)
    answers = one.get("answers")
    if isinstance(answers, list) and len(answers) == 1:
        try:
            return result_of(json.dumps(answers[0]).encode())
        except (ValueError, SyntaxError) as wrong:
            raise EvaluationError(f"{where}: its answers are no SPARQL results: {wrong}") from wrong
    raise EvaluationError(f"{where} has no right answer. Write sparql:, rows:, answers: or unanswerable:.")


def _term(value: Any) -> NamedNode | Literal | None:
    if value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return Literal(value)
    text = str(value)
    if text.startswith("<") and text.endswith(">"):
        return NamedNode(text[1:-1])
    return Literal(text)


def result_of(body: bytes) -> Result:
    """A result in SPARQL JSON. Raises ValueError or SyntaxError."""
    found = parse_query_results(body, QueryResultsFormat.JSON)
    if isinstance(found, QueryBoolean):
        return Result("boolean", ("boolean",), ((Literal(bool(found)),),), False, 0, 0.0)
    assert isinstance(found, QuerySolutions)
    columns = tuple(variable.value for variable in found.variables)
    return Result("rows", columns, tuple(tuple(one) for one in found), False, 0, 0.0)
