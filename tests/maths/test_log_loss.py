from __future__ import annotations

import numpy as np

from riata.maths.links import log_losses
from tests.twins import log_loss as twin


def test_log_losses_equal_their_twin() -> None:
    rng = np.random.default_rng(3)
    edges = [-np.inf, -1e308, -40.0, -0.0, 0.3, 36.0, 1e308, np.inf, np.nan]
    margin = np.concatenate((np.repeat(edges, 4), rng.normal(size=200) * 10))
    label = np.tile([0.0, 1.0], len(margin) // 2)
    refused, weight = rng.random(len(margin)) < 0.1, rng.random(len(margin)) * 3
    found, expected = log_losses(margin, refused, label, weight), np.empty(len(margin))
    twin.log_losses(margin, refused, label, weight, expected)
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-15)
    assert 30.0 < (found / weight).max() < 34.6  # an impossible label has a loss, and it is bounded
