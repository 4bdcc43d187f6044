"""Coverage of the standard errors of margins: nominal against achieved, on data whose truth is known.

Simulated logistic data with known coefficients; after 1,000, 10,000 and 100,000 events the interval margin +- z std_error of
fresh rows is compared with the true margin. The truth and the fresh rows are the same for all seeds, so the error splits into a
part that is always the same (bias) and a part that varies (scatter, which a standard error estimates). Learners use their
defaults except for the settings in their name. The standard error is that of predictions.

Writes coverage.csv, raw_tables.csv (`tests.bench.table_coverage`), and coverage.md from both. Takes a quarter of an hour;
`--only` measures one of them, and takes the other as it is.
"""

from __future__ import annotations

import csv
import itertools
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from tests.bench import report, table_coverage
from tests.bench.sketch_runs import arguments, spread, write_csv
from tests.learn.paper_design import (
    BETA_TRUE,
    BITS,
    Rows,
    correlated_normals,
    coverage,
    dense_beta,
    draw_labels,
    follow,
    std_errors,
    topic_rows,
)

STOPS: Final = (1_000, 10_000, 100_000)
FRESH: Final = 1000
NOMINAL: Final[F64] = np.array([0.01, *np.arange(0.05, 1.0, 0.05), 0.99])
SIZES: Final = ("small", "large")

DENSE: Final[dict[str, dict[str, Any]]] = {
    "exact, no warm-up": {"mode": "exact", "warm_up": 0},
    "exact, no warm-up, no prior": {"mode": "exact", "warm_up": 0, "prior_curvature": 0.0},
    "exact": {"mode": "exact"},
    "diag": {"mode": "diag"},
}
CAPPED: Final[dict[str, dict[str, Any]]] = {
    **DENSE,
    "hybrid, k = 20": {"mode": "hybrid", "k": 20},
    "strict, k = 20": {"mode": "strict", "k": 20},
}
SPARSE: Final[dict[str, dict[str, Any]]] = {
    "exact": {"mode": "exact"},
    "hybrid, k = 400": {"mode": "hybrid", "k": 400},
    "hybrid, k = 60": {"mode": "hybrid", "k": 60},
    "strict, k = 400": {"mode": "strict", "k": 400},
    "strict, k = 60": {"mode": "strict", "k": 60},
    "diag": {"mode": "diag"},
}


@dataclass(frozen=True, slots=True)
class Design:
    """A truth, how rows are drawn, which learners are tried, the small and the large penalty, and how many streams.

    correlation : of neighbouring columns of dense rows
    topics      : of sparse rows, in which columns appear together; 0: independently
    per_row     : columns of a sparse row; 0: dense rows
    """

    name: str
    width: int
    gammas: tuple[float, float]
    learners: Mapping[str, Mapping[str, Any]]
    seeds: int
    correlation: float = 0.0
    topics: int = 0
    per_row: int = 0

    def truth(self) -> F64:
        """f64[1 + width], the same for every seed: the paper's, or one in five not zero, and normal."""
        if self.width == len(BETA_TRUE) - 1:
            return BETA_TRUE
        rng = np.random.default_rng(1)
        beta = np.zeros(1 + self.width)
        beta[0] = -0.5
        some = self.width // 5
        beta[1 + rng.choice(self.width, some, replace=False)] = rng.normal(0.0, 2.0 if self.per_row else 0.7, some)
        return beta

    def rows(self, n: int, rng: np.random.Generator, like: bool = True) -> Rows:
        """This many rows; if not `like` the others, with independent columns."""
        if self.per_row:
            return topic_rows(n, self.width, self.per_row, self.topics if like else 0, rng)
        return correlated_normals(n, self.width, self.correlation if like else 0.0, rng)

    @property
    def fresh_kinds(self) -> list[bool]:
        """Kinds of fresh rows: like the training rows, and also unlike them if their columns are correlated."""
        return [True, False] if self.correlation or self.topics else [True]


DESIGNS: Final = {
    design.name: design
    for design in (
        Design("d = 11", 10, (0.1, 10.0), DENSE, seeds=60),
        Design("d = 51, correlated", 50, (0.1, 10.0), CAPPED, seeds=30, correlation=0.7),
        Design("d = 301, sparse", 300, (0.1, 10.0), SPARSE, seeds=10, per_row=20),
        Design("d = 301, sparse, topics", 300, (0.1, 10.0), SPARSE, seeds=10, per_row=20, topics=10),
    )
}
Key = tuple[str, str, bool]  # learner, size of gamma, whether the fresh rows are like the training rows


@dataclass(frozen=True, slots=True)
class Run:
    """One seed of one design: errors and standard errors f64[len(STOPS), FRESH], and non-zeros at the stops."""

    error: dict[Key, F64]
    std_error: dict[Key, F64]
    non_zeros: dict[tuple[str, str], list[int]]


def run(job: tuple[str, int]) -> Run:
    """Learn one stream of a design with each of its learners, and evaluate the margins of the fresh rows at each stop."""
    design, seed = DESIGNS[job[0]], job[1]
    beta = design.truth()
    fresh = {like: design.rows(FRESH, np.random.default_rng(2), like) for like in design.fresh_kinds}
    rng = np.random.default_rng((3, seed))
    rows = design.rows(STOPS[-1], rng)
    stream = rows.batch(draw_labels(rows, beta, rng))
    found = Run({}, {}, {})
    for (name, settings), (size, gamma) in itertools.product(design.learners.items(), zip(SIZES, design.gammas, strict=True)):
        learner = build_learner(TaylorSketchConfig(gamma=gamma, **settings), BITS)
        keys = {like: (name, size, like) for like in fresh}
        for key in keys.values():
            found.error[key], found.std_error[key] = np.empty((len(STOPS), FRESH)), np.empty((len(STOPS), FRESH))
        found.non_zeros[name, size] = []
        for at, _ in enumerate(follow(learner, stream, STOPS)):
            weights = learner.weights()
            found.non_zeros[name, size].append(len(weights.slot))
            for like, asked in fresh.items():
                found.error[keys[like]][at] = asked.margins(dense_beta(weights, design.width)) - asked.margins(beta)
                found.std_error[keys[like]][at] = std_errors(learner, asked)
    return found


@dataclass(frozen=True, slots=True)
class Judged:
    """One learner on one design at one stop, over all seeds and fresh rows; sizes are root mean squares."""

    design: str
    size: str
    gamma: float
    learner: str
    t: int
    like: bool
    achieved: F64  # at each of NOMINAL
    std_error: float
    error: float
    bias: float
    scatter: float
    non_zeros: float


def judge(design: Design, runs: Sequence[Run]) -> list[Judged]:
    """All figures of a design."""
    judged = []
    for like, size, name, at in itertools.product(design.fresh_kinds, SIZES, design.learners, range(len(STOPS))):
        error = np.array([run.error[name, size, like][at] for run in runs])
        std_error = np.array([run.std_error[name, size, like][at] for run in runs])
        variance = error.var(axis=0, ddof=1)
        bias = np.maximum(error.mean(axis=0) ** 2 - variance / len(runs), 0.0)
        judged.append(
            Judged(
                design=design.name,
                size=size,
                gamma=design.gammas[SIZES.index(size)],
                learner=name,
                t=STOPS[at],
                like=like,
                achieved=np.array([coverage(error, std_error, level) for level in NOMINAL]),
                std_error=float(np.sqrt(np.mean(std_error[np.isfinite(std_error)] ** 2)))
                if np.isfinite(std_error).any()
                else np.nan,
                error=float(np.sqrt(np.mean(error**2))),
                bias=float(np.sqrt(np.mean(bias))),
                scatter=float(np.sqrt(np.mean(variance))),
                non_zeros=float(np.mean([run.non_zeros[name, size][at] for run in runs])),
            )
        )
    return judged


def write_numbers(judged: Sequence[Judged]) -> None:
    """All of `judged` as numbers; achieved coverage at each nominal level."""
    rows = []
    for j in judged:
        fresh = "like" if j.like else "unlike"
        sizes = [f"{v:.5f}" for v in (j.std_error, j.error, j.bias, j.scatter)]
        achieved = [f"{share:.4f}" for share in j.achieved]
        rows.append(
            [j.design, fresh, f"{j.gamma:g}", j.learner, str(j.t), *sizes, f"{j.non_zeros:.1f}", *achieved, report.today()]
        )
    heads = ["design", "fresh_rows", "gamma", "learner", "t", "std_error", "error", "bias", "scatter", "non_zeros"]
    write_csv("coverage", [*heads, *(f"achieved_{level:.2f}" for level in NOMINAL), "measured"], rows)


INTRODUCTION: Final = f"""# Are the standard errors of margins right?

Simulated logistic data with known coefficients. After t events the interval margin +- z std_error of {FRESH:,} fresh rows is
compared with the true margin. Over the streams of a design the error splits into a part that is always the same, the bias, and a
part that varies, the scatter. A standard error estimates the scatter, and of the bias the pull of prior and penalty. Learners use
their defaults except for the settings in their name. [coverage.csv](coverage.csv) has every level, both penalties, scatter and
bias, fresh rows that are unlike the training rows, and sparse rows by topic. *none*: no row of any stream has a standard error.
"""

READING: Final = """## Conclusions

- **If all relevant features are in the block and the penalty is small, the standard error is right** from 10,000 events on, also
  for fresh rows that are unlike the training rows.
- **The first events cause a bias.** The warm-up of 1,000 removes nearly all of it. Right after it the standard error is 1.1 to
  1.8 times the scatter.
- **A large penalty causes a bias that it does not show.** At gamma = 10 sparse rows have no weight, and no standard error, after
  1,000 events. Exact and hybrid with k = 400 cover 71 to 77 % after 10,000, 83 to 90 % after 100,000.
- **A feature with weight zero adds nothing.**
- **Where cross curvature is missing there is mostly none.** Diag on independent columns covers 91 %.
"""


def held_table(numbers: Sequence[Mapping[str, str]]) -> str:
    """How many of the 95 % intervals hold the true margin, in %: the small penalty, fresh rows like the training rows."""
    kept = [one for one in numbers if one["gamma"] == "0.1" and one["fresh_rows"] == "like" and not DESIGNS[one["design"]].topics]
    rows = [
        [design, learner, *(_percent(one["achieved_0.95"]) for one in of)]
        for (design, learner), of in itertools.groupby(kept, key=lambda one: (one["design"], one["learner"]))
    ]
    return report.table(["design", "learner", *(f"t = {t:,}" for t in STOPS)], rows)


def _percent(share: str) -> str:
    return "none" if share == "nan" else f"{100.0 * float(share):.0f}"


def describe(design: Design) -> str:
    """One line about a design."""
    drawn = f"sparse rows of at most {design.per_row} columns" if design.per_row else "dense normal rows"
    together = {
        design.topics > 0: f"; four fifths of a row's columns come from one of {design.topics} topics",
        design.correlation > 0.0: f"; neighbouring columns correlate by {design.correlation:g}",
    }.get(True, "")
    truth = design.truth()
    return (
        f"**{design.name}**: an intercept and {design.width} features, {np.count_nonzero(truth[1:])} of them with a true "
        f"coefficient that is not zero; {drawn}{together}; {design.seeds} streams"
    )


def simulate(processes: int) -> None:
    """Measure the designs, and write their numbers."""
    jobs = [(name, seed) for name in reversed(DESIGNS) for seed in range(DESIGNS[name].seeds)]  # the longest first
    runs = spread(run, jobs, processes, "coverage")
    judged = []
    for name, design in DESIGNS.items():
        judged += judge(design, [found for job, found in zip(jobs, runs, strict=True) if job[0] == name])
    write_numbers(judged)


def read_numbers(name: str) -> list[dict[str, str]]:
    """The numbers that `write_csv` wrote."""
    with (report.EVIDENCE / f"{name}.csv").open(newline="", encoding="utf-8") as numbers:
        return list(csv.DictReader(numbers))


def page() -> str:
    """The page, of the numbers as they are."""
    designs = "\n".join(f"- {describe(design)}" for design in DESIGNS.values() if not design.topics)
    held = f"95 % intervals that hold the true margin, in %, gamma = 0.1:\n\n{held_table(read_numbers('coverage'))}"
    numbers = read_numbers("raw_tables")
    measured = f"simulated data on {read_numbers('coverage')[0]['measured']}, raw tables on {numbers[0]['measured']}"
    made = f"Made by `python -m tests.bench.coverage`: {measured}, on a busy machine.\n"
    return "\n".join([INTRODUCTION, designs, "", held, READING, table_coverage.section(numbers), made])


def main() -> int:
    """Measure, and write numbers and page."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--only", choices=("simulated", "tables", "page"), help="measure these only, or nothing")
    options = parser.parse_args()
    if options.only in (None, "simulated"):
        simulate(options.processes)
    if options.only in (None, "tables"):
        table_coverage.measure(options.processes)
    report.publish("coverage", page(), write=not options.no_write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
