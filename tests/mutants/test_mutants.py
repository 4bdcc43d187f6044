"""The suite notices mistakes: each mutant of a copy of the package makes a test fail, and without it none of them does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from riata.native.sources import VARIANT
from tests.mutants.mutants import FRONT, NATIVE, QUICK, Mutant

ROOT = Path(__file__).parents[2]
FAILED, PASSED = 1, 0  # exit codes of pytest; others mean that the tests did not run


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package and of the sources of its native core."""
    folder = tmp_path_factory.mktemp("mutants")
    for name in ("riata", "native"):
        shutil.copytree(ROOT / "service" / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(package: Path, tests: Iterable[str], interpreted: bool) -> subprocess.CompletedProcess[str]:
    """Run tests on the package of a folder, up to the first failure."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    environment |= {"NUMBA_DISABLE_JIT": "1"} if interpreted else {}
    environment |= {VARIANT: "baseline"}
    options = ["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-o", f"pythonpath={package} {ROOT}", "--hypothesis-seed=0"]
    options += ["-W", "ignore::RuntimeWarning"]  # numpy's numbers say when they overflow, and compiled code does not
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


def noticed(package: Path, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    """Run the tests of a mutant with it in place."""
    file = package / "riata" / mutant.file
    sound = file.read_text(encoding="utf-8")
    assert sound.count(mutant.old) == 1, f"{mutant.file}: {mutant.old!r} is there {sound.count(mutant.old)} times"
    file.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        return run(package, mutant.tests, mutant.interpreted)
    finally:
        file.write_text(sound, encoding="utf-8")


def noticed_in_core(package: Path, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    """Run the tests of a mutant of the native core with it built in."""
    file = package / mutant.file
    sound = file.read_text(encoding="utf-8")
    assert sound.count(mutant.old) == 1, f"{mutant.file}: {mutant.old!r} is there {sound.count(mutant.old)} times"
    build = [sys.executable, str(package / "native" / "build.py"), "--variants", "baseline"]
    try:
        file.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
        subprocess.run(build, check=True, capture_output=True, timeout=900)
        return run(package, mutant.tests, False)
    finally:
        file.write_text(sound, encoding="utf-8")
        subprocess.run(build, check=True, capture_output=True, timeout=900)


def name_of(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.new.strip()}"


@pytest.mark.parametrize("mutant", QUICK, ids=name_of)
def test_a_mutant_is_noticed(copied: Path, mutant: Mutant) -> None:
    done = noticed(copied, mutant)
    assert (done.returncode, "1 failed" in done.stdout) == (FAILED, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in FRONT if one not in QUICK], ids=name_of)
def test_each_other_mutant_is_noticed(copied: Path, mutant: Mutant) -> None:
    done = noticed(copied, mutant)
    assert (done.returncode, "1 failed" in done.stdout) == (FAILED, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", NATIVE, ids=name_of)
def test_each_mutant_of_the_core_is_noticed(copied: Path, mutant: Mutant) -> None:
    done = noticed_in_core(copied, mutant)
    assert (done.returncode, "1 failed" in done.stdout) == (FAILED, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("interpreted", [True, False])
def test_without_a_mutant_the_same_tests_pass(copied: Path, interpreted: bool) -> None:
    several = FRONT if interpreted else (*FRONT, *NATIVE)
    tests = sorted({test for one in several if one.interpreted is interpreted or one in NATIVE for test in one.tests})
    done = run(copied, tests, interpreted)
    assert done.returncode == PASSED, done.stdout + done.stderr
