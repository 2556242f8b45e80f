"""A question goes through the same steps whoever reads it, and ends in an answer with its proof or in an honest no.

What an example answers word for word is not read again. The planner reads first; a model, where one is configured, is
asked when the planner has no sure reading, and its query is repaired, checked and run like any other.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Protocol

from pyoxigraph import NamedNode

from sparql.index.folding import tokens
from sparql.index.profile import naming
from sparql.index.reading import IndexMissing
from sparql.names import Names
from sparql.query.failures import QueryFailed, QueryTimeout
from sparql.question.answer import NO_MODEL, NOT_ALLOWED, TIMED_OUT, Answer, Declined, Graph, Result, Spent, Unclear
from sparql.question.check import ROWS, WARNING, Checked, check
from sparql.question.cite import cite
from sparql.question.emptying import emptying
from sparql.question.examples import closest, made_up, usable
from sparql.question.generating import Example, Generated, Judged, Material, generate
from sparql.question.modelling import ModelFailed
from sparql.question.planner.names import Names as Called
from sparql.question.planner.plan import Plan, Planner
from sparql.question.profile import schema_of
from sparql.question.repair import Hopeless, Refusal, repair
from sparql.question.saying import sentence, shown
from sparql.question.schema import Schema
from sparql.question.slicing import BUDGET, slice_of
from sparql.syntax import Query, parse

if TYPE_CHECKING:
    from sparql.question.model import Model

SECONDS = 20.0
SURE = 0.6
"""From which score on a reading of the planner's needs no model."""
SHOWN = 4
"""How many examples a model is shown."""
SOON_SECONDS, NEWEST_SECONDS = 0.5, 3.0
"""How long the index is waited for before a question is read, and before it is declined for a word."""
MADE_SECONDS = 5.0
"""How long an index that is being made is waited for: that of a small graph is there with the server."""
SHARE, QUICK, SLOW = 20, 0.1, 1.0
"""A profile that takes longer than QUICK (SLOW, before a question is declined) seconds to read is read aside, at most a
twentieth of the time."""
LONGEST = 2_000

Found = Answer | Unclear | Declined
Examples = Callable[[], Sequence[Example]]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done on the way: linking, plan, model, query or rows."""

    name: str
    detail: Mapping[str, Any]


@dataclass(slots=True)
class World:
    """What is known of the graph at one commit."""

    schema: Schema
    called: Called
    planner: Planner
    given: Sequence[Example]
    examples: Sequence[Example]
    made: float
    took: float
    """`given` are the examples of all, `examples` those that say something of this graph and those made up of it.

    `made` is when it was made, `took` how many seconds that took.
    """


class Kept(Protocol):
    """The index `profile`: see `sparql.index.reading.Index`."""

    @property
    def commit(self) -> int: ...

    def read(self) -> AbstractContextManager[sqlite3.Connection]: ...

    def reach(self, seconds: float) -> bool: ...


class Worlds:
    """What is known of one graph, for all who ask about it; made again when the index has moved on."""

    def __init__(self, names: Names, prefixes: Mapping[str, str], index: Kept, examples: Examples = tuple) -> None:
        self.names, self.prefixes, self.index, self.examples = names, prefixes, index, examples
        self._world: World | None = None
        self._making = Lock()

    def world(self, *, newest: bool = False) -> World:
        """The profile at the newest commit, if the index comes to that soon; with `newest`, it is waited for longer.

        One that takes long to read is read aside, and the one there is given. Raises IndexMissing.
        """
        self._reach(NEWEST_SECONDS if newest else SOON_SECONDS)
        held, given = self._world, tuple(self.examples())
        if held is not None and held.given != given:
            held = self._world = replace(held, given=given, examples=self._examples(given, held.schema))
        if held is not None and held.schema.commit == self.index.commit:
            return held
        if held is None or held.took < (SLOW if newest else QUICK):
            with self._making:
                held = self._world
                if held is None or held.schema.commit != self.index.commit:
                    held = self._world = self._made()
                return held
        if time.monotonic() - held.made > SHARE * held.took and not self._making.locked():
            Thread(target=self._renew, daemon=True).start()
        return held

    @property
    def naming(self) -> frozenset[str]:
        """The properties whose values are the names of things."""
        held = self._world
        return frozenset(iri for iri in held.schema.properties if naming(iri) is not None) if held else frozenset()

    def _reach(self, seconds: float) -> None:
        ends = time.monotonic() + MADE_SECONDS
        while True:
            try:
                self.index.reach(seconds)
                return
            except IndexMissing:
                if time.monotonic() > ends:
                    raise
                time.sleep(0.05)

    def _renew(self) -> None:
        # Whoever asks meanwhile is answered by what is there: the next one is told when this fails.
        with self._making, contextlib.suppress(IndexMissing):
            self._world = self._made()

    def _made(self) -> World:
        began = time.monotonic()
        with self.index.read() as db:
            schema = schema_of(db, prefixes=self.prefixes)
        called = Called(self.index)
        planner = Planner(schema, called, base=self.names.base)
        given = tuple(self.examples())
        examples = self._examples(given, schema)
        ended = time.monotonic()
        return World(schema, called, planner, given, examples, ended, ended - began)

    def _examples(self, given: Sequence[Example], schema: Schema) -> Sequence[Example]:
        return usable([*given, *made_up(schema)], schema, self.names.base)


@dataclass(frozen=True)
class Asker:
    """Answers questions about one graph, for one who asks. Safe for any number of threads."""

    graph: Graph
    worlds: Worlds
    model: Model | None = None
    seconds: float = SECONDS
    rows: int = ROWS
    budget: int = BUDGET
    cites: int = 20

    @property
    def names(self) -> Names:
        return self.worlds.names

    def world(self, *, newest: bool = False) -> World:
        """What is known of the graph. Raises IndexMissing."""
        return self.worlds.world(newest=newest)

    def ask(self, question: str, *, today: date | None = None) -> Found:
        """The answer, or two readings to choose from, or why there is none."""
        last: Found | None = None
        for step in self.steps(question, today=today):
            if not isinstance(step, Step):
                last = step
        assert last is not None
        return last

    def steps(self, question: str, *, today: date | None = None) -> Iterator[Step | Found]:
        """What is done, step by step; the last is what `ask` gives. Never raises for what a question may be.

        Raises IndexMissing while the profile of the graph is being made.
        """
        ends = time.monotonic() + self.seconds
        question = " ".join(question[:LONGEST].split())
        try:
            yield from self._steps(question, today or date.today(), ends)
        except QueryTimeout:
            message = f"There was no answer within {self.seconds:g} s. Ask for less, or raise `ask_seconds`."
            yield Declined(question, TIMED_OUT, message)

    def _steps(self, question: str, today: date, ends: float) -> Iterator[Step | Found]:
        world = self.world()
        same = next((one for one in world.examples if _same(one.question, question)), None)
        if same is not None:
            yield Step("plan", {"how": "example", "words": same.question})
            try:
                # Half of the time: one that is too slow is no answer, and the question is read.
                half = (ends + time.monotonic()) / 2
                told = list(self._answered(question, same.sparql, "example", 1.0, world, half, Spent()))
            except QueryFailed as wrong:
                yield Step("plan", {"how": "example", "failed": str(wrong)})
            else:
                if isinstance(told[-1], Answer):
                    yield from told
                    return
        made = world.planner.plan(question, today=today)
        if isinstance(made, Declined) and made.reason.startswith("unknown"):
            # What it lacks may have come with a commit that the profile has not seen.
            newer = self.world(newest=True)
            if newer is not world:
                world = newer
                made = world.planner.plan(question, today=today)
        yield Step("linking", _linked(made))
        sure = isinstance(made, Plan) and made.score >= SURE
        if self.model is not None and not sure and not (isinstance(made, Declined) and made.reason == NOT_ALLOWED):
            found = yield from self._by_model(question, made, world, ends)
            if found is not None:
                yield found
                return
        if isinstance(made, Plan):
            yield Step("plan", {"how": "planner", "words": made.words, "score": round(made.score, 3)})
            yield from self._answered(question, made.sparql, "planner", made.score, world, ends, Spent())
            return
        yield made

    # -- the model ----------------------------------------------------------------------------------------------------

    def _by_model(
        self, question: str, made: Plan | Unclear | Declined, world: World, ends: float
    ) -> Generator[Step, None, Found | None]:
        """What the model comes to; None where it has nothing and the planner's reading stands."""
        assert self.model is not None

        def judge(text: str) -> Judged:
            return self._judged(text, world, ends)

        try:
            found = generate(self.model, question, self._material(question, made, world), judge, ends=ends)
        except ModelFailed as failed:
            yield Step("model", {"failed": failed.kind, "message": failed.message})
            if isinstance(made, Declined):
                return Declined(question, NO_MODEL, f"{made.message} {failed.message}", made.nearest)
            return None
        yield Step(
            "model", {"attempts": found.attempts, "tokens": found.spent.input_tokens + found.spent.output_tokens}
        )
        if found.result is None:
            return self._none(question, made, found)
        yield Step("plan", {"how": "model", "words": ""})
        yield Step("query", {"sparql": found.sparql})
        return self._proved(question, found.sparql, found.result, "model", 0.7, world, ends, found.spent)

    def _none(self, question: str, made: Plan | Unclear | Declined, found: Generated) -> Found | None:
        if isinstance(made, Declined):
            return Declined(question, made.reason, f"{made.message} The model says: {found.reason}", made.nearest)
        return None

    def _material(self, question: str, made: Plan | Unclear | Declined, world: World) -> Material:
        assert self.model is not None
        allowed = self.model.settings.send
        schema = ""
        if "schema" in allowed:
            schema = slice_of(world.schema, question, budget=self.budget, values="values" in allowed).text
        entities: tuple[tuple[str, str], ...] = ()
        if "entities" in allowed:
            words = question.split()
            spans = {
                " ".join(words[at : at + size]).strip("?.,!\"'") for size in (1, 2, 3, 4) for at in range(len(words))
            }
            hits = {one.iri: one for span in sorted(spans) for one in world.called.entities(span, 2) if one.score > 0.8}
            best = sorted(hits.values(), key=lambda one: (-one.score, one.iri))[:8]
            entities = tuple((one.iri, one.label) for one in best)
        shown_ = tuple(closest(world.examples, question, SHOWN)) if "examples" in allowed else ()
        hint = made.sparql if isinstance(made, Plan) and "schema" in allowed else ""
        return Material(schema, entities, shown_, hint)

    def _judged(self, text: str, world: World, ends: float) -> Judged:
        """A model's query, repaired, checked and run."""
        mended = repair(text, world.schema.prefixes, self.names.base)
        if isinstance(mended, (Refusal, Hopeless)):
            said = mended.words if isinstance(mended, Refusal) else mended.message
            return Judged(text, None, (f"It is no query: {said}",))
        checked = self._checked(mended.sparql, world)
        if checked.sparql is None:
            return Judged(mended.sparql, None, tuple(one.message for one in checked.errors))
        try:
            result = self._run(checked.sparql, ends)
        except (QueryFailed, RuntimeError, SyntaxError) as wrong:
            return Judged(checked.sparql, None, (str(wrong),))
        if result.rows or result.kind == "boolean":
            return Judged(checked.sparql, result)
        tree = parse(checked.sparql, base=self.names.base, only="query")
        assert isinstance(tree, Query)
        why = emptying(
            self.graph, tree, seconds=max(0.0, min(3.0, ends - time.monotonic())), epoch=result.epoch or None
        )
        told = [one.message for one in checked.findings if one.severity == WARNING]
        told += [f"It finds nothing: together these match nothing: {' '.join(why)}"] if why else []
        return Judged(checked.sparql, result, tuple(told), empty=True)

    # -- answers ------------------------------------------------------------------------------------------------------

    def _checked(self, sparql: str, world: World) -> Checked:
        def known(iri: str) -> bool:
            if world.called.knows(iri):
                return True
            node = str(NamedNode(iri))
            text = f"ASK {{ {{ {node} ?p ?o }} UNION {{ ?s ?p {node} }} UNION {{ GRAPH {node} {{ ?s ?p ?o }} }} }}"
            return str(getattr(self.graph.query(text, seconds=2.0).rows[0][0], "value", "")).lower() == "true"

        return check(
            sparql, world.schema, known=known, base=self.names.base, rows=self.rows, forbidden=(self.names.system,)
        )

    def _run(self, sparql: str, ends: float) -> Result:
        left = ends - time.monotonic()
        if left <= 0:
            raise QueryTimeout("late")
        return self.graph.query(sparql, seconds=left, rows=self.rows)

    def _answered(
        self, question: str, sparql: str, how: str, score: float, world: World, ends: float, spent: Spent
    ) -> Iterator[Step | Found]:
        checked = self._checked(sparql, world)
        if checked.sparql is None:
            message = f"The query for that cannot be run: {checked.errors[0].message}"
            yield Declined(question, NOT_ALLOWED, message, checked.errors[0].nearest)
            return
        yield Step("query", {"sparql": checked.sparql})
        result = self._run(checked.sparql, ends)
        yield Step("rows", {"rows": len(result.rows), "epoch": result.epoch, "ms": result.ms})
        yield self._proved(question, checked.sparql, result, how, score, world, ends, spent)

    def _proved(
        self,
        question: str,
        sparql: str,
        result: Result,
        how: str,
        score: float,
        world: World,
        ends: float,
        spent: Spent,
    ) -> Answer:
        tree = parse(sparql, prefixes=dict(world.schema.prefixes), base=self.names.base, only="query")
        assert isinstance(tree, Query)
        citations = cite(
            self.graph, tree, result, self.names, rows=self.cites, seconds=max(0.0, min(5.0, ends - time.monotonic()))
        )
        label = world.called.label
        called = {
            term.value: name
            for row in result.rows
            for term in row
            if isinstance(term, NamedNode) and (name := label(term.value)) is not None
        }
        return Answer(
            question, sparql, result, citations, min(1.0, score), how, result.epoch, sentence(result, label), spent,
            {"labels": called, "profile": world.schema.commit},
        )  # fmt: skip


def _same(one: str, other: str) -> bool:
    return tokens(one) == tokens(other) and bool(tokens(one))


def _linked(made: Plan | Unclear | Declined) -> dict[str, Any]:
    if isinstance(made, Plan):
        return {"words": made.words, "score": round(made.score, 3)}
    if isinstance(made, Unclear):
        return {"readings": [one.words for one in made.readings]}
    return {"reason": made.reason, "message": made.message}


def document(found: Found) -> dict[str, Any]:
    """What was found, as JSON: `type` is answer, unclear or declined."""
    if isinstance(found, Declined):
        return {"type": "declined", "question": found.question, "reason": found.reason, "message": found.message,
                "nearest": list(found.nearest)}  # fmt: skip
    if isinstance(found, Unclear):
        readings = [{"words": one.words, "sparql": one.sparql, "score": round(one.score, 3)} for one in found.readings]
        return {"type": "unclear", "question": found.question, "readings": readings}
    result = found.result
    labels = found.detail.get("labels", {})
    return {
        "type": "answer",
        "question": found.question,
        "sentence": found.sentence,
        "sparql": found.sparql,
        "how": found.how,
        "confidence": round(found.confidence, 3),
        "epoch": found.epoch,
        "commit_time": result.time,
        "kind": result.kind,
        "columns": list(result.columns),
        "rows": [[_term(term) for term in row] for row in result.rows],
        "truncated": result.truncated,
        "ms": round(result.ms, 3),
        "labels": dict(labels),
        "citations": [
            {
                "row": one.row,
                "complete": one.complete,
                "note": one.note,
                "statements": [
                    {
                        "statement": f"{each.triple.subject} {each.triple.predicate} {each.triple.object}",
                        "graph": each.graph,
                        "sources": [
                            {"graph": source.graph, "source": source.source, "key": source.key,
                             "locator": source.locator, "hash": source.hash, "commit": source.commit,
                             "link": source.link}
                            for source in each.sources
                        ],
                    }
                    for each in one.statements
                ],
            }
            for one in found.citations
        ],
        "spent": {"calls": found.spent.calls, "input_tokens": found.spent.input_tokens,
                  "output_tokens": found.spent.output_tokens, "cost": found.spent.cost},
    }  # fmt: skip


def _term(term: Any) -> dict[str, str] | None:
    if term is None:
        return None
    if isinstance(term, NamedNode):
        return {"type": "uri", "value": term.value}
    found = {"type": "literal", "value": str(getattr(term, "value", term))}
    language = getattr(term, "language", None)
    if language:
        found["xml:lang"] = language
    elif hasattr(term, "datatype") and not term.datatype.value.endswith("#string"):
        found["datatype"] = term.datatype.value
    return found


__all__ = ["Asker", "Found", "Step", "World", "document", "shown"]
