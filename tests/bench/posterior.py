"""Is the posterior of the particle filter that of all events? Against a Markov chain, IBIS, the truth, and the clock.

1. A stream like that of the thesis: 744,963 rows, five numbers and two factors of three levels. The filter's posterior is
   compared with draws by a Markov chain that keeps all rows. z is the difference of means over the chain's standard deviation.
2. Coverage: how many of the 95 % intervals of weights hold the true weight, over 200 streams of 3,000 rows.
3. IBIS of the package `particles` on 30,000 rows: the same z, and how many likelihoods of a row under a particle each method
   evaluates. Without the package this part is left out.
4. Microseconds an event, by the number of features.

Writes posterior.md and posterior.png. Takes about ten minutes.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final

import matplotlib
import numpy as np

from riata.base.arrays import F64
from riata.learn.particle_filter.config import ParticleFilterConfig, particles_of
from riata.learn.particle_filter.learner import ParticleFilter
from riata.maths.metropolis import BURN_IN, Events, draw_posterior
from riata.wire.batch import Batch
from tests.bench import report

matplotlib.use("Agg")  # there is no screen
from matplotlib import pyplot as plt

ROWS: Final = 744_963  # of the thesis's stream
BETA: Final = np.array([-1.2, 0.6, -0.35, 0.15, 0.05, -0.8, 0.4, 0.25, -0.5, 0.1])
GAMMA: Final = 1.0
RUNS: Final = 200
RUN_ROWS: Final = 3_000
IBIS_ROWS: Final = 30_000
DIMENSIONS: Final = (4, 8, 16)
COST_ROWS: Final = 10_000
THESIS_START: Final = 10_000
STARTS: Final = (500, 2000)  # of the filter beside IBIS: many of its likelihoods are those of the chain at the start
IBIS_PARTICLES: Final = (2000, 1000, 500)  # with fewer its means are about as far off as those of the filter
CHAIN: Final = 800
PIECE: Final = 20_000


@dataclass(frozen=True, slots=True)
class Drawn:
    """Weighted draws, f64[d, M] and f64[M], intercept first."""

    theta: F64
    weight: F64

    def moments(self) -> tuple[F64, F64]:
        part = self.weight / self.weight.sum()
        mean = self.theta @ part
        return mean, np.sqrt((self.theta - mean[:, None]) ** 2 @ part)


def campaign(n: int, seed: int) -> tuple[F64, F64]:
    """Rows of an intercept, five normal numbers, two of them correlated, and two factors of three levels, each two indicators."""
    rng = np.random.default_rng(seed)
    x = np.empty((n, len(BETA)))
    x[:, 0] = 1.0
    x[:, 1:6] = rng.normal(size=(n, 5))
    x[:, 2] = 0.7 * x[:, 1] + np.sqrt(0.51) * x[:, 2]
    for column in (6, 8):
        level = rng.choice(3, n, p=[0.5, 0.3, 0.2])
        x[:, column], x[:, column + 1] = level == 1, level == 2
    return x, labels(rng, x, BETA)


def labels(rng: np.random.Generator, x: F64, beta: F64) -> F64:
    return (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ beta))).astype(np.float64)


def batch_of(x: F64, y: F64) -> Batch:
    """The columns after the first as features; the first is the intercept, which the learner has itself."""
    n = len(x)
    row, column = np.nonzero(x[:, 1:])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=n))]).astype(np.int64)
    hashes = ((column + 1) * 1000).astype(np.uint32)
    return Batch(indptr, hashes, x[:, 1:][row, column], y, np.ones(n), np.zeros((n, 16), np.uint8), np.zeros(n, np.bool_))


def filtered(x: F64, y: F64, **settings: Any) -> tuple[Drawn, F64, float]:
    """The filter's draws, its figures, and the processor time in seconds."""
    config = ParticleFilterConfig(features_max=x.shape[1] - 1, gamma=GAMMA, gamma_intercept=GAMMA, **settings)
    learner = ParticleFilter(config, 20)
    spent = 0.0
    for start in range(0, len(x), PIECE):
        batch = batch_of(x[start : start + PIECE], y[start : start + PIECE])
        began = time.thread_time()
        learner.step(batch)
        spent += time.thread_time() - began
    posterior = learner.weights().posterior
    assert posterior is not None
    return Drawn(np.vstack([posterior.base, posterior.theta]), posterior.weight), posterior.figures, spent


def chain(x: F64, y: F64) -> tuple[Drawn, float]:
    """Draws that keep all rows, by Metropolis within Gibbs."""
    theta = np.empty((x.shape[1], CHAIN))
    events = Events(np.ascontiguousarray(x.T), np.where(y == 1.0, 1.0, -1.0), np.ones(len(y)))
    began = time.thread_time()
    draw_posterior(events, np.full(x.shape[1], GAMMA), (1, 1), theta)
    return Drawn(theta, np.ones(CHAIN)), time.thread_time() - began


def against(found: Drawn, exact: Drawn) -> tuple[F64, F64]:
    """z and ratio of standard deviations, by parameter."""
    (mean, spread), (true_mean, true_spread) = found.moments(), exact.moments()
    return (mean - true_mean) / true_spread, spread / true_spread


def quantile(values: F64, weight: F64, q: float) -> float:
    order = np.argsort(values)
    return float(values[order][np.searchsorted(np.cumsum(weight[order]), q * weight.sum())])


def coverage(runs: int) -> tuple[F64, int]:
    """The share of runs in which the central 95 % interval of each weight holds the truth."""
    beta, inside = np.array([-0.5, 0.8, -0.4, 0.2, 0.0]), np.zeros(5)
    for seed in range(runs):
        rng = np.random.default_rng(1000 + seed)
        x = np.column_stack([np.ones(RUN_ROWS), rng.normal(size=(RUN_ROWS, 4))])
        found, _, _ = filtered(x, labels(rng, x, beta), start=500, seed=seed)
        ends = [[quantile(line, found.weight, q) for q in (0.025, 0.975)] for line in found.theta]
        inside += [low <= true <= high for (low, high), true in zip(ends, beta, strict=True)]
    return inside / runs, runs


def ibis(x: F64, y: F64, particles: int) -> tuple[Drawn, int, float] | None:
    """Draws of IBIS, how many likelihoods of a row under a particle it took, and processor time; None without the package."""
    try:
        package, samplers = import_module("particles"), import_module("particles.smc_samplers")
        static_model: Any = samplers.StaticModel
    except ModuleNotFoundError:
        return None
    count = [0]
    signed = x * np.where(y == 1.0, 1.0, -1.0)[:, None]

    class Logistic(static_model):  # type: ignore[misc]
        def logpyt(self, theta: Any, t: int) -> F64:
            count[0] += len(theta)
            found: F64 = -np.logaddexp(0.0, -(theta["beta"] @ signed[t]))
            return found

        def loglik(self, theta: Any, t: int | None = None) -> F64:
            """All rows at once: the package would loop over them in Python."""
            stop = len(signed) if t is None else t + 1
            count[0] += stop * len(theta)
            total = np.zeros(len(theta))
            for start in range(0, stop, 2000):
                total -= np.logaddexp(0.0, -(theta["beta"] @ signed[start : min(start + 2000, stop)].T)).sum(axis=1)
            return total

    scale = np.sqrt(2.0) / GAMMA
    prior = package.distributions.StructDist({"beta": package.distributions.MvNormal(scale=scale, cov=np.eye(x.shape[1]))})
    np.random.seed(1)
    began = time.thread_time()
    sampler = package.SMC(fk=samplers.IBIS(model=Logistic(data=signed, prior=prior), len_chain=10), N=particles // 10)
    sampler.run()
    return Drawn(np.ascontiguousarray(sampler.X.theta["beta"].T), sampler.W), count[0], time.thread_time() - began


def evaluations(rows: int, config: ParticleFilterConfig, d: int) -> int:
    """Of the filter: each row once under each particle, and the chain's passes over the rows held, at 16, 32, ... and start."""
    held = sum({16 << k for k in range(20) if 16 << k < config.start} | {config.start})
    return rows * particles_of(config) + (BURN_IN + particles_of(config)) * d * held


def costs() -> dict[int, list[float]]:
    """Microseconds an event after the start, in five rounds that alternate between the dimensions."""
    found: dict[int, list[float]] = {d: [] for d in DIMENSIONS}
    data = {}
    for d in DIMENSIONS:
        rng = np.random.default_rng(d)
        x = np.column_stack([np.ones(COST_ROWS), rng.normal(size=(COST_ROWS, d))])
        data[d] = x, labels(rng, x, np.concatenate([[-0.5], rng.normal(size=d) * 0.4]))
    for _ in range(5):
        for d, (x, y) in data.items():
            learner = ParticleFilter(ParticleFilterConfig(features_max=d, start=1000), 20)
            learner.step(batch_of(x[:1000], y[:1000]))
            rest = batch_of(x[1000:], y[1000:])
            began = time.thread_time()
            learner.step(rest)
            found[d].append((time.thread_time() - began) / (COST_ROWS - 1000) * 1e6)
    return found


def picture(found: Drawn, exact: Drawn, covered: F64, cost: dict[int, list[float]]) -> None:
    """Marginals of filter and chain, coverage, and cost."""
    figure, panels = plt.subplots(3, 4, figsize=(13, 8), layout="constrained")
    for j, axes in enumerate(panels.flat[:10]):
        ends = np.percentile(exact.theta[j], (0.1, 99.9))
        bins = np.linspace(ends[0], ends[1], 30).tolist()
        axes.hist(exact.theta[j], bins, density=True, color="C7", alpha=0.5, label="Markov chain, all rows")
        axes.hist(found.theta[j], bins, weights=found.weight, density=True, histtype="step", color="C0", label="filter, one pass")
        axes.axvline(BETA[j], color="k", linestyle=":", label="truth")
        axes.set(title=f"beta_{j}", yticks=[])
    panels.flat[0].legend(fontsize=7)
    axes = panels.flat[10]
    axes.bar(range(len(covered)), 100 * covered)
    axes.axhspan(92, 97, color="C2", alpha=0.3)
    axes.set(title=f"95 % intervals that hold the truth, {RUNS} runs", ylim=(85, 100), xlabel="weight", ylabel="%")
    axes = panels.flat[11]
    axes.plot(list(cost), [float(np.median(of)) for of in cost.values()], "o-")
    axes.set(title="µs an event", xlabel="features", ylim=(0, None))
    axes.grid(alpha=0.3)
    figure.savefig(report.EVIDENCE / "posterior.png", dpi=80)
    plt.close(figure)


def main() -> None:
    """Run all parts and write the page."""
    parser = report.arguments(__doc__ or "")
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows and runs; a check of the bench, no evidence")
    options = parser.parse_args()
    part = 10 if options.quick else 1
    x, y = campaign(ROWS // part, 7)
    found, figures, seconds = filtered(x, y)
    exact, chain_seconds = chain(x, y)
    z, ratio = against(found, exact)
    sys.stdout.write(f"{figures} {seconds:.1f} s, chain {chain_seconds:.1f} s, z {z.round(2)}, sd {ratio.round(2)}\n")
    covered, runs = coverage(RUNS // part)
    sys.stdout.write(f"coverage {covered}\n")
    cost = costs()
    sys.stdout.write(f"cost { ({d: float(np.median(of)) for d, of in cost.items()}) }\n")
    text = page(x, (found, figures, seconds), (exact, chain_seconds), (covered, runs), cost)
    text += thesis_start(x, y)
    few, few_y = x[: IBIS_ROWS // part], y[: IBIS_ROWS // part]
    text += versus_ibis(few, few_y)
    text += "\n" + report.conditions("python -m tests.bench.posterior", ["numpy"])
    if not options.no_write and not options.quick:
        picture(found, exact, covered, cost)
    report.publish("posterior", text, write=not options.no_write and not options.quick)


def page(
    x: F64,
    filter_run: tuple[Drawn, F64, float],
    chain_run: tuple[Drawn, float],
    covered: tuple[F64, int],
    cost: dict[int, list[float]],
) -> str:
    """The page without the comparison with IBIS."""
    found, figures, seconds = filter_run
    exact, chain_seconds = chain_run
    z, ratio = against(found, exact)
    mean, spread = found.moments()
    true_mean, true_spread = exact.moments()
    rows = [
        [
            f"beta_{j}",
            f"{BETA[j]:.2f}",
            f"{mean[j]:.4f}",
            f"{spread[j]:.4f}",
            f"{true_mean[j]:.4f}",
            f"{true_spread[j]:.4f}",
            f"{z[j]:+.2f}",
            f"{ratio[j]:.2f}",
        ]
        for j in range(len(BETA))
    ]
    share, runs = covered
    spread_of_ratio = f"{ratio.min():.2f} to {ratio.max():.2f}"
    sizes = {d: particles_of(ParticleFilterConfig(features_max=d)) for d in cost}
    costly = [[str(d), f"{sizes[d]:,}", *(f"{one:.1f}" for one in (np.median(of), min(of), max(of)))] for d, of in cost.items()]
    return f"""# Is the posterior of the particle filter that of all events?

![marginals, coverage, cost](posterior.png)

## A long stream

{len(x):,} simulated rows: five normal numbers and two factors of three levels. The thesis's data is not public; these
coefficients are ours. The chain keeps all rows and draws {CHAIN:,} times; z is the difference of means over its standard
deviation.

{report.table(["weight", "truth", "mean", "sd", "mean, chain", "sd, chain", "z", "sd ratio"], rows)}
- rms z {np.sqrt((z**2).mean()):.2f}, ratio of standard deviations {spread_of_ratio}
- {int(figures[1])} rejuvenations with {len(found.weight):,} particles; {int(figures[2])} rows tempered
- {seconds:.0f} s of processor time for one pass; the chain took {chain_seconds:.0f} s, and all rows in memory
- each row after the first {ParticleFilterConfig().start:,} is accessed once

## Coverage

{runs} streams of {RUN_ROWS:,} rows with four features. Share of the central 95 % intervals that hold the true weight:
{", ".join(f"{100 * one:.1f} %" for one in share)}; all weights together {100 * share.mean():.1f} %.

## Cost

{report.table(["features", "particles", "µs an event, median of 5", "min", "max"], costly)}
Processor time after the start, dense rows, with the rejuvenations.
"""


def thesis_start(x: F64, y: F64) -> str:
    """The section on a start as long as the thesis's."""
    config = ParticleFilterConfig(features_max=x.shape[1] - 1, gamma=GAMMA, gamma_intercept=GAMMA, start=THESIS_START)
    learner, moves = ParticleFilter(config, 20), [0.0]
    for rows in (slice(0, THESIS_START), slice(THESIS_START, None)):
        learner.step(batch_of(x[rows], y[rows]))
        posterior = learner.weights().posterior
        assert posterior is not None
        moves.append(float(posterior.figures[1]))
    return f"""
## Rejuvenations

The thesis draws exactly from the first 10,000 rows and reports 51 rejuvenations in the rest. With start = {THESIS_START:,} there
are {moves[2] - moves[1]:.0f} from there to row {len(x):,}.
"""


def versus_ibis(x: F64, y: F64) -> str:
    """The section on IBIS."""
    exact, _ = chain(x, y)
    d = x.shape[1]
    config = ParticleFilterConfig(features_max=d - 1, gamma=GAMMA, gamma_intercept=GAMMA)
    lines, usual = [], evaluations(len(x), config, d)
    for start in STARTS:
        found, _, seconds = filtered(x, y, start=start)
        count = evaluations(len(x), replace(config, start=start), d)
        lines.append(
            [f"1PFS, start = {start:,}", f"{particles_of(config):,}", *told(found, exact), f"{count:.2e}", f"{seconds:.0f}", ""]
        )
    for particles in IBIS_PARTICLES:
        if other := ibis(x, y, particles):
            draws, count, spent = other
            cost = [f"{count:.2e}", f"{spent:.0f}", f"{usual / count:.3f}"]
            lines.append(["IBIS, waste-free, `particles`", f"{particles:,}", *told(draws, exact), *cost])
    heads = [
        "method",
        "particles",
        "rms z",
        "sd ratio",
        "likelihoods of a row under a particle",
        "processor time, s",
        "1PFS / this",
    ]
    return f"""
## IBIS

The first {len(x):,} rows of the stream against a chain. IBIS has a normal prior of the variance of the filter's Laplace prior; at
this number of rows the prior does not matter. The last column: likelihoods that the filter evaluates at its defaults, as a ratio.

{report.table(heads, lines)}"""


def told(found: Drawn, exact: Drawn) -> list[str]:
    z, ratio = against(found, exact)
    return [f"{np.sqrt((z**2).mean()):.2f}", f"{ratio.min():.2f} to {ratio.max():.2f}"]


if __name__ == "__main__":
    main()
