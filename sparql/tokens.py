"""A token says who may read and who may write what; what is kept of it can be checked and not be used.

`.graphtide/tokens.json` (mode 0600) holds a SHA-256 digest for each token: a secret is 256 random bits, so there is
nothing to guess and nothing to slow down. A change of the file is in force at the next request of any process.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "tokens.json"
LOCK = "tokens.lock"
VARIABLE = "GRAPHTIDE_TOKEN"
ENVIRONMENT = "admin"
"""The name of the token that the environment variable holds."""
ALL, DEFAULT = "*", ""
"""What a token's `write` names besides graphs: every graph, and the default graph."""
PREFIX = "gt_"
MOST = 10_000

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}\Z")


class TokenError(ValueError):
    """A token that cannot be made or is not there: `str()` says what to do instead."""


@dataclass(frozen=True, slots=True)
class Token:
    """What whoever holds the secret may do. `write` names graphs by IRI, "" the default graph, "*" all of them."""

    name: str
    read: bool = False
    write: tuple[str, ...] = ()
    admin: bool = False
    created: str = ""

    def writes(self, graph: str) -> bool:
        """Whether the token may write to the graph ("" is the default graph)."""
        return self.admin or ALL in self.write or graph in self.write

    @property
    def reads(self) -> bool:
        return self.read or self.admin

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "write": list(self.write)}


ADMIN = Token(ENVIRONMENT, read=True, write=(ALL,), admin=True)


class Tokens:
    """The tokens of one state folder. Any number of processes may hold one; each sees the others' changes at once."""

    def __init__(self, state: Path, environment: str | None = None) -> None:
        """`environment` is the secret that GRAPHTIDE_TOKEN holds, if any: an admin's."""
        self.path = Path(state) / FILE
        self._environment = _digest(environment) if environment else None
        self._seen: tuple[int, ...] | None = None
        self._rows: tuple[tuple[bytes, Token], ...] = ()

    def find(self, secret: str | None) -> Token | None:
        """The token of a secret, in a time that does not tell how nearly it is one; None when it is none."""
        if not secret:
            return None
        given, found = _digest(secret), None
        for digest, token in self._current():
            if hmac.compare_digest(given, digest):
                found = token
        if self._environment is not None and hmac.compare_digest(given, self._environment):
            found = ADMIN
        return found

    def any(self) -> bool:
        """Whether there is a token at all."""
        return self._environment is not None or bool(self._current())

    def named(self, name: str) -> Token | None:
        """The token of that name."""
        if name == ENVIRONMENT:
            return ADMIN if self._environment is not None else None
        return next((token for _, token in self._current() if token.name == name), None)

    def list(self) -> list[Token]:
        """The tokens of the file, by name; the environment's is not among them."""
        return sorted((token for _, token in self._current()), key=lambda token: token.name)

    def add(self, name: str, *, read: bool = False, write: Iterable[str] = (), admin: bool = False) -> str:
        """Make a token; returns its secret, which is nowhere else. Raises TokenError."""
        if not _NAME.match(name) or name == ENVIRONMENT:
            taken = f"is what {VARIABLE} is called" if name == ENVIRONMENT else "is no name for a token"
            raise TokenError(f"{name!r} {taken}. Use up to 100 letters, digits, '_', '-' and '.'.")
        graphs = tuple(dict.fromkeys(write))
        for graph in graphs:
            if graph not in (ALL, DEFAULT) and (":" not in graph or re.search(r"[\x00-\x20<>\"{}|\\^`]", graph)):
                raise TokenError(f"{graph!r} is not the IRI of a graph. Write an absolute IRI, or 'default'.")
        if not (read or graphs or admin):
            raise TokenError(f"{name!r} would allow nothing. Give it --read, --write GRAPH, --write-all or --admin.")
        secret = PREFIX + secrets.token_urlsafe(32)
        with _changing(self.path) as rows:
            if any(row["name"] == name for row in rows):
                raise TokenError(f"There is a token {name!r} already. Revoke it first, or choose another name.")
            if len(rows) >= MOST:
                raise TokenError(f"There are {MOST} tokens already. Revoke some.")
            now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
            token = Token(name, read, graphs, admin, now)
            rows.append({**token.to_dict(), "sha256": _digest(secret).hex()})
        return secret

    def revoke(self, name: str) -> None:
        """The token opens nothing from now on. What it wrote stays. Raises TokenError when there is none."""
        if name == ENVIRONMENT:
            raise TokenError(f"{name!r} is what {VARIABLE} holds. Unset the variable where the server is started.")
        with _changing(self.path) as rows:
            left = [row for row in rows if row["name"] != name]
            if len(left) == len(rows):
                known = ", ".join(str(row["name"]) for row in rows) or "none"
                raise TokenError(f"There is no token {name!r}. There is: {known}.")
            rows[:] = left

    def _current(self) -> tuple[tuple[bytes, Token], ...]:
        try:
            about = os.stat(self.path)
        except OSError:
            self._seen, self._rows = None, ()
            return ()
        seen = (about.st_mtime_ns, about.st_ino, about.st_size, about.st_ctime_ns)
        if seen != self._seen:
            self._rows = tuple((bytes.fromhex(str(row["sha256"])), _token(row)) for row in _read(self.path))
            self._seen = seen
        return self._rows


@contextmanager
def _changing(path: Path) -> Iterator[list[dict[str, Any]]]:
    """The rows, to be changed in place; they are written whole when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = os.open(path.with_name(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = _read(path)
        yield rows
        part = path.with_name(f".{FILE}.{os.getpid()}.part")
        made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            os.fchmod(made, 0o600)  # the part may be left from a crash, with other rights
            with os.fdopen(made, "w", encoding="utf-8") as file:
                json.dump({"format": 1, "tokens": rows}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    finally:
        os.close(lock)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        found = json.loads(path.read_text("utf-8"))
        rows = list(found["tokens"])
        for row in rows:
            _token(row)
            bytes.fromhex(row["sha256"])
        return rows
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as wrong:
        raise TokenError(f"{path} is damaged ({wrong}). Remove it and make the tokens again.") from wrong


def _token(row: Mapping[str, Any]) -> Token:
    return Token(
        str(row["name"]), bool(row["read"]), tuple(map(str, row["write"])), bool(row["admin"]),
        str(row.get("created", "")),
    )  # fmt: skip
