"""Prometheus metrics of connections and API keys."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.web.auth.gate import Gate
from riata.web.auth.keys import KeyRing
from riata.web.server.server import Server


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
