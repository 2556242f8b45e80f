"""Makes the graph say what the records say, and nothing more."""

from sparql.sync.bulk import build
from sparql.sync.consequences import Consequences
from sparql.sync.gathering import batches_of, unreadable
from sparql.sync.known import cursors, scopes_of
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.removing import Unknown, erase, forget, rename
from sparql.sync.syncing import sync, sync_many
from sparql.sync.verifying import Difference, VerifyReport, verify

__all__ = [
    "Consequences",
    "Difference",
    "Plan",
    "SyncReport",
    "Unknown",
    "VerifyReport",
    "batches_of",
    "build",
    "cursors",
    "erase",
    "forget",
    "rename",
    "scopes_of",
    "sync",
    "sync_many",
    "unreadable",
    "verify",
]
