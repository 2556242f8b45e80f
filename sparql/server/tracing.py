"""A trace leaves this machine only for the place the settings name; without one, the library is not even loaded."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from sparql.query.call import Ended
from sparql.server.config import ServerConfig, ServerError

NEEDED = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


class Tracing:
    """Spans of requests and their queries. What a query says is in none of them."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider, self._trace = provider, trace
        self._tracer = provider.get_tracer("graphtide")
        self._propagator = TraceContextTextMapPropagator()

    @contextlib.contextmanager
    def request(self, method: str, headers: Mapping[str, str]) -> Iterator[Any]:
        """The span of a request, in the trace its `traceparent` names."""
        parent = self._propagator.extract(
            {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        )
        with self._tracer.start_as_current_span(
            method, context=parent, kind=self._trace.SpanKind.SERVER, record_exception=False
        ) as span:
            yield span

    def done(self, span: Any, method: str, route: str, status: int, request_id: str) -> None:
        """What is known of a request when it is over."""
        span.update_name(f"{method} {route}")
        for name, value in (
            ("http.request.method", method),
            ("http.route", route),
            ("http.response.status_code", status),
            ("graphtide.request.id", request_id),
        ):
            span.set_attribute(name, value)
        if status >= 500:
            span.set_status(self._trace.StatusCode.ERROR)

    def query(self, ended: Ended) -> None:
        """A query is over: its wait and its run are spans of the request that asked it."""
        span = self._trace.get_current_span()
        if not span.is_recording():
            return  # it ended in a thread of its own
        now = time.time_ns()
        began = now - int(ended.seconds * 1e9)
        ran = began + int(ended.queue_seconds * 1e9)
        self._tracer.start_span("query.wait", start_time=began).end(ran)
        run = self._tracer.start_span("query.run", start_time=ran)
        for name, value in (
            ("graphtide.query.id", ended.id),
            ("graphtide.query.outcome", ended.outcome),
            ("graphtide.query.kind", ended.kind),
            ("graphtide.query.rows", ended.rows),
            ("graphtide.query.bytes", ended.bytes),
            ("graphtide.epoch", ended.epoch or 0),
        ):
            run.set_attribute(name, value)
        run.end(now)

    @contextlib.asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """At the end, what was not sent yet is sent, for a moment."""
        try:
            yield
        finally:
            await asyncio.to_thread(self._provider.shutdown)


def tracing(config: ServerConfig) -> Tracing | None:
    """The traces of a server, None without `otel_endpoint`. Raises ServerError when they cannot be made."""
    if not config.otel_endpoint:
        return None
    parts = urlsplit(config.otel_endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ServerError(f"otel_endpoint: {config.otel_endpoint!r} is not a URL such as http://localhost:4318.")
    try:
        missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    except ModuleNotFoundError:
        missing = list(NEEDED)
    if missing:
        raise ServerError("otel_endpoint needs OpenTelemetry: pip install 'graphtide[otel]', or take the setting out.")
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    endpoint = config.otel_endpoint
    if parts.path in ("", "/"):
        endpoint = endpoint.rstrip("/") + "/v1/traces"
    provider = TracerProvider(resource=Resource.create({"service.name": "graphtide"}), shutdown_on_exit=False)
    provider.add_span_processor(
        BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, timeout=5), schedule_delay_millis=1000)
    )
    return Tracing(provider)
