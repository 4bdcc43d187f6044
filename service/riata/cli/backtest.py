"""`riata replay --set`: the past of a model under other settings, as a table and as curves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from riata.base.svg import COLOURS, Svg
from riata.cli.model_setup import apply_setting
from riata.cli.path_view import COLUMNS, LINES, resampled
from riata.cli.plot import draw
from riata.cli.plot_text import plot_text
from riata.cli.report import give, require_svg

if TYPE_CHECKING:
    from riata.run.state.config import ModelConfig
    from riata.store.store import Store

STYLES: Final = ("bold cyan", "red", "green", "magenta", "yellow", "blue", "white", "bright_black")
PANELS: Final = (("faded_loss", "faded {measure}", "8.4f"), ("non_zeros", "weights that are not zero", "8.0f"))
SHOWN_FROM: Final = 0.02  # share of the events after which curves are drawn: the first losses would set the scale
SIZE: Final = (340.0, 240.0)  # of a panel of the SVG, in pixels
MARGIN: Final = 64.0
_BETWEEN: Final = re.compile(r",(?=[A-Za-z_][\w.]*=)")  # a comma before the next KEY=


def run_backtest(store: Store, model: str, settings: list[str], to: int | None, plot: Path | None, as_json: bool) -> None:
    """Learn the log under the configuration in force and each of `settings`, and show how they compare."""
    from riata.cli.progress import seq_progress
    from riata.run.candidates.backtest import backtest, config_in_force

    require_svg(plot)
    own = config_in_force(store, model)
    configs = [(text, with_settings(own, text)) for text in dict.fromkeys(settings)]
    with seq_progress(model) as advance:
        found = backtest(store, model, configs, to, advance).document()
    give(found, plot, backtest_svg, show, as_json)


def with_settings(own: ModelConfig, text: str) -> ModelConfig:
    """Return the configuration with settings KEY=VALUE, separated by commas, in place of its own. Another kind of learner begins
    with its defaults. Raises `BadInput`."""
    from riata.base.document import write_document
    from riata.run.state.config import read_config

    document = write_document(own)
    parts = _BETWEEN.split(text)
    for part in sorted(parts, key=lambda one: not one.startswith(("learner.kind=", "kind="))):
        if part.startswith(("learner.kind=", "kind=")):
            document["learner"] = {}
        apply_setting(document, part)
    return read_config(document, [own.encoder.curves])


def table_of(found: dict[str, Any]) -> list[str]:
    """Return the comparison as lines of text."""
    window, rows = found["window"], found["settings"]
    width = max(len("settings"), *(len(row["settings"]) for row in rows))
    kind = rows[0]["measure"]
    heads = f"{'settings':<{width}}  {kind:>13}  {'faded':>8}  {'calibration':>11}  {'non-zeros':>9}  {'difference':>10}"
    lines = [
        f"events    {window['events']:,} of events {window['from']:,} to {window['to']:,}, each predicted before it was learnt",
        f"base rate {_figure(rows[0]['base_loss'], '.4f')} {kind}",
        f"{heads}  interval, 95 %",
    ]
    for row in rows:
        near = row["interval"]
        between = "" if near is None else f"{near[0]:+.5f} to {near[1]:+.5f}{_verdict(near)}"
        if near is None and row is not rows[0]:
            between = "too few events" if row["measure"] == kind else f"measured by {row['measure']}: not comparable"
        figures = (_figure(row["loss"], ".4f"), _figure(row["faded_loss"], ".4f"), _figure(row["calibration_ratio"], ".3f"))
        lines.append(
            f"{row['settings']:<{width}}  {figures[0]:>13}  {figures[1]:>8}  {figures[2]:>11}  {row['non_zeros']:>9,}  "
            f"{_figure(row['difference'], '+.5f'):>10}  {between}".rstrip()
        )
    lines += [f"note      {row['settings']}: {row['refused']:,} events were refused" for row in rows if row["refused"]]
    return [
        *lines,
        *(f"note      {row['settings']}: {row['drift_alarms']} alarms of drift" for row in rows if row["drift_alarms"]),
    ]


def show(found: dict[str, Any]) -> None:
    """Print the table, and the curves side by side."""
    from rich.columns import Columns
    from rich.console import Console
    from rich.panel import Panel

    typer.echo("\n".join(table_of(found)))
    panels = []
    for key, title, form in PANELS:
        drawn = _curves(found, key)
        if drawn:
            low, high = f"{drawn[0].places[0]:,.0f}", f"{drawn[0].places[-1]:,.0f}"
            series = [resampled(curve.places, curve.heights, COLUMNS) for curve in drawn]
            named = [(curve.name, STYLES[curve.number % len(STYLES)]) for curve in drawn]
            panels.append(
                Panel(
                    plot_text(draw(series, COLUMNS, LINES), named, form),
                    title=title,
                    subtitle=f"events {low} to {high}",
                    expand=False,
                )
            )
    if panels:
        Console().print(Columns(panels))
    if "plot" in found:
        typer.echo(f"written   {found['plot']}")


def backtest_svg(found: dict[str, Any]) -> str:
    """Return the curves as an SVG document, with a legend below."""
    svg = Svg()
    for number, (key, title, form) in enumerate(PANELS):
        left, top = MARGIN + number * (SIZE[0] + 1.3 * MARGIN), 40.0
        drawn = _curves(found, key)
        svg.text((left, top - 10.0), _title(title, found))
        svg.box((left, top), SIZE, "none", "#d0d7de")
        if not drawn:
            continue
        places, heights = [x for curve in drawn for x in curve.places], [y for curve in drawn for y in curve.heights]
        (start, end), (low, high) = (min(places), max(places)), (min(heights), max(heights))
        for curve in drawn:
            at = [
                (left + SIZE[0] * (x - start) / ((end - start) or 1.0), top + SIZE[1] * (high - y) / ((high - low) or 1.0))
                for x, y in zip(curve.places, curve.heights, strict=True)
            ]
            svg.polyline(at, COLOURS[curve.number % len(COLOURS)])
        for value, y in ((high, top + 8.0), (low, top + SIZE[1])):
            svg.text((left - 5.0, y), format(value, form).strip(), "end")
        svg.text((left, top + SIZE[1] + 15.0), f"event {start:,.0f}")
        svg.text((left + SIZE[0], top + SIZE[1] + 15.0), f"{end:,.0f}", "end")
    below = 40.0 + SIZE[1] + 40.0
    for i, row in enumerate(found["settings"]):
        y = below + 16.0 * i
        svg.line((MARGIN, y - 4.0), (MARGIN + 20.0, y - 4.0), COLOURS[i % len(COLOURS)], 2.0)
        svg.text((MARGIN + 28.0, y), f"{row['settings']}: {row['measure']} {_figure(row['loss'], '.4f')}")
    height = below + 16.0 * len(found["settings"]) + 8.0
    return svg.render(2 * SIZE[0] + 2.8 * MARGIN, height, f"model {found['model']} under other settings")


class _Curve(NamedTuple):
    """A curve of the configuration with this number."""

    number: int
    name: str
    places: list[float]
    heights: list[float]


def _curves(found: dict[str, Any], key: str) -> list[_Curve]:
    """Return the curves that have two points to draw, losses only if they are of the measure of the configuration in force."""
    curves = []
    for number, row in enumerate(found["settings"]):
        points = [one for one in row["history"] if one[key] is not None and one["events"] >= SHOWN_FROM * row["events"]]
        if len(points) > 1 and (key != "faded_loss" or row["measure"] == found["settings"][0]["measure"]):
            places, heights = ([float(one[name]) for one in points] for name in ("events", key))
            curves.append(_Curve(number, row["settings"], places, heights))
    return curves


def _title(title: str, found: dict[str, Any]) -> str:
    return title.format(measure=found["settings"][0]["measure"])


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _verdict(interval: list[float]) -> str:
    return ", better" if interval[1] < 0.0 else ", worse" if interval[0] > 0.0 else ""
