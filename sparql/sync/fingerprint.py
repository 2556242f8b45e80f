"""A record that hashes as it did, under the plan it had, needs no second look."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from sources.record import Record


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return {"set": sorted(map(repr, value))}
    return {type(value).__name__: str(value)}


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=_canonical).encode


def fingerprints(version: str) -> Callable[[Record], str]:
    """A function from a record to the hash of its data (not its locator), keyed with the plan's version."""
    keyed = blake2b(key=version.encode()[:64], digest_size=16)

    def fingerprint(record: Record) -> str:
        digest = keyed.copy()
        try:
            text = _encode(record.data)
        except (TypeError, ValueError):  # keys of mixed types, a value that holds itself
            text = repr(record.data)
        digest.update(text.encode())
        if record.problem:
            digest.update(b"\0" + record.problem.encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    return fingerprint


def combined(hashes: list[str]) -> str:
    """One hash for the several records that claim one key, in any order."""
    return hashes[0] if len(hashes) == 1 else blake2b("".join(sorted(hashes)).encode(), digest_size=16).hexdigest()
