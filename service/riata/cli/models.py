"""`riata models` lists, creates and drops the models of a running service; `riata tune` changes the penalty of one."""

from __future__ import annotations

import json
import math
import sys
from typing import Annotated, Any, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import (
    DEFAULT_URL,
    CurvesOption,
    JsonOption,
    LabelWeightOption,
    LearnerOption,
    ModelArgument,
    UrlOption,
    connected,
)
from riata.cli.verbs import ModelCommand, group_of

EXAMPLE: Final = "Example: `riata models create spam --learner taylor_sketch --set gamma=3 --text body`"

app = group_of("List, create and drop the models of a running service.", EXAMPLE)


@app.command("list", epilog="Example: `riata models list`")
def list_(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the models: learner, events learnt, non-zero weights, and how many logged events are still to be learnt."""
    from rich.console import Console
    from rich.table import Table

    with connected(url) as riata:
        answer = riata.models()
    if as_json:
        typer.echo(json.dumps(answer))
        return
    table = Table()
    table.add_column("model")
    table.add_column("learner")
    for name in ("examples", "skipped", "non-zeros", "to learn"):
        table.add_column(name, justify="right")
    for model in answer["models"]:
        if "learner" not in model:  # it is not served
            table.add_row(model["name"], model.get("damaged") or model["waits"])
            continue
        learner = " ".join(filter(None, (model["learner"], model["mode"])))
        behind = model["seq_logged"] - model["seq_applied"]
        counts = (model["examples"], model["skipped"], model["non_zeros"], behind)
        table.add_row(model["name"], learner, *(f"{count:,}" for count in counts))
    Console().print(table)


@app.command("create", cls=ModelCommand, epilog=EXAMPLE)
def create(
    name: ModelArgument,
    learner: LearnerOption = None,
    labels: Annotated[str, typer.Option(help="Labels of the events: 0/1, -1/+1 or real.")] = "0/1",
    text: Annotated[list[str] | None, typer.Option(help="Feature whose words are features. Repeat it for several.")] = None,
    curve: CurvesOption = None,
    label_weight: LabelWeightOption = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A setting of the learner, or of encoder.* or the model, such as eta=0.5. Repeat it for several."
        ),
    ] = None,
    follow: Annotated[
        str | None,
        typer.Option(help="A model whose events this one learns. Settings that are not given are those of that model."),
    ] = None,
    backfill: Annotated[
        bool, typer.Option("--backfill", help="With --follow: learn what the log of that model still has first.")
    ] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Create a model. Settings that are not given have their defaults.

    If the model exists, settings that may change are changed, and others are refused.
    """
    from riata.cli.model_setup import POSITIVE_WEIGHT, add_curves, apply_setting, learner_document, model_document

    if backfill and follow is None:
        raise BadInput("--backfill: it is the log of another model that is learnt; give --follow too", "bad_option")
    if follow is None:
        document: dict[str, Any] = model_document(labels, text or (), learner)
        add_curves(document, curve or ())
    elif text or curve or labels != "0/1":
        raise BadInput(
            f"--follow: rows are stored as {follow} encoded them; leave --labels, --text and --curve out", "bad_option"
        )
    else:
        document = {"follow": follow, "learner": {} if learner is None else learner_document(learner)}
        document |= {"backfill": True} if backfill else {}
    for one in [*(setting or ()), *([] if label_weight is None else [f"{POSITIVE_WEIGHT}={label_weight}"])]:
        apply_setting(document, one)
    with connected(url) as riata:
        answer = riata.create_model(name, document)
    typer.echo(f"model {name!r} {'was created' if answer['created'] else 'exists and has these settings'}")


@app.command("challengers", cls=ModelCommand, epilog="Example: `riata models challengers clicks`")
def challengers(name: ModelArgument, as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the models that follow a model, each with the difference of its loss from that of the model.

    A challenger whose difference is below zero predicts better. The interval of about 95 % allows for events that depend on each
    other. Of a challenger that learnt the log first, a second line has the difference over those events, under both settings.
    """
    with connected(url) as riata:
        found = riata.model(name)["challengers"]
    if as_json:
        typer.echo(json.dumps(found))
        return
    for one in found:
        typer.echo(f"{one['name']}  {_difference(one)}")
        if past := one.get("past"):
            typer.echo(f"{'':{len(one['name'])}}  before it followed: {_difference(past)}")
    if not found:
        typer.echo(f"no model follows {name!r}; riata models create NAME --follow {name} --set eta=0.1 begins one")


def _difference(one: dict[str, Any]) -> str:
    near = one["interval"]
    said = "too few events yet" if near is None else f"{one['difference']:+.5f}, interval {near[0]:+.5f} to {near[1]:+.5f}"
    return f"{one['measure']} over {one['compared']:,} events: {said}"


@app.command("promote", cls=ModelCommand, epilog="Example: `riata models promote clicks faster`")
def promote(
    name: ModelArgument,
    challenger: Annotated[str, typer.Argument(help="A model that follows it.")],
    force: Annotated[bool, typer.Option("--force", help="Promote also if the challenger is not better beyond doubt.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Replace the learner of a model by that of one of its challengers. This is an event of the log, so a restore undoes it."""
    with connected(url) as riata:
        answer = riata.promote(name, challenger, force=force)
    typer.echo(f"model {name!r} goes on as {challenger!r} from event {answer['seq']:,} on: {answer['verdict']['why']}")


@app.command("drop", cls=ModelCommand, epilog="Example: `riata models drop spam --yes`")
def drop(
    name: ModelArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Drop a model, its log and its snapshots. This cannot be undone; `riata export` keeps a copy of the model."""
    with connected(url) as riata:
        examples = riata.model(name)["examples"]
        if not yes:
            if not sys.stdin.isatty():
                raise BadInput(f"model {name!r} has learnt {examples:,} events; give --yes to drop it", "bad_option")
            typer.confirm(f"Drop model {name!r}, which has learnt {examples:,} events?", abort=True)
        riata.drop_model(name)
    typer.echo(f"dropped: model {name!r}")


# The command `riata tune`: changes the L1 penalty of a model.


TUNE_EXAMPLE: Final = (
    "Example: `riata path clicks` shows the effect of each penalty; `riata tune clicks --gamma 0.3` applies one."
)


def tune(
    model: ModelArgument = "default",
    gamma: Annotated[float | None, typer.Option(help="New L1 penalty; a larger one leaves fewer non-zero weights.")] = None,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Change the L1 penalty of a model while it learns.

    Nothing is learnt again. The change is an event of the model's log.
    """
    if gamma is None:
        raise BadInput(f"give the new penalty, such as --gamma 0.3; `riata path {model}` shows the effect of each", "bad_option")
    if not math.isfinite(gamma):
        raise BadInput(f"--gamma {gamma}: expected a finite number, such as 0.3", "bad_option")
    with connected(url) as riata:
        before = riata.model(model)
        answer = riata.change(model, gamma=gamma)
        after = riata.model(model)
    was = before["config"]["learner"].get("gamma", gamma)
    counts = f"{before['non_zeros']:,} -> {after['non_zeros']:,} non-zeros"
    typer.echo(f"model {model!r}: gamma {was:g} -> {gamma:g}, {counts}, from event {answer['seq']} on")
