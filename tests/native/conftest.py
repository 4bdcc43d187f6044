"""The native core under sanitizers, built once for all tests of this folder."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.test_safety import built, run


@pytest.fixture(scope="session")
def sanitised(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Runs Python code with a library under both sanitizers; what they find ends the process."""
    runtime = subprocess.run(["cc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=False).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("this compiler has no AddressSanitizer")
    flags = "-fsanitize=address,undefined -fno-sanitize-recover=all -g -O1"
    library = built(tmp_path_factory.mktemp("sanitised"), f"--flags={flags}")
    about = {"LD_PRELOAD": runtime, "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "halt_on_error=1"}
    return lambda code: run(code, library, **about)
