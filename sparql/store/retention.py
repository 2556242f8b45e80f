"""History thins out with age: the newest checkpoints, one a minute, an hour, a day, within a budget of bytes."""

from __future__ import annotations

import os
import time as clock
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sparql import checkpoint as checkpoints
from sparql import durable, log
from sparql.checkpoint import Checkpoint

from .layout import discard
from .limits import Limits

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0


def kept(found: Sequence[Checkpoint], leased: Iterable[int], now: float, limits: Limits) -> list[Checkpoint]:
    """The checkpoints that age, count and leases keep, oldest first; the newest one always."""
    keep: dict[int, Checkpoint] = {}
    for one in found[-max(1, limits.keep_newest) :]:
        keep[one.commit] = one
    ages = ((MINUTE, HOUR), (HOUR, DAY), (DAY, limits.history_days * DAY))
    for step, reach in ages:
        taken: dict[int, Checkpoint] = {}
        for one in found:  # the oldest of each step: it is what a later run keeps too
            made = seconds(one.time)
            if now - made <= reach:
                taken.setdefault(int(made // step), one)
        keep.update((one.commit, one) for one in taken.values())
    keep.update((one.commit, one) for one in held(found, leased))
    return sorted(keep.values(), key=lambda one: one.commit)


def held(found: Sequence[Checkpoint], leased: Iterable[int]) -> list[Checkpoint]:
    """For each leased commit the newest checkpoint at or before it."""
    needed = []
    for commit in leased:
        before = [one for one in found if one.commit <= commit]
        if before:
            needed.append(before[-1])
    return needed


def prune(state: Path, data: Path, change_log: log.Log, limits: Limits) -> None:
    """What the limits do not keep is gone: checkpoints, and the log before the oldest that is left."""
    found = checkpoints.every(state)
    if not found:
        return
    leased = checkpoints.leased(state)
    keep = kept(found, leased, clock.time(), limits)
    safe = {one.commit for one in held(found, leased)} | {found[-1].commit}
    keep = within(keep, safe, data, change_log.path, limits.history_bytes)
    stay = {one.commit for one in keep}
    for one in found:
        if one.commit not in stay:
            durable.reach("prune.checkpoint")
            discard(state, one.path)
    change_log.prune(keep[0].commit)


def within(keep: list[Checkpoint], safe: set[int], data: Path, log_path: Path, most: int) -> list[Checkpoint]:
    """The newest of `keep` whose own bytes and whose log fit into `most`; those in `safe` whatever they take."""
    live = set(_files([data]))
    segments = log.segments(log_path)
    files = {one.commit: _files([one.data]) for one in keep}
    while len(keep) > 1:
        own = {inode: size for one in keep for inode, size in files[one.commit].items() if inode not in live}
        after = keep[0].commit + 1
        needed = [path for (_, path), (following, _) in zip(segments, segments[1:], strict=False) if following > after]
        total = sum(own.values()) + sum(_size(path) for path in needed)
        droppable = [one for one in keep[:-1] if one.commit not in safe]
        if total <= most or not droppable:
            break
        keep = [one for one in keep if one is not droppable[0]]
    return keep


def _files(folders: Iterable[Path]) -> dict[int, int]:
    found = {}
    for folder in folders:
        try:
            for item in os.scandir(folder):
                about = item.stat()
                found[about.st_ino] = about.st_size
        except FileNotFoundError:
            continue
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def seconds(time: str) -> float:
    """An ISO time in UTC as seconds since 1970."""
    return datetime.fromisoformat(time.replace("Z", "+00:00")).replace(tzinfo=UTC).timestamp()
