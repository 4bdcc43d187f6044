"""The Taylor sketch, plain: dictionaries by feature, true sums instead of scaled ones, and every solve to the end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from riata.learn.taylor_config import TaylorSketchConfig
from riata.maths.links import LOGISTIC, PROBIT
from riata.native.library import core
from tests.twins.shooting import WEIGHT_MAX
from tests.twins.truncated_step import Event

TWINS_OF = ("taylor_sketch",)

INTERCEPT = -1  # its key
SHARPNESS = 1e-13  # of a solve, relative to the penalty or the largest gradient
FADE = 2.0 ** (-1.0 / 10_000.0)
LOSS_MAX = -math.log(1e-15)


def sort_best(entries: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """Pairs of score and key: the highest score first, and of equal ones the lowest key."""
    return sorted(entries, key=lambda entry: (-entry[0], entry[1]))


def of_label(link: int, margin: float, label: float) -> tuple[float, float, float]:
    """Slope, curvature and log-likelihood of a label, which have a twin of their own."""
    found = np.empty((3, 1))
    core.taylor(link, np.array([margin], np.float64), np.array([label]), 1, *found)
    slope, curvature, log_p = found[:, 0].tolist()
    return slope, curvature, log_p


@dataclass
class Feature:
    """Gradient, curvature without the prior and largest x^2 of one feature, and its weight."""

    beta: float = 0.0
    gradient: float = 0.0
    curvature: float = 0.0
    peak: float = 0.0


@dataclass
class Row:
    """One row that is held, and what it was linearised about: the block's part of its margin."""

    x: dict[int, float]
    label: float
    weight: float
    margin: float = 0.0
    r: float = 0.0
    h: float = 0.0


@dataclass
class Plain:
    """All of the state. slot[p] is the key at position p of the block, None if it is free."""

    config: TaylorSketchConfig
    bits: int
    own: dict[int, float] = field(default_factory=dict)
    slot: list[int | None] = field(default_factory=list)
    feature: dict[int, Feature] = field(default_factory=dict)
    cross: dict[tuple[int, int], float] = field(default_factory=dict)
    waiting: set[int] = field(default_factory=set)
    held: list[Row] = field(default_factory=list)
    shadow: list[dict[int, float]] = field(default_factory=list)
    loss: list[list[float]] = field(default_factory=list)
    learnt: int = 0
    ended: int = 0
    blocks: int = 0
    importance: float = 0.0
    n_eff: float = 0.0
    growth: float = 1.0

    def __post_init__(self) -> None:
        self.bits = self.config.slot_bits(self.bits)
        self.slot = [INTERCEPT if self.config.intercept else None]
        if self.config.intercept:
            self.feature[INTERCEPT] = Feature()
        if self.config.gamma_schedule != "fixed":
            self.growth = self.config.gamma_floor
        self.shadow = [{} for _ in self.config.shadow]
        self.loss = [[0.0] * 4 for _ in self.config.shadow]

    @property
    def members(self) -> list[int]:
        return [key for key in self.slot if key is not None]

    @property
    def outside(self) -> str:
        """What features outside the block may do: nothing (there are none), strict or hybrid."""
        if self.config.mode == "exact":
            return {"refuse": "nothing"}.get(self.config.beyond, self.config.beyond)
        return "strict" if self.config.mode == "strict" else "hybrid"

    def gamma(self, key: int, usual: float | None = None) -> float:
        """Penalty in force."""
        if key == INTERCEPT:
            return self.config.gamma_intercept * self.growth
        return self.growth * self.own.get(key, self.config.gamma if usual is None else usual)

    def total(self, key: int) -> float:
        """Curvature with the prior."""
        return self.config.prior_curvature * self.feature[key].peak + self.feature[key].curvature

    def omega(self, key: int) -> float:
        return self.feature[key].gradient + self.total(key) * self.feature[key].beta

    def h(self, j: int, k: int) -> float:
        return self.cross.get((min(j, k), max(j, k)), 0.0)


def soft(omega: float, gamma: float, curvature: float) -> float:
    """soft(omega, gamma) / curvature, 0 without curvature, or with so little that nothing can be reckoned with it."""
    excess_ = max(abs(omega) - gamma, 0.0)
    return math.copysign(excess_ / curvature, omega) if curvature > 0.0 and excess_ <= WEIGHT_MAX * curvature else 0.0


def excess(beta: float, gradient: float, gamma: float) -> float:
    """Violation of the condition of optimality of one coordinate."""
    return abs(gradient - math.copysign(gamma, beta)) if beta != 0.0 else max(0.0, abs(gradient) - gamma)


def terms(plain: Plain, margin: float, label: float) -> tuple[float, float]:
    """Slope and curvature of one event."""
    link = LOGISTIC if plain.config.link == "logistic" else PROBIT
    r, h, _ = of_label(link, margin, label)
    return r, max(h, plain.config.curvature_floor * abs(r)) if link == LOGISTIC else h


def add(plain: Plain, x: dict[int, float], r: float, h: float) -> None:
    """Add slope and curvature of a row to every sum."""
    members = set(plain.members)
    for key, value in x.items():
        plain.feature[key].gradient += r * value
        plain.feature[key].curvature += h * value * value
        for other, second in x.items():
            if key < other and {key, other} <= members:
                plain.cross[key, other] = plain.h(key, other) + h * value * second


def maximise(plain: Plain, beta: dict[int, float], gradient: dict[int, float], gamma: dict[int, float]) -> None:
    """Coordinate ascent over the block, in place, until nothing is left to gain."""
    for _ in range(100_000):
        for j in beta:
            new = soft(gradient[j] + plain.total(j) * beta[j], gamma[j], plain.total(j))
            step, beta[j] = new - beta[j], new
            if step != 0.0:
                for k in beta:
                    gradient[k] -= step * (plain.total(j) if k == j else plain.h(j, k))
        worst = max((excess(beta[j], gradient[j], gamma[j]) for j in beta if plain.total(j) > 0.0), default=0.0)
        if worst <= SHARPNESS * max([1.0, *(abs(g) for g in gradient.values())]):
            return


def solve_members(plain: Plain) -> None:
    """Solve for the weights of the block."""
    keys = plain.members
    beta = {key: plain.feature[key].beta for key in keys}
    gradient = {key: plain.feature[key].gradient for key in keys}
    maximise(plain, beta, gradient, {key: plain.gamma(key) for key in keys})
    for key in keys:
        plain.feature[key].beta, plain.feature[key].gradient = beta[key], gradient[key]
    solve_shadows(plain)


def solve_shadows(plain: Plain) -> None:
    """Solve the same quadratic under every other penalty, from nothing."""
    for c, usual in enumerate(plain.config.shadow):
        keys = plain.members
        beta = dict.fromkeys(keys, 0.0)
        gradient = {
            j: plain.feature[j].gradient
            + sum((plain.total(j) if k == j else plain.h(j, k)) * plain.feature[k].beta for k in keys)
            for j in keys
        }
        maximise(plain, beta, gradient, {key: plain.gamma(key, usual) for key in keys})
        plain.shadow[c] = beta


def shadow_weight(plain: Plain, c: int, key: int) -> float:
    """Weight of a feature in a shadow: that of the block, or what one coordinate alone would take."""
    if key in plain.shadow[c]:
        return plain.shadow[c][key]
    if plain.outside != "hybrid" or key not in plain.feature or key in plain.members:
        return 0.0
    return soft(plain.omega(key), plain.gamma(key, plain.config.shadow[c]), plain.total(key))


def score_shadows(plain: Plain, x: dict[int, float], event: Event) -> None:
    """Charge every shadow for what it predicts."""
    link = LOGISTIC if plain.config.link == "logistic" else PROBIT
    for c, loss in enumerate(plain.loss):
        margin = sum(shadow_weight(plain, c, key) * value for key, value in x.items())
        nats = min(LOSS_MAX, -of_label(link, margin, event.label)[2])
        loss[0] += event.weight
        loss[1] += event.weight * nats
        loss[2] = FADE * loss[2] + event.weight
        loss[3] = FADE * loss[3] + event.weight * nats


def solve_outside(plain: Plain, moves: bool = True) -> float:
    """Update every feature outside the block by itself; returns the largest violation before."""
    worst = 0.0
    for key in sorted(set(plain.feature) - set(plain.members)):
        one, total = plain.feature[key], plain.total(key)
        if total > 0.0:
            worst = max(worst, excess(one.beta, one.gradient, plain.gamma(key)))
            new = soft(plain.omega(key), plain.gamma(key), total)
            if moves:
                one.gradient -= total * (new - one.beta)
                one.beta = new
    return worst


def solve_all(plain: Plain) -> None:
    """Move to the penalty of the configuration."""
    solve_members(plain)
    if plain.outside == "hybrid":
        solve_outside(plain)
    plain.waiting = set(plain.feature) - set(plain.members)


def drop(plain: Plain, position: int) -> None:
    """Free a position."""
    key = plain.slot[position]
    plain.slot[position] = None
    plain.cross = {pair: h for pair, h in plain.cross.items() if key not in pair}
    for beta in plain.shadow:
        beta.pop(key, None)  # type: ignore[arg-type]


def take(plain: Plain, position: int, key: int) -> None:
    """Give a free position to a feature."""
    while position >= len(plain.slot):
        plain.slot.append(None)
    for c in range(len(plain.shadow)):
        plain.shadow[c][key] = shadow_weight(plain, c, key)
    plain.slot[position] = key


def exchange_members(plain: Plain) -> int:
    """Evict; where the block is full and the mode strict swap, else admit."""
    config = plain.config
    changes = 0
    limit = config.block_limit()
    for position, key in enumerate(plain.slot):
        if position > 0 and key is not None:
            one = plain.feature[key]
            if one.beta == 0.0 and abs(one.gradient) < 0.9 * config.admit * plain.gamma(key):
                drop(plain, position)
                changes += 1
    inside = [key for key in plain.slot[1:] if key is not None]
    others = sorted(plain.waiting - set(plain.members))
    free = limit - 1 - len(inside)
    if free == 0 and plain.outside == "hybrid":
        return changes
    plain.waiting = set()
    if free == 0:
        ready = [(abs(plain.omega(key)), key) for key in others if abs(plain.omega(key)) > plain.gamma(key)]
        strong = sort_best(ready)[: config.k // 10 + 1]
        weak = sort_best([(-abs(plain.omega(key)), key) for key in inside])
        for (score, new), (minus, old) in zip(strong, weak, strict=False):
            if not score > config.hysteresis * -minus:
                break
            position = plain.slot.index(old)
            one, step = plain.feature[old], -plain.feature[old].beta
            for key in plain.members:
                plain.feature[key].gradient -= step * (plain.total(old) if key == old else plain.h(old, key))
            one.beta = 0.0
            drop(plain, position)
            take(plain, position, new)
            changes += 1
        return changes
    ready = [(abs(plain.omega(key)), key) for key in others]
    ready = [(score, key) for score, key in ready if score >= config.admit * plain.gamma(key) and score > 0.0]
    for _, key in sort_best(ready)[:free]:
        position = next(p for p in range(1, limit) if p >= len(plain.slot) or plain.slot[p] is None)
        take(plain, position, key)
        changes += 1
    return changes


def renormalise(plain: Plain, q: float) -> None:
    """Multiply every sum by q."""
    for one in plain.feature.values():
        one.gradient *= q
        one.curvature *= q
    plain.cross = {pair: q * h for pair, h in plain.cross.items()}
    for row in plain.held:
        row.weight *= q


def end_block(plain: Plain) -> None:
    """Forget, set the penalty, solve, and now and then exchange members."""
    config, i = plain.config, plain.learnt
    length = i - plain.ended
    q = config.rho**length
    if length < i <= config.burn_in:
        q = min(q, ((i - length) / i) ** config.burn_in_power)
    renormalise(plain, q)
    plain.n_eff *= q
    share = i / config.gamma_events
    grown = {"fixed": 1.0, "linear": share, "sqrt": math.sqrt(share)}[config.gamma_schedule]
    plain.growth = grown if config.gamma_schedule == "fixed" else max(config.gamma_floor, grown)
    if config.burn_in > 0:
        plain.growth *= min(1.0, plain.n_eff / plain.importance)
    solve_members(plain)
    plain.ended = i
    plain.blocks += 1
    if config.mode in ("strict", "hybrid") and (length < config.block or plain.blocks == config.rounds):
        plain.blocks = 0
        exchange_members(plain)


def block_ends(plain: Plain) -> bool:
    """Whether the present block of events is as long as it is to be."""
    config, i = plain.config, plain.learnt
    short = config.mode != "exact" and config.ramp > 0.0
    return i - plain.ended >= (max(1, min(config.block, int(config.ramp * i))) if short else config.block)


def size_in_prior(plain: Plain, x: dict[int, float], key: int) -> float:
    """What the prior curvature of a feature goes by."""
    value = abs(x[key])
    if plain.outside == "hybrid" and plain.config.prior_by_row and key not in plain.members:
        return 0.3 * value * math.sqrt(value * sum(abs(other) for other in x.values()))
    return value * value


def members_of(plain: Plain, x: dict[int, float]) -> dict[int, float]:
    """The part of a row that is in the block."""
    members = set(plain.members)
    return {key: value for key, value in x.items() if key in members}


def margin_of(plain: Plain, x: dict[int, float]) -> float:
    return sum(plain.feature[key].beta * value for key, value in x.items() if key in plain.feature)


def linearise_held(plain: Plain) -> float:
    """Begin the sums again with the rows held, about the present weights; returns the objective there."""
    link = LOGISTIC if plain.config.link == "logistic" else PROBIT
    for one in plain.feature.values():
        one.gradient = one.curvature = 0.0
    plain.cross = {}
    objective = -sum(plain.gamma(key) * abs(one.beta) for key, one in plain.feature.items())
    for row in plain.held:
        margin = margin_of(plain, row.x)
        objective += row.weight * of_label(link, margin, row.label)[2]
        r, h = terms(plain, margin, row.label)
        add(plain, row.x, row.weight * r, row.weight * h)
        for key, value in members_of(plain, row.x).items():
            plain.feature[key].peak = max(plain.feature[key].peak, value * value)
    return objective


def linearise_anew(plain: Plain) -> int:
    """MP on the rows held, with half steps back where the objective falls; returns the number of passes."""
    before, passes, halvings, changes = -math.inf, 0, 0, 0
    kept: tuple[list[int | None], dict[int, float]] = ([], {})
    slack = plain.config.tolerance * max(plain.config.gamma * plain.growth, 1e-3)
    while True:
        objective = linearise_held(plain)
        passes += 1
        if halvings < 30 and objective < before - 1e-12 * abs(before):
            for key, beta in kept[1].items():
                position = plain.slot.index(key) if key in plain.members else None
                old = kept[0].index(key) if key in kept[0] else None
                if position == old:
                    plain.feature[key].beta = 0.5 * (plain.feature[key].beta + beta)
            halvings += 1
            continue
        worst = max(
            (
                excess(plain.feature[j].beta, plain.feature[j].gradient, plain.gamma(j))
                for j in plain.members
                if plain.total(j) > 0.0
            ),
            default=0.0,
        )
        if plain.outside == "hybrid":
            worst = max(worst, solve_outside(plain, moves=False))
        if (worst <= slack and changes == 0) or passes - halvings >= 12:
            break
        before = objective
        kept = (list(plain.slot), {key: one.beta for key, one in plain.feature.items()})
        solve_all(plain)
        changes = exchange_members(plain) if plain.config.mode in ("strict", "hybrid") else 0
    solve_members(plain)
    return passes


def linearise_again(plain: Plain) -> None:
    """Linearise the rows held about the present weights, on the sums that were there before them."""
    for row in plain.held:
        inside = members_of(plain, row.x)
        now = margin_of(plain, inside)
        r, h = terms(plain, margin_of(plain, row.x), row.label)
        add(plain, inside, row.weight * (r - row.r + row.h * (now - row.margin)), row.weight * (h - row.h))
    plain.held = []
    solve_members(plain)


def _admit_new(plain: Plain, x: dict[int, float]) -> bool:
    """Let features of an exact sketch in as they appear; false if one has no room and may not be outside."""
    if plain.config.mode != "exact":
        return True
    room = plain.config.block_limit() - len(plain.slot)
    fresh = [key for key in x if key not in plain.members and key not in plain.feature]
    if plain.outside == "nothing" and len(fresh) > room:
        return False
    for key in fresh[: max(room, 0)]:
        plain.feature[key] = Feature()
        plain.slot.append(key)
    return True


def learn_row(plain: Plain, event: Event) -> bool:
    """Learn one row that is not to be refused for its numbers; false if there is no room for it."""
    x = event.by_slot(plain.bits)
    margin = margin_of(plain, {**x, INTERCEPT: 1.0})
    if not _admit_new(plain, x):
        return False
    if plain.config.intercept:
        x = {INTERCEPT: 1.0, **x}
    score_shadows(plain, x, event)
    for key in x:
        one = plain.feature.setdefault(key, Feature())
        one.peak = max(one.peak, size_in_prior(plain, x, key))
    r, h = terms(plain, margin, event.label)
    inside = members_of(plain, x)
    if plain.learnt < plain.config.warm_up_rows() or plain.config.reexpand:
        plain.held.append(Row(x, event.label, event.weight, margin_of(plain, inside), r, h))
    add(plain, x, event.weight * r, event.weight * h)
    plain.waiting |= x.keys() - inside.keys()
    if plain.outside == "hybrid":
        for key in x.keys() - inside.keys():
            one, total = plain.feature[key], plain.total(key)
            new = soft(plain.omega(key), plain.gamma(key), total)
            one.gradient -= total * (new - one.beta)
            one.beta = new
    plain.learnt += 1
    plain.n_eff += event.weight
    plain.importance += event.weight
    return True


def learn_rows(plain: Plain, events: Sequence[Event]) -> tuple[list[float], list[bool]]:
    """Predict and learn every row in order; returns margins before learning, and which rows found no room."""
    margins, refused = [], []
    config = plain.config
    for event in events:
        margins.append(margin_of(plain, {INTERCEPT: 1.0, **event.by_slot(plain.bits)}))
        learnt = learn_row(plain, event)
        refused.append(not learnt)
        if learnt:
            i = plain.learnt
            if block_ends(plain):
                end_block(plain)
            if i <= config.warm_up_rows():
                doubles = config.mode == "exact" or not config.relinearise
                if (doubles and i >= 16 and i & (i - 1) == 0) or i == config.warm_up_rows():
                    linearise_anew(plain)
                if i == config.warm_up_rows():
                    plain.held = []
            elif config.reexpand and len(plain.held) == config.reexpand:
                linearise_again(plain)
    return margins, refused
