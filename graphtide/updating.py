"""Updates take their turn one by one: found out beside the graph, then committed if it still is what it was."""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sparql.names import TOKEN
from sparql.sync.edit import Edit, Refused
from sparql.sync.evaluator import Evaluator, Found
from sparql.sync.known import accepted_claim
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.removing import Unknown
from sparql.sync.updating import Author, Must, Written, write
from transforms.direct import direct_mapping

if TYPE_CHECKING:
    from .engine import Engine

ATTEMPTS = 3  # evaluations beside the graph before one with everyone else waiting
MOST_WAITING = 64
_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>\"{}|\\^`]*\Z")


class Updates:
    """The updates of one engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.evaluator = Evaluator(
            engine.settings.state, engine.settings.base, memory_bytes=engine.settings.limits.query_memory_bytes
        )
        self._turn, self._waiting = threading.Lock(), threading.BoundedSemaphore(MOST_WAITING)

    def update(self, ask: Mapping[str, Any]) -> Written:
        """A SPARQL update: {text, default_graphs, named_graphs, token, graphs, reads, within, must}. Raises Refused."""
        author, must, within = _author(ask), _must(ask), ask.get("within")
        request = {
            "do": "update", "text": str(ask.get("text", "")), "default_graphs": list(ask.get("default_graphs") or ()),
            "named_graphs": list(ask.get("named_graphs") or ()), "within": within,
            "prefixes": dict(self.engine.project.prefixes), "load": self._load(), "needed": self._needed(),
        }  # fmt: skip
        with self._my_turn() as ends:
            return self._done(
                request, b"", author, must, ends, lambda found: _only(found.edit, within, self._own(author))
            )

    def graph(self, ask: Mapping[str, Any]) -> Written:
        """A graph is put, added to or deleted: {method, graph (None: the default one), documents: [{type, data}],
        against, token, graphs, reads, must}. Raises Refused."""
        author, must = _author(ask), _must(ask)
        graph, method = ask.get("graph"), str(ask.get("method", "")).upper()
        if graph is not None and not _IRI.match(str(graph)):
            raise Refused("bad-graph", f"{graph!r} is not the IRI of a graph.")
        own = self._own(author)
        target = str(graph) if graph is not None else own or ""
        if method == "DELETE":
            with self._my_turn() as ends, self._engine(ends):
                if graph is not None and not self.engine.store.exists(target):
                    raise Refused("no-such-graph", f"There is no graph <{target}>.")
                edit = Edit(whole={target: set()}, there={target: False} if graph is not None else {})
                return self._write(edit, author, must)
        if method not in ("PUT", "POST"):
            raise Refused("bad-request", f"{method!r} is no way to write a graph. Use PUT, POST or DELETE.")
        try:
            documents = [(str(one["type"]), base64.b64decode(one["data"])) for one in ask.get("documents") or ()]
        except (KeyError, TypeError, binascii.Error) as wrong:
            raise Refused("bad-request", f"The documents cannot be read: {wrong}.") from wrong
        request = {
            "do": "document", "graph": target, "documents": [(kind, len(data)) for kind, data in documents],
            "stable": method == "PUT", "against": ask.get("against"), "needed": self._needed(),
        }  # fmt: skip
        with self._my_turn() as ends:

            def as_asked(found: Found) -> Edit:
                edit = found.edit
                if method == "POST":
                    edit.put(target, (), edit.whole.pop(target, set()))
                if graph is not None:
                    edit.there[target] = True
                return edit

            return self._done(request, b"".join(data for _, data in documents), author, must, ends, as_asked)

    def forget(self, name: str) -> SyncReport:
        """What the token wrote to the default graph is gone. Call with the engine's lock. Raises Unknown."""
        began, author = time.monotonic(), Author(name, ("",))
        own = self._own(author)
        if own is None or accepted_claim(self.engine.store, own) is None:
            raise Unknown(f"The graph knows nothing that the token {name!r} wrote to its record.")
        made = self._write(Edit(whole={own: set()}), author, None)
        seconds = round(time.monotonic() - began, 6)
        return SyncReport(f"{TOKEN}/{name}", gone=1, removed=made.removed, commit=made.commit, seconds=seconds)

    def rest(self) -> None:
        """Nothing is kept ready that was not used for a while."""
        self.evaluator.rest()

    def close(self) -> None:
        self.evaluator.close()

    # -- how

    def _done(
        self, request: dict[str, Any], document: bytes, author: Author, must: Must | None, ends: float, as_asked: Any
    ) -> Written:
        limits = self.engine.settings.limits
        ask = {**request, "own": self._own(author), "limit": limits.update_statements}
        for _ in range(ATTEMPTS):
            found = self.evaluator.ask(ask, document, seconds=_left(ends, limits.update_seconds))
            with self._engine(ends):
                if not found.edit.depends or found.epoch == self.engine.store.head:
                    return self._write(as_asked(found), author, must)
        with self._engine(ends):  # others commit faster than this is found out: they wait for once
            found = self.evaluator.ask(ask, document, seconds=_left(ends, limits.update_seconds))
            return self._write(as_asked(found), author, must)

    def _write(self, edit: Edit, author: Author, must: Must | None) -> Written:
        engine = self.engine
        project = engine.project
        plan = Plan(
            TOKEN, direct_mapping(TOKEN, engine.settings.base), project.shapes, project.vocabulary,
            holds_confidence=engine.settings.limits.holds_confidence,
        )  # fmt: skip
        return write(
            engine.store, edit, author, merge=engine.settings.merge, plan=plan, rules=project.rules,
            wide=project.shapes, must=must,
        )  # fmt: skip

    def _own(self, author: Author) -> str | None:
        return self.engine.store.names.record(TOKEN, author.name) if self.engine.settings.merge else None

    def _load(self) -> dict[str, Any] | None:
        server, limits = self.engine.settings.server, self.engine.settings.limits
        if not server.load_allow:
            return None
        return {
            "allow": list(server.load_allow), "private": list(server.allow_private), "bytes": limits.load_bytes,
            "seconds": limits.load_seconds,
        }  # fmt: skip

    def _needed(self) -> dict[str, Any] | None:
        server, limits = self.engine.settings.server, self.engine.settings.limits
        if not server.context_allow and not server.imports_allow:
            return None
        return {
            "contexts": list(server.context_allow), "imports": list(server.imports_allow),
            "private": list(server.allow_private), "bytes": limits.load_bytes, "seconds": limits.load_seconds,
        }  # fmt: skip

    @contextmanager
    def _my_turn(self) -> Iterator[float]:
        """This update is the only one until the block ends; yields when it has to be over."""
        seconds = self.engine.settings.limits.update_seconds
        ends = time.monotonic() + seconds
        if not self._waiting.acquire(blocking=False):
            raise Refused("busy", f"{MOST_WAITING} updates wait already. Try again.")
        try:
            if not self._turn.acquire(timeout=seconds):
                raise Refused("busy", f"Other updates took more than {seconds:g} s. Try again.")
            try:
                yield ends
            finally:
                self._turn.release()
        finally:
            self._waiting.release()

    @contextmanager
    def _engine(self, ends: float) -> Iterator[None]:
        """Nothing else changes the graph until the block ends."""
        if not self.engine.lock.acquire(timeout=max(0.0, ends - time.monotonic())):
            raise Refused("busy", "The writer is busy with its sources. Try again.")
        try:
            yield
        finally:
            self.engine.lock.release()


def _left(ends: float, seconds: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise Refused("update-timeout", f"The update did not end within update_seconds ({seconds:g} s).")
    return left


def _author(ask: Mapping[str, Any]) -> Author:
    name = ask.get("token")
    if not isinstance(name, str) or not name:
        raise Refused("bad-request", "A write names the token it is made with.")
    graphs = ask.get("graphs") or ()
    return Author(name, ("*",) if graphs == "*" else tuple(map(str, graphs)), bool(ask.get("reads", True)))


def _must(ask: Mapping[str, Any]) -> Must | None:
    must = ask.get("must")
    return Must(must.get("graph") or "", must.get("exists"), must.get("untouched_since")) if must else None


def _only(edit: Edit, within: str | None, own: str | None) -> Edit:
    """The edit, when it is about the one graph it may be about."""
    if within is not None:
        allowed = {within} if within else {"", own}
        for graph in sorted(edit.graphs()):
            if graph not in allowed:
                shown = f"<{graph}>" if graph else "the default graph"
                raise Refused("other-graph", f"A PATCH changes the graph it is sent to, and not {shown}.", graph=graph)
        if within:
            edit.there.setdefault(within, True)
    return edit
