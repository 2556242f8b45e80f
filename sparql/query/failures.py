"""A query that has no whole answer says why in its type, so that nobody has to read the words to know what to do."""

from __future__ import annotations


class QueryFailed(Exception):
    """A query has no whole answer. Its subclasses say why; `str()` is for people, `code` for programs."""

    code = "failed"


class QueryError(QueryFailed, ValueError):
    """The text is not a query we run: `line` and `column` count from 1 and are 0 when unknown."""

    code = "query"

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        self.message, self.line, self.column = message, line, column
        super().__init__(f"line {line}, column {column}: {message}" if line else message)


class QueryTimeout(QueryFailed, TimeoutError):
    """The deadline came before the end of the answer had been taken."""

    code = "timeout"


class QueryTooLarge(QueryFailed, MemoryError):
    """The query needed more memory than it may add to its worker, or more stack than there is."""

    code = "memory"


class AnswerTooLong(QueryFailed):
    """The answer has more than `most` rows or bytes (`what`), and a part of it is not an answer."""

    code = "too-long"

    def __init__(self, what: str, most: int) -> None:
        self.what, self.most = what, most
        super().__init__(
            f"The answer has more than {most:,} {what}, and is not cut short. "
            "Narrow the query, or page through it: ORDER BY, LIMIT and OFFSET at one epoch."
        )


class QueryCancelled(QueryFailed):
    """Whoever asked no longer wants the answer, or somebody stopped it by its id."""

    code = "cancelled"


class PoolBusy(QueryFailed):
    """Nothing was run. `which` says what is full; after about `retry_after` seconds it may not be.

    "client": this client runs and waits for as many as one may. "queue": as many wait as may. "time": no worker was
    free before the deadline. "epochs": as many earlier epochs are held as may be. "closed": the pool is stopping.
    """

    code = "busy"

    def __init__(self, message: str, which: str = "time", retry_after: float = 1.0) -> None:
        self.which, self.retry_after = which, retry_after
        super().__init__(message)


class EpochGone(QueryFailed, LookupError):
    """The graph as `epoch` left it is not kept any more, or never was a commit of its own."""

    code = "epoch-gone"

    def __init__(self, epoch: int, message: str = "") -> None:
        self.epoch = epoch
        super().__init__(message or f"Commit {epoch} is not kept any more. Ask without an epoch, or at a newer one.")


class EpochAhead(QueryFailed, LookupError):
    """No commit `epoch` was there in time: the newest is `head`."""

    code = "epoch-ahead"

    def __init__(self, epoch: int, head: int) -> None:
        self.epoch, self.head = epoch, head
        super().__init__(f"Commit {epoch} is not there yet: the newest is {head}. Ask again in a moment.")


class WorkerLost(QueryFailed, RuntimeError):
    """The worker's process ended in the middle of the query, and not by us. Asking again is safe."""

    code = "lost"
