from __future__ import annotations

import numpy as np

from riata.learn.registry import build_learner
from riata.learn.taylor_sketch.learner import TaylorSketchConfig
from tests.bench.limits import full_shooting
from tests.bench.sketch_speed import dense_rows, sparse_rows


def test_the_yardstick_learns_the_same_weights() -> None:
    d, n = 8, 60
    config = TaylorSketchConfig(
        mode="exact", block=1, gamma=1.0, gamma_intercept=1.0, features_max=d, prior_curvature=0.0, tolerance=1e-9,
        sweeps_max=10_000, warm_up=0, standardised=False,
    )  # fmt: skip
    batch = next(dense_rows(d, n))
    learner = build_learner(config, 18, 0)
    learner.step(batch)
    x = np.ones((n, d))
    x[:, 1:] = batch.value.reshape(n, d - 1)
    beta = np.zeros(d)
    arrays = (np.zeros((d, d)), np.zeros(d), np.zeros(d), beta, np.ones(d))
    moves = full_shooting(arrays, x, batch.label, (config.curvature_floor, 1e-9))
    weights, sketch = learner.weights(), learner.sketch()
    assert moves > n
    assert sketch is not None
    np.testing.assert_allclose(sketch.beta, beta, rtol=0, atol=1e-7)
    assert len(weights.slot) == np.count_nonzero(beta[1:]) > 2


def test_sparse_rows_are_of_unit_length_and_favour_few_features() -> None:
    batch = next(sparse_rows(50))
    squares = np.add.reduceat(batch.value**2, batch.indptr[:-1])
    np.testing.assert_allclose(squares, 1.0, atol=1e-12)
    assert len(np.unique(batch.hash)) < batch.nnz / 2
    assert all(
        bool((np.diff(batch.hash[a:b].astype(np.int64)) > 0).all()) for a, b in zip(batch.indptr, batch.indptr[1:], strict=False)
    )
