"""The rows that this process refused: counts by model and code, and the last ones with their reasons."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.base.clock import rfc3339
from riata.wire.parsed import RowError

KEPT: Final = 200  # rows of each model
OF_ONE_REQUEST: Final = 20  # rows of one request that are kept: one bad body shall not displace all others
DETAIL_CHARS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """One refused row. index: its position in its request."""

    time_ms: int
    index: int
    code: str
    detail: str

    def document(self) -> dict[str, Any]:
        """Return the row as in the HTTP answer."""
        return {"time": rfc3339(self.time_ms), "index": self.index, "code": self.code, "detail": self.detail}


@dataclass(slots=True)
class _OfModel:
    counts: Counter[str] = field(default_factory=Counter)
    last: deque[RefusedRow] = field(default_factory=lambda: deque(maxlen=KEPT))


class RefusedRows(Collector):
    """Collected by Prometheus. `note` belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._models: dict[str, _OfModel] = {}

    def note(self, model: str, errors: Iterable[RowError], time_ms: int) -> None:
        """Count refused rows of one request. `model` exists, so the number of entries is bounded."""
        kept = self._models.setdefault(model, _OfModel())
        for at, error in enumerate(errors):
            kept.counts[error.code] += 1
            if at < OF_ONE_REQUEST:
                kept.last.append(RefusedRow(time_ms, error.index, error.code, error.detail[:DETAIL_CHARS_MAX]))

    def counts(self, model: str) -> dict[str, int]:
        """Return the number of refused rows by code, the most frequent first."""
        found = self._models.get(model)
        return {} if found is None else dict(found.counts.most_common())

    def last(self, model: str, limit: int) -> list[dict[str, Any]]:
        """Return up to `limit` of the last refused rows, newest first."""
        found = self._models.get(model)
        return [] if found is None else [row.document() for row, _ in zip(reversed(found.last), range(limit), strict=False)]

    def describe(self) -> list[Metric]:
        """Return nothing, as `ServiceCollector.describe`."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the counts."""
        text = "Refused rows since the start, by the code of the refusal."
        family = CounterMetricFamily("riata_rows_refused", text, labels=("model", "code"))
        for model, found in list(self._models.items()):
            for code, count in list(found.counts.items()):
                family.add_metric((model, code), count)
        yield family
