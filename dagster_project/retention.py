"""Old events that no run made may go: what Dagster shows of now and the last hours stays, the database stays small."""

from collections.abc import Iterable, Sequence
from typing import Any

import dagster as dg
import sqlalchemy as db
from dagster._core.events import DagsterEventType
from dagster._core.instance import RUNLESS_RUN_ID
from dagster._core.storage.event_log.schema import (
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
)
from dagster._core.storage.event_log.sqlite import SqliteEventLogStorage

MATERIALISATIONS = 12_000  # kept in all: 4.4 KB each here, stored twice by Dagster's SQLite storage
EVALUATIONS = 2_000  # kept in all: 2-15 KB each with their tables, stored three times
CHUNK = 500  # SQLite takes so many values in one statement


def prune(instance: dg.DagsterInstance, assets: int, checks: int) -> int:
    """Keep the newest events of each asset and each check, within the sums above; how many rows went.

    Only for Dagster's own SQLite storage and events reported outside of runs; anything else is left as it is.
    """
    storage = instance.event_log_storage
    storage = getattr(storage, "event_log_storage", storage)  # inside the instance's one storage, where it has one
    if not isinstance(storage, SqliteEventLogStorage):
        return 0
    of_asset = max(20, min(1000, MATERIALISATIONS // max(1, assets)))
    of_evaluated = max(20, min(500, EVALUATIONS // max(1, assets)))
    of_check = max(5, min(100, EVALUATIONS // max(1, checks)))
    events, tags, executions = SqlEventLogStorageTable, AssetEventTagsTable, AssetCheckExecutionsTable
    gone = 0
    for shard in (storage.run_connection(RUNLESS_RUN_ID), storage.index_connection()):
        with shard as connection:
            evaluated = events.c.dagster_event_type == DagsterEventType.ASSET_CHECK_EVALUATION.value
            ours = events.c.run_id == RUNLESS_RUN_ID
            old = _older(connection, events, [events.c.asset_key], ours & ~evaluated, of_asset)
            old += _older(connection, events, [events.c.asset_key], ours & evaluated, of_evaluated)
            for some in _chunks(old):
                connection.execute(tags.delete().where(tags.c.event_id.in_(some)))
                connection.execute(events.delete().where(events.c.id.in_(some)))
            gone += len(old)
    with storage.index_connection() as connection:
        one = [executions.c.asset_key, executions.c.check_name]
        old = _older(connection, executions, one, executions.c.run_id == RUNLESS_RUN_ID, of_check)
        for some in _chunks(old):
            connection.execute(executions.delete().where(executions.c.id.in_(some)))
        gone += len(old)
    return gone


def _older(connection: Any, rows: Any, group: Sequence[Any], where: Any, keep: int) -> list[int]:
    number = db.func.row_number().over(partition_by=group, order_by=rows.c.id.desc()).label("number")
    ranked = db.select(rows.c.id, number).where(where).subquery()
    return [row[0] for row in connection.execute(db.select(ranked.c.id).where(ranked.c.number > keep))]


def _chunks(ids: Sequence[int]) -> Iterable[Sequence[int]]:
    return (ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK))
