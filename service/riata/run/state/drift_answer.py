"""The event of the log with which the process that learns answers an alarm of a model's drift detector."""

from __future__ import annotations

from typing import Final

from riata.run.state.config import config_payload
from riata.run.state.model_state import ModelState, unlogged
from riata.watch.drift import Alarm, DriftDetector

AGAIN_EVENTS: Final = 10_000  # learnt since an answer was asked for that has not come: the store may have refused it

AnswerAsked = tuple[int, int, int]  # alarm, event that set the configuration in force, position


def asks_for(state: ModelState, before: AnswerAsked | None) -> AnswerAsked | None:
    """Return what to answer now: None if no alarm is open, or if an answer to it was asked for a moment ago.

    before : what this function returned when an answer was last asked for
    An answer is void if the configuration was changed meanwhile; then it is asked for again.
    """
    alarm = _open_alarm(state)
    if alarm is None:
        return None
    asked = alarm.seq, state.changes[-1] if state.changes else 0, state.applied
    if before is not None and before[:2] == asked[:2] and state.applied - before[2] < AGAIN_EVENTS:
        return None
    return asked


def answer_payload(state: ModelState) -> bytes:
    """Return the payload of the event that answers the open alarm of `state`. It is valid for the configuration in force only.

    Forgetting is for changes that cost something: if only names or labels changed and the loss did not, nothing is forgotten.
    """
    alarm = _open_alarm(state)
    if alarm is None:
        raise ValueError("there is no alarm to answer")
    drift = state.config.drift
    keep = drift.keep if drift.action == "forget" and alarm.is_costly else None
    return config_payload(state.config, state.changes[-1] if state.changes else 0, forget=keep, alarm=alarm.document())


def answer_unlogged(state: ModelState) -> None:
    """Answer the open alarm of a model without a log, if there is one, by the event that a log would have."""
    if _open_alarm(state) is not None:
        state.apply(unlogged(state, "config", 1, answer_payload(state)))


def _open_alarm(state: ModelState) -> Alarm | None:
    detector = state.observers.get(DriftDetector)
    return None if detector is None else detector.unanswered
