"""The arguments of the Taylor sketch: settings, state and scratch. `service/native/taylor_sketch.c` has the theory of operation.

A feature is identified by its key, hash >> shift. That is its slot, or its whole hash if no feature can be outside the block.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from riata.base.arrays import F64, I64, U32
from riata.maths.block import Block, block_struct
from riata.native.library import struct

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
    """The configuration in the form that the kernels take; `learn.taylor_sketch.config` describes the settings."""

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
