"""Machine code is never older than the sources it was made from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "service"
LOOK = "import numba; import riata.maths.kernel; print(numba.config.CACHE_DIR)"


def cache_folder(root: Path, environment: dict[str, str] | None = None) -> str:
    outside = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**outside, "PYTHONPATH": str(root), **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_the_folder_of_machine_code_changes_with_any_file_that_may_hold_a_kernel(tmp_path: Path) -> None:
    root = tmp_path / "service"
    shutil.copytree(PACKAGE / "riata", root / "riata", ignore=shutil.ignore_patterns("__pycache__"))
    before = cache_folder(root)
    assert Path(before).is_relative_to(root)
    assert cache_folder(root) == before
    changed = root / "riata" / "wire" / "codes.py"  # holds no kernel, but numbers that kernels are compiled with
    changed.write_text(changed.read_text() + "\n")
    assert cache_folder(root) != before


def test_the_operator_may_say_where_machine_code_goes(tmp_path: Path) -> None:
    assert cache_folder(PACKAGE, {"NUMBA_CACHE_DIR": str(tmp_path)}) == str(tmp_path)
