"""How the learner's defaults were chosen: each setting changed alone, and other streams that are not among the six.

The first table takes the six streams of `progressive` and changes one setting at a time. Its figures are progressive log loss
over that of the best peer, so a figure below 1 is better and 1.02 is the bound. The second has the defaults on eleven other
streams: ten public ones that were not used for tuning, and a synthetic one, very noisy, that showed a disadvantage of larger
steps. The learner runs in this process over the same hashed features that the service would give it, and keeps its step: what
choosing it from the first rows adds is measured by `own_step`.

Needs RIATA_SHARED. Takes about two minutes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress
from sklearn.metrics import roc_auc_score

from riata.learn.truncated_gradient.learner import TruncatedGradient, TruncatedGradientConfig
from riata.maths.hashing import NUMBER
from riata.native.reading import hash_of
from riata.wire.batch import Batch
from tests.bench import report
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import Score, log_loss
from tests.bench.progressive import peer_scores
from tests.bench.streams import STREAMS, Stream

BITS: Final = 22
HASH_SHIFT: Final = np.uint64(32)
KEY: Final = np.uint64(0)
MOVES: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"eta": 0.5},
    {"eta": 0.7},
    {"eta": 1.4},
    {"accumulator": 0.0},
    {"accumulator": 0.01},
    {"accumulator": 0.1},
    {"normalised": False},
    {"gravity": 0.0},
    {"gravity": 1e-5},
    {"gravity": 1e-4},
    {"ceiling": 0.05},
    {"ceiling": 0.3},
    {"ceiling": math.inf},
    {"period": 10},
    {"period": 1000},
)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A stream as one batch, how many features it has, and the lowest log loss of its peers."""

    batch: Batch
    features: int
    best: float


def encode(stream: Stream) -> tuple[Batch, int]:
    """Hash the names of a stream's events; a row's colliding features add up."""
    hashes: dict[str, int] = {}
    indptr, hash_, value = [0], [], []
    for event in stream.events:
        row: dict[int, float] = {}
        for name, x in event.pairs:
            if name not in hashes:
                hashes[name] = hash_of(name.encode(), int(KEY), NUMBER) >> int(HASH_SHIFT)
            row[hashes[name]] = row.get(hashes[name], 0.0) + x
        for key in sorted(row):
            hash_.append(key)
            value.append(row[key])
        indptr.append(len(hash_))
    n = stream.rows
    batch = Batch(
        indptr=np.array(indptr, dtype=np.int64),
        hash=np.array(hash_, dtype=np.uint32),
        value=np.array(value, dtype=np.float64),
        label=np.array([event.label for event in stream.events], dtype=np.float64),
        weight=np.ones(n),
        event_id=np.zeros((n, 16), dtype=np.uint8),
        has_id=np.zeros(n, dtype=np.bool_),
    )
    return batch, len(hashes)


def learn(config: TruncatedGradientConfig, batch: Batch) -> Score:
    """One pass, test then train."""
    learner = TruncatedGradient(config, BITS)
    margin = learner.step(batch).margin
    return Score(log_loss(margin, batch.label), float(roc_auc_score(batch.label, margin)), len(learner.weights().slot))


def encode_all(streams: Mapping[str, Callable[[], Stream]], progress: Progress, title: str) -> dict[str, Encoded]:
    """Encode streams and run their peers."""
    found = {}
    for name, read in progress.track(list(streams.items()), description=title):
        stream = read()
        batch, features = encode(stream)
        found[name] = Encoded(batch, features, min(score.log_loss for score in peer_scores(stream).values()))
    return found


def moved_table(streams: dict[str, Encoded], progress: Progress) -> str:
    """One line for each of MOVES: log loss over the best peer's, and the share of features left, for each stream."""
    rows = []
    for move in progress.track(MOVES, description="settings"):
        config = replace(TruncatedGradientConfig(), **move)
        cells = []
        for encoded in streams.values():
            score = learn(config, encoded.batch)
            cells.append(f"{score.log_loss / encoded.best:.3f} ({score.non_zeros / encoded.features:.0%})")
        label = ", ".join(f"{name} = {value:g}" for name, value in move.items()) or "**the defaults**"
        rows.append([label, *cells])
    return report.table(["moved", *streams], rows)


def held_out_table(streams: dict[str, Encoded]) -> str:
    """The defaults on each stream."""
    rows = []
    for name, encoded in streams.items():
        score = learn(TruncatedGradientConfig(), encoded.batch)
        ratio = score.log_loss / encoded.best
        rows.append([name, f"{encoded.batch.n:,}", f"{score.log_loss:.5f}", f"{encoded.best:.5f}", f"{ratio:.3f}",
                     f"{score.auc:.4f}", f"{score.non_zeros:,} of {encoded.features:,}"])  # fmt: skip
    return report.table(["stream", "rows", "log loss", "best peer", "ratio", "AUC", "non-zeros"], rows)


def main() -> int:
    """Make both tables."""
    options = report.arguments(__doc__ or "").parse_args()
    with Progress(console=Console(stderr=True)) as progress:
        moved = moved_table(encode_all(STREAMS, progress, "six streams"), progress)
        held = held_out_table(encode_all(HELD_OUT, progress, "other streams"))
    text = (
        "# How the defaults were chosen\n\n"
        "One pass, progressive log loss over that of the best peer (Vowpal Wabbit, with and without --l1 1e-6; river, scaled or "
        "not), and the share of features with a non-zero weight at the end. "
        "`tuned` is off here: every line keeps its eta.\n\n## One setting changed at a time\n\n" + moved
        + "\n## Other streams: ten that were not used for tuning, and a synthetic noisy one that showed a disadvantage of "
        "larger steps\n\n"
        + held + "\n"
        + report.conditions("python -m tests.bench.defaults", ["numpy", "river", "vowpalwabbit"])
    )  # fmt: skip
    report.publish("defaults", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
