"""The result of reading a body: good rows as one `Batch`, the others as row errors, and the names that are new."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, cast

import numpy as np

from riata.base.arrays import BOOL, F64, I64, U8
from riata.base.frozen_dataclass import frozen_dataclass
from riata.native.library import core
from riata.native.reading import list_rows
from riata.wire.batch import NO_TIME, Batch, Encoded, select_rows
from riata.wire.codes import BAD_LABEL, HANDOVER, OK, subject_hash
from riata.wire.given import Given, given_value
from riata.wire.names import BETWEEN, NOTHING_NAMED, TIMES, Names, names_found
from riata.wire.rows import (
    BEGIN,
    CLASSES,
    CROSSED,
    FOUND,
    ID_START,
    ROW_START,
    ROW_STOP,
    SUBJECT_START,
    TIME_AT,
    TIME_MS,
    BatchBuilder,
    Rules,
)  # fmt: skip
from riata.wire.workspace import leave_features

ID_BYTES: Final = 16
LEFT_FROM: Final = 2**12  # features; fewer are copied faster than free memory is found


@frozen_dataclass(frozen=True, slots=True)
class RowError:
    """Why row `index` (from 0, blank lines not counted) was not accepted: a stable slug, and a readable sentence."""

    index: int
    code: str
    detail: str


@frozen_dataclass(frozen=True, slots=True)
class Joins:
    """Labels of earlier predictions: rows that carry a prediction_id in place of features.

    row    : i64[n]        row number of each in the body, increasing
    key    : list[bytes]   the prediction's key, 16 bytes each
    label  : f64[n]        as in a batch
    weight : f64[n]
    """

    row: I64
    key: list[bytes]
    label: F64
    weight: F64

    @property
    def n(self) -> int:
        """Number of labels."""
        return len(self.key)


NO_JOINS: Final = Joins(np.zeros(0, np.int64), [], np.zeros(0), np.zeros(0))


@frozen_dataclass(frozen=True, slots=True)
class Parsed:
    """The parsed body.

    batch  : Batch               the accepted rows, in order
    row    : i64[batch.n]        row number of each in the body
    errors : list[RowError]      the refused rows, in order
    rows   : int                 rows in the body; rows == batch.n + joins.n + len(errors)
    names  : Names               fingerprints, and names as shown, of the names not seen before, each once
    single : bool                true if the body was one JSON object and not a list
    joins  : Joins               the rows that label a prediction
    lines  : int                 lines of a body that was read by lines: newlines, plus one for bytes after the last
    encoded : Encoded | None     what the log stores for the batch, if that is encoded already
    classes : tuple[str, ...]    of a model of several classes: their names by number; labels are numbers of them (`wire.classes`)
    others  : Mapping            labels that the model does not take, as they were given, and in how many rows each is
    """

    batch: Batch
    row: I64
    errors: list[RowError]
    rows: int
    names: Names
    single: bool
    joins: Joins = NO_JOINS
    lines: int = 0
    encoded: Encoded | None = None
    classes: tuple[str, ...] = ()
    others: Mapping[Given, int] = field(default_factory=dict)


@dataclass(slots=True)
class Reading:
    """Intermediate state between the readers and `Parsed`: the arrays of the readers, and what reference readers added."""

    data: U8
    sink: BatchBuilder
    rules: Rules
    rows: int = 0
    lines: int = 0
    fields: dict[int, str] = field(default_factory=dict)  # row -> name at fault, if a reference reader refused it
    identities: dict[int, bytes] = field(default_factory=dict)  # row -> event id, if a reference reader accepted it
    subjects: dict[int, bytes] = field(default_factory=dict)  # likewise its subject
    times: dict[int, int] = field(default_factory=dict)  # likewise its time, unix ms
    class_names: dict[int, str] = field(default_factory=dict)  # row -> its class, if a reference reader read it as a text
    slow_names: list[bytes] = field(default_factory=list)  # shown names of found records whose span starts with -1
    is_passing: bool = True  # the sink is scratch that the next body reuses, so results are copied out
    # Of the reader, if its rows may label a prediction.
    joins: Callable[[Reading, list[RowError]], tuple[Joins, list[RowError]]] | None = None

    label_in: Callable[[bytes, bytes], Given | None] | None = None  # the label of a row, as that of `wire.reader.FileRows`
    reason_in: Callable[[bytes, str, str], tuple[str, str] | None] | None = None  # why it was refused, likewise
    given_labels: F64 | None = None  # of rows that are columns: f64[rows], as they were given

    def text(self, number: int) -> bytes:
        """The bytes of a row."""
        return self.data[self.sink.place[number, ROW_START] : self.sink.place[number, ROW_STOP]].tobytes()

    def given(self, number: int) -> Given | None:
        """The label of a row as it was given; None if none can be found."""
        if self.given_labels is not None:
            return given_value(self.given_labels.item(number))
        return None if self.label_in is None else self.label_in(self.text(number), b"")

    def reason(self, number: int, slug: str, name: str) -> tuple[str, str] | None:
        """The field at fault and a sentence that say more than those of the code; None if nothing does."""
        return None if self.reason_in is None else self.reason_in(self.text(number), slug, name)

    def left(self) -> Iterator[int]:
        """The rows that are left to a reference reader, in order."""
        code = self.sink.code[: self.rows]
        if self.rules.labels == CLASSES:  # it may be a name that kernels leave (`take_label` in service/native/lines.h)
            code[code == BAD_LABEL] = HANDOVER
        number = core.next_row(self.sink.native, 0, HANDOVER)
        while number < len(code):
            yield number
            number = core.next_row(self.sink.native, number + 1, HANDOVER)


def accepted(reading: Reading) -> I64:
    """Numbers of the accepted rows, increasing."""
    return np.flatnonzero(reading.sink.code[: reading.rows] == OK)


def make_batch(reading: Reading) -> tuple[Batch, I64]:
    """Make the batch of the accepted rows. Returns it and their row numbers, increasing.

    Features are copied if the sink has them in another order: rows that a reference reader finished come after the others there.
    They are also copied if the sink is reused (`is_passing`), unless they are many and `leave_features` lets them stay.
    """
    sink, most = reading.sink, reading.rows
    rows, indptr = np.empty(most, np.int64), np.empty(most + 1, np.int64)
    label, weight, has_id = np.empty(most), np.empty(most), np.empty(most, np.bool_)
    n, ids, subjects, times, first = list_rows(sink, rows, indptr, label, weight, has_id)
    rows, indptr, label, weight, has_id = rows[:n], indptr[: n + 1], label[:n], weight[:n], has_id[:n]
    if first >= 0:
        take = slice(first, first + int(indptr[-1]))
        hashes, values = sink.hash[take], sink.value[take]
        if reading.is_passing and not (len(hashes) >= LEFT_FROM and leave_features(sink)):
            hashes, values = hashes.copy(), values.copy()
    else:
        length = np.diff(indptr)
        place = np.arange(indptr[-1]) + np.repeat(sink.place[rows, BEGIN] - indptr[:-1], length)
        hashes, values = sink.hash[place], sink.value[place]
    digest = np.frombuffer(bytearray(n * ID_BYTES), np.uint8).reshape(n, ID_BYTES)  # np.zeros would release the GIL to clear it
    if ids or reading.identities:
        digest = _digests(reading, rows, ID_START, reading.identities, partial(hashlib.blake2b, digest_size=ID_BYTES))
        has_id[np.searchsorted(rows, [*reading.identities])] = True
    subject = None
    if subjects or reading.subjects:
        subject = _digests(reading, rows, SUBJECT_START, reading.subjects, subject_hash(int(reading.rules.key)))
    timed = reading.rules.labelled and (times or reading.times)
    return Batch(indptr, hashes, values, label, weight, digest, has_id, subject, _times(reading, rows) if timed else None), rows


def _digests(reading: Reading, rows: I64, column: int, others: dict[int, bytes], hashed: Callable[[Any], Any]) -> U8:
    """Return the digests of a text of each of these accepted rows, u8[n, ID_BYTES]; zeros for a row without it.

    column : of `place`, where the text starts; the next is where it stops
    others : row -> the text, if a reference reader read it
    """
    data = memoryview(cast(Any, reading.data))
    spans = reading.sink.place[rows, column : column + 2].tolist()
    made = [hashed(data[start:stop]).digest() if stop > start else bytes(ID_BYTES) for start, stop in spans]
    for number, text in others.items():
        made[int(np.searchsorted(rows, number))] = hashed(text).digest()
    return np.frombuffer(bytearray(b"".join(made)), np.uint8).reshape(len(rows), ID_BYTES)


def _times(reading: Reading, rows: I64) -> I64:
    """Return the times of these accepted rows, i64[n], unix ms or NO_TIME."""
    place = reading.sink.place[rows]
    times = np.where(place[:, TIME_AT] > place[:, ROW_START], place[:, TIME_MS], NO_TIME)
    times[np.searchsorted(rows, [*reading.times])] = [*reading.times.values()]
    return times


def shown_name(reading: Reading, found: int) -> bytes:
    """The name of a found record as users see it."""
    a, b, c, d = (int(x) for x in reading.sink.found_span[found])
    if reading.sink.found_kind[found] & CROSSED:
        return TIMES.join(shown_name(reading, part) for part in (a, b, c) if part >= 0)
    if a < 0:
        return reading.slow_names[b]
    second = reading.data[c:d].tobytes()
    between = BETWEEN.get(int(reading.sink.found_kind[found]) & 3)
    return second if between is None else reading.data[a:b].tobytes() + between + second


def new_names(reading: Reading) -> Names:
    """Every name the readers found, once, in the order of its first occurrence."""
    return names_found(reading.data, reading.sink, reading.slow_names) if reading.sink.count.item(FOUND) else NOTHING_NAMED


def names_in(names: Names, batch: Batch) -> Names:
    """Those of `names` whose features occur in `batch`."""
    return names.take(np.isin(names.fingerprint >> np.uint64(32), batch.hash).view(np.uint8))


def without_rows(parsed: Parsed, keep: BOOL, refused: Sequence[RowError]) -> Parsed:
    """Return what was read with row errors in place of some rows, and without their names, which are not logged either.

    keep : bool[n]  of the rows of its batch
    """
    batch = select_rows(parsed.batch, keep)
    errors = sorted([*parsed.errors, *refused], key=lambda error: error.index)
    return replace(parsed, batch=batch, row=parsed.row[keep], errors=errors, names=names_in(parsed.names, batch))
