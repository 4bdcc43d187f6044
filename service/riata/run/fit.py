"""Learn a file in one pass, without a service: the state is the one that observing the same rows in the same order leads to.

Blocks are read in any number of threads and learnt in one, which reads as well while no block is ready: the kernels of both
let go of the interpreter's lock. What is learnt is the same to the last bit, because rows are learnt in their order and no cut
into blocks matters.
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

NO_LOG: Final = bytes(16)  # the lineage of a model behind which there is no log; the same rows make the same file
BLOCKS_AHEAD: Final = 2  # for each thread: enough that none waits for one slow block of another
EVERYWHERE: Final = 2**14  # between hashes; a table of 2^26 slots of 32 bytes has two pages there
NO_PREDICTION: Final = (
    "prediction_id_unknown",
    "prediction_id: only the service that gave it remembers the features",
)
_COMMENT: Final = re.compile(rb"(?m)^[ \t]*#.*$")
_ID_BYTES: Final = 16
_NEWLINE: Final = 10


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file. position: bytes of the file read up to its end.

    scratch : in which it is to be parsed, and in whose `room` a body that is no `bytes` lies
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
    """A block, parsed; None where it holds no rows. The batch lies in `scratch`. ends: newlines in it."""

    block: Block
    parsed: Parsed | None
    ends: int
    scratch: Workspace


class Fit:
    """A model that learns from a file.

    state     : after the rows so far; event 1 is its configuration, as in a log
    names     : feature names met, as a service would have kept them
    rows      : rows read: learnt, rejected, duplicate or refused
    features  : of the rows learnt, zeros and repetitions summed away
    rejected  : rows that could not be read, the first of them in `problems`
    duplicate : rows whose event_id came before
    refused   : rows that the learner would not learn
    scratch   : to be lent to who reads blocks
    """

    def __init__(self, config: ModelConfig, content_type: str, name: str = "fit") -> None:
        self.state = ModelState(name, NO_LOG)
        self.names = NameBook(config.encoder.names_max)
        self.rows = self.features = self.rejected = self.duplicate = self.refused = 0
        self.problems: list[Problem] = []
        self.interrupted = False
        self._line = 1  # number of the first line of the block to be learnt next
        self._content_type = content_type
        self._context = Context(config.encoder, config.labels, self.names.seen)
        self.scratch = Workspaces(config.encoder.ngrams)
        self._ids: dict[bytes, int] = {}
        self.state.apply(self._record("config", 1, config_payload(config, after=0)))

    def expect_many(self) -> None:
        """Many features are to come, all over the learner's table: its pages are to be large from the beginning."""
        self.state.learner.expect(np.arange(0, 2**32, EVERYWHERE, dtype=np.uint32))

    @property
    def learnt(self) -> int:
        """Rows that are in the figures of progressive validation."""
        return self.state.progressive.examples

    def run(self, blocks: Iterable[Block], threads: int = 1, on_block: Callable[[int], bool] = lambda _position: True) -> None:
        """Learn every row of `blocks` in this thread, reading them in it and `threads` - 1 others.

        on_block is told the position after each block; where it returns false, that was the last one, and `interrupted` is
        set. Raises `Malformed` or `TooLarge` where the file is none of rows; the state is then after the blocks before.
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
        """The bytes that the service's import route takes."""
        frozen, weights = self.state.freeze(), self.state.learner.weights()
        return write_export(frozen.header, frozen.arrays, self.names.everything(), weights.slot, weights.bits)

    @property
    def digest(self) -> str:
        """Digest of the state's content, as a generation of a service carries it."""
        return self.state.freeze().digest().hex()

    def _read(self, block: Block) -> list[Read]:
        """Parse a block; in two halves where it has more rows or features than are read at once.

        A line that is wholly a comment is never a row that can be read. So comments are looked for where there is such a row,
        and then the block is read again without them.
        """
        scratch = block.scratch or self.scratch.lend(len(block.body))
        try:
            parsed = parse_examples(block.body, self._content_type, self._context, True, scratch)
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
        """Leave out rows whose id came before within the events that a service remembers, and remember the others'."""
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
        """An entry for a log that nobody keeps: its digest and chain are never looked at."""
        return Record(self.state.name, kind, self.state.applied + 1, count, 0, payload, b"", self.state.chain)


def _without_comments(body: bytes) -> bytes | None:
    """The same with lines left blank that are wholly a comment; None where none is."""
    plain, found = _COMMENT.subn(b"", body) if b"#" in body else (body, 0)
    return plain if found else None


def line_ends(body: bytes | U8) -> int:
    """How many newlines there are; twice as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(body, np.uint8) == _NEWLINE))


def _row_lines(body: bytes, first: int) -> list[int]:
    """The line of each row of a block whose first line has the number `first`: blank lines are no rows."""
    return [number for number, line in enumerate(body.split(b"\n"), first) if line.strip(b" \t\r")]
