"""No two named tuples that kernels take are alike to numba, which sees the name of the class and its fields, not its module."""

from __future__ import annotations

import importlib
from collections import Counter
from pathlib import Path

import riata
from riata.jit.cache_folder import sources


def named_tuples() -> set[type]:
    """Every named tuple that a file with kernels defines or takes."""
    package = Path(riata.__file__).parent
    names = [".".join(("riata", *path.relative_to(package).with_suffix("").parts)) for path in sources()]
    found = {value for name in names for value in vars(importlib.import_module(name)).values() if isinstance(value, type)}
    return {each for each in found if issubclass(each, tuple) and hasattr(each, "_fields")}


def alike(classes: set[type]) -> list[tuple[str, tuple[str, ...]]]:
    """Names and fields that several of these classes share."""
    count = Counter((each.__name__, tuple(getattr(each, "_fields", ()))) for each in classes)
    return [each for each, times in count.items() if times > 1]


def test_no_two_named_tuples_of_kernels_are_alike() -> None:
    classes = named_tuples()
    assert len(classes) > 10
    assert alike(classes) == []
    twin = type("FtrlTable", (tuple,), {"_fields": ("line", "alive", "seen", "counts", "scalars")})
    assert alike(classes | {twin}) == [("FtrlTable", ("line", "alive", "seen", "counts", "scalars"))]
