"""The command `riata replay --data DIR` or `riata replay --store URL`: learns a log again and compares the states."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from riata.base.errors import BadInput
from riata.base.svg import COLOURS, Svg
from riata.cli.model_setup import apply_setting
from riata.cli.open_store import DATA_HELP, STORE_HELP, kept
from riata.cli.plot import COLUMNS, LINES, draw, give, plot_text, require_svg, resampled

if TYPE_CHECKING:
    from riata.run.state.config import ModelConfig
    from riata.run.state.replay import Compared, ReplayReport
    from riata.store.store import Store

EQUAL: Final = 0  # exit codes of --verify
DIFFERENT: Final = 1
NOT_COMPARABLE: Final = 3  # 2 is a usage error
BACKTEST: Final = "Other settings"
EXAMPLE: Final = """Examples:

- `riata replay --data ./riata-data --verify` after the service has stopped.
- `riata replay --store redis://localhost:6379/0 --verify` at any time.
- `riata replay --data ./riata-data --set gamma=0.1 --set gamma=1,eta=0.5` compares two configurations with the one in force."""
STYLES: Final = ("bold cyan", "red", "green", "magenta", "yellow", "blue", "white", "bright_black")
PANELS: Final = (("faded_loss", "faded {measure}", "8.4f"), ("non_zeros", "weights that are not zero", "8.0f"))
SHOWN_FROM: Final = 0.02  # share of the events after which curves are drawn: the first losses would set the scale
SIZE: Final = (340.0, 240.0)  # of a panel of the SVG, in pixels
MARGIN: Final = 64.0
_BETWEEN: Final = re.compile(r",(?=[A-Za-z_][\w.]*=)")  # a comma before the next KEY=


def replay(
    data: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    store: Annotated[str | None, typer.Option(help=STORE_HELP)] = None,
    model: Annotated[str | None, typer.Option(help="Only this model; it may also be the first word. [default: all]")] = None,
    to: Annotated[int | None, typer.Option(min=0, help="Stop after this event. [default: the last event]")] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Fail unless the replayed state equals every stored snapshot, bit for bit.")
    ] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE,...",
            help="Settings of a configuration to compare with the one in force. Repeatable: one configuration each.",
            rich_help_panel=BACKTEST,
        ),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the curves to this file, which ends in .svg.", rich_help_panel=BACKTEST)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.", rich_help_panel=BACKTEST)] = False,
) -> None:
    """Learn a log again from its first event and compare the result with the stored snapshots.

    With --verify the exit code is 0 only if the log is complete and the replayed state equals the stored one, bit for bit, at
    every stored snapshot. Nothing in the store is changed.

    Another version of the algorithms, or another processor or C library, may learn different bits from the same log. The first
    start under a different one writes an upgrade event, which contains the state. From that event on every bit is compared. For
    older parts the command reports under what they were learnt, and whether they are equal here too.

    Exit codes with --verify: 0 if all states are equal; 1 if the log or a snapshot is damaged, or differs although it was
    learnt under the present version; 3 if everything is sound, but an older part was learnt under another version or arithmetic
    and differs here, so it cannot be compared.

    With --set other settings are compared on the log. The configuration in force and each of those given learn every event that
    counts, in one pass, from nothing, and predict each before they learn it. The table shows the loss over all events and faded,
    the calibration (predicted over observed positives), the weights that are not zero, and the mean difference of the losses to
    the configuration in force. The interval allows for neighbouring events that resemble each other. Settings of the learner, of
    drift and encoder.bits can be tried; the rows are stored as they were encoded.
    """
    if setting and verify:
        raise BadInput("--set learns under other settings, so there is nothing to --verify; run the command twice", "bad_option")
    if not setting and (plot is not None or as_json):
        raise BadInput("--plot and --json show how settings compare; give some with --set KEY=VALUE", "bad_option")
    with kept(data, store) as (_, opened):
        if setting:
            run_backtest(opened, _only_model(opened, model), setting, to, plot, as_json)
            return
        names = [model] if model is not None else opened.models()
        codes = {_replay_one(opened, name, to) for name in names}
    if verify and codes - {EQUAL}:
        raise typer.Exit(DIFFERENT if DIFFERENT in codes else NOT_COMPARABLE)


def _only_model(store: Store, model: str | None) -> str:
    """Return the model whose settings are varied. Raises `BadInput` (code `bad_option`) if it is not clear which."""
    names = store.models()
    if model is not None or len(names) == 1:
        return names[0] if model is None else model
    raise BadInput(f"--set: name one model with --model; the store has {', '.join(names) or 'none'}", "bad_option")


def _replay_one(store: Store, name: str, to: int | None) -> int:
    """Replay one model and print the findings; return the exit code for it."""
    from riata.cli.progress import seq_progress
    from riata.run.state.replay import replay as run_replay

    with seq_progress(name) as advance:
        report = run_replay(store, name, to, advance)
    for one in report.compared:
        typer.echo(f"{name}: {_what(one)} at event {one.applied}: {_verdict(one)}")
    for span in report.spans[:-1]:
        typer.echo(f"{name}: events {span.first} to {span.last} were learnt under {span.learnt_under}")
    typer.echo(f"{name}: events {report.started_at + 1} to {report.state.applied} replayed, state {report.digest}")
    if not report.sound or not _something_compared(store, report):
        return DIFFERENT
    return EQUAL if report.equal else NOT_COMPARABLE


def _what(one: Compared) -> str:
    if one.forget:
        return "state without the rows that are forgotten,"
    return f"snapshot {one.generation}" if one.generation else f"state carried by upgrade event {one.upgrade},"


def _verdict(one: Compared) -> str:
    if one.problem or one.equal:
        return one.problem or "equal"
    if one.comparable:
        return f"DIFFERENT: stored {one.stored}, replayed {one.replayed}"
    return f"not comparable: learnt with {one.learnt_under}, whose bits differ on this machine"


def _something_compared(store: Store, report: ReplayReport) -> bool:
    """Return whether a checkpoint was compared, or none is stored. Prints a message if none was compared."""
    if report.compared:
        return True
    stored = [generation.applied for generation in store.generations(report.model)]
    if not stored:
        typer.echo(f"{report.model}: no snapshot is stored yet; the log is complete")
        return True
    typer.echo(
        f"{report.model}: no snapshot was compared; the stored ones are at events {', '.join(map(str, sorted(stored)))}",
        err=True,
    )
    return False


# `riata replay --set`: the past of a model under other settings, as a table and as curves.


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
        between = "" if near is None else f"{near[0]:+.5f} to {near[1]:+.5f}{_backtest_verdict(near)}"
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


def _backtest_verdict(interval: list[float]) -> str:
    return ", better" if interval[1] < 0.0 else ", worse" if interval[0] > 0.0 else ""
