"""Truncated gradient: stochastic gradient steps, and now and then a small step of every weight towards zero."""

from __future__ import annotations

import math
from typing import Final, Literal

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U32, Arrays
from riata.base.errors import BadInput, Corrupt
from riata.base.limits import BITS_MAX, BITS_MIN
from riata.learn.learner import Link, Stepped, Weights
from riata.learn.truncated_gradient_config import TruncatedGradientConfig, kernel_settings
from riata.maths import truncated_row
from riata.maths.truncated_rate import Scratch
from riata.maths.truncated_row import Rows, Table
from riata.maths.truncated_step import event_size, learn_rows
from riata.wire.batch import Batch

__all__ = ["TruncatedGradient", "TruncatedGradientConfig"]

_LINKS: Final[dict[str, Link]] = {"logistic": "logistic", "squared": "identity", "hinge": "hinge"}
_CACHE_LINE_BYTES: Final = 64
_LIST_LEN_MIN: Final = 1024


def _aligned_zeros(lines: int, width: int) -> F64:
    """A zeroed table that starts on a cache line, so that no line of it lies across two. Untouched pages cost nothing."""
    spare = _CACHE_LINE_BYTES // 8
    flat = np.zeros(lines * width + spare, np.float64)
    start = -flat.ctypes.data % _CACHE_LINE_BYTES // 8
    return flat[start : start + lines * width].reshape(lines, width)


def _scratch(features: int) -> Scratch:
    return Scratch(np.empty(features, np.uint32), *(np.empty(features) for _ in range(8)))


def _room(slots: U32, used: int, more: int) -> U32:
    """The list, or a longer copy where `more` entries would not fit."""
    if used + more <= len(slots):
        return slots
    longer = np.empty(max(2 * len(slots), used + more), np.uint32)
    longer[:used] = slots[:used]
    return longer


class TruncatedGradient:
    """Langford, Li & Zhang 2009, with one line of a table of 2^bits for each slot.

    What truncation owes to weights that no row has touched since is kept as a debt and evaluated when somebody looks.
    """

    def __init__(self, config: TruncatedGradientConfig, bits: int) -> None:
        if not BITS_MIN <= bits <= BITS_MAX:
            raise BadInput(f"bits: {bits} is not in {BITS_MIN}..{BITS_MAX}", "out_of_range")
        self.config = config
        self.bits = bits
        self._settings = kernel_settings(config, bits)
        self._scratch = _scratch(1)
        self._table = self._empty_table()

    @property
    def learnt(self) -> int:
        """Rows learnt so far; refused rows do not count."""
        return int(self._table.counts[truncated_row.LEARNT])

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        """Predict and learn the events of `batch` in order; rows where `skip` is true are predicted only."""
        skip = np.zeros(batch.n, np.bool_) if skip is None else skip
        rows = Rows(batch.indptr, batch.hash, batch.value, batch.label, batch.weight, skip)
        longest = int(np.diff(batch.indptr).max(initial=0))
        if longest > len(self._scratch.x):
            self._scratch = _scratch(2 * longest)
        self._make_room(batch.nnz)
        margin = np.empty(batch.n)
        refused = np.empty(batch.n, np.bool_)
        learn_rows(self._table, self._settings, rows, self._scratch, margin, refused)
        return Stepped(margin, refused)

    def weights(self, finalised: bool = False) -> Weights:
        """Return the non-zero weights, every truncation so far applied, without changing the state.

        finalised applies one more truncation event, of full size, as at the end of a stream: rows after the last event
        have otherwise left small weights that no truncation has seen. For the subgradient rule, which has no events, it
        sets weights below a finite ceiling to zero. A served model is not finalised: it is in the middle of its stream.
        """
        scalars = self._table.scalars
        clock = float(scalars[truncated_row.CLOCK] + scalars[truncated_row.CLOCK_LOST])
        if finalised and self.config.rule != "subgradient":
            clock += event_size(self._table, self._settings, self.learnt)
        alive = self._sorted("alive")
        slot, beta = np.empty(len(alive), np.uint32), np.empty(len(alive))
        kept = truncated_row.collect(self._table, self._settings, clock, alive, slot, beta)
        slot.resize(kept, refcheck=False)  # gives the rest back without a copy
        beta.resize(kept, refcheck=False)
        if not finalised:
            alive[:kept] = slot
            self._table.counts[truncated_row.N_ALIVE] = self._in_order["alive"] = kept
        elif self.config.rule == "subgradient" and math.isfinite(self.config.ceiling):
            large = np.abs(beta) >= self.config.ceiling
            slot, beta = slot[large], beta[large]
        return Weights(slot, beta, float(scalars[truncated_row.INTERCEPT]), _LINKS[self.config.loss], self.bits)

    def freeze(self) -> Arrays:
        """Return copies of everything that decides later answers.

        counts  : i64[1]  rows learnt
        scalars : f64[6]  clock, its rounding debt, intercept, its sum of squares, norm, importance
        slot    : u32[m]  strictly increasing: slots whose weight is not zero now
        beta    : f64[m]  weight at the last touch: with `tau`, the debt stays a debt, so no bit changes
        tau     : f64[m]  clock at the last touch
        seen    : u32[s]  adaptive only: slots that ever had a gradient; strictly increasing
        squares : f64[s]  adaptive only: sum of squared gradients
        scale   : f64[s]  normalised only: largest |x|

        A weight that truncation has brought to zero is left out: at its next touch it would be found to be zero.
        """
        table = self._table
        slot = self.weights().slot
        arrays: dict[str, F64 | I64 | U32] = {
            "counts": table.counts[:1].copy(),
            "scalars": table.scalars.copy(),
            "slot": slot,
        }
        arrays["beta"], arrays["tau"] = self._columns(slot, truncated_row.BETA)
        if self._settings.adaptive:
            arrays["seen"] = seen = self._sorted("seen").copy()
            arrays["squares"], scale = self._columns(seen, truncated_row.SQUARES)
            if self._settings.normalised:
                arrays["scale"] = scale
        return dict(arrays)

    def thaw(self, arrays: Arrays) -> None:
        """Take over a frozen state. Raises `Corrupt`, with the state as it was, where `arrays` cannot be one."""
        self._check(arrays)
        table = self._empty_table()
        slot, seen = arrays["slot"].astype(np.uint32), arrays.get("seen", np.empty(0)).astype(np.uint32)
        table.line[slot, truncated_row.BETA] = arrays["beta"]
        table.line[slot, truncated_row.TAU] = arrays["tau"]
        if self._settings.adaptive:
            table.line[seen, truncated_row.SQUARES] = arrays["squares"]
        if self._settings.normalised:
            table.line[seen, truncated_row.SCALE] = arrays["scale"]
        table.scalars[:] = arrays["scalars"]
        table.counts[:] = (int(arrays["counts"][0]), len(slot), len(seen))
        alive, seen_list = _room(table.alive, 0, len(slot)), _room(table.seen, 0, len(seen))
        alive[: len(slot)] = slot
        seen_list[: len(seen)] = seen
        self._table = table._replace(alive=alive, seen=seen_list)
        self._in_order = {"alive": len(slot), "seen": len(seen)}

    def memory(self) -> dict[str, int]:
        """Return bytes by part, in O(1).

        table is address space: pages of it that no feature fell on take no memory. checkpoint is exact right after `weights`
        or `freeze`; between them it also counts weights that have died since.
        """
        table = self._table
        lists = table.alive.nbytes + table.seen.nbytes
        counters = table.counts[:1].nbytes + table.scalars.nbytes
        weight = table.alive.itemsize + 2 * table.line.itemsize
        columns = 2 if self._settings.normalised else 1
        accumulator = table.seen.itemsize + columns * table.line.itemsize if self._settings.adaptive else 0
        n_seen = int(table.counts[truncated_row.N_SEEN])
        return {
            "table": table.line.nbytes,
            "lists": lists,
            "scratch": sum(array.nbytes for array in self._scratch),
            "checkpoint": counters + int(table.counts[truncated_row.N_ALIVE]) * weight + n_seen * accumulator,
        }

    def _empty_table(self) -> Table:
        width = 4 if self._settings.adaptive else 2  # a power of two, so that no line lies across two cache lines
        self._in_order = {"alive": 0, "seen": 0}
        return Table(
            line=_aligned_zeros(2**self.bits, width),
            alive=np.empty(_LIST_LEN_MIN, np.uint32),
            seen=np.empty(_LIST_LEN_MIN, np.uint32),
            counts=np.zeros(truncated_row.COUNTS, np.int64),
            scalars=np.zeros(truncated_row.SCALARS, np.float64),
        )

    def _make_room(self, features: int) -> None:
        """See to it that the lists can take every feature of a batch.

        Slots that died and came back are listed twice, so the first list is put in order before it grows; that pays,
        since it is then left with as much room as it holds.
        """
        counts = self._table.counts
        alive, seen = self._table.alive, self._table.seen
        if counts[truncated_row.N_ALIVE] + features > len(alive):
            self.weights()
            used = int(counts[truncated_row.N_ALIVE])
            alive = _room(alive, used, max(features, used))
        if self._settings.adaptive:
            seen = _room(seen, int(counts[truncated_row.N_SEEN]), features)
        self._table = self._table._replace(alive=alive, seen=seen)

    def _sorted(self, name: Literal["alive", "seen"]) -> U32:
        """One of the lists, put in order. Its head was in order the last time, so only the tail has to be sorted."""
        at = truncated_row.N_ALIVE if name == "alive" else truncated_row.N_SEEN
        used = (self._table.alive if name == "alive" else self._table.seen)[: self._table.counts[at]]
        if self._in_order[name] < len(used):
            truncated_row.merge_tail(used, np.sort(used[self._in_order[name] :]))
            self._in_order[name] = len(used)
        return used

    def _columns(self, slot: U32, column: int) -> tuple[F64, F64]:
        """Copies of two neighbouring columns of the table, for some slots."""
        left, right = np.empty(len(slot)), np.empty(len(slot))
        truncated_row.pick(self._table.line, slot, column, left, right)
        return left, right

    def _check(self, arrays: Arrays) -> None:
        """Raise `Corrupt` unless the names, shapes, types, order and range are those of a frozen state."""
        groups: dict[str, tuple[str, ...]] = {"slot": ("beta", "tau")}
        if self._settings.adaptive:
            groups["seen"] = ("squares", "scale") if self._settings.normalised else ("squares",)
        names = {"counts", "scalars", *groups, *(name for columns in groups.values() for name in columns)}
        if set(arrays) != names:
            raise Corrupt(f"learner state: expected arrays {sorted(names)}, got {sorted(arrays)}")
        if arrays["counts"].dtype != np.int64 or arrays["counts"].shape != (1,) or arrays["counts"][0] < 0:
            raise Corrupt("learner state: counts is not one number >= 0")
        self._check_numbers("scalars", arrays["scalars"], truncated_row.SCALARS)
        for key, columns in groups.items():
            slot = arrays[key]
            if slot.dtype != np.uint32 or slot.ndim != 1:
                raise Corrupt(f"learner state: {key} is not a list of slots")
            if len(slot) and (int(slot[-1]) >= 2**self.bits or bool((np.diff(slot.astype(np.int64)) <= 0).any())):
                raise Corrupt(f"learner state: {key} does not increase, or leaves the table of 2^{self.bits} slots")
            for name in columns:
                self._check_numbers(name, arrays[name], len(slot))

        if self._settings.normalised:
            scaled = arrays["seen"][arrays["scale"].astype(np.float64) > 0.0]
            if len(scaled) < len(arrays["seen"]) or not bool(np.isin(arrays["slot"], scaled).all()):
                raise Corrupt("learner state: a weight has no scale")

    @staticmethod
    def _check_numbers(name: str, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]], length: int) -> None:
        if array.dtype != np.float64 or array.shape != (length,):
            raise Corrupt(f"learner state: {name} is not {length} numbers")
        if not bool(np.isfinite(array.astype(np.float64)).all()):
            raise Corrupt(f"learner state: {name} holds a number that is not finite")
        if name != "beta" and name != "scalars" and bool((array.astype(np.float64) < 0.0).any()):
            raise Corrupt(f"learner state: {name} holds a number below zero")
