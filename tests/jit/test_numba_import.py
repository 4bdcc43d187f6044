"""numba comes without what nothing here needs, and types arrays as it does by itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
{first}
import riata.jit
import sys
import numpy as np
from numba import typeof
from numba.core import entrypoints
names = ("yaml", "scipy", "numpy.ma", "importlib.metadata")
still = np.zeros((2, 3), np.uint8)
still.flags.writeable = False
plain = np.zeros((4, 4), order="F")
for array in (np.zeros(3, np.uint32), still, plain, plain[::2], np.zeros(2, bool), np.zeros((2, 0, 2))):
    print(typeof(array))
entrypoints.init_all()
print(*(name for name in names if sys.modules.get(name)))
try:
    typeof(np.zeros(2, np.longdouble))
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("first", ["", "import numba"])
def test_arrays_have_the_types_that_numba_gives_them_and_what_is_not_needed_stays_away(first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK.format(first=first)], capture_output=True, text=True, timeout=900, check=True
    )
    *types, loaded, refused = done.stdout.split("\n")[:-1]
    assert refused == "Unsupported array dtype: float128"
    assert types == [
        "array(uint32, 1d, C)",
        "readonly array(uint8, 2d, C)",
        "array(float64, 2d, F)",
        "array(float64, 2d, A)",
        "array(bool, 1d, C)",
        "array(float64, 3d, C)",
    ]
    assert ("numpy.ma" in loaded) == bool(first)
    assert "yaml" not in loaded or first
    assert "importlib.metadata" not in loaded or first
