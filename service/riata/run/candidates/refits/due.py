"""When a refit begins that nobody asked for: by the schedule, or after an alarm of the model's drift detector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from riata.run.candidates.gate import LABELS_MIN
from riata.run.candidates.refits.refit import Refit
from riata.run.writer.published import Published

LINKS: Final = ("logistic", "probit")  # that a solver can maximise
EXAMPLES_MIN: Final = 2 * LABELS_MIN  # a scheduled refit of fewer could never be judged


def is_scheduled(published: Published, known: Callable[[], Sequence[Refit]], every_s: float, now_ms: int) -> bool:
    """Whether a model has new examples, and its last refit began long enough ago. known : returns its refits, oldest first."""
    examples = published.examples
    of_two_classes = published.config.labels not in ("real", "classes") and published.model.weights.link in LINKS
    if not every_s or examples < EXAMPLES_MIN or not of_two_classes:
        return False
    refits = known()
    since_s = (now_ms - refits[-1].job.created_ms) / 1000 if refits else every_s
    return since_s >= every_s and (not refits or refits[-1].examples != examples)


def request_after_drift(published: Published, known: Callable[[], Sequence[Refit]]) -> dict[str, Any] | None:
    """Return the request for the refit that follows the last alarm, once there are enough events after it, unless one began
    since. None if none is due. known : returns the refits of the model."""
    asked = published.config.drift
    if asked.action != "refit" or not (drift := published.figures.get("drift")) or not drift["alarms"]:
        return None
    since = published.applied - drift["alarms"][0]["seq"]
    enough = published.examples - since + asked.refit_events
    if since < asked.refit_events or any(refit.examples >= enough for refit in known()):
        return None
    return {"window": {"events": asked.refit_events}, "promote": "if_better"}
