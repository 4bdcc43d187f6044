"""`riata posterior FILE`: the posterior distribution of every weight of a small logistic regression."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import FORMATS, FormatOption, LevelOption

if TYPE_CHECKING:
    from riata.cli.fit_setup import Request

EXAMPLE: Final = """Examples:

- `riata posterior doses.csv.gz --plot doses.svg` learns a file in one pass, shows a table and draws the marginals.
- `riata posterior doses.ndjson --set features_max=24 --set gamma=0.1 --level 0.8 --out doses.riata` also writes the model.
- `riata posterior doses.riata` shows the posterior in an exported model, of `riata export` for example."""
EXPORTED: Final = ".riata"


def posterior(
    file: Annotated[
        str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin. Or an exported model, NAME.riata.")
    ],
    level: LevelOption = 0.95,
    plot: Annotated[Path | None, typer.Option(help="Draw the marginal densities into this SVG file.")] = None,
    form: FormatOption = "auto",
    labels: Annotated[str, typer.Option(help="0/1, -1/+1 or auto, which detects them from the first rows.")] = "auto",
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting of the particle filter, such as gamma=0.1. Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file, for POST /models/{model}/import.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Show what the weights of a logistic regression may be: a particle filter reads the rows once, without a service.

    The columns are the mean and the standard deviation of each weight, the central interval, the probability that the weight is
    above zero, and its density over the range of its draws. The first 2000 rows should be typical of all.
    """
    from rich.console import Console

    from riata.cli.fit_setup import Request
    from riata.cli.marginals import as_document, lines_of, marginal_table, picture
    from riata.cli.tables import Layout
    from riata.watch.warnings import DOUBTFUL

    if file.endswith(EXPORTED):
        if out is not None or setting:
            raise BadInput("--out and --set are for rows, not for an exported model", "bad_option")
        content = Path(file).read_bytes()
    else:
        content = _learnt(Request(file, Layout(form), labels, "particle_filter", setting or [], None, 2, out, as_json))
    model, lines, dependent, doubtful = lines_of(content, level)
    if plot is not None:
        plot.write_text(picture(lines, level), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(as_document(model, lines, level, dependent, doubtful)))
    else:
        Console().print(marginal_table(model, lines, level))
        if dependent is not None:
            typer.echo(f"singular_start: in the first rows {dependent} is constant, or a combination of other features; only the")
            typer.echo("prior tells their weights apart")
        for doubt in doubtful:
            typer.echo(f"{DOUBTFUL}: {doubt}")
        if plot is not None:
            typer.echo(f"drawn: {plot}")


def _learnt(request: Request) -> bytes:
    """Learn the rows of a file and return the export. Raises `BadInput` (too_many_features) if a row had no room."""
    from riata.base.directories import write_whole
    from riata.cli.blocks import blocks, head_of
    from riata.cli.fit_setup import recognised
    from riata.cli.open_table import open_rows
    from riata.cli.progress import rows_so_far
    from riata.cli.refusals import LeftOut
    from riata.cli.source import line_type
    from riata.run.files.fit import Fit

    left = LeftOut()
    with open_rows(request.file, replace(request.layout, watcher=left, known=request.kinds)) as source:
        start = recognised(head_of(source), request.file, request.layout.line_form)
        run = Fit(request.config(start), line_type(start.form))
        run.begin_after(start.header, start.lines)
        with rows_so_far("learnt") as show:
            lines = blocks(source, run.scratch, start.rest)
            run.run(lines, request.threads, lambda position: show(position, run.learnt) is None)
    left.give(run)
    for problem in run.problems:
        typer.echo(f"line {problem.line}: {problem.detail} [{problem.code}]", err=True)
    vocabulary = run.state.learner.closed_vocabulary()
    if run.refused and vocabulary is not None:
        raise BadInput(
            f"too_many_features: {run.refused:,} of {run.rows:,} rows have a feature beyond the first {len(vocabulary)}; "
            "--set features_max=N takes up to 32. For more features, see `riata fit --batch`",
            "too_many_features",
        )
    content = run.export()
    if request.out is not None:
        write_whole(request.out, content)
    return content
