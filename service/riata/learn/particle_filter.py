"""The particle filter learner: the posterior distribution of the weights of a logistic regression, in one pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, Le, doc

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.halt import lent
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.frozen import check_counts, check_names, check_numbers
from riata.learn.learner import Learner, Posterior, Stepped, Weights
from riata.learn.spec import Adopted, FarValues, LearnerSettings, LearnerSpec, require_bits
from riata.maths.shooting import NEVER
from riata.native.library import core, struct
from riata.native.rows import RowsArray
from riata.wire.batch import Batch

LEARNT, COLUMNS, MOVES, TEMPERED, STREAM, HELD, DEPENDENT = range(7)
COUNTS: Final = 7
INTERCEPT: Final = -1  # its key


class State(NamedTuple):
    """C columns, M particles, and the rows held.

    theta : f64[C, M], weight : f64[M], key : i64[C]
    x : f64[C, start], label : f64[start], importance : f64[start]   of the rows held; without rows once they are dropped
    counts : i64[COUNTS]   rows learnt, columns in use, moves, rows tempered, streams of random numbers used, rows held, and 1 +
                           the column that depends on those before it in the first rows, 0 if none
    halt : i64[1]          once another thread has set it, the state is not wanted any more, and rows are left unlearnt
    """

    theta: F64
    weight: F64
    key: I64
    x: F64
    label: F64
    importance: F64
    counts: I64
    halt: I64


def bandwidth(d: int, particles: int, widen: float = 1.0, most: float = 1.0) -> float:
    """Return b = widen b_M, at most `most`, with b_M = (4 / ((d + 2) M))^(1 / (d + 4)).

    Source    Balakrishnan 2007, eq. 2.10
    """
    return float(min(widen * (4.0 / ((d + 2) * particles)) ** (1.0 / (d + 4)), most))


def particle_room(d: int, particles: int) -> Any:
    """Return a `riata_particle_room` for M particles of up to d parameters."""
    return struct(
        "riata_particle_room",
        line=np.empty((2, particles)),
        noise=np.empty((d, particles)),
        picked=np.empty(particles, np.int64),
        mean=np.empty(d),
        covariance=np.empty((d, d)),
        lower=np.empty((d, d)),
    )


def effective(weight: F64) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2, in 1 .. M; 0 if all weights are zero."""
    return float(core.effective(len(weight), weight, np.empty_like(weight)))


def moments(theta: F64, weight: F64) -> tuple[F64, F64]:
    """Return the weighted mean f64[d] and covariance f64[d, d] of particles."""
    d, count = theta.shape
    mean, covariance = np.empty(d), np.empty((d, d))
    core.moments(d, count, theta, weight, mean, covariance, np.empty((2, count)))
    return mean, covariance


def factorise(matrix: F64) -> tuple[F64, int]:
    """Return the Cholesky factor L of a positive semidefinite matrix f64[d, d], and the first index whose row depends on the rows
    before it, or -1. A direction in which the matrix is singular has a column of zeros."""
    lower = np.empty(matrix.shape)
    return lower, core.factorise(len(matrix), np.ascontiguousarray(matrix), lower)


def draw_about(mean: F64, lower: F64, chance: tuple[int, int], widths: tuple[float, float], theta: F64) -> None:
    """Move particles to a theta + (1 - a) mean + b L z with standard normal z.

    chance : seed and stream of the random numbers
    widths : a and b
    """
    core.draw_about(*theta.shape, mean, lower, *chance, *widths, theta, np.empty_like(theta))


FEATURES_ADVISED: Final = 16
FEATURES_MOST: Final = 32
PARTICLES_EACH: Final = 200  # particles for each parameter
PARTICLES_LEAST: Final = 1000
BANDWIDTH_MOST: Final = 0.95
NUMBERS_MAX: Final = 5 * 10**6  # particles times parameters: 40 MB, and four times as much to work with
CHAIN_MAX: Final = 10**10  # particles times parameters times rows held: the cost of drawing them anew


@dataclass(frozen=True, slots=True)
class ParticleFilterConfig(LearnerSettings):
    """Settings of 1PFS, the one-pass particle filter with shrinkage, for logistic regression."""

    kind: Literal["particle_filter"] = "particle_filter"
    features_max: Annotated[
        int,
        Ge(1),
        doc(
            "Maximum number of features, without the intercept, at most 32. A row with a further feature is refused "
            "(vocabulary_full). Default 16: above it the particles are hardly more than a normal distribution, and the model's "
            "description says so."
        ),
    ] = FEATURES_ADVISED
    gamma: Annotated[
        float,
        Gt(0),
        Le(1e6),
        doc(
            "Prior of every weight: a Laplace distribution with density proportional to exp(-gamma |weight|). Features of the "
            "order of 0.01 need a smaller gamma, or to be rescaled. Default 1: weakly informative, if features are of the "
            "order of one."
        ),
    ] = 1.0
    gamma_intercept: Annotated[float, Gt(0), Le(1e6), doc("Prior of the intercept, as gamma. Default 0.2.")] = 0.2
    particles: Annotated[
        int | None,
        doc(
            "Number of particles, 100 to 1,000,000. In a new model, times the number of parameters it is at most 5,000,000, "
            "and times start too at most 10^10. Time per event and memory are proportional to it. Default null: 200 for each "
            "feature of features_max and for the intercept, at least 1000. The error of a posterior mean falls about as their "
            "number grows."
        ),
    ] = None
    start: Annotated[
        int,
        Ge(1),
        Le(100_000),
        doc(
            "First events that are held in memory. At 16, 32, 64, ... and start of them the particles are drawn anew from "
            "their exact posterior by a Markov chain; then the events are dropped. They should be typical of the stream. "
            "Default 2000: takes about a second."
        ),
    ] = 2000
    keep: Annotated[
        float,
        Gt(0),
        Le(0.9),
        doc(
            "The particles move when the effective sample size has fallen below this fraction of their number. Default 0.5; "
            "with a smaller one means are less accurate."
        ),
    ] = 0.5
    widen: Annotated[
        float,
        Gt(0),
        Le(10),
        doc(
            "Bandwidth of the kernel in units of the rule b_M = (4 / ((d + 2) M))^(1 / (d + 4)); at most 0.95 as a whole. "
            "Default 1.5: a wider kernel keeps more of the particles distinct."
        ),
    ] = 1.5
    seed: Annotated[int, Ge(0), Le(2**63 - 1), doc("Key of the random numbers. The same log gives the same bits.")] = 0
    intercept: Annotated[bool, doc("Learn an intercept: a feature that is 1 in every event. Default true.")] = True
    far_values: FarValues = "auto"

    def __post_init__(self) -> None:
        """Refuse more features or particles than the filter can have (`BadInput`, codes `too_many_features`, `out_of_range`)."""
        if self.features_max > FEATURES_MOST:
            raise BadInput(
                f"learner.features_max: {self.features_max} features are too many for a particle filter, which takes up to "
                f"{FEATURES_MOST}, better up to {FEATURES_ADVISED}; taylor_sketch in mode exact takes up to 4096",
                "too_many_features",
            )
        if self.particles is not None and not 100 <= self.particles <= 10**6:
            raise BadInput(f"learner.particles: {self.particles} is not in 100..1000000", "out_of_range")

    def too_much(self) -> str:
        """Return why one row of a model with these settings could take far too long, and what to set; empty if none does."""
        count, parameters = particles_of(self), parameters_of(self)
        most = min(NUMBERS_MAX // parameters, CHAIN_MAX // (parameters * self.start))
        if count <= most:
            return ""
        return (
            f"particles {count} with {parameters} parameters (features_max) and start {self.start}: particles times parameters "
            f"may be up to {NUMBERS_MAX:,}, and times start up to {CHAIN_MAX:,}; set particles to {most} or less, or a smaller "
            "features_max or start"
        )

    def members(self) -> int:
        return self.features_max

    def room(self) -> int:
        return self.features_max

    def slot_bits(self, bits: int) -> int:  # noqa: ARG002  of a hash, all
        return _HASH_BITS

    def wants_scaled(self) -> bool:
        return True


def parameters_of(config: ParticleFilterConfig) -> int:
    """Return the largest number of parameters: the features, and the intercept."""
    return config.features_max + int(config.intercept)


def particles_of(config: ParticleFilterConfig) -> int:
    """Return the number of particles."""
    return max(PARTICLES_LEAST, PARTICLES_EACH * parameters_of(config)) if config.particles is None else config.particles


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


class ParticleFilter(Learner):
    """Balakrishnan 2007, chapter 2. The theory of operation is in `service/native/particle_filter.c`.

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
        if key.dtype != np.int64 or key.shape != (d,) or d > len(self._state.key) or (np.diff(np.sort(key)) == 0).any():
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


# Draws from the posterior of logistic regression, given all its events; `service/native/particle_filter.c` has the theory.


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


_HASH_BITS: Final = 32


def _adopt(config: ParticleFilterConfig, _bits: int, solution: Adopted) -> Arrays:

    return around(config, solution)


SPEC: Final = LearnerSpec(
    config=ParticleFilterConfig,
    about="1PFS, the one-pass particle filter with shrinkage (Balakrishnan 2007). Logistic regression of up to 16 features, with "
    "the posterior distribution of every weight, so predictions have intervals (`?level=0.95`). It forgets nothing.",
    build=lambda config, bits, _hash_key: ParticleFilter(config, bits),
    adopt=_adopt,
    keeps_posterior=True,
    older={"far_values": "off"},
    advice={
        "worse_than_base_rate": "It forgets nothing: if the stream changes, create it with taylor_sketch and rho 0.9999.",
        "columns_not_scaled": "Scale them before they are sent, so that its prior fits.",
    },
)
