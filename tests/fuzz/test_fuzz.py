"""A minute of coverage-guided fuzzing for each target, in a separate process; what it finds becomes a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.fuzz.run import ROOT, TARGETS

SECONDS = 60
START_S_MAX = 300  # kernels may have to be compiled


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 2 * START_S_MAX)
@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris, which there is for Linux only")
@pytest.mark.parametrize("target", TARGETS)
def test_a_minute_of_fuzzing_finds_nothing(target: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, "-m", "tests.fuzz.run", target, "--seconds", str(SECONDS), "--found", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS + START_S_MAX, check=False)
    said = run.stderr.decode(errors="replace")
    assert run.returncode == 0, f"{said[-6000:]}\nfound: {sorted(path.name for path in tmp_path.iterdir())}"
    assert "stat::number_of_executed_units" in said
