"""The drift detector: its settings, what it keeps, the alarms it raised, and its figures. The method is in
`service/native/figures.c`.

The detector is part of the model's state, so replay raises the same alarms at the same events. What is done about one is an
event of the log, written by whoever learns: a `config` event that sets nothing new, and carries the alarm and how much of the
past is kept. So replay forgets at the same event as the live writer.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import asdict
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Le

from riata.base.arrays import F64, I64, U8, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Stepped
from riata.maths.links import LINKS, Answers
from riata.native.library import core, struct
from riata.watch.observer import Observer, Rows

KEEP: Final = 0.01
KEEP_MIN: Final = 1e-6  # less is as good as nothing


@frozen_dataclass(frozen=True, slots=True)
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


SIGNALS: Final = ("loss", "label_rate", "unknown_features")
EVENTS_MAX: Final = 2**53  # no log is longer, and float64 holds such numbers exactly

BLOCK: Final = 100  # events
WARM: Final = 50  # blocks of a reference before anything is compared with it
ALARM_AT: Final = 20.0  # the statistic of a signal

EVENTS: Final = 0  # of the sums of `block`
BLOCK_SUMS: Final = 6

COUNT: Final = 0  # columns of `reference`
MEAN: Final = 1
VARIANCE: Final = 2
REFERENCE: Final = 3

STATISTIC: Final = 0  # columns of `side`; then the number, the sum and the beginning of the blocks since it was zero
SIDE: Final = 4

ALARM_SEQ: Final = 0  # columns of `alarm`; then the event before the change, means before and after, the statistic of the loss
ALARM_SIGNAL: Final = 1
ALARM: Final = 6
ALARMS_KEPT: Final = 8

RESTED: Final = 0  # entries of `counts`: events since the last alarm, or since the start
ALARMS: Final = 1  # and the next two: alarms by signal
ANSWERED: Final = 4  # the last alarm that an event of the log has answered; then the last event of the last full block
COUNTS: Final = 6

SEEN_BITS: Final = 20


class DriftState(NamedTuple):
    """What the detector keeps: a `riata_drift`."""

    block: F64
    reference: F64
    side: F64
    alarm: F64
    counts: I64
    seen: U8


@frozen_dataclass(frozen=True, slots=True)
class Alarm:
    """A change that was detected.

    seq           : event that completed the block at which the statistic passed its bound
    signal        : one of SIGNALS
    since         : last event before the change began, as estimated
    before, after : mean of the signal in the reference, and since the change began
    is_costly     : whether the loss has departed from its reference too, at least half as far as for an alarm of its own
    """

    seq: int
    signal: str
    since: int
    before: float
    after: float
    is_costly: bool

    def document(self) -> dict[str, Any]:
        """Return it as in events of the log and in answers."""
        return asdict(self)


class DriftDetector(Observer):
    """Detects changes of the loss, of the label rate and of the share of features not met before. Bounded memory.

    A pure function of the events in order: the split into batches changes no bit. For one thread.
    """

    def __init__(self, answers: Answers, rest: int, action: str = "note") -> None:
        """answers : as `ProgressiveConfig.answers`
        action  : what follows an alarm, for the figures; may be changed at any time
        rest    : events after an alarm, and at the start, in which no alarm is raised; may be changed at any time
        """
        self.rest, self.action = rest, action
        self._link = LINKS[answers].code
        self._state = DriftState(
            np.zeros(BLOCK_SUMS),
            np.zeros((len(SIGNALS), REFERENCE)),
            np.zeros((len(SIGNALS), 2, SIDE)),
            np.zeros((ALARMS_KEPT, ALARM)),
            np.zeros(COUNTS, np.int64),
            np.zeros(2 ** (SEEN_BITS - 3), np.uint8),
        )
        self._core = struct("riata_drift", **self._state._asdict())

    def observe(self, rows: Rows, stepped: Stepped) -> None:
        """Add the events of `rows` that were learnt."""
        batch, answered = rows.whole, (stepped.answered, stepped.label, stepped.weight)
        margin, label, weight = (np.ascontiguousarray(part, np.float64) for part in answered)
        arrays = {"label": label, "weight": weight, "skip": np.ascontiguousarray(stepped.refused)}
        events = struct("riata_rows", indptr=batch.indptr, hash=batch.hash, n=batch.n, features=batch.nnz, **arrays)
        core.watch_drift(self._core, self._link, self.rest, events, margin, rows.first)

    @property
    def raised(self) -> dict[str, int]:
        """Number of alarms by signal."""
        counts = self._state.counts[ALARMS : ALARMS + len(SIGNALS)]
        return dict(zip(SIGNALS, counts.tolist(), strict=True))

    @property
    def alarms(self) -> list[Alarm]:
        """The last alarms, newest first; at most ALARMS_KEPT."""
        total = sum(self.raised.values())
        numbers = range(total - 1, max(total - ALARMS_KEPT, 0) - 1, -1)
        found = (self._state.alarm[number % ALARMS_KEPT].tolist() for number in numbers)
        return [
            Alarm(int(seq), SIGNALS[int(of)], int(since), before, after, loss >= ALARM_AT / 2)
            for seq, of, since, before, after, loss in found
        ]

    @property
    def unanswered(self) -> Alarm | None:
        """The last alarm, if no event of the log has answered it or a later one."""
        last = self.alarms[:1]
        return last[0] if last and last[0].seq > int(self._state.counts[ANSWERED]) else None

    def answer(self, seq: int) -> None:
        """Note that an event of the log answers the alarm at event `seq`, and with it all before."""
        self._state.counts[ANSWERED] = max(seq, int(self._state.counts[ANSWERED]))

    def carry(self, seq: int) -> None:  # noqa: ARG002
        """Drop the alarms, whose event numbers are those of another log."""
        self._state.alarm[:] = 0.0
        self._state.side[:] = 0.0
        self._state.counts[ALARMS:] = 0

    def figures(self) -> dict[str, Any]:
        """Return what is shown: the action, each signal with its reference, `statistic` of `bound`, and the last alarms."""
        reference, side = self._state.reference, self._state.side
        judged = [
            {
                "reference": float(reference[at, MEAN]) if reference[at, COUNT] else None,
                "spread": float(np.sqrt(reference[at, VARIANCE])) if reference[at, COUNT] else None,
                "statistic": float(side[at, :, STATISTIC].max()),
                "alarms": count,
            }
            for at, count in enumerate(self.raised.values())
        ]
        rest = max(self.rest, WARM * BLOCK) - int(self._state.counts[RESTED])
        return {
            "action": self.action,
            "bound": ALARM_AT,
            "rests_for": max(rest, 0),
            "signals": dict(zip(SIGNALS, judged, strict=True)),
            "alarms": [alarm.document() for alarm in self.alarms],
        }

    def copy(self) -> DriftDetector:
        """As of an `Observer`: a copy of what the figures depend on."""
        found, state = copy(self), self._state
        found._state = state._replace(
            reference=state.reference.copy(), side=state.side.copy(), alarm=state.alarm.copy(), counts=state.counts.copy()
        )
        return found

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return {"drift": sum(array.nbytes for array in self._state)}

    def freeze(self) -> Arrays:
        """Return copies of the state, which determine every later alarm."""
        return {name: array.copy() for name, array in self._state._asdict().items()}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any] | None = None) -> None:  # noqa: ARG002
        """Restore the state from `freeze`. Raises `Corrupt`, and then changes nothing."""
        found: dict[str, Any] = {}
        for name, mine in self._state._asdict().items():
            array = arrays.get(name)
            if array is None or array.dtype != mine.dtype or array.shape != mine.shape:
                raise Corrupt(f"drift: {name}: expected {mine.dtype}{list(mine.shape)}")
            if mine.dtype.kind == "f" and not np.isfinite(array).all():
                raise Corrupt(f"drift: {name} has a number that is not finite")
            found[name] = np.array(array, order="C")
        state = DriftState(**found)
        seqs, signals = state.alarm[:, ALARM_SEQ], state.alarm[:, ALARM_SIGNAL]
        if not bool(np.isin(signals, range(len(SIGNALS))).all()) or state.counts.min() < 0 or state.counts.max() > EVENTS_MAX:
            raise Corrupt("drift: a count or a signal is out of range")
        if seqs.min() < 0 or seqs.max() > EVENTS_MAX or state.reference[:, VARIANCE].min() < 0.0:
            raise Corrupt("drift: an event or a variance is out of range")
        if not 0.0 <= state.block[EVENTS] < BLOCK:
            raise Corrupt("drift: the block is longer than a block")
        self._state = state
        self._core = struct("riata_drift", **state._asdict())


def detector_as_asked(
    action: str, rest: int, alarm: Mapping[str, Any] | None, answers: Answers, held: DriftDetector | None
) -> DriftDetector | None:
    """Return a detector with this action and rest: a new one, or the one held; None if the action is "off".

    alarm : that an event of the log answers; None if it answers none
    """
    if action == "off":
        return None
    detector = DriftDetector(answers, rest) if held is None else held
    detector.rest, detector.action = rest, action
    if alarm is not None:
        detector.answer(alarm["seq"])
    return detector
