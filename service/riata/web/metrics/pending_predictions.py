"""Prometheus metrics of predictions that wait for their label, and of rows that come late."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.run.labels.pending_rows import BOUNDS_S, Delays
from riata.run.service import Service

LABEL_OUTCOMES: Final = ("joined", "repeated", "conflict", "late", "unknown", "damaged")
LIMITS: Final = [*map(str, map(float, BOUNDS_S)), "+Inf"]
END_OUTCOMES: Final = ("defaulted", "expired")


class RememberedCollector(Collector):
    """Collects the counts of remembered predictions at each scrape."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed, and at registration it is too early to query the service."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the counters since the start, and the gauges if this process manages the pending predictions."""
        kept = CounterMetricFamily("riata_predictions_remembered", "Predictions remembered since the start.", labels=("model",))
        labels = CounterMetricFamily(
            "riata_prediction_labels", "Labels sent for remembered predictions.", labels=("model", "outcome")
        )
        ended = CounterMetricFamily(
            "riata_predictions_due", "Remembered predictions whose label did not arrive in time.", labels=("model", "outcome")
        )
        rows = GaugeMetricFamily(
            "riata_remembered_rows", "Remembered predictions stored now, labelled or not.", labels=("model",)
        )
        size = GaugeMetricFamily("riata_remembered_bytes", "Bytes that they use of remember_bytes_max.", labels=("model",))
        text = "Seconds from a remembered prediction to its label."
        delay = HistogramMetricFamily("riata_label_delay_seconds", text, labels=("model",))
        for model, tally in self.service.remembered().items():
            kept.add_metric((model,), tally.remembered)
            for outcome in LABEL_OUTCOMES:
                labels.add_metric((model, outcome), getattr(tally, outcome))
            delay.add_metric((model,), _buckets(tally.delays), tally.delays.seconds)
            for outcome in END_OUTCOMES:
                ended.add_metric((model, outcome), getattr(tally, outcome))
            if tally.rows is not None and tally.bytes is not None:
                rows.add_metric((model,), tally.rows)
                size.add_metric((model,), tally.bytes)
        text = "Seconds from the time `ts` of a row to its acceptance."
        late = HistogramMetricFamily("riata_event_lateness_seconds", text, labels=("model",))
        for model, lateness in self.service.lateness().items():
            late.add_metric((model,), _buckets(lateness), lateness.seconds)
        yield from (kept, labels, delay, ended, rows, size, late)


def _buckets(delays: Delays) -> list[tuple[str, float]]:
    return [*zip(LIMITS, accumulate(delays.counts), strict=True)]
