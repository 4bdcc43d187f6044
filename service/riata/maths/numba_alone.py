"""Import numba without what it looks for and does not need.

It reads a file of settings if there is a library for YAML, and asks scipy for its version if there is one: of which nothing
here wants anything, and which take a tenth of its import.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Final, cast

UNWANTED: Final = ("yaml", "scipy")


def _import() -> None:
    hidden = [name for name in UNWANTED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))  # so that importing them fails, which numba expects
    try:
        import numba  # noqa: F401
    finally:
        for name in hidden:
            del sys.modules[name]


if "numba" not in sys.modules:
    _import()
