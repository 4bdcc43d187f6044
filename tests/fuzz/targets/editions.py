"""Editions, which followers take from the store: true ones, a few of their parts changed, signed again."""

from __future__ import annotations

import functools
from typing import Any, Final

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.run.cluster.editions import decode_edition, encode_edition
from riata.run.state.config import read_stored, stored_document
from riata.run.state.model_state import ModelState
from riata.run.writer.published import Curvature, publish
from riata.store import layout
from tests.doubles.manual_clock import ManualClock
from tests.fuzz.draw import Draw
from tests.fuzz.targets import state

TOKENS: Final = (b"RIATACKP",)
CLOCK: Final = ManualClock(10_000)


@functools.cache
def edition(learner: int) -> bytes:
    """A valid edition of one of the learners of `state`."""
    thawed = ModelState.of(state.frozen(learner).encode())
    curvature = Curvature()
    curvature.refresh(thawed, CLOCK)
    return encode_edition(publish(thawed, 3, 7, CLOCK, curvature.covariance))


def one_input(data: bytes) -> None:
    """Refused as `Corrupt`, or a model that predicts and encodes to the same bytes."""
    draw = Draw(data)
    content = draw.rest() if draw.below(8) == 7 else crafted(draw)
    if content is None:
        return
    try:
        published = decode_edition(content, CLOCK)
    except Corrupt as error:
        if error.code != "edition_corrupt":
            raise
        return
    if encode_edition(published) != completed(content):
        raise AssertionError("an edition was read that was never written")
    with np.errstate(all="ignore"):
        scored = published.model.score(state.rows(9, 10))
    if np.isnan(scored.margin).any():
        raise AssertionError("a margin is no number")


def completed(content: bytes) -> bytes:
    """The same with the configuration as this program stores it."""
    header, arrays = layout.decode_checkpoint(content)
    return layout.encode_checkpoint({**header, "config": stored_document(read_stored(header["config"]))}, arrays)


def crafted(draw: Draw) -> bytes | None:
    """A valid edition, changed up to four times; None if it cannot be encoded."""
    header, arrays = changed(draw)
    try:
        return layout.encode_checkpoint(header, arrays)
    except BadInput:
        return None


def changed(draw: Draw) -> tuple[dict[str, Any], Arrays]:
    """Header and arrays."""
    header, arrays = layout.decode_checkpoint(edition(draw.below(len(state.LEARNERS))))
    for _ in range(draw.below(5)):
        if draw.below(3) < 2:
            state.change_header(draw, header)
        else:
            state.change_array(draw, arrays)
    return header, arrays


def starts() -> list[bytes]:
    """Every learner unchanged, and with one change."""
    learners = range(len(state.LEARNERS))
    return [bytes([0, learner]) for learner in learners] + [bytes([0, learner, 1, 2, 3, 9, 9]) for learner in learners]
