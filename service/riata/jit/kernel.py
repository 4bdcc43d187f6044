"""The decorators of compiled code.

What they make waits for the next start in a folder of its own (`jit.cache_folder`), from where it is loaded when it is called
(`jit.disk_cache`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from riata.jit.cache_folder import name_cache_folder
from riata.jit.disk_cache import MachineCode

F = TypeVar("F", bound=Callable[..., Any])

name_cache_folder()


def _compiled(function: F, inline: str, nogil: bool = True) -> F:
    """Decorate; the cast gives the function its own type back, so that callers are checked as if nothing had happened."""
    made = numba.njit(nogil=nogil, fastmath=False, inline=inline)(function)
    if not numba.config.DISABLE_JIT:
        made._cache = MachineCode(made.py_func)  # cache=True sets it to numba's own class; without, each start would compile
    return cast(F, made)


def kernel(function: F) -> F:
    """Compile `function` at its first call, without the GIL, and keep the machine code on disk.

    `fastmath` stays off: results are bit-exact and `isfinite` means what it says.
    """
    return _compiled(function, "never")


def quick_kernel(function: F) -> F:
    """Like `kernel`, but with the GIL: for a few microseconds that somebody waits for.

    Whoever lets go of it for less time than it takes to wake a thread does others no good, and may wait ten times as long to
    have it back.
    """
    return _compiled(function, "never", nogil=False)


def inline_kernel(function: F) -> F:
    """Like `kernel`, for a leaf that is called from other kernels only and should be inlined into them."""
    return _compiled(function, "always")
