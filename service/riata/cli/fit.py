"""`riata fit --online FILE`."""

from __future__ import annotations

import gc
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import FORMATS, FormatOption, require_format
from riata.cli.serve import BLAS_THREADS
from riata.learn.kinds import KINDS

if TYPE_CHECKING:
    from types import FrameType

    from riata.run.fit import Fit

INTERRUPTED: Final = 130
LONG_FILE: Final = 2**25  # bytes; the features of a longer file will fill a table
GARBAGE_AFTER: Final = 20_000  # objects: learning leaves few reference cycles, and collecting them takes 2 % of the time
EXAMPLE: Final = """Examples:

- `riata fit --online clicks.vw.gz --out clicks.riata` learns a file with the default learner and writes the model.
- `riata fit --online clicks.vw.gz --set eta=0.5 --set encoder.ngrams=2` changes two settings and reports the loss."""


def fit(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    online: Annotated[
        bool, typer.Option("--online", help="Learn in one pass and predict each row before it is learnt. Required.")
    ] = False,
    form: FormatOption = "auto",
    labels: Annotated[
        str, typer.Option(help="0/1, -1/+1, real or auto, which detects 0/1 and -1/+1 from the first rows.")
    ] = "auto",
    learner: Annotated[
        str | None, typer.Option(help=f"{', '.join(KINDS)}, or a JSON file of its settings. [default: {KINDS[0]}]")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, as eta=0.5 or encoder.ngrams=2. Repeatable."),
    ] = None,
    bits: Annotated[int | None, typer.Option(help="The table of weights has 2^bits slots. [default: 22]")] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="Configuration of the model in JSON or TOML, like the body of PUT /models/{model}.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads that parse; one also learns. More than 3 rarely pay.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file, for POST /models/{model}/import.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first row that is not learnt; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Learn a file of labelled rows without a service.

    The model is bit for bit the model of a service that observed the same rows in the same order. Each row is predicted before
    it is learnt; the report shows the loss of these predictions. If interrupted with Ctrl-C, the model learnt so far is kept.
    Rows that are not learnt are reported with their line numbers, and the exit code is then 1.
    """
    require_format(form)
    if not online:
        raise BadInput("--online is required: learning in one pass is the only mode", "bad_option")
    os.environ.setdefault(BLAS_THREADS, "1")  # like the service: the sums of a sketch then have the same bits
    gc.disable()  # imported objects stay, and collecting garbage among them takes a fifth of the start-up time
    from riata.cli.blocks import blocks, head_of
    from riata.cli.fit_report import document, show
    from riata.cli.fit_setup import fit_config, recognised
    from riata.cli.source import line_type, open_source
    from riata.run.fit import Fit

    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)
    gc.enable()
    started = time.perf_counter()
    with open_source(file) as source:
        head = head_of(source)
        start = recognised(head, file, form)
        settings = [*(setting or []), *([] if bits is None else [f"encoder.bits={bits}"])]
        run = Fit(fit_config(start, labels, model_file, learner, settings), line_type(start.form))
        run.begin_after(start.header, start.lines)
        is_long = os.path.isfile(file) and os.path.getsize(file) >= LONG_FILE
        if is_long:
            run.expect_many()
        with _interruptible() as may_go_on, _progress(file, run) as advance:
            lines = blocks(source, run.scratch, start.rest, is_long=is_long)
            run.run(lines, threads, lambda position: _judge(run, strict) and advance(position) and may_go_on())
    seconds = time.perf_counter() - started
    content = None if out is None else run.export()
    if out is not None and content is not None:
        _write(out, content)
    report = document(run, seconds, out, content)
    typer.echo(json.dumps(report) if as_json else show(report))
    if run.interrupted or report["rejected"] or report["refused"]:
        raise typer.Exit(INTERRUPTED if run.interrupted else 1)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Make the first Ctrl-C set a flag and restore the default for the second. Yields a function: whether there was none."""
    asked = False

    def ask(_signal: int, _frame: FrameType | None) -> None:
        nonlocal asked
        asked = True
        signal.signal(signal.SIGINT, before)

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: not asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _progress(file: str, run: Fit) -> Iterator[Callable[[int], bool]]:
    """Show the progress if stderr is a terminal. Yields a function that takes the position in the file and returns true."""
    if not typer.get_text_stream("stderr").isatty():
        yield lambda _position: True
        return
    from riata.cli.progress import fit_progress

    total = None if file == "-" else Path(file).stat().st_size
    with fit_progress(total) as show:

        def advance(position: int) -> bool:
            show(position, run.rows, run.state.progressive.log_loss)
            return True

        yield advance


def _judge(run: Fit, strict: bool) -> bool:
    """Return true. If `strict`, raises `Malformed` with the first row that was not learnt."""
    if strict and run.problems:
        from riata.base.errors import Malformed

        first = run.problems[0]
        raise Malformed(f"line {first.line}: {first.detail} [{first.code}]; nothing was written", first.code)
    return True


def _write(out: Path, content: bytes) -> None:
    """Write the file atomically: write to another name, then rename."""
    part = out.with_name(out.name + ".part")
    part.write_bytes(content)
    part.replace(out)
