"""The particle filter under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from collections.abc import Callable

LEARN = """
import numpy as np
from riata.learn.particle_filter import ParticleFilter, ParticleFilterConfig
from riata.maths.links import answers
from riata.learn.particle_filter import draw_posterior
from riata.run.state.provenance import fingerprint
from tests.learn.streams import sparse_events, to_batch
from tests.learn.test_particle_filter import stream
from tests.maths.test_metropolis import events_of
from tests.twins.truncated_step import Event

several = ({}, {"intercept": False, "particles": 101}, {"start": 1, "features_max": 1, "particles": 103})
for number, settings in enumerate(several):
    learner = ParticleFilter(ParticleFilterConfig(**{"features_max": 32, "particles": 200, "start": 40, **settings}), 8)
    learner.step(to_batch(sparse_events(80, seed=number, features=24)))
    learner.step(to_batch([Event([], 1.0), Event([(1, 1e300), (2, 1e300)], 1.0), Event([(1, 900.0)], 0.0)]))
    learner.step(to_batch([Event([(j, 0.1) for j in range(1, 200)], 1.0)]))
    other = ParticleFilter(learner.config, 8)
    other.thaw(learner.freeze())
    other.step(to_batch(stream(30, np.ones(2))))
    other.weights()
for n in (1, 7, 8, 9, 63, 64, 65):
    for d in (1, 3):
        draw_posterior(events_of(n, d, importance=True), np.ones(d), (1, 2), np.empty((d, n)))
    for link in range(5):
        answers(np.linspace(-800.0, 800.0, n), link, 0.0, np.empty(n), np.empty(n))
fingerprint()
print("learnt", number + 1)
"""


def test_the_filter_touches_nothing_outside_its_arrays_and_does_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(LEARN) == "learnt 3\n"
