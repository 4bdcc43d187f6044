"""Truncated gradient, eager: dictionaries, and every weight is truncated at every event."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from riata.learn.mixed_gradient import COUNTED
from riata.learn.truncated_config import TruncatedGradientConfig
from tests.twins import losses, truncated_columns, truncation

TWINS_OF = ("truncated_gradient",)

LOSSES = {"logistic": losses.LOGISTIC, "squared": losses.SQUARED, "hinge": losses.HINGE}
GRID = 2.0**-40


@dataclass(frozen=True)
class Event:
    """One labelled row: (hash, value) in increasing order of hash."""

    features: Sequence[tuple[int, float]]
    label: float
    weight: float = 1.0

    def by_slot(self, bits: int) -> dict[int, float]:
        """The features, those that share a slot added up, in the order of their hashes."""
        x: dict[int, float] = {}
        for name, value in self.features:
            slot = name >> (32 - bits)
            x[slot] = x.get(slot, 0.0) + value
        return x


@dataclass
class Eager:
    """The state, and the two functions of the loss, which a test of bits may replace by the product's own."""

    config: TruncatedGradientConfig
    bits: int
    slope: Callable[[int, float, float], float] = losses.slope
    travel: Callable[[int, float, float, float], float] = losses.invariant_travel
    beta: dict[int, float] = field(default_factory=dict)
    squares: dict[int, float] = field(default_factory=dict)
    scale: dict[int, float] = field(default_factory=dict)
    intercept: float = 0.0
    intercept_squares: float = 0.0
    norm: float = 0.0
    importance: float = 0.0
    learnt: int = 0
    book: truncated_columns.Book = field(default_factory=truncated_columns.Book)
    never: set[int] = field(default_factory=set)  # slots of weights that are not truncated
    gain: float = 1.0
    offset: float = 0.0
    gain_squares: float = 0.0
    offset_squares: float = 0.0

    @property
    def centred(self) -> bool:
        return self.config.centred and self.config.normalised and self.config.intercept

    @property
    def calibrated(self) -> bool:
        return self.config.calibrated and self.config.loss == "logistic" and self.config.normalised

    def served(self) -> tuple[dict[int, float], float]:
        """Weights and intercept with the calibration."""
        return {slot: self.gain * beta for slot, beta in self.beta.items()}, self.gain * self.intercept + self.offset


def _round(value: float, eager: Eager) -> float:
    return round(value / GRID) * GRID if eager.config.grid else value


def _factor(eager: Eager) -> float:
    """The part of the step size that all coordinates share, for the row after eager.learnt others."""
    config = eager.config
    if config.rate == "decaying":
        return config.eta * math.pow(config.delay / (config.delay + eager.learnt), config.power)
    return config.eta


def _root(squares: float, scale: float, eager: Eager) -> float:
    total = squares + eager.config.accumulator * scale * scale
    return 1.0 if eager.config.rate != "adaptive" else 0.0 if total == 0.0 else 1.0 / math.sqrt(total)


def _multiplier(eager: Eager) -> float:
    return math.sqrt(eager.importance / eager.norm) if eager.config.normalised and eager.norm > 0.0 else 1.0


def _pull(eager: Eager, slot: int, factor: float, period: int) -> float:
    """eta_j K g of one coordinate."""
    root = _root(eager.squares.get(slot, 0.0), eager.scale.get(slot, 1.0), eager)
    return _round(root * (factor * (eager.config.gravity * period)), eager)


def event_size(eager: Eager) -> float:
    """How far the product's clock moves at one event: 1 where it counts them, else what all coordinates share of eta K g."""
    config = eager.config
    if config.rule != "truncate" or not (config.rate == "decaying" or config.normalised):
        return 1.0
    return _factor(eager) * _multiplier(eager) * (config.gravity * config.period)


def truncate(eager: Eager, factor: float) -> None:
    """One truncation event over all weights."""
    config = eager.config
    for slot, beta in eager.beta.items():
        if slot in eager.never:
            continue
        scale = eager.scale.get(slot, 1.0)
        if config.rule == "truncate":
            eager.beta[slot] = truncation.shrink(beta, scale, _pull(eager, slot, factor, config.period), config.ceiling)
        elif abs(beta) * scale <= config.ceiling:
            eager.beta[slot] = 0.0


def _learn(eager: Eager, event: Event, margin: float) -> bool:
    """The gradient step of one row; false, with nothing changed, where it would leave the finite range."""
    config = eager.config
    loss = LOSSES[config.loss]
    gradient = eager.slope(loss, margin, event.label)
    x = event.by_slot(eager.bits) if gradient != 0.0 else {}
    centres = truncated_columns.centre_row(eager.book, eager.learnt, config.reach, x) if eager.centred else {}
    for slot, old in eager.scale.items():
        if slot in x and old > 0.0 and slot not in centres:
            limit = config.reach * old * (COUNTED if config.scale == "counts" else 1.0)
            x[slot] = max(-limit, min(limit, x[slot]))
    for slot, (centre, span) in centres.items():
        x[slot] = max(-span, min(span, x[slot] - centre))
    heat = event.weight * gradient * gradient
    intercept_squares = eager.intercept_squares + heat
    scale = {j: max(eager.scale.get(j, 0.0), abs(x[j])) if config.normalised else 1.0 for j in x}
    if config.normalised and config.scale == "counts":
        scale = {j: max(eager.scale.get(j, 0.0), abs(x[j]) / COUNTED, 1.0 if x[j] != 0.0 else 0.0) for j in x}
    scale |= {j: span for j, (_, span) in centres.items()}
    # A scale may become less only as a centre moves, or as a column ceases to be one.
    less = {j: min(scale[j] / (eager.scale.get(j, 0.0) or 1.0), 1.0) for j in x}
    squares = {j: eager.squares.get(j, 0.0) * less[j] ** 2 + heat * x[j] * x[j] for j in x}
    rate = {j: _root(squares[j], scale[j], eager) / (scale[j] or 1.0) for j in x}
    norm, importance = eager.norm, eager.importance
    if gradient != 0.0:
        norm += event.weight * sum((x[j] / scale[j]) ** 2 for j in x if scale[j] > 0.0)
        importance += event.weight
    common = math.sqrt(importance / norm) if config.normalised and norm > 0.0 else 1.0
    own = _root(intercept_squares, 1.0, eager) if config.intercept else 0.0  # the intercept is outside the common factor
    length = common * sum((rate[j] * x[j] * x[j] for j in x), 0.0) + own
    eta = _factor(eager) * event.weight
    move = -eta * gradient
    if config.step == "invariant" and length > 0.0:
        move = eager.travel(loss, margin, event.label, eta * length) / length
    beta: dict[int, float] = {}
    intercept = eager.intercept + move * own if gradient != 0.0 else eager.intercept
    for j in x:
        old = eager.beta.get(j, 0.0)
        centre = centres[j][0] if j in centres else 0.0
        if config.normalised and 0.0 < eager.scale.get(j, 0.0) < scale[j]:
            kept = old * (eager.scale[j] / scale[j])
            intercept += (old - kept) * centre
            old = kept
        beta[j] = old + common * move * (rate[j] * x[j])
        intercept -= common * move * (rate[j] * x[j]) * centre
    numbers = [*beta.values(), *squares.values(), intercept, intercept_squares, norm]
    if not all(math.isfinite(number) for number in numbers):
        return False
    before = dict(eager.beta)
    eager.beta.update(beta)
    if config.normalised:
        eager.scale.update(scale)
    if config.rate == "adaptive":
        eager.squares.update(squares)
    if config.rule == "subgradient":
        for j, old in before.items():  # the sign is taken before the step
            eager.beta[j] -= _pull(eager, j, _factor(eager), 1) * (1.0 if old > 0.0 else -1.0 if old < 0.0 else 0.0)
    eager.beta.update({j: _round(eager.beta[j], eager) for j in beta})
    if config.intercept and gradient != 0.0:
        eager.intercept, eager.intercept_squares = _round(intercept, eager), intercept_squares
    eager.norm, eager.importance = norm, importance
    if eager.centred:
        eager.never = (eager.never - x.keys()) | centres.keys()
        values = {j: x[j] + (centres[j][0] if j in centres else 0.0) for j in x}
        truncated_columns.note_row(eager.book, eager.learnt, values, centres)
    return True


def recalibrate(eager: Any, margin: float, inner: float, event: Event) -> None:
    """A gradient step of gain and offset of `eager`, or of a member of a mixture, on the log loss of the calibrated margin."""
    gradient = losses.slope(losses.LOGISTIC, margin, event.label)
    share, held = min(event.weight, 10.0), max(-50.0, min(50.0, inner))
    eager.gain_squares += share * (gradient * held) ** 2
    eager.offset_squares += share * gradient**2
    eager.gain -= 0.1 * share * gradient * held / math.sqrt(1.0 + eager.gain_squares)
    eager.offset -= 0.1 * share * gradient / math.sqrt(1.0 + eager.offset_squares)
    eager.gain = min(10.0, max(0.1, eager.gain))


def learn_rows(eager: Eager, events: Sequence[Event]) -> tuple[list[float], list[bool]]:
    """Predict and learn every row in order; returns margins before learning, and which rows were refused."""
    margins, refused = [], []
    for event in events:
        beta, margin = eager.served()
        for name, value in event.features:
            margin += beta.get(name >> (32 - eager.bits), 0.0) * value
        inner = (margin - eager.offset) / eager.gain
        learnt = math.isfinite(margin) and math.isfinite(event.label) and _learn(eager, event, inner)
        if learnt and eager.calibrated:
            recalibrate(eager, margin, inner, event)
        if learnt:
            factor = _factor(eager) * _multiplier(eager)
            eager.learnt += 1
            if eager.config.rule != "subgradient" and eager.learnt % eager.config.period == 0:
                truncate(eager, factor)
        margins.append(margin)
        refused.append(not learnt)
    return margins, refused
