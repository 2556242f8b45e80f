"""Two classes are joined by the shortest road of properties that the data has walked, and a named road is shorter."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Set
from dataclasses import dataclass

from sparql.question.planner.linking import person
from sparql.question.schema import Property, Schema, Use

LONGEST = 4
"""How many properties a road has at most."""
NAMED = 0.25
"""What a step costs whose property the question names; any other costs 1 and a little for being rare."""
_NUMBERS = frozenset(
    f"http://www.w3.org/2001/XMLSchema#{name}"
    for name in ("integer", "decimal", "double", "float", "int", "long", "short", "nonNegativeInteger", "duration")
)
_TIMES = frozenset(f"http://www.w3.org/2001/XMLSchema#{name}" for name in ("date", "dateTime", "gYear", "gYearMonth"))
_PREPOSITIONS = frozenset({"on", "of", "to", "by", "for", "in", "from", "with", "at", "into"})


@dataclass(frozen=True, slots=True)
class Step:
    """One property, forward or against its direction, and the class it leads to."""

    property: str
    forward: bool
    to: str


class Roads:
    """The schema as a graph of classes. A class stands for its subclasses too."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._below: dict[str, set[str]] = defaultdict(set)
        for iri, one in schema.classes.items():
            for above in one.above:
                self._below[above].add(iri)
        self._uses: dict[str, list[Use]] = defaultdict(list)
        self._steps: dict[str, dict[Step, int]] = defaultdict(dict)
        for use in schema.uses:
            if not use.statements:
                continue
            self._uses[use.class_].append(use)
            for reached in use.ranges:
                if not reached.literal and reached.iri in schema.classes:
                    self._steps[use.class_][Step(use.property, True, reached.iri)] = reached.statements
                    back = Step(use.property, False, use.class_)
                    self._steps[reached.iri][back] = self._steps[reached.iri].get(back, 0) + reached.statements

    def family(self, iri: str) -> frozenset[str]:
        """The class and all its subclasses."""
        found, waiting = {iri}, [iri]
        while waiting:
            for below in self._below.get(waiting.pop(), ()):
                if below not in found:
                    found.add(below)
                    waiting.append(below)
        return frozenset(found)

    def families(self, classes: Iterable[str]) -> frozenset[str]:
        """The classes and all their subclasses."""
        return frozenset().union(*(self.family(one) for one in classes))

    def uses(self, classes: Iterable[str]) -> list[Use]:
        """How instances of the classes use properties, the most used first."""
        found = [use for one in self.families(classes) for use in self._uses.get(one, ())]
        return sorted(found, key=lambda use: (-use.statements, use.property, use.class_))

    def steps(self, classes: Iterable[str]) -> dict[Step, int]:
        """Where one property leads from instances of the classes, with how many statements do."""
        found: dict[Step, int] = {}
        for one in self.families(classes):
            for step, count in self._steps.get(one, {}).items():
                found[step] = max(found.get(step, 0), count)
        return found

    def road(
        self, start: Iterable[str], goal: Set[str], named: Set[str], through: Set[str] = frozenset()
    ) -> tuple[float, tuple[Step, ...]] | None:
        """The cheapest road from instances of `start` to instances of a class of `goal`, at least one step long.

        With `through` it goes over one of these properties.
        """
        first = frozenset(start)
        queue: list[tuple[float, int, tuple[Step, ...], frozenset[str]]] = [(0.0, 0, (), first)]
        best: dict[tuple[frozenset[str], bool, bool], float] = {}
        made = 0
        while queue:
            cost, _, path, here = heapq.heappop(queue)
            over = not through or any(step.property in through for step in path)
            if path and over and here & goal:
                return cost, path
            state = (here, bool(path), over)
            if len(path) >= LONGEST or best.get(state, math.inf) <= cost - 1e-9:
                continue
            best[state] = cost
            steps = self.steps(here)
            most = max(steps.values(), default=1)
            for step, count in sorted(steps.items(), key=lambda one: (one[0].property, one[0].forward, one[0].to)):
                if path and step.property == path[-1].property and step.forward != path[-1].forward:
                    continue  # there and back again is another of the same
                made += 1
                price = NAMED if step.property in named else 1.0 + 0.2 * (1 - math.log1p(count) / math.log1p(most))
                heapq.heappush(queue, (cost + price, made, (*path, step), frozenset({step.to})))
        return None

    def numeric(self, use: Use) -> bool:
        """Whether the values of a use are numbers."""
        return any(one.literal and one.iri in _NUMBERS for one in use.ranges)

    def timely(self, use: Use) -> bool:
        """Whether the values of a use are dates."""
        return any(one.literal and one.iri in _TIMES for one in use.ranges)

    def sizes(self, class_: str) -> float:
        """How many statements point to an instance of the class on average: kinds of things have many."""
        one = self.schema.classes.get(class_)
        if one is None or not one.instances:
            return 0.0
        return sum(count for step, count in self.steps([class_]).items() if not step.forward) / one.instances

    def person(self, class_: str) -> bool:
        """Whether who asks `who` may mean instances of the class."""
        return person(self.schema, class_)


def verbal(property: Property) -> bool:
    """Whether a property is named as what its subject does (`depends on`, `owns`) and not as what it has (`price`)."""
    words = property.name.label.lower().split()
    if not words or words[0] in ("has", "have"):
        return False
    if words[0] in ("is", "was"):
        return words[-1] in _PREPOSITIONS
    if words[-1] in _PREPOSITIONS:
        return True
    return len(words) == 1 and (words[0].endswith(("s", "ed")) and not words[0].endswith(("ss", "us")))
