"""The figures of the last 1,000 events and of the last minute as they are when somebody asks: with the rows that were refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from prometheus_client.core import GaugeMetricFamily

from riata.run.writer.published import Published
from riata.watch.progressive import of_last_minute

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
