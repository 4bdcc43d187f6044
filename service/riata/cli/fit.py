"""`riata fit --online FILE` and `riata fit --batch FILE`."""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from riata.base.directories import write_whole
from riata.base.document import write_document
from riata.base.errors import BadInput, Malformed
from riata.cli.connect import FORMATS, CurvesOption, FormatOption, LabelWeightOption
from riata.cli.fit_setup import INTERRUPTED, Request, interruptible
from riata.cli.model_setup import POSITIVE_WEIGHT, InteractionsOption
from riata.cli.option_groups import takes_groups
from riata.cli.refusals import left_out, problem_lines, require_none
from riata.cli.serve import BLAS_THREADS
from riata.cli.solver_options import PoolOptions, SolverGiven, require_one_model
from riata.cli.tables import ColumnOptions, PositiveOption
from riata.learn.kinds import KINDS

if TYPE_CHECKING:
    from riata.cli.refusals import LeftOut
    from riata.run.files.fit import Fit
    from riata.wire.solver_options import SolverOptions

LONG_FILE: Final = 2**25  # bytes; the features of a longer file will fill a table
GARBAGE_AFTER: Final = 20_000  # objects: learning leaves few reference cycles, and collecting them takes 2 % of the time
EXAMPLE: Final = """Examples:

- `riata fit --online clicks.vw.gz --out clicks.riata` learns a file with the default learner and writes the model.
- `riata fit --online clicks.vw.gz --set eta=0.5 --set encoder.ngrams=2` changes two settings and reports the loss.
- `riata fit --online clicks.vw.gz --progress-table` shows the loss at 1, 2, 4, 8, ... rows as vw does.
- `riata fit --online churn.csv --label churned --drop id --out churn.riata` learns a table.
- `riata fit --online irises.csv --label species --labels classes` learns a class for each species.
- `riata fit --online clicks.vw.gz -q ua` crosses the features of the namespaces that begin with u with those that begin with a.
- `riata fit --online beats.parquet --curve ecg=ecg.tree --out heart.riata` turns a column of curves into the leaves of a tree.
- `riata fit --batch clicks.vw.gz --gamma 100 --gamma 10 --gamma 1` finds the optimum under three penalties and compares them.
- `riata fit --batch clicks.vw.gz --gamma 10 --learner taylor_sketch --out clicks.riata` writes a model that goes on learning
  from the optimum."""

SettingOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting, such as eta=0.5 or encoder.ngrams=2. Repeatable."),
]
LabelsOption = Annotated[
    str, typer.Option(help="0/1, -1/+1, real, classes or auto, which detects 0/1 and -1/+1 from the first rows.")
]

TableOption = Annotated[
    bool,
    typer.Option("--progress-table", help="Show the losses so far at 1, 2, 4, 8, ... rows on stderr, as vw does. With --online."),
]


@takes_groups
def fit(
    file: Annotated[str, typer.Argument(help=f"Labelled rows: {FORMATS}; may be gzipped; - is stdin.")],
    *,
    online: Annotated[bool, typer.Option("--online", help="Learn in one pass and predict each row before it is learnt.")] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Find the optimum of the log-likelihood under an L1 penalty, in several passes.")
    ] = False,
    form: FormatOption = "auto",
    labels: LabelsOption = "auto",
    learner: Annotated[
        str | None, typer.Option(help=f"{', '.join(KINDS)}, or a JSON file of its settings. [default: {KINDS[0]}]")
    ] = None,
    setting: SettingOption = None,
    interactions: InteractionsOption = None,
    curve: CurvesOption = None,
    label_weight: LabelWeightOption = None,
    bits: Annotated[int | None, typer.Option(help="The table of weights has 2^bits slots. [default: 22]")] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="Configuration of the model in JSON or TOML, like the body of PUT /models/{model}.")
    ] = None,
    threads: Annotated[int, typer.Option(min=1, max=16, help="Threads that parse, and learn or solve.")] = 2,
    out: Annotated[Path | None, typer.Option(help="Write the model to this file, for POST /models/{model}/import.")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop if a row cannot be learnt: --online at the first; write nothing.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as one JSON object.")] = False,
    solving: SolverGiven,
    pool: PoolOptions,
    progress_table: TableOption = False,
    columns: ColumnOptions,
    positive: PositiveOption = None,
    subject: Annotated[str | None, typer.Option("--subject", hidden=True)] = None,
) -> None:
    """Learn a file of labelled rows without a service.

    **--online**: the model is bit for bit that of a service that observed the same rows in the same order. Each row is predicted
    before it is learnt; the report shows the loss of these predictions.
    **--batch**: the model is the optimum of the log-likelihood under an L1 penalty, with a certificate of how near it is.

    A service that imports the file of `--out` goes on learning from there. Ctrl-C keeps the model so far. Rows that are not
    learnt are reported with their line numbers, and the exit code is then 1.
    """
    _require(online, batch, progress_table, subject)
    settings = _settings(setting or [], {"encoder.bits": bits, POSITIVE_WEIGHT: label_weight})
    table = columns.layout(form, positive, labels=labels)
    request = Request(file, table, labels, learner, settings, model_file, threads, out, as_json, interactions or (), curve or ())
    request = replace(request, layout=replace(table, known=request.kinds))
    if online:
        return _fit_online(request, strict, progress_table)
    return _fit_batch(request, solving.options(), strict, pool)


def _settings(given: list[str], options: dict[str, float | None]) -> list[str]:
    return [*given, *(f"{key}={value}" for key, value in options.items() if value is not None)]


def _require(online: bool, batch: bool, progress_table: bool, subject: str | None) -> None:
    os.environ.setdefault(BLAS_THREADS, "1")  # like the service: the sums of a sketch then have the same bits
    if subject is not None:
        told = "a file is learnt without a log, so no row of it can be forgotten later; leave the column out with --drop"
        raise BadInput(f"--subject: {told}, or send the rows to a service with riata observe", "bad_option")
    if batch and progress_table:
        raise BadInput(
            "--progress-table shows predictions before their rows are learnt, which --batch has not; leave it out", "bad_option"
        )
    if online == batch:
        raise BadInput("choose one of --online, to learn in one pass, and --batch, to find the optimum in several", "bad_option")


def _fit_batch(request: Request, options: SolverOptions, strict: bool, where: PoolOptions) -> None:
    require_one_model(options, request.out)
    from riata.cli.fit_batch import fit_batch

    fit_batch(request, options, strict, where)


def _fit_online(request: Request, strict: bool, progress_table: bool) -> None:
    gc.disable()  # imported objects stay, and collecting garbage among them takes a fifth of the start-up time
    from riata.cli.blocks import blocks, head_of
    from riata.cli.fit_setup import recognised
    from riata.cli.open_table import open_rows
    from riata.cli.refusals import LeftOut
    from riata.cli.source import line_type
    from riata.run.files.fit import Fit

    gc.freeze()
    gc.set_threshold(GARBAGE_AFTER)
    gc.enable()
    started = time.perf_counter()
    file, out, left = request.file, request.out, LeftOut()
    with open_rows(file, replace(request.layout, watcher=left)) as source:
        head = head_of(source)
        if not head and left.first is not None:
            raise Malformed(f"{file}: no row can be learnt; the first: {left.first.detail}", left.first.code)
        start = recognised(head, file, request.layout.line_form)
        run = Fit(request.config(start), line_type(start.form))
        run.begin_after(start.header, start.lines)
        is_long = os.path.isfile(file) and os.path.getsize(file) >= LONG_FILE
        with interruptible() as may_go_on, _progress(file, run, progress_table) as advance:
            lines = blocks(source, run.scratch, start.rest, is_long=is_long)
            run.run(lines, request.threads, lambda position: _judge(run, left, strict) and advance(position) and may_go_on())
        _judge(run, left, strict)
    seconds = time.perf_counter() - started
    content = None if out is None else run.export()
    if out is not None and content is not None:
        write_whole(out, content)
    report = document(run, seconds, out, content)
    typer.echo(json.dumps(report) if request.as_json else show(report))
    if run.interrupted or report["rejected"] or report["refused"]:
        raise typer.Exit(INTERRUPTED if run.interrupted else 1)


@contextmanager
def _progress(file: str, run: Fit, table: bool) -> Iterator[Callable[[int], bool]]:
    """Show a table or the progress. Yields a function that takes the position in the file and returns true."""
    if table:
        show_table(run, lambda line: typer.echo(line, err=True))
        yield lambda _position: True
        return
    from riata.cli.progress import fit_progress

    total = None if file == "-" else Path(file).stat().st_size
    with fit_progress(total) as show:

        def advance(position: int) -> bool:
            show(position, run.rows, run.state.progressive.log_loss)
            return True

        yield advance


def _judge(run: Fit, left: LeftOut, strict: bool) -> bool:
    """Return true. If `strict`, raises `Malformed` with the first row that was not learnt."""
    left.give(run)
    if strict:
        require_none(run.problems)
    return True


# The final report of `riata fit`: as a JSON object, or as lines of text.


CLASSES_SHOWN: Final = 5
HEADS: Final = (
    ("average", "since", "example", "example", "current", "current", "current"),
    ("loss", "last", "counter", "weight", "label", "predict", "features"),
)
_HEAD: Final = "{:<9}{:<9}{:>12}{:>12}{:>9}{:>9}{:>9}"
_LINE: Final = "{:<9.6f}{:<9.6f}{:>12d}{:>12.1f}{:>9.4f}{:>9.4f}{:>9d}"


def document(run: Fit, seconds: float, out: Path | None, content: bytes | None) -> dict[str, Any]:
    """Return the report. Its figures are progressive: each row is predicted before it is learnt."""
    published = run.published()
    figures = published.figures
    weights = published.model.weights
    return {
        "rows": run.rows,
        "learnt": run.learnt,
        "rejected": run.rejected,
        "rejected_codes": dict(run.codes.most_common()),
        "duplicate": run.duplicate,
        "refused": run.refused,
        "problems": [{"line": one.line, "code": one.code, "detail": one.detail} for one in run.problems],
        "warnings": published.warnings(run.names),
        "interrupted": run.interrupted,
        "features": run.features,
        "classes": len(run.state.config.classes.names),
        "non_zeros": len(weights.slot),
        "shaped_columns": weights.shaped_columns,
        "intercept": weights.intercept,
        "figures": {name: figures[name] for name in ("cumulative", "faded", "window", "classes", "macro") if name in figures},
        "seconds": round(seconds, 3),
        "rows_per_s": round(run.rows / seconds, 1) if seconds > 0.0 else None,
        "out": None if out is None else {"file": str(out), "bytes": len(content or b""), "state": run.digest},
        "config": write_document(run.state.config),
    }


def show(report: dict[str, Any]) -> str:
    """Return the report as lines of text."""
    all_rows, late = report["figures"]["cumulative"], report["figures"]["window"]
    a_row = report["features"] / max(report["learnt"], 1)
    shaped = f", {report['shaped_columns']} columns with shapes" if report["shaped_columns"] else ""
    lines = [
        ("rows", f"{report['learnt']:,} learnt{left_out(report, 'rejected', 'duplicate', 'refused')}"),
        ("features", f"{report['features']:,}, {a_row:.1f} per row; {report['non_zeros']:,} non-zero weights{shaped}"),
        *_figure("log loss", all_rows["log_loss"], all_rows["base_log_loss"], late),
        *_classes(report),
        *([] if all_rows["auc"] is None else [("AUC", f"{all_rows['auc']:.4f}")]),
        *([] if all_rows["log_loss"] is not None else _figure("loss", all_rows["loss"], all_rows["base_loss"], None)),
        ("time", f"{report['seconds']:.2f} s, {report['rows_per_s'] or 0.0:,.0f} rows/s"),
    ]
    if report["out"] is not None:
        lines.append(
            ("written", f"{report['out']['file']}, {report['out']['bytes']:,} bytes, state {report['out']['state'][:16]}")
        )
    if report["interrupted"]:
        lines.append(("stopped", "by Ctrl-C; the model has learnt the rows above"))
    if report["warnings"]:
        from riata.cli.show import warning_text

        lines += [("warning", f"{warning_text(one)} [{one['code']}]") for one in report["warnings"]]
    return "\n".join([*problem_lines(report), *(f"{name:9} {text}" for name, text in lines)])


def _classes(report: dict[str, Any]) -> list[tuple[str, str]]:
    """The lines about several classes: the error, the means, and the classes with the lowest f1."""
    if "macro" not in report["figures"]:
        return []
    error, macro = report["figures"]["cumulative"]["error"], report["figures"]["macro"]["cumulative"]
    if error is None:
        return []
    known = [(one["cumulative"]["f1"] or 0.0, one["class"]) for one in report["figures"]["classes"]]
    worst = ", ".join(f"{name} {f1:.3f}" for f1, name in sorted(known)[:CLASSES_SHOWN])
    return [
        ("error", f"{error:.4f} over {report['classes']} classes; mean recall {macro['recall']:.4f}, f1 {macro['f1']:.4f}"),
        ("lowest f1", worst),
    ]


def _figure(name: str, value: float | None, base: float | None, late: dict[str, Any] | None) -> list[tuple[str, str]]:
    if value is None or base is None:
        return []
    recent = "" if late is None or late["log_loss"] is None else f"; {late['log_loss']:.4f} over the last {late['examples']:,}"
    return [(name, f"{value:.4f}; base rate {base:.4f}{recent}")]


# The table of Vowpal Wabbit while a file is learnt: a line at 1, 2, 4, 8, ... rows.


def show_table(run: Fit, show: Callable[[str], None]) -> None:
    """Have `show` called with each line of the table of a run that begins. Raises `BadInput` (code `bad_option`) for several
    classes."""
    if run.state.config.has_classes:
        raise BadInput("--progress-table: each row has a prediction of each class; leave it out", "bad_option")
    for head in HEADS:
        show(_HEAD.format(*head))
    from riata.run.files.fit import DoublingLosses

    DoublingLosses(run, lambda at: show(_LINE.format(*at)))
