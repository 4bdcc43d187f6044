"""Times of reading, learning, scoring and solving in one process: `python native_side.py FOLDER`. Prints one JSON object.

It imports the package that PYTHONPATH names, and calls only what each version of it has. `native_core` runs it on two checkouts.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np

from riata.lab.batch.choose import CLASSES
from riata.lab.batch.data import in_memory
from riata.lab.batch.named import SOLVERS
from riata.lab.batch.pool import Serial
from riata.lab.batch.problem import Problem
from riata.lab.trees.curves import DISTANCES, curve_variable
from riata.lab.trees.growing import Growth, grow
from riata.learn.learner import Weights
from riata.learn.registry import build_learner
from riata.predict.factory import make_model
from riata.predict.model import OneRow, Origin, Plan
from riata.run.state.config import read_config
from riata.wire.encoder import EncoderConfig
from riata.wire.names import NamesSeen
from riata.wire.parse import Context, parse_examples

REPEATS = 7
SLOW_REPEATS = 3
BITS = 18
BODY_ROWS = 1000
NDJSON = "application/x-ndjson"
TYPES = {".ndjson": NDJSON, ".vw": "text/x-vw", ".svm": "text/x-svmlight"}
ONE_STEP = "truncated gradient, one step"
LEARNERS: dict[str, dict[str, Any]] = {
    "truncated gradient, defaults": {"kind": "truncated_gradient"},
    ONE_STEP: {"kind": "truncated_gradient", "mixed": False},
    "FTRL-Proximal": {"kind": "ftrl_proximal"},
    "Taylor sketch, hybrid": {"kind": "taylor_sketch"},
    "Taylor sketch, exact": {"kind": "taylor_sketch", "mode": "exact", "features_max": 300},
}
NARROW = ("adult", "spambase")  # what the exact sketch and the solvers get
FILTERED_ROWS = 2000  # for the particle filter, which takes 16 features
SOLVED_ROWS = 5000

found: dict[str, float] = {}


def best_s(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """The least seconds of several calls."""
    work()  # whatever is made at a first call
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def read_all(bodies: list[bytes], kind: str, context: Context) -> list[Any]:
    """Read bodies."""
    return [parse_examples(body, kind, context, True) for body in bodies]


def learn_all(settings: dict[str, Any], batches: list[Any]) -> Any:
    """A learner that has learnt batches."""
    learner = build_learner(read_config({"learner": settings}).learner, BITS)
    for batch in batches:
        learner.step(batch)
    return learner


def measure_rows(file: Path) -> None:
    """Read the rows of a file; learn and score them if they are real."""
    encoder = EncoderConfig(text=("text",)) if "text" in file.stem else EncoderConfig()
    labels: Any = "-1/+1" if file.stem.startswith(("a9a", "rcv1")) else "0/1"
    lines = file.read_bytes().splitlines()
    bodies = [b"\n".join(lines[at : at + BODY_ROWS]) + b"\n" for at in range(0, len(lines), BODY_ROWS)]
    names, kind = NamesSeen(), TYPES[file.suffix]
    context = Context(encoder, labels, names=names)
    first = read_all(bodies, kind, context)
    refused = [parsed.errors[0] for parsed in first if parsed.errors]
    assert not refused, (file, refused)
    for parsed in first:
        names.mark(parsed.names.fingerprint)
    batches = [parsed.batch for parsed in first]
    features = sum(len(batch.hash) for batch in batches)
    found[f"read: {file.stem}"] = best_s(partial(read_all, bodies, kind, context)) / features * 1e9
    if file.stem.startswith("made"):
        return
    for name, settings in LEARNERS.items():
        if settings.get("mode") != "exact" or file.stem in NARROW:
            found[f"learn: {name}: {file.stem}"] = best_s(partial(learn_all, settings, batches), SLOW_REPEATS) / features * 1e9
    weights = learn_all(LEARNERS[ONE_STEP], batches).weights()
    model = make_model(Origin("m", bytes(16), encoder, labels), weights, 0, 1, None)
    found[f"score: {file.stem}"] = best_s(lambda: [model.score(batch) for batch in batches]) / features * 1e9


def measure_queries(file: Path) -> None:
    """Predict queries one by one."""
    queries = file.read_bytes().splitlines()
    weights = Weights(np.arange(0, 1 << 18, 1 << 8, dtype=np.uint32), np.ones(1 << 10), 0.1, "logistic", BITS)
    model: Any = make_model(Origin("m", bytes(16), EncoderConfig(), "0/1"), weights, 0, 1, None)
    own = (model.native,) if hasattr(model, "native") else (model.weights, model.bucket, model.link.code)
    make: Any = Plan
    plan, row = make(*own, Context(EncoderConfig())), OneRow()
    assert all(row.answer(plan, query, False) is not None for query in queries)
    features = sum(len(parse_qsl(query)) for query in queries)
    found[f"predict by GET: {file.stem}"] = best_s(lambda: [row.answer(plan, query, False) for query in queries]) / features * 1e9


def batch_of(file: Path, rows: int) -> Any:
    """The first rows of a file."""
    return parse_examples(b"\n".join(file.read_bytes().splitlines()[:rows]), NDJSON, Context(EncoderConfig()), True).batch


def solve(make: Callable[..., Any], settings: dict[str, Any], problem: Problem) -> object:
    """Run a solver."""
    return make(**settings).solve(problem, Serial())


def measure_solvers(file: Path) -> None:
    """Each solver of the batch half, one thread."""
    batch = batch_of(file, SOLVED_ROWS)
    values = np.sign(batch.value) * np.log1p(np.abs(batch.value))
    data = in_memory(batch.indptr, batch.hash, values, np.where(batch.label > 0.5, 1.0, -1.0), batch.weight)
    problem = Problem(data, "logistic", 30.0)
    for name, make in CLASSES.items():
        settings = {"machines": 2} if "machines" in SOLVERS[name].settings else {}
        try:
            found[f"solve: {name}: {file.stem}, ms"] = best_s(partial(solve, make, settings, problem), SLOW_REPEATS) * 1e3
        except Exception as error:  # a solver that refuses the problem
            print(name, repr(error)[:200], file=sys.stderr)


def measure_trees() -> None:
    """Growing a tree of curves, with each distance."""
    rng = np.random.default_rng(1)
    label = np.arange(60) % 3
    curves = [list(np.sin(np.linspace(0, 3 + k, 60) + rng.normal(0, 0.1)) + rng.normal(0, 0.2, 60)) for k in label]
    for distance in DISTANCES:
        variables = [curve_variable("x", curves, distance)]
        found[f"tree: {distance}, ms"] = (
            best_s(partial(grow, variables, label, [0, 1, 2], Growth(restarts=2)), SLOW_REPEATS) * 1e3
        )


def main(folder: Path) -> None:
    """Measure every file of the folder."""
    for file in sorted(folder.glob("*.*")):
        (measure_queries if file.suffix == ".query" else measure_rows)(file)
    elec2 = batch_of(folder / "elec2.ndjson", FILTERED_ROWS)
    took = best_s(partial(learn_all, {"kind": "particle_filter"}, [elec2]), SLOW_REPEATS)
    found["learn: particle filter: elec2, µs a row"] = took / elec2.n * 1e6
    for stem in NARROW:
        measure_solvers(folder / f"{stem}.ndjson")
    measure_trees()
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
