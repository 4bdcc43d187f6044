"""The smallest learner that shows loss, repetition and reordering of events: four floats and a digest of all events.

It stands where `run.state.model_state` takes `build_learner` and `Progressive`: everything around them is production code.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from riata.base.arrays import BOOL, U32, Arrays
from riata.base.errors import Corrupt
from riata.learn.learner import Learner, Stepped, Weights
from riata.run.state import model_state
from riata.watch.observer import Observer, Rows
from riata.watch.progressive import ProgressiveConfig
from riata.wire.batch import Batch
from tests.simulation.releases import here, keep_of

SLOTS: Final = 4
DIGEST_BYTES: Final = 16
BITS: Final = 12  # as the simulation's model is configured


class Toy(Learner):
    """A learner of `SLOTS` floats. keep : the share of a weight that it keeps at each event; None: that of the release"""

    def __init__(self, keep: float | None = None) -> None:
        self.keep = keep
        self.beta: list[float] = [0.0] * SLOTS
        self.digest = bytes(DIGEST_BYTES)
        self.count = 0

    def step(self, batch: Batch, skip: BOOL | None = None) -> Stepped:
        refused = np.zeros(batch.n, np.bool_) if skip is None else skip.copy()
        margin = np.zeros(batch.n)
        hashes, values, labels = batch.hash.tolist(), batch.value.tolist(), batch.label.tolist()
        ids, starts = batch.event_id.tobytes(), batch.indptr.tolist()
        for row in range(batch.n):
            margin[row] = self.beta[0]
            if not refused[row]:
                at = starts[row]
                self.learn(ids[16 * row : 16 * row + 16], hashes[at], values[at], labels[row])
        return Stepped(margin, refused, batch.label, batch.weight, int(refused.sum()))

    def learn(self, key: bytes, hashed: int, value: float, label: float) -> None:
        """Learn one event of one feature."""
        slot, keep = hashed % SLOTS, keep_of(here()) if self.keep is None else self.keep
        self.beta[slot] = self.beta[slot] * keep + value * (1.0 if label else -1.0)
        self.digest = hashlib.blake2b(self.digest + key + b"%d %d" % (hashed, label), digest_size=DIGEST_BYTES).digest()
        self.count += 1

    def expect(self, _hashes: U32) -> None:
        return

    def freeze(self) -> Arrays:
        return {
            "beta": np.array(self.beta),
            "digest": np.frombuffer(self.digest, np.uint8).copy(),
            "count": np.array([self.count], np.int64),
        }

    def thaw(self, arrays: Arrays) -> None:
        try:
            self.beta = arrays["beta"].tolist()
            self.digest = arrays["digest"].tobytes()
            self.count = int(arrays["count"][0])
        except (KeyError, IndexError) as error:
            raise Corrupt(f"toy: {error!r}") from error

    def weights(self) -> Weights:
        beta = np.array(self.beta)
        slot: U32 = np.flatnonzero(beta).astype(np.uint32)
        return Weights(slot, beta[slot], 0.0, "logistic", BITS)

    def memory(self) -> dict[str, int]:
        return {"toy": 8 * SLOTS}


class Counted(Observer):
    """`Progressive` that only counts."""

    config: Final = ProgressiveConfig()
    until_count: Final = 2**31
    awaits_count: Final = False

    def __init__(self, _config: Any = None) -> None:
        self.examples = 0

    def observe(self, _rows: Rows, stepped: Stepped) -> None:
        self.examples += len(stepped.refused) - int(stepped.refused.sum())

    def tally(self) -> int:
        return self.examples

    def since(self, before: int, now: int) -> dict[str, Any]:
        return {"examples": now - before}

    def figures(self) -> dict[str, Any]:
        horizon = {"log_loss": 0.5, "base_rate": 0.5, "auc": None}
        return {
            "cumulative": {"examples": self.examples, **horizon},
            "faded": {"half_life": 1, **horizon},
            "window": {"examples": self.examples, **horizon},
            "calibration": [],
        }

    def history(self, since: int = 0) -> list[dict[str, Any]]:  # noqa: ARG002
        return []

    def copy(self) -> Counted:
        return copy.copy(self)

    def memory(self) -> dict[str, int]:
        return {"count": 8}

    def freeze(self) -> Arrays:
        return {"examples": np.array([self.examples], np.int64)}

    def thaw(self, arrays: Arrays, _header: Any) -> None:
        if "examples" not in arrays:
            raise Corrupt("toy: no count")
        self.examples = int(arrays["examples"][0])


@contextlib.contextmanager
def learning_toys(keep: Callable[[Any], float | None] = lambda _config: None) -> Iterator[None]:
    """Let every model learn with `Toy`, whatever its configuration. keep : by the configuration of a learner, as in `Toy`"""
    module: Any = model_state
    before = module.build_learner, module.Progressive
    module.build_learner = lambda config, *_: Toy(keep(config))
    module.Progressive = Counted
    try:
        yield
    finally:
        module.build_learner, module.Progressive = before
