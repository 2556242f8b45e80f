"""A replica is a clone of a checkpoint that follows the change log: whole commits, and nobody else's files."""

from __future__ import annotations

import gc
import random
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

from pyoxigraph import NamedNode, Store

from sparql import checkpoint
from sparql.log import LogError, LogReader, earliest, read_head
from sparql.names import Names
from sparql.query.warm import Held

# How often it asks whether the checkpoint it was cloned from is still kept.
ORIGIN_SECONDS = 1.0
# An idle one begins again from a newer checkpoint this often, so that it shares its files and not only once did.
RENEW_SECONDS = 300.0
ATTEMPTS = 20


class CommitGone(LookupError):
    """The graph at that commit is not kept, or never was: `str()` says from where on it is."""


class Replica:
    """A private store at one commit. `epoch` is that commit and `time` when it was made ("" before the first)."""

    def __init__(
        self, state: Path, folder: Path, *, asked: str = "", pin: int | None = None, held: Held | None = None
    ) -> None:
        """`asked` is the base when what is asked of the replica are a user's queries: the system graphs of a plain
        store, which are not the user's, are not in it then. `pin` is the commit it stands at for good. `held` is the
        graph in memory to go on from: on disk it begins again only where the log does not lead on.

        Raises CommitGone when neither log nor checkpoints lead to that one.
        """
        self.state, self.folder, self._asked, self._pin = state, folder, asked, pin
        self.plain = False
        self._generation = 0
        self._origin: checkpoint.Checkpoint | None = None
        self._looked = 0.0
        self._cloned = 0.0
        self._log = LogReader(state, 0)
        self.epoch, self.time = 0, ""
        self.store: Store
        self._held = held is not None
        if pin is not None:
            self._go_to(pin)
            return
        if held is None:
            self._renew()
        else:
            self.store, self.epoch, self.time = held.store, held.epoch, held.time
            self._log = LogReader(self.state, self.epoch)
        self.advance()

    def kept(self) -> bool:
        """Whether what a pinned replica was made of is still there: else it shows what was to be forgotten."""
        if self._origin is None:
            return earliest(self.state) == 0
        return self._origin.path.exists()

    def advance(self, *, idle: bool = False, until: int | None = None) -> bool:
        """The replica stands at the newest durable commit. Returns whether that changed anything.

        With `until`, at that commit if it can, neither back nor further.
        """
        before = self.epoch
        if until is not None:
            while self.epoch < until and self._follow(until):
                pass
            return self.epoch != before
        self._check_origin(idle)
        # What is committed from now on is for the next query: chasing a busy writer would never end.
        head = read_head(self.state)
        if head < self.epoch:
            self._renew()
        for _ in range(ATTEMPTS):
            if self.epoch >= head:
                break
            if not self._follow():
                # Restored, loaded in bulk, or pruned under us: the log does not lead from here to there.
                self._renew()
                if self.epoch < head:
                    time.sleep(0.01)
        else:
            raise LogError(f"{self.state} is at commit {head}, and neither log nor checkpoint lead there.")
        return self.epoch != before

    def _go_to(self, commit: int) -> None:
        for _ in range(ATTEMPTS):
            found = checkpoint.at(self.state, commit)
            if found is None and earliest(self.state) > 0:
                break
            try:
                self._begin_from(found)
            except checkpoint.CheckpointGone:
                continue
            while self.epoch < commit and self._follow(commit):
                pass
            if self.epoch == commit:
                return
            if checkpoint.at(self.state, commit) == found:
                break  # nothing was pruned meanwhile: there never was such a commit, or its log is gone
        oldest = next(iter(checkpoint.every(self.state)), None)
        since = f" Kept is what begins at commit {oldest.commit}." if oldest and oldest.commit > commit else ""
        raise CommitGone(f"Commit {commit} is not kept any more, or was none of its own.{since}")

    def _follow(self, until: int | None = None) -> bool:
        began = self.epoch
        try:
            for entry in self._log.entries():
                if until is not None and entry.id > until:
                    self._log = LogReader(self.state, self.epoch)
                    break
                if entry.previous != self.epoch:
                    return False
                entry.change.apply(self.store)
                self.epoch, self.time = entry.id, entry.time
                if self._asked:
                    self._hide({*entry.change.added, *entry.change.removed})
        except LogError:
            return False
        return self.epoch != began

    def _check_origin(self, idle: bool) -> None:
        # A clone of a checkpoint that is no longer kept holds its files on disk, erased facts among them.
        now = time.monotonic()
        if self._held or now - self._looked < ORIGIN_SECONDS:
            return
        self._looked = now
        origin = self._origin
        old = idle and self.epoch != (origin.commit if origin else 0) and now - self._cloned > self._renew_after
        if (origin is not None and not origin.path.exists()) or (self.epoch and (old or origin is None)):
            newest = checkpoint.newest(self.state)
            if newest is not None and newest != origin:
                self._renew()

    def _renew(self) -> None:
        """Begin again from the newest checkpoint, or from nothing where there is none."""
        for attempt in range(ATTEMPTS):
            try:
                return self._begin_from(checkpoint.newest(self.state))
            except checkpoint.CheckpointGone:
                if attempt == ATTEMPTS - 1:
                    raise

    def _begin_from(self, found: checkpoint.Checkpoint | None) -> None:
        self._held = False
        self._generation += 1
        data = self.folder / str(self._generation)
        if found is not None:
            checkpoint.clone(found, data)
        old = self.folder / str(self._generation - 1)
        self.store = Store(str(data))
        gc.collect()  # the old store is closed when its last reference goes
        shutil.rmtree(old, ignore_errors=True)
        self._origin = found
        self._cloned = time.monotonic()
        self._renew_after = RENEW_SECONDS * random.uniform(1.0, 1.5)  # not all workers at once
        self.epoch, self.time = (found.commit, found.time) if found else (0, "")
        self._log = LogReader(self.state, self.epoch)
        if self._asked:
            self.plain = False
            self._hide(graph.value for graph in self.store.named_graphs() if isinstance(graph, NamedNode))

    def _hide(self, graphs: Iterable[str]) -> None:
        names = Names(self._asked)
        found = list(graphs)
        if not self.plain and names.cursor in found:
            self.plain = next(self.store.quads_for_pattern(*names.plain, NamedNode(names.cursor)), None) is not None
            found = [graph.value for graph in self.store.named_graphs() if isinstance(graph, NamedNode)]
        for graph in found if self.plain else ():
            if graph.startswith(names.system):
                self.store.remove_graph(NamedNode(graph))
