"""Serialisation of a Taylor sketch: its state as named arrays (`freeze`), and the state restored from them (`thaw`).

    counts           i64[9]      rows learnt; positions in use; rows pending for the cross curvature, their features;
                                 slots outside; rows held, their features; rows learnt at the end of the last block, blocks since
                                 the last round
    scalars          f64[4]      scale, effective importance after forgetting, total importance, growth of the penalties
    member_key       i64[m]      by position; -1 for the intercept and for a position that is free
    member_beta, member_gradient, member_curvature, member_peak   f64[m]
    cross            f64[m (m - 1) / 2]   the upper triangle, row by row, without the pending rows
    pending_start, pending_at, pending_x, pending_h   i64[w + 1], i32[f], f64[f], f64[w]   the pending rows
    outside_slot     u32[n]      strictly increasing: slots ever seen that are not in the block
    outside_waiting  bool[n]     whether the slot is on the waiting list of the next round
    outside_beta, outside_gradient, outside_curvature, outside_peak   f64[n]
    held_*           the rows held (`kernel_state.Held`)
    shadow_beta, shadow_loss     f64[s, m], f64[s, 4]

Sums are in stored units: the true sums divided by the scale. Arrays that a configuration does not use are omitted.

States of ALGO_VERSION 2 and before have arrays lazy_* too: some of their gradients lack the effect of earlier moves. `thaw` adds
it (`lazy_gradients`).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.taylor_sketch.kernel_state import (
    BETA,
    CURVATURE,
    ENDED,
    FADED_LOSS,
    FADED_WEIGHT,
    GRADIENT,
    GROWTH,
    HELD_NNZ,
    HYBRID,
    LEARNT,
    LOSS,
    LOSSES,
    N_HELD,
    NOTHING,
    PEAK,
    SCALARS,
    SCALE,
    SINCE,
    WEIGHT,
    Settings,
    key_map,
)
from riata.learn.taylor_sketch.state import TaylorState
from riata.maths.block import PENDING, ROWS, SIZE, Block
from riata.native.library import core

_COUNTS: Final = 9
_LOSS_MAX: Final = 40.0  # the loss of an event is at most -log(1e-15); the rest is a margin for rounding
_MEMBER: Final = ("beta", "gradient", "curvature", "peak")
_HELD: Final = ("label", "weight")
_HELD_AGAIN: Final = ("margin", "r", "h")  # used if rows are linearised again (`linearise_again`), not by a warm-up

LAZY: Final = frozenset(f"lazy_{name}" for name in ("tracked", "settled", "founded", "moved", "flushed", "reach"))


def freeze(state: TaylorState, outside: U32) -> Arrays:
    """Return copies of all arrays. outside : slots seen that are not in the block, strictly increasing"""
    s, settings = state.arrays, state.settings
    block, size = s.members.block, state.size
    rows, features = _waiting(state)
    arrays: dict[str, NDArray[np.generic]] = {
        "counts": np.array(
            [
                *(s.counts[LEARNT], size, rows, features, len(outside), s.counts[N_HELD], s.counts[HELD_NNZ]),
                *(s.counts[ENDED], s.counts[SINCE]),
            ],
            np.int64,
        ),
        "scalars": s.scalars.copy(),
        "member_key": s.members.key[:size].copy(),
        **{f"member_{name}": getattr(block, name)[:size].copy() for name in _MEMBER},
        "cross": _triangle(block.cross, size),
        "pending_start": block.row_start[: rows + 1].copy(),
        "pending_at": block.row_at[:features].astype(np.int32),
        "pending_x": block.row_x[:features].copy(),
        "pending_h": block.row_h[:rows].copy(),
    }
    if settings.outside != NOTHING:
        columns = np.empty((4, len(outside)))
        for pair in (BETA, CURVATURE):
            columns[pair], columns[pair + 1] = state.table.pick(outside, pair)
        arrays["outside_slot"] = outside
        if settings.exchanges:
            arrays["outside_waiting"] = columns[PEAK] < 0.0
        arrays |= {name: columns[column].copy() for name, column in _outside_columns(settings).items()}
        arrays["outside_peak"] = np.abs(columns[PEAK])
    if settings.warm_up > 0 or settings.reexpand > 0:
        n_rows, n_features = int(s.counts[N_HELD]), int(s.counts[HELD_NNZ])
        arrays["held_indptr"] = s.held.indptr[: n_rows + 1].copy()
        arrays |= {f"held_{name}": getattr(s.held, name)[:n_features].copy() for name in ("hash", "value")}
        arrays |= {f"held_{name}": getattr(s.held, name)[:n_rows].copy() for name in _held_columns(settings)}
    if len(s.shadows.gamma):
        arrays["shadow_beta"] = s.shadows.beta[:, :size].copy()
        arrays["shadow_loss"] = s.shadows.loss.copy()
    return arrays


def frozen_bytes(state: TaylorState) -> int:
    """Return the size in bytes of the arrays that `freeze` would return."""
    s, settings, size, n = state.arrays, state.settings, state.size, state.n_outside
    rows, features = _waiting(state)
    total = 8 * (_COUNTS + SCALARS + (1 + len(_MEMBER)) * size + size * (size - 1) // 2 + 2 * rows + 1) + 12 * features
    if settings.outside != NOTHING:
        total += n * (4 + 8 * (len(_outside_columns(settings)) + 1) + int(settings.exchanges))
    if settings.warm_up > 0 or settings.reexpand > 0:
        n_rows, n_features = int(s.counts[N_HELD]), int(s.counts[HELD_NNZ])
        total += 8 * (n_rows + 1) + 12 * n_features + 8 * n_rows * len(_held_columns(settings))
    return total + 8 * len(s.shadows.gamma) * (size + LOSSES)


def thaw(state: TaylorState, arrays: Arrays, bits: int) -> None:
    """Fill an empty state from `arrays`. Raises `Corrupt` if they are not a valid state. bits : of a key"""
    arrays, lazy = without_lazy(arrays)
    _check(state, arrays, bits)
    check_lazy(lazy, int(arrays["counts"][1]), int(arrays["counts"][2]))
    learnt, size, rows, features, _, n_rows, n_features, ended, since = (int(number) for number in arrays["counts"])
    while size > len(state.arrays.members.key):
        state.grow_block(min(2 * len(state.arrays.members.key), state.settings.limit))
    s = state.arrays
    block = s.members.block
    s.counts[LEARNT], s.counts[ENDED], s.counts[SINCE] = learnt, ended, since
    s.scalars[:] = arrays["scalars"]
    block.counts[SIZE], block.counts[PENDING] = size, rows
    s.members.key[:size] = arrays["member_key"]
    for name in _MEMBER:
        getattr(block, name)[:size] = arrays[f"member_{name}"]
    at = 0
    for j in range(size):
        block.cross[j, j + 1 : size] = arrays["cross"][at : at + size - 1 - j]
        at += size - 1 - j
    block.row_start[: rows + 1] = arrays["pending_start"]
    block.row_at[:features] = arrays["pending_at"]
    block.row_x[:features] = arrays["pending_x"]
    block.row_h[:rows] = arrays["pending_h"]
    if lazy:
        settle(block, lazy)
    core.fill_key_map(key_map(s.members.place), s.members.key, size)
    if state.settings.outside != NOTHING:
        _thaw_outside(state, arrays)
    if "held_indptr" in arrays:
        state.make_room(n_rows, n_features)
        held = state.arrays.held
        held.indptr[: n_rows + 1] = arrays["held_indptr"]
        for name in ("hash", "value"):
            getattr(held, name)[:n_features] = arrays[f"held_{name}"]
        for name in _held_columns(state.settings):
            getattr(held, name)[:n_rows] = arrays[f"held_{name}"]
        s.counts[N_HELD], s.counts[HELD_NNZ] = n_rows, n_features
    if "shadow_beta" in arrays:
        s.shadows.beta[:, :size] = arrays["shadow_beta"]
        s.shadows.loss[:] = arrays["shadow_loss"]


def _thaw_outside(state: TaylorState, arrays: Arrays) -> None:
    s = state.arrays
    slot, key = arrays["outside_slot"].astype(np.uint32), s.members.key[: state.size]
    members = key[key >= 0].astype(np.uint32)
    state.table.lines_of(merged(slot, members))
    state.table.enter(arrays.get("held_hash", np.empty(0)).astype(np.uint32))
    at, members_at, line = state.table.lines_of(slot), state.table.lines_of(members), state.table.line
    for name, column in _outside_columns(state.settings).items():
        line[at, column] = arrays[name]
    peak = arrays["outside_peak"].astype(np.float64)
    seen = slot
    line[members_at, CURVATURE] = -1.0 - np.flatnonzero(key >= 0)
    if state.settings.exchanges:
        waits = arrays["outside_waiting"].astype(np.bool_)
        peak = np.where(waits, -peak, peak)
        state.waiting.hold(slot[waits])
        line[members_at, PEAK] = s.members.block.peak[: state.size][key >= 0]
        inside = np.sort(members)  # none of them is among the others
        seen = np.insert(slot, np.searchsorted(slot, inside), inside)
    line[at, PEAK] = peak
    state.seen.hold(seen)
    state.alive.hold(slot[line[at, BETA] != 0.0])
    state.make_room(0, 0)  # kernels get the arrays that have grown


def _check(state: TaylorState, arrays: Arrays, bits: int) -> None:
    """Raise `Corrupt` unless names, types, shapes, order and range are valid for a frozen state."""
    settings, shadows = state.settings, len(state.arrays.shadows.gamma)
    check_names(arrays, set(freeze(state, np.empty(0, np.uint32))))
    check_counts("counts", arrays["counts"], _COUNTS)
    learnt, size, rows, features, n, n_rows, n_features, ended, _ = (int(number) for number in arrays["counts"])
    if ended > learnt:
        raise Corrupt(f"learner state: a block of events ended at {ended} of {learnt}")
    if not 1 <= size <= settings.limit or rows > ROWS:
        raise Corrupt(f"learner state: {size} positions with {rows} waiting rows do not fit in a block of {settings.limit}")
    check_numbers("scalars", arrays["scalars"], SCALARS, 0.0)
    if not bool((arrays["scalars"].astype(np.float64)[[SCALE, GROWTH]] > 0.0).all()):
        raise Corrupt("learner state: scale or growth is zero")
    _check_keys(arrays["member_key"], size, bits, holes=settings.exchanges)
    for name in _MEMBER:
        check_numbers(f"member_{name}", arrays[f"member_{name}"], size, 0.0 if name == "peak" else -np.inf)
    check_numbers("cross", arrays["cross"], size * (size - 1) // 2)
    _check_ragged("pending", arrays["pending_start"], arrays["pending_at"], (rows, features), np.dtype(np.int32))
    if features and not 0 <= int(arrays["pending_at"].min()) <= int(arrays["pending_at"].max()) < size:
        raise Corrupt("learner state: pending_at has a position that is not in use")
    check_numbers("pending_x", arrays["pending_x"], features)
    check_numbers("pending_h", arrays["pending_h"], rows)
    if settings.outside != NOTHING:
        _check_outside(arrays, settings, n, bits)
    if "held_indptr" in arrays:
        if n_rows > learnt or n_rows >= max(settings.warm_up, settings.reexpand, 1):
            raise Corrupt(f"learner state: {n_rows} rows are held")
        _check_ragged("held", arrays["held_indptr"], arrays["held_hash"], (n_rows, n_features), np.dtype(np.uint32))
        check_numbers("held_value", arrays["held_value"], n_features)
        for name in _held_columns(settings):
            check_numbers(f"held_{name}", arrays[f"held_{name}"], n_rows)
    if shadows:
        for name, width in (("beta", size), ("loss", LOSSES)):
            array = arrays[f"shadow_{name}"]
            if array.shape != (shadows, width):
                raise Corrupt(f"learner state: shadow_{name} is not {shadows} times {width} numbers")
            check_numbers(f"shadow_{name}", array.reshape(-1), shadows * width)
        _check_losses(arrays["shadow_loss"].astype(np.float64))


def _check_keys(key: NDArray[np.generic], size: int, bits: int, *, holes: bool) -> None:
    """Check the keys: i64[size], unique and below 2^bits; -1 first, and elsewhere only if positions may be free."""
    if key.dtype != np.int64 or key.shape != (size,):
        raise Corrupt(f"learner state: member_key is not {size} keys")
    used = key[key.astype(np.int64) >= 0]
    free = size - len(used)
    if int(key[0]) != -1 or int(key.min()) < -1 or int(key.max()) >= 2**bits or len(np.unique(used)) < len(used):
        raise Corrupt("learner state: member_key has a key twice, or an invalid key")
    if free > 1 and not holes:
        raise Corrupt("learner state: member_key has a position without a feature")


def _check_ragged(
    name: str, start: NDArray[np.generic], at: NDArray[np.generic], counts: tuple[int, int], dtype: np.dtype[np.generic]
) -> None:
    """Check ragged rows: i64[rows + 1], the start of each row, and entries of `dtype`, each at most once in a row."""
    rows, features = counts
    if start.dtype != np.int64 or start.shape != (rows + 1,) or at.dtype != dtype or at.shape != (features,):
        raise Corrupt(f"learner state: {name} rows are not {rows} rows with {features} features")
    begins = start.astype(np.int64)
    length = begins[1:] - begins[:-1]
    if int(start[0]) != 0 or int(start[-1]) != features or bool((length < 0).any()):
        raise Corrupt(f"learner state: {name} rows are not contiguous")
    row = np.repeat(np.arange(rows), length)
    entries = at.astype(np.int64)
    if dtype == np.int32:  # positions, in any order
        if len(np.unique(row * 2**32 + entries)) < features:
            raise Corrupt(f"learner state: {name} rows have a feature twice")
    elif bool((np.diff(entries)[np.diff(row) == 0] <= 0).any()):
        raise Corrupt(f"learner state: {name} rows are not sorted by hash, or have a feature twice")


def _check_outside(arrays: Arrays, settings: Settings, n: int, bits: int) -> None:
    check_slots("outside_slot", arrays["outside_slot"], bits)
    for name in (*_outside_columns(settings), "outside_peak"):
        check_numbers(name, arrays[name], n, 0.0 if name == "outside_peak" else -np.inf)
    if not bool((arrays["outside_peak"].astype(np.float64) > 0.0).all()):
        raise Corrupt("learner state: outside_peak has a feature that was never seen")
    if len(arrays["outside_slot"]) != n or bool(np.isin(arrays["outside_slot"].astype(np.int64), arrays["member_key"]).any()):
        raise Corrupt("learner state: outside_slot has the wrong length, or a slot that is in the block")
    if settings.exchanges and (arrays["outside_waiting"].dtype != np.bool_ or arrays["outside_waiting"].shape != (n,)):
        raise Corrupt(f"learner state: outside_waiting is not {n} answers")


def _check_losses(loss: F64) -> None:
    """Check f64[s, 4], total and decayed weights and losses: no mean loss is above the largest loss of one event."""
    for weight, total in ((WEIGHT, LOSS), (FADED_WEIGHT, FADED_LOSS)):
        if bool((loss[:, (weight, total)] < 0.0).any()) or bool((loss[:, total] > _LOSS_MAX * loss[:, weight]).any()):
            raise Corrupt("learner state: shadow_loss is not a sum of losses")


def _outside_columns(settings: Settings) -> dict[str, int]:
    """Return the names of the arrays and their columns of a line. Weights are stored only if features outside may have one."""
    columns = {"outside_gradient": GRADIENT, "outside_curvature": CURVATURE}
    return {"outside_beta": BETA, **columns} if settings.outside == HYBRID else columns


def _held_columns(settings: Settings) -> tuple[str, ...]:
    return (*_HELD, *_HELD_AGAIN) if settings.reexpand > 0 else _HELD


def _waiting(state: TaylorState) -> tuple[int, int]:
    """Return the number of rows pending for the cross curvature, and of their features."""
    block = state.arrays.members.block
    rows = int(block.counts[PENDING])
    return rows, int(block.row_start[rows])


def _triangle(cross: F64, size: int) -> F64:
    """Return the upper triangle of the first `size` rows, row by row."""
    return np.concatenate([cross[j, j + 1 : size] for j in range(size)])


# States of ALGO_VERSION 2 and before: the gradients that lack the effect of earlier moves are brought up to date.
#
# These versions solved while rows were pending, and updated the gradients of some members only (`tracked`). A gradient l of
# another
# member lacks, over the pending rows i and the tracked members j,
#
#     sum_i h_i x_il moved_i + sum_j H_lj (beta_j - settled_j)
#
#     lazy_tracked    i64[n]        positions whose gradient is current; none if all are
#     lazy_settled    f64[n]        their weights when all gradients were last current
#     lazy_moved      f64[pending]  how far the margin of each pending row has moved since
#     lazy_founded, lazy_flushed, lazy_reach   were used for bounds only, and are ignored


def without_lazy(arrays: Arrays) -> tuple[Arrays, Arrays]:
    """Return the arrays of the present format, and those that only older versions wrote: all of them or none."""
    if not set(arrays) >= LAZY:
        return arrays, {}
    return {name: array for name, array in arrays.items() if name not in LAZY}, {name: arrays[name] for name in LAZY}


def check_lazy(lazy: Arrays, size: int, rows: int) -> None:
    """Raise `Corrupt` unless the arrays fit a block of `size` positions with `rows` pending rows, or there are none."""
    if not lazy:
        return
    tracked = lazy["lazy_tracked"]
    n = len(tracked) if tracked.ndim == 1 else -1
    if tracked.dtype != np.int64 or n < 0 or len(np.unique(tracked)) < n:
        raise Corrupt("learner state: lazy_tracked is not a list of distinct positions")
    if n and not 0 <= int(tracked.min()) <= int(tracked.max()) < size:
        raise Corrupt("learner state: lazy_tracked has a position that is not in use")
    check_numbers("lazy_settled", lazy["lazy_settled"], n)
    check_numbers("lazy_moved", lazy["lazy_moved"], rows)


def settle(block: Block, lazy: Arrays) -> None:
    """Bring every gradient of a block up to date. Its other numbers and its pending rows are those of the state.

    No BLAS: a restore event carries such a state too, and its replay must have the same bits on every machine.
    """
    size, rows = int(block.counts[SIZE]), int(block.counts[PENDING])
    tracked = lazy["lazy_tracked"].astype(np.int64)
    if not 0 < len(tracked) < size:
        return
    lacking = np.zeros(size)
    for j, settled in zip(tracked.tolist(), lazy["lazy_settled"].tolist(), strict=True):
        step = float(block.beta[j]) - settled
        lacking[:j] += step * block.cross[:j, j]
        lacking[j + 1 :] += step * block.cross[j, j + 1 : size]
    for i in range(rows):
        at = block.row_at[block.row_start[i] : block.row_start[i + 1]]
        x = block.row_x[block.row_start[i] : block.row_start[i + 1]]
        lacking[at] += block.row_h[i] * float(lazy["lazy_moved"][i]) * x
    lacking[tracked] = 0.0
    block.gradient[:size] -= lacking
