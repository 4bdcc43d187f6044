"""Computations that would take hours end soon after another thread asks them to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from riata.base.halt import Halt, Halted, halting, lent, require_wanted
from riata.learn.particle_filter import ParticleFilterConfig
from riata.learn.registry import LearnerConfig, build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from riata.predict.uncertainty import regularisation_path
from riata.wire.batch import Batch

LONG_S = 900.0  # far less than any of these computations takes


def hard(warm_up: int = 0, block: int = 1, reexpand: int = 0, standardised: bool = False, shadow: tuple[float, ...] = ()) -> Any:
    return TaylorSketchConfig(
        mode="exact", warm_up=warm_up, block=block, reexpand=reexpand, standardised=standardised, shadow=shadow, sweeps_max=10**6,
        tolerance=1e-300,
    )  # fmt: skip


def rows(n: int, features: int) -> Batch:
    """Rows in which every feature occurs."""
    rng = np.random.default_rng(3)
    return Batch(
        indptr=np.arange(0, (n + 1) * features, features, dtype=np.int64),
        hash=np.tile(np.sort(rng.integers(0, 2**32, features, dtype=np.uint32)), n),
        value=rng.normal(size=n * features),
        label=(rng.random(n) < 0.5).astype(np.float64),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), np.uint8),
        has_id=np.zeros(n, np.bool_),
    )


def halted(work: Callable[[], object], after_s: float = 0.5, paused: bool = False) -> bool:
    """Whether `work` ends once it is halted."""
    halt, ends = Halt(), list[str]()
    halt.pause(paused)

    def run() -> None:
        try:
            with halting(halt):
                work()
        except Halted:
            ends.append("halted")
        else:
            ends.append("finished")

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(after_s)
    assert not ends
    halt.set()
    thread.join(LONG_S)
    return ends == ["halted"]


CASES: list[tuple[str, LearnerConfig, Batch]] = [
    ("solve", hard(), rows(17, 400)),
    ("shadows", hard(shadow=(0.1, 0.3)), rows(17, 400)),
    ("warm-up", hard(warm_up=64), rows(64, 700)),
    ("again", hard(reexpand=32, block=10**6), rows(64, 700)),
    ("first rows", hard(standardised=True), rows(17, 400)),
    ("chain", ParticleFilterConfig(particles=10**6, features_max=8), rows(40, 8)),
    ("rows", ParticleFilterConfig(particles=10**6, features_max=8, start=1), rows(2000, 8)),
]


@pytest.mark.parametrize(("config", "batch"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_step_is_halted(config: LearnerConfig, batch: Batch) -> None:
    learner = build_learner(config, 18)
    for paused in (False, True):
        assert halted(lambda: learner.step(batch), paused=paused)  # noqa: B023  called in this round
        learner = build_learner(config, 18)


def test_a_step_that_is_paused_waits_and_goes_on_to_the_same_bits() -> None:
    config, batch = TaylorSketchConfig(mode="exact", warm_up=0, block=1), rows(300, 200)
    expected, learner, halt = build_learner(config, 18), build_learner(config, 18), Halt()
    expected.step(batch)
    ended = threading.Event()

    def step() -> None:
        with halting(halt):
            learner.step(batch)
        ended.set()

    halt.pause(True)
    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    assert not ended.wait(0.5)
    halt.pause(False)
    assert ended.wait(LONG_S)
    for name, array in expected.freeze().items():
        assert array.tobytes() == learner.freeze()[name].tobytes()


def test_another_penalty_and_forgetting_are_halted() -> None:
    for change in ("adjust", "forget"):
        config = hard(block=10**6)
        learner = build_learner(config, 18)
        learner.step(rows(300, 700))
        change_it = getattr(learner, change)
        assert halted(lambda: change_it(config if change == "adjust" else 0.5))  # noqa: B023  called in this round


def test_a_path_is_halted() -> None:
    learner = build_learner(TaylorSketchConfig(mode="exact", warm_up=0, standardised=False, block=10**6, gamma=0.0), 18)
    learner.step(rows(300, 1500))
    sketch = learner.sketch()
    assert sketch is not None
    assert halted(lambda: regularisation_path(sketch, 1000))


def test_what_is_not_wanted_does_not_begin_and_without_a_halt_everything_is_wanted() -> None:
    halt = Halt()
    halt.set()
    with halting(halt), pytest.raises(Halted):
        require_wanted()
    with halting(halt), pytest.raises(Halted), lent(flag := np.zeros(1, np.int64)):
        assert flag[0] == 1
    require_wanted()
    with lent(flag):
        pass
    with halting(Halt()), lent(flag):
        assert flag[0] == 0  # what an earlier one has left


def test_a_learner_that_may_be_halted_learns_the_same_bits() -> None:
    for config in (TaylorSketchConfig(mode="exact"), ParticleFilterConfig(particles=300, features_max=8)):
        one, other = build_learner(config, 18), build_learner(config, 18)
        one.step(rows(100, 8))
        with halting(Halt()):
            other.step(rows(100, 8))
        left, right = one.freeze(), other.freeze()
        assert left.keys() == right.keys()
        assert all(np.array_equal(left[name], right[name]) for name in left)
