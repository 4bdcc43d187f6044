"""Rows for estimators, as a matrix and as a service takes them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from riata.base.arrays import F64
from riata.run.files.fit import Fit
from riata.run.files.reading import Block
from riata.run.state.config import read_config

NAMES = [f"x{j}" for j in range(6)]


def matrix(n: int, d: int = 6, seed: int = 1) -> tuple[F64, F64]:
    """A matrix with zeros, numbers that are not round, and labels 0 and 1."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = (x @ rng.normal(size=d) + rng.logistic(size=n) / 2 > 0).astype(np.float64)
    return x, y


def rows_of(x: F64, y: F64 | None = None, names: list[str] = NAMES, weight: F64 | None = None) -> list[dict[str, Any]]:
    """The same as example objects, zeros included."""
    rows: list[dict[str, Any]] = [{"features": dict(zip(names, row, strict=True))} for row in x.tolist()]
    for i, row in enumerate(rows):
        row |= {} if y is None else {"label": int(y[i])}
        row |= {} if weight is None else {"weight": float(weight[i])}
    return rows


def fitted(rows: list[dict[str, Any]], document: dict[str, Any]) -> Fit:
    """What `riata fit` makes of example objects."""
    fit = Fit(read_config(document), "application/x-ndjson")
    fit.run([Block("".join(json.dumps(row) + "\n" for row in rows).encode())])
    assert (fit.rejected, fit.refused) == (0, 0)
    return fit
