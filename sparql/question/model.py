"""A model is a stranger that may be down, slow, rude or wrong: it is asked once, within a time, and never believed.

Any server that speaks OpenAI's chat completions will do. What it can (a JSON schema, JSON, tools) is found out by
asking: what it refuses is not asked of it again. Requests go to the configured address and nowhere else.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx2
import openai

from sparql.question.answer import Spent
from sparql.question.modelling import BUSY, DOWN, GARBAGE, REFUSED, SLOW, ModelFailed, ModelSettings, Reply

MODES = ("schema", "tools", "json", "text")
"""The ways a model is asked for a query, the strictest first."""
MOST_BYTES = 4 * 2**20
"""How long the body of one answer may be."""
RETRY_SECONDS = 5.0
"""How long a server may tell us to wait before the one retry."""
LONGEST_DETAIL = 300
_LIMITED = ("temperature", "seed", "max_tokens", "max_completion_tokens", "response_format", "tools", "tool_choice")
_KEY = re.compile(r"\b(?:sk|pk|key|Bearer)[-_ ][A-Za-z0-9*_\-.]{6,}")

SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "sparql": {"type": "string", "description": "The SPARQL query; empty when the graph cannot answer."},
        "reason": {"type": "string", "description": "Why the graph cannot answer; empty when there is a query."},
    },
    "required": ["sparql", "reason"],
    "additionalProperties": False,
}
SHAPE = 'Answer with one JSON object {"sparql": "...", "reason": "..."} and nothing else.'
PLAIN = "Answer with the SPARQL query and nothing else; or, when the graph cannot answer, with NO ANSWER: and why."
_NONE = re.compile(r"\s*\W*NO[ _]ANSWER\W*(.*)", re.IGNORECASE | re.DOTALL)


class Model:
    """An open connection to one model. Safe for any number of threads."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self._http = httpx2.Client(
            transport=_Bounded(), follow_redirects=False, trust_env=False, headers={"accept-encoding": "identity"}
        )
        self._client = openai.OpenAI(
            # Without one the package looks for a key of its own in the environment, which nobody configured for this.
            api_key=settings.key or "none",
            base_url=settings.url,
            max_retries=0,
            http_client=self._http,
        )
        self._modes = list(MODES) if settings.mode == "auto" else [settings.mode]
        self._without: set[str] = set()

    def close(self) -> None:
        """No connection is left."""
        self._client.close()

    def ask(self, messages: Sequence[Mapping[str, str]], *, seconds: float) -> Reply:
        """What the model says to these messages, within `seconds`. Raises ModelFailed."""
        ends = time.monotonic() + min(seconds, self.settings.seconds)
        retried = False
        while True:
            mode = self._modes[0]
            try:
                return self._once(messages, mode, ends)
            except openai.APITimeoutError as slow:
                raise self._slow() from slow
            except (openai.RateLimitError, openai.InternalServerError) as busy:
                wait = _wait(busy.response.headers.get("retry-after"))
                if retried or time.monotonic() + wait >= ends or wait > RETRY_SECONDS:
                    kind = BUSY if isinstance(busy, openai.RateLimitError) else DOWN
                    raise ModelFailed(kind, f"The model's server says {busy.status_code}: {self._said(busy)}") from busy
                retried = True
                time.sleep(wait)
            except (openai.BadRequestError, openai.UnprocessableEntityError, openai.NotFoundError) as no:
                if not self._less(self._said(no), mode, no.status_code):
                    raise ModelFailed(REFUSED, f"The model's server says {no.status_code}: {self._said(no)}") from no
            except openai.APIStatusError as no:
                raise ModelFailed(REFUSED, f"The model's server says {no.status_code}: {self._said(no)}") from no
            except openai.APIConnectionError as down:
                if isinstance(down.__cause__, _TooLong):
                    raise ModelFailed(GARBAGE, str(down.__cause__)) from down
                if time.monotonic() >= ends:
                    raise self._slow() from down
                raise ModelFailed(
                    DOWN,
                    f"The model's server at {self._where} cannot be reached. Is it running, and is [model] url right?",
                ) from down
            except (openai.APIError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as garbage:
                raise ModelFailed(
                    GARBAGE, f"What {self._where} answers is no chat completion. Is [model] url the address of an API?"
                ) from garbage

    def _once(self, messages: Sequence[Mapping[str, str]], mode: str, ends: float) -> Reply:
        settings = self.settings
        left = ends - time.monotonic()
        if left <= 0:
            raise self._slow()
        options: dict[str, Any] = {"max_tokens": settings.tokens, **_MODE[mode]}
        if settings.temperature is not None:
            options["temperature"] = settings.temperature
        if settings.seed is not None:
            options["seed"] = settings.seed
        if "max_tokens" in self._without:
            options["max_completion_tokens"] = options.pop("max_tokens")
        options = {name: value for name, value in options.items() if name not in self._without}
        told: Any = [*messages[:-1], {**messages[-1], "content": f"{messages[-1]['content']}\n{_TELL[mode]}"}]
        found = self._client.chat.completions.create(
            model=settings.name,
            messages=told,
            timeout=left,
            extra_headers={_ENDS: f"{ends:.6f}"},
            **options,
        )
        message = found.choices[0].message
        calls = message.tool_calls or ()
        text = message.content or ""
        if calls:
            text = str(getattr(getattr(calls[0], "function", None), "arguments", text))
        return _reply(text, self._spent(found.usage))

    def _spent(self, usage: Any) -> Spent:
        settings = self.settings
        given, made = (int(getattr(usage, name, 0) or 0) for name in ("prompt_tokens", "completion_tokens"))
        cost = None
        if settings.input_price is not None and settings.output_price is not None:
            cost = (given * settings.input_price + made * settings.output_price) / 1e6
        return Spent(1, given, made, cost)

    def _less(self, said: str, mode: str, status: int) -> bool:
        """Whether there is something the server refuses that it need not be asked; it is not asked for it again."""
        lower = said.lower()
        named = [name for name in _LIMITED if name in lower and name not in self._without]
        format_refused = any(name in ("response_format", "tools", "tool_choice") for name in named)
        for name in named:
            if name in ("temperature", "seed", "max_tokens", "max_completion_tokens"):
                self._without.add(name)
        if named and not format_refused:
            return True
        if status == 404 and "model" in lower:
            return False
        if mode == self._modes[-1]:
            return False
        # What a server says of a format it does not have is worded in as many ways as there are servers.
        self._modes = self._modes[self._modes.index(mode) + 1 :]
        return True

    def _said(self, wrong: openai.APIStatusError) -> str:
        """What the server says of an error, short, and without what looks like a key: servers send keys back."""
        body = wrong.body
        if isinstance(body, dict):
            inner = body.get("error", body)
            body = inner.get("message", inner) if isinstance(inner, dict) else inner
        text = " ".join(str(body or wrong.response.reason_phrase)[: 10 * LONGEST_DETAIL].split())
        if self.settings.key:
            text = text.replace(self.settings.key, "[key]")
        return _KEY.sub("[key]", text)[:LONGEST_DETAIL]

    def _slow(self) -> ModelFailed:
        return ModelFailed(SLOW, f"The model did not answer within {self.settings.seconds:g} s ([model] seconds).")

    @property
    def _where(self) -> str:
        url = httpx2.URL(self.settings.url)
        return f"{url.scheme}://{url.host}" + (f":{url.port}" if url.port else "")


def asked_for_json(text: str) -> tuple[str, str] | None:
    """(sparql, reason) when the text holds the object that was asked for, in a fence or not; else None."""
    for start in _objects(text):
        try:
            found, _ = json.JSONDecoder().raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and isinstance(found.get("sparql", found.get("query")), str):
            return str(found.get("sparql", found.get("query"))), str(found.get("reason") or "")
    return None


def _objects(text: str) -> Iterator[int]:
    """Where the first few objects of a text may begin."""
    at = -1
    for _ in range(8):
        at = text.find("{", at + 1)
        if at < 0:
            return
        if text[at + 1 : at + 40].lstrip()[:1] == '"':
            yield at


def _reply(text: str, spent: Spent) -> Reply:
    found = asked_for_json(text)
    if found is not None:
        sparql, reason = found
        return Reply(text, sparql.strip(), reason if not sparql.strip() else "", spent)
    none = _NONE.match(text)
    if none:
        return Reply(text, "", none.group(1).strip() or "The model says that the graph cannot answer.", spent)
    return Reply(text, text.strip(), "" if text.strip() else "The model said nothing.", spent)


def _wait(after: str | None) -> float:
    try:
        return max(0.0, float(after or "1"))
    except ValueError:
        return RETRY_SECONDS + 1


_MODE: Mapping[str, Mapping[str, Any]] = {
    "schema": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "query", "strict": True, "schema": SCHEMA},
        }
    },
    "tools": {
        "tools": [
            {
                "type": "function",
                "function": {"name": "query", "description": "Answers the question.", "parameters": SCHEMA},
            }
        ],
        "tool_choice": {"type": "function", "function": {"name": "query"}},
    },
    "json": {"response_format": {"type": "json_object"}},
    "text": {},
}
_TELL: Mapping[str, str] = {"schema": SHAPE, "json": SHAPE, "tools": "Call the function `query`.", "text": PLAIN}
_ENDS = "x-graphtide-ends"


class _TooLong(httpx2.TransportError):
    """The body of an answer is longer than MOST_BYTES."""


class _Bounded(httpx2.HTTPTransport):
    """A transport whose answers end: by their length, and by the time the request names."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        ends = float(request.headers.pop(_ENDS, "inf"))
        response = super().handle_request(request)
        # What is not asked for compressed is not unpacked either: a few bytes can be many.
        response.headers.pop("content-encoding", None)
        assert isinstance(response.stream, httpx2.SyncByteStream)
        response.stream = _BoundedStream(response.stream, ends)
        return response


class _BoundedStream(httpx2.SyncByteStream):
    def __init__(self, inner: httpx2.SyncByteStream, ends: float) -> None:
        self.inner, self.ends = inner, ends

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for data in self.inner:
            size += len(data)
            if size > MOST_BYTES:
                raise _TooLong(f"The model's server sent more than {MOST_BYTES:,} bytes.")
            if time.monotonic() > self.ends:
                raise httpx2.ReadTimeout("The deadline of the question is over.")
            yield data

    def close(self) -> None:
        self.inner.close()
