"""Mixtures of Markov chains as an estimator, by the one-pass particle filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from riata.base.arrays import F64, I64
from riata.base.errors import BadInput
from riata.lab.batch.markov_mixture import MarkovFilter, MixtureConfig, Names, summary


class MarkovMixture(BaseEstimator):
    """A mixture of Markov chains with the posterior distribution of its parameters; each sequence is read once.

    `fit` takes a list of sequences, each a list of at least two states; states are strings, or anything whose `str` names it.
    The first `start` sequences should be a random sample of all. Components are in the order of their shares, largest first.

    Parameters
    ----------
    n_components : default=2
        Number of chains, up to 6.
    states : default=None
        All states. Default: those of the sequences that `fit` gets.
    particles : default=None
        Number of particles. Default: 200 for each free parameter, from 1000 to 10,000.
    start : default=1000
        Number of first sequences from whose posterior the particles are drawn by Gibbs sampling.
    prior : default=1.0
        Parameter of the Dirichlet priors of shares and rows.
    seed : default=0
        The same seed gives the same numbers with the same version of numpy.

    Attributes
    ----------
    states_ : list of str, the order of rows and columns
    shares_ : f64[C], posterior means of the shares
    transitions_ : f64[C, S, S], posterior means of the transition matrices
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        states: Any = None,
        particles: int | None = None,
        start: int = 1000,
        prior: float = 1.0,
        seed: int = 0,
    ) -> None:
        self.n_components = n_components
        self.states = states
        self.particles = particles
        self.start = start
        self.prior = prior
        self.seed = seed

    def fit(self, X: Sequence[Sequence[Any]], _y: Any = None) -> Self:
        """Learn the sequences in their order, from nothing.

        Raises `ValueError` (short_sequence, unknown_state) that names the sequence, before anything is learnt.
        """
        listed = _listed(X)
        names = Names.of(listed) if self.states is None else Names(tuple(str(state) for state in self.states))
        coded = _coded(names, listed)
        try:
            config = MixtureConfig(
                self.n_components, self.particles, min(self.start, max(1, len(coded))), prior=self.prior, seed=self.seed
            )
            self._filter = MarkovFilter(config, len(names.names))
            for sequence in coded:
                self._filter.learn(sequence)
            self._filter.begin()
        except BadInput as error:
            raise ValueError(f"{error.code}: {error}") from None
        self._names = names
        self.states_ = list(names.names)
        return self

    @property
    def shares_(self) -> F64:
        """Posterior means of the shares."""
        return self.summary()["share"]["mean"]

    @property
    def transitions_(self) -> F64:
        """Posterior means of the transition matrices."""
        return self.summary()["transitions"]["mean"]

    def summary(self, level: float = 0.95) -> dict[str, dict[str, F64]]:
        """Return mean, low and high end of the central interval for `share`, f64[C], and `transitions`, f64[C, S, S]."""
        check_is_fitted(self, "_filter")
        if not 0.0 < level < 1.0:
            raise ValueError(f"level: {level!r} is not between 0 and 1")
        return summary(self._filter, level)

    def predict_proba(self, X: Sequence[Sequence[Any]]) -> F64:
        """Return the probability of each component for each sequence, f64[n, C]."""
        check_is_fitted(self, "_filter")
        order = np.argsort(-self._filter.shares())
        return np.array([self._filter.responsibilities(sequence)[order] for sequence in _coded(self._names, _listed(X))])

    def predict(self, X: Sequence[Sequence[Any]]) -> I64:
        """Return the most probable component of each sequence."""
        best: I64 = np.argmax(self.predict_proba(X), axis=1).astype(np.int64)
        return best

    @property
    def effective_sample_size_(self) -> float:
        """Of the particles now."""
        check_is_fitted(self, "_filter")
        return self._filter.effective

    @property
    def rejuvenations_(self) -> int:
        """How often the particles were moved."""
        check_is_fitted(self, "_filter")
        return self._filter.moves


def _listed(sequences: Sequence[Sequence[Any]]) -> list[list[str]]:
    return [[str(state) for state in sequence] for sequence in sequences]


def _coded(names: Names, sequences: list[list[str]]) -> list[I64]:
    found = []
    for number, sequence in enumerate(sequences):
        try:
            found.append(names.code(sequence))
        except BadInput as error:
            raise ValueError(f"{error.code}: sequence {number}: {error}") from None
    return found
