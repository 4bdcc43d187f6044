"""The suite notices mistakes: each mutant of a copy of the package makes a test fail, and without it none of them does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.mutants.mutants import ALL, QUICK, Mutant

ROOT = Path(__file__).parents[2]
FAILED, PASSED = 1, 0  # exit codes of pytest; others mean that the tests did not run


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the package and of the native core in it, which is built there."""
    folder = tmp_path_factory.mktemp("mutants")
    for name in ("riata", "native"):
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.built")
        shutil.copytree(ROOT / "service" / name, folder / name, ignore=ignored)
    build(folder)
    return folder


def build(package: Path) -> None:
    """Build the native core of a folder."""
    command = [sys.executable, str(package / "native" / "build.py"), "--variants", "baseline"]
    subprocess.run(command, capture_output=True, check=True, timeout=900)


def run(package: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests on the package of a folder, up to the first failure."""
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_ADDOPTS", None)
    options = ["-x", "-q", "-n", "0", "-m", "not slow", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
    options += ["-o", f"pythonpath={package} {ROOT}"]
    command = [sys.executable, "-m", "pytest", *options, *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)


def noticed(package: Path, mutant: Mutant) -> subprocess.CompletedProcess[str]:
    """Run the tests of a mutant with it in place."""
    file = package / mutant.file
    sound = file.read_text(encoding="utf-8")
    assert sound.count(mutant.old) == 1, f"{mutant.file}: {mutant.old!r} is there {sound.count(mutant.old)} times"
    file.write_text(sound.replace(mutant.old, mutant.new), encoding="utf-8")
    try:
        if file.suffix != ".py":
            build(package)
        return run(package, mutant.tests)
    finally:
        file.write_text(sound, encoding="utf-8")
        if file.suffix != ".py":
            build(package)


def name_of(mutant: Mutant) -> str:
    return f"{mutant.file}: {mutant.new.strip()}"


@pytest.mark.parametrize("mutant", QUICK, ids=name_of)
def test_a_mutant_is_noticed(copied: Path, mutant: Mutant) -> None:
    done = noticed(copied, mutant)
    assert (done.returncode, "1 failed" in done.stdout) == (FAILED, True), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [one for one in ALL if one not in QUICK], ids=name_of)
def test_each_other_mutant_is_noticed(copied: Path, mutant: Mutant) -> None:
    done = noticed(copied, mutant)
    assert (done.returncode, "1 failed" in done.stdout) == (FAILED, True), done.stdout + done.stderr


@pytest.mark.slow
def test_without_a_mutant_the_same_tests_pass(copied: Path) -> None:
    done = run(copied, sorted({test for one in ALL for test in one.tests}))
    assert done.returncode == PASSED, done.stdout + done.stderr
