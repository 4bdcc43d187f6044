"""With RIATA_NUMBA_PATCHES=0 nothing of numba is replaced, and the machine code of kernels stays the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMPILE = """
import hashlib, re
import numpy as np
from riata.maths.hashing import hash_name
from riata.maths.philox import philox
from numba.core import entrypoints, environment
from numba.core.codegen import JITCodeLibrary
from numba.core.inline_closurecall import InlineWorker
from numba.core.ir import Loc, Scope
from numba.core.runtime import nrtdynmod

bits = []
bits.append(int(hash_name(np.arange(32, dtype=np.uint8), 3, 17, np.uint64(5), np.uint64(1))))
bits.append(int(philox(np.uint64(3), np.uint64(4), np.uint64(5))[0]))
print(bits)
for kernel in (hash_name, philox):
    for signature, code in sorted(kernel.inspect_asm().items(), key=str):
        lines = [re.sub(r"_Z[\\w$.]+|_ZN[\\w$.]+", "name", line) for line in code.splitlines() if not line.startswith("\\t.")]
        print(kernel.__name__, signature, len(lines), hashlib.sha256("\\n".join(lines).encode()).hexdigest())
replaced = [environment._rebuild_env, InlineWorker.run_untyped_passes, nrtdynmod.compile_nrt_functions, type(hash_name._cache)]
print(*sorted(one.__name__ for one in replaced if one.__module__.startswith("riata")), file=__import__("sys").stderr)
"""


def compiled(folder: Path, patches: str) -> tuple[str, list[str]]:
    """Results of kernels and digests of their machine code; and the replaced parts of numba."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "RIATA_NUMBA_PATCHES": patches}
    done = subprocess.run([sys.executable, "-c", COMPILE], capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr.split()


def test_without_patches_kernels_have_the_same_machine_code(tmp_path: Path) -> None:
    with_patches, replaced = compiled(tmp_path / "with", "1")
    without, still_replaced = compiled(tmp_path / "without", "0")
    assert replaced == ["MachineCode", "_environment", "_once", "_runtime"]
    assert still_replaced == []
    assert with_patches.count("\n") == 4
    assert without == with_patches
    assert compiled_again(tmp_path / "without") == without.splitlines()[0]


def compiled_again(folder: Path) -> str:
    """Results of kernels that numba's own cache has on disk."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "RIATA_NUMBA_PATCHES": "0"}
    look = COMPILE.partition("for kernel in")[0] + "assert sum(hash_name.stats.cache_hits.values()) == 1\n"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
