"""Our rooms have plain top-level names, so at start each one checks that its files are ours and says who hides it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOMS = ("sources", "ontology", "transforms", "sparql")


class RoomShadowed(ImportError):
    """Another package is imported under the name of a room."""


def check() -> None:
    """Every room comes from where `graphtide` itself comes from. Raises RoomShadowed naming what hides it."""
    ours = Path(__file__).resolve().parent.parent
    for room in ROOMS:
        spec = importlib.util.find_spec(room)
        found = Path(spec.origin).resolve() if spec and spec.origin else None
        if found is None or found.parent.parent != ours:
            raise RoomShadowed(_message(room, found, ours))


def _message(room: str, found: Path | None, ours: Path) -> str:
    if found is None:
        return f"Graphtide's own package {room!r} is missing beside {ours / 'graphtide'}. Install graphtide again."
    from importlib.metadata import packages_distributions

    owners = [name for name in packages_distributions().get(room, []) if name != "graphtide"]
    who = f"the package {owners[0]!r}" if owners else "a folder on the Python path"
    todo = f"pip uninstall {owners[0]}" if owners else "unset PYTHONPATH, or start from another folder"
    return (
        f"Graphtide's {room!r} is hidden by {found.parent} ({who}). "
        f"Give Graphtide a virtual environment of its own, or: {todo}."
    )
