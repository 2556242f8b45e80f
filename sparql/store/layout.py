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

import pyoxigraph
from pyoxigraph import Literal, NamedNode

from ontology.facts import GT, XSD
from sparql import checkpoint as checkpoints
from sparql import durable
from sparql.log import Change, last_logged
from sparql.names import Names

from .errors import StoreError, StoreTooNew, WrongBase

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


def own_statements(names: Names, commit: int) -> frozenset[str]:
    """What the store says about itself, in the cursor graph."""
    return frozenset(
        {
            commit_statement(names, commit),
            f'<{names.store}> <{GT}format> "{FORMAT}"^^<{XSD}integer>',
            f'<{names.store}> <{GT}base> "{names.base}"',
        }
    )


def commit_statement(names: Names, commit: int) -> str:
    """The statement that says where the store stands."""
    return f'<{names.store}> <{GT}commit> "{commit}"^^<{XSD}integer>'


def settle(state: Path, base: str) -> Layout:
    """The layout of the store, made now when there is none."""
    if not base or base[-1] not in "/#":
        raise WrongBase(f"{base!r} cannot be a base: it must be an absolute IRI that ends in '/' or '#'.")
    found = read(state)
    if found is None:
        if last_logged(state) or any(one.commit for one in checkpoints.every(state)):
            raise StoreError(f"{state / ABOUT} is missing, but there is a log or a checkpoint. Restore a backup.")
        return _make(state, base)
    if found.format > FORMAT:
        raise StoreTooNew(too_new(state, found.format))
    if found.base != base:
        raise WrongBase(wrong_base(state, found.base, base))
    if not (state / found.data).is_dir():
        raise StoreError(f"{state / found.data}, the graph's files, is missing. Restore a backup: `graphtide restore`.")
    return found


def _make(state: Path, base: str) -> Layout:
    for _, path in data_folders(state):
        discard(state, path)
    made = Layout(FORMAT, base, new_data(state), 0)
    fresh = pyoxigraph.Store(str(state / made.data))
    names = Names(base)
    Change(added={names.cursor: own_statements(names, 0)}).apply(fresh)
    fresh.flush()
    del fresh
    durable.sync_tree(state / made.data)
    durable.sync_folder(state)
    durable.reach("open.made")
    made.write(state)
    return made


def stand_at(store: pyoxigraph.Store, names: Names, commit: int) -> None:
    """The store says of itself that it stands at `commit`, and nothing else about format and base than is true."""
    old = frozenset(
        f"{q.subject} {q.predicate} {q.object}"
        for q in store.quads_for_pattern(NamedNode(names.store), None, None, NamedNode(names.cursor))
        if q.predicate.value in (GT + "commit", GT + "format", GT + "base")
    )
    Change({names.cursor: old}, {names.cursor: own_statements(names, commit)}).apply(store)


def stands_at(store: pyoxigraph.Store, names: Names) -> int:
    """The commit the store says it stands at. Raises WrongBase when it says so under another base, StoreError."""
    found = _values(store, NamedNode(GT + "commit"), NamedNode(names.cursor))
    if len(found) == 1:
        return int(found[0])
    for base in _values(store, NamedNode(GT + "base"), None):
        if base != names.base:
            raise WrongBase(wrong_base("The store", base, names.base))
    raise StoreError(f"The store says {found} about its commit in {names.cursor}. Restore a backup.")


def _values(store: pyoxigraph.Store, predicate: NamedNode, where: NamedNode | None) -> list[str]:
    found = (quad.object for quad in store.quads_for_pattern(None, predicate, None, where))
    return [one.value for one in found if isinstance(one, Literal)]


def too_new(path: Path, format: int) -> str:
    return (
        f"{path} has store format {format}; this Graphtide knows formats up to {FORMAT}. "
        "Use the newer Graphtide, or restore a backup made before it migrated (.graphtide/backups)."
    )


def wrong_base(path: Path | str, theirs: str, ours: str) -> str:
    return (
        f"{path} was made with base {theirs!r}, the settings say {ours!r}. Every IRI in it is under its base: "
        f"write base = {theirs!r}, or move the store away and load again."
    )
