"""The state inside a checkpoint: true states of every learner, a few of their parts changed, signed again."""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.run.state.config import Change, read_config
from riata.run.state.model_state import Frozen, ModelState
from riata.store import layout, records
from riata.store.payload import encode_batch
from riata.store.store import Record
from riata.wire.batch import Batch
from tests.fuzz.draw import Draw

LINEAGE: Final = bytes(range(16))
SKETCH: Final[dict[str, Any]] = {"kind": "taylor_sketch", "block": 8, "gamma": 0.01}
LEARNERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"kind": "truncated_gradient", "rate": "adaptive", "gravity": 1e-4},
    {"kind": "ftrl_proximal"},
    {**SKETCH, "k": 5, "warm_up": 10, "shadow": [0.1]},
    {**SKETCH, "mode": "strict", "k": 5, "warm_up": 0},
    {**SKETCH, "mode": "exact", "features_max": 30, "warm_up": 100, "reexpand": 50},
)
NUMBERS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1e300, -1e300, 5e-324, float("inf"), float("nan"), 2.0**31, 2.0**53, 2.0**63, 1e6)
INTEGERS: Final = (0, 1, -1, 2, 7, 8, 100, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**53, 2**63 - 1, -(2**63), 4095, 4096, 10**30)
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, "", "x", "infinite", "taylor_sketch", [], {}, [1], "ff", "00" * 20, "\ud800", 0.5, -1.5, 1e300, *INTEGERS,
)  # fmt: skip
TOKENS: Final = ()


def rows(seed: int, n: int) -> Batch:
    """A few dozen names, with labels that depend on some of them."""
    rng = np.random.default_rng(seed)
    names = np.sort(rng.choice(2**32, 40, replace=False)).astype(np.uint32)
    drawn = [np.sort(rng.choice(40, int(rng.integers(0, 7)), replace=False)) for _ in range(n)]
    return Batch(
        indptr=np.cumsum([0, *map(len, drawn)]).astype(np.int64),
        hash=np.concatenate([names[d] for d in drawn]).astype(np.uint32),
        value=rng.normal(size=sum(map(len, drawn))),
        label=np.array([float(bool((d < 12).any())) for d in drawn]),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), np.uint8),
        has_id=np.zeros(n, np.bool_),
    )


def observed(state: ModelState, batch: Batch) -> Record:
    """The record of a batch that follows `state`, with the right position."""
    payload = encode_batch(batch)
    digest = records.record_digest("observe", batch.n, 0, payload)
    return Record("m", "observe", state.applied + 1, batch.n, 0, payload, digest, records.next_chain(state.chain, digest))


@functools.cache
def frozen(learner: int) -> Frozen:
    """A state of one of LEARNERS after some events."""
    state = ModelState("m", LINEAGE)
    config = read_config({"learner": LEARNERS[learner], "encoder": {"bits": 12}})
    payload = Change(config).payload()
    digest = records.record_digest("config", 1, 0, payload)
    state.apply(Record("m", "config", 1, 1, 0, payload, digest, records.next_chain(state.chain, digest)))
    state.apply(observed(state, rows(5, 60)))
    return state.freeze()


def one_input(data: bytes) -> None:
    """Refused as `Corrupt`, or a state that agrees with its checkpoint and continues to learn."""
    header, arrays = changed(Draw(data))
    try:
        content = layout.encode_checkpoint(header, arrays)
    except BadInput:
        return  # not even a crafted file can say this
    with contextlib.suppress(Corrupt):
        live(ModelState.of(content), header)


def live(state: ModelState, header: dict[str, Any]) -> None:
    """An accepted state can be written and read again, served, and trained."""
    again = state.freeze()
    for key in ("model", "lineage", "applied", "chain", "skipped", "restored"):
        if type(again.header[key]) is not type(header[key]) or again.header[key] != header[key]:
            raise AssertionError(f"{key} is not what was written")
    thawed = ModelState.of(again.encode()).freeze()
    if thawed.encode() != again.encode():
        raise AssertionError("a state does not come back")
    state.learner.sketch()
    state.learner.shadows()
    state.progressive.memory()
    with np.errstate(all="ignore"):  # numbers near the largest: what they make of the model is looked at below
        state.apply(observed(state, rows(9, 30)))
    weights = state.learner.weights()
    if not np.isfinite(weights.beta).all() or not np.isfinite(weights.intercept):
        raise AssertionError("a weight is not finite")
    state.freeze().encode()


def changed(draw: Draw) -> tuple[dict[str, Any], Arrays]:
    """A valid state, changed up to four times."""
    true = frozen(draw.below(len(LEARNERS)))
    header, arrays = layout.decode_checkpoint(true.encode())
    for _ in range(draw.below(5)):
        if draw.below(4) == 0:
            change_header(draw, header)
        else:
            change_array(draw, arrays)
    return header, arrays


def change_header(draw: Draw, header: dict[str, Any]) -> None:
    """Remove a key, add one, or give one another value, at any depth."""
    at: Any = header
    while True:
        keys = sorted(at)
        key = keys[draw.below(len(keys))]
        if not isinstance(at[key], dict) or not at[key] or draw.below(8) == 7:
            break
        at = at[key]
    how = draw.below(4)
    if how == 0:
        del at[key]
    elif how == 1:
        at["new"] = draw.pick(VALUES)
    else:
        at[key] = draw.pick(VALUES)


def change_array(draw: Draw, arrays: Arrays) -> None:
    """Remove an array, add one, or give one another shape, type or elements."""
    if not arrays:
        return
    name = draw.pick(sorted(arrays))
    array = arrays[name]
    how = draw.below(10)
    if how == 0:
        del arrays[name]
    elif how == 1:
        arrays["learner.new"] = array
    elif how == 2:
        arrays[name] = np.resize(array, draw.below(2 * array.size + 2)).astype(array.dtype)
    elif how == 3:
        arrays[name] = array.astype(draw.pick([np.dtype(kind) for kind in sorted(layout.DTYPES)]))
    elif how == 4:
        arrays[name] = array.reshape(1, -1) if draw.below(2) else array.reshape(-1)
    elif how == 5:
        arrays[name] = frozen(draw.below(len(LEARNERS))).arrays.get(name, array)
    elif array.size:
        _change_elements(draw, array.reshape(-1), how)


def _change_elements(draw: Draw, flat: NDArray[Any], how: int) -> None:
    at = draw.below(flat.size)
    if how == 6:
        other = draw.below(flat.size)
        flat[at], flat[other] = flat[other], flat[at]
    elif how == 7:
        raw = draw.take(flat.itemsize).ljust(flat.itemsize, b"\0")
        flat[at] = np.frombuffer(bytes([raw[0] & 1]) if flat.dtype == np.bool_ else raw, flat.dtype)[0]
    elif flat.dtype.kind == "f":
        flat[at] = draw.pick(NUMBERS)
    else:
        with contextlib.suppress(OverflowError):
            flat[at] = draw.pick(INTEGERS)


def starts() -> list[bytes]:
    """Every learner unchanged, and with one change."""
    return [bytes([learner]) for learner in range(len(LEARNERS))] + [bytes([learner, 1, 1, 9, 9, 9]) for learner in range(6)]
