"""What the store may use of time and disk before it stops, waits or forgets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Seconds, bytes, days and counts; the settings of the same names override them."""

    lock_seconds: float = 30.0
    checkpoint_seconds: float = 30.0
    min_free_bytes: int = 256 * 2**20
    history_days: float = 30.0
    history_bytes: int = 2 * 2**30
    keep_newest: int = 8
