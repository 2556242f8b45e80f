"""What the server is allowed to do is decided before it starts, and closed is the default."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from sparql import addresses
from sparql.outgoing import Outgoing
from sparql.question.modelling import ModelSettings
from sparql.tokens import Tokens

ORIGIN = re.compile(r"https?://(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d+)?")
ROOT_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)+")


class ServerError(Exception):
    """The server cannot start as configured: `str()` says why and what to change."""


@dataclass(frozen=True)
class ServerConfig:
    """One graph served over HTTP. `token` is an admin's; those of `graphtide token` come beside it.

    `queries` is a folder of `*.rq` files shown as examples; `hosts` are more names this server is reached by;
    `backups` is the folder that backups over HTTP go to. docs/settings.md says what the others mean.
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
    warm_bytes: int = 0
    max_rows: int = 0
    max_answer_bytes: int = 0
    pinned_workers: int = 2
    per_client: int = 32
    epoch_seconds: float = 5.0
    max_query_bytes: int = 2**20
    max_write_bytes: int = 64 * 2**20
    max_update_bytes: int = 16 * 2**20
    update_seconds: float = 30.0
    cache_bytes: int = 64 * 2**20
    cache_entry_bytes: int = 256 * 2**10
    compress_from: int = 1024
    buffer_bytes: int = 16 * 2**20
    dagster_url: str | None = None
    cors_origins: tuple[str, ...] = ()
    root_path: str = ""
    trusted_proxies: tuple[str, ...] = ()
    service_allow: tuple[str, ...] = ()
    load_allow: tuple[str, ...] = ()
    context_allow: tuple[str, ...] = ()
    imports_allow: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    service_seconds: float = 10.0
    service_bytes: int = 16 * 2**20
    service_rows: int = 10_000
    service_calls: int = 20
    load_seconds: float = 60.0
    load_bytes: int = 256 * 2**20
    max_header_bytes: int = 64 * 2**10
    header_seconds: float = 10.0
    body_seconds: float = 120.0
    idle_seconds: float = 15.0
    max_connections: int = 1000
    max_client_connections: int = 250
    drain_seconds: float = 5.0
    drain_notice: float = 0.0
    log: str = "text"
    access_log: bool = False
    otel_endpoint: str | None = None
    backups: Path | None = None
    model: ModelSettings | None = field(default=None, repr=False)
    ask_seconds: float = 20.0
    ask_rows: int = 1000
    ask_cites: int = 20
    ask_tokens: int = 1500

    @cached_property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def exposed(self) -> bool:
        """Whether others than the people on this machine may reach the server, so that reading needs a token."""
        return not self.loopback or bool(self.trusted_proxies)

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
        try:
            tokens = Tokens(self.state, self.token)
            readers = self.token is not None or any(token.reads for token in tokens.list())
            Outgoing(self.service_allow, allow_private=self.allow_private)
            for allow in (self.load_allow, self.context_allow, self.imports_allow):
                Outgoing(allow)
            for proxy in self.trusted_proxies:
                if addresses.network(proxy) is None:
                    raise ValueError(f"trusted_proxies: {proxy!r} is not an address or a network such as 10.0.0.0/8.")
            for origin in self.cors_origins:
                if origin != "*" and not ORIGIN.fullmatch(origin):
                    raise ValueError(f"cors_origins: {origin!r} is not an origin such as https://app.example, or '*'.")
        except ValueError as wrong:
            raise ServerError(str(wrong)) from wrong
        if self.root_path and not ROOT_PATH.fullmatch(self.root_path):
            raise ServerError(f"root_path: {self.root_path!r} is not a path such as /graph, without a '/' at its end.")
        if self.exposed and not readers:
            why = (
                "trusted_proxies names a proxy, so others reach the server"
                if self.loopback
                else f"host = {self.host!r} is reachable from other machines"
            )
            raise ServerError(
                f"{why}, and there is no token that reads. Make one with `graphtide token add NAME --read`, "
                "set GRAPHTIDE_TOKEN, or use host = '127.0.0.1' without a proxy."
            )
