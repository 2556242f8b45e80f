"""A backup is put back as a new commit: ids only grow, so that every replica notices."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

import pyoxigraph

from sparql import checkpoint as checkpoints
from sparql import durable
from sparql.checkpoint import Checkpoint
from sparql.log import last_logged, read_head
from sparql.names import Names

from . import layout
from .embedded import Store
from .errors import StoreError, StoreTooNew, WrongBase
from .layout import Layout
from .limits import Limits
from .lock import Lock


def restore(src: Path, state: Path, *, limits: Limits | None = None, holder: str = "graphtide restore") -> Checkpoint:
    """The store in `state` is what `backup` wrote to `src`, as a new commit; what it was before is gone.

    Raises StoreBusy, WrongBase when the two are of different bases, StoreTooNew, StoreError when `src` is no backup.
    """
    state, limits = Path(state).absolute(), limits or Limits()
    found, about = layout.read(src), checkpoints.load(src)
    if found is None or about is None:
        raise StoreError(f"{src} is no backup: {layout.ABOUT} or {checkpoints.ABOUT} is not in it.")
    if found.format > layout.FORMAT:
        raise StoreTooNew(layout.too_new(src, found.format))
    state.mkdir(parents=True, exist_ok=True)
    lock = Lock(state, holder, limits.lock_seconds)
    try:
        now = None
        with suppress(StoreError):  # damaged: that is why it is restored
            now = layout.read(state)
        if now is not None and now.base != found.base:
            raise WrongBase(layout.wrong_base(src, found.base, now.base))
        names = Names(found.base)
        commit = max(about.commit, read_head(state), last_logged(state)) + 1
        data = layout.new_data(state)
        shutil.copytree(about.data, state / data)
        fresh = pyoxigraph.Store(str(state / data))
        layout.stand_at(fresh, names, commit)
        fresh.flush()
        del fresh
        durable.sync_tree(state / data)
        durable.sync_folder(state)
        durable.reach("restore.made")
        Layout(found.format, found.base, data, commit).write(state)
        durable.reach("restore.decided")
        with Store(state, found.base, limits, lock):
            newest = checkpoints.newest(state)
    finally:
        lock.release()
    assert newest is not None
    return newest
