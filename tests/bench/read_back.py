"""Cost of reading a checkpoint back.

Processor time and memory for checkpoints of about a million weights, each number the minimum of three:

- decoded: the bytes and the digest of their content are checked; earlier versions did only this.
- checked: the state is also thawed into a table of the size of its weights, frozen again and compared.
- whole: the state is thawed into a table of the configured size, as a start does, frozen again and compared.

*more MiB* is the maximum of the additional memory. Each figure is measured in a separate process.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.run.config import config_payload, read_config
from riata.run.generations import check_generation, thaw_generation
from riata.run.model_state import Frozen, ModelState
from riata.store import layout
from riata.store.store import Generation, Record
from riata.wire.batch import Batch
from tests.bench import report

FEATURES: Final = 50  # of a row
ROWS: Final = 2500  # learnt at a time
STATES: Final[tuple[tuple[str, dict[str, Any], int, int], ...]] = (
    ("truncated gradient", {"kind": "truncated_gradient", "gravity": 0.0}, 22, 1_300_000),
    ("truncated gradient", {"kind": "truncated_gradient", "gravity": 0.0}, 26, 1_100_000),
    ("FTRL-Proximal", {"kind": "ftrl_proximal"}, 22, 1_300_000),
    ("Taylor sketch, hybrid", {"kind": "taylor_sketch"}, 22, 1_200_000),
)
REPEATS: Final = 3


def saved(learner: dict[str, Any], bits: int, features: int) -> tuple[Generation, bytes, int]:
    """A generation of a model with this many features, its bytes, and the number of non-zero weights."""
    state = ModelState("m", bytes(16))
    payload = config_payload(read_config({"learner": learner, "encoder": {"bits": bits}}))
    state.apply(Record("m", "config", 1, 1, 0, payload, b"", bytes(20)))
    rng = np.random.default_rng(1)
    for _ in range(features // (FEATURES * ROWS)):
        hashes = np.sort(rng.integers(0, 2**32, (ROWS, FEATURES), dtype=np.uint32), axis=1)
        hashes = hashes[(np.diff(hashes.astype(np.int64), axis=1) > 0).all(axis=1)]
        n = len(hashes)
        batch = Batch(
            indptr=np.arange(0, (n + 1) * FEATURES, FEATURES, dtype=np.int64),
            hash=hashes.ravel(),
            value=np.ones(n * FEATURES),
            label=rng.integers(0, 2, n).astype(np.float64),
            weight=np.ones(n),
            event_id=np.zeros((n, 16), np.uint8),
            has_id=np.zeros(n, np.bool_),
        )
        state.apply(Record("m", "observe", state.applied + 1, n, 0, b"", b"", bytes(20)), batch)
    frozen = state.freeze()
    content = frozen.encode()
    place = (state.applied, state.chain, state.lineage)
    generation = Generation(1, 0, *place, 1, 2, 0, 1, len(content), bytes(32), frozen.digest(), False, {})
    return generation, content, len(state.learner.weights().slot)


def decode(generation: Generation, content: bytes) -> None:
    assert Frozen(*layout.decode_checkpoint(content)).digest() == generation.state_digest


WAYS: Final[dict[str, Callable[[Generation, bytes], object]]] = {
    "decoded": decode,
    "checked": check_generation,
    "whole": thaw_generation,
}


def measured(way: str, generation: Generation, content: bytes) -> tuple[float, float]:
    """Milliseconds of processor time, and MiB more than before."""
    before, most, done = resident(), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.002):
            most[0] = max(most[0], resident() - before)

    watching = threading.Thread(target=watch)
    watching.start()
    spent = []
    for _ in range(REPEATS):
        begun = time.thread_time()
        WAYS[way](generation, content)
        spent.append(1000 * (time.thread_time() - begun))
    done.set()
    watching.join()
    return min(spent), most[0]


def resident() -> float:
    """MiB of memory in use by this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def rows(learner: dict[str, Any], bits: int, features: int) -> list[str]:
    """One state's numbers."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        generation, content, weights = pool.apply(saved, (learner, bits, features))
    cells = [f"2^{bits}", f"{weights:,}", f"{len(content) / 2**20:.0f}"]
    for way in WAYS:
        with context.Pool(1) as pool:
            spent, more = pool.apply(measured, (way, generation, content))
        cells += [f"{spent:.0f}", f"{more:.0f}"]
    return cells


def main() -> None:
    """Measure, and write the page."""
    options = report.arguments(__doc__ or "").parse_args()
    heads = ["learner", "table", "weights", "checkpoint MiB"] + [f"{way} {unit}" for way in WAYS for unit in ("ms", "more MiB")]
    found = [[name, *rows(learner, bits, features)] for name, learner, bits, features in STATES]
    conditions = report.conditions("python -m tests.bench.read_back", ["numpy"])
    title, _, about = (__doc__ or "").strip().partition(".\n")
    text = f"# {title}\n{about}\n\n{report.table(heads, found)}\n{conditions}"
    report.publish("read_back", text, write=not options.no_write)


if __name__ == "__main__":
    main()
