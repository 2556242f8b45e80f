"""An example query that does not run is worse than none: each is run again when what it reads has changed.

An example is a file `*.rq`: the first comment line is its title, the other comment lines at its head say more. It runs
as any query does, in turn with the others and under a deadline of its own, at most once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyoxigraph import Literal, NamedNode

from ontology.facts import RDFS, SH, XSD
from sparql.log import read_head
from sparql.query import results
from sparql.query.pool import NotAcceptable, PoolBusy, QueryCancelled, QueryFailed, WorkerLost
from sparql.question.examples import PACKAGED
from sparql.question.generating import Example as Question
from sparql.server import documents
from sparql.server.documents import Document
from sparql.server.fresh import Following, Fresh
from sparql.server.reading import Readings
from sparql.server.serving import Serving
from sparql.syntax import SyntaxProblem, parse
from sparql.syntax.tree import Ask, Construct, Describe, Prefix, Query

SECONDS = 5.0
"""How long an example may take."""
AGAIN_SECONDS = 60.0
"""How often one is run at most."""
LOOK_SECONDS = 1.0
MOST, LONGEST = 500, 64 * 1024
"""How many there are, and how many bytes one has, at most."""
SCHEMA, EARL, DCTERMS, DCAT = (
    "https://schema.org/", "http://www.w3.org/ns/earl#", "http://purl.org/dc/terms/", "http://www.w3.org/ns/dcat#",
)  # fmt: skip
_HEAD = re.compile(r"(?:\s*#[^\n]*(?:\n|\Z))+")


@dataclass(frozen=True, slots=True)
class State:
    """How the last run of an example went; `error` is "" when it answered."""

    ran: str = ""
    epoch: int = 0
    rows: int | None = None
    ms: float | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """One stored query. `state` is None while it has not run as it is now."""

    name: str
    title: str
    comment: str
    query: str
    kind: str
    prefixes: Mapping[str, str] = field(default_factory=dict)
    asks: bool = True
    """Whether its title is a question that somebody wrote."""
    state: State | None = None

    @property
    def broken(self) -> bool:
        """Whether its last run failed."""
        return self.state is not None and bool(self.state.error)


def read(folder: Path | None, prefixes: Mapping[str, str], base: str) -> list[Example]:
    """The examples of a folder and those in it, by path; each is named by its path there, without the `.rq`."""
    found = []
    paths = sorted(folder.rglob("*.rq"))[:MOST] if folder is not None and folder.is_dir() else []
    for path in paths:
        with contextlib.suppress(OSError, UnicodeDecodeError):
            if path.stat().st_size <= LONGEST:
                name = path.relative_to(folder).with_suffix("").as_posix()  # type: ignore[arg-type]
                found.append(_example(name, path.read_text("utf-8"), prefixes, base))
    return found


class Examples:
    """The examples of one server: those of its folder, and those that come with Graphtide, which only questions use."""

    def __init__(self, serving: Serving) -> None:
        self.serving, self.folder = serving, serving.config.queries
        self._packaged = read(PACKAGED, serving.prefixes, serving.config.base)
        self._all: dict[tuple[bool, str], Example] = {}
        self._tried: dict[tuple[bool, str], float] = {}
        self._readings = Readings(serving.prefixes, serving.config.base)
        self._fresh = Fresh(serving.config.state)
        self._following = Following(self._fresh)

    def all(self) -> list[Example]:
        """The examples of the folder as its files are now."""
        return [one for (packaged, _), one in self._read().items() if not packaged]

    def questions(self) -> list[Question]:
        """What is asked by those that run, or have not run yet: the folder's first."""
        known = self._all or self._read()
        return [Question(one.title, one.query.strip()) for one in known.values() if one.asks and not one.broken]

    def broken(self) -> list[str]:
        """A line for each example that does not run."""
        return [
            f"{PACKAGED if packaged else self.folder}/{name}.rq does not run: {one.state.error}"
            for (packaged, name), one in self._all.items()
            if one.state is not None and one.broken
        ]

    def _read(self) -> dict[tuple[bool, str], Example]:
        mine = read(self.folder, self.serving.prefixes, self.serving.config.base)
        fresh = {(False, one.name): one for one in mine} | {(True, one.name): one for one in self._packaged}
        self._all = {key: _kept(one, self._all.get(key)) for key, one in fresh.items()}
        return self._all

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Inside, the examples are run when what they read has changed."""
        async with self._following.lifespan():
            task = asyncio.create_task(self._forever())
            try:
                yield
            finally:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    async def _forever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for key, one in list((await asyncio.to_thread(self._read)).items()):
                if self._due(one, self._tried.get(key)):
                    self._tried[key] = time.monotonic()
                    state = await self._run(one)
                    if state is not None and self._all.get(key, one).query == one.query:
                        self._all[key] = replace(one, state=state)

    def _due(self, one: Example, tried: float | None) -> bool:
        if one.state is None:
            return tried is None or time.monotonic() - tried > LOOK_SECONDS
        if tried is not None and time.monotonic() - tried < AGAIN_SECONDS:
            return False
        try:
            reading = self._readings.of(one.query)
        except SyntaxProblem:
            return False  # it stays wrong until the file changes
        return reading.touched(self._fresh, (), ()) > one.state.epoch or (
            one.broken and self._fresh.at > one.state.epoch
        )

    async def _run(self, one: Example) -> State | None:
        """How a run went; None when it did not come to one."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        head = read_head(self.serving.config.state)
        began = time.monotonic()
        try:
            self._readings.of(one.query)
            formats = {results.ROWS: "json", results.BOOLEAN: "json", results.TRIPLES: "ntriples"}
            async with self.serving.pool.call(one.query, format=formats, deadline=SECONDS, client="examples") as call:
                answer = await call.begin()
                parts = []
                while (data := await answer.chunk_async()) is not None:
                    parts.append(data)
            rows = _rows(answer.kind, b"".join(parts), answer.rows)
            ms = answer.ms if answer.ms is not None else (time.monotonic() - began) * 1000
            return State(now, answer.epoch, rows, round(ms, 1))
        except SyntaxProblem as wrong:
            return State(now, head, error=f"line {wrong.line}, column {wrong.column}: {wrong.message}")
        except (PoolBusy, QueryCancelled, WorkerLost):
            return None  # that says nothing of the query
        except (QueryFailed, NotAcceptable) as wrong:
            return State(now, head, error=str(wrong))


def describe(doc: Document, root: str, examples: list[Example], dataset: str) -> None:
    """The document holds the examples as `sh:SPARQLExecutable`, each with how its last run went."""
    page = f"{root}/.well-known/sparql-examples"
    for one in examples:
        me = f"{page}#{documents.fragment(one.name)}"
        doc.type(me, SH + "SPARQLExecutable", SH + _CLASSES[one.kind][0])
        doc.add(me, RDFS + "label", one.title)
        doc.add(me, RDFS + "comment", one.comment or one.title)
        doc.add(me, SH + _CLASSES[one.kind][1], one.query)
        doc.link(me, SCHEMA + "target", f"{root}/sparql")
        doc.link(me, SH + "prefixes", f"{page}#prefixes-{documents.fragment(one.name)}" if one.prefixes else dataset)
        for prefix, iri in sorted(one.prefixes.items()):
            mine = f"{page}#prefixes-{documents.fragment(one.name)}"
            here = f"{mine}-{documents.fragment(prefix)}"
            doc.link(mine, SH + "declare", here)
            doc.add(here, SH + "prefix", prefix)
            doc.add(here, SH + "namespace", Literal(iri, datatype=NamedNode(XSD + "anyURI")))
        if one.state is not None:
            _outcome(doc, page, me, one, one.state)


def _outcome(doc: Document, page: str, me: str, one: Example, state: State) -> None:
    """How the last run went, as EARL has it."""
    run, result = (f"{page}#{kind}-{documents.fragment(one.name)}" for kind in ("run", "result"))
    doc.type(run, EARL + "Assertion")
    doc.link(run, EARL + "test", me)
    doc.link(run, EARL + "result", result)
    doc.type(result, EARL + "TestResult")
    doc.link(result, EARL + "outcome", EARL + ("failed" if state.error else "passed"))
    doc.add(result, DCTERMS + "date", documents.time(state.ran))
    doc.add(result, DCAT + "version", str(state.epoch))
    doc.add(result, EARL + "info", state.error or f"{state.rows} rows in {state.ms} ms")


def about(one: Example) -> dict[str, Any]:
    """The example as JSON."""
    state = asdict(one.state) if one.state is not None else None
    return {"name": one.name, "title": one.title, "comment": one.comment, "query": one.query, "kind": one.kind,
            "broken": one.broken, "state": state}  # fmt: skip


_CLASSES = {
    "select": ("SPARQLSelectExecutable", "select"),
    "ask": ("SPARQLAskExecutable", "ask"),
    "construct": ("SPARQLConstructExecutable", "construct"),
    # SHACL has no executable for DESCRIBE: the SIB's vocabulary has.
    "describe": ("SPARQLExecutable", "describe"),
}


def _example(name: str, text: str, prefixes: Mapping[str, str], base: str) -> Example:
    head = _HEAD.match(text)
    lines = [line.strip().lstrip("#").strip() for line in head.group().splitlines()] if head else []
    lines = [line for line in lines if line]
    kind, declared = "select", {}
    with contextlib.suppress(SyntaxProblem):
        tree = parse(text, prefixes=prefixes, base=base, only="query")
        assert isinstance(tree, Query)
        form: object = type(tree.form)
        kind = {Ask: "ask", Construct: "construct", Describe: "describe"}.get(form, "select")  # type: ignore[call-overload]
        declared = {one.name: one.iri for one in tree.prologue if isinstance(one, Prefix)}
    title = lines[0] if lines else name
    return Example(name, title, " ".join(lines[1:]), text, kind, declared, bool(lines))


def _kept(fresh: Example, known: Example | None) -> Example:
    return replace(fresh, state=known.state) if known is not None and known.query == fresh.query else fresh


def _rows(kind: str, body: bytes, counted: int | None) -> int:
    if kind == results.BOOLEAN:
        return int(json.loads(body)["boolean"])
    if counted is not None:
        return counted
    return body.count(b"\n") if kind == results.TRIPLES else len(json.loads(body)["results"]["bindings"])
