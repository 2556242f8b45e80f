"""One engine owns the store of one folder: whatever changes the graph passes through it, one request at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Emit = Callable[[dict[str, Any]], None]


class EngineError(ValueError):
    """A request that cannot be done as asked; `str()` says what to ask instead."""


class Engine:
    """The project in a folder with its store open, as its only writer, until `close`. Any thread may call it."""

    def __init__(self, dir: Path | str, *, holder: str = "graphtide", lock_seconds: float | None = None) -> None:
        """Raises SettingsError, StoreBusy (after `lock_seconds`), StoreTooNew, WrongBase."""
        self.lock = threading.RLock()
        raise NotImplementedError

    def sync(
        self, sources: Iterable[str] | None = None, *, allow_deletes: bool = False, emit: Emit | None = None
    ) -> list[Any]:
        """SyncReports, one a source. A source that fails is held and says so in its report; the others go on."""
        raise NotImplementedError

    def sync_scopes(self, scopes: Iterable[tuple[str, str, bool]], *, emit: Emit | None = None) -> list[Any]:
        """(source, scope, deleted by an event): these scopes as they are now, in one commit."""
        raise NotImplementedError

    def commit(self, batch: dict[str, Any], *, emit: Emit | None = None) -> Any:
        """A batch a client made: {source, scope, records: [{key, data, locator}], gone, complete, cursor}."""
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        raise NotImplementedError

    def violations(self, source: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
        raise NotImplementedError

    def changes(self, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
        raise NotImplementedError

    def verify(self, *, repair: bool = False) -> Any:
        raise NotImplementedError

    def forget(self, source: str) -> Any:
        raise NotImplementedError

    def rename(self, old: str, new: str) -> Any:
        raise NotImplementedError

    def erase(self, what: str) -> Any:
        raise NotImplementedError

    def export(self, format: str, path: Path | str) -> Path:
        raise NotImplementedError

    def backup(self, dest: Path | str) -> Path:
        raise NotImplementedError

    def reload(self) -> dict[str, Any]:
        """{"changed": [...], "added": [...], "orphaned": [...]}. Raises SettingsError: the old stay in force."""
        raise NotImplementedError

    def checkpoint(self) -> int:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError
