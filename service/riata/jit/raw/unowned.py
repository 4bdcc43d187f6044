"""Arrays without a reference count, for kernels that pass the same arrays to small helpers many million times.

numba counts references to every array that is passed, returned or taken out of a tuple, and the counts are atomic. In a parser
that costs several times the work itself. A borrowed array is a view of the same memory without an owner, so counting it does
nothing. The kernel that borrows must keep the original alive (its arguments are) and must not return the view.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

A = TypeVar("A", bound=np.ndarray[Any, Any])


def _same(array: A) -> A:
    return array


@intrinsic  # type: ignore[untyped-decorator]
def _without_owner(_typing_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        view = context.make_array(array)(context, builder, args[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        view.parent = cgutils.get_null_value(view.parent.type)
        return view._getvalue()

    return array(array), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _address_alone(_typing_context: Any, array: Any) -> Any:
    def codegen(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return context.make_array(array)(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), codegen


# bare(array): only its address, for a kernel that accesses it only by `jit.raw.memory`; no reference count, no bounds.
bare = _same if numba.config.DISABLE_JIT else _address_alone
borrow = _same if numba.config.DISABLE_JIT else _without_owner
