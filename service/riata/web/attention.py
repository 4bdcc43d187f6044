"""What needs a person's attention, in words: each with what it means and what to do next. Nothing here accesses the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from riata.run.health import Health
from riata.run.published import Published

JUDGED_FROM: Final = 1000.0  # weight of the faded figures below which they are not judged
CALIBRATION_OFF: Final = 0.2  # relative
LAG_EVENTS: Final = 100_000  # as the alert RiataLag


@dataclass(frozen=True, slots=True)
class Attention:
    """One thing to look at. severity: `page` if it cannot wait until tomorrow, otherwise `ticket`."""

    severity: str
    code: str
    model: str | None
    sentence: str
    action: str

    def document(self) -> dict[str, Any]:
        """Return it as in the HTTP answer."""
        return asdict(self)


def attention_of(health: Health, published: dict[str, Published]) -> list[Attention]:
    """Return what needs attention, the most urgent first. published: what is served of the models that may be named."""
    found = [*_service(health), *(one for name, model in published.items() for one in _model(name, model, health))]
    return sorted(found, key=lambda one: one.severity != "page")


def _service(health: Health) -> Iterator[Attention]:
    if health.sharing.accepting is not None:
        code, why = health.sharing.accepting
        yield Attention("page", code, None, f"Events are refused: {why}", "Predictions go on. Mend what the sentence names.")
    for reason in health.reasons:
        yield Attention("page", health.code, None, reason, "Wait until it is ready; if it lasts, read the log of the process.")
    for warning in health.warnings:
        yield Attention("ticket", "warning", None, warning, "Follow the sentence; the log of the process has more.")


def _model(name: str, published: Published, health: Health) -> Iterator[Attention]:
    at = health.models.get(name)
    if lost := health.lost.get(name, 0):
        sentence = f"The store lost {lost} acknowledged events."
        yield Attention("page", "lost_events", name, sentence, "Send them again if you have them.")
    if at is not None and at.seq_logged - at.seq_applied > LAG_EVENTS:
        sentence = f"Learning is {at.seq_logged - at.seq_applied} events behind the log."
        yield Attention("page", "lag", name, sentence, "Send fewer events, or give the writer a faster core.")
    faded = published.figures["faded"]
    if faded["weight"] < JUDGED_FROM:
        return
    loss, base, ratio = faded.get("loss"), faded.get("base_loss"), faded.get("calibration_ratio")
    if loss is not None and base is not None and loss >= base:
        sentence = f"Lately it predicts no better than the base rate: loss {loss:.4g}, base rate {base:.4g}."
        action = "Labels may be wrong or late, or features renamed: look at Data. Versions can restore an earlier generation."
        yield Attention("ticket", "useless", name, sentence, action)
    if ratio is not None and abs(ratio - 1.0) > CALIBRATION_OFF:
        sentence = f"Lately it predicts {ratio:.2f} times the observed rate of positive labels."
        action = "The rate of labels may have moved: look at Learning. Forgetting follows it faster (rho below 1)."
        yield Attention("ticket", "miscalibrated", name, sentence, action)
