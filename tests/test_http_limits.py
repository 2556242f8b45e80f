"""A limit is met with its own status and the time to come back, and a client that does not read is not waited for."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparql.log import Change
from sparql.store import open_store
from tests.served import Served, get, hear, serve, talk, until

BASE = "https://limit.example/"
TEN = "{ 0 1 2 3 4 5 6 7 8 9 }"


def crossed(digits: int, what: str = "*") -> str:
    return f"SELECT {what} {{ " + " ".join(f"VALUES ?v{n} {TEN}" for n in range(digits)) + " }"


ENDLESS = crossed(9, "(COUNT(*) AS ?n)")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    state = tmp_path_factory.mktemp("limit") / ".graphtide"
    with open_store(state, BASE) as store:
        store.commit(Change({}, {"": frozenset({f'<{BASE}s> <{BASE}p> "o"'})}))
        store.checkpoint()
        with serve(state, BASE, per_client=2, queue=8, deadline=10.0, max_rows=50_000) as found:
            yield found


def test_a_client_with_too_many_queries_is_told_when_to_come_back(server: Served) -> None:
    with ThreadPoolExecutor(2) as threads:
        busy = [
            threads.submit(talk, server.port, get(server.port, f"{ENDLESS} # {n}", more="&timeout=1.5"))
            for n in range(2)
        ]
        until(lambda: server.serving.pool.status()["busy"] and server.serving.pool.status()["waiting"])
        refused = talk(server.port, get(server.port, crossed(1)))
        assert (refused.status, json.loads(refused.body)["code"]) == (429, "too-many-queries")
        assert int(refused.headers["retry-after"]) >= 1
        assert sorted({one.result().status for one in busy} - {503}) == [504]


def test_a_client_that_does_not_read_is_cut_off_at_the_deadline(server: Served) -> None:
    for coding in ("identity", "gzip"):
        with socket.socket() as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            peer.connect(("127.0.0.1", server.port))
            peer.settimeout(10)
            # Random digits: compressed they still are more than the system keeps for a client.
            query = crossed(5, "(SHA512(STR(RAND())) AS ?x)")
            peer.sendall(get(server.port, query, more="&format=xml&timeout=1", Accept_Encoding=coding))
            assert peer.recv(100)
            time.sleep(1.6)
            assert server.serving.pool.status()["busy"] == 0
            try:
                rest = b"".join(iter(lambda: peer.recv(1 << 16), b""))
            except ConnectionError:
                continue  # reset: what lay in the server's buffers is gone with it
            assert not rest.endswith(b"0\r\n\r\n")


def test_an_answer_over_its_limit_is_refused_or_cut_and_never_short(server: Served) -> None:
    found = talk(server.port, get(server.port, crossed(5), more="&format=csv"))
    assert found.status == 422 or not found.complete
    assert talk(server.port, get(server.port, crossed(4), more="&format=csv")).body.count(b"\n") == 10_001


def test_a_query_stopped_by_its_id_breaks_its_answer(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        peer.sendall(get(server.port, ENDLESS + "# stop"))
        (running,) = until(server.serving.pool.running)
        assert server.serving.pool.cancel(running.id)
        found = hear(peer)
    assert (found.status, json.loads(found.body)["code"]) == (503, "query-cancelled")


def test_a_query_whose_client_goes_away_is_stopped(server: Served) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
        peer.sendall(get(server.port, ENDLESS + "# gone"))
        until(server.serving.pool.running)
    until(lambda: not server.serving.pool.running(), 3.0)
