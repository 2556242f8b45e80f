"""A query is answered from what is known to hold, or by a worker; the graph is as open to reading as this server is."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import platform
import time
from collections.abc import Hashable
from importlib.metadata import version

from pyoxigraph import __version__ as engine
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sparql.log import read_head
from sparql.query import results
from sparql.query.failures import EpochAhead
from sparql.query.pool import Answer
from sparql.server import answer as answers
from sparql.server import describing, negotiate, protocol, updating
from sparql.server.answer import AnswerResponse, Sizes
from sparql.server.cache import Cache, Flights, Kept
from sparql.server.calling import Calling, marked
from sparql.server.fresh import FILE, Following, Fresh
from sparql.server.gate import client_of, require_read
from sparql.server.problem import Problem, of_query
from sparql.server.protocol import Asked, Changing, Nothing
from sparql.server.reading import Reading, Readings, SyntaxProblem
from sparql.server.serving import Serving

# An answer waits so long for the commits it stands at to be read, and is tagged with its own commit otherwise.
FOLLOW_SECONDS = 0.05
LEAST_SECONDS = 10.0
# How often one waits for another who asks the same, and fails.
ROUNDS = 3
# Characters of a query that are read on the event loop: a millisecond is about a thousand of them.
LONGEST_READ = 16 * 1024


def routes(serving: Serving) -> list[Route]:
    """`/sparql`."""
    endpoint = serving.sparql = SparqlEndpoint(serving)
    return [
        Route("/sparql", endpoint),
        Route("/sparql/", endpoint),
    ]


class SparqlEndpoint:
    """`/sparql` as an application of its own: a kept answer leaves without a thread, a worker or a request object."""

    def __init__(self, serving: Serving) -> None:
        config = serving.config
        self.serving, self.config = serving, config
        self.readings = Readings(serving.prefixes, config.base)
        self.fresh = Fresh(config.state, config.state / FILE)
        self.following = Following(self.fresh)
        self.cache = Cache(config.cache_bytes, config.cache_entry_bytes)
        self.flights = Flights()
        self.calling = Calling(serving)
        self.sizes = Sizes(config.compress_from, config.buffer_bytes, self.cache.longest)
        # What else an answer depends on: the same text may mean something else to another server.
        salt = (config.base, sorted(serving.prefixes.items()), engine, version("graphtide"), platform.machine())
        self._salt = hashlib.blake2b(repr(salt).encode(), digest_size=16).digest()
        serving.on_start(self.following.lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["method"] == "OPTIONS":
                headers = {**protocol.ALLOW, **protocol.ACCEPTS}
                await Response(status_code=204, headers=headers)(scope, receive, send)
                return
            asked = await protocol.read(scope, receive, self.config.max_query_bytes, self.config.max_update_bytes)
            if isinstance(asked, Asked):
                await self._query(asked, scope, receive, send)
            elif isinstance(asked, Changing):
                await (await updating.update(self.serving, Request(scope, receive), asked))(scope, receive, send)
            else:
                await (await self._describe(asked, Request(scope, receive)))(scope, receive, send)
        except Problem as wrong:
            await wrong.response()(scope, receive, send)

    # -- queries ------------------------------------------------------------------------------------------------------

    async def _query(self, asked: Asked, scope: Scope, receive: Receive, send: Send) -> None:
        require_read(Request(scope), self.config)
        ends = time.monotonic() + min(asked.seconds or self.config.deadline, self.config.deadline)
        if len(asked.query) > LONGEST_READ and not self.calling.outgoing.allow:
            # Reading it here would keep others waiting: its worker does, and nothing is known of what it depends on.
            await self._run(asked, _Unsteady(), ends, scope, receive, send, admitted=False)
            return
        reading = self._reading(asked)
        name = asked.formats.get(reading.kind)
        if name is None or not results.BY_NAME[name].writes(reading.kind):
            available = list(results.media_types(reading.kind))
            detail = f"The answer to this query is {reading.kind}: ask for one of {', '.join(available)}."
            raise Problem(406, "not-acceptable", detail, available=available)
        if asked.least is not None:
            await self._reach(asked.least, ends)
        if reading.footprint.services:
            asked, silenced = await self.calling.without_service(asked, ends, client_of(Request(scope)))
            await self._run(asked, _Unsteady(), ends, scope, receive, marked(send, silenced))
            return
        if asked.epoch is not None:
            await self._pinned(asked, reading, asked.epoch, name, ends, scope, receive, send)
            return
        if not reading.steady:
            await self._run(asked, _Unsteady(), ends, scope, receive, send)
            return
        digest = self._digest(asked)
        key: Hashable = (digest, asked.default_graphs, asked.named_graphs, name)
        if await self._known(asked, reading, digest, key, name, scope, send):
            return
        first = False
        for _ in range(ROUNDS):
            flight = self.flights.join(key)
            first = flight is None
            if flight is None:
                break
            failed = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, ends - time.monotonic())):
                    failed = await asyncio.shield(flight)
            if await self._known(asked, reading, digest, key, name, scope, send):
                return
            if not failed:
                break
        marking = _Steady(self, asked, reading, digest, key, name, first=first)
        try:
            await self._run(asked, marking, ends, scope, receive, send)
        finally:
            if first:
                self.flights.land(key, failed=True)

    def _reading(self, asked: Asked) -> Reading:
        try:
            return self.readings.of(asked.query)
        except SyntaxProblem as wrong:
            raise Problem(
                400, "query-error", wrong.message, line=wrong.line, column=wrong.column, token=wrong.token
            ) from wrong

    async def _known(
        self, asked: Asked, reading: Reading, digest: str, key: Hashable, name: str, scope: Scope, send: Send
    ) -> bool:
        """Whether the request was answered by what is known to hold at the newest commit: a 304 or a kept answer."""
        fresh = self.fresh
        head = read_head(self.config.state)
        if fresh.at < head and not await self.following.reach(head, FOLLOW_SECONDS):
            return False
        epoch, time_ = fresh.stand
        if not time_ and epoch:
            return False  # only a worker knows when that commit was
        validator = reading.touched(fresh, asked.default_graphs, asked.named_graphs)
        tag = f"{validator:x}-{digest}-{name}"
        held = self._held(asked, tag)
        if held is not None:
            headers = answers.unchanged(held, answers.NO_CACHE, epoch, time_)
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return True
        kept = self.cache.get(key, validator)
        if kept is None:
            return False
        headers, body = answers.kept_response(kept, asked, tag, epoch, time_, self.sizes.compress_from)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})
        return True

    def _held(self, asked: Asked, tag: str) -> bytes | None:
        """The entity tag of what the client has, when that is the answer in a coding it takes."""
        if asked.none_match is None or not asked.safe:
            return None
        # A small body is sent as it is whatever is taken, so its tag may come back with any Accept-Encoding.
        codings = {*asked.codings, negotiate.IDENTITY}
        tags = {answers.etag(tag, coding).decode().strip('"') for coding in codings}
        found = negotiate.matches(asked.none_match, sorted(tags))
        return None if found is None else f'"{found}"'.encode()

    async def _pinned(
        self,
        asked: Asked,
        reading: Reading,
        epoch: int,
        name: str,
        ends: float,
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """The answer as it was at one commit: that never changes, while it can be had."""
        tag = f"e{epoch:x}-{self._digest(asked)}-{name}" if reading.steady else None
        held = self._held(asked, tag) if tag is not None else None
        if held is not None:
            headers = [(b"etag", held), answers.PINNED, answers.VARY, (b"x-graphtide-epoch", b"%d" % epoch)]
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._run(asked, _Pinned(tag), ends, scope, receive, send)

    async def _reach(self, commit: int, ends: float) -> None:
        """Commit `commit` is there. Raises Problem 503 when it did not come in time."""
        until = min(ends, time.monotonic() + LEAST_SECONDS)
        while (head := read_head(self.config.state)) < commit:
            if time.monotonic() >= until:
                raise of_query(EpochAhead(commit, head), least=True)
            await asyncio.sleep(0.01)

    async def _run(
        self,
        asked: Asked,
        marking: answers.Marking,
        ends: float,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        admitted: bool = True,
    ) -> None:
        call = self.serving.pool.call(
            asked.query,
            format=asked.formats,
            deadline=max(0.0, ends - time.monotonic()),
            default_graphs=asked.default_graphs,
            named_graphs=asked.named_graphs,
            client=client_of(Request(scope)),
            epoch=asked.epoch,
            least=asked.least,
            admitted=admitted,
        )
        await AnswerResponse(call, asked, self.sizes, marking)(scope, receive, send)

    def _digest(self, asked: Asked) -> str:
        text = "\x00".join((self.fresh.line, asked.query, *asked.default_graphs, "", *asked.named_graphs))
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=9, key=self._salt).hexdigest()

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _describe(self, asked: Nothing, request: Request) -> Response:
        """What this is: a page for a person, the service description for a program."""
        if _wants_page(asked.accept):
            return RedirectResponse(f"{request.scope.get('root_path', '')}/", 303, headers={"Vary": "Accept"})
        return await describing.service_description(self.serving, request)


class _Unsteady:
    """The same graph may answer otherwise the next time: nothing is kept, here or anywhere."""

    async def mark(self, _: Answer) -> tuple[tuple[bytes, bytes], str | None]:
        return answers.NO_STORE, None

    def keep(self, answer: Answer, body: bytes | None) -> None:
        pass


class _Pinned:
    """The answer at one commit, which stays as it is."""

    def __init__(self, tag: str | None) -> None:
        self.tag = tag

    async def mark(self, _: Answer) -> tuple[tuple[bytes, bytes], str | None]:
        return (answers.NO_STORE, None) if self.tag is None else (answers.PINNED, self.tag)

    def keep(self, answer: Answer, body: bytes | None) -> None:
        pass


class _Steady:
    """The answer holds until a commit touches what it read."""

    def __init__(
        self,
        endpoint: SparqlEndpoint,
        asked: Asked,
        reading: Reading,
        digest: str,
        key: Hashable,
        name: str,
        *,
        first: bool,
    ) -> None:
        self.endpoint, self.asked, self.reading = endpoint, asked, reading
        self.digest, self.key, self.name, self.first = digest, key, name, first
        self.validator: int | None = None

    async def mark(self, answer: Answer) -> tuple[tuple[bytes, bytes], str | None]:
        fresh = self.endpoint.fresh
        validator = answer.epoch
        fresh.learn(answer.epoch, answer.commit_time)
        if fresh.at >= answer.epoch or await self.endpoint.following.reach(answer.epoch, FOLLOW_SECONDS):
            found = self.reading.touched(fresh, self.asked.default_graphs, self.asked.named_graphs)
            if found <= answer.epoch:
                validator = self.validator = found
        # Touched since, or not known: its own commit is a tag that no later answer has, unless it is the same.
        return answers.NO_CACHE, f"{validator:x}-{self.digest}-{self.name}"

    def keep(self, answer: Answer, body: bytes | None) -> None:
        if body is not None and self.validator is not None:
            kept = Kept(self.validator, answer.kind, answer.format, answer.content_type, body)
            self.endpoint.cache.put(self.key, kept, self.asked.query)
        if self.first:
            self.endpoint.flights.land(self.key)


def _wants_page(accept: str | None) -> bool:
    """Whether HTML is asked for by name, and nothing more."""
    first = (accept or "").partition(",")[0].partition(";")[0].strip().lower()
    return first in ("text/html", "application/xhtml+xml")


__all__ = ["SparqlEndpoint", "routes"]
