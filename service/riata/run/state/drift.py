"""What a model does about drift: the settings, and the event of the log that answers an alarm of its detector.

The detector (`riata.watch.drift`) is part of the model's state, so replay raises the same alarms at the same events. What is done
about one is an event of the log, written by whoever learns: a `config` event that sets nothing new, and carries the alarm and how
much of the past is kept. So replay forgets at the same event as the live writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from riata.base.bounds import Ge, Le
from riata.base.dataclass import dataclass
from riata.base.errors import BadInput

KEEP: Final = 0.01
KEEP_MIN: Final = 1e-6  # less is as good as nothing


@dataclass(frozen=True, slots=True)
class DriftConfig:
    """The detector of drift, and what follows an alarm."""

    action: Annotated[
        Literal["off", "note", "forget", "refit"],
        "off: nothing is detected. note: an alarm is an event of the log, and shown. forget: also, if the loss has risen, the "
        "learner lets what it learnt before count less, so that its steps become large again. refit: also, a refit of the newest "
        "events is promoted if it passes the gate",
    ] = "off"
    keep: Annotated[float, "forget: the past counts for this share of what it counted, between 1e-6 and 1"] = KEEP
    rest_events: Annotated[
        int, Ge(0), Le(10**9), "events after an alarm in which there is no other; at least the 5,000 of a new reference"
    ] = 10_000
    refit_events: Annotated[
        int, Ge(1000), Le(10**9), "refit: it begins when this many events have come since the alarm, and takes these only"
    ] = 20_000

    def __post_init__(self) -> None:
        check_keep(self.keep, "drift.keep")


def check_keep(keep: float, name: str) -> None:
    """Raise `BadInput` (code `out_of_range`) unless a learner can keep this share of its past."""
    if not KEEP_MIN <= keep <= 1.0:
        raise BadInput(f"{name}: expected a number between {KEEP_MIN:g} and 1, got {keep:g}", "out_of_range")


def drift_sentence(alarm: Mapping[str, Any]) -> str:
    """Say in words what was detected."""
    names = {"loss": "loss", "label_rate": "mean label", "unknown_features": "share of unknown features"}
    up = "rose" if alarm["after"] > alarm["before"] else "fell"
    return (
        f"the {names[alarm['signal']]} {up} from {alarm['before']:.4g} to {alarm['after']:.4g} after event {alarm['since']:,}; "
        f"detected at event {alarm['seq']:,}"
    )
