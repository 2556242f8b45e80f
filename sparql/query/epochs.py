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

    The files stay when the process ends: so does what they hold, until their time is over.
    """

    def __init__(self, state: Path, seconds: float = checkpoint.LEASE_SECONDS, most: int = 1000) -> None:
        self.state, self.seconds, self.most = state, seconds, most
        self._lock = threading.Lock()
        self._held: dict[int, tuple[Path, float]] = {}

    def hold(self, commit: int) -> None:
        """What is needed for the graph at `commit`, if it is there now, is not pruned. Raises PoolBusy, OSError."""
        now = time.time()
        with self._lock:
            path, until = self._held.get(commit, (None, 0.0))
            if until - now > self.seconds - RENEW_SECONDS:
                return
            if path is None:
                for old in [each for each, (_, ends) in self._held.items() if ends < now]:
                    del self._held[old]
                if len(self._held) >= self.most:
                    soonest = min(ends for _, ends in self._held.values()) - now
                    raise PoolBusy(
                        f"{len(self._held)} earlier epochs are held already. Ask without an epoch, or later.",
                        "epochs",
                        max(1.0, soonest),
                    )
            until = now + self.seconds
            try:
                if path is None:
                    raise FileNotFoundError
                os.utime(path, (until, until))
            except FileNotFoundError:  # never made, or ended and swept
                path = checkpoint.lease(self.state, commit, self.seconds)
            self._held[commit] = (path, until)
