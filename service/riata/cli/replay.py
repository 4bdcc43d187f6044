"""The command `riata replay --data DIR` or `riata replay --store URL`: learns a log again and compares the states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.open_store import DATA_HELP, STORE_HELP, kept

if TYPE_CHECKING:
    from riata.run.state.replay import Compared, ReplayReport
    from riata.store.store import Store

EQUAL: Final = 0  # exit codes of --verify
DIFFERENT: Final = 1
NOT_COMPARABLE: Final = 3  # 2 is a usage error
BACKTEST: Final = "Other settings"
EXAMPLE: Final = """Examples:

- `riata replay --data ./riata-data --verify` after the service has stopped.
- `riata replay --store redis://localhost:6379/0 --verify` at any time.
- `riata replay --data ./riata-data --set gamma=0.1 --set gamma=1,eta=0.5` compares two configurations with the one in force."""


def replay(
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
    model: Annotated[str | None, typer.Option(help="Only this model; it may also be the first word. [default: all]")] = None,
    to: Annotated[int | None, typer.Option(min=0, help="Stop after this event. [default: the last event]")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Fail unless the replayed state equals every stored snapshot, bit for bit.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE,...",
            help="Settings of a configuration to compare with the one in force. Repeatable: one configuration each.",
            rich_help_panel=BACKTEST,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the curves to this file, which ends in .svg.", rich_help_panel=BACKTEST)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=BACKTEST)] = False,
) -> None:
    """Learn a log again from its first event and compare the result with the stored snapshots.

    With --verify the exit code is 0 only if the log is complete and the replayed state equals the stored one, bit for bit, at
    every stored snapshot. Nothing in the store is changed.

    Another version of the algorithms, or another processor or C library, may learn different bits from the same log. The first
    start under a different one writes an upgrade event, which contains the state. From that event on every bit is compared. For
    older parts the command reports under what they were learnt, and whether they are equal here too.

    Exit codes with --verify: 0 if all states are equal; 1 if the log or a snapshot is damaged, or differs although it was
    learnt under the present version; 3 if everything is sound, but an older part was learnt under another version or arithmetic
    and differs here, so it cannot be compared.

    With --set the log is the test of other settings. The configuration in force and each of those given learn every event that
    counts, in one pass, from nothing, and predict each before they learn it. The table shows the loss over all events and faded,
    the calibration (predicted over observed positives), the weights that are not zero, and the mean difference of the losses to
    the configuration in force. The interval allows for neighbouring events that resemble each other. Settings of the learner, of
    drift and encoder.bits can be tried; the rows are stored as they were encoded.
    """
    if setting and verify:
        raise BadInput("--set learns under other settings, so there is nothing to --verify; run the command twice", "bad_option")
    if not setting and (plot is not None or as_json):
        raise BadInput("--plot and --json show how settings compare; give some with --set KEY=VALUE", "bad_option")
    with kept(data, store) as (_, opened):
        if setting:
            from riata.cli.backtest import run_backtest

            run_backtest(opened, _only_model(opened, model), setting, to, plot, as_json)
            return
        names = [model] if model is not None else opened.models()
        codes = {_replay_one(opened, name, to) for name in names}
    if verify and codes - {EQUAL}:
        raise typer.Exit(DIFFERENT if DIFFERENT in codes else NOT_COMPARABLE)


def _only_model(store: Store, model: str | None) -> str:
    """Return the model whose settings are varied. Raises `BadInput` (code `bad_option`) if it is not clear which."""
    names = store.models()
    if model is not None or len(names) == 1:
        return names[0] if model is None else model
    raise BadInput(f"--set: name one model with --model; the store has {', '.join(names) or 'none'}", "bad_option")


def _replay_one(store: Store, name: str, to: int | None) -> int:
    """Replay one model and print the findings; return the exit code for it."""
    from riata.cli.progress import seq_progress
    from riata.run.state.replay import replay as run_replay

    with seq_progress(name) as advance:
        report = run_replay(store, name, to, advance)
    for one in report.compared:
        typer.echo(f"{name}: {_what(one)} at event {one.applied}: {_verdict(one)}")
    for span in report.spans[:-1]:
        typer.echo(f"{name}: events {span.first} to {span.last} were learnt under {span.learnt_under}")
    typer.echo(f"{name}: events {report.started_at + 1} to {report.state.applied} replayed, state {report.digest}")
    if not report.sound or not _something_compared(store, report):
        return DIFFERENT
    return EQUAL if report.equal else NOT_COMPARABLE


def _what(one: Compared) -> str:
    if one.forget:
        return "state without the rows that are forgotten,"
    return f"snapshot {one.generation}" if one.generation else f"state carried by upgrade event {one.upgrade},"


def _verdict(one: Compared) -> str:
    if one.problem or one.equal:
        return one.problem or "equal"
    if one.comparable:
        return f"DIFFERENT: stored {one.stored}, replayed {one.replayed}"
    return f"not comparable: learnt with {one.learnt_under}, whose bits differ on this machine"


def _something_compared(store: Store, report: ReplayReport) -> bool:
    """Return whether a checkpoint was compared, or none is stored. Prints a message if none was compared."""
    if report.compared:
        return True
    stored = [generation.applied for generation in store.generations(report.model)]
    if not stored:
        typer.echo(f"{report.model}: no snapshot is stored yet; the log is complete")
        return True
    typer.echo(
        f"{report.model}: no snapshot was compared; the stored ones are at events {', '.join(map(str, sorted(stored)))}",
        err=True,
    )
    return False
