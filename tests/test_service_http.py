"""SERVICE over the server: closed by default, to what is listed otherwise, and never from a worker."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
import requests

from sparql.log import Change
from sparql.store import Store, open_store
from tests.served import Served, serve

BASE = "https://e.example/"


class Other:
    """Another endpoint, and what it was asked."""

    def __init__(self) -> None:
        self.store = ox.Store()
        self.asked: list[str] = []
        self.delay = threading.Event()
        other = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                query = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())["query"][0]
                other.asked.append(query)
                if "slow" in self.path:
                    other.delay.wait(5)
                found = other.store.query(query)
                assert isinstance(found, ox.QuerySolutions)
                body = found.serialize(format=ox.QueryResultsFormat.XML) or b""
                self.send_response(200)
                self.send_header("Content-Type", "application/sparql-results+xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    found = Other()
    found.store.load(f'<{BASE}o> <{BASE}name> "O" . _:b <{BASE}p> 1 .'.encode(), format=ox.RdfFormat.TURTLE)
    yield found
    found.delay.set()
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(tmp_path_factory.mktemp("service") / ".graphtide", BASE) as found:
        found.commit(Change({}, {"": frozenset({f"<{BASE}s> <{BASE}q> <{BASE}o>"})}))
        found.checkpoint()
        yield found


@pytest.fixture(scope="module")
def server(store: Store, other: Other) -> Iterator[Served]:
    with serve(store.state, BASE, service_allow=(other.url,), allow_private=("127.0.0.1",), deadline=10.0) as found:
        yield found


def ask(server: Served, query: str, **more: object) -> requests.Response:
    return requests.get(server.url + "sparql", {"query": query, "format": "json", **more}, timeout=20)  # type: ignore[arg-type]


def test_service_is_closed_by_default_and_nothing_is_sent(store: Store, other: Other) -> None:
    with serve(store.state, BASE) as closed:
        before = len(other.asked)
        found = ask(closed, f"SELECT *\n{{ SERVICE SILENT <{other.url}> {{ ?s ?p ?o }} }}")
        assert (found.status_code, found.json()["code"]) == (403, "service-refused")
        assert (found.json()["line"], found.json()["column"]) == (2, 3)
        assert "service_allow" in found.json()["detail"]
        assert len(other.asked) == before


def test_service_brings_what_another_endpoint_says(server: Served, other: Other) -> None:
    found = ask(server, f"SELECT ?n {{ ?s <{BASE}q> ?o . SERVICE <{other.url}> {{ ?o <{BASE}name> ?n }} }}")
    assert found.status_code == 200, found.text
    assert [row["n"]["value"] for row in found.json()["results"]["bindings"]] == ["O"]
    assert found.headers["Cache-Control"] == "no-store" and "ETag" not in found.headers
    assert f"<{BASE}o>" in other.asked[-1]


def test_a_blank_node_of_another_endpoint_is_one_in_what_is_constructed(server: Served, other: Other) -> None:
    query = f"CONSTRUCT {{ ?b <{BASE}p> ?v }} {{ SERVICE <{other.url}> {{ ?b <{BASE}p> ?v }} }}"
    found = requests.get(server.url + "sparql", {"query": query, "format": "ntriples"}, timeout=20)
    assert found.text.startswith("_:"), found.text


def test_an_endpoint_off_the_list_is_refused(server: Served) -> None:
    found = ask(server, "SELECT * { SERVICE <http://169.254.169.254/latest> { ?s ?p ?o } }")
    assert (found.status_code, found.json()["code"]) == (403, "service-refused")


def test_an_endpoint_that_is_down_is_a_bad_gateway(store: Store) -> None:
    with serve(store.state, BASE, service_allow=("http://127.0.0.1:9/",), allow_private=("127.0.0.1",)) as lonely:
        query = "SELECT * { SERVICE %s <http://127.0.0.1:9/> { ?s ?p ?o } }"
        found = ask(lonely, query % "")
        assert (found.status_code, found.json()["code"]) == (502, "service-failed")
        silent = ask(lonely, query % "SILENT")
        assert silent.json()["results"]["bindings"] == [{}]
        assert silent.headers["X-Graphtide-Silenced"] == "http://127.0.0.1:9/"


def test_so_many_queries_ask_others_at_once_and_no_more(server: Served, other: Other) -> None:
    query = f"SELECT * {{ SERVICE <{other.url}slow> {{ ?s ?p ?o }} }}"
    found: list[int] = []
    asking = [
        threading.Thread(target=lambda: found.append(ask(server, query, timeout=1).status_code)) for _ in range(8)
    ]
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    assert set(found) == {429, 504} and found.count(504) >= 4
    assert ask(server, f"SELECT * {{ SERVICE <{other.url}> {{ ?s ?p ?o }} }}").status_code == 200


def test_a_slow_endpoint_ends_at_the_deadline_of_the_query(server: Served, other: Other) -> None:
    found = ask(server, f"SELECT * {{ SERVICE <{other.url}slow> {{ ?s ?p ?o }} }}", timeout=0.4)
    assert (found.status_code, found.json()["code"]) == (504, "query-timeout")
    assert found.elapsed.total_seconds() < 3.0  # the endpoint takes five


def test_workers_have_no_network_and_ready_says_so(server: Served) -> None:
    ready = requests.get(server.url + "ready", timeout=20).json()
    if ready["network"]:
        pytest.skip("this system does not let a process leave the network")
    ours = os.readlink("/proc/self/ns/net")
    assert ready["pids"]
    for pid in ready["pids"]:
        assert os.readlink(f"/proc/{pid}/ns/net") != ours
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
        assert [line.split(":")[0].strip() for line in lines] == ["lo"]
        assert Path(f"/proc/{pid}/net/route").read_text().splitlines()[1:] == []
