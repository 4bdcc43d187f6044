"""One pass of Vowpal Wabbit over a file of its text, in a separate process.

Called as `python -m tests.bench.budget_vw FILE MARKS OPTIONS` by the runs that need it. MARKS are numbers of events, by commas.
Writes one line of JSON: the sum of the log losses up to each mark, and the non-zeros.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np

from riata.base.arrays import F64
from tests.bench.peers import PROBABILITY_MIN, vowpal_wabbit_lines


def losses(margin: F64, label: F64) -> F64:
    """log(1 + exp(-s margin)), s = 2 label - 1, clipped as the service clips it; the clip value if a margin is not a number."""
    cost = -(2.0 * label - 1.0) * margin
    loss = np.logaddexp(0.0, np.where(np.isnan(cost), np.inf, cost))
    return np.minimum(loss, -math.log(PROBABILITY_MIN))


def main() -> int:
    """Learn the file and print the losses."""
    path, marks, options = sys.argv[1:]
    with Path(path).open(encoding="utf-8") as lines:
        label = np.array([not line.startswith("-1") for line in lines], dtype=np.float64)
    with Path(path).open(encoding="utf-8") as lines:
        margin, non_zeros = vowpal_wabbit_lines((line.rstrip("\n") for line in lines), options)
    loss = losses(np.array(margin), label)
    sums = [float(loss[: int(mark)].sum()) for mark in marks.split(",")]
    sys.stdout.write(json.dumps({"loss": sums, "non_zeros": non_zeros}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
