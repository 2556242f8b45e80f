"""A small answer is kept until a commit touches what its query reads, however many others come before that."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

from sparql.server import compress, negotiate

# What a kept answer costs besides its bytes and its key's.
OVERHEAD = 600


@dataclass(slots=True)
class Kept:
    """A whole answer: the same at every commit from its own on, while `validator` is the last that touched it."""

    validator: int
    kind: str
    format: str
    content_type: str
    body: bytes
    coded: dict[str, bytes] = field(default_factory=dict)

    def bytes_in(self, coding: str) -> bytes:
        """The body in this coding, made once."""
        if coding == negotiate.IDENTITY:
            return self.body
        found = self.coded.get(coding)
        if found is None:
            found = self.coded[coding] = compress.whole(coding, self.body)
        return found


class Cache:
    """Answers by what was asked, at most `most_bytes` of them; the one unused the longest goes first."""

    def __init__(self, most_bytes: int, longest: int) -> None:
        self.most_bytes, self.longest = most_bytes, min(longest, most_bytes // 4)
        self.bytes = self.hits = self.misses = 0
        self._kept: OrderedDict[Hashable, tuple[Kept, int]] = OrderedDict()

    def get(self, key: Hashable, validator: int) -> Kept | None:
        """The answer, if nothing it read was touched since."""
        found = self._kept.get(key)
        if found is None or found[0].validator != validator:
            self.misses += 1
            return None
        self._kept.move_to_end(key)
        self.hits += 1
        return found[0]

    def put(self, key: Hashable, kept: Kept, text: str) -> None:
        """The answer is kept, if it is one to keep; `text` is the longest part of the key."""
        # Its codings are made when they are asked for, and are smaller than it.
        size = 2 * len(kept.body) + 4 * len(text) + OVERHEAD
        if len(kept.body) > self.longest or size > self.most_bytes:
            return
        self._drop(key)
        self._kept[key] = (kept, size)
        self.bytes += size
        while self.bytes > self.most_bytes:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def __len__(self) -> int:
        return len(self._kept)


class Flights:
    """Of identical questions at one time one is asked; the others wait until it is known whether its answer is kept."""

    def __init__(self) -> None:
        self._flying: dict[Hashable, asyncio.Future[bool]] = {}

    def join(self, key: Hashable) -> asyncio.Future[bool] | None:
        """What to wait for before looking into the cache; None for whoever is first, who must `land`."""
        found = self._flying.get(key)
        if found is None:
            self._flying[key] = asyncio.get_running_loop().create_future()
        return found

    def land(self, key: Hashable, *, failed: bool = False) -> None:
        """The first of them has its answer, or will not keep it, or `failed`: nobody waits for it any more."""
        found = self._flying.pop(key, None)
        if found is not None and not found.done():
            found.set_result(failed)
