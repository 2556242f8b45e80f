"""The indexes of a state folder are kept by one process, which lives as long as a server does and is started again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

LEAST_SECONDS, MOST_SECONDS = 0.5, 30.0
STOP_SECONDS = 3.0
_SECRET = ("GRAPHTIDE_TOKEN", "OPENAI_", "GITHUB_TOKEN", "AWS_")


class IndexProcess:
    """The process, started in `running` and started again whenever it ends."""

    def __init__(self, state: Path, base: str) -> None:
        self.state, self.base = state, base
        self.pid: int | None = None
        self.starts = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, the process runs; after it, it does not."""
        task = asyncio.create_task(self._forever())
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _forever(self) -> None:
        pause = LEAST_SECONDS
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            with contextlib.suppress(OSError):
                await self._once()
            pause = LEAST_SECONDS if loop.time() - began > 60 else min(pause * 2, MOST_SECONDS)
            await asyncio.sleep(pause)

    async def _once(self) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_SECRET)}
        root = str(Path(__file__).resolve().parents[2])  # where this code is from, installed or not
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (root, environment.get("PYTHONPATH"))))
        # Its standard input is ours to close: when this process is gone, however it went, the index process ends.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "sparql.index",
            str(self.state),
            "--base",
            self.base,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self.pid, self.starts = process.pid, self.starts + 1
        try:
            await process.wait()
        finally:
            self.pid = None
            if process.returncode is None:
                assert process.stdin is not None
                process.stdin.close()
                try:
                    async with asyncio.timeout(STOP_SECONDS):
                        await process.wait()
                except TimeoutError:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()
                    await process.wait()
