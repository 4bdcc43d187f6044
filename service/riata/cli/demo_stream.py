"""The row sources of `riata demo`: the generator, or a file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice

from riata.cli.click_stream import click_stream
from riata.cli.labels import sniff_labels
from riata.cli.source import open_source, read_rows
from riata.wire.readers import reader_named
from riata.wire.readers.json.reader import READER as JSON


@dataclass(frozen=True, slots=True)
class Stream:
    """Rows to stream. total: how many, None if only known at the end of the file; text: fields that hold prose.

    best : the log loss of the generator's own probabilities so far, None if there is no generator; header: of the file, if its
    format has one
    """

    name: str
    form: str
    labels: str
    total: int | None
    lines: Iterator[tuple[int, bytes]]
    text: list[str] = field(default_factory=list)
    best: Best | None = None
    header: bytes = b""


@dataclass(slots=True)
class Best:
    """Mean log loss of the probabilities the labels were drawn with: no model can be expected to do better."""

    rows: int = 0
    total: float = 0.0

    def add(self, label: int, probability: float) -> None:
        """Count one row."""
        self.rows += 1
        self.total -= math.log(probability if label else 1.0 - probability)

    @property
    def log_loss(self) -> float:
        """The mean so far; 0 before the first row."""
        return self.total / self.rows if self.rows else 0.0


@contextmanager
def generated_stream(rows: int, seed: int) -> Iterator[Stream]:
    """Yield the stream of generated clicks."""
    best = Best()
    yield Stream(f"{rows:,} synthetic clicks (seed {seed})", JSON.name, "0/1", rows, _click_lines(rows, seed, best), best=best)


@contextmanager
def file_stream(name: str, rows: int | None) -> Iterator[Stream]:
    """Yield the stream of the rows of a file, only the first `rows` if that is given."""
    with open_source(name) as source:
        found = read_rows(source, name)
        labels = sniff_labels(found.head, found.form, found.header)
        text = reader_named(found.form)[1].texts(found.head)
        yield Stream(name, found.form, labels, None, islice(found.lines, rows), text, header=found.header)


def _click_lines(rows: int, seed: int, best: Best) -> Iterator[tuple[int, bytes]]:
    for number, click in enumerate(click_stream(rows, seed), 1):
        best.add(click.label, click.probability)
        yield number, click.line()
