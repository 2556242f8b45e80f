"""Who reaches a server by a name of its own may read it on this machine; everything else needs the token."""

from __future__ import annotations

import base64
import binascii
import contextlib
import re

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from sparql.server.config import ServerConfig
from sparql.server.problem import Problem

TOKEN = "GRAPHTIDE_TOKEN"


class Gate:
    """Requests that are not addressed to us by name, or need a token and have none, go no further."""

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self.app, self.config, self.names = app, config, config.names()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(Request(scope))
            except Problem as no:
                await no.response()(scope, receive, send)
                return
        await self.app(scope, receive, send)

    def _check(self, request: Request) -> None:
        given = request.headers.getlist("host")
        name = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:/@\s]+)(?::\d+)?", given[0]) if len(given) == 1 else None
        if name is None or name.group(1).strip("[]").rstrip(".").lower() not in self.names:
            raise Problem(
                421,
                "not-our-name",
                f"The request is for {', '.join(given) or 'no host'}, which is not a name of this server. "
                "Use localhost, or add the name to `hosts`.",
            )
        open_to_all = self.config.loopback or request.url.path in ("/health", "/ready")
        if not open_to_all and not self.config.opens(given_token(request)):
            headers = {"WWW-Authenticate": 'Basic realm="Graphtide: the password is the token", Bearer'}
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`.", headers=headers)


def given_token(request: Request, *, basic: bool = True) -> str | None:
    """The secret a request carries, as a bearer token or (`basic`) as a password."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        # Header bytes arrive as Latin-1 whatever they were.
        return value.strip().encode("latin-1", "replace").decode("utf-8", "surrogateescape")
    if basic and scheme.lower() == "basic":  # so that a browser can ask for it
        with contextlib.suppress(binascii.Error, UnicodeDecodeError):
            return base64.b64decode(value).decode().partition(":")[2]
    return None
