"""What the graph can be asked about: its classes and properties as it uses them, and as it calls them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Named:
    """How a class, a property or an entity is called. `synonyms` are its `skos:altLabel`s."""

    iri: str
    label: str
    synonyms: tuple[str, ...] = ()
    description: str = ""


@dataclass(frozen=True, slots=True)
class Range:
    """What the objects of one use are: a class or (`literal`) a datatype, and in how many statements."""

    iri: str
    literal: bool
    statements: int


@dataclass(frozen=True, slots=True)
class Use:
    """One property on the instances of one class, counted in the default graph and bounded by the shapes.

    `most` is the most values that one subject has (1: a function). `least_shape`, `most_shape`: sh:minCount and
    sh:maxCount, None where no shape says. `values` is sh:in, as N-Triples terms. `top` are the commonest values of a
    literal property as N-Triples terms, with how often; `distinct` is how many there are in all.
    """

    class_: str
    property: str
    statements: int
    subjects: int
    distinct: int
    most: int
    ranges: tuple[Range, ...]
    values: tuple[str, ...] = ()
    top: tuple[tuple[str, int], ...] = ()
    least_shape: int | None = None
    most_shape: int | None = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class with its direct superclasses and its instances, those of subclasses not counted."""

    name: Named
    instances: int
    above: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Property:
    """A property; `domain` and `range` are what the vocabulary declares, `above` its direct superproperties."""

    name: Named
    statements: int
    domain: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    above: tuple[str, ...] = ()
    inverse: str | None = None


@dataclass(frozen=True, slots=True)
class Schema:
    """The profile at one commit. Vocabulary and shape terms themselves (owl:Class, sh:NodeShape ...) are not in it."""

    commit: int
    classes: Mapping[str, Class] = field(default_factory=dict)
    properties: Mapping[str, Property] = field(default_factory=dict)
    uses: tuple[Use, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    def of(self, class_: str) -> tuple[Use, ...]:
        """The uses of the instances of one class, the most used first."""
        return tuple(sorted((one for one in self.uses if one.class_ == class_), key=lambda one: -one.statements))
