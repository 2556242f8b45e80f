"""A record is judged by what it says alone: mapped, its terms looked up, its own facts put to the shapes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ontology.facts import Facts, FactsError
from ontology.violation import INFO, VIOLATION, Violation
from ontology.vocabulary import UNOWNED_TERM
from sources.record import Record
from sparql.names import Names
from sparql.sync.entries import UNUSABLE, unmapped
from sparql.sync.plan import Plan
from transforms.mapping import MappingError

TOGETHER = 500  # records in one call of the shapes: pyshacl has a fixed cost a call


class Verdict(NamedTuple):
    """What became of one record: its statements, or why not. `found` holds warnings when it is accepted."""

    accepted: bool
    statements: frozenset[str]
    found: tuple[Violation, ...]


class Judge:
    """Judges the records of one plan; `notes` gathers what is said once a source."""

    def __init__(self, plan: Plan, names: Names) -> None:
        self.plan, self.names = plan, names
        self.notes: set[str] = set()
        self._facts = plan.mapping.facts

    def verdicts(self, records: Iterable[tuple[str, Record]]) -> Iterator[Verdict]:
        """One verdict for each (record graph, record), in order."""
        shapes = self.plan.shapes
        waiting: list[tuple[str, Verdict, str]] = []
        for graph, record in records:
            verdict = self._alone(graph, record)
            if shapes is None:
                yield verdict
                continue
            waiting.append((graph, verdict, record.locator))
            if len(waiting) >= TOGETHER:
                yield from self._shaped(waiting)
                waiting = []
        if waiting:
            yield from self._shaped(waiting)

    def _alone(self, graph: str, record: Record) -> Verdict:
        if record.problem:
            why = record.problem
            return _refused(Violation(graph, "", "", "", UNUSABLE, VIOLATION, why, record.locator, UNUSABLE))
        try:
            facts = self._facts(record)
        except MappingError as wrong:
            return _refused(unmapped(graph, record, wrong.field, wrong.value, str(wrong)))
        except FactsError as wrong:
            return _refused(unmapped(graph, record, "", None, str(wrong)))
        found: tuple[Violation, ...] = ()
        if self.plan.vocabulary is not None:
            found = tuple(self._terms(self.plan.vocabulary.check(facts)))
            if any(one.refuses for one in found):
                return Verdict(False, facts.statements, found)
        return Verdict(True, facts.statements, found)

    def _terms(self, found: Iterable[Violation]) -> Iterator[Violation]:
        for one in found:
            if one.severity == INFO and one.constraint == UNOWNED_TERM:
                self.notes.add(one.message)  # once a source, not once a record
            else:
                yield one

    def _shaped(self, waiting: list[tuple[str, Verdict, str]]) -> Iterator[Verdict]:
        assert self.plan.shapes is not None
        said = [Facts(graph, verdict.statements, place) for graph, verdict, place in waiting if verdict.statements]
        by_record: dict[str, list[Violation]] = {}
        # The same key may be met twice in one read: records of one graph are put to the shapes apart.
        for group in _apart(said):
            for one in self.plan.shapes.local(group):
                by_record.setdefault(one.record, []).append(one)
        for graph, verdict, _ in waiting:
            found = (*verdict.found, *by_record.get(graph, ()))
            yield Verdict(verdict.accepted and not any(one.refuses for one in found), verdict.statements, found)


def _apart(said: list[Facts]) -> Iterator[list[Facts]]:
    while said:
        seen: set[str] = set()
        group: list[Facts] = []
        rest: list[Facts] = []
        for facts in said:
            (rest if facts.record in seen else group).append(facts)
            seen.add(facts.record)
        yield group
        said = rest


def _refused(why: Violation) -> Verdict:
    return Verdict(False, frozenset(), (why,))
