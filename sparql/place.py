"""A URL has one reading or it is no place to go: what is checked is what is connected to."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from sparql import addresses
from sparql.addresses import Address

PORTS = {"http": 80, "https": 443}
LONGEST_URL = 8192


class NoPlace(ValueError):
    """A URL with no reading, or more than one: `str()` says why."""


@dataclass(frozen=True)
class Place:
    """Where a URL points, in one spelling: what is checked is what is connected to."""

    scheme: str
    host: str
    port: int
    path: str
    query: str
    address: Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The Host header."""
        return self.host if PORTS[self.scheme] == self.port else f"{self.host}:{self.port}"

    @property
    def target(self) -> str:
        """The request target."""
        return self.path + (f"?{self.query}" if self.query else "")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def place(url: str) -> Place:
    """The one reading of a URL. Raises NoPlace for a URL that has none, or more than one."""

    def refuse(why: str) -> NoPlace:
        return NoPlace(f"{url[:200]!r} is not requested: {why}.")

    if len(url) > LONGEST_URL:
        raise refuse(f"it is longer than {LONGEST_URL:,} characters")
    # Tabs and newlines first: urlsplit takes them out without a word.
    if any(letter <= " " or letter in '\\<>"{}|^`\x7f' for letter in url):
        raise refuse('it holds a space, a control character or one of \\ < > " { } | ^ `')
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as wrong:
        raise refuse(str(wrong)) from None
    if parts.scheme not in PORTS:
        raise refuse("only http and https are")
    if "@" in parts.netloc:
        raise refuse("it holds a user name or password")
    host = parts.netloc.lower()
    host = host[: host.index("]") + 1] if host.startswith("[") and "]" in host else host.partition(":")[0]
    try:
        address = addresses.literal(host)
    except ValueError as wrong:
        raise refuse(str(wrong)) from None
    if port == 0:
        raise refuse("port 0 is none")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    # A server may read %2e%2e, %2f or %5c as what they stand for, and so leave the allowed path.
    plain = unquote(unquote(path))
    if any(segment.partition(";")[0] in (".", "..") for segment in plain.replace("\\", "/").split("/")):
        raise refuse("its path holds '.' or '..'")
    if "\ufffd" in plain:
        raise refuse("its path is not UTF-8")
    if not path.startswith("/"):
        raise refuse("its path does not start with '/'")
    if address is not None and address.version == 6:
        host = f"[{address.compressed}]"
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return Place(parts.scheme, host, port or PORTS[parts.scheme], path, query, address)


def allowed(entry: str) -> Place:
    """An entry of an allow-list: an origin, or a URL prefix. Raises ValueError saying what to write."""
    try:
        found = place(entry)
    except NoPlace as no:
        raise ValueError(f"{no} Write an origin or a URL prefix such as https://query.example/sparql.") from None
    if found.query or "?" in entry or "#" in entry:
        raise ValueError(f"{entry!r} holds '?' or '#'. Write an origin or a URL prefix.")
    return found


def private_host(entry: str) -> str:
    """A host name of `allow_private`. Raises ValueError for what is none."""
    host = entry.lower()
    try:
        if addresses.literal(host) is None:
            return host
    except ValueError as wrong:
        raise ValueError(
            f"allow_private: {wrong}. Write a host name, an address, or a network as 10.0.0.0/8."
        ) from None
    raise ValueError(f"allow_private: {entry!r} is not a host name, an address or a network.")


def within(target: Place, entry: Place) -> bool:
    """Whether `target` is in the origin of `entry`, at its path or under it."""
    if target.origin != entry.origin:
        return False
    prefix = entry.path
    return prefix == "/" or target.path == prefix or target.path.startswith(prefix.rstrip("/") + "/")
