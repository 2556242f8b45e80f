"""Whose turn it is depends on who has had least: one client's thousand queries wait behind another's first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparql.query.call import Call
    from sparql.query.process import Worker


class Waiter:
    """A query's place in the queue. With the pool's lock held, `settle` gives it a worker or a reason to go."""

    def __init__(self, call: Call) -> None:
        self.call, self.client = call, call.client
        self.worker: Worker | None = None
        self.failure: Exception | None = None
        self.settled = False
        self._wake: Callable[[], object] | None = None

    def settle(self, worker: Worker | None = None, failure: Exception | None = None) -> None:
        """It waits no more."""
        self.worker, self.failure, self.settled = worker, failure, True
        if self._wake is not None:
            self._wake()

    def on_settled(self, wake: Callable[[], object]) -> None:
        """`wake` is called once it is settled, from whatever thread; at once when it is."""
        self._wake = wake
        if self.settled:
            wake()


class Turns:
    """Those who wait. Next is the first of the client with the fewest running, and among these whoever waited longest.

    Queries without a client are one client's.
    """

    def __init__(self) -> None:
        self._queues: dict[str | None, deque[Waiter]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Waiter]:
        for queue in list(self._queues.values()):
            yield from list(queue)

    def of(self, client: str | None) -> int:
        """How many of this client's wait."""
        return len(self._queues.get(client, ()))

    def put(self, waiter: Waiter) -> None:
        """It waits, behind its client's others."""
        self._queues.setdefault(waiter.client, deque()).append(waiter)
        self._length += 1

    def fewest(self, running: Mapping[str | None, int]) -> int:
        """How many run of the client whose turn it is."""
        return min((running.get(each, 0) for each in self._queues), default=0)

    def next(self, running: Mapping[str | None, int]) -> Waiter | None:
        """The one whose turn it is, who does not wait any more; `running` has each client's queries."""
        if not self._queues:
            return None
        client = min(self._queues, key=lambda each: running.get(each, 0))  # the first of equals
        queue = self._queues.pop(client)
        found = queue.popleft()
        self._length -= 1
        if queue:
            self._queues[client] = queue  # behind the others
        return found

    def remove(self, waiter: Waiter) -> bool:
        """It waits no more, if it did."""
        queue = self._queues.get(waiter.client)
        if queue is None or waiter not in queue:
            return False
        queue.remove(waiter)
        self._length -= 1
        if not queue:
            del self._queues[waiter.client]
        return True
