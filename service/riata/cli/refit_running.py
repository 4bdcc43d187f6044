"""`riata refit MODEL --url URL`: a running service finds the optimum; this shows its progress, and then what it found."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from riata.base.directories import write_whole
from riata.base.errors import BadInput, Unavailable
from riata.cli.connect import connected
from riata.cli.fit_setup import INTERRUPTED, interruptible
from riata.cli.groups_fit import draw_groups, partition_lines
from riata.cli.progress import pass_progress
from riata.cli.solve import excess_line, notes_of, table_of

if TYPE_CHECKING:
    from riata.client import Riata

POLL_S: Final = 0.3


def refit_running(
    url: str,
    model: str,
    settings: Mapping[str, Any],
    how: tuple[int | None, float | None, bool],
    as_json: bool,
    svg: Path | None = None,
) -> None:
    """Start the refit, wait for it, and report. Ctrl-C ends it with the best weights so far.

    settings : of the solver; those that are None are left out
    how : number of newest events, share of them that judges, and whether to promote
    svg : where groups and runs are drawn, if it has some
    """
    events, hold_out, promote = how
    request = {name: value for name, value in settings.items() if value is not None}
    request |= {} if events is None else {"window": {"events": events}}
    request |= {} if hold_out is None else {"hold_out": {"share": hold_out}}
    with connected(url) as riata:
        begun = riata.begin_refit(model, **request, promote="if_better" if promote else "never")
        found, interrupted = _awaited(riata, model, begun)
    if found["error"] is not None and found["certificate"] is None:
        code, detail = found["error"]["code"], found["error"]["detail"]
        if found["state"] != "cancelled":
            raise (Unavailable if code == "refit_failed" else BadInput)(f"refit {found['id']}: {detail} [{code}]", code)
        typer.echo(f"riata: {detail}", err=True)
    else:
        if svg is not None:
            write_whole(svg, draw_groups(found["runs"]["partition"]).encode())
        typer.echo(json.dumps(found) if as_json else "\n".join(shown(found)))
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _awaited(riata: Riata, model: str, begun: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the refit when it has ended, and whether Ctrl-C ended it."""
    cancelled = False
    with pass_progress() as show, interruptible() as may_go_on:
        found = begun
        while found["state"] == "running":
            show(sentence(found))
            if not may_go_on() and not cancelled:
                cancelled = True
                riata.cancel_refit(model, begun["id"])
            time.sleep(POLL_S)
            found = riata.get_refit(model, begun["id"])
    return found, cancelled


def sentence(found: dict[str, Any]) -> str:
    """Say what a refit is doing."""
    progress, stage = found["progress"], str(found["stage"])
    if stage == "reading" and progress["events_to_read"]:
        return f"reading the log: {progress['events_read']:,} of {progress['events_to_read']:,} events"
    if progress["objective"] is None:
        return stage
    left = "" if progress["seconds_left"] is None else f", about {progress['seconds_left']:.0f} s left"
    figures = f"objective {progress['objective']:.4f}, largest violation {progress['kkt']:.1e}"
    return f"{stage}, pass {progress['passes']}: {figures}{left}"


def shown(found: dict[str, Any]) -> list[str]:
    """Return a refit as lines of text."""
    window, verdict = found["window"], found["verdict"]
    left_out = f"{window['skipped']:,} skipped and {window['undone_by_restore']:,} undone by a restore are left out"
    lines = [
        f"refit     {found['id']} of model {found['model']}, events {window['from']} to {window['to']} of {window['of']}",
        f"rows      {window['events']:,}; {left_out}",
        f"solver    {found['reason']}",
        *table_of(found["solutions"]),
        *notes_of(found["solutions"]),
        *runs_lines(found["runs"]),
        *regret_lines(found["regret"], found["certificate"]),
        f"verdict   {verdict['decision']}: {verdict['why']}",
        f"time      {found['seconds']:.1f} s",
    ]
    if len(found["solutions"]) > 1:
        lines.insert(-2, f"chosen    gamma {found['solutions'][found['chosen']]['gamma']:g}, by the older half of the hold-out")
    promotion = found["promotion"]
    if promotion is None:
        lines.append(f"next      POST /models/{found['model']}/refits/{found['id']}/promote lets the model go on from it")
    elif promotion["promoted"]:
        lines.append(f"promoted  as event {promotion['seq']}; events after {promotion['through']} were learnt again")
    else:
        lines.append(f"kept      the model was not changed: {promotion['detail']}")
    if found["state"] == "cancelled":
        lines.append("stopped   before the end; these are the best weights so far")
    return lines


def runs_lines(runs: dict[str, Any] | None) -> list[str]:
    """Return groups and runs as lines of text; none for a refit without groups."""
    if runs is None:
        return []
    return [f"runs      k {runs['k']:g}, score {runs['score']:.2f}", *partition_lines(runs["groups"], runs["partition"])]


def regret_lines(regret: dict[str, Any], certificate: dict[str, Any]) -> list[str]:
    """Return the three figures of the regret as lines of text, each named."""
    loss, tail, progressive = regret["log_loss"], regret["tail_log_loss"], regret["progressive_regret"]
    gap = "no bound" if certificate["gap"] is None else f"{certificate['gap']:.1e}"
    lines = [
        f"gamma     {regret['gamma']:g}, of {regret['gamma_of']}",
        f"objective {excess_line(regret['objective_excess'], 'online weights')} (gap {gap})",
    ]
    lines.append(
        f"log loss  {loss['online']:.4f} of the model, {loss['batch']:.4f} of the optimum, which was fitted to these events; "
        f"base rate {loss['base']:.4f}"
    )
    if tail is not None:
        lines.append(
            f"hold-out  {tail['online']:.4f} of the model, {tail['batch']:.4f} of an optimum without these {tail['events']:,} "
            f"events, both frozen before them (difference {tail['difference']:+.4f}, standard error {tail['standard_error']:.4f})"
        )
    if progressive is not None:
        lines.append(
            f"regret    {progressive['regret']:.2f}: the model lost {progressive['online']:.2f} on {progressive['events']:,} "
            f"events, each before it learnt it; the optimum, which knows them all, {progressive['batch']:.2f}"
        )
    return lines
