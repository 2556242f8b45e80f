"""What apps read of the graph: things, searches and neighbourhoods, over HTTP, with and without a writer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparql.server.api.operation import pack
from tests.api_shop import BASE, Shop, server, write, writer

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
MANY = 2100  # more than are put in order
DEPENDS = "https://w3id.org/graphtide/ns#dependsOn"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Served without a writer: reading needs none."""
    dir = tmp_path_factory.mktemp("shop")
    write(dir)
    with open(dir / "services.csv", "a") as file:
        file.writelines(f"n{n},Node {n:03},,checkout\n" for n in range(60))
        file.writelines(f"m{n},Many,,ledger\n" for n in range(MANY))
    with writer(dir):
        pass
    with server(dir) as found:
        found.until("/api/search", lambda page: page["behind"] == 0, q="checkout")
        yield found


def service(name: str) -> str:
    return f"{BASE}service/{name}"


def test_a_thing_is_what_it_says_what_points_at_it_and_who_says_so(shop: Shop) -> None:
    found = shop.json("/api/entity", iri=service("checkout"))
    assert (found["label"], found["description"]) == ("Checkout", "Takes the money")
    assert [one["iri"].rpartition("#")[2] for one in found["types"]] == ["Service"]
    out = {one["property"]["iri"]: one for one in found["outgoing"]}
    assert [term["label"] for term in out[DEPENDS]["values"]] == ["Cart", "Payment gateway"]
    incoming = {one["property"]["iri"]: one for one in found["incoming"]}
    assert incoming[DEPENDS]["count"] == 60 and len(incoming[DEPENDS]["values"]) == 20
    said = found["provenance"][0]
    assert (said["source"], said["key"], said["locators"]) == ("services", "checkout", ["services.csv:2"])
    assert said["hash"] and 1 <= said["commit"] <= found["epoch"]


def test_the_values_of_a_property_have_pages_that_hold_each_once(shop: Shop) -> None:
    found = shop.json("/api/entity", iri=service("checkout"))
    group = next(one for one in found["incoming"] if one["property"]["iri"] == DEPENDS)
    seen, link = [term["value"] for term in group["values"]], group["next"]
    while link:
        page = shop.get(link)
        assert page.status_code == 200
        seen += [term["value"] for term in page.json()["values"]]
        link = page.json()["next"]
        assert (f'<{link}>; rel="next"' if link else None) == page.headers.get("Link")
    assert len(seen) == len(set(seen)) == 60


def test_values_too_many_to_put_in_order_have_pages_at_one_commit(shop: Shop) -> None:
    found = shop.json("/api/entity", iri=service("ledger"), limit=500)
    group = next(one for one in found["incoming"] if one["property"]["iri"] == DEPENDS)
    assert group["count"] == MANY + 1
    seen, link = [term["value"] for term in group["values"]], group["next"]
    while link:
        page = shop.json(link)
        assert page["epoch"] == found["epoch"]
        seen += [term["value"] for term in page["values"]]
        link = page["next"]
    assert len(seen) == len(set(seen)) == MANY + 1


@pytest.mark.parametrize("iri", [BASE + "nosuch", "no iri", "http://[", '"><script>', BASE + "x> <y", "urn:é"])
def test_what_the_graph_says_nothing_of_is_404(shop: Shop, iri: str) -> None:
    for path, name in (("/api/entity", "iri"), ("/api/graph", "node")):
        found = shop.get(path, **{name: iri})
        assert found.status_code == 404
        assert found.headers["Content-Type"] == "application/problem+json"


def test_a_search_says_what_matched_and_at_which_commit(shop: Shop) -> None:
    found = shop.json("/api/search", q="payment gate")
    hit = found["hits"][0]
    assert (hit["iri"], hit["match"]["kind"], hit["match"]["property"]["iri"]) == (service("payment"), "prefix", LABEL)
    assert [part["text"] for part in hit["match"]["parts"] if part["hit"]] == ["Payment", "gateway"]
    assert found["epoch"] > 0 and found["total_is"] == "exact" and found["total"] >= 1


def test_a_search_has_pages_and_classes(shop: Shop) -> None:
    seen, link = [], "/api/search?q=node&limit=25&type=https%3A%2F%2Fw3id.org%2Fgraphtide%2Fns%23Service"
    while link:
        page = shop.json(link)
        seen += [hit["label"] for hit in page["hits"]]
        link = page["next"]
    assert sorted(seen) == [f"Node {n:03}" for n in range(60)]
    assert shop.json("/api/search", q="node", type=BASE + "nothing")["hits"] == []


def test_the_graph_begins_with_what_matters_most_and_the_edges_among_it(shop: Shop) -> None:
    found = shop.json("/api/graph", limit=4)
    first = [(node["iri"], node["importance"]) for node in found["nodes"][:2]]
    assert first == [(service("ledger"), MANY + 1), (service("checkout"), 62)]
    nodes = {node["iri"] for node in found["nodes"]}
    assert {(edge["source"], edge["target"]) for edge in found["edges"]} >= {(service("checkout"), service("payment"))}
    assert all({edge["source"], edge["target"]} <= nodes for edge in found["edges"])
    following = shop.json(found["next"])
    assert not nodes & {node["iri"] for node in following["nodes"]}
    classes = shop.json("/api/graph", vocabulary="true", limit=300)["nodes"]
    assert "https://w3id.org/graphtide/ns#Service" in {node["iri"] for node in classes}


def test_neighbours_come_with_the_count_of_what_is_not_shown(shop: Shop) -> None:
    found = shop.json("/api/graph", node=service("checkout"), limit=10)
    groups = {(one["property"]["iri"], one["direction"]): one for one in found["groups"]}
    group = groups[DEPENDS, "incoming"]
    assert (group["count"], group["shown"], group["more"]) == (60, 10, 50)
    assert groups[DEPENDS, "outgoing"]["more"] == 0
    page = shop.json(group["next"])
    assert page["groups"][0]["shown"] == 10
    assert not {e["source"] for e in page["edges"]} & {
        e["source"] for e in found["edges"] if e["target"] == service("checkout")
    }


def test_two_steps_go_on_from_the_neighbours(shop: Shop) -> None:
    found = shop.json("/api/graph", node=service("checkout"), depth=2, limit=5)
    assert service("ledger") in {node["iri"] for node in found["nodes"] if node["depth"] == 2}


@pytest.mark.parametrize("cursor", [["\ud800"], [1, "\ud800"], [2**80, "a"], [-1, "a"],
                                    [2**80, 2**80], [0, 2**40], [1, 2, 3, "\ud800"],
                                    [None], {}, 3])  # fmt: skip
def test_a_forged_cursor_is_no_failure_of_ours(shop: Shop, cursor: object) -> None:
    forged = pack(cursor)  # type: ignore[arg-type]
    for path in (f"/api/entity?iri={service('checkout')}&property={DEPENDS.replace('#', '%23')}", "/api/graph?limit=3",
                 f"/api/graph?node={service('checkout')}&property={DEPENDS.replace('#', '%23')}&direction=incoming",
                 "/api/search?q=node", "/api/sources?limit=1", "/api/jobs?limit=1"):  # fmt: skip
        found = shop.get(f"{path}&cursor={forged}")
        assert found.status_code in (200, 400, 404, 409, 410), (path, found.text)


def test_what_was_not_changed_is_304(shop: Shop) -> None:
    for path in (f"/api/entity?iri={service('checkout')}", "/api/search?q=node", "/api/graph?limit=3"):
        first = shop.get(path)
        again = shop.session.get(shop.url + path[1:], headers={"If-None-Match": first.headers["ETag"]}, timeout=20)
        assert (again.status_code, again.content) == (304, b"")
        assert first.headers["X-Graphtide-Epoch"] == str(first.json()["epoch"])


@pytest.mark.parametrize(
    ("path", "words"),
    [("/api/entity", "'iri' is missing"), ("/api/entity?iri=a:b&limt=3", "Did you mean 'limit'"),
     ("/api/search", "Give `q`"), ("/api/search?q=a&limit=0", "Write 1 to 100"),
     ("/api/search?q=a&limit=x", "whole number"),
     ("/api/search?q=a&q=b", "more than once"), ("/api/search?q=a&cursor=abc", "cursor"),
     ("/api/graph?depth=2", "node"),
     ("/api/entity?iri=a:b&direction=up", "outgoing, incoming"), ("/api/search?q=%ff", "cannot be read")],
)  # fmt: skip
def test_what_cannot_be_meant_is_400_and_says_why(shop: Shop, path: str, words: str) -> None:
    found = shop.get(path)
    assert found.status_code == 400
    assert words in found.json()["detail"]
