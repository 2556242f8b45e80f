"""A plan is everything that decides what one source's records become; a report is what a read of it did."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping as Table
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from ontology.facts import Facts
from ontology.violation import Violation
from sources.record import Record


class Maps(Protocol):
    """From a record to facts, as `transforms.mapping.Mapping` does."""

    @property
    def version(self) -> str: ...

    def facts(self, record: Record) -> Facts: ...


class Terms(Protocol):
    """What checks terms, as `ontology.vocabulary.Vocabulary` does."""

    @property
    def version(self) -> str: ...

    def check(self, facts: Facts) -> list[Violation]: ...


class Checks(Protocol):
    """What checks each record's own facts, as `ontology.shapes.Shapes` does."""

    @property
    def version(self) -> str: ...

    def local(self, facts: list[Facts]) -> list[Violation]: ...


@dataclass(frozen=True)
class Plan:
    """Everything sync needs for one source. `version` changes when anything that decides facts or refusals does."""

    source: str
    mapping: Maps
    shapes: Checks | None = None
    vocabulary: Terms | None = None
    version: str = ""
    fuse_share: float = 0.2
    fuse_count: int = 100
    holds_confidence: float = 0.5

    def __post_init__(self) -> None:
        if not self.version:
            parts = [
                self.mapping.version,
                self.shapes.version if self.shapes else "",
                self.vocabulary.version if self.vocabulary else "",
                repr(self.holds_confidence),
            ]
            digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
            object.__setattr__(self, "version", digest)


_COUNTS = ("read", "changed", "gone", "added", "removed", "seconds")


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one read of one source did, and how the source stands after it.

    `read`, `changed`, `gone`, `added` and `removed` count this read: records, and statements in their record graphs.
    `rejected` and `held` are the source's totals now: records refused, and records whose last good facts stand in for
    a version that was refused or could not be read. `again` names scopes to read once more at once.
    """

    source: str
    read: int = 0
    changed: int = 0
    gone: int = 0
    added: int = 0
    removed: int = 0
    rejected: int = 0
    held: int = 0
    cursor: str | None = None
    commit: int = 0
    seconds: float = 0.0
    message: str = ""
    notes: tuple[str, ...] = ()
    violations: tuple[Table[str, Any], ...] = ()
    again: tuple[str, ...] = ()
    held_scopes: Table[str, str] = field(default_factory=dict)

    def then(self, later: SyncReport) -> SyncReport:
        """This read and a later one of the same source as one report: counts summed, standing as it is now."""
        counts = {name: getattr(self, name) + getattr(later, name) for name in _COUNTS}
        return replace(
            later, **counts, cursor=later.cursor or self.cursor, message=later.message or self.message,
            notes=tuple(dict.fromkeys((*self.notes, *later.notes))), violations=later.violations or self.violations,
            held_scopes={**self.held_scopes, **later.held_scopes},
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """The report as JSON can say it."""
        said = {"notes": list(self.notes), "again": list(self.again), "held_scopes": dict(self.held_scopes)}
        return {**asdict(self), **said, "violations": [dict(one) for one in self.violations]}


Pairs = Sequence[tuple[Plan, Any]]
