"""What may be run over rows: pure functions of rows and named arrays.

A job is run over one part, and its results are summed. A walk goes over all parts, one after another, for some of the machines of
ParallelSGD.

Jobs have names, and only names and arrays are handed to a pool. So a pool of other processes sends no code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, Literal, cast

import numpy as np

from riata.base.arrays import F64, I32, Arrays
from riata.lab.batch.data import Part, Rows, keep_features
from riata.lab.batch.machines import walk
from riata.lab.batch.taylor_pass import SUMS, Weighted, expand, likelihoods, sides

Job = Literal["labels", "taylor", "search", "sides", "gather", "several"]
WalkName = Literal["walk"]
Request = tuple[Job, Arrays]

MIX: Final = np.uint32(2654435769)  # Knuth's multiplicative hash


def labels(rows: Rows, _given: Arrays) -> Arrays:
    """Total weight by label: `weight` f64[2], of -1 and of 1."""
    positive = rows.label > 0.0
    return {"weight": np.array([rows.weight[~positive].sum(), rows.weight[positive].sum()])}


def taylor(rows: Rows, given: Arrays) -> Arrays:
    """See `taylor_pass.expand`.

    given   : link i64[1], beta f64[d], intercept f64[1], position i32[d], members i64[1]
    returns : sums, moments, cross
    """
    d, size = len(given["beta"]), int(given["members"][0]) + 1
    made = {"sums": np.zeros((2, SUMS)), "moments": np.zeros((2, d, 2)), "cross": np.zeros((size, size))}
    expand(rows, int(given["link"][0]), _weighted(given, ""), *made.values())
    return cast(Arrays, made)


def search(rows: Rows, given: Arrays) -> Arrays:
    """See `taylor_pass.likelihoods`.

    given   : link i64[1], beta and toward_beta f64[d], intercept and toward_intercept f64[1], position i32[0], shares f64[m]
    returns : likelihood f64[m]
    """
    shares = cast(F64, given["shares"])
    made = np.zeros(len(shares))
    likelihoods(rows, int(given["link"][0]), _weighted(given, ""), _weighted(given, "toward_"), shares, made)
    return {"likelihood": made}


def side_counts(rows: Rows, given: Arrays) -> Arrays:
    """See `taylor_pass.sides`: `sides` i64[2]. given: beta f64[d], intercept f64[1], slack f64[1]."""
    beta = cast(F64, given["beta"])
    return {"sides": np.array(sides(rows, beta, float(given["intercept"][0]), float(given["slack"][0])), np.int64)}


def gather(rows: Rows, given: Arrays) -> Arrays:
    """See `data.keep_features`: a copy of the rows. given: position i32[d], stride i64[1]."""
    stride, number = int(given["stride"][0]), np.arange(len(rows.label), dtype=np.uint32)
    chosen = np.flatnonzero((number * MIX >> np.uint32(16)) & np.uint32(stride - 1) == 0)
    return cast(Arrays, keep_features(rows, chosen, cast(I32, given["position"]))._asdict())


def several(rows: Rows, given: Arrays) -> Arrays:
    """Several jobs on rows that are loaded once.

    given   : jobs str[m], and what job i is given with the prefix `i/`
    returns : what job i returns with the prefix `i/`
    """
    made: Arrays = {}
    for i, job in enumerate(given["jobs"].tolist()):
        own = {name.removeprefix(f"{i}/"): array for name, array in given.items() if name.startswith(f"{i}/")}
        made |= {f"{i}/{name}": array for name, array in JOBS[cast(Job, job)](rows, own).items()}
    return made


def merged(requests: list[Request]) -> Request:
    """Several requests as one, whose parts are loaded once."""
    given: Arrays = {"jobs": np.array([job for job, _ in requests])}
    for i, (_, own) in enumerate(requests):
        given |= {f"{i}/{name}": array for name, array in own.items()}
    return "several", given


def answer_to(i: int, found: Arrays) -> Arrays:
    """What request i of those that were merged returned."""
    return {name.removeprefix(f"{i}/"): array for name, array in found.items() if name.startswith(f"{i}/")}


def _weighted(given: Arrays, prefix: str) -> Weighted:
    beta, position = cast(F64, given[prefix + "beta"]), cast(I32, given["position"])
    return Weighted(beta, float(given[prefix + "intercept"][0]), position)


JOBS: Final[Mapping[Job, Callable[[Rows, Arrays], Arrays]]] = MappingProxyType(
    {"labels": labels, "taylor": taylor, "search": search, "sides": side_counts, "gather": gather, "several": several}
)
WALKS: Final[Mapping[WalkName, Callable[[Sequence[Part], Arrays, int, int], Arrays]]] = MappingProxyType({"walk": walk})
SHARES: Final = "shares"  # what a walk is given: the number of its tasks, i64[1]


def tasks_of(job: Job | WalkName, given: Arrays, parts: int) -> int:
    """How many tasks a call has: one for each part, or for each share of a walk."""
    return int(given[SHARES][0]) if job in WALKS else parts


def run_task(job: Job | WalkName, parts: Sequence[Part], given: Arrays, number: int) -> Arrays:
    """Do one task of a call. parts : of all the data"""
    if job == "walk":
        return WALKS[job](parts, given, number, int(given[SHARES][0]))
    return JOBS[job](parts[number].load(), given)
