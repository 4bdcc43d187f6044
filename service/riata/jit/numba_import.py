"""Import numba without the optional parts that nothing here needs; and `take_place`, which replaces internals of numba.

numba reads a file of settings if a YAML library is installed, asks scipy for its version if it is installed, and searches all
installed packages for extensions of itself. It also loads numpy's masked arrays in order to refuse them; no kernel is called with
one. Together these take a sixth of its import time.

If numba was imported before, it stays as it is. A version that looks for extensions elsewhere would still look for them. A
version without `typeof_impl` or `map_layout` cannot be imported here.

With RIATA_NUMBA_PATCHES=0 in the environment nothing of numba is replaced, here or in the other modules of this package: starting
and compiling take longer, and the machine code of kernels is the same.
"""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any, Final, cast

import numpy as np

PATCHED: Final = os.environ.get("RIATA_NUMBA_PATCHES") != "0"
UNWANTED: Final = ("yaml", "scipy")
EXTENSIONS: Final = "numba.core.entrypoints"


def take_place(owner: Any, name: str, ours: Any) -> None:
    """Replace an attribute that numba looks up by name.

    Raises ImportError if this version of numba has no such attribute: it would go on with its own implementation, and the only
    symptom would be a slower start.
    """
    if not hasattr(owner, name):
        raise ImportError(f"numba {sys.modules['numba'].__version__} has no {name} where one is to be replaced: {owner!r}")
    setattr(owner, name, ours)


def _import() -> None:
    hidden = [name for name in UNWANTED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))  # so that importing them fails, which numba handles
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
    """Have numba type an array by its dtype, dimensions and layout. Its own function does no more for an array without a mask."""
    from numba.core.errors import NumbaNotImplementedError
    from numba.core.types import Array
    from numba.core.typing.typeof import typeof_impl
    from numba.np.numpy_support import from_dtype, map_layout

    slowly = typeof_impl.dispatch(np.ndarray)

    def typed(array: Any, context: Any) -> Any:
        try:
            return Array(from_dtype(array.dtype), array.ndim, map_layout(array), readonly=not array.flags.writeable)
        except NumbaNotImplementedError:
            return slowly(array, context)  # raises numba's own error message

    typeof_impl.register(np.ndarray)(typed)


if PATCHED and "numba" not in sys.modules:
    _import()
