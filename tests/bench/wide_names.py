"""The default learner alone on rows of names out of ever more: processor time a row, and its slowest body, as the table grows.

Bodies of 1000 rows of 50 names each, from nothing. Processor time counts, so other work on the machine matters less.
"""

from __future__ import annotations

import sys
import time
from typing import Final

import numpy as np

from riata.learn.registry import build_learner
from riata.run.state.config import read_config
from riata.wire.batch import Batch

BODIES: Final = 60
ROWS: Final = 1000
FEATURES: Final = 50
BITS: Final = 22
VOCABULARIES: Final = (10**4, 10**5, 10**6, 10**7)
ROUNDS: Final = 3


def bodies(names: int) -> list[Batch]:
    """Rows of names out of so many, drawn evenly."""
    rng = np.random.default_rng(names)
    hashes = rng.integers(0, 2**32, names, dtype=np.uint32)
    ends, ids = np.arange(0, ROWS * FEATURES + 1, FEATURES), np.zeros((ROWS, 16), np.uint8)
    label, one, none = rng.integers(0, 2, (BODIES, ROWS)).astype(np.float64), np.ones(ROWS * FEATURES), np.zeros(ROWS, np.bool_)
    drawn = [np.sort(hashes[rng.integers(0, names, (ROWS, FEATURES))], axis=1).ravel() for _ in range(BODIES)]
    return [Batch(ends, some, one, y, one[:ROWS], ids, none) for some, y in zip(drawn, label, strict=True)]


def body_us(batches: list[Batch]) -> list[float]:
    """Processor time of each body, microseconds a row."""
    learner, found = build_learner(read_config({"learner": {"shapes": "off"}}).learner, BITS), []
    for batch in batches:
        before = time.thread_time()
        learner.step_all([batch])
        found.append(1e6 * (time.thread_time() - before) / ROWS)
    return found


def main() -> int:
    """Print the median of the rounds for each vocabulary."""
    for names in VOCABULARIES:
        batches = bodies(names)
        rounds = [body_us(batches) for _ in range(ROUNDS)]
        mean, slowest = np.median([np.mean(one) for one in rounds]), np.median([max(one) for one in rounds])
        sys.stdout.write(f"{names:>10,} names: {mean:.2f} µs a row, slowest body {slowest:.1f} µs a row\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
