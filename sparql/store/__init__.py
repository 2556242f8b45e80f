"""The graph on disk, with one writer."""

from .backup import restore
from .embedded import Store, open_store
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
