"""Makes the graph say what the records say, and nothing more."""

from sparql.sync.bulk import build
from sparql.sync.consequences import Consequences
from sparql.sync.gathering import batches_of, unreadable
from sparql.sync.known import cursors, scopes_of
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.syncing import sync, sync_many

__all__ = [
    "Consequences",
    "Plan",
    "SyncReport",
    "batches_of",
    "build",
    "cursors",
    "scopes_of",
    "sync",
    "sync_many",
    "unreadable",
]
