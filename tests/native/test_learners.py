"""The learners under AddressSanitizer and UndefinedBehaviorSanitizer, and the same bits in every variant of the core."""

from __future__ import annotations

from collections.abc import Callable

from riata.native.library import PATH
from riata.native.sources import variants
from tests.native.test_safety import run

LEARN = """
import hashlib
import numpy as np
from riata.learn.registry import build_learner
from riata.run.state.config import read_config
from tests.learn.streams import sparse_events, to_batch
from tests.twins.truncated_step import Event
from tests.predict.rows import model_of

GRADIENT = {"kind": "truncated_gradient"}
CONFIGS = [
    GRADIENT,
    {**GRADIENT, "gravity": 1e-3, "period": 7, "rule": "round", "ceiling": 0.01},
    {**GRADIENT, "mixed": False},
    {**GRADIENT, "normalised": False},
    {**GRADIENT, "rate": "constant", "normalised": False, "gravity": 1e-3},
    {**GRADIENT, "rate": "constant", "normalised": False, "rule": "subgradient", "eta": 0.01},
    {**GRADIENT, "normalised": False, "grid": True, "rule": "round", "ceiling": 0.01},
    {"kind": "ftrl_proximal", "standardised": False},
]
found = hashlib.blake2b()
for config in CONFIGS:
    for bits in (4, 16):
        learner = build_learner(read_config({"learner": config}).learner, bits)
        for n, longest in ((1, 1), (9, 7), (5, 8), (7, 9), (60, 65), (300, 5)):
            batch = to_batch(sparse_events(n, n, 3000, spread=0.5, longest=longest))
            found.update(learner.step_all([batch, batch], np.arange(2 * n) % 5 == 3).margin.tobytes())
            scores = model_of(learner.weights()).score(batch)
            found.update(scores.margin.tobytes() + scores.known.tobytes())
        found.update(learner.weights().beta.tobytes())
        learner.thaw(learner.freeze())
        for array in learner.freeze().values():
            found.update(np.asarray(array).tobytes())
rng = np.random.default_rng(1)
drawn = rng.normal(size=(700, 4))
rows = [Event([(at << 28, float(x)) for at, x in enumerate(row) if x > -1.5], float(row[0] * row[2] > 0.0)) for row in drawn]
learner = build_learner(read_config({"learner": GRADIENT}).learner, 16)
found.update(learner.step(to_batch(rows)).margin.tobytes() + learner.weights().shapes.value.tobytes())
assert len(learner.weights().shapes.pair)
print(found.hexdigest())
"""


def test_learners_touch_nothing_outside_their_arrays_and_do_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(LEARN) == run(LEARN, PATH)


def test_learners_have_the_same_bits_in_every_variant() -> None:
    assert len({run(LEARN, PATH.with_name(f"libriata-{variant}.so")) for variant in variants()}) == 1
