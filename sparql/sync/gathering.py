"""Whatever a source does wrong is about one scope or one source, and is said in a batch rather than raised."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sources.record import Batch, ReadError, Record, ScopedSource, Source, SourceError
from sparql.sync.known import Graph, cursors, scopes_of
from sparql.sync.plan import Plan


def batches_of(store: Graph, plan: Plan, source: Source, scopes: Iterable[str] | None = None) -> Iterator[Batch]:
    """What there is to read of a source: all of it, or these scopes.

    Scopes that did not change since they were read under this plan are left out; scopes the graph knows and the source
    has no more are empty complete batches. Raises SourceError, also for what a source of the user's own raises.
    """
    known = cursors(store, plan.source, plan.version) if plan is not None else {}
    try:
        if isinstance(source, ScopedSource):
            yield from _scoped(store, plan, source, known, scopes)
        else:
            yield from source.read(_cursor(known))
    except SourceError:
        raise
    except Exception as wrong:  # a user's code: whatever it raises is about this source
        raise SourceError(f"{plan.source}: {type(wrong).__name__}: {wrong}") from wrong


def _scoped(
    store: Graph, plan: Plan, source: ScopedSource, known: dict[str, str], scopes: Iterable[str] | None
) -> Iterator[Batch]:
    if scopes is None:
        scopes = source.scopes()
        for text in getattr(source, "missing", list)():
            yield Batch(plan.source, text, (), notes=(f"{text}: there is no such file",))
        # Whether its file still lies there or not, what the source no longer names is gone from it.
        for scope in sorted(set(scopes_of(store, plan.source)) - set(scopes)):
            yield Batch(plan.source, scope, ())
    for scope in scopes:
        try:
            batch = source.read_scope(scope, known.get(scope))
        except ReadError as wrong:
            batch = unreadable(plan.source, scope, wrong)
        if batch is not None:
            yield batch


def _cursor(known: dict[str, str]) -> str | None:
    # A source without scopes of its own has one cursor: the newest of what it gave.
    return next(iter(known.values())) if len(known) == 1 else max(known.values(), default=None)


def unreadable(source: str, scope: str, wrong: ReadError) -> Batch:
    """A batch that says that its scope cannot be read."""
    return Batch(source, scope, _Raises(wrong))


class _Raises:
    def __init__(self, wrong: ReadError) -> None:
        self._wrong = wrong

    def __iter__(self) -> Iterator[Record]:
        raise self._wrong
