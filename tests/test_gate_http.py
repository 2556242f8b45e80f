"""Who may ask what: by name, from which page, with which token, through which proxy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from starlette.requests import Request

from sparql.log import Change
from sparql.server.config import ServerConfig, ServerError
from sparql.server.gate import client_of
from sparql.store import Store, open_store
from sparql.tokens import Token, Tokens
from tests.served import Served, serve, talk

BASE = "https://e.example/"
APP, EVIL = "https://app.example", "https://evil.example"
ADMIN = "open-sesame"
ASK = "sparql?query=ASK%7B%7D"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("gate") / ".graphtide", BASE) as found:
        found.commit(Change({}, {"": frozenset({f"<{BASE}s> <{BASE}p> <{BASE}o>"})}))
        found.checkpoint()
        yield found


@pytest.fixture(scope="module")
def secrets(store: Store) -> dict[str, str]:
    tokens = Tokens(store.state)
    return {
        "read": tokens.add("reader", read=True),
        "write": tokens.add("writer", write=["*"]),
        "admin": tokens.add("root", admin=True),
        "gone": tokens.add("gone", read=True),
    }


@pytest.fixture(scope="module")
def closed(store: Store, secrets: dict[str, str]) -> Iterator[Served]:
    with serve(store.state, BASE, token=ADMIN, hosts=("graph.example",)) as found:
        yield found


@pytest.fixture(scope="module")
def shared_with(store: Store, secrets: dict[str, str]) -> Iterator[Served]:
    """A server that a page of another origin may read."""
    with serve(store.state, BASE, token=ADMIN, cors_origins=(APP,)) as found:
        yield found


@pytest.fixture(scope="module")
def proxied(store: Store, secrets: dict[str, str]) -> Iterator[Served]:
    options: dict[str, Any] = {"trusted_proxies": ("127.0.0.1", "10.0.0.0/8"), "hosts": ("graph.example",)}
    with serve(store.state, BASE, token=ADMIN, root_path="/graph", access_log=True, **options) as found:
        yield found


def get(server: Served, path: str = ASK, **headers: str) -> requests.Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return requests.get(server.url + path, headers=named, timeout=20, allow_redirects=False)


def bearer(secret: str) -> str:
    return f"Bearer {secret}"


# -- names


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:{port}", "[::1]:1", "graph.example", "localhost."]
)
def test_a_name_of_ours_is_answered(closed: Served, host: str) -> None:
    assert get(closed, Host=host.format(port=closed.port)).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "169.254.169.254", "localhost@evil.example", "",
     "[::2]", "e.example", "localhost:80:80", "localhost/x", "0.0.0.0", "local host"],
)  # fmt: skip
def test_a_request_for_another_name_is_misdirected(closed: Served, host: str) -> None:
    found = talk(closed.port, f"GET /{ASK} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert found.status == 421, found.raw


def test_a_request_without_a_name_or_with_two_is_misdirected(closed: Served) -> None:
    assert talk(closed.port, f"GET /{ASK} HTTP/1.0\r\n\r\n".encode()).status == 421
    two = f"GET /{ASK} HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert talk(closed.port, two.encode()).status in (400, 421)
    spoofed = f"GET /{ASK} HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\n\r\n"
    assert talk(closed.port, spoofed.encode()).status == 421


# -- pages of other origins


FOREIGN: list[dict[str, str]] = [
    {"Origin": EVIL},
    {"Origin": "null"},
    {"Origin": "https://localhost.evil.example"},
    {"Origin": "http://localhost:1"},
    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "image"},
    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"},
    {"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "empty"},
    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"},
    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "object"},
]


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", [ASK, "ready", "api/status", "metrics", ""])
def test_a_foreign_page_reads_nothing_and_costs_nothing(closed: Served, headers: dict[str, str], path: str) -> None:
    found = get(closed, path, **headers)
    assert (found.status_code, found.json()["code"]) == (403, "foreign-origin")
    assert not [name for name in found.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "QUERY"])
@pytest.mark.parametrize("path", ["sparql", "store?default", "writer", "api/sync", "api/backup"])
def test_a_foreign_page_changes_nothing_whatever_it_sends_along(closed: Served, method: str, path: str) -> None:
    for more in ({"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}):
        headers = {**more, "Authorization": bearer(ADMIN), "Access-Control-Request-Method": "PUT"}
        form = {"update": "INSERT DATA { <urn:a> <urn:b> <urn:c> }"}
        assert requests.request(method, closed.url + path, headers=headers, data=form, timeout=20).status_code == 403


def test_a_link_from_elsewhere_is_followed_and_not_framed(closed: Served) -> None:
    found = get(closed, "", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate", Sec_Fetch_Dest="document")
    assert found.status_code == 200
    assert found.headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in found.headers["Content-Security-Policy"]


def test_our_own_page_and_a_program_without_a_browser_are_not_foreign(closed: Served) -> None:
    assert get(closed, Origin=closed.url.rstrip("/")).status_code == 200
    assert get(closed, Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors").status_code == 200
    assert get(closed, Host="graph.example", Origin="https://graph.example").status_code == 200
    assert get(closed).status_code == 200


def test_every_answer_says_how_a_browser_is_to_treat_it(closed: Served) -> None:
    for path in (ASK, "ready", "nowhere"):
        found = get(closed, path)
        assert found.headers["X-Content-Type-Options"] == "nosniff"
        assert found.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        assert found.headers["Referrer-Policy"] == "no-referrer"


def test_a_listed_origin_reads(shared_with: Served) -> None:
    found = get(shared_with, Origin=APP)
    assert found.status_code == 200
    assert found.headers["Access-Control-Allow-Origin"] == APP
    assert found.headers["Access-Control-Expose-Headers"] == "*"
    assert "Access-Control-Allow-Credentials" not in found.headers
    assert "Origin" in found.headers["Vary"]


def test_an_answer_to_nobody_in_particular_varies_by_origin_too(shared_with: Served) -> None:
    found = get(shared_with)
    assert "Origin" in found.headers["Vary"] and "Access-Control-Allow-Origin" not in found.headers
    assert get(shared_with, Origin=EVIL).status_code == 403
    assert get(shared_with, Origin="https://app.example.evil.example").status_code == 403
    again = get(shared_with, Origin=APP, If_None_Match=found.headers["ETag"])
    assert (again.status_code, again.headers["Access-Control-Allow-Origin"]) == (304, APP)


def test_a_preflight_of_a_listed_origin_is_answered_without_a_token(shared_with: Served) -> None:
    asked = {"Origin": APP, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    found = requests.options(shared_with.url + "sparql", headers=asked, timeout=20)
    assert (found.status_code, found.headers["Access-Control-Allow-Origin"]) == (204, APP)
    assert found.headers["Access-Control-Allow-Methods"] == "GET, HEAD, POST, QUERY"
    assert "Authorization" in found.headers["Access-Control-Allow-Headers"]
    assert "Origin" in found.headers["Vary"]


def test_what_a_listed_origin_sends_with_a_token_only_reads(shared_with: Served) -> None:
    update = {"update": "INSERT DATA { <urn:a> <urn:b> <urn:c> }"}
    headers = {"Origin": APP, "Authorization": bearer(ADMIN)}
    assert requests.post(shared_with.url + "sparql", update, headers=headers, timeout=20).status_code == 403
    assert requests.post(shared_with.url + "api/backup", headers=headers, timeout=20).status_code == 403
    assert (
        requests.post(shared_with.url + "writer", json={"do": "status"}, headers=headers, timeout=20).status_code == 403
    )
    assert (
        requests.post(shared_with.url + "sparql", {"query": "ASK {}"}, headers=headers, timeout=20).status_code == 200
    )


def test_a_password_the_browser_remembers_opens_nothing_to_a_foreign_page(shared_with: Served) -> None:
    found = requests.post(
        shared_with.url + "sparql",
        {"update": "INSERT DATA { <urn:a> <urn:b> <urn:c> }"},
        headers={"Origin": APP},
        auth=("any", ADMIN),
        timeout=20,
    )
    assert found.status_code in (401, 403)


# -- tokens


def test_a_secret_that_is_none_is_refused_and_a_revoked_one_at_once(
    closed: Served, store: Store, secrets: dict[str, str]
) -> None:
    assert get(closed, Authorization=bearer(secrets["gone"])).status_code == 200
    Tokens(store.state).revoke("gone")
    found = get(closed, Authorization=bearer(secrets["gone"]))
    assert (found.status_code, found.json()["code"]) == (401, "wrong-token")
    assert "Bearer" in found.headers["WWW-Authenticate"]


def test_behind_a_proxy_everything_but_its_health_needs_a_token_that_reads(
    proxied: Served, secrets: dict[str, str]
) -> None:
    assert get(proxied, "health").status_code == 200
    assert get(proxied, "ready", Host="10.244.0.17:8000").json() == {"ready": True}
    assert get(proxied, ASK, Host="10.244.0.17:8000").status_code == 421
    for path in (ASK, "metrics", "api/status", "", "openapi.json", "nowhere"):
        assert get(proxied, path).status_code == 401, path
        assert get(proxied, path, Authorization=bearer(secrets["write"])).status_code == 403, path
    for secret in (secrets["read"], secrets["admin"], ADMIN):
        assert get(proxied, Authorization=bearer(secret)).status_code == 200
        assert requests.get(proxied.url + ASK, auth=("any", secret), timeout=20).status_code == 200
    assert "pids" in get(proxied, "ready", Authorization=bearer(ADMIN)).json()


def test_a_token_that_only_writes_does_not_read_by_post(proxied: Served, secrets: dict[str, str]) -> None:
    headers = {"Authorization": bearer(secrets["write"])}
    found = requests.post(proxied.url + "sparql", {"query": "ASK {}"}, headers=headers, timeout=20)
    assert (found.status_code, found.json()["code"]) == (403, "no-read")


def test_beyond_this_machine_nothing_starts_without_a_token_that_reads(tmp_path: Path) -> None:
    for options in ({"host": "0.0.0.0"}, {"host": "::"}, {"host": "192.0.2.1"}, {"trusted_proxies": ("127.0.0.1",)}):
        with pytest.raises(ServerError, match="no token that reads"):
            ServerConfig(tmp_path, BASE, **options).check()  # type: ignore[arg-type]
    Tokens(tmp_path).add("writer", write=["*"])
    with pytest.raises(ServerError, match="graphtide token add"):
        ServerConfig(tmp_path, BASE, host="0.0.0.0").check()
    Tokens(tmp_path).add("reader", read=True)
    ServerConfig(tmp_path, BASE, host="0.0.0.0").check()


@pytest.mark.parametrize(
    "options",
    [
        {"service_allow": ("*",)},
        {"load_allow": ("example.org",)},
        {"allow_private": ("http://x/",)},
        {"cors_origins": ("app.example",)},
        {"cors_origins": ("https://app.example/",)},
        {"cors_origins": ("null",)},
        {"trusted_proxies": ("proxy.example",)},
        {"root_path": "graph"},
        {"root_path": "/graph/"},
    ],
)
def test_a_setting_that_cannot_be_meant_stops_the_start_and_is_named(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ServerError) as no:
        ServerConfig(tmp_path, BASE, **options).check()
    value = next(iter(options.values()))
    assert (value if isinstance(value, str) else value[0]) in str(no.value)


def test_damaged_tokens_stop_the_start_and_close_a_running_server(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tokens.json").write_text("{")
    with pytest.raises(ServerError, match="is damaged"):
        ServerConfig(tmp_path, BASE).check()


# -- proxies


def asked_by(scope: dict[str, Any]) -> str:
    return client_of(Request(scope))


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({}, "127.0.0.1"),
        ({"X-Forwarded-For": "203.0.113.9"}, "203.0.113.9"),
        ({"X-Forwarded-For": "6.6.6.6, 203.0.113.9"}, "203.0.113.9"),
        ({"X-Forwarded-For": "6.6.6.6, 203.0.113.9, 10.1.1.1"}, "203.0.113.9"),
        ({"X-Forwarded-For": "203.0.113.9:4711"}, "203.0.113.9"),
        ({"X-Forwarded-For": "2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"),
        ({"X-Forwarded-For": "nonsense"}, "127.0.0.1"),
        ({"X-Forwarded-For": "6.6.6.6, unknown"}, "127.0.0.1"),
        ({"Forwarded": 'for="[2001:db8:1:2:3::4]:80";proto=https'}, "2001:db8:1:2::/64"),
        ({"Forwarded": "for=6.6.6.6, for=203.0.113.9;proto=https"}, "203.0.113.9"),
        ({"Forwarded": "for=203.0.113.9, for=10.2.2.2"}, "203.0.113.9"),
        ({"Forwarded": "for=6.6.6.6, for=_hidden"}, "127.0.0.1"),
        ({"Forwarded": 'for="broken'}, "127.0.0.1"),
    ],
)
def test_a_client_is_who_the_nearest_trusted_proxy_saw(headers: dict[str, str], client: str) -> None:
    assert _seen(headers, ("127.0.0.1", "10.0.0.0/8"))["who"] == client
    assert _seen(headers, ())["who"] == "127.0.0.1"


def _seen(headers: dict[str, str], trusted: tuple[str, ...], root_path: str = "") -> dict[str, Any]:
    from sparql.server import proxy

    lines = [(b"host", b"inner:8000"), *((name.lower().encode(), value.encode()) for name, value in headers.items())]
    scope: dict[str, Any] = {
        "type": "http",
        "client": ("127.0.0.1", 5),
        "scheme": "http",
        "path": "/x",
        "headers": lines,
    }
    proxy.behind(scope, proxy.networks(trusted), root_path)
    return {**scope, "who": asked_by(scope)}


def test_scheme_host_and_path_are_as_the_client_had_them() -> None:
    said = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "graph.example", "X-Forwarded-Prefix": "/kg/"}
    found = _seen(said | {"X-Forwarded-For": "203.0.113.9"}, ("127.0.0.1",))
    assert (found["scheme"], dict(found["headers"])[b"host"], found["root_path"], found["path"]) == (
        "https",
        b"graph.example",
        "/kg",
        "/kg/x",
    )
    forwarded = {"Forwarded": 'for=203.0.113.9;host="graph.example";proto=https'}
    found = _seen(forwarded, ("127.0.0.1",))
    assert (found["scheme"], dict(found["headers"])[b"host"]) == ("https", b"graph.example")
    found = _seen(said | forwarded, ())
    assert (found["scheme"], dict(found["headers"])[b"host"], found["path"]) == ("http", b"inner:8000", "/x")


@pytest.mark.parametrize("bad", ["//evil.example", "/a/../b", "/a b", "javascript:", "/a?b"])
def test_a_prefix_that_is_no_path_is_not_taken(bad: str) -> None:
    assert "root_path" not in _seen({"X-Forwarded-Prefix": bad, "X-Forwarded-For": "203.0.113.9"}, ("127.0.0.1",))


def test_the_path_of_a_proxy_is_taken_off_or_left_on(proxied: Served, secrets: dict[str, str]) -> None:
    for path in (ASK, "graph/" + ASK):
        found = get(proxied, path, Authorization=bearer(ADMIN), X_Forwarded_For="203.0.113.9")
        assert found.status_code == 200, path
    page = get(proxied, "sparql", Authorization=bearer(ADMIN), Accept="text/html")
    assert (page.status_code, page.headers["Location"]) == (303, "/graph/")


def test_a_forwarded_name_must_be_ours_too(proxied: Served) -> None:
    for name, status in (("graph.example", 200), ("evil.example", 421)):
        found = get(proxied, Authorization=bearer(ADMIN), X_Forwarded_For="203.0.113.9", X_Forwarded_Host=name)
        assert found.status_code == status


def test_a_client_is_its_token_or_its_address() -> None:
    scope: dict[str, Any] = {"type": "http", "headers": [], "client": ("203.0.113.9", 1), "state": {}}
    assert asked_by(scope) == "203.0.113.9"
    scope["state"]["token"] = Token("app", read=True)
    assert asked_by(scope) == "token:app"
