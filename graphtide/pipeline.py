"""A pipeline says which source feeds which mapping under which shapes; a project is all those of one folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, NamedTuple

from ontology.graph import TurtleError
from ontology.shapes import Shapes
from ontology.vocabulary import Vocabulary
from sources.discovery import discover
from sources.files import FilesSource
from sources.formats import RDF, format_of
from sources.limits import Limits as ReadLimits
from sources.patterns import escape
from sources.record import Record, ScopedSource, Source
from sparql.names import Names
from sparql.query.admit import syntax_error
from sparql.sync import Plan
from transforms.direct import direct_mapping
from transforms.mapping import Mapping as RecordMapping
from transforms.mapping import SpecError, compile_mapping, python_mapping, version_of
from transforms.rdf import rdf_mapping
from transforms.rules import Rule, RuleCycle, RuleError, layered, load_rq, python_rule

from . import ontology_source
from .load import LoadError, UserCode
from .ontology_source import OntologySource
from .own_source import guarded
from .settings import FILE, RESERVED, Settings, SettingsError, SourceSettings, load

PREFIXES = {
    "gt": "https://w3id.org/graphtide/ns#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "sh": "http://www.w3.org/ns/shacl#",
    "prov": "http://www.w3.org/ns/prov#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "schema": "https://schema.org/",
    "dcterms": "http://purl.org/dc/terms/",
}
"""What every mapping and query may use; a folder's own `[prefixes]` overrule it."""

_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_.-]+")
_MANY = 20


class Pipeline(NamedTuple):
    """One source, how it is read, and the plan for what it reads."""

    name: str
    source: Source
    plan: Plan


@dataclass
class Project:
    """A folder's pipelines, rules and shapes, ready to run; made by `open`. Nothing of it writes anything."""

    settings: Settings
    names: Names
    pipelines: list[Pipeline]
    rules: tuple[Rule, ...]
    vocabulary: Vocabulary
    shapes: Shapes
    files: tuple[Path, ...]
    """Every file that decides what the project is, `graphtide.toml` first."""
    notes: tuple[str, ...] = ()
    discovered: bool = False
    _code: UserCode | None = field(default=None, repr=False)

    @classmethod
    def open(cls, dir: Path | str = ".") -> Project:
        """The project of a folder as it is now.

        Raises SettingsError, LoadError (the user's Python), RuleError and TurtleError (vocabulary, shapes), each
        naming file and line.
        """
        return cls.of(load(dir))

    @classmethod
    def of(cls, settings: Settings) -> Project:
        """The project that these settings make of their folder. Raises as `open` does."""
        code = UserCode(settings.dir)
        try:
            return _Opening(settings, code).project()
        except BaseException:
            code.close()
            raise

    def pipeline(self, name: str) -> Pipeline | None:
        return next((one for one in self.pipelines if one.name == name), None)

    def scopes_of(self, path: Path) -> Iterator[tuple[str, str]]:
        """(source, scope) of each source that reads this file, whether or not it is there."""
        for name, source, _ in self.pipelines:
            scope_of = getattr(source, "scope_of", None)
            scope = scope_of(path) if scope_of is not None else None
            if scope is not None:
                yield name, scope

    def every(self, name: str) -> float | None:
        """How often a source asks to be read again, in seconds."""
        return next((source.every for source in self.settings.sources if source.name == name), None)

    @property
    def prefixes(self) -> Mapping[str, str]:
        return {**PREFIXES, **self.settings.prefixes}

    def close(self) -> None:
        """The user's modules are forgotten."""
        if self._code is not None:
            self._code.close()


class _Opening:
    """Turns settings into a project."""

    def __init__(self, settings: Settings, code: UserCode) -> None:
        self.settings, self.code = settings, code
        self.base = settings.base
        self.prefixes = {**PREFIXES, **settings.prefixes}
        self.limits = ReadLimits(**{one.name: getattr(settings.limits, one.name) for one in fields(ReadLimits)})
        self.files: list[Path] = [settings.dir / FILE]
        self.notes: list[str] = []
        self.direct: list[ScopedSource] = []

    def project(self) -> Project:
        settings = self.settings
        if not settings.merge and settings.rule_files:
            raise settings.error(
                "merge = false leaves the default graph to whoever writes to it, and rules read what is merged there."
                " Remove one of the two.", "rules",
            )  # fmt: skip
        closed = settings.vocabulary == "closed"
        words = self._paths(settings.vocabulary_files, "ontology", "vocabulary")
        shape_files = self._paths(settings.shape_files, "ontology", "shapes")
        self.files += [*words, *shape_files]
        opened = (f"{self.base}def/",)
        try:
            vocabulary = Vocabulary.load([*words], closed=closed, open_namespaces=opened)
            shapes = Shapes.load([*shape_files], vocabulary=vocabulary)
        except TurtleError as wrong:
            raise SettingsError(self._shown(wrong.path), wrong.line, f"{wrong.reason.rstrip('.')}.") from wrong
        found = [self._configured(source) for source in settings.sources]
        discovered = settings.path is None
        if discovered:
            found = list(self._discovered())
        plans = [Pipeline(name, source, self._plan(name, how, shapes, vocabulary)) for name, source, how in found]
        relative = [escape(path.relative_to(settings.dir).as_posix()) for path in [*words, *shape_files]]
        own = OntologySource(settings.dir, relative, self.direct, self.base)
        about = Pipeline(
            ontology_source.NAME, own, Plan(ontology_source.NAME, rdf_mapping(ontology_source.NAME, self.base))
        )
        return Project(
            settings, Names(self.base), [about, *plans] if settings.merge else plans, self._rules(), vocabulary, shapes,
            tuple(dict.fromkeys(self.files)), tuple(self.notes), discovered, self.code,
        )  # fmt: skip

    def _plan(self, name: str, mapping: RecordMapping, shapes: Shapes, vocabulary: Vocabulary) -> Plan:
        limits = self.settings.limits
        return Plan(
            name, mapping, shapes, vocabulary, fuse_share=limits.fuse_share, fuse_count=limits.fuse_count,
            holds_confidence=limits.holds_confidence,
        )  # fmt: skip

    # -- what the settings name

    def _configured(self, own: SourceSettings) -> tuple[str, Source, RecordMapping]:
        source = self._source(own)
        mapping = self._mapping(own, source)
        if isinstance(source, FilesSource) and mapping.columns:
            source.absent = mapping.absent
        return own.name, source, mapping

    def _source(self, own: SourceSettings) -> Source:
        where = ("sources", own.name)
        if own.source is not None:
            made = self._own_class(own)
            try:
                source = made(own.name, self.settings.dir, **dict(own.options))
            except (Exception, SystemExit) as wrong:  # a user's code: whatever it raises is about its settings
                told = self.code.told(wrong, own.source.partition(":")[0])
                raise self.settings.error(f"source {own.source!r} cannot be made: {told}", *where) from wrong
            if not callable(getattr(source, "read", None)):
                raise self.settings.error(f"source {own.source!r} has no method read(cursor).", *where, "source")
            file = own.source.partition(":")[0]
            return guarded(own.name, source, lambda wrong: self.code.told(wrong, file))
        paths = [own.path] if own.path is not None else list(own.paths)
        for path in paths:
            if path.startswith(("/", "~")):
                near = os.path.relpath(Path(path).expanduser(), self.settings.dir)
                message = f"path {path!r} is not relative to {FILE}. Write {near!r}."
                raise self.settings.error(message, *where, "path" if own.path is not None else "paths")
        rdf = any((own.format or format_of(path)) in (None, *RDF) for path in paths)
        try:
            return FilesSource(
                own.name, self.settings.dir, paths, format=own.format, key=own.key or None,
                record_path=own.record_path, encoding=own.encoding, delimiter=own.delimiter, sheet=own.sheet,
                base=self.base if rdf else None, skolem=f"{self.base}.well-known/genid/", limits=self.limits,
            )  # fmt: skip
        except ValueError as wrong:
            raise self.settings.error(str(wrong), *where) from wrong

    def _own_class(self, own: SourceSettings) -> Any:
        reference = str(own.source)
        if ":" in reference and reference.partition(":")[0].endswith(".py"):
            self.files += self._code_files(reference)
            return self._loaded(reference, "sources", own.name, "source")
        found = entry_points(group="graphtide.sources")
        if reference not in found.names:
            known = ", ".join(sorted(found.names)) or "none is installed"
            raise self.settings.error(
                f"source {reference!r} is neither 'file.py:Class' nor an installed plug-in ({known}).",
                "sources", own.name, "source",
            )  # fmt: skip
        try:
            return found[reference].load()
        except (Exception, SystemExit) as wrong:  # an installed package's code
            raise self.settings.error(
                f"the plug-in {reference!r} ({found[reference].value}) does not load: {type(wrong).__name__}: {wrong}.",
                "sources", own.name, "source",
            ) from wrong  # fmt: skip

    def _mapping(self, own: SourceSettings, source: Source) -> RecordMapping:
        if own.python is not None:
            function = self._loaded(own.python, "sources", own.name, "python")
            if not callable(function):
                raise self.settings.error(
                    f"{own.python!r} is {function!r}, not a function of a record.", "sources", own.name, "python"
                )
            file = own.python.partition(":")[0]
            self.files += self._code_files(own.python)
            return python_mapping(
                function, version=self.code.version(file), source=own.name, base=self.base, name=own.python
            )
        if own.mapping is not None:
            try:
                return compile_mapping(own.mapping, source=own.name, base=self.base, prefixes=self.prefixes)
            except SpecError as wrong:
                key = str(wrong.key).removeprefix("sources.").removeprefix(own.name).strip(".")
                steps = [part for part in re.split(r"\.", key) if part]
                raise self.settings.error(str(wrong), "sources", own.name, *steps) from wrong
        if own.source is None and all(
            (own.format or format_of(path) or "") in RDF for path in ([own.path] if own.path else own.paths)
        ):
            return rdf_mapping(own.name, self.base)
        if not isinstance(source, ScopedSource):
            self.notes.append(f"{own.name}: no map, so it is mapped directly under {self.base}def/.")
        else:
            self.direct.append(source)
        direct = direct_mapping(own.name, self.base)
        if isinstance(source, FilesSource) and not all(own.format or format_of(path) for path in source.paths):
            return _whatever_it_is(direct, rdf_mapping(own.name, self.base))
        return direct

    def _rules(self) -> tuple[Rule, ...]:
        rules: list[Rule] = []
        for number, text in enumerate(self.settings.rule_files):
            where = ("rules", "files", number)
            if ".py:" in text:
                function = self._loaded(text, *where)
                file = text.partition(":")[0]
                self.files += self._code_files(text)
                try:
                    rules.append(python_rule(Path(file).stem, function, version=self.code.version(file)))
                except RuleError as wrong:
                    raise self.settings.error(str(wrong), *where) from wrong
                continue
            for path in self._paths((text,), *where):
                self.files.append(path)
                try:
                    rules.append(load_rq(path.stem, path.read_text("utf-8")))
                except RuleError as wrong:
                    raise SettingsError(self._shown(path), *_placed(wrong, path.read_text("utf-8"))) from wrong
                except (OSError, UnicodeDecodeError) as wrong:
                    raise SettingsError(self._shown(path), None, str(wrong)) from wrong
        taken: set[str] = set()
        for rule in rules:
            if rule.name in taken:
                raise self.settings.error(f"two rules are called {rule.name!r}. Rename one file.", "rules", "files")
            taken.add(rule.name)
        try:
            return layered(rules)
        except RuleCycle as wrong:
            raise self.settings.error(str(wrong), "rules", "files") from wrong

    # -- files

    def _loaded(self, reference: str, *where: str | int) -> Any:
        try:
            return self.code.named(reference)
        except LoadError as wrong:
            raise LoadError(f"{FILE}:{self.settings.line(*where) or 1}: {wrong}") from wrong

    def _code_files(self, reference: str) -> list[Path]:
        return self.code.files(reference.partition(":")[0])

    def _paths(self, patterns: Sequence[str], *where: str | int) -> list[Path]:
        """The files that patterns name, sorted within each. Raises SettingsError for one that names none."""
        out: list[Path] = []
        for text in patterns:
            path = self.settings.dir / text
            found = [path] if path.is_file() else []
            if not found and any(sign in text for sign in "*?["):
                try:
                    found = sorted(one for one in self.settings.dir.glob(text) if one.is_file())
                except (ValueError, NotImplementedError) as wrong:
                    raise self.settings.error(
                        f"{text!r} is no pattern ({wrong}). Write one such as 'rules/*.rq'.", *where
                    ) from wrong
            if not found:
                raise self.settings.error(f"{text!r} names no file. Correct the path, or remove it.", *where)
            for one in found:
                if self.settings.dir not in one.resolve().parents:
                    raise self.settings.error(f"{text!r} lies outside {self.settings.dir}. Move it inside.", *where)
                out.append(one)
        return list(dict.fromkeys(out))

    def _shown(self, path: Path | str) -> str:
        try:
            return Path(path).relative_to(self.settings.dir).as_posix()
        except ValueError:
            return str(path)

    # -- no settings

    def _discovered(self) -> Iterator[tuple[str, Source, RecordMapping]]:
        found = discover(self.settings.dir, self.limits)
        names = named([path for path, _ in found.taken])
        for path, format in found.taken:
            name, rdf = names[path], format in RDF
            source = FilesSource(
                name, self.settings.dir, [escape(path)], format=format, base=self.base if rdf else None,
                skolem=f"{self.base}.well-known/genid/", limits=self.limits,
            )  # fmt: skip
            if not rdf:
                self.direct.append(source)
            yield name, source, rdf_mapping(name, self.base) if rdf else direct_mapping(name, self.base)
        self.notes.append(f"There is no {FILE} here: {len(found.taken)} files are taken as they are.")
        self.notes += _shown_list("took", [(path, f"{format}, as {names[path]!r}") for path, format in found.taken])
        self.notes += _shown_list("skipped", found.skipped)


def _whatever_it_is(table: RecordMapping, rdf: RecordMapping) -> RecordMapping:
    """The mapping of a folder: rows of its tables and subjects of its RDF files."""

    def program(record: Record) -> Iterable[str]:
        subject = list(record.data) == ["statements"] and record.locator.endswith(">")
        return (rdf if subject else table).program(record)

    return replace(table, program=program, version=version_of("either", table.version, rdf.version))


def _placed(wrong: RuleError, text: str) -> tuple[int | None, str]:
    """Line and message: what the engine says of a text that is no SPARQL is a page of what it expected instead."""
    if not isinstance(wrong.__cause__, Exception) or not isinstance(wrong.__cause__.__cause__, SyntaxError):
        return None, str(wrong)
    found = syntax_error(text, str(wrong.__cause__.__cause__))
    return found.line or None, f"The rule is not SPARQL. {found.message}"


def named(paths: Sequence[str]) -> dict[str, str]:
    """A source name for each path: the file's own name, with its folders where two share one."""
    out: dict[str, str] = {}
    stems = [_name(Path(path).stem) for path in paths]
    for path, stem in zip(paths, stems, strict=True):
        name = stem if stems.count(stem) == 1 else _name(path)
        while name in out.values() or name in RESERVED:
            name += "_"
        out[path] = name
    return out


def _name(text: str) -> str:
    found = _NOT_A_NAME.sub("-", text).strip("-._")
    return found or "table"


def _shown_list(verb: str, found: Sequence[tuple[str, str]]) -> list[str]:
    rows = [f"{verb} {path}: {why}" for path, why in found[:_MANY]]
    if len(found) > _MANY:
        rows.append(f"{verb} {len(found) - _MANY} more")
    return rows
