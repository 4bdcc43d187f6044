"""The rows that this process refused: counts by model and code, and the last ones with their reasons.

The figures of the last 1,000 events and of the last minute are here too, because they count refused rows when somebody asks.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from riata.base.clock import rfc3339
from riata.run.writer.published import Published
from riata.watch.progressive import RECENT, SPAN_MS, STEP_MS, of_last_minute
from riata.wire.parsed import RowError

KEPT: Final = 200  # rows of each model
RECENT_PARTS: Final = 64  # how finely the positions of refused rows among the last accepted ones are kept
OF_ONE_REQUEST: Final = 20  # rows of one request that are kept: one bad body shall not displace all others
DETAIL_CHARS_MAX: Final = 300

BASE: Final = "The same for a predictor that knows only the base rate."
GAUGES: Final = {  # horizon and figure: name and text
    ("recent", "loss"): ("recent_loss", "Test-then-train loss over the last 1,000 events."),
    ("recent", "base_loss"): ("recent_base_loss", BASE),
    ("recent", "auc"): ("recent_auc", "Area under the ROC curve over the last 1,000 events."),
    ("recent", "refused"): ("recent_refused_rows", "Rows that this process refused while it accepted the last 1,000."),
    ("minute", "examples"): ("minute_events", "Events that were learnt in the last minute."),
    ("minute", "loss"): ("minute_loss", "Test-then-train loss over the events of the last minute."),
    ("minute", "base_loss"): ("minute_base_loss", BASE),
    ("minute", "auc"): ("minute_auc", "Area under the ROC curve over the events of the last minute."),
    ("minute", "refused"): ("minute_refused_rows", "Rows that this process refused in the last minute."),
}


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


class Sliding:
    """Counts what came within the last `span` of a position that never goes back, in `parts` steps. Bounded memory."""

    def __init__(self, span: int, parts: int) -> None:
        self._span, self._step = span, -(-span // parts)
        self._counts: deque[tuple[int, int]] = deque()  # by the first position of a step

    def add(self, at: int, count: int) -> None:
        """Count something at a position."""
        first = at - at % self._step
        before = self._counts.pop()[1] if self._counts and self._counts[-1][0] >= first else 0
        self._counts.append((first, before + count))
        while self._counts[0][0] < at - self._span - self._step:
            self._counts.popleft()

    def since(self, now: int) -> int:
        """Return what was counted within the last `span`, and up to a step more."""
        return sum(count for first, count in list(self._counts) if first >= now - self._span - self._step)


@dataclass(slots=True)
class _OfModel:
    counts: Counter[str] = field(default_factory=Counter)
    last: deque[RefusedRow] = field(default_factory=lambda: deque(maxlen=KEPT))
    by_events: Sliding = field(default_factory=lambda: Sliding(RECENT, RECENT_PARTS))
    by_time: Sliding = field(default_factory=lambda: Sliding(SPAN_MS, SPAN_MS // STEP_MS))


class RefusedRows(Collector):
    """Collected by Prometheus. `note` belongs to the event loop's thread."""

    def __init__(self) -> None:
        self._models: dict[str, _OfModel] = {}

    def note(self, model: str, errors: Sequence[RowError], time_ms: int, accepted: int = 0) -> None:
        """Count refused rows of one request. `model` exists, so the number of entries is bounded.

        accepted : rows of the model that this process had accepted before
        """
        kept = self._models.setdefault(model, _OfModel())
        kept.by_events.add(accepted, len(errors))
        kept.by_time.add(time_ms, len(errors))
        for at, error in enumerate(errors):
            kept.counts[error.code] += 1
            if at < OF_ONE_REQUEST:
                kept.last.append(RefusedRow(time_ms, error.index, error.code, error.detail[:DETAIL_CHARS_MAX]))

    def counts(self, model: str) -> dict[str, int]:
        """Return the number of refused rows by code, the most frequent first."""
        found = self._models.get(model)
        return {} if found is None else dict(found.counts.most_common())

    def recent(self, model: str, time_ms: int, accepted: int) -> tuple[int, int]:
        """Return how many rows were refused among the last RECENT that were accepted, and in the last minute."""
        found = self._models.get(model)
        return (0, 0) if found is None else (found.by_events.since(accepted), found.by_time.since(time_ms))

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


def recent_figures(published: Published, unix_ms: int, refused: tuple[int, int]) -> dict[str, Any]:
    """Return the published figures, with these two as they are now. An edition of an older version has neither.

    refused : rows that this process refused among the last 1,000 events, and in the last minute
    """
    figures = dict(published.figures)
    if "recent" in figures:
        figures["recent"] = {**figures["recent"], "refused": refused[0]}
    if "minute" in figures:
        age_ms = max(unix_ms - published.published_ms, 0)
        figures["minute"] = {**of_last_minute(figures["minute"], age_ms), "refused": refused[1]}
    return figures


class RecentFamilies:
    """The metrics of these two horizons."""

    def __init__(self) -> None:
        self.gauges = {at: GaugeMetricFamily(f"riata_{name}", text, labels=("model",)) for at, (name, text) in GAUGES.items()}

    def add(self, model: str, figures: Mapping[str, Any]) -> None:
        """Add a model's figures, of `recent_figures`."""
        for (horizon, figure), family in self.gauges.items():
            if (value := figures.get(horizon, {}).get(figure)) is not None:
                family.add_metric((model,), value)
