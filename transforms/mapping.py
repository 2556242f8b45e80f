"""A mapping is a pure function of one record: the same record, settings and rules give the same facts, in any order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable
from collections.abc import Mapping as Table
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

import pyoxigraph
from pyoxigraph import Triple

from ontology.facts import Facts, FactsError, statement
from sources.record import Record
from transforms.column import BadField
from transforms.iri import DEFAULT_BASE, Missing, record_graph, under
from transforms.kind import SpecError, kinds
from transforms.nested import holds

__all__ = ["Mapping", "MappingError", "SpecError", "compile_mapping", "python_mapping"]

RULES = "1"
"""Our own rules' version: raised whenever the same record would map to other facts than before."""

Program = Callable[[Record], Iterable[str]]


class MappingError(ValueError):
    """One record cannot be mapped. `str()` is `locator: 'field' is 'value', problem. hint`."""

    def __init__(self, locator: str, field: str, value: Any, problem: str, hint: str = "") -> None:
        self.locator, self.field, self.value, self.problem, self.hint = locator, field, value, problem, hint
        shown = _shown(value)
        said = f"{field!r} is {shown}, {problem}" if field and value is not None else problem
        super().__init__(f"{locator}: {said}." + (f" {hint}." if hint else ""))


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else repr(str(value))
    return text if len(text) <= 120 else f"{text[:100]}...' ({len(str(value))} characters)"


@dataclass(frozen=True, slots=True)
class Mapping:
    """From `Record` to `Facts` for one source. `version` changes when anything that decides the facts changes."""

    source: str
    base: str
    version: str
    program: Program = field(repr=False)
    columns: frozenset[str] = frozenset()
    """The columns the mapping names; empty for direct, Python and RDF mappings."""

    def facts(self, record: Record) -> Facts:
        """What the record says, ground and spelled. Raises MappingError naming field, value and place."""
        try:
            graph = record_graph(self.base, self.source, record.key)
            statements = frozenset(self.program(record))
        except BadField as bad:
            hint = f"{bad.hint}, or map it in mappings/{self.source}.py" if bad.hint else ""
            raise MappingError(record.locator, bad.field, bad.value, bad.problem, hint) from bad
        except UnicodeEncodeError as wrong:
            raise MappingError(record.locator, "", None, "it holds half a character (a lone surrogate)") from wrong
        return Facts(graph, statements, record.locator)

    def absent(self, data: Table[str, Any] | Collection[str], where: str = "") -> list[str]:
        """A note for each column the mapping names and the data does not have, with the nearest that it has."""
        present = data if isinstance(data, Table) else dict.fromkeys(data)
        notes = []
        for column in sorted(self.columns):
            if not holds(present, column):
                near = get_close_matches(column, list(present), n=1)
                hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(map(repr, list(present)[:12]))}."
                notes.append(f"{where or self.source} has no column {column!r}, which its mapping names.{hint}")
        return notes


def version_of(*parts: Any) -> str:
    """A hash of `parts` and of what spells them: our rules and the store's version."""
    text = json.dumps([RULES, pyoxigraph.__version__, *parts], sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def compile_mapping(
    spec: Any, *, source: str, base: str = DEFAULT_BASE, prefixes: Table[str, str] = {}, where: str = ""
) -> Mapping:
    """The `[sources.NAME.map]` table (or list of tables, one a kind) as a mapping.

    Raises SpecError naming the key (`sources.people.map.columns.born`) and the reason.
    """
    compiled = kinds(spec, source=source, base=base, prefixes=prefixes, where=where or f"sources.{source}.map")
    columns = frozenset(column for kind in compiled for column in kind.columns)
    describers = [kind.describe for kind in compiled]

    def program(record: Record) -> list[str]:
        out: list[str] = []
        for describe in describers:
            describe(record, out)
        return out

    version = version_of("toml", source, base, spec, dict(prefixes))
    return Mapping(source, base, version, program, columns)


def python_mapping(
    function: Callable[[Record], Iterable[Triple]],
    *,
    version: str,
    source: str,
    base: str = DEFAULT_BASE,
    name: str = "",
) -> Mapping:
    """A user's function as a mapping; `version` is the hash of every project module it imports.

    Whatever the function raises becomes a MappingError of that record, naming the function.
    """
    called = name or getattr(function, "__qualname__", "the mapping")

    def program(record: Record) -> list[str]:
        try:
            with under(base):
                return [statement(triple) for triple in function(record)]
        except Missing as missing:
            raise MappingError(record.locator, missing.field, None, f"{called}: {missing}") from missing
        except FactsError as wrong:
            raise MappingError(record.locator, "", None, f"{called}: {str(wrong).rstrip('.')}") from wrong
        except (Exception, SystemExit) as wrong:  # a user's code: whatever it raises is about this record
            line = _line_of(wrong)
            problem = f"{called} failed{line}: {type(wrong).__name__}: {wrong}"
            raise MappingError(record.locator, "", None, problem, "Mend the function or the record") from wrong

    return Mapping(source, base, version_of("python", source, base, version, called), program)


def _line_of(wrong: BaseException) -> str:
    trace, line = wrong.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename != __file__:
            line = f" at line {trace.tb_lineno}"
        trace = trace.tb_next
    return line
