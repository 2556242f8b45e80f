"""A chat completions server on loopback that says what a test wrote, and refuses what OpenAI's own types refuse."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

REQUEST = TypeAdapter(CompletionCreateParamsNonStreaming)


@dataclass
class Reply:
    """One answer: of `text`, or a raw `body` with `status`. `drip` seconds pass before each byte of the body."""

    text: str = ""
    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    drip: float = 0.0
    tool: bool = False


@dataclass
class Fake:
    """What was asked, in order, and what is said next: `say` is called with each request."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    say: Callable[[dict[str, Any]], Reply] = lambda _: Reply("SELECT * { ?s ?p ?o }")


def completion(reply: Reply, model: str) -> bytes:
    """The body of a completion, as OpenAI's own type has it."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
    if reply.tool:
        call = {"id": "call_1", "type": "function", "function": {"name": "query", "arguments": reply.text}}
        message |= {"content": None, "tool_calls": [call]}
    found = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "tool_calls" if reply.tool else "stop", "message": message,
                     "logprobs": None}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 30, "total_tokens": 150},
    }  # fmt: skip
    ChatCompletion.model_validate(found, strict=True)
    return json.dumps(found).encode()


@contextmanager
def serving(say: Callable[[dict[str, Any]], Reply] | str | list[Reply | str]) -> Iterator[Fake]:
    """A server that runs inside. A list is said one by one, its last again and again."""
    fake = Fake()
    if isinstance(say, str):
        fake.say = lambda _: Reply(say)
    elif isinstance(say, list):
        left = list(say)

        def in_turn(_: dict[str, Any]) -> Reply:
            one = left.pop(0) if len(left) > 1 else left[0]
            return Reply(one) if isinstance(one, str) else one

        fake.say = in_turn
    else:
        fake.say = say

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            asked = json.loads(body)
            if self.path != "/v1/chat/completions":
                return self._send(Reply(status=404, body=b'{"error": {"message": "no such path"}}'), "")
            REQUEST.validate_python(asked)
            fake.asked.append(asked)
            fake.keys.append(self.headers.get("Authorization", ""))
            self._send(fake.say(asked), asked["model"])

        def _send(self, reply: Reply, model: str) -> None:
            data = reply.body if reply.body is not None else completion(reply, model)
            time.sleep(reply.delay)
            try:
                self.send_response(reply.status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if not reply.drip:
                    self.wfile.write(data)
                for at in range(len(data) if reply.drip else 0):
                    self.wfile.write(data[at : at + 1])
                    self.wfile.flush()
                    time.sleep(reply.drip)
            except OSError:
                self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=lambda: server.serve_forever(0.02), daemon=True).start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
