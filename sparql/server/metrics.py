"""What a monitor may know is numbers: no label of them is a text that a client chose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from sparql.log import read_head
from sparql.query.call import Ended
from sparql.query.pool import Pool

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The numbers of one server, in a registry of its own. Use it from any thread."""

    def __init__(self, pool: Pool, state: Path) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "graphtide_requests", "Requests answered.", ("route", "method", "status"), registry=self.registry
        )
        self.request_seconds = Histogram(
            "graphtide_request_seconds", "Time to the last byte of an answer.", ("route",), buckets=SECONDS,
            registry=self.registry,
        )  # fmt: skip
        self.cut = Counter("graphtide_answers_cut", "Answers that broke off after their start.", registry=self.registry)
        self.queries = Counter("graphtide_queries", "Queries by how they ended.", ("outcome",), registry=self.registry)
        self.query_seconds = Histogram(
            "graphtide_query_seconds", "Time of a query with its wait.", buckets=SECONDS, registry=self.registry
        )
        self.wait_seconds = Histogram(
            "graphtide_query_wait_seconds", "Time a query waited for a worker.", buckets=SECONDS, registry=self.registry
        )
        self.service_calls = Counter(
            "graphtide_service_calls", "Queries that asked other endpoints.", ("outcome",), registry=self.registry
        )
        self.sparql: Any = None
        """The endpoint whose cache is counted."""
        self._children: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        self.connections: dict[str, int] = {"open": 0, "refused": 0}
        self.registry.register(_Now(self, pool, state))
        pool.observe(self.query)

    def request(self, route: str, method: str, status: int, seconds: float, *, whole: bool) -> None:
        """A request is over. `route` is a route's own path, never what a client wrote."""
        # Finding a child by its labels costs more than counting.
        key = (route, method, status)
        found = self._children.get(key)
        if found is None:
            counter = self.requests.labels(route, method if method in METHODS else "other", str(status))
            found = counter, self.request_seconds.labels(route)
            if method in METHODS:
                self._children[key] = found
        found[0].inc()
        found[1].observe(seconds)
        if not whole:
            self.cut.inc()

    def query(self, ended: Ended) -> None:
        """A query is over."""
        self.queries.labels(ended.outcome).inc()
        self.query_seconds.observe(ended.seconds)
        self.wait_seconds.observe(ended.queue_seconds)

    def text(self) -> bytes:
        """All of them in the format of Prometheus."""
        return generate_latest(self.registry)


class _Now(Collector):
    """What is so at the moment someone looks."""

    def __init__(self, metrics: Metrics, pool: Pool, state: Path) -> None:
        self.metrics, self.pool, self.state = metrics, pool, state

    def collect(self) -> Iterator[Metric]:
        status, head = self.pool.status(), read_head(self.state)
        for name, meaning, value in (
            ("graphtide_workers", "Query workers that are there.", status["workers"]),
            ("graphtide_queries_running", "Queries that a worker runs.", status["busy"]),
            ("graphtide_queries_waiting", "Queries that wait for a worker.", status["waiting"]),
            ("graphtide_workers_networkless", "1 when workers have no network.", int(status["network"] is False)),
            ("graphtide_epoch", "The newest commit.", head),
            ("graphtide_connections_open", "Connections that are open.", self.metrics.connections["open"]),
        ):
            yield GaugeMetricFamily(name, meaning, value)
        yield CounterMetricFamily(
            "graphtide_connections_refused", "Connections over a limit.", self.metrics.connections["refused"]
        )
        if status["workers"]:
            lag = self.pool.lag(head)
            yield GaugeMetricFamily(
                "graphtide_replica_lag_commits", "Commits the idle worker furthest behind lacks.", lag
            )
        cache = getattr(self.metrics.sparql, "cache", None)
        if cache is not None:
            yield CounterMetricFamily("graphtide_cache_hits", "Answers that were kept.", cache.hits)
            yield CounterMetricFamily("graphtide_cache_misses", "Answers that were not.", cache.misses)
            yield GaugeMetricFamily("graphtide_cache_bytes", "What kept answers take.", cache.bytes)
