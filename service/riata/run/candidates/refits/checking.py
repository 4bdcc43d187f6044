"""What the service does with the result of a child process before it believes it: a pass of its own over the same rows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.lab.batch import passes
from riata.lab.batch.data import Part
from riata.lab.batch.pool import Pool, Serial
from riata.lab.batch.problem import Certificate, Problem
from riata.lab.batch.runs import Layout
from riata.learn.learner import Weights
from riata.run.candidates.adopting import link_of
from riata.run.candidates.refits.grouped import RunCheck, grouping_in
from riata.run.candidates.refits.task import Outcome, Task
from riata.run.candidates.solving import GAMMA, data_for, measured, measured_online, rows_between
from riata.wire.batch import Batch

SAME: Final = 1e-9  # of the objective: another order of summation


@dataclass(frozen=True, slots=True)
class OneByOne(Serial):
    """A pool of one part after another. go_on : called before each; may raise to give up."""

    go_on: Callable[[], None]

    def each(self, job: passes.Job, parts: Sequence[Part], given: Arrays) -> Iterator[Arrays]:
        """See `riata.lab.batch.pool.Pool`."""
        for part in parts:
            self.go_on()
            yield from Serial.each(self, job, [part], given)


def check(outcome: Outcome, task: Task, go_on: Callable[[], None]) -> dict[str, Any]:
    """Return the result as people see it, with a certificate of the service's own. Raises `Corrupt` (code
    `certificate_mismatch`) if the claimed one does not hold, and what `go_on` raises, which is called for each part of the rows.

    The bound `gap` is that of this one pass; the solver may have found a better one in an earlier pass.
    """
    report = copy.deepcopy(outcome.document)
    report["solutions"] = [{name: of for name, of in each.items() if name != "trace"} for each in report["solutions"]]
    one = report["solutions"][report["chosen"]]
    data = data_for(task.config, task.mapped(), task.online.bits, task.counted)
    problem, pool = Problem(data, link_of(task.config), one["gamma"]), OneByOne(go_on)
    runs = report.setdefault("runs", None)
    measure = partial(_measured, problem, pool, report["weight"], _run_check(problem, task, runs))
    found, log_loss = measure(outcome.weights)
    if abs(found.objective - one["objective"]) > SAME * max(1.0, abs(found.objective)) or found.kkt > one["kkt"] + SAME:
        raise Corrupt(
            f"the process that solved claims an objective of {one['objective']!r} with violation {one['kkt']:.1e}, and it is "
            f"{found.objective!r} with {found.kkt:.1e}: its result is not used",
            "certificate_mismatch",
        )
    rows = rows_between(task.mapped(), task.counted, 0, task.applied, task.config.label_weight.by_label)
    objective, online_loss = measured_online(task.online, _each(rows, go_on), measure)
    verdict, progressive = report["verdict"], report.pop("progressive_regret")
    has_gamma = hasattr(task.config.learner, "gamma")
    report["certificate"] = {"objective": found.objective, "gap": found.gap, "kkt": found.kkt}
    report["window"] = task.window
    report["memory_bytes"] = max(solution["memory_bytes"] for solution in report["solutions"])
    report["seq"] = task.applied
    report["regret"] = {
        "gamma": one["gamma"],
        "gamma_of": _gamma_of(task, has_gamma),
        "objective_excess": None if objective is None else found.objective - objective,
        "log_loss": {
            "online": online_loss,
            "batch": log_loss,
            "base": report["base_log_loss"],
        },
        "tail_log_loss": _tail(verdict),
        "progressive_regret": progressive,
    }
    return report


def _each(rows: Iterable[Batch], go_on: Callable[[], None]) -> Iterator[Batch]:
    for batch in rows:
        go_on()
        yield batch


def _run_check(problem: Problem, task: Task, runs: dict[str, Any] | None) -> RunCheck | None:
    """How weights are measured under the runs that a solution claims; None for solvers without groups. Takes the lengths of the
    runs out of the report: they are of no use to people."""
    if runs is None:
        return None
    layout = Layout.of(grouping_in(task.groups, problem.data), problem.data.features)
    return RunCheck(problem, layout, [group.pop("lengths") for group in runs["groups"]], runs["k"])


def _measured(problem: Problem, pool: Pool, weight: float, runs: RunCheck | None, weights: Weights) -> tuple[Certificate, float]:
    """Return the certificate of weights and their mean loss. Raises `Corrupt` (code `certificate_mismatch`)."""
    if runs is None:
        return measured(problem, pool, weight, weights)
    try:
        checked = runs.at(weights, pool)
    except BadInput as error:
        raise Corrupt(f"the process that solved claims runs that cannot be: {error.detail}", "certificate_mismatch") from None
    return checked.certificate, -checked.log_likelihood / weight


def _gamma_of(task: Task, has_gamma: bool) -> str:
    if task.request.bounds:
        return "the bound, which is the optimum under this gamma"
    if task.request.gammas:
        return "the request"
    return "the learner" if has_gamma else f"the default {GAMMA:g}: this learner has no L1 penalty of this kind"


def _tail(verdict: dict[str, Any]) -> dict[str, Any] | None:
    """The losses of both on the hold-out, frozen at the event before it; None if nothing was judged."""
    if "online" not in verdict:
        return None
    return {
        "events": verdict["events"],
        "online": verdict["online"]["frozen_loss"],
        "batch": verdict["candidate"]["frozen_loss"],
        "difference": verdict["frozen_difference"],
        "standard_error": verdict["frozen_standard_error"],
    }
