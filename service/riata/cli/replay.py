"""`riata replay --data DIR` and `riata replay --store URL`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.cli.kept import DATA_HELP, STORE_HELP, kept

if TYPE_CHECKING:
    from riata.run.replay import ReplayReport
    from riata.store.store import Store

EXAMPLE: Final = (
    "Example: `riata replay --data ./riata-data --verify` once the service has stopped, or `--store URL` at any time."
)


def replay(
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
    model: Annotated[str | None, typer.Option(help="Only this model. [all]")] = None,
    to: Annotated[int | None, typer.Option(min=0, help="Stop after this event. [the last]")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Fail unless every checkpoint on the way holds the same bits.")
    ] = False,
) -> None:
    """Learn a log again from its first event and say what comes out.

    With --verify the exit code is 0 only where the log is whole and the state it leads to equals the stored one, bit for
    bit, at every checkpoint kept. Nothing that is kept is changed.
    """
    with kept(data, store) as (_, opened):
        names = [model] if model is not None else opened.models()
        same = [_replay_one(opened, name, to) for name in names]
    if verify and not all(same):
        raise typer.Exit(1)


def _replay_one(store: Store, name: str, to: int | None) -> bool:
    """Replay one model, say what was found; return whether stored and replayed state are the same."""
    from riata.cli.progress import seq_progress
    from riata.run.replay import replay as run_replay

    with seq_progress(name) as advance:
        report = run_replay(store, name, to, advance)
    for one in report.compared:
        verdict = one.problem or ("equal" if one.equal else f"DIFFERENT: stored {one.stored}, replayed {one.replayed}")
        typer.echo(f"{name}: generation {one.generation} at event {one.applied}: {verdict}")
    typer.echo(f"{name}: events {report.started_at + 1} to {report.state.applied} replayed, state {report.digest}")
    return report.equal and _something_compared(store, report)


def _something_compared(store: Store, report: ReplayReport) -> bool:
    """Tell whether the comparison had a subject: where checkpoints are stored, one of them must have been on the way."""
    if report.compared:
        return True
    stored = [generation.applied for generation in store.generations(report.model)]
    if not stored:
        typer.echo(f"{report.model}: no checkpoint is stored yet; the log is whole")
        return True
    typer.echo(
        f"{report.model}: no checkpoint lies on the way; those stored are at {', '.join(map(str, sorted(stored)))}", err=True
    )
    return False
