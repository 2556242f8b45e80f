"""What the endpoints of one server share: the pool that reads, the writer that writes, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sparql.client import WriterClient, WriterGone, WriterRefused
from sparql.query.pool import Pool
from sparql.server.config import ServerConfig
from sparql.server.metrics import Metrics
from sparql.server.problem import Problem

T = TypeVar("T")
PREFIXES = {
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "sh": "http://www.w3.org/ns/shacl#",
    "prov": "http://www.w3.org/ns/prov#",
    "gt": "https://w3id.org/graphtide/ns#",
}


class Serving:
    """One graph being served. What an endpoint keeps for itself starts and ends with `lifespan`."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self.prefixes = {**PREFIXES, **config.prefixes}
        self.client = WriterClient(config.state)
        self.pool = Pool(
            config.state,
            config.base,
            workers=config.workers,
            spares=config.spares,
            queue=config.queue,
            deadline=config.deadline,
            memory_bytes=config.memory_bytes,
            warm_bytes=config.warm_bytes,
            max_rows=config.max_rows,
            max_bytes=config.max_answer_bytes,
            pinned=config.pinned_workers,
            per_client=config.per_client,
            ahead_seconds=config.epoch_seconds,
            prefixes=self.prefixes,
        )
        self.metrics = Metrics(self.pool, config.state)
        self.draining = False
        """The server is about to stop: it takes nothing new, and `/ready` says so."""
        # A query holds a thread while it waits for its turn or for its next bytes.
        self.threads = ThreadPoolExecutor(config.workers + config.queue + 8, thread_name_prefix="graphtide-query")
        self.writers = ThreadPoolExecutor(16, thread_name_prefix="graphtide-writer")
        # An update waits for those before it: they hold up no other call to the writer.
        self.updates = ThreadPoolExecutor(16, thread_name_prefix="graphtide-update")
        self.sparql: Any = None
        """The endpoint at `/sparql`, which others ask too: what it knows of freshness there is once."""
        self._starts: list[Callable[[], contextlib.AbstractAsyncContextManager[Any]]] = []

    def on_start(self, start: Callable[[], contextlib.AbstractAsyncContextManager[Any]]) -> None:
        """`start()` is entered when the server starts and left when it stops, the last first."""
        self._starts.append(start)

    @contextlib.asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        """The pool runs inside, and so does all that was told to `on_start`."""
        self.pool.start()
        try:
            async with contextlib.AsyncExitStack() as stack:
                for start in self._starts:
                    await stack.enter_async_context(start())
                yield
        finally:
            await asyncio.get_running_loop().run_in_executor(None, self.pool.close)
            self.threads.shutdown(wait=False, cancel_futures=True)
            self.writers.shutdown(wait=False, cancel_futures=True)
            self.updates.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[[], T]) -> T:
        """`work` is done, off the event loop, among the calls to the writer."""
        return await asyncio.get_running_loop().run_in_executor(self.writers, work)

    async def ask_writer(self, do: str, *, silence: float = 120.0, **ask: Any) -> dict[str, Any]:
        """The writer's answer. Raises Problem: 503 when there is none, 409 with its own code when it refused."""
        try:
            return await self.in_thread(lambda: self.client.call(do, silence=silence, **ask))
        except WriterGone as gone:
            raise Problem(503, "writer-gone", str(gone), headers={"Retry-After": "2"}) from gone
        except WriterRefused as no:
            raise Problem(409, no.code, no.message) from no
