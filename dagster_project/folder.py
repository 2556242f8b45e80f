"""Dagster sees a folder through these few functions; everything it knows of the engine is here."""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dagster_project.keys import check_names
from graphtide.engine import connect
from graphtide.engine import status as engine_status
from graphtide.ontology_source import NAME as ONTOLOGY
from graphtide.pipeline import PREFIXES, Project
from graphtide.settings import Settings, SourceSettings, load
from ontology.facts import RDF, split
from sources.record import Record, ScopedSource, SourceError
from sparql.client import WriterClient, WriterGone, WriterRefused, about
from sparql.names import Names
from sparql.store import StoreBusy
from transforms.iri import expand

Say = Callable[[dict[str, Any]], None]

SAMPLE_ROWS = 5
SAMPLE_BYTES = 8 * 2**20  # a sample is not worth parsing a larger file a second time


@dataclass(frozen=True)
class Check:
    """One shape as a check of one source."""

    name: str
    shape: str
    label: str


@dataclass(frozen=True)
class SourceView:
    """What Dagster shows of one source. `version` changes whenever its facts could; `every` is seconds."""

    name: str
    kind: str
    reads: str
    version: str
    every: float | None
    checks: tuple[Check, ...]


@dataclass(frozen=True)
class Folder:
    """What Dagster shows of one folder."""

    dir: Path
    names: Names
    page: str
    sources: tuple[SourceView, ...]
    rules: tuple[str, ...]
    settings: tuple[str, ...] = ()

    @property
    def state(self) -> Path:
        """Where its store, log and Dagster home are."""
        return self.dir / ".graphtide"

    def settings_now(self) -> str:
        """A text that differs when a file of the settings was written: cheap, the files are not read."""
        return fingerprint(self.dir, self.settings)


def describe(dir: Path | str, page: str | None = None) -> Folder:
    """The folder as its settings say it is now; the store is not opened. Raises SettingsError and other ValueErrors.

    `page` is where its query page answers, when that is not what the settings say.
    """
    with project(dir) as found:
        settings, own = found.settings, {source.name: source for source in found.settings.sources}
        sources = [
            SourceView(
                name=name,
                kind=_kind(name, own.get(name)),
                reads=_reads(found, own.get(name), name),
                version=plan.version,
                every=found.every(name),
                checks=_checks(found, own.get(name), reader, plan),
            )
            for name, reader, plan in found.pipelines
        ]
        rules = tuple(rule.name for rule in found.rules)
        files = tuple(str(path) for path in found.files)
        return Folder(settings.dir, found.names, page or _page(settings), tuple(sources), rules, files)


@contextmanager
def project(dir: Path | str) -> Iterator[Project]:
    """The folder's project, closed at the end."""
    found = Project.open(dir)
    try:
        yield found
    finally:
        found.close()


def kept_by(state: Path) -> str | None:
    """Why Dagster need not start anything: the writer that keeps this folder in step; None when there is none."""
    if not WriterClient(state).available():
        return None
    known = about(state) or {}
    return (
        f"The writer (process {known.get('pid', 'unknown')}, since {known.get('since', 'a while')}) watches and polls."
    )


@contextmanager
def engine(dir: Path, wait: float = 120.0) -> Iterator[Any]:
    """The writer's client, or the store itself when no writer runs, waiting `wait` seconds for whoever holds it.

    Raises StoreBusy, naming the holder, after that.
    """
    until = time.monotonic() + wait
    while True:
        try:
            held = connect(dir)
            break
        except (StoreBusy, WriterGone):
            # A writer may have come or gone between asking for it and taking the lock: ask again.
            if time.monotonic() >= until:
                raise
            time.sleep(0.1)
    try:
        yield held
    finally:
        held.close()


@dataclass(frozen=True)
class Synced:
    """One source after its sync: the report, its row of the status, and its violations by check."""

    report: Mapping[str, Any]
    row: Mapping[str, Any]
    violations: tuple[Mapping[str, Any], ...]


def sync(dir: Path, source: str, say: Say) -> Synced:
    """Bring one source in step now; every step of it is told to `say`."""
    with engine(dir) as held:
        report = as_dict(held.sync([source], emit=say)[0])
        status = held.status()
        row = next((row for row in status["sources"] if row["name"] == source), {})
        return Synced(report, row, tuple(held.violations(source, 1000)))


def status(dir: Path) -> Mapping[str, Any]:
    """The status of the folder: the writer's word, or read from a copy without waiting for anyone."""
    return engine_status(dir)


def status_of_writer(state: Path) -> Mapping[str, Any] | None:
    """The status as the running writer tells it; None when none runs or it is too busy to say."""
    try:
        return WriterClient(state, silence=10.0).call("status")
    except (WriterGone, WriterRefused):
        return None


def violations_of_writer(state: Path, source: str) -> Sequence[Mapping[str, Any]]:
    """The violations of a source as the running writer tells them; none when none runs."""
    try:
        found = WriterClient(state, silence=10.0).call("violations", source=source, limit=200)
    except (WriterGone, WriterRefused):
        return ()
    return found.get("violations") or found.get("value") or ()


def answer(dir: Path, sparql: str, seconds: float) -> bytes:
    """The SPARQL JSON results of a query, from a worker of our own at the newest commit. Raises QueryFailed."""
    from sparql.query.pool import Pool

    settings = load(dir)
    options = {"workers": 1, "spares": 0, "deadline": seconds, "memory_bytes": settings.limits.query_memory_bytes}
    with Pool(settings.state, settings.base, prefixes={**PREFIXES, **settings.prefixes}, **options) as pool:
        return b"".join(pool.run(sparql, format="json"))


def as_dict(report: Any) -> dict[str, Any]:
    """A report as plain data, whether it came from the engine or over the socket."""
    return dict(report) if isinstance(report, Mapping) else report.to_dict()


def scopes(dir: Path, source: str) -> list[str]:
    """The scopes a source has now; none when it has no list of them, or cannot be read (its check says so)."""
    with project(dir) as found:
        one = found.pipeline(source)
        if one is None or not isinstance(one.source, ScopedSource):
            return []
        try:
            return one.source.scopes()
        except SourceError:
            return []


def sample(dir: Path, source: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The first rows of a source and the first facts they become; empty where a look would cost too much."""
    with project(dir) as found:
        one = found.pipeline(source)
        if one is None:
            return [], []
        records = _first(dir, one.source, SAMPLE_ROWS)
        facts = [fact for record in records[:2] for fact in _facts(one.plan, record)]
        return [{"where": record.locator, **record.data} for record in records], facts[:20]


def _first(dir: Path, reader: Any, count: int) -> list[Record]:
    if not isinstance(reader, ScopedSource):
        return []
    try:
        for scope in reader.scopes()[:1]:
            path = dir / scope
            if path.is_file() and path.stat().st_size > SAMPLE_BYTES:
                return []
            batch = reader.read_scope(scope, None)
            return list(islice(batch.records, count)) if batch else []
    except SourceError:  # its check says so
        return []
    return []


def _facts(plan: Any, record: Record) -> list[str]:
    try:
        return sorted(plan.mapping.facts(record).statements)
    except ValueError as wrong:  # a row that cannot be mapped is a violation; here it is just a bad sample
        return [str(wrong)]


def _checks(found: Project, own: SourceSettings | None, reader: Any, plan: Any) -> tuple[Check, ...]:
    if plan.shapes is None:
        return ()
    classes = _classes(found, own, reader, plan)
    names = check_names(plan.shapes.names())
    above = {kind for one in classes for kind in (one, *plan.shapes.superclasses.get(one, ()))}
    return tuple(
        Check(names[root.name], root.name, root.label)
        for root in plan.shapes.roots
        if not root.classes or not classes or root.classes & above
    )


def _classes(found: Project, own: SourceSettings | None, reader: Any, plan: Any) -> set[str]:
    """The classes of what a source describes: as its mapping says, or as its first records show; empty is unknown."""
    kinds = own.mapping if own and isinstance(own.mapping, list) else [own.mapping] if own and own.mapping else []
    named = {kind["class"] for kind in kinds if isinstance(kind, dict) and isinstance(kind.get("class"), str)}
    if named:
        return {expand(text, found.prefixes) for text in named}
    types = f" <{RDF}type> <"
    said = [fact for record in _first(found.settings.dir, reader, 50) for fact in _facts(plan, record) if types in fact]
    return {split(fact)[2][1:-1] for fact in said}


def _kind(name: str, own: SourceSettings | None) -> str:
    if own is None:
        return "turtle" if name == ONTOLOGY else "file"
    if own.kind == "python":
        return "python"
    suffix = Path(own.path or (own.paths or ("",))[0]).suffix.lstrip(".").lower()
    return own.format or suffix or "file"


def _reads(found: Project, own: SourceSettings | None, name: str) -> str:
    if own is not None:
        return own.source or own.path or ", ".join(own.paths)
    if name == ONTOLOGY:
        return (
            ", ".join((*found.settings.vocabulary_files, *found.settings.shape_files)) or "graphtide's own vocabulary"
        )
    one = found.pipeline(name)
    return ", ".join(getattr(one.source if one else None, "paths", ()) or (name,))


def fingerprint(root: Path, scopes: Sequence[str]) -> str:
    """A text that differs when a file of `scopes` was written, replaced, removed or came, at any size and mtime."""
    digest = hashlib.sha256()
    for scope in scopes:
        try:
            found = (root / scope).stat()
        except OSError:
            digest.update(f"{scope}\0absent\n".encode("utf-8", "surrogatepass"))
            continue
        # ctime and inode catch what size and mtime miss: a replacement with both the same (test_dagster_clocks).
        line = f"{scope}\0{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino}\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def _page(settings: Settings) -> str:
    return f"http://{settings.server.host}:{settings.server.port}"
