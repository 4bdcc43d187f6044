"""`limits.c`, built with the C compiler of this machine and the flags of the native core, and loaded."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from riata.base.arrays import F64, I64, U32
from riata.native.library import address
from tests.running import ROOT

NATIVE = ROOT / "service" / "native"
FLAGS = ("-std=c17", "-O2", "-fPIC", "-shared", "-ffp-contract=off", "-fwrapv", "-fno-strict-aliasing", "-march=native")


@cache
def library() -> Any:
    """Build and load. Raises `subprocess.CalledProcessError` without a compiler."""
    folder = Path(tempfile.mkdtemp(prefix="riata-limits-"))
    made = folder / "limits.so"
    source = Path(__file__).with_name("limits.c")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *FLAGS, f"-I{NATIVE}", "-o", str(made), str(source), "-lm"], check=True)
    loaded: Any = ctypes.CDLL(str(made))
    for name in ("descend", "wait_for_each"):
        getattr(loaded, name).restype = ctypes.c_int64
    return loaded


def _at(array: Any) -> ctypes.c_void_p:
    assert array.flags.c_contiguous
    return ctypes.c_void_p(address(array))


def touch(line: F64, hashes: U32, shift: int) -> None:
    """Add 1 to the first number of the line of every hash, each prefetched."""
    width, n = ctypes.c_int64(line.shape[1]), ctypes.c_int64(len(hashes))
    library().touch(_at(line), width, _at(hashes), n, ctypes.c_int64(shift))


def descend(line: F64, batch: tuple[I64, U32, F64, F64], shift: int) -> int:
    """The plain gradient step of the logistic loss over all rows: indptr, hash, value, label. Returns the features."""
    sizes = (ctypes.c_int64(len(batch[3])), ctypes.c_int64(shift))
    done: int = library().descend(_at(line), ctypes.c_int64(line.shape[1]), *map(_at, batch), *sizes)
    return done


def wait(value: F64, ends: I64, label: F64, adaptive: bool) -> tuple[int, float]:
    """Only the chain of dependencies of every row. Returns the features, and the last result."""
    moved = np.zeros(1)
    rows, is_adaptive = ctypes.c_int64(len(label)), ctypes.c_bool(adaptive)
    done: int = library().wait_for_each(_at(value), _at(ends), _at(label), rows, is_adaptive, _at(moved))
    return done, float(moved[0])
