"""The particle filter learner: the posterior distribution of the weights of a logistic regression, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.halt import lent
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.adopt import Adopted, require_bits
from riata.learn.frozen import check_counts, check_names, check_numbers
from riata.learn.learner import Posterior, Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.particle_filter.config import BANDWIDTH_MOST, ParticleFilterConfig, parameters_of, particles_of
from riata.learn.particle_filter.state import COLUMNS, COUNTS, DEPENDENT, HELD, INTERCEPT, LEARNT, MOVES, STREAM, TEMPERED, State
from riata.maths.particles import bandwidth, draw_about, effective, factorise, moments, particle_room
from riata.maths.shooting import NEVER
from riata.native.library import core, struct
from riata.native.rows import RowsArray
from riata.wire.batch import Batch

__all__ = ["ParticleFilter", "ParticleFilterConfig"]

HASH_BITS: Final = 32
_FLOOR: Final = 0.1  # of the particles: a row that would take the effective sample size below it is tempered

BURN_IN: Final = 500  # sweeps


def filter_struct(config: ParticleFilterConfig) -> Any:
    """Return a `riata_filter` with its settings, without a state and its memory."""
    count, most = particles_of(config), parameters_of(config)
    return struct(
        "riata_filter",
        intercept=config.intercept,
        gamma=config.gamma,
        gamma_intercept=config.gamma_intercept,
        keep=config.keep * count,
        floor=min(_FLOOR, 0.5 * config.keep) * count,
        bandwidth=np.array([bandwidth(d, count, config.widen, BANDWIDTH_MOST) for d in range(most + 1)]),
        start=config.start,
        seed=config.seed,
        columns_max=most,
        particles=count,
    )


class ParticleFilter:
    """Balakrishnan 2007, chapter 2. The theory of operation is in `service/native/particle_filter.c` and `particles.c`.

    Features are identified by all 32 bits of their hashes, so no two share a weight.
    """

    def __init__(self, config: ParticleFilterConfig, bits: int) -> None:
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = HASH_BITS
        most, count = parameters_of(config), particles_of(config)
        self._filter, self._room = filter_struct(config), particle_room(most, count)
        for name in ("margin", "after", "old_weight"):
            setattr(self._filter, name, np.empty(count))
        self._filter.old_theta, self._filter.room = np.empty((most, count)), self._room
        self._make_room(64)
        self._take(self._empty())

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._state.counts[LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are only predicted."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        rows = RowsArray([batch], skip, [batch.hash])
        self._make_room(int(np.diff(batch.indptr).max(initial=0)))
        margin, refused, no_room = np.empty(batch.n), np.empty(batch.n, np.bool_), np.empty(batch.n, np.bool_)
        at = self._learn(rows, 0, margin, refused, no_room)
        while self._filter.redraw:
            self._draw_anew()
            at = self._learn(rows, at, margin, refused, no_room)
        return Stepped(margin, refused, batch.label, batch.weight, int(refused.sum()), no_room)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches, one batch at a time."""
        return step_each(self, batches, skip)

    def weights(self) -> Weights:
        """Return the posterior means of the weights, with the particles."""
        state = self._state
        d = int(state.counts[COLUMNS])
        mean, _ = moments(state.theta[:d], state.weight)
        key = state.key[:d]
        order = np.argsort(key)
        features = order[key[order] != INTERCEPT]
        intercept = float(mean[key == INTERCEPT].sum()) if self.config.intercept else 0.0
        told = features[mean[features] != 0.0]
        dependent = int(state.counts[DEPENDENT]) - 1
        posterior = Posterior(
            slot=key[features].astype(np.uint32),
            theta=state.theta[features],
            base=state.theta[:1][:d].copy() if self.config.intercept else np.zeros((1, len(state.weight))),
            weight=state.weight.copy(),
            figures=np.array([effective(state.weight), state.counts[MOVES], state.counts[TEMPERED]]),
            dependent=-1 if dependent < 0 else int(np.flatnonzero(features == dependent)[0]),
        )
        slots = key[told].astype(np.uint32)
        return Weights(slots, mean[told], intercept, "logistic", HASH_BITS, posterior if self.learnt else None)

    def sketch(self) -> Sketch | None:
        """None: the particles say more than a curvature."""
        return None

    def shadows(self) -> list[Shadow]:
        """Empty: no other priors are tried."""
        return []

    def closed_vocabulary(self) -> U32 | None:
        """Return the hashes of the features once there are features_max of them, strictly increasing; otherwise None."""
        if self._state.counts[COLUMNS] < len(self._state.key):
            return None
        return np.sort(self._state.key[self._state.key != INTERCEPT]).astype(np.uint32)

    def freeze(self) -> Arrays:
        """Return copies of everything that determines later results.

        counts     : i64[7]     see `state.State`
        key        : i64[d]     hashes of the features in the order of their first events, -1 for the intercept
        theta      : f64[d M]   the particles, one parameter after another
        weight     : f64[M]     of the particles
        x          : f64[d n]   the n rows held, one parameter after another
        label, importance : f64[n]
        """
        state = self._state
        d, n = int(state.counts[COLUMNS]), int(state.counts[HELD])
        return {
            "counts": state.counts.copy(),
            "key": state.key[:d].copy(),
            "theta": state.theta[:d].reshape(-1).copy(),
            "weight": state.weight.copy(),
            "x": state.x[:d, :n].reshape(-1).copy(),
            "label": state.label[:n].copy(),
            "importance": state.importance[:n].copy(),
        }

    def thaw(self, arrays: Arrays) -> None:
        """Restore a frozen state. Raises `Corrupt`, with the state unchanged, if `arrays` is not a valid state."""
        self._check(arrays)
        counts = arrays["counts"].astype(np.int64)
        d, n = int(counts[COLUMNS]), int(counts[HELD])
        state = self._empty(held=counts[LEARNT] < self.config.start)
        state.counts[:] = counts
        state.key[:d] = arrays["key"]
        state.theta[:d] = arrays["theta"].reshape(d, len(state.weight))
        state.weight[:] = arrays["weight"]
        state.x[:d, :n] = arrays["x"].reshape(d, n)
        state.label[:n], state.importance[:n] = arrays["label"], arrays["importance"]
        self._take(state)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        state = self._state
        (most, count), d, n = state.theta.shape, int(state.counts[COLUMNS]), int(state.counts[HELD])
        return {
            "particles": state.theta.nbytes + state.weight.nbytes,
            "held": state.x.nbytes + state.label.nbytes + state.importance.nbytes,
            "scratch": 8 * (2 * most * count + 6 * count + 2 * most * most + most + self._filter.longest),
            "checkpoint": 8 * (COUNTS + d + (d + 1) * len(state.weight) + (d + 2) * n),
        }

    def _empty(self, held: bool = True) -> State:
        most, count, start = parameters_of(self.config), particles_of(self.config), self.config.start if held else 0
        return State(
            theta=np.zeros((most, count)),
            weight=np.ones(count),
            key=np.zeros(most, np.int64),
            x=np.zeros((most, start)),
            label=np.zeros(start),
            importance=np.zeros(start),
            counts=np.zeros(COUNTS, np.int64),
            halt=np.zeros(1, np.int64),
        )

    def _take(self, state: State) -> None:
        """Make these arrays the state."""
        self._state = state
        for name, array in state._asdict().items():
            setattr(self._filter, name, array)
        self._filter.held_max = state.x.shape[1]

    def _make_room(self, features: int) -> None:
        """Make room for rows of so many features."""
        if features > self._filter.longest:
            self._filter.longest = 2 * features
            self._filter.at = np.empty(2 * features, np.int64)

    def _learn(self, rows: Any, at: int, margin: F64, refused: BOOL, no_room: BOOL) -> int:
        with lent(self._state.halt):
            stopped = int(core.filter_learn(self._filter, rows, at, margin, refused, no_room))
        if stopped < 0:
            raise ValueError("rows of a batch do not lie within its features")
        return stopped

    def _draw_anew(self) -> None:
        """Draw the particles from the posterior of the rows held; drop the rows when there are `start` of them."""
        state, config = self._state, self.config
        d, n = int(state.counts[COLUMNS]), int(state.counts[HELD])
        x = np.ascontiguousarray(state.x[:d, :n])
        sign = np.where(state.label[:n] == 1.0, 1.0, -1.0)
        gamma = np.where(state.key[:d] == INTERCEPT, config.gamma_intercept, config.gamma).astype(np.float64)
        chance = (config.seed, int(state.counts[STREAM]))
        state.counts[STREAM] += 1
        with lent(state.halt):
            taken = draw_posterior(Events(x, sign, state.importance[:n].copy(), state.halt), gamma, chance, state.theta[:d])
        if taken >= 0.0:
            state.weight[:] = 1.0  # otherwise the rows are hopelessly dependent, and the particles stay as the filter moved them
        if n == config.start:
            state.counts[DEPENDENT] = 1 + dependent_column(x)
            state.counts[HELD] = 0
            self._take(state._replace(x=np.zeros((len(state.key), 0)), label=np.zeros(0), importance=np.zeros(0)))

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types and ranges are those of a frozen state."""
        check_names(arrays, {"counts", "key", "theta", "weight", "x", "label", "importance"})
        check_counts("counts", arrays["counts"], COUNTS)
        counts, key = arrays["counts"].astype(np.int64), arrays["key"]
        learnt, d, n = int(counts[LEARNT]), int(counts[COLUMNS]), int(counts[HELD])
        if key.dtype != np.int64 or key.shape != (d,) or d > len(self._state.key) or len(np.unique(key)) != d:
            raise Corrupt(f"learner state: key is not up to {len(self._state.key)} features, each once")
        if d and (int(key.min()) < INTERCEPT or int(key.max()) >= 2**HASH_BITS):
            raise Corrupt("learner state: key holds a number that is no hash")
        has_base = INTERCEPT in key[:1].tolist()
        if has_base != (self.config.intercept and learnt > 0) or (INTERCEPT in key[1:].tolist()) or (learnt == 0 and d > 0):
            raise Corrupt("learner state: key does not begin with the intercept, or has it without one")
        if n != (learnt if learnt < self.config.start else 0) or int(counts[DEPENDENT]) > d:
            raise Corrupt("learner state: counts does not fit the rows held")
        check_numbers("theta", arrays["theta"], d * len(self._state.weight))
        check_numbers("weight", arrays["weight"], len(self._state.weight), least=0.0)
        check_numbers("x", arrays["x"], d * n)
        check_numbers("label", arrays["label"], n)
        check_numbers("importance", arrays["importance"], n, least=0.0)
        if not float(arrays["weight"].sum()) > 0.0:
            raise Corrupt("learner state: all weights are zero")


def dependent_column(x: F64) -> int:
    """Return the first row of x, f64[d, n], that is a linear combination of the rows before it, or -1."""
    scale = np.sqrt((x * x).sum(axis=1))
    scaled = x / np.where(scale == 0.0, 1.0, scale)[:, np.newaxis]
    return factorise(scaled @ scaled.T)[1]


# Draws from the posterior of logistic regression, given all its events; `service/native/metropolis.c` has the theory.


class Events(NamedTuple):
    """Rows of logistic regression.

    x : f64[d, n]        the values of a parameter are adjacent; the intercept's are ones
    sign : f64[n]        1 or -1
    importance : f64[n]  > 0
    halt : i64[1]        once another thread has set it, what is computed is left unfinished
    """

    x: F64
    sign: F64
    importance: F64
    halt: I64 = NEVER


def labelled(events: Events) -> Any:
    """Return the `riata_labelled` of events."""
    d, n = events.x.shape
    return struct("riata_labelled", x=events.x, sign=events.sign, importance=events.importance, halt=events.halt, d=d, n=n)


def chain_room(d: int, n: int) -> Any:
    """Return a `riata_chain_room` for n rows with d parameters."""
    squares = {name: np.empty((d, d)) for name in ("hessian", "lower", "axes")}
    lines = {name: np.empty(d) for name in ("beta", "step", "gradient", "moved", "precision")}
    columns = {name: np.empty(n) for name in ("margin", "slope", "shift", "reached")}
    return struct("riata_chain_room", line=np.empty((3, n)), z=np.empty((d, n)), **columns, **squares, **lines)


def mode_of(events: Events, gamma: F64) -> tuple[F64, F64, bool]:
    """Return the mode under the normal prior of precision gamma^2 / 2, the Cholesky factor of the curvature there, and whether it
    is positive definite in floating point."""
    d, n = events.x.shape
    beta, lower = np.empty(d), np.empty((d, d))
    return beta, lower, core.mode(labelled(events), gamma, beta, lower, chain_room(d, n))


def draw_posterior(events: Events, gamma: F64, chance: tuple[int, int], theta: F64) -> float:
    """Draw from the posterior: one draw after each sweep, after BURN_IN sweeps without.

    gamma  : f64[d]       of the Laplace prior, > 0
    chance : seed and stream of the random numbers
    theta  : f64[d, M]    overwritten with the draws

    Returns the acceptance over the draws; -1 if the curvature at the mode is not positive definite: theta is then unchanged.
    """
    room = chain_room(*events.x.shape)
    return float(core.draw_posterior(labelled(events), gamma, *chance, theta.shape[1], theta, room))


# The particle filter around a solution: particles drawn from the normal distribution about it.


def around(config: ParticleFilterConfig, solution: Adopted) -> Arrays:
    """Return the frozen state whose weights are those of the solution, and scatter as its curvature says (Laplace's method).

    The prior adds its precision gamma^2 / 2. Raises `BadInput` (code `cannot_adopt`) if the solution has more features than the
    filter, or lacks a cross curvature.
    """
    require_bits(solution, HASH_BITS)
    d, count = len(solution.slot) + int(config.intercept), particles_of(config)
    if d > parameters_of(config) or len(solution.members) < len(solution.slot):
        raise BadInput(
            f"particle_filter takes up to features_max ({config.features_max}) features with their cross curvature: the solution "
            f"has {len(solution.slot)} features, and cross curvature for {len(solution.members)}",
            "cannot_adopt",
        )
    own = np.concatenate([solution.base.curvature, solution.features.curvature[solution.members]])
    curvature = solution.cross + np.diag(own - np.diag(solution.cross))
    prior = np.full(len(own), 0.5 * config.gamma**2)
    prior[0] = 0.5 * config.gamma_intercept**2
    beta = np.concatenate([[solution.intercept], solution.beta[solution.members]])
    key = np.concatenate([np.array([INTERCEPT], np.int64), solution.slot[solution.members].astype(np.int64)])
    used = slice(0 if config.intercept else 1, None)
    scale = 1.0 / np.sqrt(np.diag(curvature + np.diag(prior)))[used]
    scaled = (curvature + np.diag(prior))[used, used] * np.outer(scale, scale)
    covariance = np.linalg.inv(scaled) * np.outer(scale, scale)
    lower, _ = factorise(covariance)
    theta = np.tile(beta[used, np.newaxis], (1, count))
    draw_about(beta[used].copy(), lower, (config.seed, 0), (1.0, 1.0), theta)
    theta += (beta[used] - moments(theta, np.ones(count))[0])[:, np.newaxis]  # the mean of the draws becomes that of the solution
    counts = np.zeros(COUNTS, np.int64)
    counts[[LEARNT, COLUMNS, STREAM]] = max(solution.events, config.start), d, 1
    nothing = np.zeros(0)
    return {
        "counts": counts, "key": key[used].copy(), "theta": theta.reshape(-1), "weight": np.ones(count), "x": nothing,
        "label": nothing, "importance": nothing,
    }  # fmt: skip
