"""What an import reads: a checkpoint of anybody's making, with the names of its weights."""

from __future__ import annotations

import contextlib
from typing import Final

import numpy as np

from riata.base.errors import BadInput
from riata.run.candidates.exports import pack_names, read_export
from riata.store import layout
from riata.wire.names import Names
from tests.fuzz.draw import Draw
from tests.fuzz.targets import state

TOKENS: Final = (b"RIATACKP",)


def one_input(data: bytes) -> None:
    """Refused as an error of the client, or accepted: then its names can be listed."""
    draw = Draw(data)
    content = draw.rest() if draw.below(4) == 3 else crafted(draw)
    with contextlib.suppress(BadInput):
        _, names = read_export(content)
        for _, text in names:
            text.decode()


def crafted(draw: Draw) -> bytes:
    """A valid state with names of the fuzzer."""
    frozen = state.frozen(draw.below(3))
    count = draw.below(5)
    lengths = np.array([draw.below(9) for _ in range(count)], np.uint32)
    marks = np.frombuffer(draw.take(8 * count).ljust(8 * count, b"\0"), np.uint64)
    size = int(lengths.sum()) + (draw.below(3) - 1 if draw.below(4) == 3 else 0)
    text = np.frombuffer(draw.take(max(size, 0)).ljust(max(size, 0), b"a"), np.uint8)
    arrays = {**frozen.arrays, **pack_names(Names.made(marks, lengths, text))}
    if draw.below(4) == 3:
        name = draw.pick(("names.fingerprint", "names.length", "names.text"))
        other = arrays[name].astype(draw.pick(("<f8", "<i8", "|u1")))
        arrays[name] = other.reshape(1, -1) if draw.below(2) else other
    if draw.below(4) == 3:
        del arrays[draw.pick(("names.fingerprint", "names.length", "names.text"))]
    return layout.encode_checkpoint(frozen.header, arrays)


def starts() -> list[bytes]:
    """With names, without, and an invalid export."""
    return [bytes([0, learner, 2, 1, 2]) + bytes(16) + b"abc" for learner in range(3)] + [b"\3", b"\3RIATACKP"]
