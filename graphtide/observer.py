"""Where the system has no inotify, watchdog hears what changed."""

from __future__ import annotations

import os
from typing import Any

from watchdog.events import FileSystemEvent, FileSystemEventHandler
from watchdog.observers import Observer

from .tree import Root, Tell


def observe(roots: list[Root], tell: Tell) -> Any:
    """A running watchdog observer of the roots that exist; what it hears is told as a tree would."""
    observer = Observer()
    for root in roots:
        if os.path.isdir(root.path):
            for folder, _, names in os.walk(root.path):
                for name in names:
                    tell("found", os.path.join(folder, name))
                if not root.deep:
                    break
            observer.schedule(_Handler(tell), root.path, recursive=root.deep)
    observer.start()
    return observer


class _Handler(FileSystemEventHandler):
    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def on_any_event(self, event: FileSystemEvent) -> None:
        source, target = os.fsdecode(event.src_path), os.fsdecode(event.dest_path)
        if event.is_directory:
            if event.event_type in ("moved", "deleted", "created"):
                self._tell("lost", source)
        elif event.event_type == "moved":
            self._tell("gone", source)
            self._tell("moved", target)
        elif event.event_type == "deleted":
            self._tell("gone", source)
        elif event.event_type == "closed":
            self._tell("closed", source)
        elif event.event_type in ("created", "modified"):
            self._tell("touched", source)
