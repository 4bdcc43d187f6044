"""The state of the Taylor sketch: its form for the kernels, and its frozen form."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import F64, I64, U32, Arrays, distinct
from riata.base.errors import Corrupt
from riata.learn.feature_names import fingerprints_of
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, merged
from riata.learn.slot_table import SlotList, SlotTable
from riata.learn.taylor_config import TaylorSketchConfig
from riata.native.library import core, struct

# The arrays of a block: a quadratic in up to `cap` weights, and the rows that wait to be added to it.
#
# `service/native/taylor_sketch.c` has the theory of operation. An owner that reads `cross`, or writes to any array of the
# block, flushes it first (`core.block_flush`). A member whose numbers are all zero may be added at any time, by a larger SIZE.

ROWS: Final = 128  # rows that wait together

# Indices of Block.counts
SIZE: Final = 0  # members are at positions 0 .. SIZE - 1
PENDING: Final = 1  # waiting rows
MIRRORED: Final = 2  # 1 while the elements of `cross` below the diagonal equal those above it; affects only the time
HALT: Final = 3  # 1 once another thread does not want what is computed: solves leave early, and the block is thrown away
BLOCK_COUNTS: Final = 4

_LINE: Final = 8  # numbers in a cache line


class Block(NamedTuple):
    """Arrays of a block. In the units of the owner: G, D, H and h may all be divided by one common scale.

    beta, gradient, curvature : f64[cap]    weights; G; D without the prior
    peak                      : f64[cap]    largest x^2 seen
    gamma                     : f64[cap]    penalty factor: gamma_j in force is gamma[j] times the gamma of a solve
    cross                     : f64[cap, stride >= cap]  H for j < l, without the waiting rows; elements below the diagonal are
                                            valid only while MIRRORED is set; zero on it
    row_start                 : i64[ROWS + 1]  where each waiting row begins
    row_at, row_x             : u32, f64[ROWS * cap]  its positions and values
    row_h                     : f64[ROWS]   its h
    work                      : f64[...]    work space
    counts                    : i64[BLOCK_COUNTS] SIZE, PENDING, MIRRORED, HALT
    """

    beta: F64
    gradient: F64
    curvature: F64
    peak: F64
    gamma: F64
    cross: F64
    row_start: I64
    row_at: U32
    row_x: F64
    row_h: F64
    work: F64
    counts: I64


def zeros(*shape: int) -> F64:
    """A zeroed array aligned to a cache line: vectors that cross two cache lines cost a third of the speed."""
    count = int(np.prod(shape))
    spare = np.zeros(count + _LINE)
    start = -spare.ctypes.data // 8 % _LINE
    return spare[start : start + count].reshape(shape)


def stride_for(cap: int) -> int:
    """Length of the lines of a matrix with `cap` columns: an odd number of whole cache lines, so that elements of one column do
    not compete for the same cache sets."""
    return (-(-cap // _LINE) | 1) * _LINE


def new_block(cap: int) -> Block:
    """An empty block for up to `cap` members. Untouched memory costs nothing."""
    return Block(
        zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap), zeros(cap, stride_for(cap)),
        np.zeros(ROWS + 1, np.int64), np.zeros(ROWS * cap, np.uint32), zeros(ROWS * cap), zeros(ROWS),
        zeros(core.block_room(cap)), np.zeros(BLOCK_COUNTS, np.int64),
    )  # fmt: skip


def block_struct(block: Block) -> Any:
    """The `riata_block` of these arrays."""
    return struct("riata_block", **block._asdict(), cap=len(block.beta), stride=block.cross.shape[1])


def grown(block: Block, cap: int) -> Block:
    """A copy of `block` for up to `cap` members, `cap` >= its own capacity. It behaves like the original, to the last bit.
    With the same capacity it is a plain copy."""
    copy = new_block(cap)
    size, pending = int(block.counts[SIZE]), int(block.counts[PENDING])
    nnz = int(block.row_start[pending])
    for name in ("beta", "gradient", "curvature", "peak", "gamma"):
        getattr(copy, name)[:size] = getattr(block, name)[:size]
    copy.cross[:size, :size] = block.cross[:size, :size]
    copy.row_start[: pending + 1] = block.row_start[: pending + 1]
    copy.row_at[:nnz], copy.row_x[:nnz] = block.row_at[:nnz], block.row_x[:nnz]
    copy.row_h[:pending] = block.row_h[:pending]
    copy.counts[:] = block.counts
    return copy


def full_cross(block: Block) -> F64:
    """The cross curvature of a flushed block as a new symmetric f64[size, size] with a zero diagonal."""
    size = int(block.counts[SIZE])
    upper = np.triu(block.cross[:size, :size], 1)
    return np.asarray(upper + upper.T)


# The arguments of the Taylor sketch: settings, state and scratch. `service/native/taylor_sketch.c` has the theory of operation.
#
# A feature is identified by its key, hash >> shift. That is its slot, or its whole hash if no feature can be outside the block.

BETA: Final = 0  # columns of Outside.line
GRADIENT: Final = 1
CURVATURE: Final = 2
PEAK: Final = 3  # below zero: the slot is on the waiting list
COLUMNS: Final = 4

LEARNT: Final = 0  # entries of State.counts: rows learnt so far
N_ALIVE: Final = 1
N_SEEN: Final = 2
N_WAITING: Final = 3
N_HELD: Final = 4
HELD_NNZ: Final = 5
ENDED: Final = 6  # rows learnt at the end of the last block
SINCE: Final = 7  # blocks since the last round
COUNTS: Final = 8

SCALE: Final = 0  # entries of State.scalars: the factor from stored sums to true sums
N_EFF: Final = 1  # sum of the importance of the rows learnt, after forgetting
IMPORTANCE: Final = 2  # the same sum without forgetting
GROWTH: Final = 3  # the penalties in force are those of the settings times this
SCALARS: Final = 4

NOTHING: Final = 0  # Settings.outside: there is no table
STRICT: Final = 1  # features outside the block have no weight
HYBRID: Final = 2  # features outside the block are updated one coordinate at a time

DONE, GROW, ANEW, AGAIN = 0, 1, 2, 3  # why `core.sketch_learn` returned

WEIGHT: Final = 0  # columns of Shadows.loss: importance; importance times loss; both with decay
LOSS: Final = 1
FADED_WEIGHT: Final = 2
FADED_LOSS: Final = 3
LOSSES: Final = 4

FIXED: Final = 0  # Settings.schedule
LINEAR: Final = 1
ROOT: Final = 2


class Settings(NamedTuple):
    """The configuration in the form that the kernels take; `learn.taylor_config` describes the settings."""

    link: int
    outside: int
    opens: bool  # a feature enters the block when it first appears, while there is room
    exchanges: bool  # features enter and leave the block by merit
    intercept: bool
    shift: int  # key = hash >> shift
    limit: int  # largest number of positions of the block, including position 0, the intercept's
    block: int
    ramp: float
    rounds: int
    swaps: int
    gamma: float
    schedule: int
    gamma_events: float
    gamma_floor: float
    prior: float
    prior_by_row: bool
    lifts: bool  # the prior of a member is no more than that of the value 1 once its curvature is half its largest
    once: bool  # without `opens`, the warm-up is relinearised at its end only
    floor: float
    admit: float
    hysteresis: float
    rho: float
    burn_in: int
    power: float
    tolerance: float
    sweeps_max: int
    warm_up: int
    reexpand: int


class Members(NamedTuple):
    """The block and the keys of its members. Position 0 is the intercept's; it is empty if there is no intercept.

    key : i64[cap]    by position; -1 for the intercept and for positions that are free
    place : i64[2^n]  position of a key (`slot_map`)
    """

    block: Block
    key: I64
    place: I64


class Outside(NamedTuple):
    """Features outside the block. The line of a member stores its position p as a curvature of -1 - p. Its weight and gradient
    are zero, and its m is not zero if the slot is in `seen`.

    line : f64[lines + 1, 4]  a line for each slot, which `map` gives (`SlotTable`); unused if no feature can be outside
    alive : u32[...]       every slot whose weight may be non-zero
    seen : u32[...]        every slot that was ever outside, once
    waiting : u32[...]     once each: slots updated since the last round that had room for any
    """

    line: F64
    map: Any
    alive: U32
    seen: U32
    waiting: U32


class Own(NamedTuple):
    """Penalties of single features: gamma[i] is the penalty of key[i] before growth. `place` maps the key to i."""

    place: I64
    key: I64
    gamma: F64


class Held(NamedTuple):
    """Rows that will be relinearised, and the terms that were added for them. weight is importance divided by scale; r and h have
    to be multiplied by it. margin is the members' part of the margin that the row was linearised about."""

    indptr: I64
    hash: U32
    value: F64
    label: F64
    weight: F64
    margin: F64
    r: F64
    h: F64


class Shadows(NamedTuple):
    """Other penalties on the same sketch, s of them.

    gamma : f64[s]          before growth
    factor : f64[s, cap]    penalty of each position, before growth
    beta : f64[s, cap]      weights of the block
    gradient : f64[cap]     work
    margin : f64[s]         work
    loss : f64[s, 4]        columns WEIGHT .. FADED_LOSS
    """

    gamma: F64
    factor: F64
    beta: F64
    gradient: F64
    margin: F64
    loss: F64


class State(NamedTuple):
    """The whole state of a Taylor sketch."""

    members: Members
    outside: Outside
    own: Own
    held: Held
    shadows: Shadows
    counts: I64
    scalars: F64


class Scratch(NamedTuple):
    """Work arrays for one row: position and value of its members; slot, value, weight, G, Dhat, m, penalty and new weight of its
    features outside; key and value of the features that would enter the block."""

    at: U32
    x: F64
    slot: U32
    y: F64
    beta: F64
    gradient: F64
    curvature: F64
    peak: F64
    gamma: F64
    after: F64
    fresh: U32
    z: F64


def settings_struct(settings: Settings) -> Any:
    """The `riata_sketch_settings`."""
    return struct("riata_sketch_settings", **settings._asdict())


def scratch_struct(scratch: Scratch) -> Any:
    """The `riata_sketch_scratch`."""
    return struct("riata_sketch_scratch", **scratch._asdict())


def sketch_struct(state: State) -> Any:
    """The `riata_sketch` of these arrays."""
    members, outside, own, shadows = state.members, state.outside, state.own, state.shadows
    return struct(
        "riata_sketch",
        block=block_struct(members.block),
        key=members.key,
        members=key_map(members.place),
        own=key_map(own.place),
        line=outside.line,
        map=outside.map,
        alive=outside.alive,
        seen=outside.seen,
        waiting=outside.waiting,
        own_gamma=own.gamma,
        owns=len(own.gamma),
        **{f"held_{name}": array for name, array in state.held._asdict().items()},
        **{f"shadow_{name}": array for name, array in shadows._asdict().items()},
        shadows=len(shadows.gamma),
        counts=state.counts,
        scalars=state.scalars,
    )


def key_map(place: I64) -> Any:
    """The `riata_key_map` from keys to numbers, with open addressing."""
    return struct("riata_key_map", entry=place, size=len(place))


# Penalties of single features. A configuration names the features; a learner identifies them by key.

_FINGERPRINT_BITS: Final = 64
_PLACES_MIN: Final = 16


def places_for(keys: int) -> I64:
    """Return an empty map (`key_map`) for `keys` keys. It is at most an eighth full, so a lookup rarely needs a second probe."""
    return np.zeros(max(_PLACES_MIN, 1 << (8 * keys - 1).bit_length()), np.int64)


def own_penalties(config: TaylorSketchConfig, bits: int, hash_key: int) -> Own:
    """Return the penalties of `gamma_of` by key. If two names share a key, the later one applies."""
    width = config.slot_bits(bits)
    gamma: dict[int, float] = {}
    for own in config.gamma_of:
        for fingerprint in fingerprints_of(own.feature.encode(), hash_key):
            gamma[fingerprint >> (_FINGERPRINT_BITS - width)] = float(own.gamma)
    key = np.array(list(gamma), np.int64)
    place = places_for(len(key))
    core.fill_key_map(key_map(place), key, len(key))
    return Own(place, key, np.array(list(gamma.values()), np.float64))


# The arrays of a Taylor sketch: allocation, growth and memory accounting.

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
        self.alive, self.seen, self.waiting = (SlotList(counts, at, bits) for at in (N_ALIVE, N_SEEN, N_WAITING))
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
        grew = any(getattr(outside, name) is not getattr(before, name) for name in ("map", "alive", "seen", "waiting"))
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


# Serialisation of a Taylor sketch: its state as named arrays (`freeze`), and the state restored from them (`thaw`).
#
#     counts           i64[9]      rows learnt; positions in use; rows pending for the cross curvature, their features;
#                                  slots outside; rows held, their features; rows learnt at the end of the last block, blocks
#                                  since the last round
#     scalars          f64[4]      scale, effective importance after forgetting, total importance, growth of the penalties
#     member_key       i64[m]      by position; -1 for the intercept and for a position that is free
#     member_beta, member_gradient, member_curvature, member_peak   f64[m]
#     cross            f64[m (m - 1) / 2]   the upper triangle, row by row, without the pending rows
#     pending_start, pending_at, pending_x, pending_h   i64[w + 1], i32[f], f64[f], f64[w]   the pending rows
#     outside_slot     u32[n]      strictly increasing: slots ever seen that are not in the block
#     outside_waiting  bool[n]     whether the slot is on the waiting list of the next round
#     outside_beta, outside_gradient, outside_curvature, outside_peak   f64[n]
#     held_*           the rows held (`kernel_state.Held`)
#     shadow_beta, shadow_loss     f64[s, m], f64[s, 4]
#
# Sums are in stored units: the true sums divided by the scale. Arrays that a configuration does not use are omitted.

_COUNTS: Final = 9
_LOSS_MAX: Final = 40.0  # the loss of an event is at most -log(1e-15); the rest is a margin for rounding
_MEMBER: Final = ("beta", "gradient", "curvature", "peak")
_HELD: Final = ("label", "weight")
_HELD_AGAIN: Final = ("margin", "r", "h")  # used if rows are linearised again (`linearise_again`), not by a warm-up


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
    _check(state, arrays, bits)
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
    if int(key[0]) != -1 or int(key.min()) < -1 or int(key.max()) >= 2**bits or len(distinct(used)) < len(used):
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
        if len(distinct(row * 2**32 + entries)) < features:
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
