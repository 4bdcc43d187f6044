"""Memory by its address, for a kernel that is called so often that handing over arrays costs more than its work.

numba takes every array that is passed to a kernel apart, and that is a tenth of a microsecond for each; a whole number is a
tenth of that. Whoever passes an address keeps the array alive until the kernel has returned, and says its length truly.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.maths.kernel import inline_kernel


def _slow_array(address: int, shape: tuple[int, ...], kind: Any) -> Any:
    count = int(np.prod(shape)) * np.dtype(kind).itemsize
    return np.ndarray(shape, kind, buffer=(ctypes.c_uint8 * count).from_address(int(address)))


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_typing_context: Any, _address: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), codegen


@inline_kernel
def _fast_array(address: int, shape: tuple[int, ...], kind: Any) -> Any:
    """See `array_at`. Source: `numba.carray`."""
    return numba.carray(_pointer(address), shape, kind)


# The array of a shape and a kind of number at an address; written through, and borrowed (`maths.borrow`).
array_at = _slow_array if numba.config.DISABLE_JIT else _fast_array
