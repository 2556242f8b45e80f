"""RocksDB's write-ahead logs are synced by us: pyoxigraph writes them and syncs nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from sparql import durable


class Wal:
    """The write-ahead logs of the store in one data folder."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._open: dict[str, tuple[int, int]] = {}  # name -> descriptor, size on disk

    def sync(self) -> None:
        """What was written to the store is on disk."""
        found = {}
        for item in os.scandir(self._data):
            if item.name.endswith(".log"):
                with suppress(FileNotFoundError):  # flushed into a data file meanwhile, which RocksDB syncs
                    found[item.name] = self._sync(item.name)
        for name in self._open.keys() - found.keys():
            os.close(self._open[name][0])
        if found.keys() - self._open.keys():
            durable.sync_folder(self._data)
        self._open = found

    def manifest(self) -> int:
        """Bytes of RocksDB's list of its files, which only opening the store shortens."""
        return sum(item.stat().st_size for item in os.scandir(self._data) if item.name.startswith("MANIFEST"))

    def _sync(self, name: str) -> tuple[int, int]:
        path = self._data / name
        fd, synced = self._open.get(name, (-1, -1))
        if fd < 0:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        size = os.fstat(fd).st_size
        if size != synced:
            durable.sync_data(fd, path)
        return fd, size

    def close(self) -> None:
        for fd, _ in self._open.values():
            os.close(fd)
        self._open = {}
