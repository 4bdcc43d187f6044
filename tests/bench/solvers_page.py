"""The page and the pictures of the bench of the other batch solvers."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from tests.bench import report

AT_ONCE = (1, 2, 4, 8, 16, 32, 64)
MACHINES = (1, 4, 8, 16)
FORM = {"svg.hashsalt": "riata", "svg.fonttype": "none", "font.size": 8}

ABOUT_SHOTGUN = """## Shotgun: rounds against P

The published step, without guard, on 400 x 200 rows with one common factor; rounds until the objective is within 1e-4 of the
optimum, relative. The last columns are the solver itself begun with P = 64: how often it halved P, and how far from the
optimum it
stopped at a tolerance of 1e-5."""
ABOUT_MACHINES = """## ParallelSGD: gap against machines

Objective above the optimum for each of 20,000 rows of 100 normal columns, after one pass; gamma = 10 in all."""
ABOUT_SUBLINEAR = """## SLLR: feature values read, and error

Dense rows of which a tenth of the columns matters; error on 4,000 new rows. All values that were read are counted, also by passes
that measured a certificate, but for SLLR, which does not stop by one."""
ABOUT_LARS = """## Peers

IRLS-LARS with the bound C that liblinear's penalty amounts to, both without an intercept. Distance: the largest difference of a
weight from the certified optimum. Excess: by how much the weights of liblinear exceed C."""
ABOUT_XGBOOST = """Shotgun at two threads beside XGBoost's `gblinear` with `updater=shotgun`, gamma = 10. Distance: of the
objective from the optimum, relative; XGBoost takes as many rounds of a ladder (50, 200, 1,000, 3,000) as it needs to be as
near."""
ABOUT_SETS = """## Five sets

All solvers with gamma = 3 and a tolerance of 1e-6, in one thread; Shotgun with at most 300 passes, SLLR with 2,000
rounds. Distance: of the objective from the best of all, relative."""


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(report.EVIDENCE / name, format="svg", metadata={"Date": None})
    plt.close(figure)


def _shotgun(found: dict[str, Any]) -> str:
    with plt.rc_context(FORM):
        figure, axes = plt.subplots(figsize=(5, 3.2))
        for one in found["designs"]:
            pairs = [(p, r) for p, r in zip(AT_ONCE, one["rounds"], strict=True) if r is not None]
            axes.loglog(*zip(*pairs, strict=True), "o-", label=f"correlation {one['correlation']:g}, d / rho = {one['safe']}")
        axes.set_xlabel("P, weights that move at the same time")
        axes.set_ylabel("rounds to 1e-4")
        axes.legend()
        _save(figure, "solvers_shotgun.svg")
    rows = []
    for one in found["designs"]:
        rounds = ["diverges" if r is None else f"{r:,}" for r in one["rounds"]]
        start = [f"{one['correlation']:g}", f"{one['rho']:.1f}", str(one["safe"])]
        rows.append([*start, *rounds, str(one["halved"]), f"{one['reached']:.0e}"])
    heads = ["correlation", "rho", "ceil(d / rho)", *(f"P = {p}" for p in AT_ONCE), "halved from 64", "distance then"]
    return f"{ABOUT_SHOTGUN}\n\n![rounds](solvers_shotgun.svg)\n\n{report.table(heads, rows)}"


def _machines(found: dict[str, Any]) -> str:
    names = {
        "whole": "eta = 0.01, each machine all rows", "split": "eta = 0.01, rows dealt",
        "adaptive": "adaptive, rows dealt, truncated", "sorted": "the same, rows sorted by label",
    }  # fmt: skip
    rows = [[about, *(f"{gap:.4f}" for gap in found[name])] for name, about in names.items()]
    worst = max((found["best"] + gap) / (found["best"] + found["sorted"][0]) for gap in found["sorted"])
    return (
        f"{ABOUT_MACHINES} The optimum is {found['best']:.4f}.\n\n{report.table(['', *(f'k = {k}' for k in MACHINES)], rows)}\n"
        f"On sorted labels the worst number of machines has {worst:.4f} times the objective of one machine.\n"
    )


def _sublinear(found: dict[str, Any]) -> str:
    rows = [
        [f"{size}: {name}", f"{read:,}", f"{read / one['pass']:.2f}", f"{wrong:.3f}"]
        for size, one in found.items()
        for name, read, wrong in one["rows"]
    ]
    return f"{ABOUT_SUBLINEAR}\n\n{report.table(['', 'values read', 'of one pass', 'error'], rows)}"


def _peers(found: dict[str, Any]) -> str:
    lars = [
        [f"{n:,} x {d}", str(steps), f"{near:.0e}", f"{excess:+.0e}", f"{ours:.4f}", f"{peer:.4f}", f"{ours / peer:.2f}"]
        for n, d, steps, near, excess, ours, peer in found["lars"]
    ]
    shotgun = []
    for name, reached, times in found["shotgun"]:
        if "xgboost" in times:
            ours, peer = times["shotgun"], times["xgboost"]
            there = f"{reached['xgboost']:.0e} in {reached['xgboost rounds']:,}"
            cells = [there, f"{ours:.2f}", f"{peer:.2f}", f"{ours / peer:.2f}"]
        else:
            cells = ["-", f"{times['shotgun']:.2f}", "-", "-"]
        shotgun.append([name, f"{reached['shotgun']:.0e}", *cells])
    sgd_heads = list(found["sgd"][0][1])
    sgd = [[name, *(f"{losses[head]:.4f}" for head in sgd_heads)] for name, losses in found["sgd"]]
    return (
        f"{ABOUT_LARS}\n\n"
        + report.table(["rows", "steps", "distance", "liblinear's excess", "s", "liblinear s", "ratio"], lars)
        + f"\n{ABOUT_XGBOOST}\n\n"
        + report.table(["data", "distance", "XGBoost's, rounds", "s", "XGBoost s", "ratio"], shotgun)
        + "\nOne pass over four fifths of the rows in random order: mean log loss over the others.\n\n"
        + report.table(["data", *sgd_heads], sgd)
    )


def _sets(found: dict[str, Any]) -> str:
    with plt.rc_context(FORM):
        figure, axes = plt.subplots(len(found), 3, figsize=(9, 2.3 * len(found)))
        for line, (name, one) in zip(axes, found.items(), strict=True):
            ran = {solver: run for solver, run in one["runs"].items() if "trace" in run}
            best = max(run["objective"] for run in ran.values())
            for place, about in enumerate(("seconds", "passes", "values read")):
                for number, solver in enumerate(one["runs"]):
                    if solver in ran:
                        trace = ran[solver]["trace"]
                        far = [max((best - row[3]) / abs(best), 1e-9) for row in trace]
                        least = [min(far[: i + 1]) for i in range(len(far))]
                        places = [max(row[place], 1e-4) for row in trace]
                        line[place].loglog(places, least, ".-", color=f"C{number}", label=solver, lw=1)
                line[place].set_xlabel(about)
                line[place].set_title(f"{name}")
        axes[0][2].legend(fontsize=6)
        _save(figure, "solvers_sets.svg")
    rows = []
    for name, one in found.items():
        best = max(run["objective"] for run in one["runs"].values() if "objective" in run)
        for solver, run in one["runs"].items():
            if "refused" in run:
                rows.append([f"{name}: {solver}", "refused", "", "", "", ""])
                continue
            last = run["trace"][-1]
            far = (best - run["objective"]) / abs(best)
            costs = [f"{last[0]:.2f}", f"{last[1]:,}", f"{last[2]:,}"]
            rows.append([f"{name}: {solver}", f"{far:.0e}", f"{run['non_zeros']:,}", *costs])
    heads = ["", "distance", "non-zeros", "s", "passes", "values read"]
    return f"{ABOUT_SETS}\n\n![curves](solvers_sets.svg)\n\n{report.table(heads, rows)}"


SECTIONS = {"shotgun": _shotgun, "machines": _machines, "sublinear": _sublinear, "peers": _peers, "sets": _sets}


def publish(found: dict[str, Any]) -> None:
    """Write solvers.md and its pictures."""
    packages = ["scikit-learn", "vowpalwabbit", "numpy"]
    parts = [SECTIONS[name](found[name]) for name in SECTIONS if name in found]
    text = "\n".join(["# Other batch solvers", "", *parts, report.conditions("python -m tests.bench.solvers", packages)])
    report.publish("solvers", text, write=True)
