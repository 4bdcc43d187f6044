"""Penalties of the Taylor sketch, stream by stream: what each loses when it is learnt, and what a shadow says that it would lose.

One pass, test then train, hybrid, over the first rows of public streams. A shadow is the loss of another penalty on the sketch of
the penalty in force, so it is an estimate: the sketch is linearised about the weights in force. Its bias is its loss over that of
a learner with that penalty.

Needs RIATA_SHARED. Takes about three minutes.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from riata.learn.registry import build_learner
from riata.learn.taylor_sketch.config import TaylorSketchConfig
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.columns import base_loss
from tests.bench.defaults import BITS, encode
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import log_loss
from tests.bench.streams import STREAMS

ROWS: Final = 6_000
GAMMAS: Final = (0.03, 0.1, 0.3, 1.0, 3.0)
IN_FORCE: Final = (0.1, 1.0)


def relearnt(rows: Batch, gamma: float) -> float:
    """The log loss of a learner with this penalty."""
    return log_loss(build_learner(TaylorSketchConfig(gamma=gamma), BITS).step(rows).margin, rows.label)


def main() -> int:
    """Learn every stream with every penalty, and write the page."""
    asked = report.arguments(__doc__ or "").parse_args()
    losses: list[list[str]] = []
    biases: list[list[str]] = []
    worse: dict[float, list[float]] = {gamma: [] for gamma in GAMMAS}
    for name, read in {**STREAMS, **HELD_OUT}.items():
        whole, _ = encode(read())
        rows = slice_rows(whole, 0, min(whole.n, ROWS))
        learnt = {
            gamma: log_loss(build_learner(TaylorSketchConfig(gamma=gamma), BITS).step(rows).margin, rows.label)
            for gamma in GAMMAS
        }
        least = min(learnt.values())
        for gamma, loss in learnt.items():
            worse[gamma].append(loss / least)
        losses.append([name, f"{base_loss(rows.label):.4f}", *(f"{loss:.4f}" for loss in learnt.values())])
        cells = [name]
        for force in IN_FORCE:
            others = tuple(gamma for gamma in GAMMAS if gamma != force)
            learner = build_learner(TaylorSketchConfig(gamma=force, shadow=others), BITS)
            learner.step(rows)
            said = {shadow.gamma: shadow.log_loss for shadow in learner.shadows()} | {force: learnt[force]}
            chosen = min(said, key=lambda gamma: said[gamma])
            cells += [f"{100.0 * (said[gamma] / learnt[gamma] - 1.0):+.1f}" for gamma in others]
            cells.append(f"{chosen:g} ({100.0 * (learnt[chosen] / least - 1.0):.1f})")
        biases.append(cells)
        sys.stderr.write(f"{losses[-1]} {cells}\n")
    losses.append(["median over the least", "", *(f"{np.median(one):.3f}" for one in worse.values())])
    losses.append(["largest over the least", "", *(f"{max(one):.3f}" for one in worse.values())])
    text = (
        "# Penalties of the Taylor sketch\n\n"
        f"Progressive log loss of hybrid at its defaults with each gamma, first {ROWS:,} rows.\n\n"
    )
    text += report.table(["stream", "base rate", *(f"gamma = {gamma:g}" for gamma in GAMMAS)], losses)
    text += (
        "\nWhat shadows say, in % above the loss of a learner with that penalty. *choice*: the penalty with the least loss that "
        "was said, and in brackets how many % a learner with it loses more than one with the best of the five.\n\n"
    )
    heads = ["stream"]
    for force in IN_FORCE:
        heads += [*(f"in force {force:g}, shadow {gamma:g}" for gamma in GAMMAS if gamma != force), "choice"]
    text += report.table(heads, biases)
    text += "\n" + report.conditions("python -m tests.bench.gammas", ["numpy"])
    report.publish("gammas", text, write=not asked.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
