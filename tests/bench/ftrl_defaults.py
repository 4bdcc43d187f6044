"""How the defaults of FTRL-Proximal were chosen: each setting changed alone, and rows of length one.

The first table takes the streams of `progressive` and two of long texts as they come. FTRL-Proximal's steps depend on the
units of the features, so the second has texts with every row divided by its length, as the encoder does with normalise = "l2".
The learner runs in this process over the same hashed features that the service would give it.

Needs RIATA_SHARED. Takes less than a minute.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress

from riata.learn.ftrl_proximal.learner import FtrlProximal, FtrlProximalConfig
from riata.learn.truncated_gradient.learner import TruncatedGradient, TruncatedGradientConfig
from riata.wire.batch import Batch
from tests.bench import report
from tests.bench.defaults import BITS, encode
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import log_loss
from tests.bench.streams import STREAMS

LONG_TEXTS: Final = ("lingspam", "movie_reviews")
TEXTS: Final = ("sms_spam", "reuters_earn", "rcv1_vw", "lingspam", "movie_reviews", "sentences", "zipf_noise (synthetic)")
TUNED_ON: Final = ("sms_spam", "reuters_earn", "a9a", "rcv1_vw", "ipinyou")
MOVES: Final[tuple[dict[str, Any], ...]] = (
    {},
    *({"alpha": value} for value in (0.05, 0.1, 0.2, 0.3, 0.5)),
    *({"beta": value} for value in (0.01, 0.03, 0.3, 1.0)),
    *({"l1": value} for value in (0.0, 0.03, 0.3, 0.5, 1.0)),
    *({"l2": value} for value in (0.1, 1.0)),
    {"intercept": False},
)
UNIT_ALPHAS: Final = (0.15, 0.5, 1.0, 1.5, 2.0, 4.0)

Encoded = Mapping[str, tuple[Batch, int]]


def unit_rows(batch: Batch) -> Batch:
    """The batch with every row divided by its Euclidean length."""
    rows = np.repeat(np.arange(batch.n), np.diff(batch.indptr))
    length = np.sqrt(np.bincount(rows, batch.value**2, batch.n))
    return replace(batch, value=batch.value / length[rows])


def scores(learner: type[FtrlProximal | TruncatedGradient], config: Any, streams: Encoded) -> list[tuple[float, float]]:
    """Progressive log loss, and the share of features left, of one pass over each stream."""
    found = []
    for batch, features in streams.values():
        made = learner(config, BITS)
        margin = made.step(batch).margin
        found.append((log_loss(margin, batch.label), len(made.weights().slot) / features))
    return found


def _cells(found: Sequence[tuple[float, float]]) -> list[str]:
    return [f"{loss:.4f} ({share:.0%})" for loss, share in found]


def moved_table(streams: Encoded, progress: Progress) -> str:
    """One line for each of MOVES: the mean over TUNED_ON of log loss over the defaults', then each stream."""
    tuned = [list(streams).index(name) for name in TUNED_ON]
    rows, base = [], scores(FtrlProximal, FtrlProximalConfig(), streams)
    for move in progress.track(MOVES, description="settings"):
        found = scores(FtrlProximal, FtrlProximalConfig(**move), streams)
        ratio = np.exp(np.mean([np.log(found[i][0] / base[i][0]) for i in tuned]))
        label = ", ".join(f"{name} = {value:g}" for name, value in move.items()) or "**the defaults**"
        rows.append([label, f"{ratio:.3f}", *_cells(found)])
    rows.append(["truncated gradient", "", *_cells(scores(TruncatedGradient, TruncatedGradientConfig(), streams))])
    return report.table(["moved", "mean ratio", *streams], rows)


def unit_table(streams: Encoded, progress: Progress) -> str:
    """One line for each of UNIT_ALPHAS."""
    unit = {name: (unit_rows(batch), features) for name, (batch, features) in streams.items()}
    rows = []
    for alpha in progress.track(UNIT_ALPHAS, description="rows of length one"):
        rows.append([f"alpha = {alpha:g}", *_cells(scores(FtrlProximal, FtrlProximalConfig(alpha=alpha), unit))])
    rows.append(["truncated gradient", *_cells(scores(TruncatedGradient, TruncatedGradientConfig(), unit))])
    return report.table(["", *unit], rows)


def main() -> int:
    """Make both tables."""
    options = report.arguments(__doc__ or "").parse_args()
    with Progress(console=Console(stderr=True)) as progress:
        makers = {**HELD_OUT, **STREAMS}
        wanted = list(dict.fromkeys((*STREAMS, *LONG_TEXTS, *TEXTS)))
        read = {name: encode(makers[name]()) for name in progress.track(wanted, description="streams")}
        moved = moved_table({name: read[name] for name in (*STREAMS, *LONG_TEXTS)}, progress)
        unit = unit_table({name: read[name] for name in TEXTS}, progress)
    text = (
        "# How the defaults of FTRL-Proximal were chosen\n\n"
        "One pass, progressive log loss, and the share of features with a non-zero weight at the end. The mean ratio is the "
        f"geometric mean over {', '.join(TUNED_ON)} of the log loss over that of the defaults.\n\n"
        "## One setting changed at a time\n\n" + moved
        + "\n## Texts with rows of length one\n\n" + unit + "\n"
        + report.conditions("python -m tests.bench.ftrl_defaults", ["numpy"])
    )  # fmt: skip
    report.publish("ftrl_defaults", text, write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
