"""Makes `replay.log.gz`, the log that `tests/upgrades/test_bits.py` replays, and `replay.json`, what comes out of it.

    python -m tests.golden.make_replay log       the log, from a seed; once, for digests of another log prove nothing
    python -m tests.golden.make_replay digests   the digests; after ALGO_VERSION went up, and only then

Digests are kept for each arithmetic that they were made with (`maths/numerics.py`). On a processor with FMA the second command
can be run once more with GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F: then they are those of one without.
"""

from __future__ import annotations

import gzip
import json
import sys
from typing import Any, Final

import numpy as np

from riata.learn import registry
from riata.run.state.provenance import fingerprint
from riata.store import records
from riata.store.payload import encode_batch
from tests.learn.streams import cut, sparse_events, to_batch
from tests.upgrades import golden_replay

ROWS: Final = 900
SKIPPED: Final = 333  # this event is taken out by one at the end


def make_log() -> bytes:
    """Rows of words, of numbers of unlike units and of importances, in records of 1 to 60 rows, and one event that is skipped."""
    rng = np.random.default_rng(21)
    batch = to_batch(sparse_events(ROWS, seed=21, features=60, longest=12, spread=1.0))
    content, start = b"", 0
    while start < ROWS:
        stop = min(ROWS, start + int(rng.choice([1, 1, 1, 7, 20, 60])))
        payload = encode_batch(cut(batch, start, stop))
        content += golden_replay.HEAD.pack(records.KIND_CODES["observe"], stop - start, len(payload)) + payload
        start = stop
    skip = records.encode_skip(SKIPPED, "to have one in the log")
    content += golden_replay.HEAD.pack(records.KIND_CODES["skip"], 1, len(skip)) + skip
    return gzip.compress(content, mtime=0)


def rows_of(seed: int, n: int) -> list[dict[str, Any]]:
    """Rows as clients send them."""
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for _ in range(n):
        colour, size = str(rng.choice(["red", "green", "blue", "grey"])), float(np.round(rng.normal(3.0, 2.0), 2))
        words = {f"w{word}": 1.0 for word in rng.integers(0, 40, 3)}
        label = int(rng.random() < (0.8 if colour == "red" else 0.3 + 0.05 * min(max(size, 0.0), 6.0)))
        rows.append({"features": {"colour": colour, "size": size, **words}, "label": label})
    return rows


def main() -> None:
    """Write the file that is named."""
    if sys.argv[1:] == ["log"]:
        golden_replay.LOG.write_bytes(make_log())
    elif sys.argv[1:] == ["digests"]:
        found = json.loads(golden_replay.DIGESTS.read_text()) if golden_replay.DIGESTS.exists() else {}
        kept = found["digests"] if found.get("algo_version") == registry.ALGO_VERSION else {}
        document = {"algo_version": registry.ALGO_VERSION, "digests": {**kept, fingerprint(): golden_replay.digests()}}
        golden_replay.DIGESTS.write_text(json.dumps(document, indent=1) + "\n")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
