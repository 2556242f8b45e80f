"""The writer's socket: what is asked is answered or refused, and no peer can stop it."""

from __future__ import annotations

import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparql.client import WriterClient, WriterGone, WriterRefused, about, address
from sparql.store.socket import Emit, Refusal, Server, serve


def echo(args: dict[str, Any], emit: Emit) -> dict[str, Any]:
    for number in range(int(args.get("events", 0))):
        emit({"n": number})
    return {"got": args}


def refuse(args: dict[str, Any], emit: Emit) -> dict[str, Any]:
    raise Refusal("held", f"{args['what']!r} is held.")


def fail(args: dict[str, Any], emit: Emit) -> dict[str, Any]:
    raise ZeroDivisionError("one over none")


HANDLERS = {"echo": echo, "refuse": refuse, "fail": fail}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    place = tmp_path / ".graphtide"
    place.mkdir()
    return place


@pytest.fixture
def server(state: Path) -> Iterator[Server]:
    with serve(state, HANDLERS, version="7", max_request=100_000) as running:
        yield running


def raw(state: Path, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as peer, address(state / "writer.sock") as name:
        peer.connect(name)
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: peer.recv(65536), b""))


def test_a_request_is_answered_after_its_events(state: Path, server: Server) -> None:
    heard: list[Any] = []
    assert WriterClient(state).call("echo", heard.append, events=3, name="Käse\udcff") == {
        "got": {"events": 3, "name": "Käse\udcff"}
    }
    assert heard == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_a_refusal_arrives_with_its_code_and_words(state: Path, server: Server) -> None:
    with pytest.raises(WriterRefused) as refused:
        WriterClient(state).call("refuse", what="services")
    assert (refused.value.code, refused.value.message) == ("held", "'services' is held.")


def test_a_handler_that_fails_is_an_error_to_its_peer_and_the_next_is_heard(state: Path, server: Server) -> None:
    with pytest.raises(WriterRefused, match="ZeroDivisionError: one over none"):
        WriterClient(state).call("fail")
    assert WriterClient(state).call("echo") == {"got": {}}


def test_an_unknown_request_names_the_known_ones(state: Path, server: Server) -> None:
    with pytest.raises(WriterRefused, match="does not know 'dance'. It knows: echo, fail, refuse"):
        WriterClient(state).call("dance")


@pytest.mark.parametrize("line", [b"{", b"\xff\xfe\n", b"[]\n", b'{"do": 7}\n', b'"do"\n', b"[" * 50_000 + b"\n"])
def test_a_peer_that_talks_nonsense_is_told_so_and_the_next_is_heard(state: Path, server: Server, line: bytes) -> None:
    answer = raw(state, line)
    assert answer == b"" or json.loads(answer)["error"]["code"] == "bad-request"
    assert WriterClient(state).call("echo") == {"got": {}}


def test_several_requests_on_one_connection_are_answered_in_order(state: Path, server: Server) -> None:
    answers = raw(state, b'{"do":"echo","n":1}\n\n{"do":"nope"}\n{"do":"echo","n":2}\n').splitlines()
    assert [json.loads(line).get("ok", {}).get("got", {}).get("n") for line in answers] == [1, None, 2]


def test_a_request_over_the_limit_is_refused_with_the_limit(state: Path, server: Server) -> None:
    with pytest.raises(WriterRefused, match="may hold 100000 bytes") as refused:
        WriterClient(state).call("echo", blob="x" * 3_000_000)
    assert refused.value.code == "too-large"
    assert WriterClient(state).call("echo") == {"got": {}}


def test_work_goes_on_when_the_peer_that_asked_goes_away(state: Path) -> None:
    asked, go, finished = threading.Event(), threading.Event(), threading.Event()

    def work(args: dict[str, Any], emit: Emit) -> None:
        asked.set()
        go.wait(5)
        for number in range(100):
            emit({"n": number})
        finished.set()

    with serve(state, {"work": work, **HANDLERS}):
        with socket.socket(socket.AF_UNIX) as peer, address(state / "writer.sock") as name:
            peer.connect(name)
            peer.sendall(b'{"do":"work"}\n')
            assert asked.wait(5)
        go.set()
        assert finished.wait(5)
        assert WriterClient(state).call("echo") == {"got": {}}


def test_a_short_request_is_answered_while_a_long_one_works(state: Path) -> None:
    go = threading.Event()

    def work(args: dict[str, Any], emit: Emit) -> dict[str, Any]:
        emit({"started": True})
        return {"waited": go.wait(10)}

    with serve(state, {"work": work, **HANDLERS}):
        started, answers = threading.Event(), []
        asks = threading.Thread(
            target=lambda: answers.append(WriterClient(state).call("work", lambda _: started.set()))
        )
        asks.start()
        assert started.wait(5)
        before = time.monotonic()
        assert WriterClient(state).call("echo") == {"got": {}}
        assert time.monotonic() - before < 1
        go.set()
        asks.join(5)
        assert answers == [{"waited": True}]


def test_without_a_writer_the_client_says_how_to_start_one(state: Path) -> None:
    assert not WriterClient(state).available()
    with pytest.raises(WriterGone, match=r"No writer runs for .*graphtide serve"):
        WriterClient(state).call("status")


def test_a_socket_left_by_a_killed_writer_is_no_writer_and_the_next_takes_its_place(state: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead, address(state / "writer.sock") as name:
        dead.bind(name)
    assert not WriterClient(state).available()
    with serve(state, HANDLERS):
        assert WriterClient(state).available()


def test_a_writer_that_dies_before_the_answer_is_gone(state: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, address(state / "writer.sock") as name:
        listener.bind(name)
        listener.listen()
        threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
        with pytest.raises(WriterGone, match="went away before it answered 'sync'"):
            WriterClient(state).call("sync")


def test_a_writer_that_hangs_is_gone_after_a_bounded_silence(state: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, address(state / "writer.sock") as name:
        listener.bind(name)
        listener.listen()
        with pytest.raises(WriterGone, match="no sign of life for 0.2 s"):
            WriterClient(state).call("status", silence=0.2)


def test_only_the_user_may_open_the_socket_and_writer_json_says_who_listens(state: Path, server: Server) -> None:
    assert stat.S_IMODE(os.stat(state / "writer.sock").st_mode) == 0o600
    found = about(state)
    assert found is not None and (found["pid"], found["version"]) == (os.getpid(), "7")


def test_closing_leaves_neither_socket_nor_writer_json(state: Path) -> None:
    serve(state, HANDLERS).close()
    assert list(state.iterdir()) == [] and about(state) is None


def test_a_state_path_longer_than_a_socket_name_works(tmp_path: Path) -> None:
    state = tmp_path / ("a" * 120) / ("b" * 120) / ".graphtide"
    state.mkdir(parents=True)
    with serve(state, HANDLERS):
        assert (state / "writer.sock").is_socket()
        assert WriterClient(state).call("echo", n=1) == {"got": {"n": 1}}
    assert not WriterClient(state).available()
