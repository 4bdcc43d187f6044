"""The Taylor sketch, its block, rank updates and Shooting under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from collections.abc import Callable

LEARN = """
import numpy as np
from riata.learn.taylor_config import TaylorSketchConfig
from riata.learn.taylor_sketch import TaylorSketch
from riata.maths.shooting import Quadratic, shoot, shoot_active
from tests.learn.streams import sparse_events, to_batch
from tests.learn.test_taylor_sketch import FEW_BITS, OF_THE_CONTRACT, SHORT_ONES
from tests.maths.test_rank_update import some_rows, start_with, update

for number, settings in enumerate(OF_THE_CONTRACT.values()):
    config = TaylorSketchConfig(**{**SHORT_ONES, **settings})
    learner = TaylorSketch(config, FEW_BITS)
    for seed in range(2):
        learner.step(to_batch(sparse_events(60, seed=seed, spread=0.5, longest=1 + 7 * seed)))
    learner.adjust(TaylorSketchConfig(**{**SHORT_ONES, **settings, "gamma": 0.7}))
    learner.forget(0.5)
    other = TaylorSketch(config, FEW_BITS)
    other.thaw(learner.freeze())
    assert other.sketch() is not None
rng = np.random.default_rng(3)
for size in (1, 7, 8, 9, 63, 64, 65, 150):
    for density in (0.0, 0.05, 0.6, 1.0):
        for n in (0, 1, 8, 63):
            update(start_with(size, size, n), size, some_rows(size, n, density, n), True)
    x = rng.standard_normal((2 * size, size))
    curvature, theta = np.square(x).sum(0), x.T @ rng.standard_normal(2 * size)
    for share in (0.0, 0.4, 2.0):
        gamma = np.full(size, share * np.abs(theta).max())
        given = [np.zeros(size), theta.copy(), curvature, gamma, np.ascontiguousarray(x.T @ x)]
        shoot_active(Quadratic(*given), 1e-6, 50, False)
        shoot(Quadratic(*given), 1e-6, 50)
print("learnt", number + 1)
"""


def test_the_sketch_touches_nothing_outside_its_arrays_and_does_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(LEARN) == "learnt 17\n"
