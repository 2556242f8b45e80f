"""A request leaves this machine only for a place the user named, and only to an address that was looked at."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from http.client import HTTPException
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urljoin

from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError
from urllib3.response import BaseHTTPResponse

from sparql import addresses
from sparql.addresses import Address
from sparql.place import NoPlace, Place, allowed, place, private_host, within

Resolve = Callable[[str, int], Iterable[str]]
PIECE = 65536
BROKEN = (OSError, HTTPException, HTTPError)


class OutgoingError(Exception):
    """A request to another server has no answer: `str()` says which and why."""


class OutgoingRefused(OutgoingError):
    """The request was not made, or a redirect not followed: its target is not allowed."""


class OutgoingFailed(OutgoingError):
    """The request was allowed, and the other server gave no answer that could be taken."""


class OutgoingTooLong(OutgoingFailed):
    """The other server has more to say than is taken."""


class Got(NamedTuple):
    """A response of 200: its media type, lower case and without parameters, and its decoded bytes."""

    content_type: str
    body: bytes


class Outgoing:
    """Requests to the places in `allow`, origins or URL prefixes; without any, nothing leaves.

    A host whose address is not public is reached only when `allow_private` names it: a host name opens loopback and
    private networks, a literal address or network opens itself. `seconds` is the whole time of one call with its
    redirects, `max_bytes` counts decoded bytes. Use it from any thread. Raises ValueError for a list that says nothing.
    """

    def __init__(
        self,
        allow: Sequence[str] = (),
        *,
        allow_private: Sequence[str] = (),
        max_bytes: int = 16 * 2**20,
        seconds: float = 10.0,
        max_redirects: int = 3,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.allow = tuple(allowed(entry) for entry in allow)
        self.networks = tuple(found for entry in allow_private if (found := addresses.network(entry)))
        self.hosts = frozenset(private_host(entry) for entry in allow_private if addresses.network(entry) is None)
        self.max_bytes, self.seconds, self.max_redirects = max_bytes, seconds, max_redirects
        self._resolve = resolve or system_resolve
        self._tls = tls

    def get(self, url: str, accept: str, *, ends: float | None = None, max_bytes: int | None = None) -> Got:
        """What is at `url`, in one of the media types of `accept`; `ends` is an earlier end, as time.monotonic().

        Raises OutgoingRefused and OutgoingFailed.
        """
        return self._call("GET", url, None, None, accept, ends, max_bytes)

    def post(
        self, url: str, data: bytes, type: str, accept: str, *, ends: float | None = None, max_bytes: int | None = None
    ) -> Got:
        """The answer to `data` sent to `url`; otherwise as `get`."""
        return self._call("POST", url, data, type, accept, ends, max_bytes)

    def check(self, url: str) -> Place:
        """Where the URL points. Raises OutgoingRefused when it is not on the list; no name is resolved."""
        try:
            found = place(url)
        except NoPlace as wrong:
            raise OutgoingRefused(str(wrong)) from None
        if not any(within(found, entry) for entry in self.allow):
            raise OutgoingRefused(f"{found} is not on the list of what may be requested.")
        if found.address is not None:
            self._check_address(found, found.address)
        return found

    # -- one call

    def _call(
        self, method: str, url: str, data: bytes | None, type: str | None, accept: str,
        ends: float | None, max_bytes: int | None,
    ) -> Got:  # fmt: skip
        until = min(time.monotonic() + self.seconds, ends if ends is not None else float("inf"))
        most = self.max_bytes if max_bytes is None else min(max_bytes, self.max_bytes)
        at, followed = url, 0
        while True:
            target = self.check(at)
            found = self._once(method, target, data, type, accept, until, most)
            if isinstance(found, Got):
                return found
            status, location = found
            followed += 1
            if followed > self.max_redirects:
                raise OutgoingFailed(f"{url[:200]} redirects more than {self.max_redirects} times.")
            if method == "POST" and status in (301, 302):
                raise OutgoingFailed(
                    f"{target} answers {status} to a POST, which loses what was posted. Use {location[:200]!r} itself."
                )
            if status == 303:
                method, data, type = "GET", None, None
            at = urljoin(at, location)

    def _once(
        self, method: str, target: Place, data: bytes | None, type: str | None, accept: str, until: float, most: int
    ) -> Got | tuple[int, str]:
        """The answer, or status and target of a redirect."""
        headers = {
            "Host": target.authority,
            "Accept": accept,
            "Accept-Encoding": "gzip",
            "User-Agent": "graphtide",
            "Connection": "close",
        }
        if type is not None:
            headers["Content-Type"] = type
        with self._connected(target, until) as connection:
            try:
                connection.request(
                    method, target.target, body=data, headers=headers, preload_content=False, decode_content=False
                )
                response = connection.getresponse()
                _left(until, target)  # headers that were cut off at the deadline look whole
                if response.status not in (301, 302, 303, 307, 308):
                    return _taken(response, target, accept, until, most)
                location = response.headers.get("Location", "")
                if not location:
                    raise OutgoingFailed(f"{target} answers {response.status} without saying where to go.")
                return response.status, location
            except BROKEN as wrong:
                _left(until, target)
                raise OutgoingFailed(f"{target} broke off: {_reason(wrong)}.") from wrong

    @contextlib.contextmanager
    def _connected(self, target: Place, until: float) -> Iterator[HTTPConnection]:
        """A connection to the first address that takes one; it is over at `until`, whatever the other side does."""
        last: Exception | None = None
        for address in self._addresses(target, until):
            try:
                sock = self._open(target, address, until)
                break
            except OSError as wrong:  # the next address may answer; nothing was sent
                last = wrong
        else:
            _left(until, target)
            raise OutgoingFailed(f"{target} is not reached: {_reason(last)}.") from last
        connection = HTTPConnection(target.host, target.port, timeout=_left(until, target))
        connection.sock = sock
        done = threading.Event()

        def end() -> None:
            if not done.wait(max(0.0, until - time.monotonic())):
                with contextlib.suppress(OSError):  # not SSLSocket's own, which is not for two threads
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)

        threading.Thread(target=end, name="graphtide-outgoing", daemon=True).start()
        try:
            yield connection
        finally:
            done.set()
            connection.close()
            sock.close()

    def _open(self, target: Place, address: Address, until: float) -> socket.socket:
        # The address that was checked is what is connected to: no name is looked up again. TLS still proves the name.
        sock = socket.create_connection((str(address), target.port), timeout=_left(until, target))
        if target.scheme == "http":
            return sock
        try:
            sock.settimeout(_left(until, target))
            name = str(target.address) if target.address is not None else target.host
            return (self._tls or ssl.create_default_context()).wrap_socket(sock, server_hostname=name)
        except BaseException:
            sock.close()
            raise

    def _addresses(self, target: Place, until: float) -> list[Address]:
        """Where the host is, every one of its addresses allowed. Raises OutgoingRefused, OutgoingFailed."""
        if target.address is not None:
            return [addresses.plain(target.address)]
        try:
            texts = _within_time(lambda: list(self._resolve(target.host, target.port)), _left(until, target))
            every = list(dict.fromkeys(ip_address(text) for text in texts))
        except TimeoutError as wrong:
            raise OutgoingFailed(f"{target.host} was not found in time.") from wrong
        except (OSError, ValueError) as wrong:
            raise OutgoingFailed(f"{target.host} is not found: {wrong}.") from wrong
        if not every:
            raise OutgoingFailed(f"{target.host} has no address.")
        for address in every:  # one public address among private ones is how a name is made to pass
            self._check_address(target, address)
        return [addresses.plain(one) for one in every]

    def _check_address(self, target: Place, address: Address) -> None:
        kind = addresses.kind_of(address)
        plain = addresses.plain(address)
        if kind == "public":
            return
        if kind not in ("unspecified", "multicast", "reserved"):
            if any(plain in network for network in self.networks):
                return
            if target.address is None and target.host in self.hosts and kind in addresses.OPENED_BY_NAME:
                return
        raise OutgoingRefused(
            f"{target} is not requested: {address} is {kind}, not a public address. "
            "Name it in `allow_private` when that is meant."
        )


def system_resolve(host: str, port: int) -> list[str]:
    """The addresses the system finds for a host."""
    return [str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def _within_time(work: Callable[[], list[str]], seconds: float) -> list[str]:
    """What `work` finds. Raises what it raises, and TimeoutError: the system's resolver has no deadline of its own."""
    done: Future[list[str]] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as wrong:
            done.set_exception(wrong)

    threading.Thread(target=run, name="graphtide-resolve", daemon=True).start()
    return done.result(seconds)


def _left(until: float, target: Place) -> float:
    left = until - time.monotonic()
    if left <= 0:
        raise OutgoingFailed(f"{target} did not answer in time.")
    return left


def _reason(wrong: Exception | None) -> str:
    """Why, as the library that knows says it, without its wrapping."""
    said = getattr(wrong, "verify_message", None) or getattr(wrong, "strerror", None) or str(wrong or "")
    return str(said).rstrip(".") or type(wrong).__name__


def _taken(response: BaseHTTPResponse, target: Place, accept: str, until: float, most: int) -> Got:
    """The body of a response of 200 in a type that was asked for, decoded, of at most `most` bytes."""
    if response.status != 200:
        raise OutgoingFailed(f"{target} answers {response.status} {(response.reason or '')[:80]}".rstrip() + ".")
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    asked = {part.partition(";")[0].strip().lower() for part in accept.split(",")}
    if kind not in asked and "*/*" not in asked:
        raise OutgoingFailed(f"{target} answers {kind[:80] or 'no type'!r}, and {accept} was asked for.")
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "x-gzip"):
        raise OutgoingFailed(f"{target} answers in the coding {coding[:40]!r}, which was not asked for.")
    said = response.headers.get("Content-Length", "")
    body = bytearray()
    if said.isdigit() and int(said) > most:
        raise _too_long(target, most)
    for piece, read in _decoded(response, "gzip" in coding, most):
        _left(until, target)
        body += piece
        if max(len(body), read) > most:
            raise _too_long(target, most)
    _left(until, target)
    return Got(kind, bytes(body))


def _decoded(response: BaseHTTPResponse, packed: bool, most: int) -> Iterator[tuple[bytes, int]]:
    """The pieces of a body, none longer than `most` + 1, with the bytes read so far.

    Raises OutgoingFailed when the compression is broken or cut.
    """
    unpack, taken = zlib.decompressobj(31), 0
    while raw := response.read(PIECE, decode_content=False):
        taken += len(raw)
        if not packed:
            yield raw, taken
            continue
        while raw:
            if unpack.eof:
                unpack = zlib.decompressobj(31)
            try:
                yield unpack.decompress(raw, most + 1), taken  # members that unpack to nothing are long all the same
            except zlib.error as wrong:
                raise OutgoingFailed(f"The answer is not gzip as it says: {wrong}.") from wrong
            raw = unpack.unconsumed_tail or unpack.unused_data
    if packed and not unpack.eof:
        raise OutgoingFailed("The answer breaks off inside its compression.")


def _too_long(target: Place, most: int) -> OutgoingTooLong:
    return OutgoingTooLong(f"{target} answers more than {most:,} bytes.")
