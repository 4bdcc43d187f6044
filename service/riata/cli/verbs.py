"""The command `riata`: its verbs (subcommands), and how errors become messages and exit codes.

A verb is imported only if it is asked for: its options take as long to make as most verbs take to run. The help of `riata` lists
the verbs by what VERBS says of them.

Exit codes: 0 done; 1 the command failed; 2 wrong usage, or no service answers; 130 interrupted.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Annotated, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from riata import __version__
from riata.base.errors import BadInput, RiataError

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
    """

    name: str
    module: str
    about: str
    of_model: bool = False
    command: str = ""


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
    Verb("metrics", "show:metrics", "Show how well a model predicts, and its learning curve.", of_model=True),
    Verb("weights", "show:weights", "Show the weights of a model that are largest in magnitude.", of_model=True),
    Verb("fields", "fields:app", "Show and change the kinds of the fields of a model."),
    Verb("shapes", "show:shapes", "Show what the values of numeric columns add to the margin.", of_model=True),
    Verb("explain", "show:explain", "Predict one row and show what each of its features adds to the margin.", of_model=True),
    Verb(
        "card",
        "show:card",
        "Show the card of a model: configuration, data, figures, warnings, largest weights and changes.",
        of_model=True,
    ),
    Verb(
        "forget",
        "jobs:forget",
        "Make a model forget what it learnt from some subjects: the log is learnt again without their rows.",
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
        "snapshots:restore",
        "Undo what a model has learnt since an event or a moment (a rollback, after an incident or a bad deployment).",
        of_model=True,
    ),
    Verb(
        "export",
        "exports:export",
        "Write a model to a file: its configuration, its state and the names of its features. The log is not part of it.",
        of_model=True,
    ),
    Verb(
        "import",
        "exports:import_",
        "Replace the state of a model with that of a file, or create the model from it.",
        of_model=True,
    ),
    Verb(
        "backup",
        "exports:backup",
        "Copy the log, event ids, snapshots, remembered predictions and segments of a service, and read the copy back.",
    ),
    Verb(
        "scorer",
        "exports:scorer",
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
    Verb(
        "regret",
        "refit:regret",
        "Show how far a model was from the best weights for its events, at its last refit.",
        of_model=True,
    ),
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
        "show:path",
        "Show how many non-zero weights a model would have with other L1 penalties, without learning again.",
        of_model=True,
    ),
    Verb("tune", "models:tune", "Change the L1 penalty of a model while it learns.", of_model=True),
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
    Verb("inspect", "open_store:inspect", "Show the contents of a store, or of an exported model, without changing anything."),
    Verb("demo", "demo", "Stream rows into a running service and plot its learning curve.", of_model=True),
    Verb("tree", "tree", "Learn classes of curves by a decision tree that can be drawn."),
    Verb("jobs", "jobs:app", "List, await and cancel the jobs of a running service, the work that goes on after a request."),
    Verb("keys", "keys:app", "Create, list and revoke API keys."),
    Verb("log", "log:app", "Export the events of a model, and make the segments of its log."),
    Verb("version", "verbs:version", "Print the installed version of Riata, of Python, of SQLite and of the operating system."),
)


# One shape of arguments for all commands that take a model: its name is the first word after the command, or `--model NAME`.
# A command declares it as its first argument, or as the option `--model` beside arguments of another kind; here each of the two
# also takes the other form: `riata observe clicks rows.csv` is `riata observe rows.csv --model clicks`.


OPTION: Final = "--model"
TWICE: Final = f"the model is named twice: {{!r}} and {OPTION}; name it once"
NAMES: Final = frozenset({"model", "name"})  # of the argument of a command whose first argument is a model


class ModelCommand(TyperCommand):
    """A command that takes a model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after the command."""
        return super().parse_args(ctx, self.in_declared_form(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the line of usage."""
        options, *rest = super().collect_usage_pieces(ctx)
        return [options, *rest] if self._is_argument() else [options, "[model]", *rest]

    def in_declared_form(self, args: Sequence[str]) -> list[str]:
        """Return the words with the model where the command declares it. Raises `BadInput` if it is named twice."""
        words = [at for at, is_word in enumerate(self._are_words(args)) if is_word]
        arguments = [one for one in self.params if one.param_type_name == "argument"]
        if self._is_argument():
            return self._from_option(list(args), words, len(arguments))
        if words and self._begins_with_model([args[at] for at in words], arguments):
            if any(word == OPTION or word.startswith(f"{OPTION}=") for word in args):
                raise BadInput(TWICE.format(args[words[0]][:64]), "bad_option")
            first = words[0]
            return [OPTION, args[first], *args[:first], *args[first + 1 :]]
        return list(args)

    def _from_option(self, args: list[str], words: list[int], arguments: int) -> list[str]:
        at = next((at for at, word in enumerate(args) if word == OPTION or word.startswith(f"{OPTION}=")), None)
        if at is None:
            return args
        joined = args[at] != OPTION
        name = args[at].removeprefix(f"{OPTION}=") if joined else "".join(args[at + 1 : at + 2])
        if not name:
            raise BadInput(f"{OPTION}: give the name of a model", "bad_option")
        if len(words) >= arguments:
            raise BadInput(TWICE.format(args[words[0]][:64]), "bad_option")
        return [name, *args[:at], *args[at + (1 if joined else 2) :]]

    def _begins_with_model(self, words: Sequence[str], arguments: Sequence[Any]) -> bool:
        """Whether the first word is one more than the arguments take. Of features, which have a value each, it is one without."""
        if any(one.nargs == -1 for one in arguments):
            return arguments[0].name == "features" and len(words) > 1 and "=" not in words[0]
        return len(words) > len(arguments)

    def _is_argument(self) -> bool:
        first = next((one for one in self.params if one.param_type_name == "argument"), None)
        has_option = any(OPTION in one.opts for one in self.params)
        return first is not None and first.name in NAMES and not has_option

    def _are_words(self, args: Sequence[str]) -> list[bool]:
        """Return for each of the arguments whether it is a word: neither an option nor its value."""
        options: list[Any] = [one for one in self.params if one.param_type_name == "option"]
        valued = {opt for one in options if not one.is_flag for opt in one.opts}
        found, is_value, only_words = [], False, False
        for word in args:
            is_option = not only_words and word.startswith("-") and word != "-"
            found.append(not is_option and not is_value)
            only_words |= word == "--" and not is_value
            is_value = is_option and not is_value and (word in valued or (self._is_argument() and word == OPTION))
        return found


# Groups of commands that name the nearest one for a word that is none.


MEANT: Final = {  # words that other programs have for these commands
    "train": "observe", "learn": "observe", "teach": "observe", "send": "observe", "score": "predict", "infer": "predict",
    "start": "serve", "run": "serve", "server": "serve", "ls": "models list", "new": "models create", "delete": "models drop",
    "remove": "models drop", "rm": "models drop", "challenge": "models challengers", "erase": "forget", "stats": "metrics",
    "status": "metrics", "loss": "metrics", "coefficients": "weights", "consume": "feed", "checkpoint": "snapshots",
    "save": "snapshots", "load": "import", "rollback": "restore", "undo": "restore", "revert": "restore",
}  # fmt: skip


class NearestGroup(TyperGroup):
    """A group of commands."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command of the first word. Raises `BadInput` (code `bad_option`) with the nearest one if there is none."""
        word = args[0]
        if not word.startswith("-") and self.get_command(ctx, word) is None:
            raise BadInput(f"no command {word[:64]!r}; {self.nearest(ctx, word)}", "bad_option")
        return super().resolve_command(ctx, args)

    def nearest(self, ctx: Any, word: str) -> str:
        """Return a sentence that names the nearest command, one within a group too, or all of them if none is near."""
        path = [str(ctx.info_name)] if ctx.parent is not None else []
        known = {name: name for name in self.list_commands(ctx)}
        for name in self.list_commands(ctx):
            group = super().get_command(ctx, name)
            within = group.list_commands(ctx) if isinstance(group, TyperGroup) else ()
            known |= {verb: f"{name} {verb}" for verb in within if verb not in known}
        meant = MEANT.get(word, "").removeprefix(" ".join([*path, ""]))
        near = [meant] if meant in known.values() else difflib.get_close_matches(word, known, n=1)
        said = " ".join(["riata", *path, known.get(near[0], near[0])]) if near else ""
        return f"did you mean `{said}`?" if near else f"known: {', '.join(self.list_commands(ctx))}"


def group_of(about: str, example: str, kind: type[TyperGroup] = NearestGroup, needs_word: bool = True) -> typer.Typer:
    """Return a group of commands below a verb. needs_word : without one, its help is shown"""
    return typer.Typer(help=about, epilog=example, cls=kind, no_args_is_help=needs_word, rich_markup_mode="markdown")


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
    example = getattr(module, f"{verb.name.upper()}_EXAMPLE", "") or module.EXAMPLE  # a module may have several verbs
    made.command(name=verb.name, cls=kind, epilog=example)(run)


# The verbs that need no module of their own.

VERSION_EXAMPLE: Final = "Example: `riata version`"


def version() -> None:
    """Print the installed version of Riata, of Python, of SQLite and of the operating system."""
    import platform
    import sqlite3

    python, sqlite, system = platform.python_version(), sqlite3.sqlite_version, f"{platform.system()} {platform.machine()}"
    typer.echo(f"riata {__version__} (Python {python}, SQLite {sqlite}, {system})")
