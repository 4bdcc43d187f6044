"""What is compiled before a request needs it; mostly in separate processes, since every other test compiles too."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from riata.base.errors import Busy
from riata.jit.disk_cache import NotCompiled
from riata.run import warm_up
from riata.run.compilers import Compilers
from riata.wire import parse, read_body
from riata.wire.encoder import EncoderConfig

ROOT = Path(__file__).parents[2]
SCRIPT = """
import sys
import numba
from riata.run.warm_up import warm_up, warm_up_learner
from riata.learn.registry import LearnerConfig
from riata.run.config import read_config
from riata.run.sketch_copy import PathQuestion
from tests.doubles.memory_store import MemoryStore
from tests.run.node import SMALL, events, run_with

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


async def talk(opened):
    batch = opened.parse(events(3)).batch
    for seed in range(12):
        await opened.observe(events(10, seed=seed))
    saved = await opened.admin.snapshot_now("m")
    if kind == "taylor_sketch":
        await opened.service.path("m", PathQuestion(gammas=3))
        await opened.admin.change("m", {"gamma": 0.7})
    await opened.admin.restore("m", saved["generation"])
    from riata.predict.explain import top_weights
    published = opened.service.published("m")
    published.model.score(batch)
    top_weights(published.model.weights, published.model.weight_errors(), 5, "c", opened.service.names("m"))


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
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    late = [line for line in done.stdout.splitlines() if "names_with_prefix" not in line]  # for the rare question by prefix
    assert late == []


APART = """
import sys
from numba.core.dispatcher import Dispatcher
from riata.run import warm_up
warm_up._make_ready(["curves"], None, lambda name: sys.stdout.write(f"{name}\\n"))
ours = [module for module in list(sys.modules.values()) if getattr(module, "__name__", "").startswith("riata.")]
kernels = [one for module in ours for one in vars(module).values() if isinstance(one, Dispatcher)]
sys.stdout.write(f"{sum(sum(k._cache_hits.values()) for k in kernels)} {sum(sum(k._cache_misses.values()) for k in kernels)}\\n")
"""


def test_missing_machine_code_is_compiled_by_another_process_and_found_by_this_one(tmp_path: Path) -> None:
    paths = os.pathsep.join((str(ROOT / "service"), str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", APART], capture_output=True, text=True, timeout=900, check=True, cwd=tmp_path, env=environment
    )
    name, counts = done.stdout.splitlines()
    hits, misses = map(int, counts.split())
    assert name == "curves"
    assert hits > 0
    assert misses == 0
    assert any(tmp_path.rglob("*.nbc"))


def test_a_reader_that_a_start_puts_off_is_refused_until_it_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    readers = dict(warm_up._READERS)
    compiled = readers["vw lines"]
    missing = [True]

    def not_compiled() -> None:
        if missing:
            raise NotCompiled("kernel")
        compiled()

    def compile_all(_self: Compilers, parts: list[str], _tell: object, low_priority: bool) -> None:
        assert (parts, low_priority) == (["vw lines"], True)
        assert sorted(read_body.PUT_OFF) == ["vw"]
        missing.clear()

    monkeypatch.setattr(warm_up, "_READERS", {**readers, "vw lines": not_compiled})
    monkeypatch.setattr(Compilers, "compile", compile_all)
    monkeypatch.setattr(read_body, "PUT_OFF", set())
    compilers, context = Compilers(), parse.Context(EncoderConfig())
    warm_up.warm_up_start(compilers)
    assert parse.parse_examples(b'{"features":{"a":1}}', "application/json", context, False).rows == 1
    with pytest.raises(Busy, match="VW text are being compiled") as caught:
        parse.parse_examples(b"|f a", "text/x-vw", context, False)
    assert caught.value.code == "not_ready"
    warm_up.warm_up_put_off(compilers)
    assert parse.parse_examples(b"|f a", "text/x-vw", context, False).rows == 1


def test_parts_that_are_found_are_left_alone_and_the_others_compiled_apart_and_then_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    started: list[str] = []
    told: list[str] = []

    def missing() -> None:
        ran.append("missing")
        if not started:
            raise NotCompiled("kernel")

    def process(command: list[str], **_: Any) -> Any:
        started.append(command[-1])
        raise OSError(errno.ENOMEM, "no process")  # nor is anybody asked how it ended

    parts = {"found": lambda: ran.append("found"), "missing": missing}
    monkeypatch.setattr(warm_up, "_parts", lambda: parts)
    monkeypatch.setattr(subprocess, "Popen", process)
    warm_up._make_ready(["found", "missing"], None, told.append)
    assert ran == ["found", "missing", "missing"]
    assert started == ["missing"]
    assert told == ["found", "missing"]


def test_an_error_of_a_part_does_not_compile_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(warm_up, "_parts", lambda: {"broken": broken})
    with pytest.raises(ZeroDivisionError):
        warm_up._make_ready(["broken"], None)
