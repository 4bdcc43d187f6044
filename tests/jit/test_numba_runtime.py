"""numba's runtime is compiled once, found after that, and compiled again where what is on the disk is not the whole of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COUNT = """
import numpy as np
import riata.jit
from numba.core.runtime import nrtdynmod
compiled = []
make = nrtdynmod.create_nrt_module
nrtdynmod.create_nrt_module = lambda context: compiled.append(1) or make(context)
import numba

@numba.njit
def same(array):
    return array  # counts a reference

print(len(compiled), same(np.arange(3)).tolist(), len(compiled))
"""


def said(folder: str) -> str:
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    command = [sys.executable, "-c", COUNT]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=True, env=environment).stdout.strip()


def test_the_runtime_is_found_after_it_was_compiled_once(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    assert said(str(folder)) == "0 [0, 1, 2] 1"
    (kept,) = folder.glob("runtime-*")
    assert said(str(folder)) == "0 [0, 1, 2] 0"
    content = kept.read_bytes()
    for damaged in (b"", content[:-1], content[:-1] + bytes([content[-1] ^ 1])):
        kept.write_bytes(damaged)
        assert said(str(folder)) == "0 [0, 1, 2] 1"
        assert kept.read_bytes() == content
    assert [file.name for file in folder.iterdir() if file.is_file()] == [kept.name]


def test_code_that_cannot_be_stored_is_compiled(tmp_path: Path) -> None:
    no_folder = tmp_path / "file"
    no_folder.write_bytes(b"")
    assert said(str(no_folder)) == "0 [0, 1, 2] 1"
