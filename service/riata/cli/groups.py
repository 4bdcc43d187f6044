"""The command `riata groups FILE`: which groups of features, and which runs of neighbours, belong in a model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from riata.base.errors import BadInput
from riata.cli.connect import FORMATS, FormatOption
from riata.cli.fit_setup import Request
from riata.cli.serve import BLAS_THREADS
from riata.cli.solver_options import GroupOption, GroupsOption, MemoryOption, SvgOption
from riata.cli.tables import Layout
from riata.learn.kinds import KINDS

EXAMPLE: Final = """Examples:

- `riata groups curves.ndjson --group "sensor=t{00..59}"` finds the runs of the 60 points of a curve that tell the classes apart.
- `riata groups rows.vw.gz --groups groups.toml --svg runs.svg` takes the groups from a file, and draws the weights.
- `riata groups rows.vw.gz --group "country=country=*" --gamma 10 --out m.riata` writes a model for POST /models/{model}/import.

A file of groups in TOML:

    temperature = "t{00..59}"                                   # an order: runs are searched
    country     = "country=*"                                   # no order: one group
    months      = {features = ["jan", "feb"], ordered = true}
    window      = {features = "w{0..9}", runs = false}          # one group"""


def groups(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    groups_file: GroupsOption = None,
    group: GroupOption = None,
    form: FormatOption = "auto",
    labels: Annotated[str, typer.Option(help="0/1, -1/+1 or auto, which detects them from the first rows.")] = "auto",
    learner: Annotated[
        str | None, typer.Option(help=f"Of the model that is written: {', '.join(KINDS)}. [default: {KINDS[0]}]")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as encoder.ngrams=2. Repeatable.")
    ] = None,
    bits: Annotated[int | None, typer.Option(help="The table of weights has 2^bits slots. [default: 22]")] = None,
    gamma: Annotated[
        list[float] | None,
        typer.Option(
            help="Penalty, in units of the summed log-likelihood. Repeatable: the score chooses. [default: ten from 1.5 to 4.5]"
        ),
    ] = None,
    k: Annotated[
        list[float] | None,
        typer.Option(
            "--k", help="How alike neighbours in a run are, 0 to below 1. Repeatable. [default: 0, 0.2475, 0.495, 0.7425, 0.99]"
        ),
    ] = None,
    tolerance: Annotated[float, typer.Option(help="Largest violation of a condition, as a share of gamma.")] = 1e-8,
    memory_bytes_max: MemoryOption = None,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads. They do not change the result.")] = 2,
    svg: SvgOption = None,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file, for POST /models/{model}/import.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Write nothing if a row cannot be read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
) -> None:
    """Find which groups of features, and which runs of neighbours inside groups with an order, have weights.

    The result is a linear model like any other. Weights of a run are in the model together, or out of it. Groups without an
    order are penalised as one (the group lasso), features of no group one by one (the lasso). Among several penalties the
    score chooses, an approximation of the evidence: no rows are held out.

    All values are kept in memory. Bring the features of a group to one scale: runs compare the weights of neighbours.
    """
    if groups_file is None and not group:
        raise BadInput('no groups: give --groups FILE, or --group "sensor=t{00..59}"', "bad_groups")
    os.environ.setdefault(BLAS_THREADS, "1")  # sums then have the same bits for any number of processors
    settings = [*(setting or []), *([] if bits is None else [f"encoder.bits={bits}"])]
    request = Request(file, Layout(form), labels, learner, settings, None, threads, out, as_json)
    from riata.cli.groups_fit import GroupOptions, fit_groups

    fit_groups(request, GroupOptions(groups_file, tuple(group or ()), tuple(gamma or ()), tuple(k or ()), tolerance,
                                     memory_bytes_max, svg, strict))  # fmt: skip
