"""Queries, each in a worker that is a replica and can be killed."""

from .pool import (
    HAS_MEMORY_CAP,
    Answer,
    Call,
    NotAcceptable,
    Pool,
    PoolBusy,
    QueryCancelled,
    QueryError,
    QueryFailed,
    QueryTimeout,
    QueryTooLarge,
    WorkerLost,
)

__all__ = [
    "HAS_MEMORY_CAP",
    "Answer",
    "Call",
    "NotAcceptable",
    "Pool",
    "PoolBusy",
    "QueryCancelled",
    "QueryError",
    "QueryFailed",
    "QueryTimeout",
    "QueryTooLarge",
    "WorkerLost",
]
