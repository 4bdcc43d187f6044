"""The command `riata`: its verbs (subcommands), and how errors become messages and exit codes.

Verbs import their modules when they are called, so that `riata --help` does not wait for a compiler to load.
Exit codes: 0 done; 1 the command failed; 2 wrong usage, or no service answers; 130 interrupted.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from typing import Annotated, Any, Final

import typer
from typer.models import CommandInfo as Verb

from riata.base.errors import BadInput, RiataError
from riata.cli import (
    backup,
    card,
    compare,
    demo,
    explain,
    exports,
    feed,
    fit,
    forget,
    groups,
    inspect,
    keys,
    log,
    metrics,
    models,
    observe,
    part,
    path,
    posterior,
    predict,
    refit,
    regret,
    repair,
    replay,
    restore,
    scorer,
    sequences,
    serve,
    snapshots,
    tree,
    tune,
    version,
    warm,
    weights,
)
from riata.cli.model_words import ModelCommand
from riata.cli.nearest_verb import NearestGroup
from riata.cli.plain_options import take_plainly

FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130


class Verbs(NearestGroup):
    """The group of verbs: the one place where errors become a line on stderr and an exit code."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a verb."""
        verb = super().get_command(ctx, cmd_name)
        take_plainly(() if verb is None else verb.get_params(ctx))
        return verb

    def get_params(self, ctx: Any) -> list[Any]:
        """List its own options."""
        parameters = super().get_params(ctx)
        take_plainly(parameters)
        return parameters

    def invoke(self, ctx: Any) -> Any:
        """Run a verb."""
        try:
            return super().invoke(ctx)
        except RiataError as error:
            typer.echo(f"riata: {error.detail}", err=True)
            raise typer.Exit(exit_code(error)) from None
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            typer.echo(f"riata: {error.filename or 'system'}: {error.strerror or error}", err=True)
            raise typer.Exit(FAILED) from None
        except KeyboardInterrupt:
            typer.echo("riata: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def exit_code(error: RiataError) -> int:
    """Return the exit code of an error. Misuse is an error that no state of a service or file could make valid."""
    return MISUSED if type(error) is BadInput or error.code == "unreachable" else FAILED


app = typer.Typer(
    cls=Verbs,
    name="riata",
    help=(
        "Riata, an online-learning service: sparse linear models learn from every labelled event. No acknowledged event is lost."
    ),
    epilog=(
        "Start the service with `riata serve`, then run `riata demo` in another terminal. "
        "`riata COMMAND --help` describes a command and shows an example."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def options(
    show_version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Options of `riata` itself."""
    if show_version:
        version.version()
        raise typer.Exit


app.command(name="serve", cls=serve.ServeCommand, epilog=serve.EXAMPLE)(serve.serve)
app.command(name="observe", cls=ModelCommand, epilog=observe.EXAMPLE)(observe.observe)
app.command(name="feed", cls=ModelCommand, epilog=feed.EXAMPLE)(feed.feed)
app.command(name="predict", cls=ModelCommand, epilog=predict.EXAMPLE)(predict.predict)
app.add_typer(models.app, name="models")
app.command(name="metrics", cls=ModelCommand, epilog=metrics.EXAMPLE)(metrics.metrics)
app.command(name="weights", cls=ModelCommand, epilog=weights.EXAMPLE)(weights.weights)
app.command(name="explain", cls=ModelCommand, epilog=explain.EXAMPLE)(explain.explain)
app.command(name="card", cls=ModelCommand, epilog=card.EXAMPLE)(card.card)
app.command(name="forget", cls=ModelCommand, epilog=forget.EXAMPLE)(forget.forget)
app.command(name="snapshots", cls=ModelCommand, epilog=snapshots.EXAMPLE)(snapshots.snapshots)
app.command(name="restore", cls=ModelCommand, epilog=restore.EXAMPLE)(restore.restore)
app.command(name="export", cls=ModelCommand, epilog=exports.EXPORT_EXAMPLE)(exports.export)
app.command(name="import", cls=ModelCommand, epilog=exports.IMPORT_EXAMPLE)(exports.import_)
app.command(name="backup", epilog=backup.EXAMPLE)(backup.backup)
app.command(name="scorer", cls=ModelCommand, epilog=scorer.EXAMPLE)(scorer.scorer)
app.command(name="fit", epilog=fit.EXAMPLE)(fit.fit)
app.command(name="groups", epilog=groups.EXAMPLE)(groups.groups)
app.command(name="refit", cls=ModelCommand, epilog=refit.EXAMPLE)(refit.refit)
app.command(name="regret", cls=ModelCommand, epilog=regret.EXAMPLE)(regret.regret)
app.command(name="compare", epilog=compare.EXAMPLE)(compare.compare)
app.command(name="part", epilog=part.PART_EXAMPLE)(part.part)
app.command(name="sum", epilog=part.SUM_EXAMPLE)(part.sum_)
app.command(name="posterior", epilog=posterior.EXAMPLE)(posterior.posterior)
app.command(name="sequences", epilog=sequences.EXAMPLE)(sequences.sequences)
app.command(name="path", cls=ModelCommand, epilog=path.EXAMPLE)(path.path)
app.command(name="tune", cls=ModelCommand, epilog=tune.EXAMPLE)(tune.tune)
app.command(name="replay", cls=ModelCommand, epilog=replay.EXAMPLE)(replay.replay)
app.command(name="repair", cls=ModelCommand, epilog=repair.EXAMPLE)(repair.repair)
app.command(name="inspect", epilog=inspect.EXAMPLE)(inspect.inspect)
app.command(name="demo", cls=ModelCommand, epilog=demo.EXAMPLE)(demo.demo)
app.command(name="tree", epilog=tree.EXAMPLE)(tree.tree)
app.command(name="warm", epilog=warm.EXAMPLE)(warm.warm)
app.add_typer(keys.app, name="keys")
app.add_typer(log.app, name="log")
app.command(name="version", epilog=version.EXAMPLE)(version.version)


def main() -> None:
    """Entry point of the command."""
    hold_standard_streams()
    app.registered_commands = asked_for(sys.argv[1:], app.registered_commands)
    try:
        app()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            leave(end.code or 0)
        raise


def asked_for(arguments: list[str], verbs: list[Verb]) -> list[Verb]:
    """Return only the verb that the first argument names, or all verbs. Building the options of all verbs takes as long as
    importing some twenty modules."""
    return [verb for verb in verbs if verb.name in arguments[:1]] or verbs


def leave(code: int) -> None:
    """End the process like the interpreter, but without freeing its memory, which takes as long as loading a compiler.

    Returns if standard output or error cannot be flushed: the interpreter then reports that.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # joins the threads and runs their exit callbacks
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return
    os._exit(code)


def hold_standard_streams() -> None:
    """Open /dev/null for each of standard input, output and error that is closed.

    Otherwise the next file or socket takes its descriptor, and output to the stream goes there."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
