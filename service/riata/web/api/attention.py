"""What needs a person's attention, in words: each with what it means and what to do next. Nothing here accesses the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from riata.run.health import Health
from riata.run.state.drift import drift_sentence
from riata.run.writer.published import Published

_AFTER: Final = {  # an alarm, by the action of the detector
    "note": "Look at Learning. If the loss stays high: set drift.action to forget, or start a refit.",
    "forget": "If the loss has risen, the learner forgot most of the past and learns anew; look at Learning.",
    "refit": "A refit of the newest events follows; look at Versions.",
}
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


def attention_of(health: Health, served: Mapping[str, tuple[Published, Sequence[Mapping[str, Any]]]]) -> list[Attention]:
    """Return what needs attention, the most urgent first. served: the models that may be named, with their warnings."""
    of_models = (one for name, model in served.items() for one in _model(name, *model, health))
    found = [*_service(health), *_behind(health), *of_models]
    return sorted(found, key=lambda one: one.severity != "page")


def _service(health: Health) -> Iterator[Attention]:
    if health.sharing.accepting is not None:
        code, why = health.sharing.accepting
        yield Attention("page", code, None, f"Events are refused: {why}", "Predictions go on. Mend what the sentence names.")
    for reason in health.reasons:
        yield Attention("page", health.code, None, reason, "Wait until it is ready; if it lasts, read the log of the process.")
    for warning in health.warnings:
        yield Attention("ticket", "warning", None, warning, "Follow the sentence; the log of the process has more.")


def _behind(health: Health) -> Iterator[Attention]:
    for name, (applied, of) in health.replaying.items():
        sentence = f"Since the start, learning has reached event {applied} of {of}."
        yield Attention("ticket", "replaying", name, sentence, "Wait: predictions say `replaying` until then. Others go on.")


def _model(name: str, published: Published, warnings: Sequence[Mapping[str, Any]], health: Health) -> Iterator[Attention]:
    at = health.models.get(name)
    if lost := health.lost.get(name, 0):
        sentence = f"The store lost {lost} acknowledged events."
        yield Attention("page", "lost_events", name, sentence, "Send them again if you have them.")
    if at is not None and name not in health.replaying and at.seq_logged - at.seq_applied > LAG_EVENTS:
        sentence = f"Learning is {at.seq_logged - at.seq_applied} events behind the log."
        yield Attention("page", "lag", name, sentence, "Send fewer events, or give the writer a faster core.")
    if (drift := published.figures.get("drift")) is not None and drift["alarms"] and drift["rests_for"]:
        found = f"The stream has changed: {drift_sentence(drift['alarms'][0])}."
        yield Attention("ticket", "drift", name, found, _AFTER[drift["action"]])
    for warning in warnings:
        yield Attention("ticket", warning["code"], name, warning["detail"], "Look at Learning and at Data.")
