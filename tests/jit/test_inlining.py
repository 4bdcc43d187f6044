"""What is inlined quickly is what numba inlines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.inline_closurecall import InlineWorker
from numba.core.ir import Loc, Scope

from riata.jit import inlining
from riata.jit.inlining import inline_quickly


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def clipped(x: float, most: float) -> float:
    return most if x > most else x


@numba.njit(inline="always")  # type: ignore[untyped-decorator]
def total(xs: np.ndarray[Any, Any], most: float) -> float:
    so_far = 0.0
    for x in xs:
        so_far += clipped(x, most)
        if so_far < 0.0:
            return 0.0
    return float(clipped(so_far, 1e9))


def twice(xs: np.ndarray[Any, Any], most: float) -> float:
    part = total(xs[1:], most)
    return float(part * total(xs, clipped(part, most)))


def machine_code(function: Callable[..., Any]) -> str:
    """The instructions without names: the compiler numbers the functions, so names differ."""
    compiled = numba.njit(nogil=True)(function)
    compiled.compile((numba.float64[::1], numba.float64))
    lines = next(iter(compiled.inspect_asm().values())).splitlines()
    return "\n".join(re.sub(r"_Z[\w$.]+", "name", line) for line in lines if not line.startswith("\t."))


def test_machine_code_is_the_same_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InlineWorker, "run_untyped_passes", inlining._front)
    for kind in (Scope, Loc):
        monkeypatch.delattr(kind, "__deepcopy__", raising=False)
    slowly = machine_code(twice)
    monkeypatch.undo()
    inline_quickly()
    inlining._seen.clear()
    assert machine_code(twice) == slowly
    assert set(inlining._seen) == {clipped.py_func, total.py_func}
    assert machine_code(twice) == slowly  # what was seen once is not changed by being inlined
    assert machine_code(total.py_func) != slowly


def test_each_function_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = []

    def front(worker: Any, function: Callable[..., Any], enable_ssa: bool = False) -> Any:
        looked_at.append(function)
        return kept(worker, function, enable_ssa)

    inline_quickly()
    kept = inlining._front
    inlining._seen.clear()
    monkeypatch.setattr(inlining, "_front", front)
    machine_code(twice)
    assert sorted(one.__name__ for one in looked_at) == ["clipped", "total"]
    assert numba.njit(twice)(np.array([1.0, 2.0, 5.0]), 3.0) == (2.0 + 3.0) * (1.0 + 2.0 + 3.0)
