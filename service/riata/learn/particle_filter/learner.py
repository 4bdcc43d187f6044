"""The particle filter learner: the posterior distribution of the weights of a logistic regression, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from riata.base.arrays import BOOL, F64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.halt import lent
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.frozen import check_counts, check_names, check_numbers
from riata.learn.learner import Posterior, Shadow, Sketch, Stepped, Weights, step_each
from riata.learn.particle_filter.config import BANDWIDTH_MOST, ParticleFilterConfig, parameters_of, particles_of
from riata.learn.particle_filter.step import (
    COLUMNS,
    COUNTS,
    DEPENDENT,
    DONE,
    HELD,
    INTERCEPT,
    LEARNT,
    MOVES,
    STREAM,
    TEMPERED,
    FilterAnswers,
    Room,
    Settings,
    State,
    learn_rows,
)
from riata.maths.metropolis import Events, draw_posterior
from riata.maths.particles import bandwidth, effective, factorise, moments, new_scratch
from riata.maths.rows import Rows
from riata.wire.batch import Batch

__all__ = ["ParticleFilter", "ParticleFilterConfig"]

HASH_BITS: Final = 32
_FLOOR: Final = 0.1  # of the particles: a row that would take the effective sample size below it is tempered


def kernel_settings(config: ParticleFilterConfig) -> Settings:
    """Return the kernels' settings. Numbers are converted: another type would compile every kernel again."""
    count, most = particles_of(config), parameters_of(config)
    return Settings(
        intercept=config.intercept,
        gamma=float(config.gamma),
        gamma_intercept=float(config.gamma_intercept),
        keep=float(config.keep * count),
        floor=float(min(_FLOOR, 0.5 * config.keep) * count),
        start=config.start,
        seed=np.uint64(config.seed),
        b=np.array([bandwidth(d, count, config.widen, BANDWIDTH_MOST) for d in range(most + 1)]),
    )


class ParticleFilter:
    """Balakrishnan 2007, chapter 2. The theory of operation is in `maths.particles` and `particle_filter.step`.

    Features are identified by all 32 bits of their hashes, so no two share a weight.
    """

    def __init__(self, config: ParticleFilterConfig, bits: int) -> None:
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = HASH_BITS
        self._settings = kernel_settings(config)
        most, count = parameters_of(config), particles_of(config)
        particles = new_scratch(most, count)
        empty = np.empty(count)
        self._room = Room(particles, empty, empty.copy(), empty.copy(), np.empty((most, count)), np.empty(64, np.int64))
        self._state = self._empty()

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._state.counts[LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows with a true `skip` are only predicted."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        rows = Rows(batch.indptr, batch.hash, batch.value, batch.label, batch.weight, skip)
        longest = int(np.diff(batch.indptr).max(initial=0))
        if longest > len(self._room.at):
            self._room = self._room._replace(at=np.empty(2 * longest, np.int64))
        answers = FilterAnswers(np.empty(batch.n), np.empty(batch.n, np.bool_), np.empty(batch.n, np.bool_))
        at, why = self._learn_rows(rows, 0, answers)
        while why != DONE:
            self._draw_anew()
            at, why = self._learn_rows(rows, at, answers)
        return Stepped(answers.margin, answers.refused, batch.label, batch.weight, int(answers.refused.sum()), answers.no_room)

    def step_all(self, batches: Sequence[Batch], skip: BOOL | None = None) -> Stepped:
        """Learn the events of all batches, one batch at a time."""
        return step_each(self, batches, skip)

    def weights(self) -> Weights:
        """Return the posterior means of the weights, with the particles."""
        state = self._state
        d = int(state.counts[COLUMNS])
        mean, _ = self._moments(d)
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
            figures=np.array([effective(state.weight, self._room.particles), state.counts[MOVES], state.counts[TEMPERED]]),
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

        counts     : i64[7]     see `step.State`
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
        self._state = state

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        state, room = self._state, self._room
        d, n = int(state.counts[COLUMNS]), int(state.counts[HELD])
        scratch = (*room.particles, room.margin, room.after, room.weight, room.theta, room.at)
        return {
            "particles": state.theta.nbytes + state.weight.nbytes,
            "held": state.x.nbytes + state.label.nbytes + state.importance.nbytes,
            "scratch": sum(array.nbytes for array in scratch),
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

    def _learn_rows(self, rows: Rows, at: int, answers: FilterAnswers) -> tuple[int, int]:
        with lent(self._state.halt):
            return learn_rows(self._state, self._settings, rows, at, self._room, answers)

    def _draw_anew(self) -> None:
        """Draw the particles from the posterior of the rows held; drop the rows when there are `start` of them."""
        state, settings = self._state, self._settings
        d, n = int(state.counts[COLUMNS]), int(state.counts[HELD])
        x = np.ascontiguousarray(state.x[:d, :n])
        sign = np.where(state.label[:n] == 1.0, 1.0, -1.0)
        gamma = np.where(state.key[:d] == INTERCEPT, settings.gamma_intercept, settings.gamma)
        chance = (settings.seed, np.uint64(state.counts[STREAM]))
        state.counts[STREAM] += 1
        with lent(state.halt):
            taken = draw_posterior(Events(x, sign, state.importance[:n].copy(), state.halt), gamma, chance, state.theta[:d])
        if taken >= 0.0:
            state.weight[:] = 1.0  # otherwise the rows are hopelessly dependent, and the particles stay as the filter moved them
        if n == self.config.start:
            state.counts[DEPENDENT] = 1 + dependent_column(x)
            state.counts[HELD] = 0
            self._state = state._replace(x=np.zeros((len(state.key), 0)), label=np.zeros(0), importance=np.zeros(0))

    def _moments(self, d: int) -> tuple[F64, F64]:
        mean, covariance = np.zeros(d), np.zeros((d, d))
        if d:
            moments(self._state.theta[:d], self._state.weight, mean, covariance, self._room.particles)
        return mean, covariance

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
    return int(factorise(scaled @ scaled.T, np.empty((len(x), len(x)))))
