"""What is compiled before anybody waits. In a process of its own, since every other test compiles too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import numba
from riata.run.warm_up import warm_up, warm_up_learner
from riata.learn.registry import LearnerConfig
from riata.run.config import read_config
from riata.run.looking import PathQuestion
from riata.store.memory import MemoryStore
from tests.run.house import SMALL, events, run_with

LEARNERS = {
    "truncated_gradient": [{}],
    "ftrl_proximal": [{}],
    "taylor_sketch": [
        {"mode": "hybrid", "k": 3, "block": 10, "rounds": 1, "shadow": [0.1]},
        {"mode": "strict", "k": 3, "block": 10, "rounds": 1, "link": "probit", "warm_up": 20},
        {"mode": "diag", "block": 1, "rho": 0.99},
        {"mode": "exact", "features_max": 3, "block": 3, "reexpand": 10, "beyond": "hybrid", "burn_in": 20},
        {"mode": "exact", "block": 3, "warm_up": 16, "gamma_of": [{"feature": "size", "gamma": 0.0}]},
    ],
}


def compiled():
    found = set()
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("riata."):
            for kernel in vars(module).values():
                if isinstance(kernel, numba.core.dispatcher.Dispatcher):
                    found |= {(kernel.py_func.__module__, kernel.py_func.__name__, signature) for signature in kernel.signatures}
    return found


async def talk(house):
    batch = house.parse(events(3)).batch
    for seed in range(12):
        await house.observe(events(10, seed=seed))
    saved = await house.admin.snapshot_now("m")
    if kind == "taylor_sketch":
        await house.service.path("m", PathQuestion(gammas=3))
        await house.admin.change("m", {"gamma": 0.7})
    await house.admin.restore("m", saved["generation"])
    from riata.predict.explain import top_weights
    from riata.predict.scoring import score
    published = house.service.published("m")
    score(published.model, batch)
    top_weights(published.model, 5, "c", house.service.names("m"))


kind = sys.argv[1]
warm_up()
warm_up_learner(read_config({}).learner)
warm_up_learner(read_config({"learner": {"kind": kind}}).learner)
before = compiled()
for settings in LEARNERS[kind]:
    run_with(MemoryStore(), talk, {**SMALL, "learner": {"kind": kind, **settings}})
for one in sorted(map(str, compiled() - before)):
    sys.stdout.write(f"{one}\\n")
"""


@pytest.mark.parametrize("kind", ["truncated_gradient", "taylor_sketch", "ftrl_proximal"])
def test_after_the_warm_up_of_a_learner_nothing_that_it_ever_does_has_to_be_compiled(kind: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, "-c", SCRIPT, kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    late = [line for line in done.stdout.splitlines() if "names_with_prefix" not in line]  # for the rare question by prefix
    assert late == []
