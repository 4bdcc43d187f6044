"""Warnings about a model that is worse than it should be: a code, what was measured, and what to set.

They are of the last events (the window), so they end when the model is good again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

import numpy as np

from riata.learn.learner import FarValue, Stepped
from riata.watch.figures import Figures
from riata.watch.observer import Observer, Rows
from riata.wire.fields import Field

# Which features have large values in many rows: columns that a learner without scaling of its own learns badly.
#
# It looks at a sample of the rows since the process started, and is no part of the state of a model.

LARGE: Final = 10.0  # ten standard deviations of a scaled column
SHARE_MIN: Final = 0.05  # of the rows: rarer values are outliers
ROWS_MIN: Final = 50
TRACKED_MAX: Final = 256
ROWS_HALVED_AT: Final = 1 << 16  # older rows count half, so that a column that has been scaled is forgotten


class Column(NamedTuple):
    """A feature with large values. slot : hash >> (32 - bits); largest : the largest size of its values."""

    slot: int
    largest: float


class Columns(Observer):
    """Counts rows with large values, by feature."""

    def __init__(self, bits: int) -> None:
        self._shift = np.uint32(32 - bits)
        self._rows = 0.0
        self._found: dict[int, tuple[float, float]] = {}  # by slot: rows with a large value, and the largest

    def observe(self, rows: Rows, stepped: Stepped) -> None:  # noqa: ARG002
        """Look at the rows of the first batch: small batches are learnt many at a time."""
        batch = rows.batches[0]
        self._rows += batch.n
        size = np.abs(batch.value)
        for at in np.flatnonzero(size > LARGE).tolist():
            slot = int(batch.hash[at] >> self._shift)
            count, largest = self._found.get(slot, (0.0, 0.0))
            if count or len(self._found) < TRACKED_MAX:
                self._found[slot] = (count + 1.0, max(largest, float(size[at])))
        if self._rows > ROWS_HALVED_AT:
            self._rows /= 2.0
            self._found = {slot: (count / 2.0, largest) for slot, (count, largest) in self._found.items() if count > 1.0}

    def copy(self) -> Columns:
        """As of an `Observer`."""
        found = copy(self)
        found._found = dict(self._found)
        return found

    def large(self) -> list[Column]:
        """Return the features with a large value in SHARE_MIN of the rows or more, the largest first."""
        if self._rows < ROWS_MIN:
            return []
        many = [Column(slot, largest) for slot, (rows, largest) in self._found.items() if rows >= SHARE_MIN * self._rows]
        return sorted(many, key=lambda column: (-column.largest, column.slot))


def columns_as_asked(bits: int | None, held: Columns | None) -> Columns | None:
    """Return what looks at rows whose hashes have slots of this many bits; None if bits is None: nothing is to look."""
    return None if bits is None else held or Columns(bits)


WORSE_THAN_BASE: Final = "worse_than_base_rate"
UNDER_CONFIDENT: Final = "under_confident"
OVER_CONFIDENT: Final = "over_confident"
BIASED: Final = "biased"
NOT_SCALED: Final = "columns_not_scaled"
FAR_VALUES: Final = "far_values"
SLOW_SETTINGS: Final = "slow_settings"
ONE_LABEL: Final = "one_label"
DOUBTFUL: Final = "posterior_doubtful"  # of the draws that a model serves
UNREADABLE: Final = "unreadable_values"  # likewise of what a process has read
MOSTLY_REFUSED: Final = "mostly_refused"  # of the rows that a process got, which no state knows
CODES: Final = (
    MOSTLY_REFUSED, UNREADABLE, ONE_LABEL, WORSE_THAN_BASE, UNDER_CONFIDENT, OVER_CONFIDENT, BIASED, NOT_SCALED, FAR_VALUES,
    SLOW_SETTINGS, DOUBTFUL,
)  # fmt: skip

EVENTS_MIN: Final = 1000  # with fewer events in the window nothing is said
ONE_LABEL_EVENTS_MIN: Final = 100
REFUSED_MIN: Final = 10
UNREADABLE_MIN: Final = 10
UNREADABLE_SHARE: Final = 0.01  # of the rows
LOSS_SLACK: Final = 1.01  # of the base rate's loss: a model that learns nothing is about as good as it
ERROR_MAX: Final = 0.03  # of the calibration, beyond what chance explains
COLUMNS_NAMED: Final = 8


def warnings_of(
    figures: Figures,
    columns: Sequence[Column],
    advice: Mapping[str, str],
    too_much: str = "",
    far: Sequence[FarValue] = (),
) -> list[dict[str, Any]]:
    """Return the warnings about a model, the most serious first: each with `code`, `detail` and `slots`.

    figures : of `Progressive.figures`
    columns : large ones, from `Columns.large`; empty if the learner takes values of any size
    advice  : of the learner's spec
    too_much : likewise, about the model's settings
    far     : values that are far from all others of their column, by its slot
    """
    found: list[tuple[str, str, list[int]]] = [(ONE_LABEL, detail, []) for detail in _one_label(figures["cumulative"])]
    window = figures["window"]
    if window["examples"] >= EVENTS_MIN:
        found += [(code, detail, []) for code, detail in (*_loss(window), *_calibration(figures))]
    if columns:
        largest = max(column.largest for column in columns)
        one = len(columns) == 1
        detail = (
            f"{len(columns)} feature{' has' if one else 's have'} values above {LARGE:g} in many rows, up to {largest:.3g}; this "
            "learner needs values of about 1"
        )
        found.append((NOT_SCALED, detail, [column.slot for column in columns[:COLUMNS_NAMED]]))
    if far:
        values = ", ".join(f"{one.value:g}" for one in far[:COLUMNS_NAMED])
        repeated = ", ".join(f"{one.value:g}" for one in far[:COLUMNS_NAMED] if one.set_apart)
        why = f"Set apart because of repeats: {repeated}. " if repeated else ""
        detail = (
            f"{len(far)} value{' is' if len(far) == 1 else 's are'} far from all others of {'its' if len(far) == 1 else 'their'} "
            f"column{'' if len(far) == 1 else 's'}: {values}. {why}A value that stands for a missing one is better sent "
            "as null, or named in `learner.missing`"
        )
        found.append((FAR_VALUES, detail, [one.feature for one in far[:COLUMNS_NAMED]]))
    if too_much:
        detail = f"one row may take far too long, and a new model could not have these settings: {too_much}"
        found.append((SLOW_SETTINGS, detail, []))
    return [
        {"code": code, "detail": f"{detail}. {advice.get(code, '')}".strip(), "slots": slots} for code, detail, slots in found
    ]


def is_worse_than_base(window: Mapping[str, Any]) -> bool:
    """Whether `warnings_of` says WORSE_THAN_BASE. window : of `Progressive.window_losses`, or of its figures"""
    return window["examples"] >= EVENTS_MIN and bool(_loss(window))


def refused_warning(refused: int, accepted: int) -> dict[str, Any] | None:
    """Return the warning that more rows were refused than accepted, None if they were not.

    refused  : rows refused while the last `accepted` ones were accepted
    """
    if refused < max(REFUSED_MIN, accepted + 1):
        return None
    detail = f"{refused:,} rows were refused and {accepted:,} accepted lately, and what is refused is not learnt"
    why = "The page Data and GET /models/{m}/refused say why."
    return {"code": MOSTLY_REFUSED, "detail": f"{detail}. {why}", "features": []}


def unreadable_warning(fields: Iterable[Field], rows: int) -> list[dict[str, Any]]:
    """Return the warning that values of fields could not be read as their kind, if they are many. rows : of the model"""
    found = [one for one in fields if one.unreadable > max(UNREADABLE_MIN, UNREADABLE_SHARE * rows)]
    if not found:
        return []
    told = "; ".join(
        f"{one.unreadable:,} values of {one.name} are no {one.kind}: {_counted(one.unread)}" for one in found[:COLUMNS_NAMED]
    )
    remedy = "Each is an indicator of its text. `riata fields` shows the fields and changes their kinds."
    return [{"code": UNREADABLE, "detail": f"{told}. {remedy}", "features": [one.name for one in found[:COLUMNS_NAMED]]}]


def _counted(unread: Mapping[str, int]) -> str:
    return ", ".join(f"{what} ({count:,})" for what, count in sorted(unread.items(), key=lambda one: -one[1]))


def _one_label(cumulative: Mapping[str, Any]) -> list[str]:
    rate, examples = cumulative["base_rate"], cumulative["examples"]
    if examples < ONE_LABEL_EVENTS_MIN or rate not in (0.0, 1.0):
        return []
    label, other = (1, 0) if rate == 1.0 else (0, 1)
    told = f"all {examples:,} events so far have the label {label}, so the model can only predict that one"
    return [f"{told}. If there are rows with the label {other}, see whether they are sent, and whether they are refused"]


def _loss(window: Mapping[str, Any]) -> list[tuple[str, str]]:
    loss, base = window["loss"], window["base_loss"]
    if loss is None or base is None or loss <= LOSS_SLACK * base:
        return []
    name = "loss" if window["log_loss"] is None else "log loss"
    detail = f"over the last {window['examples']:,} events the {name} is {loss:.4g}; that of the base rate alone is {base:.4g}"
    return [(WORSE_THAN_BASE, detail)]


def _calibration(figures: Figures) -> list[tuple[str, str]]:
    """Judge the cells of the window. A row leans outwards if it is further from the base rate than the labels are."""
    error, base = figures["window"]["calibration_error"], figures["window"]["base_rate"]
    cells = [cell for cell in figures["window_calibration"] if cell["mean_observed"] is not None]
    if error is None or base is None or not cells:  # of several classes there is no base rate
        return []
    total = sum(cell["examples"] for cell in cells)
    chance, bias, outwards = 0.0, 0.0, 0.0
    for cell in cells:
        share, said, seen = cell["examples"] / total, cell["mean_predicted"], cell["mean_observed"]
        # The mean absolute deviation of a mean of n labels; of a normal distribution it is sqrt(2 / pi) standard deviations.
        chance += share * math.sqrt(2.0 / math.pi * said * (1.0 - said) / cell["examples"])
        bias += share * (said - seen)
        outwards += share * (said - seen) * (1.0 if said > base else -1.0)
    if error <= ERROR_MAX + chance:
        return []
    measured = f"over the last {figures['window']['examples']:,} events the calibration error is {error:.3f}"
    if abs(bias) >= abs(outwards):
        direction = "too many" if bias > 0.0 else "too few"
        return [(BIASED, f"{measured}: the probabilities promise {direction} positives, by {abs(bias):.3f} an event")]
    if outwards < 0.0:
        return [(UNDER_CONFIDENT, f"{measured}: under-confident, the probabilities are too close to the base rate")]
    return [(OVER_CONFIDENT, f"{measured}: over-confident, the probabilities are too far from the base rate")]
