"""`riata demo`: streams rows into a model and shows its learning curve."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from riata.cli.connect import DEFAULT_URL, FORMATS, LearnerOption, UrlOption, connected

DEFAULT_ROWS: Final = 400_000  # some 15 to 30 s, and enough to see the change halfway
EXAMPLE: Final = """Examples:

- `riata demo` streams 400,000 synthetic clicks.
- `riata demo mails.ndjson.gz --fresh` streams a file into a new model, and drops the model `demo` if there is one."""


def demo(
    file: Annotated[
        str | None,
        typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin. [default: synthetic clicks]"),
    ] = None,
    url: UrlOption = DEFAULT_URL,
    model: Annotated[str, typer.Option(help="Name of the model to create. It may also be the first word.")] = "demo",
    rows: Annotated[
        int | None, typer.Option(min=1, help=f"Rows to stream. [default: {DEFAULT_ROWS:,} synthetic clicks, or all rows of FILE]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the synthetic clicks.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Drop an existing model of that name first.")] = False,
    learner: LearnerOption = None,
) -> None:
    """Stream rows into a running service and plot its learning curve.

    While the service does not listen yet or is not ready, the command says what it waits for, and waits too. The plot shows the
    log loss of the model and, for comparison, the log loss of always predicting the base rate. At the end the command prints the
    largest weights and two `curl` commands to try.
    """
    from rich.console import Console

    from riata.base.clock import SystemClock
    from riata.cli.connect import wait_until_ready
    from riata.cli.demo_run import Demo, make_view, prepare_model, show_end
    from riata.cli.demo_stream import file_stream, generated_stream
    from riata.cli.model_setup import model_document

    console = Console()

    def say(told: str) -> None:
        console.print(told, highlight=False, soft_wrap=True, markup=False)

    source = generated_stream(rows or DEFAULT_ROWS, seed) if file is None else file_stream(file, rows)
    with source as stream, connected(url, say) as riata:
        wait_until_ready(riata, say)
        prepare_model(riata, model, model_document(stream.labels, stream.text, learner), fresh, ask=console.is_terminal)
        console.print(f"streaming {stream.name} into model {model!r} at {url}", highlight=False, soft_wrap=True)
        run = Demo(riata, model, stream, SystemClock())
        with make_view(console) as view:
            run.stream(view)
        show_end(console, riata, model, url, run)
    if run.refusals.rows:
        raise typer.Exit(1)
