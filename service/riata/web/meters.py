"""What Prometheus reads: counts kept here, and gauges asked from the service at the moment of the scrape."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.base.errors import RiataError
from riata.run.outcome import Observed
from riata.web.problems import counts
from riata.web.service import ServiceProtocol

# From a prediction of one row (below 1 ms) to an import of hundreds of MB.
DURATION_BUCKETS_S: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)
PROMETHEUS_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"

Gauges = dict[str, GaugeMetricFamily]

MODEL_GAUGES: Final = {
    "log_seq": "Last event in the durable log.",
    "applied_seq": "Last event the served model includes.",
    "lag_events": "Events in the log that the served model does not include.",
    "non_zeros": "Weights of the served model that are not zero.",
    "snapshot_age_seconds": "Since the served model was published.",
    "progressive_log_loss": "Test-then-train log loss over all events.",
    "base_log_loss": "The same for a predictor that knows the base rate only.",
}


class Meters:
    """Counters and histograms of one application; nothing global."""

    def __init__(self, service: ServiceProtocol) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("riata_requests", "Requests answered.", ("method", "route", "code"), registry=self.registry)
        self._durations = Histogram(
            "riata_request_duration_seconds",
            "From the head of the request to the end of the answer.",
            ("route",),
            buckets=DURATION_BUCKETS_S,
            registry=self.registry,
        )
        self._rows = Counter("riata_rows", "Rows sent to observe.", ("model", "outcome"), registry=self.registry)
        self._request_children: dict[tuple[str, str, int], Counter] = {}
        self._duration_children: dict[str, Histogram] = {}
        self.registry.register(ServiceCollector(service))
        ProcessCollector(registry=self.registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request. `route` is a template, so that the number of series is bounded."""
        key = (method, route, status)
        counter = self._request_children.get(key)
        if counter is None:
            counter = self._request_children[key] = self._requests.labels(method, route, str(status))
        counter.inc()
        durations = self._duration_children.get(route)
        if durations is None:
            durations = self._duration_children[route] = self._durations.labels(route)
        durations.observe(seconds)

    def rows(self, model: str, observed: Observed) -> None:
        """Count what became of the rows of one request. `model` exists, so the number of series is bounded."""
        for outcome, count in counts(observed).items():
            if count:
                self._rows.labels(model, outcome).inc(count)

    def text(self) -> bytes:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self.registry)


class ServiceCollector(Collector):
    """Asks the service when Prometheus asks."""

    def __init__(self, service: ServiceProtocol) -> None:
        self.service = service

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed, and asking the service at registration would be too early."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield one family for each gauge."""
        health = self.service.health()
        for name, value, text in (
            ("alive", health.alive, "1 unless only a restart can help."),
            ("ready", health.ready, "1 while events and predictions are taken."),
            ("started", health.started, "1 once every log was replayed."),
        ):
            yield GaugeMetricFamily(f"riata_{name}", text, value=float(value))
        gauges = {name: GaugeMetricFamily(f"riata_{name}", text, labels=("model",)) for name, text in MODEL_GAUGES.items()}
        for model, at in health.models.items():
            gauges["log_seq"].add_metric((model,), at.seq_logged)
            gauges["applied_seq"].add_metric((model,), at.seq_applied)
            gauges["lag_events"].add_metric((model,), at.seq_logged - at.seq_applied)
            gauges["non_zeros"].add_metric((model,), at.non_zeros)
            gauges["snapshot_age_seconds"].add_metric((model,), at.age_s)
            self._add_losses(model, gauges)
        yield from gauges.values()
        yield from checkpoint_metrics(health.checkpoints)

    def _add_losses(self, model: str, gauges: Gauges) -> None:
        try:
            cumulative = self.service.published(model).figures["cumulative"]
        except RiataError:
            return  # dropped a moment ago, or nothing is served yet
        for gauge, figure in (("progressive_log_loss", "log_loss"), ("base_log_loss", "base_log_loss")):
            if cumulative.get(figure) is not None:
                gauges[gauge].add_metric((model,), cumulative[figure])


def checkpoint_metrics(checkpoints: dict[str, int]) -> Iterator[Metric]:
    """Yield how saving goes, all models together."""
    outcomes = CounterMetricFamily("riata_checkpoints", "Checkpoints written since start.", labels=("outcome",))
    for outcome in ("ok", "failed"):
        outcomes.add_metric((outcome,), checkpoints.get(outcome, 0))
    yield outcomes
    duration = checkpoints.get("last_ms", 0) / 1000
    yield GaugeMetricFamily("riata_checkpoint_duration_seconds", "How long the last checkpoint took.", value=duration)
