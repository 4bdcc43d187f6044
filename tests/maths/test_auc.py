from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from riata.base.arrays import F64
from riata.maths.links import HINGE
from riata.watch.figures import BINS, CELL, CELLS, CUMULATIVE, PAST, SCALE, SUMS, histogram_auc, ranked_auc, tally_of, tally_rows
from tests.twins import auc as twin

EVEN_SPAN, EVEN_PER_UNIT = 8.0, 192.0  # where bins are of equal width, and how many there are


def draw(seed: int, n: int, decimals: int = 12) -> tuple[F64, F64, F64]:
    """Sorted scores, with ties if they are rounded coarsely, with labels that depend on them, and weights."""
    rng = np.random.default_rng(seed)
    score = np.sort(np.round(rng.normal(size=n) * 2, decimals))
    label = (rng.random(n) < 1 / (1 + np.exp(-score))).astype(np.float64)
    return score, label, rng.uniform(0.1, 5.0, n)


@pytest.mark.parametrize(("n", "decimals"), [(2, 9), (60, 9), (200, 1), (200, 0)])
def test_ranked_auc_equals_its_twin_and_scikit_learn(n: int, decimals: int) -> None:
    score, label, weight = draw(n + decimals, n, decimals)
    label[:2] = (0.0, 1.0)
    found = ranked_auc(score, label, weight)
    assert found == pytest.approx(twin.ranked_auc(score, label, weight), rel=1e-12)  # sums in another order
    assert found == pytest.approx(roc_auc_score(label, score, sample_weight=weight), rel=1e-12)


def test_histogram_auc_equals_its_twin() -> None:
    rng = np.random.default_rng(8)
    negative, positive = rng.uniform(0, 3, 50), rng.uniform(0, 3, 50) * (rng.random(50) < 0.5)
    assert histogram_auc(negative, positive) == pytest.approx(twin.histogram_auc(negative, positive), rel=1e-12)  # other order


@pytest.mark.parametrize("label", [0.0, 1.0])
def test_auc_is_not_a_number_without_both_classes(label: float) -> None:
    assert math.isnan(ranked_auc(np.arange(3.0), np.full(3, label), np.ones(3)))
    assert math.isnan(histogram_auc(np.full(4, 1.0 - label), np.full(4, label)))
    assert math.isnan(ranked_auc(np.zeros(0), np.zeros(0), np.zeros(0)))


def histogram_of(margin: F64, label: F64) -> F64:
    """The histogram of margins of weight 1: f64[2, BINS]."""
    arrays = {"calibration": np.zeros((CELLS, CELL)), "window": np.zeros((PAST, 1)), "sums": np.zeros((2, SUMS))}
    arrays["sums"][:, SCALE] = 1.0
    histogram = np.zeros((2, 2, BINS))
    tally_rows(tally_of(HINGE, 1.0, histogram=histogram, **arrays), margin, label, np.ones(len(margin)))
    found: F64 = histogram[CUMULATIVE]
    return found


def bins_of(margins: F64) -> list[int]:
    """The bin of each margin."""
    return [int(np.flatnonzero(histogram_of(margin, np.ones(1))[1])[0]) for margin in np.split(margins, len(margins))]


def test_margin_bin_increases_and_uses_every_bin() -> None:
    even = np.arange(-EVEN_SPAN, EVEN_SPAN, 0.5 / EVEN_PER_UNIT)
    tail = EVEN_SPAN * 2.0 ** np.arange(0, 8, 1 / 500)
    bins = bins_of(np.concatenate((-tail[::-1], even, tail)))
    assert bins == sorted(bins)
    assert set(bins) == set(range(BINS))
    assert bins_of(np.array([-1e9, -2048.0, -2047.9, 2047.9, 2048.0, 1e9])) == [0, 0, 0, BINS - 1, BINS - 1, BINS - 1]


@pytest.mark.parametrize(("centre", "spread"), [(0.0, 2.0), (-5.0, 0.4), (0.0, 40.0)])
def test_histogram_auc_is_within_half_the_shared_pairs_of_the_exact_one(centre: float, spread: float) -> None:
    rng = np.random.default_rng(21)
    score = np.sort(rng.normal(centre, spread, 20_000))
    label = (rng.random(20_000) < 1 / (1 + np.exp(-(score - centre) / spread))).astype(np.float64)
    counts = histogram_of(score, label)
    error = abs(histogram_auc(counts[0], counts[1]) - ranked_auc(score, label, np.ones(20_000)))
    shared = float((counts[0] * counts[1]).sum() / counts[0].sum() / counts[1].sum())
    assert error <= 0.5 * shared + 1e-12  # the bound that the module states, and roundings
    assert error < 1e-4  # what it comes to on bell-shaped margins
