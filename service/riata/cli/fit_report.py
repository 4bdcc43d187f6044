"""The final report of `riata fit`: as a JSON object, or as lines of text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from riata.base.document import write_document
from riata.base.errors import BadInput
from riata.cli.refusals import left_out
from riata.run.files.fit import DoublingLosses, Fit

CLASSES_SHOWN: Final = 5
HEADS: Final = (
    ("average", "since", "example", "example", "current", "current", "current"),
    ("loss", "last", "counter", "weight", "label", "predict", "features"),
)
_HEAD: Final = "{:<9}{:<9}{:>12}{:>12}{:>9}{:>9}{:>9}"
_LINE: Final = "{:<9.6f}{:<9.6f}{:>12d}{:>12.1f}{:>9.4f}{:>9.4f}{:>9d}"


def document(run: Fit, seconds: float, out: Path | None, content: bytes | None) -> dict[str, Any]:
    """Return the report. Its figures are progressive: each row is predicted before it is learnt."""
    figures = run.state.progressive.figures()
    weights = run.state.served_weights()
    return {
        "rows": run.rows,
        "learnt": run.learnt,
        "rejected": run.rejected,
        "rejected_codes": dict(run.codes.most_common()),
        "duplicate": run.duplicate,
        "refused": run.refused,
        "problems": [{"line": one.line, "code": one.code, "detail": one.detail} for one in run.problems],
        "interrupted": run.interrupted,
        "features": run.features,
        "classes": len(run.state.config.classes.names),
        "non_zeros": len(weights.slot),
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
    lines = [
        ("rows", f"{report['learnt']:,} learnt{left_out(report, 'rejected', 'duplicate', 'refused')}"),
        ("features", f"{report['features']:,}, {a_row:.1f} per row; {report['non_zeros']:,} non-zero weights"),
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
    problems = [f"line {one['line']}: {one['detail']} [{one['code']}]" for one in report["problems"]]
    return "\n".join([*problems, *(f"{name:9} {text}" for name, text in lines)])


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
    DoublingLosses(run, lambda at: show(_LINE.format(*at)))
