"""Have numba inline functions without what it does over and over. Loaded when a kernel has to be compiled, and not before.

A function that is inlined goes through the front of the compiler again at each of its calls, together with all that is inlined
into it. And it is copied block by block, each with a copy of all variables of the function: 1,600 blocks and 1,100 variables
where a learner's loop is put together. Both took a third of all compiling. Here the front sees a function once, and blocks
share variables, which nothing changes. The machine code that comes out is the same to the byte.

`InlineWorker.run_untyped_passes` is replaced, and `Scope` and `Loc` are told how they are copied. With a version of numba that
inlines otherwise, importing this fails or what is compiled; with one that copies otherwise, it takes longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numba.core.inline_closurecall import InlineWorker
from numba.core.ir import Loc, Scope

from riata.jit.numba_import import take_place

_front: Final = InlineWorker.run_untyped_passes
_seen: Final[dict[Callable[..., Any], Any]] = {}


def _once(worker: Any, function: Callable[..., Any], enable_ssa: bool = False) -> Any:
    """The compiler's form of a function that is to be inlined; whoever asks copies it before it changes anything."""
    if enable_ssa:  # nobody asks for that when he inlines
        return _front(worker, function, enable_ssa)
    if function not in _seen:
        _seen[function] = _front(worker, function)
    worker.flags.enable_ssa = False  # as is done on the way through the front
    return _seen[function]


def _copied(scope: Any, memo: dict[int, Any]) -> Any:
    """A scope with a list of its own of the same variables."""
    copied = memo[id(scope)] = Scope(scope.parent, scope.loc)
    copied.localvars._con = scope.localvars._con.copy()
    copied.redefined = scope.redefined.copy()
    copied.var_redefinitions.update((name, found.copy()) for name, found in scope.var_redefinitions.items())
    return copied


def _itself(place: Any, _memo: dict[int, Any]) -> Any:
    """A place in a source file, which nothing changes either."""
    return place


def inline_quickly() -> None:
    """Take the place of what numba does, from now on."""
    take_place(InlineWorker, "run_untyped_passes", _once)
    Scope.__deepcopy__, Loc.__deepcopy__ = _copied, _itself
