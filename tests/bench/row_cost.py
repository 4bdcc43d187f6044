"""What learning a row costs, for each learner: with its standards and its own step, which are the defaults, and without.

Microseconds of processor time for a row, the least of RUNS passes, rows in one batch. *before*: without the settings that older
versions lack: `tuned`, `centred` and `calibrated` of truncated gradient, `standardised` of the others. The first LATER rows
contain those that are held and learnt again. *state*: the arrays of a checkpoint after the pass, before compression.

Needs RIATA_SHARED. Takes a few minutes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np

from riata.base.document import read_document, write_document
from riata.learn.ftrl_proximal.config import FtrlProximalConfig
from riata.learn.registry import LearnerConfig, build_learner, spec_of
from riata.learn.taylor_sketch.config import TaylorSketchConfig
from riata.learn.truncated_gradient.config import TruncatedGradientConfig
from riata.wire.batch import Batch, slice_rows
from tests.bench import report
from tests.bench.defaults import BITS, encode
from tests.bench.held_out import HELD_OUT
from tests.bench.streams import STREAMS

RUNS: Final = 3
LATER: Final = 8_192  # rows after which the cost of a settled learner is measured
TIMED: Final = ("sms_spam", "reuters_earn", "a9a", "ipinyou", "uci_spambase", "adult")
LEARNERS: Final[Mapping[str, LearnerConfig]] = {
    "truncated gradient": TruncatedGradientConfig(),
    "FTRL-Proximal": FtrlProximalConfig(),
    "sketch, diag": TaylorSketchConfig(mode="diag"),
    "sketch, hybrid": TaylorSketchConfig(mode="hybrid"),
    "sketch, strict": TaylorSketchConfig(mode="strict"),
}


class Cost(NamedTuple):
    """Microseconds for one of the first rows and for one of the later rows, and KiB of the state."""

    first: float
    later: float
    state: float


def cost(config: LearnerConfig, batch: Batch) -> Cost:
    """Learn the rows some times, each time with an empty learner."""
    stop = min(LATER, batch.n)
    parts = [slice_rows(batch, 0, stop), slice_rows(batch, stop, batch.n)]
    least, state = np.full(2, np.inf), 0
    for _ in range(RUNS):
        learner = build_learner(config, BITS)
        for j, part in enumerate(parts):
            start = time.process_time_ns()
            learner.step(part)
            least[j] = min(least[j], (time.process_time_ns() - start) / 1e3 / max(part.n, 1))
        state = sum(array.nbytes for array in learner.freeze().values())
    return Cost(least[0], least[1], state / 1024)


def line_of(stream: str, learner: str, batch: Batch) -> list[str]:
    """A line of the table."""
    after = LEARNERS[learner]
    before = read_document(type(after), {**write_document(after), **spec_of(after).older})
    old, new = cost(before, batch), cost(after, batch)
    later = [f"{old.later:.2f}", f"{new.later:.2f}", f"{new.later / old.later:.2f}"] if batch.n > 1.2 * LATER else ["", "", ""]
    return [f"{stream}, {learner}", f"{old.first:.2f}", f"{new.first:.2f}", *later, f"{old.state:,.0f}", f"{new.state:,.0f}"]


def main() -> int:
    """Measure, and write the page."""
    asked = report.arguments(__doc__ or "").parse_args()
    lines, about = [], []
    for name in TIMED:
        batch, _ = encode({**STREAMS, **HELD_OUT}[name]())
        about.append(f"{name} {batch.n:,} with {batch.nnz / batch.n:.0f} features")
        for learner in LEARNERS:
            lines.append(line_of(name, learner, batch))
            sys.stderr.write(f"{lines[-1]}\n")
    heads = ["stream, learner", f"first {LATER:,}, before", "after", "later rows, before", "after", "ratio", "state KiB, before"]
    doc = (__doc__ or "").partition("\n\n")
    text = f"# {doc[0]}\n\n{doc[2].partition('Needs RIATA_SHARED')[0]}".replace("RUNS", str(RUNS)).replace("LATER", f"{LATER:,}")
    text += f"Rows: {', '.join(about)}.\n\n{report.table([*heads, 'after'], lines)}\n"
    report.publish("row_cost", text + report.conditions("python -m tests.bench.row_cost", ["numpy"]), write=not asked.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
