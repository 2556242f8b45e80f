"""How a call goes on is written once, as steps that say what they wait for; a thread or an event loop waits."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from sparql.query.turns import Waiter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wait:
    """Until `sock` can be read (or written), or `waiter` is settled, or `until` has come (as time.monotonic())."""

    until: float
    sock: socket.socket | None = None
    write: bool = False
    waiter: Waiter | None = None


Steps = Generator[Wait, None, T]


def in_thread(steps: Steps[T]) -> T:
    """What the steps come to, this thread waiting."""
    try:
        while True:
            wait = next(steps)
            left = max(0.0, wait.until - time.monotonic())
            if wait.sock is not None:
                poller = select.poll()
                poller.register(wait.sock, select.POLLOUT if wait.write else select.POLLIN)
                poller.poll(left * 1000)
            elif wait.waiter is not None:
                turn = threading.Event()
                wait.waiter.on_settled(turn.set)
                turn.wait(left)
            else:
                time.sleep(left)
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        steps.close()


async def in_loop(steps: Steps[T]) -> T:
    """What the steps come to, the running event loop waiting. Cancelling the task closes the steps."""
    try:
        while True:
            await _wait(next(steps))
    except StopIteration as end:
        found: T = end.value
        return found
    finally:
        steps.close()


async def _wait(wait: Wait) -> None:
    loop = asyncio.get_running_loop()
    if wait.sock is not None:
        # No timer: whoever ends the query hangs up the socket, which wakes this.
        ready = loop.create_future()
        add, remove = (loop.add_writer, loop.remove_writer) if wait.write else (loop.add_reader, loop.remove_reader)
        add(wait.sock, _set, ready)
        try:
            await ready
        finally:
            remove(wait.sock)
    elif wait.waiter is not None:
        turn = loop.create_future()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and with it whoever waited
                loop.call_soon_threadsafe(_set, turn)

        wait.waiter.on_settled(wake)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(turn, max(0.0, wait.until - time.monotonic()))
    else:
        await asyncio.sleep(max(0.0, wait.until - time.monotonic()))


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
