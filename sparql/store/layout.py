"""`store.json` decides which folder holds the graph: replacing it replaces the whole store at once.

A state folder (`.graphtide/`) holds

    lock  head  store.json           who writes; the published commit; format, base, data folder, where the log starts
    data-1/                          the store's files, RocksDB's
    log/  checkpoints/  leases/      history
    stage/  trash/                   of this process only; emptied when the store is opened
"""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from ontology.facts import GT, XSD
from sparql import durable
from sparql.names import Names

from .errors import StoreError

FORMAT = 1
ABOUT = "store.json"
TRASH = "trash"
STAGE = "stage"

_DATA = re.compile(r"data-(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Layout:
    """What `store.json` says. The log has every commit after `log_from`."""

    format: int
    base: str
    data: str
    log_from: int

    def write(self, state: Path) -> None:
        """From now on this is the store, whatever happens."""
        durable.write_json(state / ABOUT, asdict(self))


def read(state: Path) -> Layout | None:
    """The layout of a state folder, None of a new one. Raises StoreError when the file is damaged."""
    path = state / ABOUT
    try:
        found = json.loads(path.read_text("utf-8"))
        return Layout(int(found["format"]), str(found["base"]), str(found["data"]), int(found["log_from"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as wrong:
        raise StoreError(f"{path} is damaged ({wrong}). Put it back from a backup: `graphtide restore`.") from wrong


def data_folders(state: Path) -> Iterator[tuple[int, Path]]:
    """Every data folder there is, also one being made."""
    for name in os.listdir(state):
        match = _DATA.match(name)
        if match:
            yield int(match.group(1)), state / name


def new_data(state: Path) -> str:
    """A name for a data folder that none has yet."""
    return f"data-{max((number for number, _ in data_folders(state)), default=0) + 1}"


def discard(state: Path, path: Path) -> None:
    """`path` is gone: at once under its own name, its bytes soon after."""
    trash = state / TRASH
    trash.mkdir(exist_ok=True)
    there = trash / uuid.uuid4().hex
    try:
        os.rename(path, there)
    except FileNotFoundError:
        return
    durable.reach("discard")
    shutil.rmtree(there, ignore_errors=True)


def own_statements(names: Names, commit: int, *, format: int = FORMAT) -> frozenset[str]:
    """What the store says about itself, in the cursor graph."""
    return frozenset({commit_statement(names, commit), *standing_statements(names, format)})


def standing_statements(names: Names, format: int) -> tuple[str, str]:
    """Format and base: they stay the same from commit to commit."""
    return (
        f'<{names.store}> <{GT}format> "{format}"^^<{XSD}integer>',
        f'<{names.store}> <{GT}base> "{names.base}"',
    )


def commit_statement(names: Names, commit: int) -> str:
    """The statement that says where the store stands."""
    return f'<{names.store}> <{GT}commit> "{commit}"^^<{XSD}integer>'
