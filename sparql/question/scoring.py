"""An answer is as good as its overlap with the right one, and a refusal is right exactly when there is no answer.

F1 is TEXT2SPARQL's: over the set of all values, whatever column they stand in. `exact` asks for the same set; `rows`
for the same rows under some naming of the columns, in the same order where order is asked for.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from pyoxigraph import Literal, NamedNode

from sparql.question.answer import Result, Term

MOST_COLUMNS = 12
MOST_TRIED = 2_000
"""How many ways to name the columns are tried."""
_NUMBER = frozenset(
    f"http://www.w3.org/2001/XMLSchema#{name}"
    for name in ("integer", "decimal", "double", "float", "int", "long", "short", "nonNegativeInteger")
)


@dataclass(frozen=True, slots=True)
class Score:
    """How one answer compares with the right one; all are 0 where there was no answer though there is one."""

    precision: float
    recall: float
    f1: float
    exact: bool
    rows: bool


NOTHING = Score(0.0, 0.0, 0.0, False, False)
ALL = Score(1.0, 1.0, 1.0, True, True)


def score(gold: Result, found: Result | None, *, ordered: bool = False) -> Score:
    """How `found` compares with `gold`."""
    if found is None:
        return NOTHING
    right, given = values(gold), values(found)
    if not right or not given:
        # trec_eval gives 0 to an empty right answer even when nothing is what was found.
        return ALL if not right and not given else NOTHING
    both = len(right & given)
    precision, recall = both / len(given), both / len(right)
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    return Score(precision, recall, f1, right == given, same_rows(gold, found, ordered=ordered))


def values(result: Result) -> frozenset[Hashable]:
    """All values of a result: terms without datatype and language, numbers as numbers; a boolean is one value."""
    return frozenset(plain(term) for row in result.rows for term in row if term is not None)


def plain(term: Term) -> Hashable:
    """What of a term counts: an IRI, a number, or a text."""
    if isinstance(term, NamedNode):
        return ("iri", term.value)
    if isinstance(term, Literal):
        if term.datatype.value in _NUMBER:
            try:
                # An average has as many digits as its engine likes.
                return Decimal(term.value).quantize(Decimal("0.000001")).normalize()
            except InvalidOperation:
                return term.value
        return term.value
    return str(term)


def same_rows(gold: Result, found: Result, *, ordered: bool = False) -> bool:
    """Whether some choice of the found columns has the rows of `gold`; further columns do not count."""
    if gold.kind != found.kind or len(gold.columns) > len(found.columns):
        return False
    right = [tuple(None if term is None else plain(term) for term in row) for row in gold.rows]
    given = [tuple(None if term is None else plain(term) for term in row) for row in found.rows]
    if not gold.columns or len(gold.columns) > MOST_COLUMNS:
        return right == given
    wanted = set(right)  # a row twice is a row: DISTINCT is not the point
    for tried, choice in enumerate(_choices(right, given, len(gold.columns), len(found.columns))):
        if tried >= MOST_TRIED:
            return False
        rows = [tuple(row[at] for at in choice) for row in given]
        if rows == right or (not ordered and set(rows) == wanted):
            return True
    return False


def _choices(
    right: Sequence[tuple[Hashable, ...]], given: Sequence[tuple[Hashable, ...]], wide: int, wider: int
) -> Iterator[tuple[int, ...]]:
    """The ways to find each column of the right rows among those given: with the same set of values."""
    ours = [frozenset(row[at] for row in given) for at in range(wider)]
    fits = [[one for one in range(wider) if ours[one] == frozenset(row[at] for row in right)] for at in range(wide)]

    def choose(at: int, taken: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if at == wide:
            yield taken
            return
        for one in fits[at]:
            if one not in taken:
                yield from choose(at + 1, (*taken, one))

    yield from choose(0, ())
