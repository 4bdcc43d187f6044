"""The arrays of a Taylor sketch: allocation, growth and memory accounting."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from riata.learn.slot_list import SlotList
from riata.learn.slot_table import SlotTable
from riata.learn.taylor_sketch.kernel_state import (
    COLUMNS,
    COUNTS,
    FIXED,
    GROWTH,
    HELD_NNZ,
    HYBRID,
    LEARNT,
    LOSSES,
    N_ALIVE,
    N_HELD,
    N_SEEN,
    N_WAITING,
    NOTHING,
    SCALARS,
    SCALE,
    Held,
    Members,
    Outside,
    Own,
    Scratch,
    Settings,
    Shadows,
    State,
    key_map,
    sketch_struct,
)
from riata.learn.taylor_sketch.penalties import places_for
from riata.maths.block import SIZE, grown, new_block
from riata.native.library import core

_CAP_MIN: Final = 64  # initial number of positions if features enter the block when they first appear
_HELD_MIN: Final = 64  # rows


def new_scratch(features: int) -> Scratch:
    """Return scratch for rows of at most `features` features."""
    at, slot, fresh = (np.empty(features + 1, np.uint32) for _ in range(3))  # plus one for the intercept, which is a member too
    x, y, beta, gradient, curvature, peak, gamma, after, z = (np.empty(features + 1) for _ in range(9))
    return Scratch(at, x, slot, y, beta, gradient, curvature, peak, gamma, after, fresh, z)


def new_held(rows: int, features: int) -> Held:
    """Return arrays for holding `rows` rows with `features` features in total."""
    label, weight, margin, r, h = (np.empty(rows) for _ in range(5))
    return Held(np.zeros(rows + 1, np.int64), np.empty(features, np.uint32), np.empty(features), label, weight, margin, r, h)


class TaylorState:
    """The state that the kernels work on (`arrays`), with its lists and blocks, which only Python code can grow."""

    def __init__(self, settings: Settings, bits: int, own: Own, shadow: tuple[float, ...], gamma_intercept: float) -> None:
        """Make an empty sketch.

        bits : the table has 2^bits slots, if there is one
        """
        counts = np.zeros(COUNTS, np.int64)
        scalars = np.zeros(SCALARS)
        scalars[SCALE] = 1.0
        scalars[GROWTH] = 1.0 if settings.schedule == FIXED else settings.gamma_floor
        self.alive, self.seen, self.waiting = (SlotList(counts, at) for at in (N_ALIVE, N_SEEN, N_WAITING))
        self.settings = settings
        self.gamma_intercept = gamma_intercept
        cap = min(settings.limit, _CAP_MIN) if settings.opens else settings.limit
        block = new_block(cap)
        block.counts[SIZE] = 1
        self.table = SlotTable(1 if settings.outside == NOTHING else bits, COLUMNS)
        self.arrays = State(
            members=Members(block, np.full(cap, -1, np.int64), places_for(cap)),
            outside=self._present(),
            own=own,
            held=new_held(0, 0),
            shadows=_new_shadows(shadow, cap),
            counts=counts,
            scalars=scalars,
        )
        self._sketch, self._sketch_of = sketch_struct(self.arrays), self.arrays
        self.set_penalties(settings)

    @property
    def size(self) -> int:
        """Number of positions of the block in use, including position 0 and free positions between others."""
        return int(self.arrays.members.block.counts[SIZE])

    @property
    def n_outside(self) -> int:
        """Number of slots ever seen that are not in the block."""
        inside = int((self.arrays.members.key[: self.size] >= 0).sum()) if self.settings.exchanges else 0
        return len(self.seen) - inside

    def set_penalties(self, settings: Settings) -> None:
        """Apply the penalties of other settings, and those of the shadows, to every position in use."""
        self.settings = settings
        members, own, shadows = self.arrays.members, self.arrays.own, self.arrays.shadows
        block, size = members.block, self.size
        used = members.key[:size] >= 0
        block.gamma[:size] = np.where(used, settings.gamma, 0.0)
        shadows.factor[:, :size] = np.where(used, shadows.gamma[:, None], 0.0)
        for key, gamma in zip(own.key, own.gamma, strict=True):
            at = np.flatnonzero(members.key[:size] == key)
            block.gamma[at] = gamma
            shadows.factor[:, at] = gamma
        block.gamma[0] = self.gamma_intercept
        shadows.factor[:, 0] = self.gamma_intercept

    def make_room(self, rows: int, features: int) -> None:
        """Make room in the lists and the held rows for `rows` more rows with `features` features in total. Their slots have lines
        already."""
        counts, held = self.arrays.counts, self.arrays.held
        if self.settings.outside != NOTHING:
            self.seen.make_room(features)
            if self.settings.exchanges:
                # A slot is on the waiting list at most once, so the list is never longer than the list of slots seen.
                self.waiting.make_room(len(self.seen) + features - len(self.waiting))
            if self.settings.outside == HYBRID:
                self.alive.make_room(features)
        if self.holds:
            n_rows, n_features = int(counts[N_HELD]), int(counts[HELD_NNZ])
            if n_rows + rows > len(held.label) or n_features + features > len(held.hash):
                held = _copy_held(held, n_rows, n_features, 2 * (n_rows + rows) + _HELD_MIN, 2 * (n_features + features))
        outside, before = self._present(), self.arrays.outside
        grew = any(getattr(outside, name) is not getattr(before, name) for name in ("line", "alive", "seen", "waiting"))
        if grew or held is not self.arrays.held:  # otherwise `sketch` stays as it is
            self.arrays = self.arrays._replace(held=held, outside=outside)

    @property
    def sketch(self) -> Any:
        """The `riata_sketch` of the arrays, for one call of the native core."""
        if self._sketch_of is not self.arrays:
            self._sketch, self._sketch_of = sketch_struct(self.arrays), self.arrays
        return self._sketch

    def _present(self) -> Outside:
        """The arrays of the features outside, which are others after they have grown."""
        return Outside(self.table.line, self.table.map, self.alive.slot, self.seen.slot, self.waiting.slot)

    @property
    def holds(self) -> bool:
        """Return whether the next row will be held."""
        return self.settings.reexpand > 0 or int(self.arrays.counts[LEARNT]) < self.settings.warm_up

    def let_go(self) -> None:
        """Drop the held rows, and free their memory if no more rows will be held."""
        self.arrays.counts[[N_HELD, HELD_NNZ]] = 0
        if not self.holds:
            self.arrays = self.arrays._replace(held=new_held(0, 0))

    def grow_block(self, cap: int) -> None:
        """Change to a block with room for `cap` positions."""
        members, shadows = self.arrays.members, self.arrays.shadows
        key = np.full(cap, -1, np.int64)
        key[: self.size] = members.key[: self.size]
        place = places_for(cap)
        core.fill_key_map(key_map(place), key, self.size)
        wider = _new_shadows(tuple(shadows.gamma.tolist()), cap)
        wider.beta[:, : self.size] = shadows.beta[:, : self.size]
        wider.factor[:, : self.size] = shadows.factor[:, : self.size]
        wider.loss[:] = shadows.loss
        self.arrays = self.arrays._replace(members=Members(grown(members.block, cap), key, place), shadows=wider)

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        s, block = self.arrays, self.arrays.members.block
        return {
            "table": self.table.nbytes,
            "growth": self.table.growth,
            "lists": sum(listed.slot.nbytes for listed in (self.alive, self.seen, self.waiting)),
            "block": sum(array.nbytes for array in (*block, s.members.key, s.members.place)),
            "held": sum(array.nbytes for array in s.held),
            "shadows": sum(array.nbytes for array in s.shadows),
            "own": sum(array.nbytes for array in s.own),
        }


def _new_shadows(gamma: tuple[float, ...], cap: int) -> Shadows:
    n = len(gamma)
    return Shadows(
        np.array(gamma, np.float64), np.zeros((n, cap)), np.zeros((n, cap)), np.zeros(cap), np.zeros(n), np.zeros((n, LOSSES))
    )


def _copy_held(held: Held, n_rows: int, n_features: int, rows: int, features: int) -> Held:
    longer = new_held(rows, features)
    longer.indptr[: n_rows + 1] = held.indptr[: n_rows + 1]
    for name in ("hash", "value"):
        getattr(longer, name)[:n_features] = getattr(held, name)[:n_features]
    for name in ("label", "weight", "margin", "r", "h"):
        getattr(longer, name)[:n_rows] = getattr(held, name)[:n_rows]
    return longer
