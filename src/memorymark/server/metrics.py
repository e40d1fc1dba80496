"""Metrics of the service, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator

from flask import Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from memorymark.server.event_stream import EventStreams
from memorymark.server.jobs import Jobs

BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Metrics:
    """The counters of one service."""

    def __init__(self, jobs: Jobs, streams: EventStreams) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "memorymark_request_seconds",
            "Time until an answer began, by endpoint and status.",
            ["endpoint", "status"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        watchers = Gauge("memorymark_watchers", "Open event streams.", registry=self._registry)
        watchers.set_function(lambda: streams.count)
        self.reused = Counter(
            "memorymark_answers_reused", "Questions answered from the history.", registry=self._registry
        )
        waiting = Gauge("memorymark_jobs_waiting", "Jobs that wait.", registry=self._registry)
        waiting.set_function(lambda: jobs.status()["queue"]["waiting"])
        running = Gauge("memorymark_jobs_running", "Jobs that run.", registry=self._registry)
        running.set_function(lambda: jobs.status()["queue"]["running"])
        healthy = Gauge("memorymark_healthy", "1, or 0 while GET /health says degraded.", registry=self._registry)
        healthy.set_function(lambda: jobs.problem is None)
        self._registry.register(_Ended(jobs))

    def count(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts an answered call."""
        self._seconds.labels(endpoint, str(status)).observe(seconds)

    def page(self) -> Response:
        """Returns the page that Prometheus reads."""
        return Response(generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST)


class _Ended:
    """Jobs that have ended since the start, by state."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily("memorymark_jobs", "Jobs that ended, by state.", labels=["state"])
        for state, count in list(self._jobs.ended.items()):  # lanes count meanwhile
            family.add_metric([state], count)
        yield family
