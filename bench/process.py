"""Times a whole process and the memory of all it starts, as a user would see them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class Run:
    """Seconds of wall clock, bytes at the peak summed over the process tree, and what it printed."""

    seconds: float
    peak_bytes: int
    output: str


def run(command: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: Path | None = None) -> Run:
    """Run to the end. Raises RuntimeError with the output when it fails."""
    start = time.perf_counter()
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, env={**os.environ, **(env or {})}
    )
    peak = 0

    def watch() -> None:
        nonlocal peak
        while child.poll() is None:
            peak = max(peak, memory(child.pid))
            time.sleep(0.02)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    output, _ = child.communicate()
    seconds = time.perf_counter() - start
    watcher.join()
    if child.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {child.returncode}:\n{output}")
    return Run(seconds, peak, output)


def tree(pid: int) -> list[psutil.Process]:
    """The process and all below it that still live."""
    try:
        top = psutil.Process(pid)
        return [top, *top.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def memory(pid: int) -> int:
    """Resident bytes of the tree, shared pages counted once a process."""
    total = 0
    for one in tree(pid):
        try:
            total += one.memory_info().rss
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
    return total


def cpu_and_written(pid: int) -> tuple[float, int]:
    """CPU seconds and bytes written to disk by the tree so far."""
    seconds, written = 0.0, 0
    for one in tree(pid):
        try:
            times = one.cpu_times()
            seconds += times.user + times.system
            written += one.io_counters().write_bytes
        except (psutil.NoSuchProcess, psutil.ZombieProcess, psutil.AccessDenied):
            continue
    return seconds, written


def disk(folder: Path) -> int:
    """Bytes of the files below, each inode once: checkpoints share theirs with the store."""
    seen: dict[tuple[int, int], int] = {}
    for path in folder.rglob("*"):
        if path.is_file():
            stat = path.stat()
            seen[stat.st_dev, stat.st_ino] = stat.st_size
    return sum(seen.values())
