"""Mixtures of Markov chains as an estimator."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from riata.estimators import MarkovMixture
from tests.batch.designs import CHAINS, simulated

NAMES = np.array(["home", "search", "item", "cart"])


def test_finds_the_chains_and_tells_the_sequences_apart() -> None:
    numbers = simulated(1500, length=15)
    model = MarkovMixture(states=NAMES, particles=500, start=500).fit([NAMES[one].tolist() for one in numbers])
    assert model.states_ == NAMES.tolist()
    assert model.shares_ == pytest.approx([0.65, 0.35], abs=0.06)
    assert model.transitions_ == pytest.approx(CHAINS, abs=0.06)
    assert model.transitions_.sum(axis=2) == pytest.approx(np.ones((2, 4)))
    told = model.summary(0.8)
    assert (told["share"]["low"] < told["share"]["mean"]).all()
    assert (told["transitions"]["mean"] < told["transitions"]["high"]).all()
    stays, goes_round = [["home"] * 9, ["home", "search", "item", "cart"] * 3]
    p = model.predict_proba([stays, goes_round])
    assert p.sum(axis=1) == pytest.approx([1.0, 1.0])
    assert model.predict([stays, goes_round]).tolist() == [0, 1]
    assert model.rejuvenations_ > 0
    assert model.effective_sample_size_ > 50.0


def test_parameters_are_kept_and_a_clone_learns_the_same() -> None:
    model = MarkovMixture(particles=200, start=50, seed=3)
    rows = simulated(80).tolist()
    assert clone(model).get_params() == model.get_params()
    assert np.array_equal(model.fit(rows).transitions_, clone(model).fit(rows).transitions_)
    assert model.states_ == ["0", "1", "2", "3"]


def test_bad_sequences_are_refused_by_number_and_name() -> None:
    rows = [["a", "b"], ["b", "a", "b"]]
    with pytest.raises(ValueError, match="short_sequence: sequence 2: a sequence of 1 states has no transition"):
        MarkovMixture(particles=100).fit([*rows, ["a"]])
    with pytest.raises(ValueError, match="unknown_state: sequence 1: state 'b' at position 1"):
        MarkovMixture(states=["a", "c"], particles=100).fit([["a", "c"], ["b", "a"]])
    model = MarkovMixture(particles=100).fit(rows)
    with pytest.raises(ValueError, match="unknown_state: sequence 0: state 'x' at position 2"):
        model.predict([["a", "x"]])
    with pytest.raises(ValueError, match="out_of_range: components"):
        MarkovMixture(9).fit(rows)
    with pytest.raises(ValueError, match="is not between 0 and 1"):
        model.summary(2.0)
    assert model.predict(rows).shape == (2,)
