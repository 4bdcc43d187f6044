"""Prometheus metrics that are read when somebody asks: predictions that wait for labels, late rows, refits, connections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.run.labels.pending_rows import BOUNDS_S, Delays
from riata.run.service import Service
from riata.web.auth.gate import Gate
from riata.web.auth.keys import KeyRing
from riata.web.server.server import Server

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


# Prometheus metrics of refits.


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


# Prometheus metrics of connections and API keys.


@dataclass(frozen=True, eq=False)
class FrontCollector(Collector):
    """Collects the figures of the listener and the gate at each scrape."""

    server: Server
    gate: Gate

    def describe(self) -> list[Metric]:
        """Return nothing: the names are fixed."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the number of connections, the refusals by code, the number of keys and the failed readings of the keys file."""
        yield GaugeMetricFamily("riata_connections", "Connections open now.", value=len(self.server.server_state.connections))
        refused = CounterMetricFamily(
            "riata_connections_refused", "Connections ended by the server, by reason.", labels=("code",)
        )
        for code, count in sorted(self.server.front.refused.copy().items()):
            refused.add_metric((code,), count)
        yield refused
        file = self.gate.file
        if file is not None:
            yield GaugeMetricFamily("riata_keys", "API keys in force.", value=len(file.ring.keys))
            failures = "Failed readings of the key file; the keys read before stay in force."
            yield CounterMetricFamily("riata_keys_failed_readings", failures, value=file.failures)
            yield from self._quotas(file.ring)

    def _quotas(self, ring: KeyRing) -> Iterator[Metric]:
        """Yield how much of its daily quotas each key that has some has used."""
        text = "Share of a daily quota of a key that is used, by key and quota."
        share = GaugeMetricFamily("riata_key_quota_used_ratio", text, labels=("key", "quota"))
        for key in ring.keys.values():
            found = self.gate.quotas.document(key)
            for quota, used in (("events_a_day", "events_today"), ("bytes_a_day", "bytes_today")):
                if found[quota] is not None:
                    share.add_metric((key.id, quota), found[used] / found[quota])
        yield share
