"""Import numba without what it looks for and does not need; and how modules here take the place of what is in it.

It reads a file of settings if there is a library for YAML, asks scipy for its version if there is one, and looks through all
that is installed for extensions of itself. Nothing here wants any of that. And it loads numpy's masked arrays to refuse them,
which no kernel is called with. Together they take a sixth of its import.

Where somebody has imported numba before, it stays as it is. A version that looks for extensions elsewhere would look for them;
one without `typeof_impl` or `map_layout` cannot be imported here.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

UNWANTED: Final = ("yaml", "scipy")
EXTENSIONS: Final = "numba.core.entrypoints"


def take_place(owner: Any, name: str, ours: Any) -> None:
    """Put something of ours in the place of what numba calls by a name.

    Raises ImportError where this version of numba has nothing of that name: it would go on with what it calls instead, and nobody
    would see more of it than a slower start.
    """
    if not hasattr(owner, name):
        raise ImportError(f"numba {sys.modules['numba'].__version__} has no {name} where one is to be replaced: {owner!r}")
    setattr(owner, name, ours)


def _import() -> None:
    hidden = [name for name in UNWANTED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))  # so that importing them fails, which numba expects
    none: Any = ModuleType(EXTENSIONS, "In numba's place: there are no extensions.")
    none.init_all = lambda: None
    sys.modules[EXTENSIONS] = none
    try:
        import numba
    finally:
        for name in hidden:
            del sys.modules[name]
    numba.core.entrypoints = none
    _type_plain_arrays()


def _type_plain_arrays() -> None:
    """Have numba type an array by what it says of itself, which is all that numba's own function does for one without a mask."""
    from numba.core.errors import NumbaNotImplementedError
    from numba.core.types import Array
    from numba.core.typing.typeof import typeof_impl
    from numba.np.numpy_support import from_dtype, map_layout

    slowly = typeof_impl.dispatch(np.ndarray)

    def typed(array: Any, context: Any) -> Any:
        try:
            return Array(from_dtype(array.dtype), array.ndim, map_layout(array), readonly=not array.flags.writeable)
        except NumbaNotImplementedError:
            return slowly(array, context)  # has its own words for it

    typeof_impl.register(np.ndarray)(typed)


if "numba" not in sys.modules:
    _import()
