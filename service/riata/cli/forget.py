"""The command `riata forget`: rows of subjects leave a model."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, UrlOption, connected

EXAMPLE: Final = """Examples:

- `riata forget customer-4711 --model churn` has the model learn its log again without the rows of one subject.
- `riata forget customer-4711 customer-0815 --drop-trimmed` also gives up what a trimmed log no longer has."""


def forget(
    subjects: Annotated[list[str], typer.Argument(help="Subjects, as rows named them.")],
    model: Annotated[str | None, typer.Option(help="Name of the model. May be the first word. [default: default]")] = None,
    drop_trimmed: Annotated[
        bool,
        typer.Option("--drop-trimmed", help="If the log was trimmed: learn only what it still has."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the answer as JSON.")] = False,
    url: UrlOption = DEFAULT_URL,
) -> None:
    """Forget the rows of subjects: learn the log again without them, and delete the states and predictions that contain them,
    also snapshots that were saved.

    Without --model, the first of several words is the model if the service has one of that name, and a subject otherwise.

    What is not deleted is listed in the guide: above all the stored bytes of the rows, which leave when the log is trimmed.
    """
    from riata.cli.progress import share_progress

    with connected(url) as riata, share_progress("learning again") as advance:
        if model is None and len(subjects) > 1 and subjects[0] in {one["name"] for one in riata.models()["models"]}:
            model, *subjects = subjects
        answer = riata.forget(subjects, model=model or "default", drop_trimmed=drop_trimmed, on_progress=advance)
    typer.echo(json.dumps(answer) if as_json else told(answer))


def told(answer: dict[str, Any]) -> str:
    """Return the answer as lines for people."""
    lines = [f"forgot {answer['rows']:,} of {answer['of']:,} rows and {answer['predictions']:,} waiting predictions"]
    if answer["seq"]:
        deleted = f"{answer['snapshots_deleted']:,} snapshots that contained them were deleted"
        lines.append(f"model {answer['model']!r} was learnt again, up to event {answer['seq']:,}; {deleted}")
        if saved := [str(one["generation"]) + (f" ({one['note']})" if one["note"] else "") for one in answer["saved_deleted"]]:
            lines.append(f"among them are snapshots that were saved: {', '.join(saved)}")
        lines.append(f"the bytes of {answer['in_log']:,} rows stay in the log until it is trimmed; they are never learnt again")
    for name in ("log_loss", "loss"):
        before, after = answer["before"].get(name), answer["after"].get(name)
        if answer["seq"] and before is not None and after is not None:
            lines.append(f"{name.replace('_', ' ')}: {before:.6f} before, {after:.6f} after")
            break
    if answer["refits_undone"]:
        events = ", ".join(map(str, answer["refits_undone"]))
        lines.append(f"promotions at events {events} were made with such rows and are undone; refit again")
    if answer["trimmed"]:
        lines.append(f"the log begins after event {answer['trimmed']:,}: nothing from before is in the model any more")
    return "\n".join(lines)
