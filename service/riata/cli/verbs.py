"""The command `riata`: its verbs (subcommands), and how errors become messages and exit codes.

A verb is imported only if it is asked for: its options take as long to make as most verbs take to run. The help of `riata` lists
the verbs by what VERBS says of them.

Exit codes: 0 done; 1 the command failed; 2 wrong usage, or no service answers; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer

from riata.base.errors import BadInput, RiataError
from riata.cli.model_words import ModelCommand
from riata.cli.nearest_verb import NearestGroup

FAILED: Final = 1
MISUSED: Final = 2
INTERRUPTED: Final = 130
GROUP: Final = "app"  # the function of verbs that have verbs of their own


class Verb(NamedTuple):
    """A subcommand.

    name     : as users write it
    module   : of `riata.cli`, with `:` and the function if that has another name
    about    : the first paragraph of its help
    of_model : whether it takes a model, in each form of `model_words`
    command  : name in `module` of the class that it is made with
    example  : name in `module` of what its help ends with
    """

    name: str
    module: str
    about: str
    of_model: bool = False
    command: str = ""
    example: str = "EXAMPLE"


VERBS: Final = (
    Verb("serve", "serve", "Run the service until it is stopped with SIGTERM or Ctrl-C.", command="ServeCommand"),
    Verb("observe", "observe", "Send a file of labelled rows to a running service.", of_model=True),
    Verb("feed", "feed", "Send the messages of a Redis stream or a Kafka topic to a running service.", of_model=True),
    Verb(
        "predict",
        "predict",
        "Predict a file of rows, in order: print one line of JSON per row, or write a table with --out.",
        of_model=True,
    ),
    Verb("models", "models:app", "List, create and drop the models of a running service."),
    Verb("metrics", "metrics", "Show how well a model predicts, and its learning curve.", of_model=True),
    Verb("weights", "weights", "Show the weights of a model that are largest in magnitude.", of_model=True),
    Verb("explain", "explain", "Predict one row and show what each of its features adds to the margin.", of_model=True),
    Verb(
        "card",
        "card",
        "Show the card of a model: configuration, data, figures, warnings, largest weights and changes.",
        of_model=True,
    ),
    Verb(
        "forget",
        "forget",
        (
            "Forget the rows of subjects: learn the log again without them, and delete the states and predictions that "
            "contain them, also snapshots that were saved."
        ),
        of_model=True,
    ),
    Verb(
        "snapshots",
        "snapshots",
        "List the snapshots of a model that the store keeps, save one, or delete a saved one.",
        of_model=True,
    ),
    Verb(
        "restore",
        "restore",
        "Undo what a model has learnt since an event or a moment (a rollback, after an incident or a bad deployment).",
        of_model=True,
    ),
    Verb(
        "export",
        "exports:export",
        "Write a model to a file: its configuration, its state and the names of its features. The log is not part of it.",
        of_model=True,
        example="EXPORT_EXAMPLE",
    ),
    Verb(
        "import",
        "exports:import_",
        "Replace the state of a model with that of a file, or create the model from it.",
        of_model=True,
        example="IMPORT_EXAMPLE",
    ),
    Verb(
        "backup",
        "backup",
        "Copy the log, event ids, snapshots, remembered predictions and segments of a service, and read the copy back.",
    ),
    Verb(
        "scorer",
        "scorer",
        "Write the served version of a model with a scorer in Python and one in JavaScript, each one file without dependencies.",
        of_model=True,
    ),
    Verb("fit", "fit", "Learn a file of labelled rows without a service."),
    Verb(
        "groups",
        "groups",
        "Find which groups of features, and which runs of neighbours inside groups with an order, have weights.",
    ),
    Verb(
        "refit",
        "refit",
        "Find the best weights for the events of a model's log, and compare the online model with them.",
        of_model=True,
    ),
    Verb("regret", "regret", "Show how far a model was from the best weights for its events, at its last refit.", of_model=True),
    Verb("compare", "compare", "Run several solvers on the rows of a file, and compare objective, certificate and cost."),
    Verb(
        "posterior",
        "posterior",
        "Show what the weights of a logistic regression may be: a particle filter reads the rows once, without a service.",
    ),
    Verb(
        "sequences",
        "sequences",
        "Find the Markov chains that a file of sequences is a mixture of, with intervals of shares and transition probabilities.",
    ),
    Verb(
        "path",
        "path",
        "Show how many non-zero weights a model would have with other L1 penalties, without learning again.",
        of_model=True,
    ),
    Verb("tune", "tune", "Change the L1 penalty of a model while it learns.", of_model=True),
    Verb(
        "replay",
        "replay",
        "Learn a log again from its first event and compare the result with the stored snapshots.",
        of_model=True,
    ),
    Verb(
        "repair",
        "repair",
        "Find damaged models, report what each possible repair would lose, and with --yes repair them.",
        of_model=True,
    ),
    Verb("inspect", "inspect", "Show the contents of a store, or of an exported model, without changing anything."),
    Verb("demo", "demo", "Stream rows into a running service and plot its learning curve.", of_model=True),
    Verb("tree", "tree", "Learn classes of curves by a decision tree that can be drawn."),
    Verb("warm", "warm", "Do nothing: no code is compiled at a start."),
    Verb("jobs", "jobs:app", "List, await and cancel the jobs of a running service: what goes on after its request."),
    Verb("keys", "keys:app", "Create, list and revoke API keys."),
    Verb("log", "log:app", "Export the events of a model, and make the segments of its log."),
    Verb("version", "version", "Print the installed version of Riata, of Python, of SQLite and of the operating system."),
)


class Verbs(NearestGroup):
    """The group of verbs: the one place where errors become a line on stderr and an exit code."""

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


def typer_of(verbs: Iterable[Verb], *, only_listed: bool = False) -> typer.Typer:
    """Return the command with these verbs. only_listed : for its own help: a verb is its name and what is said of it."""
    made = typer.Typer(
        cls=Verbs,
        name="riata",
        help=(
            "Riata, an online-learning service: sparse linear models learn from every labelled event. "
            "No acknowledged event is lost."
        ),
        epilog=(
            "Start the service with `riata serve`, then run `riata demo` in another terminal. "
            "`riata COMMAND --help` describes a command and shows an example."
        ),
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None if only_listed else "markdown",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @made.callback(invoke_without_command=True)
    def options(
        show_version: Annotated[bool, typer.Option("--version", is_eager=True, help="Print the version and exit.")] = False,
    ) -> None:
        """Options of `riata` itself."""
        if show_version:
            from riata.cli.version import version

            version()
            raise typer.Exit

    for verb in verbs:
        if only_listed:
            made.command(name=verb.name, short_help=verb.about)(_listed)
        else:
            _register(made, verb)
    return made


def _listed() -> None:
    """Do nothing: a verb that is only listed is not run."""


def _register(made: typer.Typer, verb: Verb) -> None:
    name, _, function = verb.module.partition(":")
    module = import_module(f"riata.cli.{name}")
    run = getattr(module, function or name)
    if function == GROUP:
        made.add_typer(run, name=verb.name)
        return
    kind = ModelCommand if verb.of_model else getattr(module, verb.command) if verb.command else None
    made.command(name=verb.name, cls=kind, epilog=getattr(module, verb.example))(run)
