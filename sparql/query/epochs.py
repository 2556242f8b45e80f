"""A commit that somebody reads at is held for a while, on disk, so that neither pruning nor a restart takes it away."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from sparql import checkpoint
from sparql.query.failures import PoolBusy

# A lease that was renewed so recently is not renewed: it ends that much earlier.
RENEW_SECONDS = 5.0


class Leases:
    """The commits that one pool holds, at most `most` at a time, each until `seconds` after its last `hold`.

    One client was the first to ask for at most a quarter of them. The files stay when the process ends: so does what
    they hold, until their time is over.
    """

    def __init__(self, state: Path, seconds: float = checkpoint.LEASE_SECONDS, most: int = 1000) -> None:
        self.state, self.seconds, self.most = state, seconds, most
        self._lock = threading.Lock()
        self._held: dict[int, tuple[Path, float, str | None]] = {}

    def hold(self, commit: int, client: str | None = None) -> None:
        """What is needed for the graph at `commit`, if it is there now, is not pruned. Raises PoolBusy, OSError."""
        now = time.time()
        with self._lock:
            path, until, first = self._held.get(commit, (None, 0.0, client))
            if until - now > self.seconds - RENEW_SECONDS:
                return
            if path is None:
                for old in [each for each, (_, ends, _) in self._held.items() if ends < now]:
                    del self._held[old]
                self._make_room(client, now)
            until = now + self.seconds
            try:
                if path is None:
                    raise FileNotFoundError
                os.utime(path, (until, until))
            except FileNotFoundError:  # never made, or ended and swept
                path = checkpoint.lease(self.state, commit, self.seconds)
            self._held[commit] = (path, until, first)

    def drop(self, commit: int) -> None:
        """The commit, which turned out to be gone, is not held."""
        with self._lock:
            path, *_ = self._held.pop(commit, (None,))
        if path is not None:
            path.unlink(missing_ok=True)

    def _make_room(self, client: str | None, now: float) -> None:
        mine = [ends for _, ends, first in self._held.values() if first == client and client is not None]
        for held, most in ((mine, max(1, self.most // 4)), ([ends for _, ends, _ in self._held.values()], self.most)):
            if len(held) >= most:
                raise PoolBusy(
                    f"{len(held)} earlier epochs are held already. Ask without an epoch, or later.",
                    "epochs",
                    max(1.0, min(held) - now),
                )
