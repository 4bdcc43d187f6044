"""The protocol of what watches a model. `run/state/model_state.py` has the table of observers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.base.frozen_dataclass import frozen_dataclass
from riata.learn.learner import Stepped, Weights
from riata.wire.batch import Batch, in_one_piece, join_batches


@frozen_dataclass(frozen=True, slots=True)
class Rows:
    """The rows of consecutive events that were learnt in one step.

    batches : in order
    first   : number of the first event
    again   : a promotion has these events learnt a second time
    """

    batches: Sequence[Batch]
    first: int
    again: bool = False

    @property
    def whole(self) -> Batch:
        """The rows in one batch, as kernels take it."""
        return in_one_piece(self.batches[0] if len(self.batches) == 1 else join_batches(self.batches))


class Observer:
    """Watches one model. By default a method notes nothing and returns nothing.

    The state of an observer is a pure function of the calls, in order; the cut of rows into calls changes no bit of it. For the
    thread that learns.
    """

    def observe(self, rows: Rows, stepped: Stepped) -> None:
        """Note rows and what the learner predicted before it learnt them."""

    def count(self, examples: int, weights: Weights) -> None:
        """Note the weights after `examples` events: the next point of the learning curve for which weights are counted."""

    def note_digests(self, digests: Sequence[bytes]) -> None:
        """Note the digests of the records whose rows were learnt."""

    def note_source(self, source: Mapping[str, Any]) -> None:
        """Note that another state was put in place, and where it came from."""

    def carry(self, seq: int) -> None:
        """Note that event `seq` of a new log brought the state into that log."""

    def figures(self) -> Any:
        """Return what is shown; None for nothing."""
        return None

    def copy(self) -> Observer:
        """Return a copy whose figures later calls do not change. Any thread may ask it for them."""
        return self

    def memory(self) -> dict[str, int]:
        """Return bytes by part."""
        return {}

    def header(self) -> dict[str, Any]:
        """Return what the header of a checkpoint says of it."""
        return {}

    def freeze(self) -> Arrays:
        """Return a copy of the state as arrays. Together with `header` they determine every later figure to the last bit."""
        return {}

    def thaw(self, arrays: Arrays, header: Mapping[str, Any]) -> None:
        """Restore the state from `freeze` and from the header of the checkpoint.

        Raises `Corrupt`, `KeyError`, `TypeError` or `ValueError`.
        """


# Texts as two arrays, for states and editions: their bytes one after another, and the number of bytes of each.


def freeze_names(names: Iterable[str]) -> Arrays:
    """Return `length` i64[k] and `text` u8[...]."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    length = np.array([len(name) for name in encoded], np.int64)
    return {"length": length, "text": np.frombuffer(b"".join(encoded), np.uint8).copy()}


def thaw_names(arrays: Arrays, count: int, what: str) -> list[str]:
    """Return the `count` names that `freeze_names` wrote. Raises `Corrupt`, beginning with `what`."""
    length, text = arrays.get("length"), arrays.get("text")
    if length is None or length.dtype != np.int64 or length.shape != (count,):
        raise Corrupt(f"{what}: length: expected {np.dtype(np.int64)}[{count}]")
    if text is None or text.dtype != np.uint8 or length.min(initial=0) < 0 or int(length.sum()) != text.size:
        raise Corrupt(f"{what}: the names do not have their lengths")
    ends = np.cumsum(length).tolist()
    names = [text[end - size : end].tobytes() for end, size in zip(ends, length.tolist(), strict=True)]
    try:
        return [name.decode("utf-8", "surrogatepass") for name in names]
    except UnicodeDecodeError as error:
        raise Corrupt(f"{what}: a name is not UTF-8") from error
