"""From the records of one row to sorted, summed, bounded features. Every format uses these arrays and steps.

Theory of operation
    A reader (JSON, VW, svmlight) reads the bytes of one row and writes one record per value to `RecordScratch`: the 64-bit
    fingerprint of the name, the value as written, the kind of name, and where its bytes are. `service/native/rows.c` then

        0  adds a record for each combination of crossed fields, if the encoder has crosses
        1  orders the records by feature hash (the top 32 bits), equal hashes in the order they came
        2  sums equal hashes, in that order; refuses a JSON key that came twice, and a sum beyond VALUE_ABS_MAX
        3  drops sums that are zero or subnormal
        4  divides by the row's 2-norm if the encoder asks for it
        5  appends to `BatchBuilder`, and lists there the names that are not in the table of names seen

    Nothing of a row is written to `BatchBuilder` before the row is known to be good, so a refused row leaves no trace.

    A line reader offers two functions, which `wire.read_body` calls:

        read_FORMAT(text: Text, row: RecordScratch, sink: BatchBuilder, rules: Rules) -> int
            reads the whole body, usually in the native core (`service/native`). Sets sink.code, place, label, weight for every
            row and count[ROWS]; finishes good ones. Returns OK, or TOO_MANY_FEATURES or TOO_MANY_ROWS, which end the reading.
        reference_FORMAT(line: bytes, rules: Rules) -> SlowRow | Refusal
            reads the same line in plain Python, for rows that the other left with the code HANDOVER.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from riata.base.arrays import F64, I64, U8, U32, U64
from riata.base.limits import FEATURES_PER_REQUEST_MAX, FEATURES_PER_ROW_MAX
from riata.native.reading import records_struct, sink_struct

RECORDS_PER_ROW_MAX: Final = 32 * FEATURES_PER_ROW_MAX  # before summing: words of a text repeat

LISTED_PLACES: Final = 2**14  # small enough for the L2 cache, and enough for the names that repeat

CLASSES: Final = 3  # Rules.labels: labels are names of classes; a number is one too
CLASS_NAME_LENGTH_MAX: Final = 128  # characters

# Kinds of record. The low two bits say how the name is shown, as the tags of the feature hash do.
PLAIN: Final = 0  # name
EQUALS: Final = 1  # prefix=name
WORD: Final = 2  # prefix:name
NAMESPACE: Final = 3  # prefix^name
KEY: Final = 4  # a JSON key: its fingerprint must not come twice among records of this kind
SHADOWED: Final = 8  # no feature, value 0: there only so that the key of a string, list or null, or a namespace, is seen
CROSSED: Final = 16  # made of other records of the row: the span holds their positions, -1 after the last
PART: Final = 32  # only in `found_kind`: listed because a crossed name needs it, not for itself

# The field of a record, for crosses, is its fingerprint if it is PLAIN, otherwise that of the last PLAIN record before it. So
# readers write a SHADOWED record before those of a string or a namespace; the reader of VW text only if the encoder has crosses.

PARTS_MAX: Final = 3  # fields of a cross

# Places in BatchBuilder.count
FEATURES: Final = 0
FOUND: Final = 1
ROWS: Final = 2

# Columns of BatchBuilder.place
ROW_START: Final = 0
ROW_STOP: Final = 1
AT: Final = 2  # where reading stopped, for the sentence about a syntax error
FIELD_START: Final = 3  # the name at fault; start == stop if there is none
FIELD_STOP: Final = 4
ID_START: Final = 5  # the event id; start == stop if there is none
ID_STOP: Final = 6
BEGIN: Final = 7  # first feature in BatchBuilder.hash; only if the row was accepted
END: Final = 8
IN_FEATURES: Final = 9  # 1 if the field at fault is a key of a JSON "features" object
CLASS_START: Final = 10  # the name of the row's class; start == stop if the label is a number
CLASS_STOP: Final = 11
SUBJECT_START: Final = 12  # whom the row is about; start == stop if it does not say
SUBJECT_STOP: Final = 13
TIME_AT: Final = 14  # a place after ROW_START if the row has a time
TIME_MS: Final = 15  # the time, unix ms; only if the row has one
PLACES: Final = 16


class RecordScratch(NamedTuple):
    """Records of the row being read, as arrays; reused for every row. m = capacity, `row_capacity(body bytes, growth)`."""

    fingerprint: U64  # u64[m]
    value: F64  # f64[m] as written, not yet checked; may be infinite
    kind: U8  # u8[m]  PLAIN, EQUALS, WORD or NAMESPACE, with KEY and SHADOWED
    span: I64  # i64[m, 4] prefix start, prefix stop, name start, name stop in the body; start == stop: empty. Or see CROSSED
    field: U64  # u64[m] what the reader knows of the name, so that the same name in the next row is not hashed again
    order: U64  # u64[m] scratch
    bucket: U64  # u64[m] scratch
    native: Any = None  # its `riata_records`


class BatchBuilder(NamedTuple):
    """The features of the whole body, while it is read. c = feature capacity, r = row capacity.

    A reader sets for its row number i: code[i], place[i], label[i], weight[i]; `count[ROWS]` is set when it ends.
    Rows are counted from 0; blank lines are not rows.
    """

    hash: U32  # u32[c]
    value: F64  # f64[c]
    count: I64  # type: ignore[assignment]  # i64[3]  FEATURES, FOUND, ROWS so far; shadows tuple.count, which is not used
    found_fingerprint: U64  # u64[c] one for each record whose name is not in Rules.seen, though not for all repetitions
    found_value: F64  # f64[c] its own value, after normalising
    found_row: I64  # i64[c]
    found_kind: U8  # u8[c]
    found_span: I64  # i64[c, 4]; if CROSSED, positions of the parts among those found
    listed: U32  # u32[LISTED_PLACES] by the low bits of a fingerprint: where it may be in found_fingerprint; never cleared
    code: I64  # i64[r]  OK, HANDOVER or why the row was refused (wire.codes)
    place: I64  # i64[r, PLACES]
    label: F64  # f64[r] NaN if there is none
    weight: F64  # f64[r]
    native: Any = None  # its `riata_sink`


class KindsByHash(Protocol):
    """The kinds of fields, found by hash: `wire.fields.FieldKinds`. native : `riata_fields`"""

    native: Any

    def kind(self, field: int) -> int:
        """Return the kind of a field; 0 if it has none."""
        ...

    def count_odd(self, field: int, which: int, what: str = "") -> None:
        """Count a value that is not of its field's kind. what : its form and its source"""
        ...


class Rules(NamedTuple):
    """What the readers need to know about the model."""

    key: np.uint64  # the model's hash key
    labels: int  # 0: "0/1"   1: "-1/+1"   2: "real"   3: names of classes
    labelled: int  # 1 if rows are to be learnt, 0 if they are to be predicted
    l2: int  # 1 if rows are divided by their 2-norm
    ngrams: int
    words: int  # the rule of words (`service/native/json.c`, texts)
    text: U64  # u64[fields] H(key, NUMBER, name) of the fields that are split into words
    seen: U64  # u64[2^k] table of names seen (wire.names); of length 0 if no names are wanted
    fields: U64  # u64[f] H(key, NUMBER, name) of the fields that are crossed
    crosses: I64  # i64[k, PARTS_MAX] positions in `fields`, -1 after the last
    cross_scale: float  # factor of the values of crossed features
    kinds: KindsByHash | None = None  # of fields that have a kind
    kinds_of: U64 | None = None  # u64[models] in place of it for rows of several models (`Context.rules_of_several`)
    source: str = ""  # what the rows come in, for people
    native: Any = None  # its `riata_rules`


NO_CROSSES: Final = np.zeros((0, PARTS_MAX), np.int64)
_UNBOUNDED: Final = 2**32  # growth of crosses: the bounds of rows and requests apply


def growth_of(rules: Rules) -> int:
    """How many features two bytes of a body may become: one for each length of n-gram, or any number if fields are crossed."""
    return _UNBOUNDED if len(rules.crosses) > 0 else rules.ngrams


def row_capacity(body_bytes: int, growth: int) -> int:
    """Maximal number of records of one row of such a body: a record takes at least two bytes, `growth` times."""
    return min(RECORDS_PER_ROW_MAX, growth * (body_bytes // 2) + 4)


def make_row(capacity: int) -> RecordScratch:
    """Allocate a `RecordScratch`; pages that are not used are never touched."""
    made = RecordScratch(
        fingerprint=np.empty(capacity, np.uint64),
        value=np.empty(capacity),
        kind=np.empty(capacity, np.uint8),
        span=np.empty((capacity, 4), np.int64),
        field=np.empty(capacity, np.uint64),
        order=np.empty(capacity, np.uint64),
        bucket=np.empty(capacity, np.uint64),
    )
    return made._replace(native=records_struct(made))


def make_sink(body_bytes: int, rows: int, growth: int) -> BatchBuilder:
    """Allocate a `BatchBuilder` for at most `rows` rows of a body of `body_bytes`."""
    c = min(FEATURES_PER_REQUEST_MAX, growth * (body_bytes // 2) + 4)
    made = BatchBuilder(
        hash=np.empty(c, np.uint32),
        value=np.empty(c, np.float64),
        count=np.zeros(3, np.int64),
        found_fingerprint=np.empty(c, np.uint64),
        found_value=np.empty(c, np.float64),
        found_row=np.empty(c, np.int64),
        found_kind=np.empty(c, np.uint8),
        found_span=np.empty((c, 4), np.int64),
        listed=np.zeros(LISTED_PLACES, np.uint32),
        code=np.zeros(rows, np.int64),
        place=np.zeros((rows, PLACES), np.int64),
        label=np.full(rows, np.nan),
        weight=np.ones(rows, np.float64),
    )
    return made._replace(native=sink_struct(made))


class SlowRow(NamedTuple):
    """One good row as a reference reader returns it: the same records, with the name as it is shown."""

    records: list[tuple[int, float, int, bytes]]  # fingerprint, value, kind, shown name
    label: float = float("nan")
    weight: float = 1.0
    event_id: bytes = b""  # UTF-8; empty if there is none
    subject: bytes = b""  # likewise
    time: int | None = None  # unix ms


class Refusal(NamedTuple):
    """Why a reference reader refused a row: a code of `wire.codes`, and the field or name at fault, empty if there is none."""

    code: int
    field: str = ""
