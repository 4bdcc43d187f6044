"""`riata refit` and `riata regret`: the batch optimum of what a model has learnt, and how far the online model is from it."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.base.frozen_dataclass import frozen_dataclass
from riata.cli.connect import DEFAULT_URL, ModelArgument, UrlOption, connected
from riata.cli.open_store import DATA_HELP, STORE_HELP, kept
from riata.cli.option_groups import takes_groups
from riata.cli.solver_options import (
    PANEL,
    GroupOption,
    GroupsOption,
    PoolOptions,
    SolverGiven,
    SvgOption,
    group_tables,
    pool_of,
    require_one_model,
)
from riata.wire.solver_options import LAPS, SolverOptions, described

HoldOutOption = Annotated[
    float | None,
    typer.Option(min=0.0, max=0.5, help="With --url: share of the newest events that judges. [default: the gate's]"),
]
PromoteOption = Annotated[bool, typer.Option("--promote", help="With --url: let the model go on from it if the gate says so.")]
RunKOption = Annotated[
    list[float] | None,
    typer.Option(
        help="laps: how alike neighbours in a run are, 0 to below 1. Repeatable: the score chooses. [default: five values]",
        rich_help_panel=PANEL,
    ),
]

EXAMPLE: Final = """Examples:

- `riata refit clicks --url http://127.0.0.1:8080` has a running service do it, with a verdict; `--promote` uses it if better.
- `riata refit clicks --data ./riata-data` after the service has stopped: how much would the optimum gain?
- `riata refit curves --url http://127.0.0.1:8080 --solver laps --group "sensor=t{00..59}"` finds which runs of features matter.
- `riata refit clicks --store redis://localhost:6379/0 --gamma 10 --gamma 1` compares two penalties while services run.
- `riata refit clicks --data ./riata-data --out clicks.riata`, then `POST /models/clicks/import`, replaces the model."""


@frozen_dataclass(frozen=True, slots=True)
class RefitSolver(SolverGiven):
    """The solver of a refit."""

    solver: Annotated[
        str, typer.Option(help=f"{described()}, {LAPS} (runs of features within groups, with --url).", rich_help_panel=PANEL)
    ] = "auto"


@takes_groups
def refit(
    model: ModelArgument,
    *,
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
    url: Annotated[str | None, typer.Option(help="URL of a running service, which does the work.")] = None,
    events: Annotated[int | None, typer.Option(min=1, help="Only so many of the newest events. [default: all kept]")] = None,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads that solve. They do not change the result.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file, for POST /models/{model}/import.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
    solving: RefitSolver,
    pool: PoolOptions,
    hold_out: HoldOutOption = None,
    promote: PromoteOption = False,
    groups: GroupsOption = None,
    group: GroupOption = None,
    run_k: RunKOption = None,
    svg: SvgOption = None,
) -> None:
    """Find the best weights for the events of a model's log, and compare the online model with them.

    The online model is that of the newest snapshot. Both are measured on the events up to there, without skipped events and
    those that a restore undid. If the learner forgets, older events weigh less here too. The model and its log are not changed.
    With `--data`, segments of the log are kept in the directory for the next refit.

    With `--url` the service does the same in a process of its own, and its gate compares both on the newest events.

    Ctrl-C ends the passes with the best weights so far.
    """
    how = events, hold_out, promote
    if solving.solver == LAPS:
        settings: dict[str, Any] = {"solver": LAPS, "groups": group_tables(groups, group or ()), "run_k": run_k}
        settings |= {name: getattr(solving, name) for name in ("gamma", "memory_bytes_max", "tolerance")}
        if url is None:
            raise BadInput("laps refits a running service: give --url. For a file there is riata groups", "bad_option")
        from riata.cli.refit_running import refit_running

        refit_running(url, model, settings, how, as_json, svg)
        return
    if groups or group or run_k or svg:
        raise BadInput("--groups, --group, --run-k and --svg are options of --solver laps", "bad_option")
    options = solving.options()
    require_one_model(options, out)
    if (data is None) + (store is None) + (url is None) != 2:
        raise BadInput("give either --data with a directory, --store with the URL of a Redis, or --url", "bad_option")
    if url is not None:
        if out is not None:
            raise BadInput("--out: with --url the service keeps the result; promote it, then export the model", "bad_option")
        from riata.cli.refit_running import refit_running

        given = {"solver": options.solver, "gamma": list(options.gammas) or None, "bound": list(options.bounds) or None}
        refit_running(url, model, given | options.settings, how, as_json)
        return
    if promote or hold_out is not None:
        raise BadInput("--promote and --hold-out need a running service: give --url", "bad_option")
    _of_store(model, (data, store), events, (pool, threads), options, out, as_json)


def _of_store(
    model: str,
    where: tuple[Path | None, str | None],
    events: int | None,
    passes: tuple[PoolOptions, int],
    options: SolverOptions,
    out: Path | None,
    as_json: bool,
) -> None:
    """Refit the log of a store: a data directory, or the URL of a shared store."""
    started = time.perf_counter()
    with ExitStack() as stack:
        _, opened = stack.enter_context(kept(*where))
        from riata.cli.fit_setup import conclude, interruptible
        from riata.cli.progress import seq_progress
        from riata.cli.solve import notes_of, solve, table_of
        from riata.run.candidates.solving import refitting, report_of
        from riata.store.segment import FOLDER

        with seq_progress(model) as advance:
            directory = None if where[0] is None else where[0] / FOLDER / model
            task = stack.enter_context(refitting(opened, model, directory, events, advance))
        pool = stack.enter_context(pool_of(*passes, task.data))
        may_go_on = stack.enter_context(interruptible())
        choice, solved = solve(options, task.data, task.config, pool, may_go_on, task.online)
        content = None if out is None else task.export(*solved[0])
        report = {"model": model, "window": task.window.document(), **report_of(choice.name, choice.reason, solved, pool)}
        for one, (problem, solution) in zip(report["solutions"], solved, strict=True):
            objective, loss = task.measured_online(problem, pool, report["weight"])
            one["objective_excess"] = None if objective is None else solution.certificate.objective - objective
            report["online"] = {"non_zeros": len(task.online.slot), "log_loss": loss}
    report["interrupted"] = not may_go_on()
    table = [*table_of(report["solutions"]), *notes_of(report["solutions"])]
    conclude(report, (out, content), as_json, started, lambda told: _shown(told, table))


def _shown(report: dict[str, Any], table: list[str]) -> str:
    """Return the report as lines of text."""
    from riata.cli.fit_setup import last_lines
    from riata.cli.solve import excess_line

    window, online = report["window"], report["online"]
    left_out = f"{window['skipped']:,} skipped and {window['undone_by_restore']:,} undone by a restore are left out"
    lines = [
        f"model     {report['model']}, events {window['from']} to {window['to']} of {window['of']}",
        f"rows      {window['events']:,}; {left_out}",
        f"solver    {report['reason']}",
        f"online    log loss {online['log_loss']:.4f}, {online['non_zeros']:,} weights; base rate {report['base_log_loss']:.4f}",
        *table,
    ]
    for one in report["solutions"]:
        lines.append(f"gamma {one['gamma']:g}: {excess_line(one['objective_excess'], 'online weights')}")
    lines.append(f"time      {report['seconds']:.2f} s; the optimum was fitted to these events, the online model met each once")
    return "\n".join([*lines, *last_lines(report)])


# `riata regret MODEL`: how far a model was from the batch optimum at its last refit.


REGRET_EXAMPLE: Final = (
    "Example: `riata refit clicks --url http://127.0.0.1:8080` makes the comparison; `riata regret clicks` shows the last."
)


def regret(
    model: ModelArgument = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Show how far a model was from the best weights for its events, at its last refit.

    It prints three figures: the objective of both on the same events; the loss of both on events that neither had
    learnt; and the sum of the losses that the model had while it learnt, less that of the optimum.
    """
    from riata.cli.refit_running import regret_lines

    with connected(url) as riata:
        found = riata.regret(model)
    if as_json:
        typer.echo(json.dumps(found))
        return
    window, verdict = found["window"], found["verdict"]
    for line in (
        f"refit     {found['refit']} of {found['created']}, events {window['from']} to {window['to']} of {window['of']}",
        *regret_lines(found, found["certificate"]),
        f"verdict   {verdict['decision']}: {verdict['why']}",
    ):
        typer.echo(line)
