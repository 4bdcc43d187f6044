"""A minute of coverage-guided fuzzing for each target, in a separate process; what it finds becomes a seed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from riata.native.sources import VARIANT
from tests.fuzz.run import ROOT, TARGETS
from tests.native.test_safety import built

SECONDS = 60
START_S_MAX = 300


COVERAGE = ROOT / "tests" / "fuzz" / "coverage.h"
FLAGS = f"-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all -fsanitize-coverage=trace-pc -include {COVERAGE}"


@pytest.fixture(scope="session")
def watched_core(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which the native core tells what it covers, under the sanitizers; empty without gcc."""
    if shutil.which("gcc") is None:
        return {}
    found = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    runtime = found.stdout.strip()
    if not Path(runtime).is_absolute():
        return {}
    library = built(tmp_path_factory.mktemp("watched"), "--compiler=gcc", f"--flags={FLAGS}")
    about = {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
    return {**about, VARIANT: str(library)}


@pytest.mark.slow
@pytest.mark.timeout(SECONDS + 2 * START_S_MAX)
@pytest.mark.skipif(find_spec("atheris") is None, reason="needs atheris, which there is for Linux only")
@pytest.mark.parametrize("target", TARGETS)
def test_a_minute_of_fuzzing_finds_nothing(target: str, tmp_path: Path, watched_core: dict[str, str]) -> None:
    environment = {**os.environ, **watched_core, "PYTHONPATH": os.pathsep.join((str(ROOT / "service"), str(ROOT)))}
    command = [sys.executable, "-m", "tests.fuzz.run", target, "--seconds", str(SECONDS), "--found", str(tmp_path)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=SECONDS + START_S_MAX, check=False)
    said = run.stderr.decode(errors="replace")
    assert run.returncode == 0, f"{said[-6000:]}\nfound: {sorted(path.name for path in tmp_path.iterdir())}"
    assert "stat::number_of_executed_units" in said
    assert f"the native core is watched: {bool(watched_core)}" in said
