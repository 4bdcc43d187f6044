"""Judging candidates: the losses of two learners on the same events, each before it was learnt, and what their difference says.

The gate before the promotion of a batch optimum asks which of two learners predicts the newest events of a log better if both
go on learning.

A frozen solution and a learner that goes on must not be compared with each other: under drift the frozen one loses whatever it is
worth, and once promoted it would go on too. So both take a step with every event of the tail, and the loss of each event is that
of the prediction before the step. Losses of neighbouring events depend on each other, so the standard error of their mean
difference is taken over BLOCKS blocks of consecutive events.

The losses of both as they were before the tail are in the ledger too; they decide nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import numpy as np

from riata.base.arrays import F64
from riata.base.errors import BadInput
from riata.learn.learner import Learner, Stepped, Weights
from riata.maths.links import LINKS, PROBABILITY_MIN, Answers, Link, answers
from riata.wire.batch import Batch

Decision = Literal["PROMOTE", "HOLD", "REJECT"]

TAIL_SHARE: Final = 0.1
TAIL_MIN: Final = 10_000
TAIL_MAX: Final = 100_000
LABELS_MIN: Final = 100
LEAST_GAIN: Final = 1e-3  # of the loss: a smaller gain is worth no promotion, however certain
CALIBRATION_SLACK: Final = 0.02
BLOCKS: Final = 50
ERRORS: Final = 2.0  # standard errors on both sides of an interval of about 95 %

Verdict = dict[str, Any]  # `decision`, `why` in words, and the figures, as the event of a promotion carries it


def not_judged(why: str) -> Verdict:
    """Return the verdict on a candidate that could not be judged."""
    return {"decision": "HOLD", "why": f"not judged: {why}", "events": 0}


def verdict_on(found: Mapping[str, Any]) -> Verdict:
    """Return the verdict on a challenger: PROMOTE if the interval of the difference is below zero.

    found : as `pairs.comparison`
    """
    near, said = found["interval"], f"over {found['compared']} events its {found['measure']}"
    if near is None:
        return {"decision": "HOLD", "why": "both have learnt too few of the same events to compare them", **found}
    between = f"differs by {found['difference']:+.5f}, interval {near[0]:+.5f} to {near[1]:+.5f}"
    decision, why = (
        ("PROMOTE", "the challenger predicts better")
        if near[1] < 0.0
        else ("REJECT", "the challenger predicts worse")
        if near[0] > 0.0
        else ("HOLD", "no difference beyond doubt")
    )
    return {"decision": decision, "why": f"{why}: {said} {between}", **found}


def tail_size(events: int) -> int:
    """Return how many of the newest of `events` events the gate holds out by default: at most half."""
    return min(max(int(TAIL_SHARE * events), TAIL_MIN), TAIL_MAX, events // 2)


def judge(online: Learner, candidate: Learner, tail: Sequence[Batch]) -> Verdict:
    """Have both learners, which stand before the tail, predict and learn it, and compare their losses. Their labels are classes.

    tail : the events held out that count, in order
    Raises `BadInput` (code `too_few_labels`) if there are fewer than LABELS_MIN of a class.
    """
    label = np.concatenate([np.zeros(0), *(batch.label for batch in tail)])
    weight = np.concatenate([np.zeros(0), *(batch.weight for batch in tail)])
    _require_labels(label)
    observed, figures, scores = float((weight * label).sum()), [], []
    for learner in (online, candidate):
        before = learner.weights()
        found: list[tuple[F64, F64, F64]] = []
        for batch in tail:
            frozen = losses(before.link, margins(before, batch), batch.label)
            going = learner.step(batch).answered
            found.append((losses(before.link, going, batch.label), frozen, probabilities(before.link, going)))
        loss, frozen, probability = (np.concatenate(column) for column in zip(*found, strict=True))
        scores.append((loss, frozen))
        calibration = None if np.isnan(probability).any() else float((weight * probability).sum()) / observed
        means = [float(np.average(each, weights=weight)) for each in (loss, frozen)]
        figures.append({"loss": means[0], "frozen_loss": means[1], "calibration": calibration})
    (difference, error), frozen_difference = (block_mean(theirs - ours, weight) for ours, theirs in zip(*scores, strict=True))
    decision, why = decide(figures[0], figures[1], difference, error)
    return {
        "decision": decision,
        "why": why,
        "measure": "log loss",
        "events": len(label),
        "blocks": BLOCKS,
        "online": figures[0],
        "candidate": figures[1],
        "difference": difference,
        "standard_error": error,
        "frozen_difference": frozen_difference[0],
        "frozen_standard_error": frozen_difference[1],
    }


def decide(online: Mapping[str, Any], candidate: Mapping[str, Any], difference: float, error: float) -> tuple[Decision, str]:
    """Return the decision on a difference of losses with its standard error, and the reason in words.

    online, candidate : `loss`, and `calibration`: sum of probabilities over sum of labels; None if there are none
    """
    doubt = max(ERRORS * error, LEAST_GAIN * online["loss"])
    said = f"its loss is {candidate['loss']:.5f} against {online['loss']:.5f}: {difference:+.5f}, standard error {error:.5f}"
    if difference > ERRORS * error:
        return "REJECT", f"the candidate predicts worse; {said}"
    if not difference < -doubt:
        return "HOLD", f"no gain beyond doubt, which would be {-doubt:+.5f}; {said}"
    ours, theirs = online["calibration"], candidate["calibration"]
    if ours is not None and theirs is not None and abs(theirs - 1.0) > abs(ours - 1.0) + CALIBRATION_SLACK:
        return "HOLD", (
            f"the candidate predicts better, but {theirs:.3f} times as many positives as there are, against {ours:.3f} times; "
            f"{said}"
        )
    return "PROMOTE", f"the candidate predicts better; {said}"


def block_mean(values: F64, weight: F64) -> tuple[float, float]:
    """Return the weighted mean of f64[n] values, and its standard error from BLOCKS blocks of consecutive values."""
    edges = np.linspace(0, len(values), BLOCKS + 1).astype(np.int64)[:-1]
    return mean_of_blocks(np.add.reduceat(weight, edges), np.add.reduceat(weight * values, edges))


def losses(link: Link, margin: F64, label: F64) -> F64:
    """Return the loss of each event: log loss, squared error or hinge loss, whichever the learner minimises."""
    sign = np.where(label > 0.5, 1.0, -1.0)
    if link == "hinge":
        return np.maximum(0.0, 1.0 - sign * margin)
    if link == "identity":
        return (margin - label) ** 2
    return -np.log(np.maximum(probabilities(link, sign * margin), PROBABILITY_MIN))  # both links are symmetric about zero


def probabilities(link: Link, margin: F64) -> F64:
    """Return the probability of the positive class; NaN if the link has none."""
    probability, label = np.empty(len(margin)), np.empty(len(margin))
    answers(np.ascontiguousarray(margin), LINKS[link].code, 0.0, probability, label)
    return probability


def margins(weights: Weights, batch: Batch) -> F64:
    """Return the margins of rows as probabilities take them."""
    batch = weights.used(batch)
    slot = batch.hash >> np.uint32(32 - weights.bits)
    at = np.searchsorted(weights.slot, slot)
    beta = np.append(weights.beta, 0.0)
    known = np.append(weights.slot.astype(np.int64), -1)[at] == slot
    sums = np.append(np.cumsum(np.where(known, beta[at], 0.0) * batch.value), 0.0)
    first, last = batch.indptr[:-1], batch.indptr[1:]
    linear = np.asarray(weights.intercept + sums[last - 1] - sums[first - 1], np.float64)
    margin = linear if weights.shapes is None else linear + weights.shapes.margins(batch)
    return np.clip(margin, *weights.bounds)


def _require_labels(label: F64) -> None:
    positive = int((label > 0.5).sum())
    negative = len(label) - positive
    if min(positive, negative) < LABELS_MIN:
        raise BadInput(
            f"the tail has {positive} positive and {negative} negative labels; the gate needs at least {LABELS_MIN} of each: "
            "hold out more events, or wait for more",
            "too_few_labels",
        )


# The loss of each event before it was learnt, of every kind of model.


def measure_of(answers: Answers) -> str:
    """Return what `event_losses` are. answers : as `ProgressiveConfig.answers`"""
    return "squared error" if answers == "real" else "hinge loss" if answers == "hinge" else "log loss"


def event_losses(stepped: Stepped, answers: Answers) -> F64:
    """Return f64[n]; NaN for events that were refused. answers : as `ProgressiveConfig.answers`"""
    margin = np.where(stepped.refused, np.nan, stepped.answered)
    if answers == "real":
        return losses("identity", margin, stepped.label)
    if answers == "identity":  # the gate has the loss that is learnt, which is the squared error
        probability = probabilities("identity", margin)
        of_label = np.where(stepped.label > 0.5, probability, 1.0 - probability)
        return -np.log(np.maximum(of_label, PROBABILITY_MIN))
    return losses(answers, margin, stepped.label)


# The mean difference of two losses of the same events, with a standard error for events that depend on each other.
#
# Neighbouring events resemble each other, so their differences do. The standard error is therefore taken over blocks of
# consecutive events (batch means: Law & Kelton, Simulation Modeling and Analysis, section 9.5.3). Blocks that are long against
# the dependence are independent of each other.


def difference_of(found: tuple[float, float] | None) -> dict[str, Any]:
    """Return a mean difference and its standard error as JSON, with the interval; None where unknown."""
    mean, error = (None, None) if found is None else found
    interval = None if mean is None or error is None else [mean - ERRORS * error, mean + ERRORS * error]
    return {"difference": mean, "standard_error": error, "interval": interval}


def mean_of_blocks(weight: F64, sums: F64) -> tuple[float, float]:
    """Return a weighted mean and its standard error.

    weight, sums : f64[b], weight of each block, and its sum of weight times value; b at least 2
    """
    n, total = len(weight), weight.sum()
    mean = float(sums.sum() / total)
    squares = float(((sums - weight * mean) ** 2).sum())
    return mean, float(np.sqrt(n / (n - 1) * squares) / total)


class BlockSums:
    """Sums of a value over blocks of equal numbers of events, at most 2 * BLOCKS of them: if there are more, two neighbours
    become one. So there are at least BLOCKS once there were as many events, and memory does not grow.

    The value is a difference of losses, or a loss: two models with sums over the same events have paired differences too. How
    events are cut into calls changes no bit.
    """

    def __init__(self) -> None:
        self.size = 1  # events of a block
        self.events = 0
        self.weight: F64 = np.zeros(2 * BLOCKS)
        self.sums: F64 = np.zeros(2 * BLOCKS)

    def add(self, values: F64, weight: F64) -> None:
        """Add events in order: f64[n] each. An event without weight counts as an event only."""
        start = 0
        while start < len(weight):
            if self.events == 2 * BLOCKS * self.size:
                self.weight, self.sums = _halved(self.weight), _halved(self.sums)
                self.size *= 2
            stop = min(len(weight), start + 2 * BLOCKS * self.size - self.events)
            block = np.arange(self.events, self.events + stop - start) // self.size
            np.add.at(self.weight, block, weight[start:stop])  # one after the other: the order of additions decides the bits
            np.add.at(self.sums, block, weight[start:stop] * values[start:stop])
            self.events += stop - start
            start = stop

    def estimate(self) -> tuple[float, float] | None:
        """Return the mean and its standard error; None while there are fewer than BLOCKS events."""
        blocks = -(-self.events // self.size)
        return mean_of_blocks(self.weight[:blocks], self.sums[:blocks]) if blocks >= BLOCKS else None

    def minus(self, other: BlockSums) -> tuple[int, float, float] | None:
        """Return how many events were compared, the mean of this value minus that of `other`, and its standard error.

        Both are of the same events, one perhaps of more. Compared are the blocks that both have seen whole, without those in
        which an event has no weight on one side. None while there are fewer than BLOCKS / 2 of them.
        """
        size = max(self.size, other.size)
        mine, others = self._in_blocks_of(size), other._in_blocks_of(size)
        whole = np.arange(2 * BLOCKS) < min(self.events, other.events) // size
        both = whole & (mine[0] == others[0]) & (mine[0] > 0.0)
        if both.sum() < BLOCKS // 2:
            return None
        return int(both.sum()) * size, *mean_of_blocks(mine[0][both], (mine[1] - others[1])[both])

    def _in_blocks_of(self, size: int) -> tuple[F64, F64]:
        """Return weight and sums in blocks of `size` events, a power of two times the present size."""
        weight, sums = self.weight, self.sums
        for _ in range((size // self.size).bit_length() - 1):
            weight, sums = _halved(weight), _halved(sums)
        return weight, sums


def _halved(held: F64) -> F64:
    """Return the sums of two neighbours each, f64[2 * BLOCKS], and zeros for blocks to come."""
    return np.concatenate([held[0::2] + held[1::2], np.zeros(BLOCKS)])
