"""Figures, drift, trees and batch solvers under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

from collections.abc import Callable

WATCH = """
import numpy as np
from riata.watch.figures import ranked_auc
from riata.learn.learner import Stepped
from riata.maths.links import LINKS
from riata.maths.links import log_losses
from riata.trees.curves import curve_variable
from riata.lab.growing import Growth, grow
from riata.watch.class_progressive import ClassProgressive
from riata.watch.drift import DriftDetector
from riata.watch.observer import Rows
from riata.watch.progressive import Progressive, ProgressiveConfig
from riata.wire.batch import Batch

rng = np.random.default_rng(5)
for n in (0, 1, 7, 8, 9, 63, 64, 65, 900):
    margin, label, no = 5.0 * rng.normal(size=n), (rng.random(n) < 0.3).astype(np.float64), np.zeros(n, np.bool_)
    margin[::5] = rng.choice([np.nan, np.inf, -np.inf, 1e9, -2048.0, -0.0], len(margin[::5]))
    ends = np.arange(n + 1) * 2
    hashes, ids = rng.integers(0, 2**32, 2 * n, np.uint32), np.zeros((n, 16), np.uint8)
    batch = Batch(ends, hashes, np.ones(2 * n), label, np.ones(n), ids, no)
    for answers in LINKS:
        found = Progressive(ProgressiveConfig(answers, half_life=2, window=50))
        found.add(margin, label, np.ones(n), no, 1)
        found.figures()
        DriftDetector(answers, 0).observe(Rows([batch], 1), Stepped(margin, no, label, np.ones(n), 0))
    classes = ClassProgressive(ProgressiveConfig(half_life=2, window=50), ("a", "b"))
    classes.add(np.stack([margin, -margin], axis=1), label, np.ones(n), no, 1)
    classes.figures()
    ranked_auc(np.sort(margin), label, np.ones(n))
    log_losses(margin, no, label, np.ones(n))
for distance in ("dtw", "euclid"):
    for window in (None, 0, 3):
        lengths = [6] * 20 if distance == "euclid" else rng.integers(1, 40, 20)
        rows = [curve_variable("x", [rng.normal(size=int(m)).tolist() for m in lengths], distance, window)]
        grow(rows, np.arange(20) % 3, ["a", "b", "c"], Growth(restarts=3, prune=0.1)).predict(rows)
print("watched")
"""

SOLVE = """
import numpy as np
from riata.lab.batch.choose import CLASSES
from riata.wire.groups import Grouping
from riata.wire.solver_options import SOLVERS
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.lab.batch.segment_data import SlotCounts
from riata.lab.batch.rmmp import Rmmp
from riata.lab.batch.run_search import RunLasso
from tests.batch.designs import data_of, sparse_design

rng = np.random.default_rng(6)
for n, d, density in ((2, 1, 1.0), (9, 8, 1.0), (65, 12, 0.3), (300, 40, 0.2)):
    x, y = sparse_design(n, d, n, density)
    y[:2] = 0.0, 1.0
    for link in ("logistic", "probit"):
        problem = Problem(data_of(x, y), link, 0.5)
        for name, make in CLASSES.items():
            if link == "logistic" or name in ("rmmp", "shotgun"):
                make(**({"machines": 2} if "machines" in SOLVERS[name].settings else {})).solve(problem, Serial())
        Rmmp(held_bytes_max=0).solve(problem, Serial())
        RunLasso(Grouping(), (0.5,), (0.0,)).solve(problem, Serial())
    counts = SlotCounts(12)
    hashes = np.sort(rng.integers(0, 2**32, (n, 9), np.uint32), axis=1).ravel()
    counts.add(np.arange(n + 1) * 9, hashes, np.ones(n, np.bool_))
    counts.ranked().rows(np.arange(n + 1) * 9, hashes, np.ones(9 * n))
print("solved")
"""


def test_figures_and_trees_touch_nothing_outside_their_arrays_and_do_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(WATCH) == "watched\n"


def test_batch_solvers_touch_nothing_outside_their_arrays_and_do_nothing_undefined(sanitised: Callable[[str], str]) -> None:
    assert sanitised(SOLVE) == "solved\n"
