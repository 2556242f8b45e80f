"""Who reaches a server by a name of its own may read it on this machine; everything else needs a token, or a list."""

from __future__ import annotations

import base64
import binascii
import contextlib
import ipaddress
import re
from dataclasses import replace
from functools import lru_cache

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparql.server import proxy
from sparql.server.config import ServerConfig
from sparql.server.problem import Problem
from sparql.tokens import VARIABLE, Token, TokenError, Tokens

TOKEN = VARIABLE
OPEN = frozenset({"/health", "/ready"})
"""What anyone who reaches the server may ask: a balancer has no token."""
CHALLENGE = {"WWW-Authenticate": 'Basic realm="Graphtide: the password is the token", Bearer'}
METHODS = "GET, HEAD, POST, QUERY"
ASKED = (
    "Authorization, Content-Type, Accept, Accept-Language, If-None-Match, Range, Last-Event-ID, Traceparent, Tracestate"
)
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:/@\s\[\]]+)(?::\d{1,5})?")
_PORTS = {"http": ":80", "https": ":443"}


class Gate:
    """Requests that are not addressed to us by name, come from a foreign page, or lack a token go no further.

    Behind it `request.state.token` is the Token of the request, None without one, and `client`, `scheme`, `host` and
    `root_path` are those the client saw. A page of `cors_origins` reads, and what it sends with a token only reads.
    """

    def __init__(self, app: ASGIApp, config: ServerConfig) -> None:
        self.app, self.config, self.names = app, config, config.names()
        self.trusted = proxy.networks(config.trusted_proxies)
        self.tokens = Tokens(config.state, config.token)
        self.origins = frozenset(config.cors_origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        proxy.behind(scope, self.trusted, self.config.root_path)
        request = Request(scope)
        origin = request.headers.get("origin")
        allowed = origin is not None and (origin in self.origins or "*" in self.origins and origin != "null")
        send = self._labelled(send, origin if allowed else None)
        try:
            if not (self.config.exposed and _route_path(request) in OPEN):  # a probe knows our address only
                self._check_name(request)
            foreign = _foreign(request)
            if foreign and not allowed and not _visit(request):
                raise Problem(
                    403,
                    "foreign-origin",
                    f"A page of {(origin or 'another site')[:200]} asked this. Add its origin to `cors_origins` "
                    "when it may read.",
                )
            if allowed and request.method == "OPTIONS" and "access-control-request-method" in request.headers:
                await _preflight(request, receive, send)
                return
            self._check_token(request, foreign=foreign)
        except Problem as no:
            await no.response()(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _check_name(self, request: Request) -> None:
        given = request.headers.getlist("host")
        name = _HOST.fullmatch(given[0]) if len(given) == 1 else None
        if name is None or name.group(1).strip("[]").rstrip(".").lower() not in self.names:
            raise Problem(
                421,
                "not-our-name",
                f"The request is for {', '.join(given)[:200] or 'no host'}, which is not a name of this server. "
                "Use localhost, or add the name to `hosts` under [server] in graphtide.toml.",
            )

    def _check_token(self, request: Request, *, foreign: bool) -> None:
        """`request.state.token` is set. Raises Problem 401 and 403."""
        # A browser sends a password it remembers by itself, whichever page asks; a bearer token it does not.
        secret = given_token(request, basic=not foreign)
        try:
            token = self.tokens.find(secret)
        except TokenError as damaged:
            raise Problem(503, "tokens-damaged", str(damaged)) from damaged
        if token is not None and foreign:
            token = replace(token, write=(), admin=False, read=token.reads)
        request.state.token = token
        path = _route_path(request)
        if secret is not None and token is None and self.tokens.any():
            raise Problem(401, "wrong-token", "That is not a token of this server.", headers=CHALLENGE)
        if not self.config.exposed or path in OPEN:
            return
        if token is None:
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`.", headers=CHALLENGE)
        if request.method in ("GET", "HEAD", "QUERY"):
            require_read(request, self.config)

    def _labelled(self, send: Send, origin: str | None) -> Send:
        """`send`, with the headers that every answer has, refusals included."""

        async def labelled(message: Message) -> None:
            if message["type"] == "http.response.start":
                raw = message["headers"] = list(message.get("headers", ()))
                said = {name for name, _ in raw}
                raw += [each for each in _SAFE if each[0] not in said]
                headers = MutableHeaders(raw=raw)
                if self.origins:
                    headers.add_vary_header("Origin")
                if origin is not None:
                    headers["Access-Control-Allow-Origin"] = origin
                    headers["Access-Control-Expose-Headers"] = "*"
                    headers["Cross-Origin-Resource-Policy"] = "cross-origin"
            await send(message)

        return labelled


def require_read(request: Request, config: ServerConfig) -> None:
    """The request may read the graph. Raises Problem 403 for a token that only writes, beyond this machine."""
    token: Token | None = getattr(request.state, "token", None)
    if config.exposed and (token is None or not token.reads):
        name = token.name if token is not None else "none"
        raise Problem(403, "no-read", f"The token {name!r} does not read. Use one made with --read.")


def client_of(request: Request) -> str:
    """Who asks, for counting: the token's name, or else the address; one network of IPv6 is one client."""
    token: Token | None = getattr(request.state, "token", None)
    if token is not None:
        return f"token:{token.name}"
    return _network_of(request.client.host if request.client is not None else "local")


@lru_cache(maxsize=4096)
def _network_of(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None and not address.is_loopback:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


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


def _foreign(request: Request) -> bool:
    """Whether a page that is not ours had a browser send this. A program that is no browser says neither."""
    origin = request.headers.get("origin")
    if origin is not None:
        return not _same(origin, request.headers)
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _same(origin: str, headers: Headers) -> bool:
    scheme, _, authority = origin.lower().partition("://")
    default = _PORTS.get(scheme, "")
    # Who ends TLS before us may not say so: the name and the port decide.
    ours = headers.get("host", "").lower()
    return bool(authority) and authority.removesuffix(default) == ours.removesuffix(default)


def _visit(request: Request) -> bool:
    """Whether a person followed a link here: the page they came from sees nothing of it."""
    return (
        request.method in ("GET", "HEAD")
        and "origin" not in request.headers
        and request.headers.get("sec-fetch-mode") == "navigate"
        and request.headers.get("sec-fetch-dest", "document") == "document"
    )


async def _preflight(request: Request, receive: Receive, send: Send) -> None:
    headers = {
        "access-control-allow-methods": METHODS,
        "access-control-allow-headers": ASKED,
        "access-control-max-age": "600",
        "vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers",
    }
    if request.headers.get("access-control-request-private-network") == "true":
        headers["access-control-allow-private-network"] = "true"
    lines = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": 204, "headers": lines})
    await send({"type": "http.response.body", "body": b""})


def _route_path(request: Request) -> str:
    path: str = request.scope["path"]
    return path.removeprefix(request.scope.get("root_path", ""))
