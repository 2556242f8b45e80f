"""Validation without a commit: what sync would refuse or report, found by the same checks on the same facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sources.files import FilesSource
from sources.formats import RDF, format_of
from sources.record import Batch, Record, ScopedSource, SourceError
from sparql.names import Names
from sparql.sync import Plan
from sparql.sync.judge import Judge
from transforms.direct import direct_mapping
from transforms.rdf import rdf_mapping

from .pipeline import Pipeline, Project

MOST = 1000
"""Findings that are listed; the counts are of all."""


class ValidateError(ValueError):
    """What was named cannot be checked."""


def validate(dir: str, files: Sequence[str]) -> dict[str, Any]:
    """Check these files, or every source: {records, violations, warnings, findings, problems}.

    A file that a source reads is mapped as that source maps it; any other file is taken as it is. `problems` are
    files and sources that could not be read. Raises SettingsError and its kin.
    """
    project = Project.open(dir)
    try:
        found = _Found(project)
        for pipeline, scopes in _chosen(project, files):
            found.take(pipeline, scopes)
        return found.told()
    finally:
        project.close()


def _chosen(project: Project, files: Sequence[str]) -> Iterator[tuple[Pipeline, list[str] | None]]:
    if not files:
        yield from ((one, None) for one in project.pipelines)
        return
    for name in files:
        path = Path(name).absolute()
        if not path.is_file():
            raise ValidateError(f"{name}: there is no such file. Name a file, or none to check every source.")
        mine = list(project.scopes_of(path))
        for source, scope in mine:
            one = project.pipeline(source)
            if one is not None:
                yield one, [scope]
        if not mine:
            yield _alone(project, path), [path.name]


def _alone(project: Project, path: Path) -> Pipeline:
    """A file that no source names, taken as it is, under the shapes and vocabulary of the project."""
    base, name = project.settings.base, path.stem
    source = FilesSource(name, path.parent, [path.name], base=base, skolem=f"{base}.well-known/genid/")
    rdf = (format_of(path.name) or "") in RDF
    mapping = rdf_mapping(name, base) if rdf else direct_mapping(name, base)
    return Pipeline(name, source, Plan(name, mapping, project.shapes, project.vocabulary))


class _Found:
    def __init__(self, project: Project) -> None:
        self.names = Names(project.settings.base)
        self.records = self.violations = self.warnings = 0
        self.findings: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def take(self, pipeline: Pipeline, scopes: list[str] | None) -> None:
        judge = Judge(pipeline.plan, self.names)
        try:
            for batch in self._batches(pipeline, scopes):
                for verdict in judge.verdicts(self._named(pipeline.name, batch)):
                    self.records += 1
                    for violation in verdict.found:
                        self._count(violation.to_dict())
        except SourceError as wrong:
            self.problems.append(str(wrong))

    def _batches(self, pipeline: Pipeline, scopes: list[str] | None) -> Iterator[Batch]:
        source = pipeline.source
        if isinstance(source, ScopedSource):
            for scope in source.scopes() if scopes is None else scopes:
                try:
                    batch = source.read_scope(scope, None)
                    if batch is not None:
                        yield batch
                except SourceError as wrong:
                    self.problems.append(str(wrong))
        else:
            yield from source.read(None)

    def _named(self, source: str, batch: Batch) -> Iterator[tuple[str, Record]]:
        for record in batch.records:
            yield self.names.record(source, record.key), record

    def _count(self, found: dict[str, Any]) -> None:
        if found["severity"] == "Violation":
            self.violations += 1
        elif found["severity"] == "Warning":
            self.warnings += 1
        if len(self.findings) < MOST:
            self.findings.append(found)

    def told(self) -> dict[str, Any]:
        return {
            "records": self.records, "violations": self.violations, "warnings": self.warnings,
            "findings": self.findings, "problems": self.problems,
        }  # fmt: skip
