"""A violation is data, not an exception: what was wrong, where, and how much it matters."""

from __future__ import annotations

from dataclasses import asdict, dataclass

VIOLATION, WARNING, INFO = "Violation", "Warning", "Info"


@dataclass(frozen=True, slots=True)
class Violation:
    """One finding. `record` and `locator` name who said it; IRIs are bare, `value` is N-Triples text, "" is absent.

    `constraint` is a SHACL constraint component IRI (or our own term), `severity` one of Violation, Warning, Info;
    `shape` is the shape a person named, by IRI where it has one.
    """

    record: str
    focus: str
    path: str
    value: str
    constraint: str
    severity: str
    message: str
    locator: str
    shape: str = ""

    @property
    def refuses(self) -> bool:
        """Whether the record it is about may not be committed as it is."""
        return self.severity == VIOLATION

    def to_dict(self) -> dict[str, str]:
        return asdict(self)
