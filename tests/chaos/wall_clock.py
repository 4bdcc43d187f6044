"""A private wall clock for a process, which jumps on request; the monotonic clock does not."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest


class WallClock:
    """Compiles `wall_clock.c`; skips the test if there is no compiler."""

    def __init__(self, directory: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None:
            pytest.skip("there is no C compiler to make another clock with")
        library, self._file = directory / "wall_clock.so", directory / "wall_clock.offset"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
        self.environment = {"LD_PRELOAD": str(library), "WALL_CLOCK_OFFSET": str(self._file)}
        self.set(0)

    def set(self, offset_s: int) -> None:
        """Set the offset in seconds from now on."""
        temporary = self._file.with_suffix(".new")
        temporary.write_text(str(offset_s))
        temporary.replace(self._file)
