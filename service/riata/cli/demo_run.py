"""The run of `riata demo`: creates the model, streams the rows, reads the metrics meanwhile, prints the result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console
from rich.table import Table

from riata.base.clock import Clock
from riata.base.errors import BadInput
from riata.cli.curl_hint import observe_line, predict_line
from riata.cli.demo_stream import Stream
from riata.cli.demo_view import View
from riata.cli.labels import without_label
from riata.cli.metrics_view import Moment, Reading, read_metrics
from riata.cli.refusals import Refusals
from riata.cli.source import Chunk, body_of, chunks, line_type
from riata.cli.weights_table import read_weights

if TYPE_CHECKING:
    from riata.client import Observed, Riata

READ_EVERY_MS: Final = 250  # about as often as a model is published
WEIGHTS_SHOWN: Final = 12
ROWS_PER_REQUEST: Final = 1000  # large enough that a durable acknowledgement costs little a row, small enough to watch


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
        if reading.examples and (not self.curve or reading.examples > self.curve[-1].examples):
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
