"""Tables 1 and 2 of Balakrishnan & Madigan (2008), measured again with this project's learner.

The distance of the online estimate from the batch optimum of the same penalised likelihood, as the L1 distance of coefficients,
on the paper's simulated design: an intercept and ten standard normal features, the intercept penalised like the others. The
algorithm as printed solves after each event. It is compared with the block, the warm-up, the burn-in and the growing penalty.
Every figure is over 20 seeds. Batch optima are computed with Newton's method, to a violation of 1e-10 gamma, by separate code.

Writes paper_tables.md and .csv. Takes some minutes.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from sklearn.linear_model import LogisticRegression

from riata.base.arrays import F64
from riata.learn.registry import build_learner
from riata.learn.taylor_config import TaylorSketchConfig
from tests.bench import report
from tests.bench.sketch_runs import arguments, mean_sd, spread, write_csv
from tests.learn.paper_design import (
    BETA_TRUE,
    BITS,
    ProbitOrLogistic,
    batch_optimum,
    dense_beta,
    dense_rows,
    follow,
    paper_design,
)

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "simulated_design.json"
T: Final = 100_000
D: Final = len(BETA_TRUE)
SEEDS: Final = tuple(range(2000, 2020))
GAMMAS: Final = (10.0, 100.0)
CHECKS: Final = (20_000, 60_000, 100_000)
GRID: Final = tuple(sorted({*CHECKS, *(int(t) for t in np.geomspace(2, 1000, 22).round() * 100)}))
PRINTED_L1: Final = (0.066, 0.025, 0.016)  # Table 1, one run

PAPER: Final = TaylorSketchConfig(
    mode="exact", prior_curvature=0.0, curvature_floor=0.0, warm_up=0, sweeps_max=1000, standardised=False
)
PRINTED: Final = "as printed: a solve after each event"
LINEAR: Final = "linear gamma, warm-up of 1000"
VARIANTS: Final[dict[str, dict[str, Any]]] = {
    PRINTED: {"block": 1, "tolerance": 1e-6},
    "a solve after 100 events": {},
    "warm-up of 1000": {"warm_up": 1000},
    "burn-in of 1100, power 2": {"burn_in": 1100, "burn_in_power": 2.0},
    LINEAR: {"gamma_schedule": "linear", "warm_up": 1000},
    "prior and floor of curvature": {"prior_curvature": 1.0, "curvature_floor": 0.25},
    "the same, warm-up of 1000": {"prior_curvature": 1.0, "curvature_floor": 0.25, "warm_up": 1000},
}
BOUNDS: Final = {"a solve after 100 events": (0.02, 0.035), "warm-up of 1000": (0.0, 0.01)}  # gamma 10, the last of CHECKS

T_2: Final = 10_000
SEEDS_2: Final = tuple(range(1000, 1020))
LINKS: Final[tuple[ProbitOrLogistic, ...]] = ("logistic", "probit")
PASSES_SHOWN: Final = 4


def configure(variant: str, gamma: float, t: int = T, link: ProbitOrLogistic = "logistic") -> TaylorSketchConfig:
    """The configuration of one of VARIANTS for a stream of t events, its intercept penalised like the other coefficients."""
    return replace(PAPER, link=link, gamma=gamma, gamma_intercept=gamma, gamma_events=t, **VARIANTS[variant])


def gamma_in_force(config: TaylorSketchConfig, i: int) -> float:
    """The penalty after event i, which the batch optimum for comparison also has."""
    if config.gamma_schedule == "linear":
        return config.gamma * max(i / config.gamma_events, config.gamma_floor)
    return config.gamma


READING_1: Final = """\
The first events were linearised far from the final weights, and their terms stay in the sketch. A warm-up or a burn-in avoids
this and is three to four times closer at t = 100,000 with gamma 10. With a fixed gamma of 100 a warm-up hardly helps, and a
burn-in helps by a quarter: the penalty's share of the sum decreases, so the batch optimum itself keeps moving. With a penalty
that grows like t it does not move, and Online is 7 and 40 times closer. The prior and the floor of curvature, on by default for
rare features, nearly double the distance on this dense design; with the warm-up, on by default in exact, it is about half of the
printed algorithm's.
"""
READING_2: Final = """\
The paper's passes z = 1, 2, 3 of MP, with distances 0.172, 0.003 and 0, are closest to passes 2, 3 and 4 here.
"""
NOT_COMPARABLE: Final = """\
- Table 2 prints 0.450 for the coefficient whose truth is 0.761 (logistic, gamma 100). Here the batch optimum is 0.636 on
  average, standard deviation 0.025. So this page compares only distances between Online and batch.
- Table 2 prints 0.074 as the L1 distance of Online in the probit column; the column itself adds up to 0.057.
- The printed runs are one stream each. The paper does not state whether they used its block heuristic or a growing penalty, nor
  whether the intercept was penalised.
"""


@dataclass(frozen=True, slots=True)
class Seed:
    """One seed: l1[gamma][variant] is f64[len(GRID)]; the worst violation of the optimality conditions as a share of gamma."""

    l1: dict[float, dict[str, F64]]
    kkt: float


def run_seed(seed: int) -> Seed:
    """Learn one stream in every variant at both penalties, and find the batch optima along it."""
    z, y = paper_design(T, seed, "logistic")
    x, stream = np.hstack([np.ones((T, 1)), z]), dense_rows(z).batch(y)
    found = Seed({}, 0.0)
    kkt_max = 0.0
    for gamma in GAMMAS:
        found.l1[gamma] = {}
        optima: dict[str, F64] = {}
        for schedule, variant in (("fixed", PRINTED), ("linear", LINEAR)):
            config, start, rows = configure(variant, gamma), None, []
            for t in GRID:
                force = gamma_in_force(config, t)
                best = batch_optimum(x[:t], y[:t], np.full(D, force), "logistic", start)
                start, kkt_max = best.beta, max(kkt_max, best.kkt / force)
                rows.append(best.beta)
            optima[schedule] = np.array(rows)
        for variant in VARIANTS:
            config = configure(variant, gamma)
            learner = build_learner(config, BITS)
            online = np.array([dense_beta(learner.weights(), D - 1) for _ in follow(learner, stream, GRID)])
            found.l1[gamma][variant] = np.abs(online - optima[config.gamma_schedule]).sum(axis=1)
    return replace(found, kkt=kkt_max)


@dataclass(frozen=True, slots=True)
class Short:
    """One seed of Table 2, by link and gamma: distance to the batch optimum of each of VARIANTS."""

    l1: dict[tuple[str, float], dict[str, float]]


def run_short(seed: int) -> Short:
    """Table 2's comparison on one stream of T_2 events for each link."""
    found = Short({})
    for link, gamma in itertools.product(LINKS, GAMMAS):
        z, y = paper_design(T_2, seed, link)
        x, stream = np.hstack([np.ones((T_2, 1)), z]), dense_rows(z).batch(y)
        best = batch_optimum(x, y, np.full(D, gamma), link).beta
        found.l1[link, gamma] = {}
        for variant in VARIANTS:
            learner = build_learner(configure(variant, gamma, T_2, link), BITS)
            learner.step(stream)
            found.l1[link, gamma][variant] = float(np.abs(dense_beta(learner.weights(), D - 1) - best).sum())
    return found


def liblinear_difference() -> float:
    """Largest difference of a coefficient between our batch optimum and scikit-learn's liblinear: first seed, gamma 10, t = T."""
    z, y = paper_design(T, SEEDS[0], "logistic")
    x, gamma = np.hstack([np.ones((T, 1)), z]), GAMMAS[0]
    theirs = LogisticRegression(
        solver="liblinear", l1_ratio=1.0, C=1.0 / gamma, tol=1e-12, max_iter=10_000, fit_intercept=False, random_state=1
    ).fit(x, y)
    return float(np.abs(theirs.coef_[0] - batch_optimum(x, y, np.full(D, gamma), "logistic").beta).max())


def at_checks(seeds: Sequence[Seed], gamma: float, variant: str) -> list[list[float]]:
    """For each of CHECKS, the distances of all seeds."""
    return [[float(seed.l1[gamma][variant][GRID.index(t)]) for seed in seeds] for t in CHECKS]


def distance_table(seeds: Sequence[Seed]) -> str:
    """Mean and standard deviation of the L1 distance, a line for each variant and penalty."""
    rows = [["10", "**printed in Table 1** (one run)", *(f"{v:.3f}" for v in PRINTED_L1), ""]]
    for gamma in GAMMAS:
        for variant in VARIANTS:
            values = at_checks(seeds, gamma, variant)
            bound = ""
            if gamma == GAMMAS[0] and variant in BOUNDS:
                low, high = BOUNDS[variant]
                held = low <= float(np.mean(values[-1])) <= high
                bound = (f"{low:g} to {high:g}" if low else f"at most {high:g}") + (": held" if held else ": **missed**")
            rows.append([f"{gamma:g}", variant, *(mean_sd(v, 4) for v in values), bound])
    heads = ["gamma", "learner", *(f"t = {t:,}" for t in CHECKS), f"bound set beforehand for {CHECKS[-1]:,}"]
    return report.table(heads, rows)


def table_2(shorts: Sequence[Short]) -> str:
    """Distance to the batch optimum at T_2 events: each learner, one pass; and passes of MP over all of the events."""
    keys = [(link, gamma) for link in LINKS for gamma in reversed(GAMMAS)]
    rows = [[variant, *(mean_sd([short.l1[key][variant] for short in shorts], 3) for key in keys)] for variant in VARIANTS]
    golden = {
        (run["link"], solution["gamma"]): solution["MP_L1_distance_after_pass"]
        for run in json.loads(GOLDEN.read_text(encoding="utf-8"))["runs"]
        for solution in run["solutions"]
        if solution["intercept_penalised"]
    }
    for z in range(PASSES_SHOWN):
        rows.append([f"MP, pass {z + 1} (one stream)", *(f"{golden[key][z]:.2g}" for key in keys)])
    return report.table(["learner", *(f"{link}, gamma {gamma:g}" for link, gamma in keys)], rows)


def write_numbers(seeds: Sequence[Seed]) -> None:
    """Distances along the stream, over the seeds."""
    write_csv(
        "paper_tables",
        ["gamma", "learner", "t", "l1_mean", "l1_sd", "l1_least", "l1_most"],
        [
            (f"{gamma:g}", variant, t, *(f"{v:.6f}" for v in (of.mean(), of.std(ddof=1), of.min(), of.max())))
            for gamma in GAMMAS
            for variant in VARIANTS
            for at, t in enumerate(GRID)
            for of in [np.array([seed.l1[gamma][variant][at] for seed in seeds])]
        ],
    )


def main() -> int:
    """Measure everything, draw it, and write the page."""
    options = arguments(__doc__ or "").parse_args()
    shorts = spread(run_short, SEEDS_2, options.processes, "Table 2")
    seeds = spread(run_seed, SEEDS, options.processes, "Table 1")
    text = page(seeds, shorts, liblinear_difference())
    if not options.no_write:
        write_numbers(seeds)
    report.publish("paper_tables", text, write=not options.no_write)
    return 0


def introduction(seeds: Sequence[Seed], liblinear: float) -> str:
    """The paragraph about the method and the accuracy of the reference."""
    return (
        f"The paper's simulated design: an intercept and {D - 1} standard normal features, {len(SEEDS)} streams, means with "
        "standard deviations in brackets. Distances are L1 distances of all coefficients to the batch optimum at the penalty in "
        "force. The intercept is penalised, as in the paper's formula. Unless stated otherwise the learner is exact, solves "
        "after every 100 events and has no prior or floor of curvature. Batch optima violate their optimality conditions by at "
        f"most {max(seed.kkt for seed in seeds):.0e} gamma. One was compared with scikit-learn's liblinear "
        f"(t = {T:,}, gamma {GAMMAS[0]:g}): no coefficient differs by more than {liblinear:.0e}.\n"
    )


def page(seeds: Sequence[Seed], shorts: Sequence[Short], liblinear: float) -> str:
    """The whole report."""
    near = [sum(v <= p for v in of) for of, p in zip(at_checks(seeds, GAMMAS[0], PRINTED), PRINTED_L1, strict=True)]
    parts = [
        "# Tables 1 and 2 of Balakrishnan & Madigan (2008), measured again\n",
        introduction(seeds, liblinear),
        "## Distance of the online estimate from the batch optimum\n",
        distance_table(seeds),
        (
            f"With the algorithm as printed, {near[0]}, {near[1]} and {near[2]} of the {len(SEEDS)} streams are as near as the "
            f"printed run at the three t.\n\n{READING_1}"
        ),
        f"## Table 2: t = {T_2:,}\n\n{table_2(shorts)}\n{READING_2}",
        f"## What cannot be compared with the printed values\n\n{NOT_COMPARABLE}",
        report.conditions("python -m tests.bench.paper_tables", ["numpy", "scipy", "scikit-learn"]),
    ]
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
