"""Labelled files as the data of a batch solver: NDJSON, VW text, svmlight, CSV, Parquet and Arrow streams; gzip but for Arrow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import Final

from riata.base.errors import Malformed, TooLarge
from riata.base.limits import ROWS_PER_REQUEST_MAX
from riata.cli.blocks import blocks, head_of, position
from riata.cli.fit_setup import AUTO, Beginning, Request, recognised
from riata.cli.open_table import open_rows
from riata.cli.progress import rows_so_far
from riata.cli.refusals import LeftOut, require_none
from riata.cli.source import line_type
from riata.cli.tables import Layout
from riata.lab.batch.segment_data import SegmentData, data_of
from riata.predict.name_book import NameBook
from riata.run.candidates.adopting import rho_of
from riata.run.candidates.segment_building import unpaced
from riata.run.files.reading import Block, FileReading, Problem
from riata.run.state.config import ModelConfig
from riata.store.segment import Origin, Segment, SegmentBuilder, map_segment
from riata.wire.batch import Batch
from riata.wire.encoder import EncoderConfig, fingerprint
from riata.wire.given import NUMBER, Given
from riata.wire.parse import Context, parse_examples
from riata.wire.reader import Reader
from riata.wire.readers import READERS

NO_LOG: Final = bytes(16)

AS_IT_IS: Final = Layout()
_SNIFFED: Final = 8  # bytes
SMALLER: Final = f"; write the file with at most {ROWS_PER_REQUEST_MAX} rows in a record batch"

MakeConfig = Callable[[Beginning], ModelConfig]


# Write the rows of a file as segments, with memory for one segment: batch solvers then pass over them as over a log.


class FileSegments(FileReading):
    """Reads a file into segments in `directory`, which belongs to the caller. Row i of those that are accepted is event i."""

    def __init__(self, config: ModelConfig, content_type: str, directory: Path) -> None:
        super().__init__(config, content_type, self._add)
        self._origin = Origin("", NO_LOG, fingerprint(config.encoder))
        self._directory = directory
        self._segments: list[Segment] = []
        self._builder = self._begin(0)

    def finish(self) -> list[Segment]:
        """Write what is left, and return all segments, oldest first."""
        if not self._builder.is_empty:
            self._write()
        return self._segments

    def _add(self, batch: Batch) -> None:
        kept = {name: getattr(batch, name).copy() for name in ("indptr", "hash", "value", "label", "weight")}
        self._builder.add_rows(replace(batch, **kept), 0)
        if self._builder.is_full:
            self._write()

    def _write(self) -> None:
        self._segments.append(map_segment(self._builder.write(self._directory, unpaced, durable=False), verify=False))
        self._builder = self._begin(self._builder.last)

    def _begin(self, after: int) -> SegmentBuilder:
        return SegmentBuilder(self._origin, after, b"", lambda _event: None)


@dataclass(frozen=True, slots=True)
class FileData:
    """The rows of a file.

    data      : for a solver; valid inside `data_of_file`
    config    : by which the rows were read
    names     : feature names seen
    rows      : rows read, of which `rejected` could not be, and `duplicate` had the event_id of an earlier row
    problems  : the first rows that were rejected, and why
    codes     : how many were rejected by the code of the reason
    """

    data: SegmentData
    config: ModelConfig
    names: NameBook
    rows: int
    rejected: int
    duplicate: int
    problems: list[Problem]
    codes: dict[str, int]


@contextmanager
def data_asked_for(request: Request, strict: bool = False) -> Iterator[FileData]:
    """Read the file of a request, and show the progress. Raises as `data_of_file` does; if `strict`, `Malformed` if a row was
    rejected."""
    with ExitStack() as stack:
        with rows_so_far("read") as on_block:
            data = data_of_file(request.file, request.config, request.layout, request.threads, on_block)
            found = stack.enter_context(data)
        if strict:
            require_none(found.problems)
        yield found


@contextmanager
def data_of_file(
    file: str,
    make_config: MakeConfig,
    layout: Layout = AS_IT_IS,
    threads: int = 2,
    on_block: Callable[[int, int], None] = lambda _position, _rows: None,
) -> Iterator[FileData]:
    """Read a file into temporary segments, and give the data of its rows. The memory does not grow with the rows; the
    segments take about as much space as a log would, in the directory for temporary files (TMPDIR). If the learner forgets, later
    rows weigh more.

    make_config : returns the configuration, from the beginning of the file
    layout      : of the file; with the format auto, it is recognised by its name or its first rows
    on_block    : called with the position in the file, and the rows so far

    Raises `BadInput`, `Malformed`, `TooLarge`, and what `data_of` raises.
    """
    left = LeftOut()
    with tempfile.TemporaryDirectory(prefix="riata-rows-") as folder:
        with open_rows(file, replace(layout, watcher=left)) as source:
            start = _beginning(source, file, layout.line_form)
            config = make_config(start.beginning)
            reading = FileSegments(config, start.content_type, Path(folder))
            reading.begin_after(start.beginning.header, start.beginning.lines)

            def advance(at: int) -> bool:
                on_block(at, reading.rows)
                return True

            with _named(file, start.way_out):
                reading.run(start.blocks(source, reading), threads, advance)
                left.give(reading)
        data = data_of(
            reading.finish(),
            config.learner.slot_bits(config.encoder.bits),
            rho=rho_of(config),
            by_label=config.label_weight.by_label,
        )
        codes = dict(reading.codes.most_common())
        yield FileData(data, config, reading.names, reading.rows, reading.rejected, reading.duplicate, reading.problems, codes)


@dataclass(frozen=True, slots=True)
class _Start:
    """How to read a file."""

    beginning: Beginning
    content_type: str
    blocks: Callable[[BufferedReader, FileSegments], Iterator[Block]]
    way_out: str = ""


def _beginning(source: BufferedReader, file: str, form: str) -> _Start:
    """Recognise a file. Raises `Malformed`."""
    sniffed = source.peek(_SNIFFED)[:_SNIFFED]
    for reader in READERS:
        if reader.columns is not None and form in (AUTO, reader.name) and reader.columns.sniff(sniffed):
            return _columns(source, file, reader)
    start = recognised(head_of(source), file, form)
    return _Start(start, line_type(start.form), lambda source, reading: blocks(source, reading.scratch, start.rest))


def _columns(source: BufferedReader, file: str, reader: Reader) -> _Start:
    """Start a file of columns. Its beginning has no rows that anybody could read as lines."""
    columns, content_type = reader.columns, reader.media_types[0].name
    assert columns is not None
    bodies = columns.bodies(source.read)
    with _named(file, SMALLER):
        first = next(bodies, None)
    if first is None:
        raise Malformed(f"{file}: contains no rows", "empty_body")

    def cut(source: BufferedReader, _reading: FileSegments) -> Iterator[Block]:
        yield Block(first, position(source))
        for body in bodies:
            yield Block(body, position(source))

    with _named(file, SMALLER):
        parsed = parse_examples(first, content_type, Context(EncoderConfig(), "real"), labelled=True)
    labels = frozenset(Given(NUMBER, label) for label in parsed.batch.label.tolist())
    return _Start(Beginning(reader.name, [], b"", 0, b"", labels), content_type, cut, SMALLER)


@contextmanager
def _named(file: str, way_out: str = "") -> Iterator[None]:
    """Name the file in an error about its content."""
    try:
        yield
    except TooLarge as error:
        raise TooLarge(f"{file}: {error.detail}{way_out}", error.code) from None
    except Malformed as error:
        raise Malformed(f"{file}: {error.detail}", error.code) from None
