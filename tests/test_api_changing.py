"""What apps change: sources and syncs, with a token, through the one writer; and what they stop."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from sparql.tokens import Tokens
from tests.api_shop import ADMIN, Shop, server, write, writer


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    dir = tmp_path_factory.mktemp("shop")
    write(dir)
    with writer(dir), server(dir, workers=2) as found:
        yield found


def over(shop: Shop, place: str) -> dict[str, Any]:
    return shop.until(place, lambda job: job["state"] in ("done", "failed", "cancelled"))  # type: ignore[no-any-return]


def events(response: requests.Response) -> list[tuple[int, str, Any]]:
    found = []
    for block in response.text.split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line and not line.startswith(":"))
        if "event" in lines:
            found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


def test_the_sources_are_listed_with_where_each_stands(shop: Shop) -> None:
    found = shop.json("/api/sources")
    rows = {row["name"]: row for row in found["sources"]}
    assert (rows["services"]["records"], rows["services"]["mapping"], rows["services"]["paths"]) == (
        4, "map", ["services.csv"],
    )  # fmt: skip
    assert (rows["teams"]["mapping"], rows["teams"]["key"], rows["ontology"]["kind"]) == ("direct", ["id"], "built-in")
    assert found["writer"] is True
    first = shop.json("/api/sources", limit=1)
    assert [row["name"] for row in shop.json(first["next"])["sources"]] == ["services"]
    assert shop.json("/api/sources/teams")["source"]["records"] == 2
    assert shop.get("/api/sources/nosuch").status_code == 404


def test_a_source_is_added_synced_and_removed(shop: Shop) -> None:
    before = (shop.dir / "graphtide.toml").read_text()
    (shop.dir / "people.csv").write_text("id,name\nann,Ann\n")
    ask = {"name": "people", "path": "people.csv", "key": "id"}
    dry = shop.ask("POST", "/api/sources?dry_run=true", json=ask)
    assert (dry.status_code, dry.json()["dry_run"], dry.json()["toml"][:16]) == (200, True, "[sources.people]")
    assert (shop.dir / "graphtide.toml").read_text() == before
    made = shop.ask("POST", "/api/sources", json=ask)
    assert (made.status_code, made.headers["Location"]) == (201, "/api/sources/people")
    assert (shop.dir / "graphtide.toml").read_text().startswith(before)
    shop.until("/api/sources/people", lambda found: found["source"]["records"] == 1)
    assert shop.ask("POST", "/api/sources", json=ask).status_code == 409
    stale = shop.ask("DELETE", "/api/sources/people", headers={"If-Match": '"0123"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "settings-changed")
    gone = shop.ask("DELETE", "/api/sources/people?forget=true",
                    headers={"If-Match": f'"{made.headers["X-Graphtide-Settings"]}"'})  # fmt: skip
    assert (gone.status_code, gone.json()["forgotten"]["gone"]) == (200, 1)
    assert (shop.dir / "graphtide.toml").read_text() == before
    assert shop.get("/api/sources/people").status_code == 404


@pytest.mark.parametrize(
    ("body", "status", "code", "words"),
    [({"name": "x", "path": "../x.csv"}, 403, "not-for-clients", "leads out"),
     ({"name": "x", "source": "x.py:X"}, 403, "not-for-clients", "runs code"),
     ({"name": "x", "path": "x.csv", "kee": "id"}, 422, "SettingsError", "'kee'"),
     ({"name": "x", "path": 3}, 400, "bad-request", "path is 3"),
     ({"path": "x.csv"}, 400, "bad-request", "'name'"), ([], 400, "bad-request", "not an object")],
)  # fmt: skip
def test_a_source_that_cannot_be_is_refused_with_the_settings_own_words(
    shop: Shop, body: Any, status: int, code: str, words: str
) -> None:
    found = shop.ask("POST", "/api/sources", json=body)
    assert found.status_code == status and words in found.json()["detail"], found.text
    assert code in (found.json()["code"], "SettingsError")


def test_what_changes_something_needs_a_token_of_the_right_kind(shop: Shop) -> None:
    tokens = Tokens(shop.dir / ".graphtide")
    reader, author = tokens.add("reader", read=True), tokens.add("author", write=["*"])
    for method, path in (("POST", "/api/sources"), ("DELETE", "/api/sources/teams"), ("POST", "/api/sync"),
                         ("DELETE", "/api/jobs/x"), ("GET", "/api/queries"), ("POST", "/api/tokens")):  # fmt: skip
        found = requests.request(method, shop.url[:-1] + path, json={"name": "x"}, timeout=20)
        assert (found.status_code, found.json()["code"]) == (401, "token-needed")
        found = shop.ask(method, path, json={"name": "x"}, headers={"Authorization": f"Bearer {reader}"})
        assert (found.status_code, found.json()["code"]) == (403, "wrong-scope")
    mine = {"Authorization": f"Bearer {author}"}
    assert shop.ask("POST", "/api/sync", json={"sources": ["teams"]}, headers=mine).status_code == 202
    assert shop.ask("POST", "/api/sync", json={"allow_deletes": True}, headers=mine).status_code == 403
    assert shop.ask("POST", "/api/sources", json={"name": "x"}, headers=mine).status_code == 403


def test_a_sync_is_a_job_that_says_what_it_did(shop: Shop) -> None:
    (shop.dir / "teams.csv").write_text("id,name\nred,Red team\nblue,Blue team\ngreen,Green team\n")
    found = shop.ask("POST", "/api/sync", json={"sources": ["teams"]})
    assert found.status_code == 202 and found.json()["how"] in ("new", "joined")
    job = over(shop, found.headers["Location"])
    assert (job["state"], job["error"], job["sources"]) == ("done", None, ["teams"])
    assert [report["source"] for report in job["reports"]] == ["teams"] and job["counts"]["by_source"]["teams"] >= 0
    assert job["started"] <= job["ended"]
    assert job["id"] in [one["id"] for one in shop.json("/api/jobs")["jobs"]]
    shop.until("/api/sources/teams", lambda row: row["source"]["records"] == 3)


def test_the_events_of_a_job_come_in_order_and_go_on_after_a_break(shop: Shop) -> None:
    place = shop.ask("POST", "/api/sync").headers["Location"]
    stream = {"Accept": "text/event-stream"}
    whole = events(shop.ask("GET", place, headers=stream))
    assert [number for number, _, _ in whole] == list(range(1, len(whole) + 1))
    assert whole[-1][1] == "end" and whole[-1][2]["state"] == "done"
    rest = events(shop.ask("GET", place, headers={**stream, "Last-Event-ID": "1"}))
    assert rest == whole[1:]
    assert events(shop.ask("GET", place, headers={**stream, "Last-Event-ID": "999"})) == []


def test_one_key_is_one_job(shop: Shop) -> None:
    ask = {"json": {"sources": ["teams"]}, "headers": {"Idempotency-Key": "k1"}}
    first, again = shop.ask("POST", "/api/sync", **ask), shop.ask("POST", "/api/sync", **ask)
    assert first.json()["id"] == again.json()["id"] and again.json()["how"] == "replayed"
    other = shop.ask("POST", "/api/sync", json={"sources": ["services"]}, headers={"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")


def test_a_job_that_waits_is_joined_or_taken_back_and_one_that_runs_is_not(shop: Shop) -> None:
    (shop.dir / "services.csv").write_text(
        "id,name,what,uses\n" + "".join(f"s{n},Service {n},about {n},s{n + 1}\n" for n in range(1500))
    )
    running = shop.ask("POST", "/api/sync", json={"sources": ["services"], "allow_deletes": True})
    waits = shop.ask("POST", "/api/sync", json={"sources": ["teams"]})
    joined = shop.ask("POST", "/api/sync", json={"sources": ["teams"]})
    assert waits.json()["state"] == "queued" and joined.json()["how"] == "joined"
    assert waits.json()["id"] == joined.json()["id"]
    gone = shop.ask("DELETE", waits.headers["Location"])
    assert (gone.status_code, gone.json()["state"]) == (200, "cancelled")
    begun = shop.ask("DELETE", running.headers["Location"])
    assert (begun.status_code, begun.json()["code"]) == (409, "has-begun")
    assert over(shop, running.headers["Location"])["state"] == "done"
    assert over(shop, waits.headers["Location"])["state"] == "cancelled"


def test_a_job_for_what_is_no_source_is_refused_and_an_unknown_job_is_404(shop: Shop) -> None:
    found = shop.ask("POST", "/api/sync", json={"sources": ["teems"]})
    assert (found.status_code, "'teams'" in found.json()["detail"]) == (422, True)
    for path in ("/api/jobs/nosuch", "/api/jobs/" + "a" * 64):
        assert shop.get(path).status_code == 404
    assert shop.ask("DELETE", "/api/jobs/nosuch").status_code == 404


def test_an_admin_sees_what_runs_and_stops_it(shop: Shop) -> None:
    slow = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l }"
    ended: list[Any] = []

    def ask() -> None:
        with requests.get(shop.url + "sparql", {"query": slow}, timeout=40) as found:
            ended.append(found.status_code)

    thread = threading.Thread(target=ask)
    thread.start()
    end = time.monotonic() + 10
    found: list[Any] = []
    while not found:
        assert time.monotonic() < end
        queries = shop.ask("GET", "/api/queries").json()["queries"]
        found = [one for one in queries if one["query"] == slow and one["state"] == "running"]
    assert shop.ask("DELETE", f"/api/queries/{found[0]['id']}").json()["cancelled"] is True
    thread.join(10)
    assert ended and ended[0] == 503
    assert shop.ask("DELETE", f"/api/queries/{found[0]['id']}").status_code == 404


def test_a_token_is_made_shown_once_and_revoked(shop: Shop) -> None:
    made = shop.ask("POST", "/api/tokens", json={"name": "ci", "write": ["*"]}).json()
    assert "secret" not in json.dumps(shop.ask("GET", "/api/tokens").json())
    mine = {"Authorization": f"Bearer {made['secret']}"}
    assert shop.ask("POST", "/api/sync", headers=mine).status_code == 202
    assert shop.ask("POST", "/api/tokens", json={"name": "ci", "read": True}).status_code == 422
    assert shop.ask("DELETE", "/api/tokens/ci").json()["revoked"] is True
    assert shop.ask("POST", "/api/sync", headers=mine).status_code == 401
    assert shop.ask("DELETE", "/api/tokens/ci").status_code == 404


def test_without_a_writer_sources_are_read_and_changes_say_what_is_missing(tmp_path: Any) -> None:
    write(tmp_path)
    with writer(tmp_path):
        pass
    with server(tmp_path) as shop:
        found = shop.json("/api/sources")
        rows = {row["name"]: row for row in found["sources"]}
        assert found["writer"] is False
        assert (rows["services"]["records"], rows["services"]["mapping"]) == (4, "map")
        for method, path in (("POST", "/api/sources"), ("DELETE", "/api/sources/teams"), ("POST", "/api/sync")):
            body = {"name": "x", "path": "x.csv"} if path == "/api/sources" else None
            no = shop.session.request(method, shop.url + path[1:], json=body, headers=ADMIN, timeout=20)
            assert (no.status_code, no.json()["code"], "graphtide serve" in no.json()["detail"]) == (
                503, "writer-gone", True,
            )  # fmt: skip
