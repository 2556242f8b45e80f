"""A model is asked over a real connection, by what its server can, and every way it can fail has a name and an end."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from sparql.question.model import MOST_BYTES, Model
from sparql.question.modelling import ModelFailed, ModelSettings
from tests.fake_openai import Reply, serving

ASK = [{"role": "system", "content": "You write SPARQL."}, {"role": "user", "content": "Which services are there?"}]
QUERY = "SELECT ?s { ?s a <https://w3id.org/graphtide/ns#Service> }"
JSON = json.dumps({"sparql": QUERY, "reason": ""})


def ask(url: str, *, seconds: float = 5.0, **settings: Any) -> Any:
    model = Model(ModelSettings("small", url, **settings))
    try:
        return model.ask(ASK, seconds=seconds)
    finally:
        model.close()


def refusing(*names: str, status: int = 400) -> Callable[[dict[str, Any]], Reply]:
    """A server that says no to any request that has one of these, and names it."""

    def say(asked: dict[str, Any]) -> Reply:
        for name in names:
            if name in asked:
                body = {"error": {"message": f"Unsupported parameter: '{name}'.", "type": "invalid_request_error"}}
                return Reply(status=status, body=json.dumps(body).encode())
        return Reply(JSON if "response_format" in asked else QUERY)

    return say


def test_a_query_comes_back_with_what_it_cost():
    with serving(JSON) as fake:
        reply = ask(fake.url, key="sk-test-123456789", input_price=2.0, output_price=10.0)
    assert reply.sparql == QUERY
    assert (reply.spent.calls, reply.spent.input_tokens, reply.spent.output_tokens) == (1, 120, 30)
    assert reply.spent.cost == pytest.approx((120 * 2.0 + 30 * 10.0) / 1e6)
    assert fake.keys == ["Bearer sk-test-123456789"]


def test_the_same_request_has_temperature_nought_and_a_seed():
    with serving(JSON) as fake:
        ask(fake.url)
        ask(fake.url)
    assert fake.asked[0] == fake.asked[1]
    assert (fake.asked[0]["temperature"], fake.asked[0]["seed"]) == (0.0, 7)


@pytest.mark.parametrize("names", [("response_format",), ("response_format", "tools"), ("seed", "temperature"),
                                   ("max_tokens",), ("seed", "response_format", "tools", "temperature")])  # fmt: skip
def test_what_a_server_refuses_is_not_asked_of_it_again(names):
    with serving(refusing(*names)) as fake:
        model = Model(ModelSettings("small", fake.url))
        assert model.ask(ASK, seconds=5).sparql == QUERY
        found = len(fake.asked)
        assert model.ask(ASK, seconds=5).sparql == QUERY
        model.close()
    assert len(fake.asked) == found + 1
    assert not set(names) & set(fake.asked[-1])


def test_a_server_that_only_has_text_is_asked_for_text():
    def say(asked: dict[str, Any]) -> Reply:
        if "response_format" in asked or "tools" in asked:
            return Reply(status=422, body=b'{"detail": "this model was not built for that"}')
        return Reply(f"Here you are:\n```sparql\n{QUERY}\n```")

    with serving(say) as fake:
        reply = ask(fake.url)
    assert QUERY in reply.sparql
    assert "nothing else" in fake.asked[-1]["messages"][-1]["content"]


def test_a_tool_call_is_read_as_the_query_it_carries():
    with serving([Reply(JSON, tool=True)]) as fake:
        assert ask(fake.url, mode="tools").sparql == QUERY
    assert fake.asked[0]["tool_choice"]["function"]["name"] == "query"


@pytest.mark.parametrize("text", [json.dumps({"sparql": "", "reason": "No prices here."}), "NO ANSWER: No prices here.",
                                  "no_answer - No prices here."])  # fmt: skip
def test_a_model_may_say_that_the_graph_cannot_answer(text):
    with serving(text) as fake:
        reply = ask(fake.url)
    assert (reply.sparql, reply.reason) == ("", "No prices here.")


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(status=500, body=b"oops"), "down"),
        (Reply(status=429, body=b'{"error": {"message": "slow down"}}', headers={"Retry-After": "0"}), "rate-limited"),
        (Reply(status=429, body=b"{}", headers={"Retry-After": "3600"}), "rate-limited"),
        (Reply(status=429, body=b"{}", headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), "rate-limited"),
        (Reply(status=401, body=b'{"error": {"message": "bad key"}}'), "refused"),
        (Reply(status=404, body=b'{"error": {"message": "The model `small` does not exist"}}'), "refused"),
        (Reply(status=302, body=b"", headers={"Location": "http://192.0.2.1/"}), "refused"),
        (Reply(body=b"<html><body>Sign in</body></html>"), "garbage"),
        (Reply(body=b"{}"), "garbage"),
        (Reply(body=b'{"choices": []}'), "garbage"),
        (Reply(body=b'{"choices": [{"message": null}]}'), "garbage"),
        (Reply(body=b"[" * 100_000), "garbage"),
        (Reply(body=b"x" * (MOST_BYTES + 10)), "garbage"),
        (Reply(body=gzip.compress(b" " * 50_000_000), headers={"Content-Encoding": "gzip"}), "garbage"),
        (Reply(JSON, delay=6.0), "slow"),
        (Reply(JSON, drip=0.05), "slow"),
    ],
)
def test_every_failure_has_a_kind_and_comes_within_the_deadline(reply, kind):
    began = time.monotonic()
    with serving([reply]) as fake, pytest.raises(ModelFailed) as failed:
        ask(fake.url, seconds=2.5)
    assert failed.value.kind == kind
    assert time.monotonic() - began < 20


def test_a_server_that_is_not_there_is_down():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(ModelFailed, match=f"http://127.0.0.1:{port} cannot be reached"):
        ask(f"http://127.0.0.1:{port}/v1")


def test_a_short_wait_that_was_asked_for_is_taken_once():
    busy = Reply(status=429, body=b"{}", headers={"Retry-After": "0.2"})
    with serving([busy, JSON]) as fake:
        assert ask(fake.url).sparql == QUERY
    assert len(fake.asked) == 2


def test_no_error_shows_a_key_that_the_server_sent_back():
    key = "abcdef0123456789"
    body = json.dumps({"error": {"message": f"Incorrect API key: {key}; did you mean sk-proj-QWERTYUIOP?"}}).encode()
    with serving([Reply(status=401, body=body)]) as fake, pytest.raises(ModelFailed) as failed:
        ask(fake.url, key=key)
    assert key not in str(failed.value)
    assert "QWERTY" not in str(failed.value)
    assert key not in repr(ModelSettings("small", key=key))


def test_without_a_key_in_the_settings_none_from_the_environment_is_sent(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-someone-elses-key")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://192.0.2.1/v1")
    with serving(JSON) as fake:
        ask(fake.url)
    assert "someone" not in fake.keys[0]
