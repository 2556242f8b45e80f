"""A check passes when nothing is wrong now: what was wrong before is history, not a failure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from dagster_project.folder import Folder, SourceView
from dagster_project.keys import HEALTHY, WELL_FORMED, asset_key
from dagster_project.metadata import query_url, refused_by, severity, violations_table

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """How one check of one source stands."""

    name: str
    stage: str
    violations: int
    warnings: int
    message: str
    shape: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return not (self.violations or self.warnings)

    @property
    def seen(self) -> list[Any]:
        """What a person would notice change: outcome and counts, and for a failing source why it fails."""
        return [self.violations, self.warnings, self.message if self.name == HEALTHY else ""]


def specs(source: SourceView, prefix: Sequence[str]) -> list[dg.AssetCheckSpec]:
    """The checks of one source: it answers, its records can be mapped, and one a shape."""
    records, facts = (asset_key(prefix, source.name, stage) for stage in ("records", "facts"))
    return [
        dg.AssetCheckSpec(
            HEALTHY, asset=records, description="The source could be read to its end, and nothing of it is held back."
        ),
        dg.AssetCheckSpec(
            WELL_FORMED,
            asset=facts,
            description="Every record could be mapped: values fit their types, terms are known, no key comes twice.",
        ),
        *(
            dg.AssetCheckSpec(check.name, asset=facts, description=check.label, metadata={"shape": check.shape})
            for check in source.checks
        ),
    ]


def outcomes(source: SourceView, row: Mapping[str, Any], rows: Rows) -> list[Outcome]:
    """How each check stands, from the source's row of the status and its violations. None of a source not seen yet."""
    if not row or row.get("state") == "new":
        return []
    by_shape = {check["shape"]: check for check in row.get("checks", ())}
    shapes = [_counted(check.name, check.label, by_shape.get(check.shape, {}), check.shape) for check in source.checks]
    # What no listed shape found: a value that cannot be mapped, an unknown term, a key met twice, a shape about others.
    rest = [str(one.get("severity")) for one in _mine(source, None, rows)]
    counted = {"violations": rest.count("Violation"), "warnings": rest.count("Warning")}
    return [_healthy(row), _counted(WELL_FORMED, "Every record could be mapped", counted, None), *shapes]


def _mine(source: SourceView, shape: str | None, rows: Rows) -> Rows:
    known = {check.shape for check in source.checks}
    return [row for row in rows if (row.get("shape") == shape if shape else row.get("shape") not in known)]


def result(
    outcome: Outcome, source: SourceView, folder: Folder, prefix: Sequence[str], rows: Rows
) -> dg.AssetCheckResult:
    """An outcome as Dagster shows it, with a table of what is wrong."""
    return dg.AssetCheckResult(
        asset_key=asset_key(prefix, source.name, outcome.stage),
        check_name=outcome.name,
        passed=outcome.passed,
        severity=severity(outcome.violations),
        description=outcome.message,
        metadata=_metadata(outcome, source, folder, rows),
    )


def evaluation(
    outcome: Outcome, source: SourceView, folder: Folder, prefix: Sequence[str], rows: Rows
) -> dg.AssetCheckEvaluation:
    """The same for an instance, outside of any run."""
    return dg.AssetCheckEvaluation(
        asset_key=asset_key(prefix, source.name, outcome.stage),
        check_name=outcome.name,
        passed=outcome.passed,
        severity=severity(outcome.violations),
        description=outcome.message,
        metadata=_metadata(outcome, source, folder, rows),
    )


def _metadata(outcome: Outcome, source: SourceView, folder: Folder, rows: Rows) -> dict[str, Any]:
    shown: dict[str, Any] = {name: value for name, value in outcome.details.items() if value is not None}
    if outcome.name == HEALTHY:
        return shown
    shown["violations"] = outcome.violations
    if outcome.warnings:
        shown["warnings"] = outcome.warnings
    mine = _mine(source, outcome.shape, rows)
    if mine:
        shown["table"] = violations_table(mine)
        shown["query"] = dg.MetadataValue.url(query_url(folder.page, refused_by(folder.names, source.name)))
    return shown


def _healthy(row: Mapping[str, Any]) -> Outcome:
    state, message = str(row.get("state", "ok")), str(row.get("message") or "")
    bad = {"ok": (0, 0), "orphaned": (0, 1)}.get(state, (1, 0))
    details = {
        name: row.get(name) for name in ("state", "mode", "records", "held", "rejected", "last_seen", "lag_seconds")
    }
    return Outcome(HEALTHY, "records", *bad, message or ("In step." if state == "ok" else state), details=details)


def _counted(name: str, label: str, counted: Mapping[str, Any], shape: str | None) -> Outcome:
    violations, warnings = int(counted.get("violations") or 0), int(counted.get("warnings") or 0)
    said = [f"{n} {word}{'' if n == 1 else 's'}" for n, word in ((violations, "violation"), (warnings, "warning")) if n]
    return Outcome(name, "facts", violations, warnings, f"{label}: {', '.join(said) or 'yes'}.", shape)
