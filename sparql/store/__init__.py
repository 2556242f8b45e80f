"""The graph on disk, with one writer."""

from .embedded import Store, open_store, restore
from .errors import DiskFull, StoreBusy, StoreError, StoreTooNew, WrongBase
from .limits import Limits
from .stage import Stage

__all__ = [
    "DiskFull",
    "Limits",
    "Stage",
    "Store",
    "StoreBusy",
    "StoreError",
    "StoreTooNew",
    "WrongBase",
    "open_store",
    "restore",
]
