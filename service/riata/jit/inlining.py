"""Make numba inline functions without repeating work. Imported only when a kernel has to be compiled.

numba runs the front end of its compiler on an inlined function again at each call, together with all that is inlined into it.
It also copies the function block by block, each block with a copy of all variables of the function. A learner's loop has 1,600
blocks and 1,100 variables. Both took a third of all compile time. Here the front end runs once per function, and blocks share
variables, which nothing changes. The machine code is the same to the byte.

This replaces `InlineWorker.run_untyped_passes` and sets how `Scope` and `Loc` are copied. With a version of numba that inlines
in another way, importing this module or compiling fails. With a version that copies in another way, compiling takes longer.
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
    """The compiler's untyped form of a function to inline. The caller copies it before it changes anything."""
    if enable_ssa:  # never requested for inlining
        return _front(worker, function, enable_ssa)
    if function not in _seen:
        _seen[function] = _front(worker, function)
    worker.flags.enable_ssa = False  # the front end does this too
    return _seen[function]


def _copied(scope: Any, memo: dict[int, Any]) -> Any:
    """A copy of a scope: a new list of the same variables."""
    copied = memo[id(scope)] = Scope(scope.parent, scope.loc)
    copied.localvars._con = scope.localvars._con.copy()
    copied.redefined = scope.redefined.copy()
    copied.var_redefinitions.update((name, found.copy()) for name, found in scope.var_redefinitions.items())
    return copied


def _itself(place: Any, _memo: dict[int, Any]) -> Any:
    """A position in a source file. It is immutable, so it is not copied."""
    return place


def inline_quickly() -> None:
    """Replace numba's implementation from now on."""
    take_place(InlineWorker, "run_untyped_passes", _once)
    Scope.__deepcopy__, Loc.__deepcopy__ = _copied, _itself
