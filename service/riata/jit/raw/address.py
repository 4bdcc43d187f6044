"""Arrays by memory address, for a kernel that is called so often that passing arrays costs more than its work.

numba unpacks every array that is passed to a kernel, which takes a tenth of a microsecond each. An integer takes a tenth of
that. The caller of such a kernel keeps the array alive until the kernel has returned, and passes its true length.

With many arrays, even reading each address in Python takes longer than a kernel that finds it. `held_by` reads the address from
the array object, whose first words are fixed by numpy's C interface. If their layout differs, importing this module fails.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from riata.jit.kernel import inline_kernel

_DATA, _LENGTHS, _STRIDES, _WORDS = 2, 4, 5, 6  # words of an array object: two of any object, data, nd, dimensions, strides
_PROBE: Final = np.zeros((3, 2))[:, 1]


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


# array_at(address, shape, dtype): a writable view of the array at an address; it owns nothing (see `jit.raw.unowned`).
array_at = _slow_array if numba.config.DISABLE_JIT else _fast_array


@inline_kernel
def held_by(array_id: int) -> tuple[int, int, int]:
    """Address, length and stride in bytes of an array of one dimension.

    Parameters
    ----------
    array_id : int         `id` of a numpy array, which the caller keeps alive

    Source                 PyArrayObject_fields in numpy/ndarraytypes.h
    """
    words = array_at(array_id, (_WORDS,), np.int64)
    length, stride = array_at(words[_LENGTHS], (1,), np.int64), array_at(words[_STRIDES], (1,), np.int64)
    return words[_DATA], length[0], stride[0]


def _found(array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """The same as `held_by`, without compiling it."""
    words = _slow_array(id(array), (_WORDS,), np.int64)
    return (int(words[_DATA]), *(int(_slow_array(words[at], (1,), np.int64)[0]) for at in (_LENGTHS, _STRIDES)))


if _found(_PROBE) != (_PROBE.ctypes.data, *_PROBE.shape, *_PROBE.strides):
    raise ImportError("this version of numpy lays out its arrays in another way")
