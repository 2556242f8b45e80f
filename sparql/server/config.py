"""What the server is allowed to do is decided before it starts, and closed is the default."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


class ServerError(Exception):
    """The server cannot start as configured: `str()` says why and what to change."""


@dataclass(frozen=True)
class ServerConfig:
    """One graph served over HTTP. `token` opens `/writer`, and beyond loopback everything; without one both stay shut.

    `queries` is a folder of `*.rq` files shown as examples; `hosts` are more names this server is reached by.
    """

    state: Path
    base: str
    host: str = "127.0.0.1"
    port: int = 8000
    prefixes: Mapping[str, str] = field(default_factory=dict)
    token: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    queries: Path | None = None
    workers: int = 2
    spares: int = 1
    queue: int = 64
    deadline: float = 30.0
    memory_bytes: int = 2**30
    max_query_bytes: int = 2**20
    max_write_bytes: int = 64 * 2**20
    dagster_url: str | None = None

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    def names(self) -> frozenset[str]:
        """The host names a request may be addressed to, lower case."""
        found = {"localhost", "127.0.0.1", "::1", self.host.strip("[]"), *(name.strip("[]") for name in self.hosts)}
        if not self.loopback:
            found |= {socket.gethostname(), urlsplit(self.base).hostname or "localhost"}
        return frozenset(name.lower() for name in found) - {"0.0.0.0", "::", ""}

    def opens(self, given: str | None) -> bool:
        """Whether this is the token, told in a time that does not depend on how nearly it is."""
        if not self.token or not given:
            return False
        digests = (hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in (given, self.token))
        return hmac.compare_digest(*digests)

    def check(self) -> None:
        """Raise ServerError when this must not be served."""
        if not self.loopback and not self.token:
            raise ServerError(
                f"host = {self.host!r} is reachable from other machines, and there is no token. "
                "Set GRAPHTIDE_TOKEN, or use host = '127.0.0.1'."
            )
