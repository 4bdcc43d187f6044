"""Read files of labelled rows without a service: the rows that a service would accept, in their order.

Blocks are read in any number of threads and taken in one, which also reads while no block is ready. The readers' kernels release
the interpreter's lock. The cut into blocks has no effect on the rows.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Final, Generic, NoReturn, TypeVar

import numpy as np

from riata.base.arrays import F64, U8
from riata.base.errors import Conflict, Malformed, TooLarge
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import DEDUPE_EVENTS, ERRORS_SHOWN_MAX
from riata.predict.name_book import NameBook
from riata.run.state.config import ModelConfig
from riata.wire.batch import Batch, select_rows
from riata.wire.classes import ClassesConfig, renumber_classes
from riata.wire.given import FORMS, LabelTally
from riata.wire.parse import Context, make_rules, parse_examples
from riata.wire.parsed import Parsed
from riata.wire.read_body import format_of
from riata.wire.rows import growth_of
from riata.wire.workspace import Workspace, Workspaces

BLOCKS_AHEAD: Final = 2  # for each thread: enough that none waits for a slow block of another thread
NO_PREDICTION: Final = (
    "prediction_id_unknown",
    "prediction_id: only the service that issued it has the features; a file needs rows with features",
)
_COMMENT: Final = re.compile(rb"(?m)^[ \t]*#.*$")
_ID_BYTES: Final = 16
_NEWLINE: Final = 10

T = TypeVar("T")
R = TypeVar("R")


@frozen_dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file, or a body of columns. position: bytes of the file read up to the end of the block.

    scratch : the workspace to parse it in; its `room` holds a body that is not `bytes`
    """

    body: bytes | U8
    position: int = 0
    scratch: Workspace | None = None


@frozen_dataclass(frozen=True, slots=True)
class Problem:
    """Why the row in this line, or with this number in a file of columns, was not taken."""

    line: int
    code: str
    detail: str


@frozen_dataclass(frozen=True, slots=True)
class Read:
    """A block and its parsed rows, None if it has no rows. The batch is in `scratch`. ends: lines or rows in the block.

    fields : how many fields had a kind when it was read
    """

    block: Block
    parsed: Parsed | None
    ends: int
    scratch: Workspace
    fields: int


class FileReading:
    """Reads the rows of a file, and gives those that a service would accept to `take`, in their order.

    take      : gets batches; a batch may use memory that is used again after it returns
    names     : feature names seen, as a service would keep them
    rows      : rows read: taken, rejected or duplicate
    rejected  : rows that could not be read, the first of them in `problems`, and how many by code in `codes`
    duplicate : rows whose event_id occurred before
    scratch   : workspaces to lend to the readers of blocks
    """

    def __init__(self, config: ModelConfig, content_type: str, take: Callable[[Batch], None]) -> None:
        self.names = NameBook.of(config.encoder)
        self.rows = self.rejected = self.duplicate = 0
        self.problems: list[Problem] = []
        self.codes: Counter[str] = Counter()
        self.interrupted = False
        self._take = take
        self._seq = 1  # the last event of a log with these rows; the first event is the configuration
        self._line = 1  # number of the first line, or row, of the block to be taken next
        self._header = b""
        self._content_type = content_type
        self._by_line = format_of(content_type).split == "lines"
        self._context = Context(
            config.encoder, config.labels, self.names.seen, config.classes, by_row=True, kinds=self.names.kinds
        )
        self._labels = LabelTally(config.labels)
        self.scratch = Workspaces(growth_of(make_rules(self._context, labelled=True)))
        self._ids: dict[bytes, int] = {}

    def begin_after(self, header: bytes, lines: int) -> None:
        """Read every block with this header, which is in none of them; `lines` lines of the file come before the first block."""
        self._header, self._line = header, 1 + lines

    def run(self, blocks: Iterable[Block], threads: int = 1, on_block: Callable[[int], bool] = lambda _position: True) -> None:
        """Take every row of `blocks` in this thread, reading them in it and `threads` - 1 others.

        on_block is called with the position after each block; if it returns false, that block was the last one, and
        `interrupted` is set. Raises `Malformed` or `TooLarge` if the file is unreadable, after the blocks before were taken, and
        at the end `OtherLabels` if all labels are those of another setting.
        """
        ahead = 1 if threads == 1 else BLOCKS_AHEAD * threads
        with closing(ordered_map(iter(blocks), self._read, threads, ahead)) as reads:
            for parts in reads:
                for read in parts:
                    if read.parsed is not None:
                        self._accept(self._by_present_kinds(read, read.parsed), read.block.body)
                    self._line += read.ends
                    self.scratch.give(read.scratch)
                if not on_block(parts[-1].block.position):
                    self.interrupted = True
                    break
        self._labels.require_own_form()

    def _read(self, block: Block) -> list[Read]:
        """Parse a block; in two halves if it has more rows or features than can be read at once.

        A line that is wholly a comment is never a readable row. So comments are searched for only if a row was unreadable; then
        the block is read again without them.
        """
        scratch, fields = block.scratch or self.scratch.lend(len(block.body)), len(self.names.kinds or ())
        try:
            parsed = parse_examples(block.body, self._content_type, self._context, True, scratch, self._header)
        except TooLarge:
            if not self._by_line:
                raise
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
            return [Read(block, None, line_ends(block.body) if self._by_line else 0, scratch, fields)]
        if not self._by_line:
            return [Read(block, parsed, parsed.rows, scratch, fields)]
        if parsed.batch.n < parsed.rows and (plain := _without_comments(bytes(block.body))) is not None:
            return self._read(Block(plain, block.position, scratch))
        return [Read(block, parsed, parsed.lines - 1, scratch, fields)]

    def _by_present_kinds(self, read: Read, parsed: Parsed) -> Parsed:
        """Return the rows of a block, read again if fields were met since, so that they do not depend on the order of threads."""
        if len(self.names.kinds or ()) == read.fields:
            return parsed
        return parse_examples(read.block.body, self._content_type, self._context, True, read.scratch, self._header)

    def _accept(self, parsed: Parsed, body: bytes | U8) -> None:
        self._labels.add_parsed(_own(parsed.batch.label, self._context.labels), parsed.others)
        parsed = self._with_classes(parsed)
        self.names.add_all(parsed.names)
        self.rows += parsed.rows
        if parsed.batch.n < parsed.rows:
            self._reject(parsed, body)
        batch = self._without_known_ids(parsed.batch)
        if batch.n:
            self._take(batch)
            self._seq += batch.n

    def _with_classes(self, parsed: Parsed) -> Parsed:
        """Give the rows of several classes the numbers of theirs; the take of a new class comes before that of its first row."""
        if not parsed.classes or not parsed.batch.n:
            return parsed
        classes = self._context.classes.extended(parsed.classes)
        if classes != self._context.classes:
            self._take_classes(classes)
            self._seq += 1
            self._context = replace(self._context, classes=classes)
        return renumber_classes(parsed, classes)

    def _take_classes(self, _classes: ClassesConfig) -> None:
        """Take more classes than before. Raises `Conflict` (code `not_for_classes`) unless the reading is for several."""
        raise Conflict("these rows have several classes, and two are needed", "not_for_classes")

    def _reject(self, parsed: Parsed, body: bytes | U8) -> None:
        self.rejected += parsed.rows - parsed.batch.n
        wrong = [(error.index, error.code, error.detail) for error in parsed.errors]
        wrong += [(int(row), *NO_PREDICTION) for row in parsed.joins.row]
        self.codes.update(code for _, code, _ in wrong)
        room = ERRORS_SHOWN_MAX - len(self.problems)
        if room > 0:
            first = self._line
            numbers = _row_lines(bytes(body), first) if self._by_line else range(first, first + parsed.rows)
            self.problems += [Problem(numbers[index], code, detail) for index, code, detail in sorted(wrong)[:room]]

    def leave_out(self, left: Sequence[Problem]) -> None:
        """Count rows that were left out before they came here."""
        self.rows += len(left)
        self.rejected += len(left)
        self.codes.update(problem.code for problem in left)
        self.problems = sorted([*self.problems, *left], key=lambda problem: problem.line)[:ERRORS_SHOWN_MAX]

    def _without_known_ids(self, batch: Batch) -> Batch:
        """Drop rows whose id occurred before, within the events that a service remembers; remember the ids of the others."""
        if not batch.has_id.any():
            return batch
        keep = np.ones(batch.n, np.bool_)
        raw, seq = batch.event_id.tobytes(), self._seq
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


def _own(label: F64, setting: str) -> dict[float, int]:
    """Count the labels of accepted rows, as they were given; of settings without two labels, in one number for all."""
    if not len(label):
        return {}
    if setting not in FORMS:
        return {float(label[0]): len(label)}
    ones = int(np.count_nonzero(label))
    counts = {1.0: ones, min(FORMS[setting]): len(label) - ones}
    return {value: count for value, count in counts.items() if count}


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


# Map a function over a stream of items in several threads, with the results in the order of the items.
#
# Theory of operation
#     Items are drawn one at a time by any idle thread: by a helper thread while fewer than `ahead` items are in progress, and by
#     the caller when the result it needs next is not ready. So the caller works instead of waiting, and two threads are both busy
#     whether producing or consuming results takes longer.
#
#     The thread that draws holds `_drawing`, and `_drawn` is counted under it, so numbers are in the order of the items. Every
#     change that a thread may wait for is signalled by `_news`.


def ordered_map(items: Iterator[T], work: Callable[[T], R], threads: int, ahead: int) -> Generator[R, None, None]:
    """Yield `work(item)` for each item, in order. With `threads` of 1 all work is done in this thread, otherwise in others too.

    ahead: items in progress at most, plus or minus one per thread. Errors from drawing or working are raised here, in order.
    Closing the generator ends the threads, each after its current item.
    """
    line = _Pipeline(items, work, ahead)
    helpers = [threading.Thread(target=line.help, name="riata-in-order", daemon=True) for _ in range(threads - 1)]
    for helper in helpers:
        helper.start()
    try:
        while (made := line.take()) is not None:
            yield made.result()
            line.used()
    finally:
        line.end()
        for helper in helpers:
            helper.join()


class _Pipeline(Generic[T, R]):
    """Items in progress: those from number `_taken` to `_drawn`; `_made` has the finished ones."""

    def __init__(self, items: Iterator[T], work: Callable[[T], R], ahead: int) -> None:
        self._items = items
        self._work = work
        self._ahead = ahead
        self._drawing = threading.Lock()
        self._news = threading.Condition()
        self._made: dict[int, Future[R]] = {}
        self._drawn = self._taken = 0
        self._ended = False

    def help(self) -> None:
        """Work until there is nothing left to draw."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._ended or self._drawn - self._taken < self._ahead)
            if self._ended:
                return
            self._one(wait=True)

    def take(self) -> Future[R] | None:
        """Return the next result, working while it is not ready; None after the last."""
        while True:
            with self._news:
                self._news.wait_for(lambda: self._taken in self._made or self._is_over() or self._may_draw())
            if self._taken in self._made:
                return self._made.pop(self._taken)
            if self._is_over():
                return None
            self._one(wait=False)

    def used(self) -> None:
        """Record that the result taken last has been consumed."""
        self._taken += 1
        self._tell()

    def end(self) -> None:
        """Stop drawing items."""
        self._ended = True
        self._tell()

    def _one(self, wait: bool) -> None:
        """Draw an item and work on it. Without `wait`, do nothing while another thread draws."""
        if not self._drawing.acquire(blocking=wait):
            return
        try:
            number, task = self._drawn, self._draw()
            self._drawn += int(task is not None)
        finally:
            self._drawing.release()
        self._tell()
        if task is not None:
            made: Future[R] = Future()
            try:
                made.set_result(task())
            except BaseException as error:
                made.set_exception(error)
            self._made[number] = made
            self._tell()

    def _draw(self) -> Callable[[], R] | None:
        """Return the work on the next item, None after the last; an error raised by drawing is raised by that work."""
        try:
            return None if self._ended else partial(self._work, next(self._items))
        except StopIteration:
            self._ended = True
            return None
        except BaseException as error:
            self._ended = True
            return partial(_raise, error)

    def _is_over(self) -> bool:
        return self._ended and not self._drawing.locked() and self._taken == self._drawn

    def _may_draw(self) -> bool:
        return not self._ended and not self._drawing.locked() and self._drawn - self._taken < self._ahead

    def _tell(self) -> None:
        with self._news:
            self._news.notify_all()


def _raise(error: BaseException) -> NoReturn:
    raise error
