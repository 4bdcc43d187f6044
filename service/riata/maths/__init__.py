"""Rank 1: kernels over plain arrays. No classes, no I/O."""

from riata.maths import numba_import, numba_runtime  # in this order, before any module here imports numba

__all__ = ["numba_import", "numba_runtime"]
