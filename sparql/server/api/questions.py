"""A question over HTTP is answered with its query, its rows and the records that say so, or with an honest no."""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from sparql.index.reading import Index, IndexMissing
from sparql.log import read_head
from sparql.names import Names
from sparql.query.pool import QueryFailed
from sparql.question.answer import Answer
from sparql.question.asking import Asker, Found, Step, Worlds, document
from sparql.question.generating import Example
from sparql.question.graph import PoolGraph
from sparql.server import describing
from sparql.server.api.operation import EVENTS, JSON, Body, Given, Operation, Parameter, Reply, answer, head
from sparql.server.api.operation import routes as made
from sparql.server.api.schema import COUNT, FLAG, TEXT, many, maybe, obj
from sparql.server.gate import client_of
from sparql.server.problem import Problem, of_query
from sparql.server.serving import Serving
from sparql.syntax import SyntaxProblem, parse, reads

if TYPE_CHECKING:
    from sparql.question.model import Model

AT_ONCE = 16
"""How many questions are answered at one time."""
NOT_READY = ("index-not-ready", "What can be asked of the graph is being counted. Ask again soon.")
KEPT = 500
"""How many answers are kept."""
HEARTBEAT_SECONDS = 15.0
_QUESTION = {"type": "string", "minLength": 1, "maxLength": 2000}
_MEANT = (
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    "http://www.w3.org/2000/01/rdf-schema#label",
    "http://www.w3.org/2000/01/rdf-schema#subClassOf",
    "http://www.w3.org/2004/02/skos/core#prefLabel",
    "http://www.w3.org/2004/02/skos/core#altLabel",
)
"""What decides, beside what its query reads, how a question is understood."""

ASK = obj({"question": _QUESTION, "model": FLAG}, optional=("model",))
FOUND = obj({
    "type": {"type": "string", "enum": ["answer", "unclear", "declined"]}, "question": TEXT, "sentence": TEXT,
    "sparql": TEXT, "how": {"type": "string", "enum": ["example", "planner", "model"]},
    "confidence": {"type": "number"}, "kind": TEXT, "columns": many(TEXT), "rows": many({"type": "array"}),
    "truncated": FLAG, "ms": {"type": "number"}, "labels": {"type": "object", "additionalProperties": TEXT},
    "citations": many({"type": "object"}), "spent": {"type": "object"}, "reason": TEXT, "message": TEXT,
    "nearest": many(TEXT), "readings": many({"type": "object"}), "epoch": COUNT, "commit_time": TEXT,
    "next": maybe("string"),
}, optional=("sentence", "sparql", "how", "confidence", "kind", "columns", "rows", "truncated", "ms", "labels",
             "citations", "spent", "reason", "message", "nearest", "readings", "commit_time"))  # fmt: skip
TEXT2SPARQL = obj({
    "dataset": TEXT, "question": TEXT, "query": TEXT, "message": TEXT, "epoch": COUNT, "commit_time": TEXT,
    "next": maybe("string"),
}, optional=("message", "commit_time"))  # fmt: skip
SCHEMAS = {"Ask": ASK, "Found": FOUND, "Text2Sparql": TEXT2SPARQL}

OPERATIONS = (
    Operation(
        "POST", "/ask", "ask", "Answer a question in plain words",
        {200: Reply("`answer` with its query, rows and citations; `unclear` with readings to choose from; or "
                    "`declined` with a reason. As `text/event-stream`: an event a step (`linking`, `plan`, `model`, "
                    "`query`, `rows`), and `answer` with the whole.",
                    {"$ref": "#/components/schemas/Found"}, (JSON, EVENTS))}, "questions",
        "What an example asks is run as it is; else the planner reads the question with the graph's own words; a "
        "model, where `[model]` names one, is asked when there is no sure reading (never with `model` false). Each row "
        "of an answer is cited: the statements it rests on and, for each, the records that say it. An answer is kept "
        "until a commit touches what it reads.",
        (), Body(ASK, "Ask", example={"question": "Which services have no owner?"}), refusals=(415, 429, 503, 504),
    ),
    Operation(
        "GET", "/text2sparql", "text2sparql", "The query for a question, as TEXT2SPARQL asks for it",
        {200: Reply("The query; empty, with a `message`, where there is none.",
                    {"$ref": "#/components/schemas/Text2Sparql"})}, "questions",
        "There is one dataset here: `dataset` is given back as it is.",
        (
            Parameter("question", _QUESTION, "The question.", required=True, example="Which services have no owner?"),
            Parameter("dataset", {"type": "string", "maxLength": 2000}, "The IRI of the dataset.",
                      example="https://webshop.example/"),
        ), refusals=(429, 503, 504),
    ),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/ask` and `/text2sparql`."""
    asking = _Asking(serving)
    serving.on_start(asking.running)
    return made(serving, OPERATIONS, {"ask": asking.ask, "text2sparql": asking.text2sparql})


@dataclass(frozen=True, slots=True)
class _Kept:
    found: Answer
    predicates: frozenset[str] | None
    validator: int
    """The commit that it is known to hold at: that of its rows, or of the profile its question was read by."""


class _Asking:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving
        self.config = serving.config
        index = Index(self.config.state, "profile")
        self.worlds = Worlds(Names(self.config.base), serving.prefixes, index, describing.examples(serving).questions)
        self.model: Model | None = None
        self.running_now = 0
        self._given: Sequence[Example] = ()
        self._kept: OrderedDict[tuple[str, str, bool], _Kept] = OrderedDict()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A model that is configured is open inside."""
        if self.config.model is not None:
            from sparql.question.model import Model  # and with it 30 MiB that a server without a model does not need

            self.model = Model(self.config.model)
        try:
            yield
        finally:
            if self.model is not None:
                self.model.close()

    async def ask(self, given: Given) -> Response:
        body = given.body
        question, with_model = body["question"], bool(body.get("model", True))
        accept = given.request.headers.get("accept", "")
        if any(part.partition(";")[0].strip().lower() == EVENTS for part in accept.split(",")):
            asker = self._asker(given, with_model)
            headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", "Vary": "Accept"}
            headers["X-Graphtide-Epoch"] = str(head(given))
            return StreamingResponse(self._stream(asker, question), headers=headers, media_type=EVENTS)
        found = await self._found(given, question, with_model)
        return self._answer(given, document(found), found)

    async def text2sparql(self, given: Given) -> Response:
        question, dataset = given.values["question"], given.get("dataset", self.config.base)
        found = await self._found(given, question, True)
        sparql = found.sparql if isinstance(found, Answer) else ""
        told = {"dataset": dataset, "question": question, "query": sparql}
        if not sparql:
            told["message"] = str(getattr(found, "message", "It can be read in two ways."))
        return self._answer(given, told, found)

    def _answer(self, given: Given, body: dict[str, Any], found: Found) -> Response:
        epoch = body.pop("epoch", None)
        time = body.pop("commit_time", "")
        return answer(given, body, epoch=head(given) if epoch is None else epoch, time=time,
                      headers={"Cache-Control": "no-store"})  # fmt: skip

    def _asker(self, given: Given, with_model: bool) -> Asker:
        if self.running_now >= AT_ONCE:
            raise Problem(
                429,
                "too-many-questions",
                f"{AT_ONCE} questions are being answered, and that is as many as may. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        config = self.config
        graph = PoolGraph(self.serving.pool, client=client_of(given.request))
        model = self.model if with_model else None
        return Asker(
            graph, self.worlds, model, config.ask_seconds, config.ask_rows, config.ask_tokens, config.ask_cites
        )

    async def _found(self, given: Given, question: str, with_model: bool) -> Found:
        key = (" ".join(question.split()), datetime.now(UTC).date().isoformat(), with_model)
        kept = await self._still(key)
        if kept is not None:
            return kept
        asker = self._asker(given, with_model)
        self.running_now += 1
        try:
            found = await asyncio.get_running_loop().run_in_executor(self.serving.threads, asker.ask, question)
        except QueryFailed as wrong:
            raise of_query(wrong) from wrong
        except IndexMissing as none:
            raise Problem(503, NOT_READY[0], NOT_READY[1], headers={"Retry-After": "2"}) from none
        finally:
            self.running_now -= 1
        if isinstance(found, Answer):
            self._keep(key, found)
        return found

    # -- answers that still hold --------------------------------------------------------------------------------------

    async def _still(self, key: tuple[str, str, bool]) -> Answer | None:
        given = self.worlds.examples()
        if given != self._given:
            self._given = given
            self._kept.clear()
        kept = self._kept.get(key)
        if kept is None:
            return None
        endpoint = self.serving.sparql
        newest = read_head(self.config.state)
        if endpoint.fresh.at < newest and not await endpoint.following.reach(newest, 0.25):
            return None
        if self._touched(kept.predicates) > kept.validator:
            self._kept.pop(key, None)
            return None
        self._kept.move_to_end(key)
        return kept.found

    def _touched(self, predicates: frozenset[str] | None) -> int:
        """The last commit that can have changed an answer, or how its question is understood, or who says so."""
        return int(self.serving.sparql.fresh.touched(predicates, named=True))

    def _keep(self, key: tuple[str, str, bool], found: Answer) -> None:
        try:
            tree = parse(found.sparql, prefixes=dict(self.serving.prefixes), base=self.config.base, only="query")
        except SyntaxProblem:
            return
        print_ = reads(tree)
        if print_.varies:
            return
        named = None
        if print_.predicates is not None:
            named = frozenset({*print_.predicates, *_MEANT, *self.worlds.naming})
        self._kept[key] = _Kept(found, named, min(found.epoch, int(found.detail["profile"])))
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)

    # -- steps --------------------------------------------------------------------------------------------------------

    async def _stream(self, asker: Asker, question: str) -> AsyncIterator[bytes]:
        steps: queue.SimpleQueue[Step | Found | Exception | None] = queue.SimpleQueue()

        def work() -> None:
            try:
                for step in asker.steps(question):
                    steps.put(step)
            except Exception as wrong:
                steps.put(wrong)
            steps.put(None)

        loop = asyncio.get_running_loop()
        self.running_now += 1
        task = loop.run_in_executor(self.serving.threads, work)
        try:
            while True:
                step = await loop.run_in_executor(self.serving.writers, steps.get)
                if step is None:
                    break
                yield _event(step)
            await task
        finally:
            self.running_now -= 1


def _event(step: Step | Found | Exception) -> bytes:
    if isinstance(step, Step):
        name, data = step.name, dict(step.detail)
    elif isinstance(step, QueryFailed):
        name, data = "error", {"message": str(step), "code": step.code}
    elif isinstance(step, IndexMissing):
        name, data = "error", {"message": NOT_READY[1], "code": NOT_READY[0]}
    elif isinstance(step, Exception):
        name, data = "error", {"message": "The question could not be answered.", "code": "failed"}
    else:
        name, data = "answer", document(step)
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), default=str)
    return f"event: {name}\ndata: {text}\n\n".encode("utf-8", "replace")
