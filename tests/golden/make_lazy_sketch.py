"""Makes `lazy_sketch.bin.gz`, the checkpoint of an exact sketch some of whose gradients lack the effect of earlier moves, and
`lazy_sketch.json`, its sketch as the release that wrote it answered.

Run by the code of a release with ALGO_VERSION 2, from a checkout of it beside this one:

    git worktree add --detach ../release <commit>
    PYTHONPATH=../release/service:. python tests/golden/make_lazy_sketch.py

The files here were made at commit 16a8d95.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from riata.run.state.config import config_payload, read_config
from riata.run.state.model_state import ModelState
from riata.store import records
from riata.store.payload import encode_batch
from riata.store.store import Kind, Record
from tests.learn.streams import to_batch
from tests.twins.truncated_step import Event

GOLDEN: Final = Path(__file__).parent
LINEAGE: Final = bytes(range(16))
CONFIG: Final[dict[str, Any]] = {
    "encoder": {"bits": 12},
    "learner": {"kind": "taylor_sketch", "mode": "exact", "features_max": 140, "warm_up": 0, "block": 1, "gamma": 25.0},
}
FEATURES: Final = 135
ROWS: Final = 300


def events(seed: int, n: int) -> list[Event]:
    """Dense rows of numbers in sixteenths, so that the checkpoint is small, one feature in nine with a weight."""
    rng = np.random.default_rng(seed)
    weight = np.where(np.arange(FEATURES) % 9 == 0, 0.6, 0.0)
    x = np.round(4.0 * rng.standard_normal((n, FEATURES))) / 4.0
    label = rng.random(n) < 1.0 / (1.0 + np.exp(-(x * weight).sum(axis=1)))
    hashes = [int(hashed) for hashed in np.sort(np.random.default_rng(1).choice(2**32, FEATURES, replace=False))]
    return [Event(list(zip(hashes, row.tolist(), strict=True)), float(y)) for row, y in zip(x, label, strict=True)]


def main() -> None:
    """Learn, with a solve after every row."""
    state = ModelState("m", LINEAGE)
    seq, chain = 0, records.first_chain(LINEAGE)
    log: list[tuple[Kind, int, bytes]] = [("config", 1, config_payload(read_config(CONFIG)))]
    log.append(("observe", ROWS, encode_batch(to_batch(events(4, ROWS)))))
    for kind, count, payload in log:
        digest = records.record_digest(kind, count, 0, payload)
        chain = records.next_chain(chain, digest)
        state.apply_all([Record("m", kind, seq + 1, count, 0, payload, digest, chain)])
        seq += count
    sketch = state.learner.sketch()
    if sketch is None:
        raise RuntimeError("the learner keeps no sketch")
    frozen = state.freeze()
    print({name: array.shape for name, array in frozen.arrays.items() if "lazy" in name or "pending" in name})  # noqa: T201
    (GOLDEN / "lazy_sketch.bin.gz").write_bytes(gzip.compress(frozen.encode(), mtime=0))
    document = {"digest": frozen.digest().hex(), "beta": sketch.beta.tolist(), "gradient": sketch.gradient.tolist()}
    (GOLDEN / "lazy_sketch.json").write_text(json.dumps(document) + "\n")


if __name__ == "__main__":
    main()
