"""Learn a file in one pass, without a service. The state equals that of a service that observes the same rows in the same order.

Blocks are read in any number of threads and learnt in one, which also reads while no block is ready. The kernels for reading and
learning release the interpreter's lock. The result is the same bit for bit, because rows are learnt in their order and the cut
into blocks has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import numpy as np

from riata.base.arrays import U8
from riata.base.errors import Malformed, TooLarge
from riata.base.limits import DEDUPE_EVENTS, ERRORS_SHOWN_MAX
from riata.predict.name_book import NameBook
from riata.run.config import ModelConfig, config_payload
from riata.run.exports import write_export
from riata.run.model_state import ModelState
from riata.run.ordered_map import ordered_map
from riata.store.store import Kind, Record
from riata.wire.batch import Batch, select_rows
from riata.wire.parse import Context, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.workspace import Workspace, Workspaces

NO_LOG: Final = bytes(16)  # the lineage of a model without a log; the same rows make the same file
BLOCKS_AHEAD: Final = 2  # for each thread: enough that none waits for a slow block of another thread
EVERYWHERE: Final = 2**14  # step between hashes; of a table of 2^26 slots of 32 bytes, two pages are in that range
NO_PREDICTION: Final = (
    "prediction_id_unknown",
    "prediction_id: only the service that issued it has the features; a file needs rows with features",
)
_COMMENT: Final = re.compile(rb"(?m)^[ \t]*#.*$")
_ID_BYTES: Final = 16
_NEWLINE: Final = 10


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file. position: bytes of the file read up to the end of the block.

    scratch : the workspace to parse it in; its `room` holds a body that is not `bytes`
    """

    body: bytes | U8
    position: int = 0
    scratch: Workspace | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why the row in this line was not learnt."""

    line: int
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Read:
    """A block and its parsed rows, None if it has no rows. The batch is in `scratch`. ends: number of newlines in the block."""

    block: Block
    parsed: Parsed | None
    ends: int
    scratch: Workspace


class Fit:
    """A model that learns from a file.

    state     : after the rows so far; event 1 is its configuration, as in a log
    names     : feature names seen, as a service would keep them
    rows      : rows read: learnt, rejected, duplicate or refused
    features  : features of the rows learnt, without zeros and with repetitions summed
    rejected  : rows that could not be read, the first of them in `problems`
    duplicate : rows whose event_id occurred before
    refused   : rows that the learner refused
    scratch   : workspaces to lend to the readers of blocks
    """

    def __init__(self, config: ModelConfig, content_type: str, name: str = "fit") -> None:
        self.state = ModelState(name, NO_LOG)
        self.names = NameBook(config.encoder.names_max)
        self.rows = self.features = self.rejected = self.duplicate = self.refused = 0
        self.problems: list[Problem] = []
        self.interrupted = False
        self._line = 1  # number of the first line of the block to be learnt next
        self._header = b""
        self._content_type = content_type
        self._context = Context(config.encoder, config.labels, self.names.seen)
        self.scratch = Workspaces(config.encoder.ngrams)
        self._ids: dict[bytes, int] = {}
        self.state.apply(self._record("config", 1, config_payload(config, after=0)))

    def begin_after(self, header: bytes, lines: int) -> None:
        """Read every block with this header, which is in none of them; `lines` lines of the file come before the first block."""
        self._header, self._line = header, 1 + lines

    def expect_many(self) -> None:
        """Prepare for many features all over the learner's table: use large pages for it from the beginning."""
        self.state.learner.expect(np.arange(0, 2**32, EVERYWHERE, dtype=np.uint32))

    @property
    def learnt(self) -> int:
        """Number of rows in the figures of progressive validation."""
        return self.state.progressive.examples

    def run(self, blocks: Iterable[Block], threads: int = 1, on_block: Callable[[int], bool] = lambda _position: True) -> None:
        """Learn every row of `blocks` in this thread, reading them in it and `threads` - 1 others.

        on_block is called with the position after each block; if it returns false, that block was the last one, and
        `interrupted` is set. Raises `Malformed` or `TooLarge` if the file is unreadable; the state is then that after the blocks
        before.
        """
        ahead = 1 if threads == 1 else BLOCKS_AHEAD * threads
        with closing(ordered_map(iter(blocks), self._read, threads, ahead)) as reads:
            for parts in reads:
                for read in parts:
                    if read.parsed is not None:
                        self._learn(read.parsed, read.block.body)
                    self._line += read.ends
                    self.scratch.give(read.scratch)
                if not on_block(parts[-1].block.position):
                    self.interrupted = True
                    break

    def export(self) -> bytes:
        """Return the bytes that the service's import route accepts."""
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names.everything(), weights.slot, weights.bits)

    @property
    def digest(self) -> str:
        """Digest of the state's content, as in a generation of a service."""
        return self.state.freeze().digest().hex()

    def _read(self, block: Block) -> list[Read]:
        """Parse a block; in two halves if it has more rows or features than can be read at once.

        A line that is wholly a comment is never a readable row. So comments are searched for only if a row was unreadable; then
        the block is read again without them.
        """
        scratch = block.scratch or self.scratch.lend(len(block.body))
        try:
            parsed = parse_examples(block.body, self._content_type, self._context, True, scratch, self._header)
        except TooLarge:
            body = bytes(block.body)
            self.scratch.give(scratch)
            middle = body.find(b"\n", len(body) // 2) + 1
            if middle in (0, len(body)):
                middle = body.find(b"\n") + 1
            if middle in (0, len(body)):
                raise
            return [*self._read(Block(body[:middle], block.position)), *self._read(Block(body[middle:], block.position))]
        except Malformed as error:
            if error.code != "empty_body":
                raise
            return [Read(block, None, line_ends(block.body), scratch)]
        if parsed.batch.n < parsed.rows and (plain := _without_comments(bytes(block.body))) is not None:
            return self._read(Block(plain, block.position, scratch))
        return [Read(block, parsed, parsed.lines - 1, scratch)]

    def _learn(self, parsed: Parsed, body: bytes | U8) -> None:
        self.names.add_all(parsed.names)
        self.rows += parsed.rows
        if parsed.batch.n < parsed.rows:
            self._reject(parsed, body)
        batch = self._without_known_ids(parsed.batch)
        if batch.n == 0:
            return
        refused = self.state.apply(self._record("observe", batch.n), batch)
        self.features += batch.nnz
        self.refused += len(refused)

    def _reject(self, parsed: Parsed, body: bytes | U8) -> None:
        self.rejected += parsed.rows - parsed.batch.n
        wrong = [(error.index, error.code, error.detail) for error in parsed.errors]
        wrong += [(int(row), *NO_PREDICTION) for row in parsed.joins.row]
        room = ERRORS_SHOWN_MAX - len(self.problems)
        if room > 0:
            numbers = _row_lines(bytes(body), self._line)
            self.problems += [Problem(numbers[index], code, detail) for index, code, detail in sorted(wrong)[:room]]

    def _without_known_ids(self, batch: Batch) -> Batch:
        """Drop rows whose id occurred before, within the events that a service remembers; remember the ids of the others."""
        if not batch.has_id.any():
            return batch
        keep = np.ones(batch.n, np.bool_)
        raw, seq = batch.event_id.tobytes(), self.state.applied
        for i in range(batch.n):
            if batch.has_id[i]:
                key = raw[_ID_BYTES * i : _ID_BYTES * (i + 1)]
                if self._ids.get(key, -1) >= max(seq + 1 - DEDUPE_EVENTS, 0):
                    keep[i] = False
                    self.duplicate += 1
                    continue
                self._ids[key] = seq + 1
            seq += 1
        return select_rows(batch, keep)

    def _record(self, kind: Kind, count: int, payload: bytes = b"") -> Record:
        """Return a record of a log that is not stored: its digest and chain are never checked."""
        return Record(self.state.name, kind, self.state.applied + 1, count, 0, payload, b"", self.state.chain)


def _without_comments(body: bytes) -> bytes | None:
    """Return `body` with lines that are wholly comments made blank; None if there are none."""
    plain, found = _COMMENT.subn(b"", body) if b"#" in body else (body, 0)
    return plain if found else None


def line_ends(body: bytes | U8) -> int:
    """Return the number of newlines; twice as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(body, np.uint8) == _NEWLINE))


def _row_lines(body: bytes, first: int) -> list[int]:
    """Return the line number of each row of a block whose first line has number `first`; blank lines are not rows."""
    return [number for number, line in enumerate(body.split(b"\n"), first) if line.strip(b" \t\r")]
