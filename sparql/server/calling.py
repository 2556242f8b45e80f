"""The endpoints a query names are asked here, off the event loop and within its deadline; a worker runs the rest."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyoxigraph as ox
from starlette.types import Message, Send

from sparql.names import Names
from sparql.outgoing import Outgoing
from sparql.place import place as place_of
from sparql.query import results
from sparql.query.admit import Refused, admit
from sparql.query.failures import QueryFailed, QueryTimeout
from sparql.query.federation import FederationFailed, FederationRefused, Limits, federated
from sparql.server.problem import Problem, of_query
from sparql.server.protocol import Asked
from sparql.server.serving import Serving
from sparql.syntax import place, services, text

NEXT = "Bring that data in as a source, or add it to `service_allow` under [server] in graphtide.toml."

MOST_RUNNING, MOST_OF_CLIENT = 16, 4


class Calling:
    """What SERVICE of a query may ask, and how much of it."""

    def __init__(self, serving: Serving) -> None:
        config = serving.config
        self.serving = serving
        self.outgoing = Outgoing(
            config.service_allow,
            allow_private=config.allow_private,
            max_bytes=config.service_bytes,
            seconds=config.service_seconds,
        )
        self.limits = Limits(config.service_calls, config.service_rows, config.service_bytes, config.service_seconds)
        self.skolem = Names(config.base).skolem
        self.running: Counter[str] = Counter()

    async def without_service(self, asked: Asked, ends: float, client: str) -> tuple[Asked, tuple[str, ...]]:
        """The query with the solutions of its endpoints in it, at the epoch they were asked for.

        With it come the endpoints that failed and were to do so in silence. Raises Problem: 403 for what is not
        allowed, 502 when an endpoint failed, 429 when too many ask others, and what the query itself may fail of.
        """
        tree = self._tree(asked.query)
        found = services(tree)
        if not found:
            return asked, ()
        if not self.outgoing.allow:
            raise _refused(
                f"SERVICE is not allowed: it sends parts of the graph elsewhere. {NEXT}", asked, found[0].span
            )
        ours = _Ours(self.serving, asked, ends, client)
        work: Callable[[], Any] = lambda: federated(  # noqa: E731 - it is run in a thread
            tree, self.outgoing, ours, skolem=self.skolem, limits=self.limits, ends=ends
        )
        self._enter(client)
        outcome = "failed"
        try:
            done = await asyncio.get_running_loop().run_in_executor(self.serving.threads, work)
            outcome = "silenced" if done.silenced else "answered"
        except FederationRefused as no:
            outcome = "refused"
            raise _refused(str(no), asked, no.span) from no
        except FederationFailed as failed:
            if time.monotonic() >= ends:
                raise Problem(504, "query-timeout", f"The deadline came while {failed.endpoint} was asked.") from failed
            raise Problem(502, "service-failed", str(failed), endpoint=failed.endpoint) from failed
        except QueryFailed as wrong:
            raise of_query(wrong) from wrong
        finally:
            self.running[client] -= 1
            self.running += Counter()  # without those that have none
            self.serving.metrics.service_calls.labels(outcome).inc()
        return replace(asked, query=text(done.query), epoch=ours.epoch), done.silenced

    def _enter(self, client: str) -> None:
        """One more asks others. Raises Problem 429: whoever waits for a slow endpoint holds a thread meanwhile."""
        if self.running.total() >= MOST_RUNNING or self.running[client] >= MOST_OF_CLIENT:
            whose = f"{self.running[client]} of yours" if self.running[client] else f"{self.running.total()}"
            raise Problem(
                429,
                "too-many-services",
                f"As many queries as may ask other endpoints now, {whose} among them. Try again in a moment.",
                headers={"Retry-After": "2"},
            )
        self.running[client] += 1

    def _tree(self, query: str) -> Any:
        config = self.serving.config
        try:
            return admit(query, self.serving.prefixes, config.base, calls_out=True)
        except Refused as wrong:
            raise Problem(400, "query-error", wrong.message, line=wrong.line, column=wrong.column) from wrong


class _Ours:
    """Answers SELECT over our own graph, always at one epoch."""

    def __init__(self, serving: Serving, asked: Asked, ends: float, client: str | None) -> None:
        self.serving, self.asked, self.ends, self.client = serving, asked, ends, client
        self.epoch = asked.epoch

    def __call__(self, query: str) -> list[dict[str, Any]]:
        left = self.ends - time.monotonic()
        if left <= 0:
            raise QueryTimeout("The query was stopped at its deadline, while it asked other endpoints.")
        answer = self.serving.pool.run(
            query,
            format=results.named("json"),
            deadline=left,
            default_graphs=self.asked.default_graphs,
            named_graphs=self.asked.named_graphs,
            client=self.client,
            epoch=self.epoch,
            least=self.asked.least,
        )
        body = answer.read()
        self.epoch = answer.epoch
        found = ox.parse_query_results(body, format=ox.QueryResultsFormat.JSON)
        assert isinstance(found, ox.QuerySolutions)
        names = [variable.value for variable in found.variables]
        return [{name: row[name] for name in names if row[name] is not None} for row in found]


def marked(send: Send, silenced: tuple[str, ...]) -> Send:
    """`send`, with a header that names the endpoints an answer goes on without."""
    if not silenced:
        return send
    value = ", ".join(str(place_of(endpoint)) for endpoint in silenced)[:4000].encode("ascii", "replace")

    async def marking(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (b"x-graphtide-silenced", value)]
        await send(message)

    return marking


def _refused(why: str, asked: Asked, span: tuple[int, int]) -> Problem:
    line, column = place(asked.query, span[0])[:2]
    return Problem(403, "service-refused", why, line=line, column=column, token="SERVICE")
