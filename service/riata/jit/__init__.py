"""Rank 1: compiling kernels and keeping their machine code; vectors and raw memory inside kernels.

The only room that knows numba's inside."""

from riata.jit import numba_import, numba_runtime  # in this order, before any module here imports numba

__all__ = ["numba_import", "numba_runtime"]
