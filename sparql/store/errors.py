"""Why the store said no: what happened, where, and what to do next."""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot do this."""


class StoreBusy(StoreError):
    """Another process has held the store for the whole wait; the message names its process, command and since when."""


class StoreTooNew(StoreError):
    """The store was written by a newer Graphtide."""


class WrongBase(StoreError):
    """The store was made under another base."""


class DiskFull(StoreError):
    """Too little room on the disk to write; reads go on."""
