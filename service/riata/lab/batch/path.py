"""Several penalties of one problem, whose passes are shared.

A pass reads every row, and where rows come from files, reading and decoding them costs more than the arithmetic. So all
penalties that are being solved get their passes together. The largest begins. The next one begins at the weights of the one
before as soon as those violate their conditions by less than NEAR of the penalty: from there it needs few passes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, TooLarge
from riata.lab.batch.passes import Request, answer_to, merged
from riata.lab.batch.pool import Pool
from riata.lab.batch.problem import Problem, Solution, TraceRow
from riata.lab.batch.rmmp import Rmmp, Run, Solving, memory_bytes, plan

PENALTIES_MAX: Final = 8
NEAR: Final = 0.3

WatchPath = Callable[[float, TraceRow], bool]  # the penalty, and its pass; False: stop this penalty and begin no other


@dataclass(slots=True)
class _Penalty:
    """A penalty being solved."""

    gamma: float
    run: Run
    solving: Solving
    request: Request
    solution: Solution | None = None


def solve_path(
    problem: Problem, gammas: Sequence[float], solver: Rmmp, pool: Pool, watch: WatchPath
) -> list[tuple[float, Solution]]:
    """The optimum of `problem` under each penalty instead of its own, largest first; fewer if `watch` stops it.

    Raises `Conflict` and `TooLarge` as the solver does; memory is that of all penalties together.
    """
    if not 1 <= len(set(gammas)) <= PENALTIES_MAX or not all(gamma >= 0.0 for gamma in gammas):
        raise BadInput(f"gammas: expected 1 to {PENALTIES_MAX} penalties of at least 0, got {len(set(gammas))}")
    k = min(solver.k, problem.data.features)
    memory = len(set(gammas)) * memory_bytes(problem, k, pool.workers)
    if solver.memory_bytes_max is not None and memory > solver.memory_bytes_max:
        raise TooLarge(
            f"{len(set(gammas))} penalties with a working set of k = {k} need {memory} bytes and memory_bytes_max is "
            f"{solver.memory_bytes_max}; ask for fewer penalties or a smaller k",
            "memory_bound",
        )
    share = None if solver.memory_bytes_max is None else solver.memory_bytes_max // len(set(gammas))
    one = replace(solver, k=k, held_bytes_max=solver.held_bytes_max // len(set(gammas)), memory_bytes_max=share)
    needed, held = plan(one, problem, pool.workers)
    one = replace(one, held_bytes_max=held)
    return _Path(problem, one, len(set(gammas)) * needed, watch, pool).solve(sorted(set(gammas), reverse=True))


class _Path:
    def __init__(self, problem: Problem, solver: Rmmp, memory: int, watch: WatchPath, pool: Pool) -> None:
        self._problem, self._solver, self._memory, self._watch, self._pool = problem, solver, memory, watch, pool
        self._penalties: list[_Penalty] = []
        self._stopped = False

    def solve(self, gammas: list[float]) -> list[tuple[float, Solution]]:
        waiting = list(gammas)
        while True:
            if waiting and not self._stopped and self._next_may_begin():
                self._begin(waiting.pop(0))
            active = [one for one in self._penalties if one.solution is None]
            if not active:
                return [(one.gamma, cast(Solution, one.solution)) for one in self._penalties]
            job, given = merged([one.request for one in active])
            found = self._pool.fold(job, self._problem.data.parts, given)
            for i, one in enumerate(active):
                self._go_on(one, i, found)

    def _next_may_begin(self) -> bool:
        last = self._penalties[-1] if self._penalties else None
        return last is None or last.solution is not None or (last.run.best is not None and last.run.certificate.kkt <= NEAR)

    def _begin(self, gamma: float) -> None:
        start = self._penalties[-1].run.weights() if self._penalties else self._problem.start
        problem = replace(self._problem, gamma=gamma, start=start)

        def watch(row: TraceRow) -> bool:
            wanted = self._watch(gamma, row)
            self._stopped = self._stopped or not wanted
            return wanted

        run = Run(self._solver, problem, watch, self._memory, self._pool)
        solving = run.solve()
        self._penalties.append(_Penalty(gamma, run, solving, next(solving)))

    def _go_on(self, one: _Penalty, i: int, found: Arrays) -> None:
        try:
            one.request = one.solving.send(answer_to(i, found))
        except StopIteration as end:
            one.solution = end.value
