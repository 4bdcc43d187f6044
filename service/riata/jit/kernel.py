"""The decorators of compiled code.

Machine code is kept for the next start in a folder (`jit.cache_folder`) and loaded when a kernel is called (`jit.disk_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from riata.jit.cache_folder import name_cache_folder
from riata.jit.disk_cache import MachineCode
from riata.jit.numba_import import PATCHED

F = TypeVar("F", bound=Callable[..., Any])

name_cache_folder()


def _compiled(function: F, inline: str, nogil: bool = True) -> F:
    """Compile. The cast keeps the function's own type, so that callers are type-checked."""
    made = numba.njit(nogil=nogil, fastmath=False, inline=inline, cache=not PATCHED)(function)
    if PATCHED and not numba.config.DISABLE_JIT:
        made._cache = MachineCode(made.py_func)  # in place of numba's class for cache=True; without it, each start compiles
    return cast(F, made)


def kernel(function: F) -> F:
    """Compile `function` at its first call, without the GIL, and keep the machine code on disk.

    `fastmath` stays off: results are bit-exact and `isfinite` works.
    """
    return _compiled(function, "never")


def quick_kernel(function: F) -> F:
    """Like `kernel`, but holding the GIL: for a call of a few microseconds in a latency-critical path.

    Releasing the GIL for less time than it takes to wake a thread does not help other threads. Acquiring it again may take
    ten times as long as the call.
    """
    return _compiled(function, "never", nogil=False)


def inline_kernel(function: F) -> F:
    """Like `kernel`, for a leaf function that is only called from other kernels and is inlined into them."""

    return _compiled(function, "always")
