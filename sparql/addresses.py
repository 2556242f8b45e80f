"""An address is public or it is not, whatever notation it comes in; a host that has two readings has none."""

from __future__ import annotations

import ipaddress
import re
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*\Z"
)
_NUMBER = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")

# IANA's special-purpose registries, and one address of a cloud's metadata service that looks public.
_FOUR: tuple[tuple[str, str], ...] = (
    ("0.0.0.0/8", "unspecified"),
    ("10.0.0.0/8", "private"),
    ("100.64.0.0/10", "private"),  # carrier-grade NAT; 100.100.100.200 is Alibaba's metadata service
    ("127.0.0.0/8", "loopback"),
    ("168.63.129.16/32", "link-local"),  # Azure's metadata and DNS
    ("169.254.0.0/16", "link-local"),  # 169.254.169.254 is the metadata service of most clouds
    ("172.16.0.0/12", "private"),
    ("192.0.0.0/24", "reserved"),
    ("192.0.2.0/24", "reserved"),
    ("192.88.99.0/24", "reserved"),
    ("192.168.0.0/16", "private"),
    ("198.18.0.0/15", "private"),
    ("198.51.100.0/24", "reserved"),
    ("203.0.113.0/24", "reserved"),
    ("224.0.0.0/4", "multicast"),
    ("240.0.0.0/4", "reserved"),
)
_SIX: tuple[tuple[str, str], ...] = (
    ("::/128", "unspecified"),
    ("::1/128", "loopback"),
    ("fc00::/7", "private"),  # fd00:ec2::254 is Amazon's metadata service
    ("fec0::/10", "private"),
    ("fe80::/10", "link-local"),
    ("ff00::/8", "multicast"),
    ("2001::/23", "reserved"),  # Teredo and ORCHID among them
    ("2001:db8::/32", "reserved"),
    ("2002::/16", "reserved"),  # 6to4: an address of the other family in disguise
    ("3fff::/20", "reserved"),
)
_NETWORKS = [(ipaddress.ip_network(network), kind) for network, kind in (*_FOUR, *_SIX)]
_GLOBAL_SIX = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
OPENED_BY_NAME = frozenset({"loopback", "private"})
"""What naming a host opens. Link-local, where clouds keep their secrets, is opened by its literal address only."""


def kind_of(address: Address) -> str:
    """`public`, or why it is not: loopback, private, link-local, multicast, reserved, unspecified."""
    address = plain(address)
    for network, kind in _NETWORKS:
        if address.version == network.version and address in network:
            return kind
    if isinstance(address, IPv6Address):
        if address in _NAT64:
            return kind_of(IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_SIX:
            return "reserved"
    return "public"


def plain(address: Address) -> Address:
    """The IPv4 address an IPv4-mapped one is; any other address itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def literal(host: str) -> Address | None:
    """The address a host of a URL is, None when it is a name.

    Raises ValueError for what some program would read as another host: decimal, octal, hexadecimal or short
    addresses, zones, trailing dots, and anything that is not ASCII.
    """
    if host.startswith("[") and host.endswith("]"):
        if "%" in host:
            raise ValueError(f"{host!r} names a zone, which is a network of this machine")
        return ipaddress.IPv6Address(host[1:-1])
    if not _HOST.match(host):
        raise ValueError(f"{host!r} is not a host name in ASCII without a trailing dot")
    if _NUMBER.match(host.rsplit(".", 1)[-1]):
        try:
            return ipaddress.IPv4Address(host)
        except ValueError:
            raise ValueError(f"{host!r} is not an address as a.b.c.d") from None
    return None


def network(text: str) -> IPv4Network | IPv6Network | None:
    """The addresses a text such as `10.0.0.0/8`, `127.0.0.1` or `::1` stands for, None when it is a name."""
    try:
        return ipaddress.ip_network(text.strip("[]"))
    except ValueError:
        return None
