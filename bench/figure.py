"""A figure is a ratio measured in one run, with its spread; a time alone says more about the machine than about us."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number: the median of `rounds`, its spread, and what it is to be compared with."""

    name: str
    unit: str
    rounds: tuple[float, ...]
    aim: float | None = None
    at_most: bool = True
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def reached(self) -> bool | None:
        """Whether the aim holds; None where there is none."""
        if self.aim is None:
            return None
        return self.median <= self.aim if self.at_most else self.median >= self.aim

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "median": self.median, "reached": self.reached}


def ratios(name: str, ours: Sequence[float], theirs: Sequence[float], **rest: Any) -> Figure:
    """`ours / theirs`, round by round, so that a machine that drifts does not decide."""
    return Figure(name, "x", tuple(a / b for a, b in zip(ours, theirs, strict=True)), **rest)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of `values` lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def table(figures: Sequence[Figure]) -> str:
    """The figures as aligned text, a line each."""
    rows = [("figure", "median", "spread", "unit", "aim", "reached", "")]
    for one in figures:
        aim = "" if one.aim is None else f"{'<=' if one.at_most else '>='} {one.aim:g}"
        spread = f"{min(one.rounds):.3g}-{max(one.rounds):.3g} of {len(one.rounds)}"
        said = {None: "", True: "yes", False: "no"}[one.reached]
        rows.append((one.name, f"{one.median:.4g}", spread, one.unit, aim, said, one.note))
    widths = [max(len(row[column]) for row in rows) for column in range(7)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
