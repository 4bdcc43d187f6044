"""Truncated gradient with three step sizes, eager: dictionaries, and every weight is truncated at every event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from riata.learn.mixed_gradient import ACCUMULATORS, BY_COUNTS, COUNTED, FIXED, LANES, SHARE_BASE, SHARES, STEPS
from riata.learn.shaped import SHARE_BELOW
from riata.learn.truncated_config import TruncatedGradientConfig
from tests.twins import losses, second_order, truncated_columns, truncation
from tests.twins.truncated_step import Event, recalibrate

TWINS_OF = ("mixed_gradient",)


@dataclass
class Member:
    """One step size: weights and sums of squared gradients by slot, intercept, calibration and share."""

    eta: float
    accumulator: float
    by_counts: bool
    share: float
    beta: dict[int, float] = field(default_factory=dict)
    squares: dict[int, float] = field(default_factory=dict)
    intercept: float = 0.0
    intercept_squares: float = 0.0
    gain: float = 1.0
    offset: float = 0.0
    gain_squares: float = 0.0
    offset_squares: float = 0.0

    def scale(self, largest: float, centred: bool) -> float:
        """What a feature is divided by."""
        return max(1.0, largest / COUNTED) if self.by_counts and not centred else largest

    def root(self, slot: int, scale: float) -> float:
        return math.sqrt(self.squares.get(slot, 0.0) + self.accumulator * scale * scale)


@dataclass
class Eager:
    """The members, and what they share."""

    config: TruncatedGradientConfig
    bits: int
    members: list[Member] = field(default_factory=list)
    largest: dict[int, float] = field(default_factory=dict)
    norm: float = 0.0
    importance: float = 0.0
    learnt: int = 0
    book: truncated_columns.Book = field(default_factory=truncated_columns.Book)
    never: set[int] = field(default_factory=set)  # slots of weights that are not truncated
    below: float = 0.0  # share of the model below
    base: float = 0.0  # share of the base rate, or of second order
    second: second_order.Normal | None = None
    labels: list[float] = field(default_factory=lambda: [0.5, 0.5])  # negatives and positives that the base rate counts

    def __post_init__(self) -> None:
        if self.config.base_rate and self.config.intercept and not self.below:
            self.base = SHARE_BASE
            self.second = second_order.Normal(self.config.reach) if self.config.second_order else None
        for step, accumulator, by_counts, share in zip(STEPS, ACCUMULATORS, BY_COUNTS, SHARES, strict=True):
            counts = by_counts or self.config.scale == "counts"
            part = share * (1.0 - (SHARE_BELOW if self.below else self.base))
            self.members.append(Member(step * self.config.eta, accumulator * self.config.accumulator, counts, part))

    def base_margin(self) -> float:
        """The margin of a row of no features by the base rate, or by second order."""
        return math.log(self.labels[1] / self.labels[0]) if self.second is None else self.second.weights()[None]

    def served(self) -> tuple[dict[int, float], float]:
        """Weights and intercept of the mixture."""
        beta = {slot: sum(one.share * one.gain * one.beta.get(slot, 0.0) for one in self.members) for slot in self.largest}
        intercept = sum(one.share * (one.gain * one.intercept + one.offset) for one in self.members)
        for slot, weight in {} if self.second is None else self.second.weights().items():
            if slot is not None:
                beta[slot] = beta.get(slot, 0.0) + self.base * weight
        return beta, intercept + self.base * self.base_margin()


def truncate(eager: Eager) -> None:
    """One truncation event over all weights."""
    config = eager.config
    size = config.gravity * config.period * (math.sqrt(eager.importance / eager.norm) if eager.norm > 0.0 else 1.0)
    for one in eager.members:
        for slot, beta in one.beta.items():
            largest = eager.largest[slot]
            if slot in eager.never:
                continue
            if config.rule == "round":
                one.beta[slot] = beta if abs(beta) * largest > config.ceiling else 0.0
            else:
                pull = one.eta * size / (one.root(slot, largest) or math.inf)
                one.beta[slot] = truncation.shrink(beta, largest, pull, config.ceiling)


def _learn(eager: Eager, event: Event, known: float) -> bool:
    """Learn a row; false, with nothing changed, if it would leave the finite range."""
    config, weight = eager.config, event.weight
    x = event.by_slot(eager.bits)
    raw = dict(x)
    centred = config.centred and config.intercept
    centres = truncated_columns.centre_row(eager.book, eager.learnt, config.reach, x) if centred else {}
    for slot, old in eager.largest.items():
        if slot in x and slot not in centres:
            x[slot] = max(-config.reach * old, min(config.reach * old, x[slot]))
    for slot, (centre, span) in centres.items():
        x[slot] = max(-span, min(span, x[slot] - centre))
    largest = {j: max(eager.largest.get(j, 0.0), abs(x[j])) for j in x} | {j: span for j, (_, span) in centres.items()}
    x = {j: value for j, value in x.items() if largest[j] > 0.0}
    norm = eager.norm + weight * sum((x[j] / largest[j]) ** 2 for j in x)
    importance = eager.importance + weight
    common = math.sqrt(importance / norm) if norm > 0.0 else 1.0
    after: list[Member] = []
    inner_of: list[float] = []
    for one in eager.members:
        inner = one.intercept
        for slot, value in raw.items():
            inner += one.beta.get(slot, 0.0) * value
        gradient = losses.slope(losses.LOGISTIC, known + inner, event.label)
        squares, rate, kept, lost = {}, {}, {}, 0.0
        for j, value in x.items():
            old, new = eager.largest.get(j, 0.0), largest[j]
            squares[j] = (
                one.squares.get(j, 0.0) * (min(new / old, 1.0) if old > 0.0 else 1.0) ** 2 + weight * (gradient * value) ** 2
            )
            scale = one.scale(new, j in centres)
            rate[j] = value / (scale * math.sqrt(squares[j] + one.accumulator * scale * scale) or math.inf)
            kept[j] = one.beta.get(j, 0.0)
            if 0.0 < old < new:
                kept[j] *= one.scale(old, j in centres) / scale
                lost += (one.beta.get(j, 0.0) - kept[j]) * (centres[j][0] if j in centres else 0.0)
        heat = one.intercept_squares + weight * gradient * gradient
        own = 1.0 / math.sqrt(heat + one.accumulator or math.inf) if config.intercept else 0.0
        length = common * sum(rate[j] * x[j] for j in x) + own
        move = -one.eta * weight * gradient
        if config.step == "invariant" and length > 0.0:
            move = losses.invariant_travel(losses.LOGISTIC, known + inner, event.label, one.eta * weight * length) / length
        beta = {j: kept[j] + common * move * rate[j] for j in x}
        pull = sum(rate[j] * centres[j][0] for j in x if j in centres)
        intercept = one.intercept + move * own + lost - common * move * pull if config.intercept else 0.0
        numbers = [*beta.values(), *squares.values(), intercept, heat, norm]
        if not all(math.isfinite(number) for number in numbers):
            return False
        moved = replace(one, beta=one.beta | beta, squares=one.squares | squares)
        if config.intercept:
            moved = replace(moved, intercept=intercept, intercept_squares=heat)
        inner_of.append(inner)
        after.append(_calibrated(moved, inner, event, config.calibrated, known))
    base = _base_share(eager, event, raw, inner_of, after) if eager.base else 0.0
    eager.members = after
    below = eager.below * _likelihood(known, event)
    total, lanes = sum(one.share for one in eager.members) + below + base, len(eager.members) + (eager.below > 0.0)
    for one in eager.members:
        one.share = (1.0 - FIXED) * one.share / total + FIXED / lanes
    if eager.below:
        eager.below = (1.0 - FIXED) * below / total + FIXED / lanes
    if eager.base:
        young = eager.second is not None and eager.learnt < second_order.YOUNG
        eager.base = (1.0 - FIXED) * base / total + (FIXED / LANES if young else 0.0)
        for one in eager.members if young else ():
            one.share += FIXED / LANES - FIXED / lanes
        if eager.base < 2.0**-40:
            eager.base, eager.second = 0.0, None
        eager.labels[int(event.label > 0.5)] += min(weight, 10.0)
        if eager.second is not None and not eager.second.learn(raw, event.label, weight):
            _end_second(eager)
    eager.largest.update({j: largest[j] for j in x})
    eager.norm, eager.importance = norm, importance
    if centred:
        eager.never = (eager.never - x.keys()) | centres.keys()
        values = {j: value + (centres[j][0] if j in centres else 0.0) for j, value in x.items()}
        truncated_columns.note_row(eager.book, eager.learnt, values, centres)
    return True


def _end_second(eager: Eager) -> None:
    """Have the base rate in place of second order."""
    kept = min(eager.base, SHARE_BASE)
    for one in eager.members:
        one.share *= (1.0 - kept) / (1.0 - eager.base)
    eager.base, eager.second = kept, None


def _base_share(eager: Eager, event: Event, raw: dict[int, float], inner: list[float], after: list[Member]) -> float:
    """The share of the base rate, not yet normalised: it is compared with members whose margins are bounded, as is that of second
    order."""
    bound = 1.0 + math.log(eager.learnt + 2.0)
    margin = eager.base_margin()
    if eager.second is not None:
        margin = max(-bound, min(bound, margin + sum(eager.second.weights().get(slot, 0.0) * x for slot, x in raw.items())))
    margins = [one.gain * margin + one.offset for one, margin in zip(eager.members, inner, strict=True)]
    held = sum(
        one.share * _likelihood(max(-bound, min(bound, margin)), event)
        for one, margin in zip(eager.members, margins, strict=True)
    )
    return eager.base * _likelihood(margin, event) * sum(one.share for one in after) / held


def _likelihood(margin: float, event: Event) -> float:
    z = margin if event.label > 0.5 else -margin
    return float((1.0 / (1.0 + math.exp(-max(z, -700.0)))) ** min(event.weight, 10.0))


def _calibrated(one: Member, inner: float, event: Event, calibrates: bool, known: float) -> Member:
    """The member with its share, not yet normalised, and its calibration, after the row."""
    margin = known + one.gain * inner + one.offset
    one = replace(one, share=one.share * _likelihood(margin, event))
    if calibrates:
        recalibrate(one, margin, inner, event)
    return one


def learn_rows(eager: Eager, events: Sequence[Event], below: Sequence[float] | None = None) -> tuple[list[float], list[bool]]:
    """Predict and learn every row in order; returns margins before learning, and which rows were refused. below: margins of the
    model below."""
    margins, refused = [], []
    for i, event in enumerate(events):
        known = below[i] if below is not None else 0.0
        beta, margin = eager.served()
        margin += known
        for name, value in event.features:
            margin += beta.get(name >> (32 - eager.bits), 0.0) * value
        learnt = math.isfinite(margin) and math.isfinite(event.label) and _learn(eager, event, known)
        if learnt:
            eager.learnt += 1
            if eager.learnt % eager.config.period == 0:
                truncate(eager)
        margins.append(margin)
        refused.append(not learnt)
    return margins, refused
