"""`riata jobs`: what a running service works on after the request was answered."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

import typer

from riata.cli.connect import DEFAULT_URL, UrlOption, connected
from riata.cli.nearest_verb import NearestGroup

EXAMPLE: Final = "Example: `riata jobs list`"

JsonOption = Annotated[bool, typer.Option("--json", help="Print the answer of the service as JSON.")]
JobArgument = Annotated[str, typer.Argument(help="Id of the job, as `riata jobs list` shows it.")]

app = typer.Typer(
    cls=NearestGroup,
    help="List, await and cancel the jobs of a running service: what goes on after its request.",
    no_args_is_help=True,
    epilog=EXAMPLE,
    rich_markup_mode="markdown",
)


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
