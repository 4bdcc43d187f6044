"""The default learner with `tuned` and without, beside the best of a grid of settings of Vowpal Wabbit and river.

One pass, test then train, over the first rows of public streams. The best of the grid is chosen in hindsight, for each stream.
The calibration is measured after the first 5,000 events, over the whole stream.

Needs RIATA_SHARED, and `make vw`. Takes about twenty minutes.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from river import linear_model, optim, preprocessing
from river.optim.base import Optimizer

from riata.base.arrays import F64
from riata.learn.registry import build_learner, spec_of
from riata.learn.truncated_gradient.config import TruncatedGradientConfig
from riata.wire.batch import Batch
from tests.bench import report
from tests.bench.aside import ASIDE
from tests.bench.columns import CELLS, base_loss
from tests.bench.defaults import BITS, encode
from tests.bench.held_out import HELD_OUT
from tests.bench.peers import PROBABILITY_MIN, log_loss
from tests.bench.streams import STREAMS, Event, Stream

VW: Final = Path(__file__).resolve().parents[2] / ".vw" / "vw"
ROWS: Final = 10_000
RIVER_FEATURES_MAX: Final = 1_000  # of a stream: some of its optimisers visit every weight in each row
SETTLED: Final = 5_000
AFTER_MIN: Final = 3_000
BEFORE: Final = 7  # cell of a line that has the ratio without `tuned`, before that with it
CLICKS: Final = ("ipinyou", "criteo")

VW_GRID: Final = (
    *(f"-l {rate:g}{more}" for rate in (0.1, 0.5, 1.5, 5, 15) for more in ("", " --power_t 0.3", " --l1 1e-5")),
    *(f"--ftrl --ftrl_alpha {alpha:g}" for alpha in (0.02, 0.1, 0.5, 2)),
    "--coin",
)
RIVER_GRID: Final = {
    f"{kind.__name__}({rate:g})": (kind, rate)
    for kind, rate in (
        (optim.SGD, 0.1),
        (optim.AdaGrad, 0.3),
        (optim.Adam, 0.003),
        (optim.Adam, 0.03),
        (optim.FTRLProximal, 0.1),
    )
}


def first(stream: Stream) -> list[Event]:
    return stream.events[:ROWS]


def vw_losses(events: list[Event], label: F64) -> dict[str, float]:
    """Log loss of each setting of Vowpal Wabbit."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        rows, margins = Path(folder) / "rows.vw", Path(folder) / "margins"
        rows.write_text("".join(event.vw() + "\n" for event in events), encoding="utf-8")
        for options in VW_GRID:
            where = ["-d", str(rows), "-p", str(margins), "-b", str(BITS)]
            subprocess.run([str(VW), "--quiet", "--loss_function", "logistic", *where, *options.split()], check=True)
            margin = np.array([float(line.split()[0]) for line in margins.read_text().splitlines()])
            found[f"VW {options}"] = log_loss(margin, label) if np.isfinite(margin).all() else math.inf
    return found


def river_loss(events: list[Event], label: F64, optimizer: Optimizer, scaled: bool) -> float:
    """Log loss of river's logistic regression; infinite if it leaves the finite numbers."""
    model = linear_model.LogisticRegression(optimizer=optimizer)
    pipeline = preprocessing.StandardScaler() | model if scaled else model
    margin = []
    for event in events:
        row = event.river()
        probability = pipeline.predict_proba_one(row).get(True, 0.5)
        if math.isnan(probability):
            return math.inf
        probability = min(max(probability, PROBABILITY_MIN), 1.0 - PROBABILITY_MIN)
        margin.append(math.log(probability / (1.0 - probability)))
        pipeline.learn_one(row, bool(event.label))
    return log_loss(np.array(margin), label)


def river_losses(events: list[Event], label: F64) -> dict[str, float]:
    """Log loss of each setting of river, with its scaler and without."""
    return {
        f"river {name}{', scaled' if scaled else ''}": river_loss(events, label, kind(rate), scaled)
        for name, (kind, rate) in RIVER_GRID.items()
        for scaled in (False, True)
    }


def calibration(margin: F64, label: F64) -> str:
    """Calibration error after SETTLED events, in brackets what chance alone would leave; empty if few events follow."""
    if len(label) < SETTLED + AFTER_MIN:
        return ""
    p, y = 1.0 / (1.0 + np.exp(-margin[SETTLED:])), label[SETTLED:]
    cell = np.minimum((p * CELLS).astype(np.int64), CELLS - 1)
    error = abs(np.bincount(cell, p - y, CELLS)).sum() / len(y)
    chance = np.sqrt(2.0 / np.pi * np.bincount(cell, p * (1.0 - p), CELLS)).sum() / len(y)
    return f"{error:.3f} ({chance:.3f})"


def margins(batch: Batch, tuned: bool) -> tuple[F64, str]:
    """The margins of the default before learning, and the settings that it has at the end."""
    learner = build_learner(TruncatedGradientConfig(tuned=tuned), BITS)
    margin = learner.step(batch).margin
    chosen = spec_of(TruncatedGradientConfig()).chosen(learner)
    return margin, f"{chosen['eta']:.3g}{', counts' if chosen['scale'] == 'counts' else ''}" if chosen else ""


def line_of(name: str, stream: Stream) -> list[str]:
    """The cells of one stream, after its name."""
    batch, features = encode(stream)
    (before, _), (after, chosen) = (margins(batch, tuned) for tuned in (False, True))
    events, label = first(stream), batch.label[:ROWS]
    plain, own = (log_loss(margin[:ROWS], label) for margin in (before, after))
    vw = vw_losses(events, label)
    river = river_losses(events, label) if features <= RIVER_FEATURES_MAX else {}
    best = min({**vw, **river}.items(), key=lambda pair: pair[1])
    others = [f"{min(found.values()):.4f}" if found else "" for found in (vw, river)]
    ratios = [f"{loss / best[1]:.3f}" for loss in (plain, own)]
    errors = [calibration(margin, batch.label) for margin in (before, after)]
    return [name, f"{base_loss(label):.4f}", f"{plain:.4f}", f"{own:.4f}", *others, best[0], *ratios, chosen, *errors]


def losses(streams: dict[str, Callable[[], Stream]], done: Path) -> tuple[str, str]:
    """A table with a line for each stream, and a sentence about it. Lines are kept in the file `done`."""
    lines: dict[str, list[str]] = json.loads(done.read_text()) if done.exists() else {}
    for name, read in streams.items():
        if name not in lines:
            lines[name] = line_of(name, read())
            done.write_text(json.dumps(lines))
            sys.stderr.write(f"{lines[name]}\n")
    heads = ["stream", "base rate", "before", "after", "best of VW", "best of river", "best setting"]
    heads += ["before / best", "after / best", "chosen", "calibration before", "after"]
    ratios = np.array([[float(cell) for cell in lines[name][BEFORE : BEFORE + 2]] for name in streams]).T
    said = "; ".join(
        f"{when}: median {np.median(values):.3f}, at most {values.max():.3f}, above 1.02 on {sum(values > 1.02)} of {len(values)}"
        for when, values in zip(("before", "after"), ratios, strict=True)
    )
    return report.table(heads, [lines[name] for name in streams]), said


def tenths() -> tuple[str, str]:
    """A table of the sum of the probabilities over that of the labels in each tenth of the streams of clicks, and a sentence."""
    lines, within = [], 0
    for name in CLICKS:
        batch, _ = encode({**STREAMS, **HELD_OUT}[name]())
        p = 1.0 / (1.0 + np.exp(-margins(batch, tuned=True)[0]))
        cells = []
        for tenth, label in zip(np.array_split(p, 10), np.array_split(batch.label, 10), strict=True):
            ratio, chance = tenth.sum() / label.sum(), math.sqrt(float((tenth * (1.0 - tenth)).sum())) / label.sum()
            within += abs(ratio - 1.0) <= 2.0 * chance
            cells.append(f"{ratio:.2f} ({chance:.2f})")
        lines.append([name, f"{batch.label.sum():.0f}", f"{p.sum() / batch.label.sum():.3f}", *cells])
    heads = ["stream", "clicks", "all", *(str(tenth) for tenth in range(1, 11))]
    return report.table(heads, lines), f"{within} of {10 * len(CLICKS)} tenths are within two standard errors of 1."


def main() -> int:
    """Run the grids, and write the page."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--done", type=Path, help="file with the lines of streams that an interrupted run has measured")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        done = asked.done or Path(folder) / "done.json"
        by_tenth, said = tenths()
        seen, aside = (losses(streams, done) for streams in ({**STREAMS, **HELD_OUT}, ASIDE))
    text = (
        "# The default chooses its own step\n\n"
        f"Progressive log loss over the first {ROWS:,} rows of the default with `tuned` (*after*) and without (*before*), and of "
        f"the best setting of each peer, chosen for each stream in hindsight: {len(VW_GRID)} settings of Vowpal Wabbit "
        f"({', '.join(VW_GRID)}; 2^{BITS} weights) and, on streams of up to {RIVER_FEATURES_MAX:,} features, "
        f"{2 * len(RIVER_GRID)} of river ({', '.join(RIVER_GRID)}, each with its scaler and "
        "without). *chosen*: the eta in force at the end, and the "
        f"scale if it is *counts*. Calibration: the error in {CELLS} cells after {SETTLED:,} events, to the end; in brackets "
        f"what chance leaves.\n\n## Streams on which the candidates were chosen\n\nOver the best peer, {seen[1]}.\n\n"
        f"{seen[0]}\n## Streams kept aside, named beforehand\n\nOver the best peer, {aside[1]}.\n\n{aside[0]}\n"
        "## Clicks, tenth by tenth\n\nThe sum of the probabilities over that of the labels, in brackets its standard error by "
        f"chance: a tenth has few clicks. {said}\n\n{by_tenth}\n"
        + report.conditions("python -m tests.bench.own_step", ["numpy", "vowpalwabbit", "river"])
    )
    report.publish("own_step", text, write=not asked.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
