"""Mixtures of Markov chains by the one-pass particle filter: each sequence is read once.

Theory of operation
    A sequence x_0 x_1 ... of S states comes from one of C chains: with probability pi_c from chain c, which has the transition
    matrix P_c. Its likelihood is  sum_c pi_c prod_t P_c[x_t, x_t+1];  the first state is not modelled.

    The first sequences are held, and the particles are draws from their posterior by Gibbs sampling under Dirichlet priors. Then
    a sequence multiplies the weights of the particles by its likelihood. When the effective sample size falls below a share of
    the particles, they are drawn anew: each row of a matrix, and pi, from a Dirichlet distribution about
    a theta_k + (1 - a) mean whose precision fits b^2 times the variance of the particles.

    The likelihood does not depend on the numbers of the components. So before means are taken the components of each particle
    are permuted to be nearest to those of one particle; otherwise means would mix the chains up.

    A sequence that would leave too few particles is taken in parts, as powers of its likelihood.

    Source    Balakrishnan 2007, section 2.4, eqs. 2.12 and 2.13 (the logarithm there is guarded). Random numbers are those of
              numpy's Philox generator: the same seed gives the same numbers with the same version of numpy.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput

BURN_IN: Final = 500  # sweeps of the Gibbs sampler
PRECISION_LEAST: Final = 1e-3
FLOOR: Final = 0.1  # of the particles: a sequence that would take the effective sample size below it is taken in parts
PARTS_MAX: Final = 200
COMPONENTS_MAX: Final = 6  # all permutations are tried
STATES_MAX: Final = 100
PARTICLES_EACH: Final = 200  # for each free parameter, if no number is given
PARTICLES_USUAL: Final = (1000, 10_000)
LEAST: Final = 1e-300  # a probability that is a divisor or has its logarithm taken


@dataclass(frozen=True, slots=True)
class MixtureConfig:
    """Settings.

    particles : None: 200 for each free parameter, from 1000 to 10,000
    keep : share of the particles below which they move; b : bandwidth of the move; prior : of each Dirichlet
    """

    components: int = 2
    particles: int | None = None
    start: int = 1000
    keep: float = 0.25
    b: float = 0.8
    prior: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise `BadInput` (code `out_of_range`) for settings that cannot be."""
        bounds = {
            "components": (1, COMPONENTS_MAX), "particles": (100, 10**6), "start": (1, 10**6), "keep": (0.01, 0.9),
            "b": (0.01, 1.0), "prior": (1e-3, 1e3), "seed": (0, 2**63 - 1),
        }  # fmt: skip
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                raise BadInput(f"{name}: {value!r} is not in {least}..{most}", "out_of_range")


def particles_of(config: MixtureConfig, states: int) -> int:
    """Return the number of particles."""
    if config.particles is not None:
        return config.particles
    free = config.components * (states * (states - 1) + 1) - 1
    return min(max(PARTICLES_EACH * free, PARTICLES_USUAL[0]), PARTICLES_USUAL[1])


@dataclass(slots=True)
class MarkovFilter:
    """The filter.

    pi : f64[C, M], chains : f64[C, S, S, M], weight : f64[M]   particles; empty until the start is over
    """

    config: MixtureConfig
    states: int
    learnt: int = 0
    moves: int = 0
    tempered: int = 0
    pi: F64 = field(default_factory=lambda: np.zeros((0, 0)))
    chains: F64 = field(default_factory=lambda: np.zeros((0, 0, 0, 0)))
    weight: F64 = field(default_factory=lambda: np.zeros(0))
    _logs: tuple[F64, F64] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    _held: list[I64] = field(default_factory=list)
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        if not 2 <= self.states <= STATES_MAX:
            raise BadInput(f"states: {self.states} is not in 2..{STATES_MAX}", "out_of_range")
        self._random = np.random.Generator(np.random.Philox(key=self.config.seed))

    def learn(self, sequence: I64) -> None:
        """Learn one sequence of states 0 .. S - 1, of at least two."""
        self.learnt += 1
        if self.weight.size == 0:
            self._held.append(transitions(sequence, self.states))
            if self.learnt == self.config.start:
                self.begin()
            return
        self._take(sequence)

    def begin(self) -> None:
        """Draw the particles from the posterior of the sequences held, if that was not done. Raises `BadInput` without any."""
        if self.weight.size:
            return
        if not self._held:
            raise BadInput("no sequence was learnt", "empty_body")
        self.pi, self.chains = draw_start(np.array(self._held), self.config, self.states, self._random)
        self.weight = np.ones(self.pi.shape[1])
        self._held = []
        self._moved()

    def log_likelihoods(self, sequence: I64) -> F64:
        """Return log pi_c + log-likelihood of a sequence under each component and particle, f64[C, M]."""
        pi, chains = self._logs
        found = pi.copy()
        for move in transitions_of(sequence, self.states).tolist():
            found += chains[:, move]
        return found

    def responsibilities(self, sequence: I64) -> F64:
        """Return the probability of each component for a sequence, f64[C], averaged over the particles."""
        each = self.log_likelihoods(sequence)
        part = np.exp(each - each.max(axis=0))
        mean: F64 = (part / part.sum(axis=0)) @ self.weight / self.weight.sum()
        return mean

    def shares(self) -> F64:
        """Return the posterior means of the shares, f64[C]."""
        mean: F64 = self.pi @ self.weight / self.weight.sum()
        return mean

    @property
    def effective(self) -> float:
        """The effective sample size."""
        return effective(self.weight)

    def _take(self, sequence: I64) -> None:
        left, parts, count = 1.0, 0, len(self.weight)
        after = self._weighed(sequence, left)
        while effective(after) < FLOOR * count and parts < PARTS_MAX:
            part = 0.5 * left
            while effective(after := self._weighed(sequence, part)) < min(0.5 * self.config.keep * count, self.effective):
                part *= 0.5
            self.weight = after
            self._move()
            left -= part
            parts += 1
            after = self._weighed(sequence, left)
        self.weight = after / after.max()
        self.tempered += parts > 0
        if self.effective < self.config.keep * count:
            self._move()

    def _weighed(self, sequence: I64, power: float) -> F64:
        each = self.log_likelihoods(sequence)
        top = each.max(axis=0)
        found = power * (top + np.log(np.exp(each - top).sum(axis=0)))
        product: F64 = self.weight * np.exp(found - found.max())
        return product

    def _move(self) -> None:
        relabel(self.pi, self.chains, int(self.weight.argmax()))
        part = self.weight / self.weight.sum()
        reached = np.cumsum(part)
        points = (np.arange(len(part)) + self._random.random()) / len(part) * reached[-1]
        picked = np.minimum(np.searchsorted(reached, points, side="right"), len(part) - 1)
        for rows in (self.pi[np.newaxis], self.chains.reshape(-1, self.states, self.chains.shape[-1])):
            for row in rows:
                row[:] = dirichlet_about(row, part, picked, self.config.b, self._random)
        self.weight = np.ones(len(part))
        self.moves += 1
        self._moved()

    def _moved(self) -> None:
        components, states = self.config.components, self.states
        logs = np.log(np.maximum(self.chains, LEAST)).reshape(components, states * states, -1)
        self._logs = np.log(np.maximum(self.pi, LEAST)), logs


def effective(weight: F64) -> float:
    """Return (sum w)^2 / sum w^2."""
    return float(weight.sum() ** 2 / (weight**2).sum())


def transitions_of(sequence: I64, states: int) -> I64:
    """Return the transitions of a sequence, i64[length - 1]: from * S + to."""
    return sequence[:-1] * states + sequence[1:]


def transitions(sequence: I64, states: int) -> I64:
    """Return how often each transition occurs, i64[S * S]."""
    return np.bincount(transitions_of(sequence, states), minlength=states * states).astype(np.int64)


def dirichlet_precision(theta: F64, variance: F64, b: float) -> F64:
    """Return alpha_0 of the Dirichlet distribution about each particle, f64[M], for theta f64[S, M] and variance f64[S].

    Source    Balakrishnan 2007, eq. 2.13: the mean over s = 1 .. S - 1 of log(theta (1 - theta) / (b^2 V) - 1)
    """
    spread = (b * b * np.maximum(variance, LEAST))[:-1, np.newaxis]
    ratio = np.maximum(theta[:-1] * (1.0 - theta[:-1]) / spread - 1.0, PRECISION_LEAST)
    found: F64 = np.exp(np.log(ratio).mean(axis=0))
    return found


def dirichlet_about(theta: F64, part: F64, picked: I64, b: float, random: np.random.Generator) -> F64:
    """Return new particles of one distribution, f64[S, M]: `picked` ones, shrunk to the mean, with Dirichlet noise.

    theta : f64[S, M]; part : f64[M], the weights, with sum 1
    """
    mean = theta @ part
    variance = (theta - mean[:, np.newaxis]) ** 2 @ part
    shrunk = math.sqrt(1.0 - b * b) * theta[:, picked] + (1.0 - math.sqrt(1.0 - b * b)) * mean[:, np.newaxis]
    shrunk = np.maximum(shrunk, LEAST)
    if len(theta) == 1:
        return np.ones_like(theta)
    drawn = np.maximum(random.standard_gamma(shrunk * dirichlet_precision(shrunk, variance, b)), LEAST)
    found: F64 = drawn / drawn.sum(axis=0)
    return found


def relabel(pi: F64, chains: F64, reference: int) -> None:
    """Permute the components of each particle in place to be nearest to those of the particle `reference`."""
    components = len(pi)
    orders = list(itertools.permutations(range(components)))
    if len(orders) == 1:
        return
    to_pi, to_chains = pi[:, reference].copy(), chains[..., reference].copy()
    pair = np.empty((components, components, pi.shape[1]))  # distance of component i of a particle to j of the reference
    for i, j in itertools.product(range(components), repeat=2):
        gap = chains[i] - to_chains[j][..., np.newaxis]
        pair[i, j] = (gap**2).sum(axis=(0, 1)) + (pi[i] - to_pi[j]) ** 2
    cost = np.array([sum(pair[i, j] for j, i in enumerate(order)) for order in orders])
    best = np.array(orders)[cost.argmin(axis=0)].T  # [j, k]: the component of particle k that becomes j
    pi[:] = np.take_along_axis(pi, best, axis=0)
    chains[:] = np.take_along_axis(chains, best[:, np.newaxis, np.newaxis], axis=0)


def draw_start(counts: I64, config: MixtureConfig, states: int, random: np.random.Generator) -> tuple[F64, F64]:
    """Draw pi, f64[C, M], and chains, f64[C, S, S, M], from the posterior of sequences with these transitions, i64[n, S * S].

    Gibbs sampling: components of the sequences, then pi and the rows of the chains. Components are permuted to be nearest to
    those of the draw of the highest likelihood.
    """
    n, c, count = len(counts), config.components, particles_of(config, states)
    numbers, units = counts.astype(np.float64), np.eye(c)
    label = random.integers(0, c, n)
    pi, chains, height = np.empty((c, count)), np.empty((c, states, states, count)), np.empty(count)
    for sweep in range(BURN_IN + count):
        one = units[label]
        share = random.dirichlet(config.prior + one.sum(axis=0))
        rows = random.standard_gamma((one.T @ numbers).reshape(c, states, states) + config.prior)
        rows /= rows.sum(axis=2, keepdims=True)
        each = numbers @ np.log(np.maximum(rows, LEAST)).reshape(c, -1).T + np.log(np.maximum(share, LEAST))
        top = each.max(axis=1, keepdims=True)
        part = np.exp(each - top)
        whole = part.sum(axis=1, keepdims=True)
        label = (random.random((n, 1)) * whole > np.cumsum(part, axis=1)[:, :-1]).sum(axis=1)
        if sweep >= BURN_IN:
            k = sweep - BURN_IN
            pi[:, k], chains[..., k] = share, rows
            height[k] = (top + np.log(whole)).sum()
    relabel(pi, chains, int(height.argmax()))
    return pi, chains


@dataclass(frozen=True, slots=True)
class Names:
    """The names of states, in the order of their numbers. `code` turns sequences of names into numbers."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, sequences: Sequence[Sequence[str]]) -> Names:
        """Return the names that occur, sorted."""
        return cls(tuple(sorted({name for sequence in sequences for name in sequence})))

    def code(self, sequence: Sequence[str]) -> I64:
        """Return the numbers. Raises `BadInput` (unknown_state, short_sequence)."""
        if len(sequence) < 2:
            raise BadInput(f"a sequence of {len(sequence)} states has no transition; it needs two", "short_sequence")
        place = {name: number for number, name in enumerate(self.names)}
        for position, name in enumerate(sequence):
            if name not in place:
                known = ", ".join(self.names[:10]) + (", ..." if len(self.names) > 10 else "")
                raise BadInput(f"state {name!r} at position {position + 1} is unknown; known are {known}", "unknown_state")
        return np.array([place[name] for name in sequence], np.int64)


def summary(made: MarkovFilter, level: float) -> dict[str, dict[str, F64]]:
    """Return mean, low and high end of the central interval of `share`, f64[C], and of `transitions`, f64[C, S, S].

    Components are in the order of their mean shares, largest first.
    """
    pi, chains = made.pi.copy(), made.chains.copy()
    relabel(pi, chains, int(made.weight.argmax()))
    part = made.weight / made.weight.sum()
    order = np.argsort(-(pi @ part), kind="stable")
    return {"share": _ends(pi[order], part, level), "transitions": _ends(chains[order], part, level)}


def _ends(values: F64, part: F64, level: float) -> dict[str, F64]:
    order = np.argsort(values, axis=-1)
    ordered, reached = np.take_along_axis(values, order, -1), np.cumsum(part[order], axis=-1)
    ends = {"low": 0.5 - 0.5 * level, "high": 0.5 + 0.5 * level}
    found = {name: np.take_along_axis(ordered, (reached < q).sum(-1, keepdims=True), -1)[..., 0] for name, q in ends.items()}
    return {"mean": values @ part, **found}
