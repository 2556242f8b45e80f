"""A store of an older format becomes one of this format, step by step, on a copy."""

from __future__ import annotations

from collections.abc import Callable

import pyoxigraph

from sparql.names import Names

from . import layout
from .errors import StoreError

# From a format to the next one. Format 1 is the first.
MIGRATIONS: dict[int, Callable[[pyoxigraph.Store, Names], None]] = {}


def migrate(store: pyoxigraph.Store, names: Names, format: int) -> None:
    """`store`, of format `format`, has this code's format. Raises StoreError when there is no way to it."""
    for step in range(format, layout.FORMAT):
        if step not in MIGRATIONS:
            raise StoreError(f"There is no way from store format {step} to {step + 1}. Load the graph again.")
        MIGRATIONS[step](store, names)
