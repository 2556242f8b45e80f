"""A graph is read and written by its URL as the protocol says, and what cannot be done is said in the right code."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from pyoxigraph import RdfFormat, parse

from sparql.tokens import Tokens
from tests.endpoint import BASE, TOKEN, Endpoint, endpoint

TURTLE = {"Content-Type": "text/turtle"}
NT = {"Accept": "application/n-triples"}
G = "urn:g"


@pytest.fixture(scope="module")
def merged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    folder = tmp_path_factory.mktemp("merged")
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    settings = '[limits]\nmax_write_bytes = "4MiB"\nmax_update_bytes = "1MiB"\n'
    with endpoint(folder, settings + '[sources.people]\npath = "people.csv"\nkey = "id"\n') as found:
        yield found


@pytest.fixture(autouse=True)
def nothing_written(merged: Endpoint) -> Iterator[None]:
    yield
    assert merged.update("DROP ALL").status_code == 200


def put(merged: Endpoint, text: str, graph: str = G, method: str = "PUT", **headers: str) -> requests.Response:
    return merged.send(
        method, "store", params={"graph": graph}, data=text.encode(),
        headers={**TURTLE, **{name.replace("_", "-"): value for name, value in headers.items()}},
    )  # fmt: skip


def get(merged: Endpoint, graph: str = G, method: str = "GET", **headers: str) -> requests.Response:
    found = {name.replace("_", "-"): value for name, value in headers.items()}
    return merged.send(method, "store", params={"graph": graph}, headers={**NT, **found})


def code(answer: requests.Response) -> tuple[int, str]:
    assert answer.headers["Content-Type"] == "application/problem+json", answer.text
    return answer.status_code, answer.json()["code"]


def test_a_graph_is_put_read_added_to_and_deleted(merged: Endpoint) -> None:
    assert put(merged, "<urn:a> <urn:b> 1 .").status_code == 201
    assert put(merged, "<urn:a> <urn:b> 2 .").status_code == 204
    added = put(merged, "<urn:a> <urn:b> 3 .", method="POST")
    assert (added.status_code, added.json()["added"], added.json()["graphs"]) == (200, 1, [G])
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    assert sorted(get(merged).text.splitlines()) == [f'<urn:a> <urn:b> "{n}"{integer} .' for n in (2, 3)]
    gone = merged.send("DELETE", "store", params={"graph": G})
    assert (gone.status_code, gone.json()["removed"]) == (200, 2)
    assert code(get(merged)) == (404, "no-such-graph")
    assert code(merged.send("DELETE", "store", params={"graph": G})) == (404, "no-such-graph")


def test_a_write_says_its_commit_and_the_next_read_stands_there_or_later(merged: Endpoint) -> None:
    for number in range(20):
        made = put(merged, f"<urn:a> <urn:n> {number} .")
        found = get(merged)
        assert f'"{number}"' in found.text
        assert int(found.headers["X-Graphtide-Epoch"]) >= int(made.headers["X-Graphtide-Epoch"])
        assert made.headers["X-Graphtide-Commit-Time"].endswith("Z")


def test_an_empty_graph_is_there_once_it_was_put(merged: Endpoint) -> None:
    assert merged.send("PUT", "store", params={"graph": G}).status_code == 201
    found = get(merged)
    assert (found.status_code, found.text) == (200, "")
    assert put(merged, "").status_code == 204
    put(merged, "<urn:a> <urn:b> 1 .")
    merged.update(f"DELETE WHERE {{ GRAPH <{G}> {{ ?s ?p ?o }} }}")
    assert get(merged).status_code == 200
    merged.update("INSERT DATA { GRAPH <urn:h> { <urn:a> <urn:b> 1 } } ")
    merged.update("DELETE DATA { GRAPH <urn:h> { <urn:a> <urn:b> 1 } } ")
    assert get(merged, "urn:h").status_code == 404


def test_the_store_finds_a_name_for_a_new_graph(merged: Endpoint) -> None:
    made = merged.send("POST", "store", data=b"<> <urn:b> <x> .", headers=TURTLE)
    assert made.status_code == 201
    graph = made.headers["Location"]
    assert graph.startswith(f"{BASE}store/")
    here = merged.send("GET", made.headers["Content-Location"].lstrip("/"), headers=NT)
    assert here.text == f"<{graph}> <urn:b> <{BASE}store/x> .\n"
    assert get(merged, graph).text == here.text


def test_conditions_hold_for_the_graph_and_no_other(merged: Endpoint) -> None:
    assert put(merged, "<urn:a> <urn:b> 1 .", If_None_Match="*").status_code == 201
    assert code(put(merged, "<urn:a> <urn:b> 2 .", If_None_Match="*")) == (412, "precondition-failed")
    tag = get(merged).headers["ETag"]
    put(merged, "<urn:a> <urn:b> 1 .", "urn:other")
    assert get(merged, If_None_Match=tag).status_code == 304
    assert put(merged, "<urn:a> <urn:b> 3 .", If_Match=f'"x", {tag}').status_code == 204
    assert code(put(merged, "<urn:a> <urn:b> 4 .", If_Match=tag)) == (412, "precondition-failed")
    now = get(merged).headers["ETag"]
    assert now != tag
    assert code(put(merged, "<urn:a> <urn:b> 4 .", If_Match=f"W/{now}")) == (412, "precondition-failed")
    assert code(put(merged, "<urn:a> <urn:b> 4 .", If_None_Match=now)) == (412, "precondition-failed")
    assert code(put(merged, "<urn:a> <urn:b> 4 .", "urn:none", If_Match="*")) == (412, "precondition-failed")
    deleted = merged.send("DELETE", "store", params={"graph": G}, headers={"If-Match": now})
    assert deleted.status_code == 200


def test_the_tag_of_one_graph_is_no_tag_of_another(merged: Endpoint) -> None:
    for graph in (G, "urn:h"):
        put(merged, "<urn:a> <urn:b> 1 .", graph)
    assert code(put(merged, "", If_Match=get(merged, "urn:h").headers["ETag"])) == (412, "precondition-failed")


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "text/turtle; charset=utf-8"),
        ("*/*", "text/turtle; charset=utf-8"),
        ("application/rdf+xml;q=0.5, application/ld+json", "application/ld+json"),
        ("text/html, application/n-triples;q=0.1", "application/n-triples"),
        ("application/trig", "application/trig"),
    ],
)
def test_a_graph_is_written_as_the_client_likes_best(merged: Endpoint, accept: str | None, kind: str) -> None:
    put(merged, "<urn:a> <urn:b> 1 .")
    headers = {"Accept": accept} if accept else {"Accept": ""}
    found = merged.send("GET", "store", params={"graph": G}, headers=headers)
    assert (found.status_code, found.headers["Content-Type"]) == (200, kind)
    head = merged.send("HEAD", "store", params={"graph": G}, headers=headers)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers.get("Content-Length", str(len(found.content))) == str(len(found.content))
    assert head.headers["ETag"] == found.headers["ETag"]


def test_a_graph_cannot_be_had_as_a_table(merged: Endpoint) -> None:
    put(merged, "<urn:a> <urn:b> 1 .")
    refused = get(merged, Accept="text/csv")
    assert code(refused) == (406, "not-acceptable")
    assert "text/turtle" in refused.json()["available"]


def test_bodies_are_compressed_both_ways(merged: Endpoint) -> None:
    text = "".join(f"<urn:a> <urn:b> {n} .\n" for n in range(2000))
    headers = {**TURTLE, "Content-Encoding": "gzip"}
    data = gzip.compress(text.encode())
    sent = merged.send("PUT", "store", params={"graph": G}, data=data, headers=headers)
    assert sent.status_code == 201
    found = get(merged, Accept_Encoding="gzip")
    assert found.headers["Content-Encoding"] == "gzip"
    assert len(found.text.splitlines()) == 2000
    bomb = gzip.compress(b" " * 50_000_000)
    too_long = merged.send("PUT", "store", params={"graph": G}, data=bomb, headers=headers)
    assert code(too_long) == (413, "too-long")


def test_a_form_brings_several_documents_in_one_commit(merged: Endpoint) -> None:
    files: list[Any] = [
        ("one", ("a.ttl", b"<urn:a> <urn:b> _:x . _:x <urn:c> 1 .", "text/turtle")),
        ("two", ("b.nt", b"<urn:a> <urn:b> _:x .\n", "application/octet-stream")),
    ]
    made = merged.send("POST", "store", params={"graph": G}, files=files)
    assert (made.status_code, made.json()["added"]) == (201, 3)
    assert code(merged.send("POST", "store", params={"graph": G}, data={"a": "b"}))[0] == 415
    field: list[Any] = [("one", (None, "<urn:a> <urn:b> 1 ."))]
    assert code(merged.send("POST", "store", params={"graph": G}, files=field)) == (400, "bad-form")
    unknown: list[Any] = [("one", ("a.xyz", b"", "application/octet-stream"))]
    assert code(merged.send("POST", "store", params={"graph": G}, files=unknown)) == (415, "unsupported-media-type")
    broken = {"Content-Type": "multipart/form-data; boundary=x"}
    for data in (b"--x\r\nnonsense", b"", b"--y--"):
        assert code(merged.send("POST", "store", params={"graph": G}, data=data, headers=broken)) == (400, "bad-form")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("text/turtle; charset=utf-8", "@prefix : <urn:> . :a :b [ :c 'é' ] ."),
        ("application/n-triples", '<urn:a> <urn:b> _:x .\n_:x <urn:c> "é" .\n'),
        ("application/ld+json", '{"@id": "urn:a", "urn:b": {"urn:c": "é"}}'),
        (
            "application/rdf+xml",
            "<r:RDF xmlns:r='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:u='urn:'>"
            "<r:Description r:about='urn:a'><u:b><r:Description><u:c>é</u:c></r:Description></u:b>"
            "</r:Description></r:RDF>",
        ),
        ("application/trig", "<urn:a> <urn:b> [ <urn:c> 'é' ] ."),
        ("application/n-quads", '<urn:a> <urn:b> _:x .\n_:x <urn:c> "é" .\n'),
    ],
)
def test_each_syntax_is_read_and_leaves_with_its_blank_node(merged: Endpoint, kind: str, text: str) -> None:
    sent = merged.send("PUT", "store", params={"graph": G}, data=text.encode(), headers={"Content-Type": kind})
    assert sent.status_code == 201, sent.text
    found = list(parse(get(merged).content, format=RdfFormat.N_TRIPLES))
    assert sorted(str(quad.predicate) for quad in found) == ["<urn:b>", "<urn:c>"]
    assert len({str(quad.object if str(quad.predicate) == "<urn:b>" else quad.subject) for quad in found}) == 1
    assert get(merged).text.count("_:") == 2
    before = merged.send("GET", "store", params={"graph": G}, headers={"Accept": "text/turtle"})
    again = merged.send("PUT", "store", params={"graph": G}, data=before.content, headers=TURTLE)
    assert again.headers["X-Graphtide-Epoch"] == before.headers["X-Graphtide-Epoch"], "the same graph is no change"


@pytest.mark.parametrize(
    ("method", "path", "headers", "data", "expected"),
    [
        ("PUT", "store?graph=urn:g", {"Content-Type": "text/turtle"}, b"<urn:a> <urn:b> .", (400, "not-rdf")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "text/turtle"}, b"\xff\xfe", (400, "not-rdf")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "application/n-quads"},
         b"<urn:a> <urn:b> <urn:c> <urn:h> .", (400, "not-a-graph")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "application/ld+json"},
         b'{"@context": "https://schema.org/", "name": "x"}', (400, "not-rdf")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "text/csv"}, b"a,b", (415, "unsupported-media-type")),
        ("PUT", "store?graph=urn:g", {"Content-Type": ""}, b"a,b", (415, "unsupported-media-type")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "text/turtle; charset=latin-1"}, b"",
         (415, "unsupported-charset")),
        ("PUT", "store?graph=urn:g", {"Content-Type": "text/turtle"}, b" " * 5_000_000, (413, "too-long")),
        ("PUT", "store?graph=nonsense", {"Content-Type": "text/turtle"}, b"", (400, "bad-graph")),
        ("PUT", "store?graph=urn:a%20b", {"Content-Type": "text/turtle"}, b"", (400, "bad-graph")),
        ("PUT", "store?graph=urn:g&default", {"Content-Type": "text/turtle"}, b"", (400, "two-graphs")),
        ("PUT", "store?graph=urn:g&graph=urn:h", {"Content-Type": "text/turtle"}, b"", (400, "two-graphs")),
        ("PUT", "store/x?graph=urn:g", {"Content-Type": "text/turtle"}, b"", (400, "two-graphs")),
        ("PUT", "store", {"Content-Type": "text/turtle"}, b"", (400, "no-graph")),
        ("GET", "store", {}, None, (400, "no-graph")),
        ("DELETE", "store", {}, None, (400, "no-graph")),
        ("TRACE", "store?default", {}, None, (405, "method-not-allowed")),
        ("PATCH", "store?graph=urn:g", {"Content-Type": "text/turtle"}, b"", (415, "unsupported-media-type")),
        ("PATCH", "store?graph=urn:none", {"Content-Type": "application/sparql-update"}, b"CLEAR ALL",
         (404, "no-such-graph")),
        ("PATCH", "store?default", {"Content-Type": "application/sparql-update"}, b"CLEAR", (400, "update-error")),
        ("PATCH", "store?default", {"Content-Type": "application/sparql-update"},
         b"INSERT DATA { GRAPH <urn:x> { <urn:a> <urn:b> 1 } }", (403, "other-graph")),
        ("PUT", "store?graph=https://w.example/system/cursor", {"Content-Type": "text/turtle"}, b"",
         (403, "read-only")),
        ("DELETE", "store?graph=https://w.example/record/people/1", {}, None, (403, "read-only")),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said_in_the_right_code(
    merged: Endpoint, method: str, path: str, headers: dict[str, str], data: bytes | None, expected: tuple[int, str]
) -> None:
    assert code(merged.send(method, path, headers=headers, data=data)) == expected
    assert get(merged).status_code == 404


def test_a_wrong_line_of_a_document_is_named(merged: Endpoint) -> None:
    refused = put(merged, "<urn:a> <urn:b> 1 .\n<urn:a> <urn:b> ] .\n").json()
    assert (refused["line"], refused["code"]) == (2, "not-rdf")
    assert refused["column"] > 0


def test_a_read_only_graph_names_its_source_and_can_be_read(merged: Endpoint) -> None:
    graph = f"{BASE}record/people/1"
    assert '"Ann"' in get(merged, graph).text
    refused = put(merged, "", graph).json()
    assert (refused["source"], refused["graph"]) == ("people", graph)
    assert "the source 'people'" in refused["detail"]


def test_options_and_405_say_what_a_graph_takes(merged: Endpoint) -> None:
    for found in (merged.send("OPTIONS", "store?default"), merged.send("TRACE", "store/x")):
        assert found.headers["Allow"] == "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
        assert "application/sparql-update" in found.headers["Accept-Patch"]
        assert "text/turtle" in found.headers["Accept-Post"]


def test_a_patch_changes_one_graph_as_update_or_as_rdf_patch(merged: Endpoint) -> None:
    put(merged, "<urn:a> <urn:b> 1 , 2 .")
    update = {"Content-Type": "application/sparql-update"}
    text = "DELETE { ?s ?p 1 } INSERT { ?s ?p 3 } WHERE { ?s ?p 1 }"
    made = merged.send("PATCH", "store", params={"graph": G}, data=text, headers=update)
    assert (made.status_code, made.json()["added"], made.json()["removed"]) == (200, 1, 1)
    patch = "H id <urn:x> .\nTX .\nPA u <urn:> .\nD u:a u:b 2 .\nA u:a u:b 'x . y' .\nTC .\n"
    headers = {"Content-Type": "application/rdf-patch"}
    made = merged.send("PATCH", "store", params={"graph": G}, data=patch, headers=headers)
    assert made.status_code == 200, made.text
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    assert sorted(get(merged).text.splitlines()) == [f'<urn:a> <urn:b> "3"{integer} .', '<urn:a> <urn:b> "x . y" .']
    for text in ("A <urn:a> <urn:b> 1 } ; DROP ALL ; INSERT DATA { <urn:a> <urn:b> 2 .", "X nonsense ."):
        refused = merged.send("PATCH", "store", params={"graph": G}, data=text, headers=headers)
        assert code(refused) == (400, "not-a-patch")
    assert len(get(merged).text.splitlines()) == 2


def test_the_default_graph_is_read_whole_and_put_for_the_token_alone(merged: Endpoint) -> None:
    sent = merged.send("PUT", "store?default", data=b"<urn:a> <urn:b> 1 .", headers=TURTLE)
    assert sent.status_code == 201
    found = merged.send("GET", "store?default", headers=NT).text
    assert '<urn:a> <urn:b> "1"' in found
    assert '"Ann"' in found
    assert merged.send("DELETE", "store?default").json()["removed"] == 1
    assert '"Ann"' in merged.send("GET", "store?default", headers=NT).text


def test_a_large_graph_goes_in_and_comes_out_whole(merged: Endpoint) -> None:
    lines = [f'<urn:s{n}> <urn:p> "{n:060d}" .' for n in range(8_000)]
    data = "\n".join(lines).encode()
    headers = {"Content-Type": "application/n-triples", "Content-Encoding": "gzip"}
    sent = merged.send("PUT", "store", params={"graph": G}, data=gzip.compress(data, 1), headers=headers)
    assert sent.status_code == 201, sent.text
    assert sorted(get(merged).text.splitlines()) == sorted(lines)


def test_an_update_is_answered_with_what_became_of_it_or_with_204(merged: Endpoint) -> None:
    made = merged.update("INSERT DATA { <urn:a> <urn:b> 1 , 2 }")
    assert (made.status_code, made.json()["added"], made.json()["removed"]) == (200, 2, 0)
    assert made.headers["X-Graphtide-Epoch"] == str(made.json()["epoch"])
    headers = {"Content-Type": "application/sparql-update", "Accept": "text/plain"}
    quiet = merged.send("POST", "sparql", data=b"DELETE DATA { <urn:a> <urn:b> 1 }", headers=headers)
    assert (quiet.status_code, quiet.content) == (204, b"")
    form = merged.send("POST", "sparql", data={"update": "DELETE WHERE { <urn:a> ?p ?o }"})
    assert form.json()["removed"] == 1
    kept = merged.update('DELETE WHERE { ?s <https://w.example/def/name> "Ann" }').json()
    assert (kept["removed"], kept["kept_count"], kept["kept"][0]["said_by"][0]["locator"]) == (0, 1, "people.csv:2")


def test_an_update_that_cannot_be_done_says_where_or_why(merged: Endpoint) -> None:
    wrong = merged.update("INSERT DATA { <urn:a> <urn:b> 1 }\nINSERT NOTHING")
    assert code(wrong) == (400, "update-error")
    assert (wrong.json()["line"], wrong.json()["token"]) == (2, "INSERT")
    using = {"using-graph-uri": "urn:g"}
    both = merged.update("INSERT { <urn:a> <urn:b> 1 } USING <urn:h> WHERE { }", **using)
    assert code(both) == (400, "dataset-conflict")
    assert code(merged.update("LOAD <http://127.0.0.1/>")) == (403, "load-off")
    assert code(merged.update("INSERT { ?s ?p ?o } WHERE { SERVICE <urn:x> { ?s ?p ?o } }")) == (403, "service-off")
    assert code(merged.update("CREATE GRAPH <urn:g> ; CREATE GRAPH <urn:g>")) == (409, "graph-exists")
    assert code(merged.update("DROP GRAPH <urn:none>")) == (409, "no-such-graph")
    refused = merged.update("INSERT DATA { <urn:a> a <https://w3id.org/graphtide/ns#Servise> }")
    assert code(refused) == (422, "rejected")
    assert refused.json()["violations"][0]["focus"] == "urn:a"
    assert code(merged.update("# " + "x" * 1_100_000))[0] == 413
    assert code(merged.update("INSERT DATA { <urn:a> <urn:b> " + "(" * 2000 + ")" * 2000 + " }"))[0] == 400


def test_a_token_writes_where_it_may_from_when_it_is_made_until_it_is_revoked(merged: Endpoint) -> None:
    tokens = Tokens(merged.engine.settings.state)
    reader, writer = tokens.add("reader", read=True), tokens.add("writer", write=[G])
    insert = f"INSERT DATA {{ GRAPH <{G}> {{ <urn:a> <urn:b> 1 }} }}"
    assert code(merged.update(insert, token=None)) == (401, "token-needed")
    assert code(merged.update(insert, token="nonsense")) == (401, "wrong-token")
    assert code(merged.update(insert, token=reader)) == (403, "not-allowed")
    assert merged.update(insert, token=writer).status_code == 200
    assert code(merged.update("INSERT DATA { <urn:a> <urn:b> 1 }", token=writer)) == (403, "not-allowed")
    assert merged.send("PUT", "store?graph=urn:g", token=writer, data=b"", headers=TURTLE).status_code == 204
    assert code(merged.send("PUT", "store?default", token=writer, data=b"", headers=TURTLE)) == (403, "not-allowed")
    tokens.revoke("writer")
    assert code(merged.update(insert, token=writer)) == (401, "wrong-token")
    own = tokens.add("own", write=[""])
    assert merged.update("INSERT DATA { <urn:mine> <urn:b> 1 }", token=own).json()["graphs"] == ["default"]
    assert merged.holds(f"GRAPH <{BASE}record/token/own> {{ <urn:mine> <urn:b> 1 }} <urn:mine> <urn:b> 1")
    tokens.revoke("own")
    tokens.revoke("reader")
    merged.engine.forget("token/own")


def test_updates_of_many_clients_at_once_happen_one_after_another(merged: Endpoint) -> None:
    merged.update(f"INSERT DATA {{ GRAPH <{G}> {{ <urn:a> <urn:n> 0 }} }}")
    count = f"WITH <{G}> DELETE {{ ?s ?p ?n }} INSERT {{ ?s ?p ?m }} WHERE {{ ?s ?p ?n BIND(?n + 1 AS ?m) }}"

    def client(_: int) -> list[int]:
        with requests.Session() as session:
            headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/sparql-update"}
            url = merged.url + "sparql"
            return [session.post(url, data=count, headers=headers, timeout=30).status_code for _ in range(5)]

    with ThreadPoolExecutor(6) as threads:
        assert [code for codes in threads.map(client, range(6)) for code in codes] == [200] * 30
    assert '"30"' in get(merged).text


def test_no_mutated_request_is_our_failure(merged: Endpoint) -> None:
    dice = random.Random(1)
    texts = (b"INSERT DATA { <x:a> <x:b> 1 }", b"WITH <x:g> DELETE { ?s ?p ?o } WHERE { }", b"<x:a> <x:b> [] .",
             b"A <x:a> <x:b> 1 .", b'{"@id": "x:a"}')  # fmt: skip
    kinds = ("text/turtle", "application/ld+json", "application/sparql-update", "application/rdf-patch",
             "multipart/form-data; boundary=x", "text/turtle; charset=x", "")  # fmt: skip
    paths = (
        "store?graph=urn:g",
        "store?default",
        "store/a%2f",
        "store?graph=%00",
        "sparql",
        "sparql?using-graph-uri=x",
    )
    statuses = set()
    for _ in range(250):
        data = bytearray(dice.choice(texts))
        for _ in range(dice.randint(0, 3)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        headers = {"Content-Type": dice.choice(kinds), "If-Match": dice.choice(("", "*", '"x"', "x"))}
        headers = {name: value for name, value in headers.items() if value and dice.random() < 0.8}
        method = dice.choice(("PUT", "POST", "PATCH", "DELETE", "GET"))
        statuses.add(merged.send(method, dice.choice(paths), data=bytes(data), headers=headers).status_code)
    assert max(statuses) < 500, statuses


def test_a_page_elsewhere_cannot_have_a_browser_write(merged: Endpoint) -> None:
    auth = ("anyone", TOKEN)
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        sent = requests.post(
            merged.url + "sparql", data={"update": "CLEAR ALL"}, headers=headers, auth=auth, timeout=20
        )
        assert sent.status_code == 403
