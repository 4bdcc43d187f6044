"""ParallelSGD: machines learn parts of the rows by themselves, and their weights are averaged (Zinkevich et al. 2010).

    deal       row i goes to machine i modulo k, so a change in time, or sorted labels, is the same for all
    walk       each machine visits its rows of a part in random order: gradient steps with a penalty
    average    of the weights of all machines. An average of sparse weights is dense, so then
    truncate   by an exact pass at the average: a weight is set to 0 if its gradient there would not hold it, |Omega_j| <= gamma_j

The result is that of k machines, however many workers of whatever pool there are to run them. It is a first answer after one
pass, not the optimum: its certificate says how far it is from there. RMMP can start from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from riata.base.arrays import F64, Arrays
from riata.base.errors import BadInput, TooLarge
from riata.lab.batch.certificate import Record
from riata.lab.batch.passes import INTERCEPT, STATE, Rates, new_walk
from riata.lab.batch.pool import Pool, summed
from riata.lab.batch.problem import Problem, Solution, Watch, first_weights, watch_nothing
from riata.lab.batch.rmmp import NUMBER_BYTES, TOLERANCE
from riata.maths.links import LINKS

ARRAYS: Final = 4  # that a machine keeps for each feature


@dataclass(frozen=True, slots=True)
class ParallelSgd:
    """The solver.

    passes_max       : passes over the rows before the average is final
    tolerance, memory_bytes_max : see `Rmmp`
    machines         : k
    eta              : step size
    adaptive         : divide steps by the root of the squared gradients so far; otherwise all have the size eta
    whole            : every machine visits all rows, each in an order of its own, in place of every k-th row
    seed             : of the orders
    """

    tolerance: float = TOLERANCE
    passes_max: int = 1
    memory_bytes_max: int | None = None
    machines: int = 8
    eta: float = 1.0
    adaptive: bool = True
    whole: bool = False
    seed: int = 0

    def solve(self, problem: Problem, pool: Pool, watch: Watch = watch_nothing) -> Solution:
        """Find weights. Raises `BadInput` for more machines than rows, and if the weights leave the finite range."""
        data = problem.data
        if self.machines > data.rows and not self.whole:
            raise BadInput(f"parallel_sgd: {self.machines} machines, and only {data.rows} rows; use fewer", "too_many_machines")
        gamma = problem.penalties[np.isfinite(problem.penalties)]
        if len(np.unique(gamma)) > 1:
            raise BadInput("parallel_sgd: expected one penalty for all features", "one_penalty")
        copies = 2 if self.passes_max == 1 else 3  # of the states: from the pool and joined, and those before a further pass
        memory = NUMBER_BYTES * data.features * ARRAYS * (copies * self.machines + 1)
        if self.memory_bytes_max is not None and memory > self.memory_bytes_max:
            raise TooLarge(
                f"{self.machines} machines need {memory} bytes and memory_bytes_max is {self.memory_bytes_max}; use fewer",
                "memory_bound",
            )
        record = Record(problem, pool, self.tolerance, watch)
        beta, intercept = first_weights(problem, pool.fold("labels", data.parts, {}))
        states: Arrays = {name: array[np.newaxis] for name, array in new_walk(beta, intercept)._asdict().items()}
        weight = float(np.max(gamma, initial=0.0)) / data.rows
        rates = Rates(self.eta, weight, self.adaptive, problem.gamma_intercept == 0.0)
        for epoch in range(self.passes_max):
            states = self._pass(record, states, rates, epoch)
            self._average(record, states)
            if record.stopped is not None:
                break
        record.stopped = record.stopped or "passes"
        return record.solution(memory)

    def _pass(self, record: Record, states: Arrays, rates: Rates, epoch: int) -> Arrays:
        """The states of all machines after one more pass."""
        problem = record.problem
        given: Arrays = {
            "link": np.array([LINKS[problem.link].code]), "machines": np.array([self.machines]), "epoch": np.array([epoch]),
            "seed": np.array([self.seed]), "whole": np.array([self.whole], np.int64), "rates": np.array(rates, np.float64),
        }  # fmt: skip
        found = list(record.pool.deal("walk", problem.data.parts, {**given, **states}))
        record.passes += self.machines if self.whole else 1
        record.accesses += problem.data.nnz * (self.machines if self.whole else 1)
        return {name: np.concatenate([one[name] for one in found]) for name in STATE}

    def _average(self, record: Record, states: Arrays) -> None:
        """Measure the average, and what is left of it when weights that nothing holds are set to 0."""
        total = summed({name: states[name][machine].copy() for name in ("beta", "own")} for machine in range(self.machines))
        beta, intercept = cast(F64, total["beta"]) / self.machines, float(total["own"][INTERCEPT]) / self.machines
        beta[np.isinf(record.problem.penalties)] = 0.0
        if not (np.all(np.isfinite(beta)) and np.isfinite(intercept)):
            raise BadInput(
                f"parallel_sgd: the weights left the finite range with eta = {self.eta:g}; use a smaller eta", "diverged"
            )
        at = record.measure(beta, intercept, len(beta))
        if record.stopped is None:
            omega = np.abs(at.gradient + at.curvature * at.beta)
            record.measure(np.where(omega <= record.problem.penalties, 0.0, beta), intercept, len(beta))
