"""No spelling of a URL, no answer of a resolver and no list entry reaches an address that was not meant."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from urllib3.util import parse_url

from sparql.outgoing import Outgoing, OutgoingFailed, OutgoingRefused
from sparql.place import NoPlace, allowed, place

# Each is allowed by its own origin, so that only the address stands in the way.
NOT_PUBLIC = [
    "http://127.0.0.1/",
    "http://127.0.0.1:8000/sparql",
    "http://127.255.255.254/",
    "http://0.0.0.0/",
    "http://0.1.2.3/",
    "http://10.0.0.1/",
    "http://100.64.0.1/",
    "http://100.100.100.200/latest/meta-data/",
    "http://168.63.129.16/machine",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.0.0.192/opc/v1/instance/",
    "http://192.0.2.1/",
    "http://192.88.99.1/",
    "http://192.168.1.1/",
    "http://198.18.0.1/",
    "http://198.51.100.7/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::127.0.0.1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::ffff:169.254.169.254]/",
    "http://[::ffff:0:127.0.0.1]/",
    "http://[64:ff9b::127.0.0.1]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[64:ff9b:1::1]/",
    "http://[2001::1]/",
    "http://[2001:0:7f00:1::]/",
    "http://[2001:db8::1]/",
    "http://[2002:7f00:1::]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://[3fff::1]/",
    "http://[100::1]/",
    "http://[5f00::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
]
# Texts that programs read differently: none of them is a URL here, whatever is allowed.
TWO_READINGS = [
    "http://2130706433/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.01/",
    "http://127.0.0.1./",
    "http://localhost./",
    "http://1.2.3.4.5/",
    "http://256.1.1.1/",
    "http://a.example.0x/",
    "http://127。0。0。1/",
    "http://①②⑦.0.0.1/",
    "http://ｌｏｃａｌｈｏｓｔ/",
    "http://ex\u0430mple.org/",
    "http://[fe80::1%25eth0]/",
    "http://[fe80::1%eth0]/",
    "http://[::1/",
    "http://[v1.x]/",
    "http://good.example@127.0.0.1/",
    "http://127.0.0.1@good.example/",
    "http://user:pass@good.example/",
    "http://good.example:80@127.0.0.1/",
    "http://good.example\\@127.0.0.1/",
    "http://127.0.0.1%2f@good.example/",
    "http://good.example%00.evil.example/",
    "http://good%2eexample/",
    "http://good.example:0/",
    "http://good.example:99999/",
    "http://good.example:8o/",
    "http://good.example:٨٠/",
    "http://good.example\t/",
    "http://good.\nexample/",
    "http://good.example/ HTTP/1.1\r\nX: y",
    "http:///sparql",
    "http:good.example/",
    "//good.example/",
    "/sparql",
    "",
    "file:///etc/passwd",
    "ftp://good.example/",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "data:text/turtle,",
    "jar:http://good.example!/",
    "unix:///var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "ldap://good.example/",
    "javascript:alert(1)",
    "http://" + "a" * 300 + "/",
    "http://good.example/" + "a" * 9000,
]


def unreachable(host: str, port: int) -> list[str]:
    raise AssertionError(f"{host} was looked up")


@pytest.mark.parametrize("url", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused_even_on_the_list(url: str) -> None:
    with pytest.raises(OutgoingRefused, match="not a public address"):
        Outgoing([url], resolve=unreachable).get(url, "*/*")


@pytest.mark.parametrize("url", TWO_READINGS)
def test_a_url_with_two_readings_or_another_scheme_is_refused(url: str) -> None:
    with pytest.raises(OutgoingRefused):
        Outgoing(["http://good.example", "https://good.example"], resolve=unreachable).get(url, "*/*")
    with pytest.raises(ValueError, match="Write an origin"):
        allowed(url)


@pytest.mark.parametrize(
    "url",
    [
        "http://good.example/sparql",
        "https://good.example:8443/sparql",
        "https://good.example/",
        "https://good.example/sparqly",
        "https://good.example/other",
        "https://good.example/sparql/../admin",
        "https://good.example/sparql/%2e%2e/admin",
        "https://good.example/sparql/%252e%252e/admin",
        "https://good.example/sparql/..%2fadmin",
        "https://good.example/sparql/..%5cadmin",
        "https://good.example/sparql/..;a/admin",
        "https://good.example/sparql/%c0%ae%c0%ae/admin",
        "https://sub.good.example/sparql",
        "https://good.example.evil.example/sparql",
        "https://evil.example/https://good.example/sparql",
        "https://evil.example/?u=https://good.example/sparql",
        "https://evil.example/#https://good.example/sparql",
    ],
)
def test_only_what_the_list_names_is_requested(url: str) -> None:
    out = Outgoing(["https://good.example/sparql"], resolve=unreachable)
    with pytest.raises(OutgoingRefused):
        out.get(url, "*/*")


def test_without_a_list_nothing_leaves() -> None:
    with pytest.raises(OutgoingRefused, match="not on the list"):
        Outgoing(resolve=unreachable).post("https://good.example/", b"", "text/plain", "*/*")


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://good.example/sparql", True),
        ("https://GOOD.example:443/sparql?query=x", True),
        ("https://good.example/sparql/inner#part", True),
        ("https://open.example:8443/any/where", True),
    ],
)
def test_an_origin_opens_all_of_it_and_a_prefix_what_is_under_it(url: str, allowed: bool) -> None:
    assert Outgoing(["https://good.example/sparql", "https://open.example:8443"]).check(url)


@pytest.mark.parametrize(
    "found",
    [
        ["127.0.0.1"],
        ["::1"],
        ["10.1.2.3"],
        ["::ffff:10.1.2.3"],
        ["169.254.169.254"],
        ["93.184.216.34", "127.0.0.1"],
        ["2606:4700::1111", "fd00::1"],
        ["64:ff9b::7f00:1"],
        ["0.0.0.0"],
    ],
)
def test_a_name_with_any_address_that_is_not_public_is_refused(found: list[str]) -> None:
    with pytest.raises(OutgoingRefused, match="not a public address"):
        Outgoing(["http://good.example"], resolve=lambda host, port: found).get("http://good.example/", "*/*")


@pytest.mark.parametrize(
    ("address", "private", "reached"),
    [
        ("10.1.2.3", "good.example", True),
        ("127.0.0.1", "good.example", True),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("10.1.2.3", "10.1.2.3", True),
        ("fd00::7", "fd00::/8", True),
        ("::ffff:10.1.2.3", "10.1.2.3", True),
        ("10.1.2.4", "10.1.2.3", False),
        ("169.254.169.254", "169.254.169.254", True),
        ("169.254.169.254", "good.example", False),
        ("0.0.0.0", "good.example", False),
        ("0.0.0.0", "0.0.0.0/0", False),
        ("224.0.0.1", "224.0.0.1", False),
        ("10.1.2.3", "other.example", False),
    ],
)
def test_a_private_address_is_reached_only_when_it_or_its_host_is_named(
    address: str, private: str, reached: bool
) -> None:
    out = Outgoing(["http://good.example"], allow_private=[private], resolve=lambda host, port: [address])
    target = out.check("http://good.example/")
    if reached:
        assert out._addresses(target, float("inf"))
    else:
        with pytest.raises(OutgoingRefused):
            out._addresses(target, float("inf"))


@pytest.mark.parametrize(
    "entry", ["*", "good.example", "https://*.example/", "https://good.example/?a=b", "http://x y/"]
)
def test_a_list_entry_that_says_nothing_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(ValueError, match="Write an origin"):
        Outgoing([entry])


@pytest.mark.parametrize("entry", ["*", "http://10.0.0.1/", "10.0.0.1/33", "2130706433", "a b"])
def test_a_private_host_that_is_none_is_refused_at_the_start(entry: str) -> None:
    with pytest.raises(ValueError, match="allow_private"):
        Outgoing([], allow_private=[entry])


def test_a_name_that_is_not_found_says_so() -> None:
    def nobody(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(OutgoingFailed, match=r"good\.example is not found: no such name"):
        Outgoing(["http://good.example"], resolve=nobody).get("http://good.example/", "*/*")


_PIECES = st.sampled_from(
    [
        "http:",
        "https:",
        "//",
        "/",
        "\\",
        "@",
        ":",
        "?",
        "#",
        "[",
        "]",
        "%",
        "%2e",
        "%2f",
        "..",
        ".",
        ";",
        "good.example",
    ]
    + ["127.0.0.1", "::1", "0x7f", "80", "0", "x", "\t", "\n", " ", "\u3002", "\uff0f", "\u0430", "&", "=", "^", "|"]
)


@given(st.lists(_PIECES, max_size=10).map(lambda pieces: "http://" + "".join(pieces)))
@example("http://good.example/a?b#c")
def test_what_is_taken_for_a_url_is_read_alike_by_every_reader(url: str) -> None:
    try:
        found = place(url)
    except NoPlace:
        return
    standard, library = urlsplit(url), parse_url(url)
    host = found.host.strip("[]")
    assert (standard.hostname or "", (library.host or "").strip("[]").lower()) == (host, host) or "[" in url
    assert {standard.port or None, library.port or None} <= {None, found.port}
    again = place(str(found) + (f"?{found.query}" if found.query else ""))
    assert again == found
