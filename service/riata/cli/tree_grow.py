"""Grows, shows and writes the trees of `riata tree`."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import Any, Final

import typer

from riata.base.directories import write_whole
from riata.base.errors import BadInput, Malformed, nearest
from riata.cli.open_table import PARQUET_MAGIC, as_lines
from riata.cli.source import open_source
from riata.cli.tables import CLASSES, ColumnOptions
from riata.lab.growing import Growth, grow
from riata.trees.curves import CurveVariable, NumberVariable, Variable, numbers_of, variables_of
from riata.trees.tree import LEAF, Tree, draw_tree, outline, read_tree

MAGIC: Final = b"RIATACKP"  # of the container of trees, and of models
CURVE: Final = "curve"  # the curve of a CSV file
LINES_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class Asked:
    """How rows are read."""

    label: str
    curves: tuple[str, ...]
    numbers: tuple[str, ...]
    channels_first: bool
    distance: str
    window: int | None


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a file. values : by variable"""

    labels: list[Any]
    values: dict[str, list[Any]]


def show_tree(file: str, test: str | None, asked: Asked, growth: Growth, to: tuple[Path | None, Path | None, bool]) -> None:
    """Grow or read a tree, count errors, write and report. to : the drawing, the tree, whether to print JSON."""
    svg, out, as_json = to
    started = time.perf_counter()
    with open_source(file) as source:
        is_tree = source.peek(len(MAGIC))[: len(MAGIC)] == MAGIC
        content = source.read()
    report: dict[str, Any] = {}
    if is_tree:
        tree = read_tree(content)
    else:
        rows = read_curves(content, file, asked)
        variables = variables_of(rows.values, asked.distance, asked.window)
        classes = _sorted(rows.labels, file)
        tree = grow(variables, numbers_of(rows.labels, classes), classes, growth)
        report = {"rows": len(rows.labels), "errors": _errors(tree, variables, rows.labels), "notes": _notes(variables)}
    if test is not None:
        numbers = tuple(one.name for one in tree.variables if isinstance(one, NumberVariable))
        curves = tuple(one.name for one in tree.variables if isinstance(one, CurveVariable) and one.name != CURVE)
        with open_source(test) as source:
            others = read_curves(source.read(), test, replace(asked, curves=curves, numbers=numbers))
        found = variables_of(others.values, asked.distance, asked.window, tree.variables)
        report |= {"test_rows": len(others.labels), "test_errors": _errors(tree, found, others.labels)}
    report |= _described(tree)
    if out is not None:
        write_whole(out, tree.encode())
    if svg is not None:
        write_whole(svg, draw_tree(tree).encode())
    report |= {"seconds": round(time.perf_counter() - started, 3), "out": None if out is None else str(out)}
    report["svg"] = None if svg is None else str(svg)
    typer.echo(json.dumps(report) if as_json else "\n".join(_shown(report, tree)))


def read_curves(content: bytes, name: str, asked: Asked) -> Rows:
    """Read rows: Parquet; NDJSON if the first line is an object; otherwise CSV with a header, of which all columns are the points
    of one curve unless curves are named. Raises `Malformed` that names the line."""
    form = "parquet" if content.startswith(PARQUET_MAGIC) else "auto" if content.lstrip().startswith(b"{") else "csv"
    if form == "parquet" or (form == "csv" and asked.curves):
        return _of_table(content, name, asked, form)
    lines = [(at, line) for at, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1) if line.strip()]
    if not lines:
        raise Malformed(f"{name}: contains no rows", "empty_body")
    return _of_csv(lines, name, asked) if form == "csv" else _of_json(lines, name, asked)


def _of_table(content: bytes, name: str, asked: Asked, form: str) -> Rows:
    """Read a table with lists in its columns."""
    with as_lines(BufferedReader(BytesIO(content)), name, ColumnOptions(asked.label).layout(form, labels=CLASSES)) as source:
        lines = [(at, line.decode()) for at, line in enumerate(source, 1) if line.strip()]
    for one in asked.curves:
        if not isinstance(json.loads(lines[0][1])["features"].get(one, []), list):
            only = "; without --curve, the columns of a CSV file are the points of one curve" if form == "csv" else ""
            raise BadInput(f"--curve {one}: the column holds no lists of numbers, as [0.1, 0.4]{only}", "bad_option")
    return _of_json(lines, name, replace(asked, label="label"))


def _of_json(lines: Sequence[tuple[int, str]], name: str, asked: Asked) -> Rows:
    wanted = [*asked.curves, *asked.numbers]
    labels: list[Any] = []
    values: dict[str, list[Any]] = {}
    for at, line in lines:
        try:
            row = json.loads(line)
        except ValueError as error:
            raise Malformed(f"{name}, line {at}: not JSON: {error}", "malformed") from None
        if not isinstance(row, dict) or asked.label not in row:
            raise Malformed(f"{name}, line {at}: there is no field {asked.label!r}; --label names that of the class", "malformed")
        fields = row | row["features"] if isinstance(row.get("features"), dict) else row
        if not values:
            wanted = wanted or [key for key, value in fields.items() if isinstance(value, list)]
            values = {key: [] for key in wanted}
        for key in wanted:
            if key not in fields:
                raise Malformed(f"{name}, line {at}: there is no field {key!r}; {nearest(key, fields)}", "malformed")
            turned = asked.channels_first and key not in asked.numbers and _is_nested(fields[key])
            values[key].append(_turned(fields[key], name, at) if turned else fields[key])
        labels.append(row[asked.label])
    if not values:
        raise Malformed(f"{name}, line {lines[0][0]}: no field is a list of numbers; --curve names curves", "malformed")
    return Rows(labels, values)


def _of_csv(lines: Sequence[tuple[int, str]], name: str, asked: Asked) -> Rows:
    import csv

    table = list(csv.reader(line for _, line in lines))
    head = [one.strip() for one in table[0]]
    if asked.label not in head:
        raise Malformed(f"{name}: there is no column {asked.label!r}; {nearest(asked.label, head)}", "malformed")
    own, numbers = head.index(asked.label), [head.index(one) for one in asked.numbers if one in head]
    if len(numbers) < len(asked.numbers):
        raise Malformed(f"{name}: a column of --number is missing; columns are {', '.join(head[:8])}", "malformed")
    points = [at for at in range(len(head)) if at != own and at not in numbers]
    values: dict[str, list[Any]] = {CURVE: [], **{one: [] for one in asked.numbers}}
    labels = []
    for (at, _), row in zip(lines[1:], table[1:], strict=True):
        try:
            values[CURVE].append([float(row[point]) for point in points])
            for one, column in zip(asked.numbers, numbers, strict=True):
                values[one].append(float(row[column]))
            labels.append(row[own].strip())
        except (ValueError, IndexError) as error:
            raise Malformed(f"{name}, line {at}: {error}; every column but the class has to be a number", "malformed") from None
    return Rows(labels, values)


def _is_nested(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], list)


def _turned(channels: list[list[float]], name: str, at: int) -> list[list[float]]:
    """Channels by points as points by channels."""
    if len({len(one) for one in channels}) > 1:
        raise Malformed(f"{name}, line {at}: the channels of a curve have different numbers of points", "channels_differ")
    return [list(point) for point in zip(*channels, strict=True)]


def _sorted(labels: Sequence[Any], name: str) -> list[Any]:
    """The classes, sorted. Raises `Malformed` if they are not all text or all numbers."""
    kinds = {str if isinstance(one, str) else float if isinstance(one, int | float) else None for one in labels}
    if None in kinds or len(kinds) > 1:
        raise Malformed(f"{name}: the classes have to be all text, or all numbers", "malformed")
    return sorted(set(labels))


def _errors(tree: Tree, variables: Sequence[Variable], labels: Sequence[Any]) -> int:
    return sum(tree.classes[at] != label for at, label in zip(tree.predict(variables).tolist(), labels, strict=True))


def _notes(variables: Sequence[Variable]) -> list[str]:
    found = [one for one in variables if isinstance(one, CurveVariable) and one.widened()]
    return [
        f"{one.name}: lengths differ by up to {one.widened()}, and the window of {one.window} leaves no path there; it is widened"
        for one in found
    ]


def _described(tree: Tree) -> dict[str, Any]:
    return {
        "classes": list(tree.classes),
        "trees": len(tree.root),
        "nodes": len(tree.variable),
        "leaves": int((tree.variable == LEAF).sum()),
        "variables": [one.name for one in tree.variables],
    }


def _shown(report: dict[str, Any], tree: Tree) -> list[str]:
    lines = [f"note      {note}" for note in report.get("notes", [])]
    if "rows" in report:
        lines.append(f"rows      {report['rows']:,}, {len(tree.classes)} classes; {report['errors']:,} errors on these rows")
    if "test_rows" in report:
        share = 100.0 * report["test_errors"] / max(report["test_rows"], 1)
        lines.append(f"test      {report['test_errors']:,} errors in {report['test_rows']:,} rows, {share:.2f} %")
    lines.append(f"tree      {report['trees']} trees, {report['nodes']} nodes, {report['leaves']} leaves")
    told = outline(tree)
    lines += [f"  {line}" for line in told[:LINES_SHOWN]]
    if len(told) > LINES_SHOWN:
        lines.append(f"  and {len(told) - LINES_SHOWN} more lines; --svg draws all")
    lines.append(f"time      {report['seconds']:.2f} s")
    return lines + [f"written   {report[kind]}" for kind in ("out", "svg") if report[kind]]
