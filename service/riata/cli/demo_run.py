"""The run of `riata demo`: creates the model, streams the rows, reads the metrics meanwhile, prints the result."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self
from urllib.parse import quote

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from riata.base.clock import Clock
from riata.base.errors import BadInput
from riata.cli.demo_stream import Stream
from riata.cli.model_setup import without_label
from riata.cli.plot import draw, plot_text
from riata.cli.progress import speed_column
from riata.cli.refusals import Refusals
from riata.cli.show import read_weights
from riata.cli.source import Chunk, body_of, chunks, line_type
from riata.wire.readers import reader_named

if TYPE_CHECKING:
    from riata.client import Observed, Riata

PLOT_LINES: Final = 12
PLOT_COLUMNS_MAX: Final = 100
PLOT_COLUMNS_PLAIN: Final = 50
MARGIN_COLUMNS: Final = 26  # the scale on the left, the names on the right and the frame
SERIES: Final = (("base rate", "yellow"), ("model", "bold cyan"))  # the model's line is on top
LINES_IN_ALL: Final = 20  # plain lines over a whole run of known length
ROWS_A_LINE: Final = 20_000  # if the length is not known
READ_EVERY_MS: Final = 250  # about as often as a model is published
WEIGHTS_SHOWN: Final = 12
ROWS_PER_REQUEST: Final = 1000  # large enough that a durable acknowledgement costs little a row, small enough to watch
QUERY_BYTES: Final = 1500  # short enough to copy; longer rows are shown as a body


# The output of `riata demo` while it runs: a live screen on a terminal, plain lines otherwise.


class View(Protocol):
    """Shows the progress of a run."""

    def show(self, moment: Moment) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


def make_view(console: Console) -> View:
    """Return the live screen for a terminal, plain lines for anything else."""
    return LiveView(console) if console.is_terminal else LineView(console)


class LiveView:
    """Progress bar, learning curve and a table of figures, redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._columns = max(1, min(console.width - MARGIN_COLUMNS, PLOT_COLUMNS_MAX))
        self._progress = Progress(
            TextColumn("[bold]{task.completed:,.0f}[/] events"), BarColumn(), speed_column("events"), TimeRemainingColumn()
        )
        self._task = self._progress.add_task("events", total=None)
        self._live = Live(self._progress, console=console, refresh_per_second=8)

    def show(self, moment: Moment) -> None:
        """Draw `moment`."""
        self._progress.update(self._task, completed=moment.sent, total=moment.total)
        self._live.update(Group(self._progress, curve_panel(moment.curve, self._columns), figures_table(moment)))

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._live.stop()


class LineView:
    """One line for each part of the rows sent, and the curve at the end."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0
        self._last: Moment | None = None

    def show(self, moment: Moment) -> None:
        """Write a line if one is due."""
        self._last = moment
        if moment.sent >= self._next and moment.curve:
            step = moment.total // LINES_IN_ALL if moment.total else ROWS_A_LINE
            self._next = moment.sent + max(step, 1)
            self._console.print(figures_line(moment), highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if error is None and self._last is not None:
            self._console.print(curve_panel(self._last.curve, PLOT_COLUMNS_PLAIN))
            self._console.print(figures_line(self._last), highlight=False, soft_wrap=True)


def curve_panel(curve: list[Reading], columns: int) -> RenderableType:
    """Draw log loss over time, the model's and that of the base rate."""
    points = [one for one in curve if None not in (one.get("base_log_loss"), one.get("log_loss"))]
    if len(points) < 2:
        return Panel("waiting for the first metrics", title="log loss")
    plot = draw([[one[name] for one in points] for name in ("base_log_loss", "log_loss")], columns, PLOT_LINES)
    title = f"log loss over recent events (half-life {curve[-1].get('half_life', 0):,} events)"
    return Panel(plot_text(plot, SERIES), title=title, expand=False)


def figures_table(moment: Moment) -> RenderableType:
    """Write the latest figures as a table."""
    table = Table(show_header=True, expand=False)
    cells = _figures(moment)
    for name in cells:
        table.add_column(name, justify="right")
    table.add_row(*cells.values())
    return table


def figures_line(moment: Moment) -> str:
    """Write the latest figures as one line."""
    return f"{moment.sent:>9,} events  " + "  ".join(f"{name} {value}" for name, value in _figures(moment).items())


def _figures(moment: Moment) -> dict[str, str]:
    last = moment.curve[-1] if moment.curve else {}
    figures = {
        "log loss": _number(last.get("log_loss")),
        "base": _number(last.get("base_log_loss")),
        "normalised entropy": _number(last.get("normalised_entropy")),
        "AUC": _number(last.get("auc")),
        "non-zeros": f"{last['non_zeros']:,}" if last else "-",
        "events/s": f"{moment.events_per_s:,.0f}",
    }
    return figures | ({"rejected": f"{moment.rejected:,}"} if moment.rejected else {})


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


Reading = Mapping[str, Any]  # faded figures, `examples` learnt in all, `non_zeros`; what is missing or null has no value yet


@dataclass(frozen=True, slots=True)
class Moment:
    """Progress of the demonstration. total: number of rows, None if unknown; curve: all readings so far."""

    sent: int
    total: int | None
    rejected: int
    elapsed_s: float
    curve: list[Reading]

    @property
    def events_per_s(self) -> float:
        """Rows sent per second since the start."""
        return self.sent / self.elapsed_s if self.elapsed_s > 0.0 else 0.0


def read_metrics(answer: Mapping[str, Any]) -> Reading:
    """Take the displayed figures out of the response of /metrics.

    They are faded, not those of the window: a window moves in whole steps, so its curve looks like a staircase.
    """
    examples = (answer.get("cumulative") or {}).get("examples") or 0
    return {**(answer.get("faded") or {}), "examples": examples, "non_zeros": answer.get("non_zeros") or 0}


def prepare_model(riata: Riata, model: str, document: Mapping[str, Any], fresh: bool, ask: bool) -> None:
    """Create `model` from its configuration. An existing one is dropped if `fresh` is set, or if the user agrees when asked."""
    from riata.client import ApiNotFound

    try:
        riata.model(model)
    except ApiNotFound:
        riata.create_model(model, document)
        return
    if not fresh and ask:
        fresh = typer.confirm(f"model {model!r} exists already; drop it and everything that it has learnt?")
    if not fresh:
        raise BadInput(
            f"model {model!r} exists already; drop it first with --fresh, or choose another name with --model", "model_exists"
        )
    riata.drop_model(model)
    riata.create_model(model, document)


class Demo:
    """One run. Afterwards it holds the refused rows, an example row, and the curve of readings."""

    def __init__(self, riata: Riata, model: str, stream: Stream, clock: Clock) -> None:
        self.refusals = Refusals()
        self.example = b""
        self.curve: list[Reading] = []
        self.rows = stream
        self._riata = riata
        self._model = model
        self._clock = clock
        self._sent = 0
        self._seq = 0

    def stream(self, view: View) -> None:
        """Send every row and show the progress. On return all rows are learnt and the last metrics are read."""
        started = read_at = self._clock.monotonic_ms()
        for chunk in chunks(self.rows.lines, ROWS_PER_REQUEST, self.rows.header):
            answer = self._send(chunk)
            self.refusals.add(answer.rejected, answer.errors, chunk.numbers, answer.codes)
            self._sent += len(chunk.numbers)
            self._seq = max(self._seq, answer.seq)
            self._keep_example(chunk)
            now = self._clock.monotonic_ms()
            if now - read_at >= READ_EVERY_MS:
                read_at = now
                self._read()
            view.show(self._moment(now - started))
        stopped = self._clock.monotonic_ms()
        self._wait_until_learnt()
        self._read()
        view.show(self._moment(stopped - started))

    def _send(self, chunk: Chunk) -> Observed:
        from riata.client import ApiRefused
        from riata.client.observing import none_accepted

        try:
            return self._riata.observe(chunk.body, model=self._model, content_type=line_type(self.rows.form))
        except ApiRefused as error:
            return none_accepted(error)

    def _keep_example(self, chunk: Chunk) -> None:
        """Keep a row of the latest request for the `curl` commands at the end: the first quartile by length."""
        rows = sorted(chunk.body.split(b"\n")[1 if self.rows.header else 0 : -1], key=len)
        self.example = rows[len(rows) // 4]

    def _wait_until_learnt(self) -> None:
        """Wait for a prediction with `min_seq` of the last row. The service answers after learning it, or asks for a retry."""
        if self._seq:
            row = without_label(self.example, self.rows.form, self.rows.header)
            body = body_of(row, self.rows.header)
            self._riata.predict(body, model=self._model, content_type=line_type(self.rows.form), min_seq=self._seq)

    def _read(self) -> None:
        reading = read_metrics(self._riata.metrics(self._model))
        if reading["examples"] and (not self.curve or reading["examples"] > self.curve[-1]["examples"]):
            self.curve.append(reading)

    def _moment(self, elapsed_ms: int) -> Moment:
        return Moment(self._sent, self.rows.total, self.refusals.rows, elapsed_ms / 1000, self.curve)


def show_end(console: Console, riata: Riata, model: str, url: str, run: Demo) -> None:
    """Print the largest weights and the two `curl` commands to try."""
    best = run.rows.best
    if best is not None and best.rows:
        console.print(f"log loss of the true weights over all rows: {best.log_loss:.4f}", highlight=False)
    table = Table("feature", "weight", title="largest weights")
    for name, weight in read_weights(riata.weights(model, top=WEIGHTS_SHOWN)):
        table.add_row(name, f"{weight:+.4f}")
    console.print(table)
    console.print("try:", highlight=False)
    row = run.example, run.rows.form, run.rows.header
    for line in (predict_line(url, model, *row), observe_line(url, model, *row)):
        console.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


# The two `curl` commands printed at the end of `riata demo`: predict and observe a row that was streamed.


def predict_line(url: str, model: str, row: bytes, form: str, header: bytes = b"") -> str:
    """Return the `curl` command that predicts `row`: as a query if a query can express it, otherwise as a body."""
    route = f"{url.rstrip('/')}/models/{model}/predict"
    query = _query(row, form, header)
    if query and len(query) <= QUERY_BYTES:
        return f"curl {shlex.quote(f'{route}?{query}')}"
    return _post(route, without_label(row, form, header), form, header)


def observe_line(url: str, model: str, row: bytes, form: str, header: bytes = b"") -> str:
    """Return the `curl` command that observes `row` again."""
    return _post(f"{url.rstrip('/')}/models/{model}/observe", row, form, header)


def _post(route: str, row: bytes, form: str, header: bytes) -> str:
    body = body_of(row, header).decode("utf-8", "replace")
    kind = reader_named(form)[0].row_type
    return f"curl {shlex.quote(route)} -H 'content-type: {kind}' --data-binary {shlex.quote(body)}"


def _query(row: bytes, form: str, header: bytes) -> str:
    """Encode a row as query parameters; empty if a query cannot express it."""
    pairs = reader_named(form)[1].query(row, header)
    if pairs is None or any(name.startswith("_") for name, _ in pairs):
        return ""
    return "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
