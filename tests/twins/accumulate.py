"""Slow, obvious twin of `riata.watch.figures`: every figure from its definition, over the whole list of events."""

from __future__ import annotations

import math
from dataclasses import dataclass

from riata.maths.links import HINGE, IDENTITY, LOGISTIC, PROBIT, REAL
from tests.twins.links import normal_cdf, sigma
from tests.twins.taylor import log_likelihood

TWINS_OF = ("figures",)

NAMES = ("weight", "log_loss", "base_log_loss", "correct", "predicted", "observed", "loss", "base_loss")


@dataclass(frozen=True)
class Event:
    """One event and what was said about it."""

    margin: float
    label: float
    weight: float
    base: float


def bases(labels: list[float], weights: list[float], link: int) -> list[float]:
    """What the base-rate predictor says before each event."""
    said = []
    for i in range(len(labels)):
        weight = math.fsum(weights[:i])
        observed = math.fsum(y * w for y, w in zip(labels[:i], weights[:i], strict=True))
        if link == REAL:
            said.append(observed / weight if weight else 0.0)
        else:
            said.append((observed + 0.5) / (weight + 1.0))
    return said


def clipped_log_loss(probability_of_label: float) -> float:
    """-log of a probability that is at least 1e-15."""
    return -math.log(max(probability_of_label, 1e-15))


def quantities(event: Event, link: int) -> dict[str, float]:
    """What one event of weight 1 adds to each sum."""
    m, y, base = event.margin, event.label, event.base
    found = dict.fromkeys(NAMES, 0.0) | {"weight": 1.0, "observed": y}
    if link in (LOGISTIC, IDENTITY):
        p = sigma(m) if link == LOGISTIC else min(max(m, 0.0), 1.0)
        not_p = sigma(-m) if link == LOGISTIC else 1.0 - p
        found |= {"predicted": p, "correct": float((p > 0.5) == (y == 1.0))}
        found |= {"log_loss": clipped_log_loss(p if y == 1.0 else not_p)}
        found |= {"base_log_loss": clipped_log_loss(base if y == 1.0 else 1.0 - base)}
    if link == PROBIT:
        p = normal_cdf(m)
        found |= {"predicted": p, "correct": float((p > 0.5) == (y == 1.0))}
        found |= {"log_loss": min(-log_likelihood(PROBIT, m, y), -math.log(1e-15))}
        found |= {"base_log_loss": clipped_log_loss(base if y == 1.0 else 1.0 - base)}
    if link in (LOGISTIC, PROBIT):
        found |= {"loss": found["log_loss"], "base_loss": found["base_log_loss"]}
    elif link == HINGE:
        sign = 2.0 * y - 1.0
        majority = 1.0 if base > 0.5 else -1.0
        found |= {"correct": float((m > 0.0) == (y == 1.0))}
        found |= {"loss": max(0.0, 1.0 - sign * m), "base_loss": max(0.0, 1.0 - sign * majority)}
    else:
        found |= {"loss": (m - y) ** 2, "base_loss": (base - y) ** 2}
    return found


def score_event(link: int, margin: float, label: float, base: float) -> tuple[float, ...]:
    """Probability, log loss, log loss of `base`, 1 if correct, own loss, own loss of `base`."""
    found = quantities(Event(margin, label, 1.0, base), link)
    return tuple(found[name] for name in ("predicted", "log_loss", "base_log_loss", "correct", "loss", "base_loss"))


def accumulate_rows(events: list[Event], link: int, half_life: float) -> dict[str, float]:
    """Sum each quantity over the events; one that lies `half_life` events back counts half. Infinite: none fades."""
    sums = {}
    for name in NAMES:
        terms = []
        for age, event in enumerate(reversed(events)):
            terms.append(event.weight * 2.0 ** (-age / half_life) * quantities(event, link)[name])
        sums[name] = math.fsum(terms)
    return sums


def window_sums(events: list[Event], link: int, window: int) -> dict[str, float]:
    """The same over the last events."""
    return accumulate_rows(events[-window:], link, math.inf)


def window_loss(events: list[Event], link: int, window: int) -> float:
    """Mean log loss over the last events; the learner's own loss where there is no probability."""
    sums = window_sums(events, link, window)
    return sums["log_loss" if link in (LOGISTIC, PROBIT, IDENTITY) else "loss"] / sums["weight"]
