"""Rank 1: compiling kernels and caching their machine code; vectors and raw memory inside kernels.

The only package that depends on numba's internals."""

from riata.jit import numba_import, numba_runtime  # in this order, before any module here imports numba

__all__ = ["numba_import", "numba_runtime"]
