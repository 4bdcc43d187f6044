"""Slow, obvious twins of the kernels of `riata.lab.batch.passes`: dense columns and numpy."""

from __future__ import annotations

import numpy as np

from riata.base.arrays import F64, I64
from riata.lab.batch.passes import Columns, Limits, Place
from tests.twins import philox as random
from tests.twins.batch import log_p, slope

TWINS_OF = ("coordinate_descent",)


def dense_columns(columns: Columns) -> F64:
    """f64[n, d]"""
    x = np.zeros((len(columns.label), len(columns.start) - 1))
    for j in range(x.shape[1]):
        inside = slice(columns.start[j], columns.start[j + 1])
        x[columns.row[inside], j] = columns.value[inside]
    return x


def derivatives(link: int, m: F64) -> tuple[F64, F64]:
    """Slope and curvature of the log-likelihood at signed margins."""
    q = slope(link, m)
    return q, q * np.exp(log_p(link, m)) if link == 0 else q * (q + m)


def moves(columns: Columns, place: Place, limits: Limits, chosen: I64, move: F64) -> float:
    """How far coordinates move: the design has each column twice, the second time with the other sign."""
    x = dense_columns(columns)
    both = np.hstack([x, -x])
    slopes = place.residual @ both - np.tile(limits.penalty, 2)
    usable = np.tile(limits.bound, 2) > 0.0
    growth = np.exp(np.minimum(place.reach * np.tile(limits.peak, 2), 700.0))
    bound = np.minimum(np.tile(limits.bound, 2), place.spread @ both**2 * growth + 1e-300)
    step = np.divide(slopes, bound, out=np.zeros(len(slopes)), where=usable)
    step = np.maximum(-place.part, np.clip(step, -place.reach, place.reach))
    move[:] = step[chosen]
    reach = np.where(usable, np.maximum(2.0 * np.abs(step), 0.5 * place.reach), place.reach)
    place.reach[chosen] = reach[chosen]
    violation = np.where(usable, np.where(place.part > 0.0, np.abs(slopes), np.maximum(slopes, 0.0)), 0.0)
    return float(violation[chosen].max(initial=0.0))


def apply(columns: Columns, link: int, place: Place, chosen: I64, move: F64, rows: tuple[int, int], number: int) -> None:
    """Apply moves to some rows."""
    x = dense_columns(columns)
    both = np.hstack([x, -x])
    mine = slice(*rows)
    place.margin[mine] += both[mine][:, chosen] @ move
    s = columns.label[mine]
    touched = (both[mine][:, chosen] * move != 0.0).any(axis=1)
    residual, spread = derivatives(link, s * place.margin[mine])
    place.residual[mine] = np.where(touched, columns.weight[mine] * s * residual, place.residual[mine])
    place.spread[mine] = np.where(touched, columns.weight[mine] * spread, place.spread[mine])
    place.stamp[mine] = np.where(touched, number, place.stamp[mine])


def rounds(columns: Columns, link: int, place: Place, limits: Limits, order: I64, at_once: int, number: int) -> tuple[float, int]:
    """All coordinates of an order."""
    worst, reads, counts = 0.0, 0, np.tile(np.diff(columns.start), 2)
    for at in range(0, len(order), at_once):
        chosen = order[at : at + at_once]
        step = np.empty(len(chosen))
        worst = max(worst, moves(columns, place, limits, chosen, step))
        place.part[chosen] += step
        reads += int(counts[chosen].sum() + counts[chosen][step != 0.0].sum())
        apply(columns, link, place, chosen, step, (0, len(place.margin)), number)
        number += 1
    return worst, reads


def settle(columns: Columns, link: int, place: Place, shift: float) -> tuple[float, float, float]:
    """Shift the margins."""
    place.margin[:] += shift
    s, w = columns.label, columns.weight
    m = s * place.margin
    q, h = derivatives(link, m)
    place.residual[:], place.spread[:] = w * s * q, w * h
    return float(w @ log_p(link, m)), float(place.residual.sum()), float(w @ h)


def shuffle(order: I64, seed: int, epoch: int) -> None:
    """Swap each element, from the last, with one at or before it."""
    for a in range(len(order) - 1, 0, -1):
        b = int((random.philox(seed, epoch, a)[0] >> 11) / 2**53 * (a + 1))
        order[[a, b]] = order[[b, a]]


def spectral_radius(columns: Columns, features: I64, norm: F64, _iterations: int, _seed: int) -> float:
    """The largest eigenvalue, exactly."""
    a = (np.sqrt(columns.weight)[:, None] * dense_columns(columns) / np.sqrt(norm))[:, features]
    return float(np.linalg.eigvalsh(a.T @ a)[-1])
