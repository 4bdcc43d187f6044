"""`riata jobs`: what a running service works on after the request was answered; `riata forget`, which begins such a job."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, JsonOption, UrlOption, connected
from riata.cli.verbs import group_of

EXAMPLE: Final = "Example: `riata jobs list`"

JobArgument = Annotated[str, typer.Argument(help="Id of the job, as `riata jobs list` shows it.")]

app = group_of("List, await and cancel the jobs of a running service, the work that goes on after a request.", EXAMPLE)


@app.command("list", epilog=EXAMPLE)
def list_(as_json: JsonOption = False, url: UrlOption = DEFAULT_URL) -> None:
    """List the jobs, newest first: those since the start of the service, and those that the former process left."""
    with connected(url) as riata:
        found = riata.jobs()
    if as_json:
        typer.echo(json.dumps(found))
        return
    for job in found["jobs"]:
        typer.echo(sentence(job))
    if not found["jobs"]:
        typer.echo("no jobs")


@app.command("wait", epilog="Example: `riata jobs wait f1784500000000`")
def wait(job: JobArgument, url: UrlOption = DEFAULT_URL) -> None:
    """Wait until a job has ended, and print its result as JSON."""
    from riata.cli.progress import share_progress

    with connected(url) as riata, share_progress(job) as advance:
        found = riata.wait_for_job(job, advance)
    typer.echo(json.dumps(found))


@app.command("cancel", epilog="Example: `riata jobs cancel f1784500000000`")
def cancel(job: JobArgument, url: UrlOption = DEFAULT_URL) -> None:
    """Ask a job to end. One that has begun to change its model cannot be cancelled."""
    with connected(url) as riata:
        found = riata.cancel_job(job)
    typer.echo(f"job {found['id']} of model {found['model']!r} ends without changing the model")


def sentence(job: dict[str, Any]) -> str:
    """Return a job as a line for people."""
    state = f"{job['stage'] or 'running'}, {job['progress']:.0%}" if job["state"] == "running" else job["state"]
    by = f", asked for by {job['actor']}" if job["actor"] else ""
    why = f": {job['error']['detail']}" if job["error"] else ""
    return f"{job['id']}  {job['kind']} of model {job['model']!r}, {job['created']}{by}: {state}{why}"


# The command `riata forget`: rows of subjects leave a model.


FORGET_EXAMPLE: Final = """Examples:

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
    """Make a model forget what it learnt from some subjects: the log is learnt again without their rows.

    Stored states and remembered predictions that contain the rows are deleted, also snapshots that were saved. The bytes of the
    rows stay in the log until it is trimmed; the guide lists what else is not deleted.

    Without --model, the first of several words is the model if the service has one of that name, and a subject otherwise.
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
