"""Kernels give the same results without the compiler: their tests run once more as plain Python, in smaller sizes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = [
    *(f"tests/jit/test_{name}.py" for name in ("address", "bytes8", "f64x8", "fma", "rank", "u64x8")),
    *(f"tests/maths/test_{name}.py" for name in ("dot", "hashing", "links", "losses", "slots", "truncation")),
    *(f"tests/learn/test_{name}.py" for name in ("slot_list", "truncated_row")),
    "tests/learn/test_ftrl_proximal.py::test_learner_equals_its_twin",
    "tests/learn/test_truncated_step.py",
    "tests/predict/test_uncertainty.py",
]
LONG = [  # minutes without the compiler
    "tests/maths/test_hashing.py::test_slots_of_many_names_spread_evenly",
]


@pytest.mark.slow
def test_kernels_pass_their_tests_without_the_compiler() -> None:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    quiet = "ignore::RuntimeWarning"  # numpy's numbers say when they overflow, and compiled code does not
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "--hypothesis-profile=interpreted", "-W", quiet]
    options += [f"--deselect={test}" for test in LONG]
    command = [sys.executable, "-m", "pytest", *options, *TESTS]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
