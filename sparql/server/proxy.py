"""What a request says about where it came from counts when the address it came from is trusted, and not otherwise."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, MutableMapping, Sequence
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from starlette.datastructures import Headers

from sparql import addresses

Networks = Sequence[IPv4Network | IPv6Network]

_PAIR = re.compile(r'\s*([!#$%&\'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*')
_NODE = re.compile(r"\[?([0-9a-fA-F:.]+?)\]?(?::\d+)?\Z")
_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?\Z")
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*\Z")
MOST_HOPS = 50


def networks(entries: Sequence[str]) -> Networks:
    """The networks of a list of addresses and networks."""
    return [found for entry in entries if (found := addresses.network(entry))]


def trusts(trusted: Networks, address: str) -> bool:
    """Whether the address is one of a trusted proxy."""
    try:
        found = addresses.plain(ipaddress.ip_address(address))
    except ValueError:
        return False
    return any(found in network for network in trusted)


def behind(scope: MutableMapping[str, Any], trusted: Networks, root_path: str) -> None:
    """The scope has client, scheme, host and root path as the client had them, as far as trusted proxies say.

    Read from the nearest proxy outwards: the first address that is not trusted is the client, and nothing it said
    itself counts.
    """
    peer = scope.get("client")
    if trusted and peer and trusts(trusted, str(peer[0])):
        headers = Headers(scope=scope)
        hops = _forwarded(headers) or _x_forwarded(headers)
        said: Mapping[str, str] = {}
        for hop in reversed(hops[-MOST_HOPS:]):
            # Each trusted proxy describes the connection that reached it; the outermost one saw the client's.
            said = {**said, **{key: value for key, value in hop.items() if value}}
            node = _node(hop.get("for", ""))
            if node is None or not trusts(trusted, node):
                break
        client = _node(said.get("for", ""))
        if client is not None:
            scope["client"] = (client, 0)
        if said.get("proto", "").lower() in ("http", "https"):
            scope["scheme"] = said["proto"].lower()
        if _HOST.match(said.get("host", "")):
            scope["headers"] = [pair for pair in scope["headers"] if pair[0] != b"host"]
            scope["headers"].append((b"host", said["host"].encode("latin-1")))
        prefix = headers.get("x-forwarded-prefix", "").rstrip("/")
        if prefix and _PATH.match(prefix) and ".." not in prefix:
            root_path = prefix
    if root_path:
        scope["root_path"] = root_path
        # Some proxies take the prefix off, others leave it on.
        if scope["path"] != root_path and not scope["path"].startswith(root_path + "/"):
            scope["path"] = root_path + scope["path"]


def _forwarded(headers: Headers) -> list[dict[str, str]]:
    """The elements of RFC 7239's header, the client's first; none when there is none or it is malformed."""
    text = ",".join(headers.getlist("forwarded"))
    hops: list[dict[str, str]] = []
    if not text or len(text) > 8192:
        return hops
    at, hop = 0, {}
    while at < len(text):
        pair = _PAIR.match(text, at)
        if pair is None:
            return []
        quoted = re.sub(r"\\(.)", r"\1", pair.group(2)) if pair.group(2) is not None else pair.group(3)
        hop[pair.group(1).lower()] = quoted
        at = pair.end()
        if at < len(text) and text[at] == ",":
            hops.append(hop)
            hop = {}
        elif at < len(text) and text[at] != ";":
            return []
        at += 1
    return [*hops, hop]


def _x_forwarded(headers: Headers) -> list[dict[str, str]]:
    """The same of the headers most proxies write; the nearest one's word for scheme and host counts."""
    hops = [{"for": one.strip()} for one in ",".join(headers.getlist("x-forwarded-for")).split(",")]
    for name in ("proto", "host"):
        hops[-1][name] = ",".join(headers.getlist(f"x-forwarded-{name}")).rsplit(",", 1)[-1].strip()
    return hops


def _node(text: str) -> str | None:
    """The address of a node, None for a name that hides it (`unknown`, `_x`)."""
    found = _NODE.match(text)
    for candidate in (text, found.group(1) if found else ""):
        try:
            return str(addresses.plain(ipaddress.ip_address(candidate.strip("[]"))))
        except ValueError:
            continue
    return None
