"""Prometheus metrics of refits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.run.service import Service

DECISIONS: Final = ("PROMOTE", "HOLD", "REJECT")


class RefitCollector(Collector):
    """Collects the figures of the refits of each model at each scrape."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed, and at registration it is too early to query the service."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield counters since the start, and figures of the last refit."""
        seconds = GaugeMetricFamily("riata_refit_seconds", "Seconds that the last refit took.", labels=("model",))
        passes = CounterMetricFamily("riata_refit_passes", "Passes of refits over their events.", labels=("model",))
        text = "The optimum of the last refit is at most this much higher than what it found."
        gap = GaugeMetricFamily("riata_refit_gap", text, labels=("model",))
        text = "Log loss of the model minus that of the optimum on the hold-out of the last refit, both frozen before it."
        regret = GaugeMetricFamily("riata_regret_log_loss", text, labels=("model",))
        verdicts = CounterMetricFamily("riata_refit_verdict", "Refits by verdict of the gate.", labels=("model", "verdict"))
        for model, tally in self.service.refits.counts().items():
            seconds.add_metric((model,), tally.seconds)
            passes.add_metric((model,), tally.passes)
            if tally.gap is not None:
                gap.add_metric((model,), tally.gap)
            if tally.regret_log_loss is not None:
                regret.add_metric((model,), tally.regret_log_loss)
            for decision in DECISIONS:
                verdicts.add_metric((model, decision), tally.verdicts[decision])
        yield from (seconds, passes, gap, regret, verdicts)
