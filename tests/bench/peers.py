"""Vowpal Wabbit in this process, one pass, test then train; and the log loss of every contender."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import numpy as np
from vowpalwabbit import Workspace

from riata.base.arrays import F64

PROBABILITY_MIN: Final = 1e-15  # log loss is clipped here, for every contender


def log_loss(margin: F64, label: F64) -> float:
    """Mean of log(1 + exp(-s margin)), s = 2 label - 1, clipped at PROBABILITY_MIN as the service clips it."""
    loss = np.logaddexp(0.0, -(2.0 * label - 1.0) * margin)
    return float(np.minimum(loss, -math.log(PROBABILITY_MIN)).mean())


def vowpal_wabbit_lines(lines: Iterable[str], options: str = "") -> tuple[list[float], int]:
    """One pass of the same over lines of its text: the margin of each before it was learnt, and the weights left at the end."""
    with tempfile.TemporaryDirectory() as folder:
        readable = Path(folder) / "model.txt"
        learner = Workspace(f"--loss_function logistic --quiet --readable_model {readable} {options}")
        margin = []
        for line in lines:
            example = learner.parse(line)
            learner.learn(example)
            margin.append(float(example.get_simplelabel_prediction()))
            learner.finish_example(example)
        learner.finish()
        return margin, _count_readable(readable)


def _count_readable(path: Path) -> int:
    """Weights of a readable model that predict with something, its constant among them.

    A line of weights is `slot:weight accumulator norm`. With --l1 the file keeps the raw weights and, as `l1_state`, the
    gravity still to be taken off each of them at prediction time.
    """
    text = path.read_text(encoding="utf-8", errors="replace")
    gravity = float(re.search(r"^l1_state (\S+)$", text, re.MULTILINE)[1])  # type: ignore[index]
    return sum(1 for weight in re.findall(r"^\d+:(\S+)(?: \S+)*$", text, re.MULTILINE) if abs(float(weight)) > gravity)
