"""Mean costs of decisions against a sum over rows in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from riata.maths.links import LOGISTIC
from riata.watch.figures import PAST, PAST_LABEL, PAST_MARGIN, PAST_WEIGHT, cost_figures


@pytest.mark.parametrize("kept", [1.0, 0.2])
def test_costs_equal_sums_over_rows(kept: float) -> None:
    rng = np.random.default_rng(3)
    past = np.zeros((PAST, 200))
    past[PAST_MARGIN], past[PAST_LABEL] = rng.normal(size=200), rng.integers(0, 2, 200)
    past[PAST_WEIGHT] = rng.uniform(0.1, 3.0, 200)
    cost_fp, cost_fn, shift = 2.0, 5.0, math.log(kept)
    sums = dict.fromkeys(("realised", "expected", "realised_at_half", "always_negative", "always_positive"), 0.0)
    total = 0.0
    for margin, label, weight in zip(past[PAST_MARGIN], past[PAST_LABEL], past[PAST_WEIGHT], strict=True):
        p = 1.0 / (1.0 + math.exp(-(margin + shift)))
        w = weight / (1.0 if label else kept)
        total += w
        for name, decides in (
            ("realised", p > 2.0 / 7.0), ("realised_at_half", p > 0.5), ("always_negative", False), ("always_positive", True),
        ):  # fmt: skip
            sums[name] += w * (cost_fp * (1.0 - label) if decides else cost_fn * label)
        sums["expected"] += w * min((1.0 - p) * cost_fp, p * cost_fn)
    found = cost_figures(past, LOGISTIC, (cost_fp, cost_fn), shift)
    assert (found["examples"], found["threshold"]) == (200, pytest.approx(2.0 / 7.0))
    for name, expected in sums.items():
        assert found[name] == pytest.approx(expected / total, rel=1e-12), name


def test_an_empty_window_has_no_costs() -> None:
    assert cost_figures(np.zeros((PAST, 0)), LOGISTIC, (1.0, 1.0))["realised"] is None
