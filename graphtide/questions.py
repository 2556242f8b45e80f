"""A question from the command line is answered by the graph of its folder, as the server would answer it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import show
from .settings import Settings, load, own

if TYPE_CHECKING:
    from sparql.question.answer import Answer, Graph
    from sparql.question.asking import Asker
    from sparql.question.model import Model
    from sparql.question.modelling import ModelSettings

    from .evaluate import Run, Scored

MOST_SHOWN = 30
"""How many rows and citations a terminal is shown."""


def model_settings(settings: Settings) -> ModelSettings | None:
    """The model that the settings and the environment name, or None. A key alone configures none."""
    from sparql.question.modelling import DEFAULT_URL, ModelSettings

    table = settings.model
    name = os.environ.get("GRAPHTIDE_MODEL") or table.name
    if not name:
        return None
    return ModelSettings(
        name,
        os.environ.get("OPENAI_BASE_URL") or table.url or DEFAULT_URL,
        os.environ.get("OPENAI_API_KEY") or None,
        table.mode,
        table.seconds,
        table.tokens,
        table.temperature,
        table.seed,
        table.input_price,
        table.output_price,
        frozenset(table.send),
        table.repairs,
    )


@contextmanager
def asking(dir: str, *, model: bool = True) -> Iterator[tuple[Asker, Graph]]:
    """Whoever answers questions about the graph of `dir`, and that graph, while inside."""
    from sparql.index.bringing import bring
    from sparql.index.profile import Profile
    from sparql.index.reading import Index
    from sparql.names import Names
    from sparql.query import Pool
    from sparql.question.asking import Asker, Worlds
    from sparql.question.examples import PACKAGED, read
    from sparql.question.graph import PoolGraph
    from sparql.question.model import Model

    from .pipeline import PREFIXES

    settings = load(dir)
    limits = settings.limits
    prefixes = {**PREFIXES, **settings.prefixes}
    own(settings.state)
    profile = Profile()
    bring(settings.state, settings.base, profile)
    index = Index(settings.state, profile.name)
    pool = Pool(
        settings.state, settings.base, workers=1, spares=0, deadline=limits.query_seconds,
        memory_bytes=limits.query_memory_bytes, prefixes=prefixes,
    )  # fmt: skip
    chosen = model_settings(settings) if model else None
    opened: Model | None = Model(chosen) if chosen is not None else None
    examples = read(PACKAGED)
    if settings.server.queries:
        examples = [*read(settings.dir / settings.server.queries), *examples]
    try:
        with pool:
            graph = PoolGraph(pool)
            yield (
                Asker(
                    graph, Worlds(Names(settings.base), prefixes, index, lambda: examples), opened,
                    limits.ask_seconds, limits.ask_rows, limits.ask_tokens, limits.ask_cites,
                ),
                graph,
            )  # fmt: skip
    finally:
        if opened is not None:
            opened.close()


def ask(dir: str, question: str, *, json: bool, model: bool = True) -> bool:
    """Answer the question on standard output; False when there is no answer."""
    from sparql.question.answer import Answer, Unclear
    from sparql.question.asking import document

    with asking(dir, model=model) as (asker, _):
        found = asker.ask(question)
    if json:
        show.document(document(found))
    elif isinstance(found, Answer):
        _answer(found)
    elif isinstance(found, Unclear):
        show.line("That can be read in two ways. Ask one of:")
        for reading in found.readings:
            show.line(f"  {reading.words}")
    else:
        show.line(found.message)
    return isinstance(found, Answer)


def _answer(found: Answer) -> None:
    from sparql.question.saying import shown

    labels = found.detail.get("labels", {})
    show.line(found.sentence)
    result = found.result
    if result.kind == "rows" and (len(result.rows) > 1 or len(result.columns) > 1):
        few = result.rows[:MOST_SHOWN]
        rows = [[shown(term, labels.get) if term is not None else "" for term in row] for row in few]
        show.table(result.columns, rows)
        if len(result.rows) > MOST_SHOWN:
            show.aside(f"{len(result.rows) - MOST_SHOWN} more rows: ask with --json.")
    places: dict[str, None] = {}
    for citation in found.citations:
        for statement in citation.statements:
            for source in statement.sources:
                places[source.locator or source.source] = None
    if places:
        listed = list(places)
        more = f" and {len(listed) - MOST_SHOWN} more" if len(listed) > MOST_SHOWN else ""
        show.line(f"Said by: {', '.join(listed[:MOST_SHOWN])}{more}")
    notes = dict.fromkeys(citation.note for citation in found.citations if citation.note)
    for note in notes:
        show.aside(note)
    show.aside(f"{found.how}, {found.confidence:.0%} sure, commit {found.epoch}. The query, with --json.")


def evaluate(
    dir: str, path: str, *, out: str | None, against: str | None, least: dict[str, float], language: str,
    model: bool, json: bool,
) -> bool:  # fmt: skip
    """Score the questions of a set; False when a requirement is not met."""
    import json as writer

    from .evaluate import changes, failing, load_run
    from .evaluate import evaluate as run
    from .question_set import load_set

    name, questions = load_set(Path(path), language)
    before = load_run(Path(against)) if against is not None else None
    with asking(dir, model=model) as (asker, graph):

        def told(one: Scored) -> None:
            if not json and sys.stderr.isatty():
                show.aside(f"{one.id}: {one.outcome}, F1 {one.score.f1:.2f}, {one.seconds:.2f} s")

        found = run(name, questions, asker.ask, lambda text: graph.query(text, rows=100_000), told)
    if out is not None:
        Path(out).write_text(writer.dumps(found.document(), ensure_ascii=False, indent=1) + "\n", "utf-8")
    wrong = failing(found, least, before)
    if json:
        show.document({**found.document(), "failing": wrong})
        return not wrong
    _scores(found)
    for change in changes(before, found) if before is not None else ():
        show.line(f"{change.id}: {change.was} {change.before:.2f} -> {change.is_} {change.now:.2f}  {change.question}")
    for one in wrong:
        show.line(one)
    return not wrong


def _scores(found: Run) -> None:
    rows = [
        [
            one.id, one.outcome, f"{one.score.f1:.2f}", "yes" if one.score.rows else "no",
            f"{one.seconds * 1000:.0f}", one.question,
        ]
        for one in found.questions
    ]  # fmt: skip
    show.table(("id", "outcome", "F1", "rows", "ms", "question"), rows, numbers=("F1", "ms"))
    summary: dict[str, Any] = found.summary()
    for name, value in summary.items():
        if value is not None:
            show.line(f"{name}: {value:.3f}" if isinstance(value, float) else f"{name}: {value}")
