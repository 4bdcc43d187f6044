"""Parses the bytes of a request into a checked `Batch`: the entry point of this package.

`parse_examples` reads a body with the reader of its content type (`wire.read_body`) and collects the results. `parse_query` does
the same for the parameters of a query. The `explain_…` functions read again and keep every name.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, Literal, Self

import numpy as np

from riata.base.arrays import I64, U8, U64, sizes_of
from riata.base.errors import TooLarge, Unsupported
from riata.base.frozen_dataclass import frozen_dataclass
from riata.base.limits import QUERY_BYTES_MAX
from riata.maths.hashing import NUMBER
from riata.native.reading import NOT_A_NUMBER, hash_of, parse_number, rules_struct
from riata.wire.batch import Batch, select_rows
from riata.wire.classes import NO_CLASSES, ClassesConfig, number_classes
from riata.wire.codes import BAD_LABEL, DIGEST_BYTES, DUPLICATE_KEY, INVALID_UTF8, OK, SLUGS, subject_digest
from riata.wire.encoder import Curves, EncoderConfig
from riata.wire.fields import OF_TEXTS, FieldKinds, Untyped, addresses_of
from riata.wire.given import Given, OtherLabels, other_form
from riata.wire.names import EVERY_NAME, NO_NAMES, Names, NamesOfEach, NamesSeen, names_by_model
from riata.wire.parsed import ID_BYTES, NO_JOINS, Parsed, Reading, RowError, accepted, make_batch, names_in, new_names, shown_name
from riata.wire.read_body import FORMATS, Format, SeveralKinds, format_of, read_body, require_curves, row_errors, take_slow
from riata.wire.rows import (  # fmt: skip
    BEGIN,
    END,
    FOUND,
    ID_START,
    ID_STOP,
    NO_CROSSES,
    PART,
    PARTS_MAX,
    ROW_START,
    ROWS,
    SUBJECT_START,
    SUBJECT_STOP,
    TIME_AT,
    Refusal,
    Rules,
    SlowRow,
    growth_of,
    make_row,
    make_sink,
    row_capacity,
)
from riata.wire.scan import LABELS, Record, Refused, curve_records, feature_records
from riata.wire.workspace import PaddedBuffer, Workspace

_BAD_LABEL: Final = SLUGS[BAD_LABEL][0]
Labels = Literal["0/1", "-1/+1", "real", "classes"]


@frozen_dataclass(frozen=True, slots=True)
class Context:
    """What the readers need to know about a model.

    names  : None if no names are to be collected
    by_row : refuse rows one by one, even if the labels of all are those of another setting
    kinds  : of the fields that have one
    kept   : the rules that `rules` gave last, of rows without labels and of labelled ones. Whoever reads many bodies keeps the
             context: to make rules takes longer than to read a row
    several: those that `rules_of_several` gave last
    """

    encoder: EncoderConfig
    labels: Labels = "0/1"
    names: NamesSeen | None = None
    classes: ClassesConfig = NO_CLASSES
    by_row: bool = False
    kinds: FieldKinds | None = None
    kept: dict[bool, Rules] = field(default_factory=dict, init=False, compare=False, repr=False)
    several: list[Rules] = field(default_factory=list, init=False, compare=False, repr=False)

    def rules(self, labelled: bool) -> Rules:
        """Return the rules by which rows are read. They are made anew when the table of the names seen is another."""
        seen = NO_NAMES if self.names is None else self.names.table()
        found = self.kept.get(labelled)
        if found is None or found.seen is not seen:
            found = self.kept[labelled] = make_rules(self, labelled, seen)
        return found

    def rules_of_several(self, kinds_of: U64, stop_of: I64) -> Rules:
        """Return the rules by which rows of several models are read, whose names are all listed; valid until the next call.

        kinds_of : u64[models]  the addresses of the `riata_fields` of each, 0 for none
        stop_of  : i64[models]  where the lines of each end in the body
        """
        if not self.several:
            self.several.append(make_rules(replace(self, kinds=None), True, EVERY_NAME))
        [rules] = self.several
        rules.native.kinds_of, rules.native.stop_of = kinds_of, stop_of
        return rules._replace(kinds_of=kinds_of if kinds_of.any() else None)

    def or_same(self, before: Self | None) -> Self:
        """Return `before`, which keeps its rules, if it holds the same objects."""
        is_other = before is None or any(getattr(before, name) is not getattr(self, name) for name in self.__match_args__)
        return self if before is None or is_other else before


def make_rules(context: Context, labelled: bool, seen: np.ndarray[Any, np.dtype[np.uint64]] = NO_NAMES) -> Rules:
    """Convert `context` to the scalars and arrays that kernels take; `seen` is the table of names for lookups."""
    encoder = context.encoder
    fields = list(dict.fromkeys(name for cross in encoder.crosses for name in cross))
    crosses = [[*map(fields.index, cross), *[-1] * (PARTS_MAX - len(cross))] for cross in encoder.crosses]
    rules = Rules(
        key=np.uint64(encoder.hash_key),
        labels=LABELS.index(context.labels),
        labelled=int(labelled),
        l2=int(encoder.normalise == "l2"),
        ngrams=encoder.ngrams,
        words=encoder.words,
        text=np.array([hash_of(name.encode(), encoder.hash_key, NUMBER) for name in encoder.text], np.uint64),
        seen=seen,
        fields=np.array([hash_of(name.encode(), encoder.hash_key, NUMBER) for name in fields], np.uint64),
        crosses=np.array(crosses, np.int64) if crosses else NO_CROSSES,
        cross_scale=encoder.cross_scale,
        kinds=context.kinds,
    )
    return changed(rules)


def changed(rules: Rules, **changes: Any) -> Rules:
    """Return rules that differ in these members, for the native readers too."""
    rules = rules._replace(**changes)
    return rules._replace(native=rules_struct(rules))


def parse_examples(
    body: bytes | PaddedBuffer | U8,
    content_type: str,
    context: Context,
    labelled: bool,
    scratch: Workspace | None = None,
    header: bytes = b"",
) -> Parsed:
    """Read a body of examples. Rows at fault become row errors, the others a `Batch`.

    body    : the bytes received; or, for formats read by lines, `scratch.room`, written
    scratch : with room for the body; the batch may use its memory, and is then valid until the scratch is used again
    header  : of a format that has one, if the body does not begin with it, as a block of a file
    Raises `Unsupported` for an unknown content type, `Busy` while its reader is put off, `TooLarge` beyond a limit of the
    request, `Malformed` if there is no row at all, if a document is not well-formed, or if a header is not one, and `OtherLabels`
    if all labels are those of another setting (`wire.given`), unless rows are refused one by one.
    """
    return _parse(body, format_of(content_type), context, labelled, scratch, header)


def _parse(
    body: bytes | PaddedBuffer | U8, form: Format, context: Context, labelled: bool, scratch: Workspace | None, header: bytes
) -> Parsed:
    reading, names = _read_by_kinds(body, form, context.rules(labelled), context, scratch, header)
    is_single = form.functions is not None and form.split == "document" and form.functions.is_single(bytes(body))
    parsed = _parsed(reading, is_single, names)
    if parsed.others and not context.by_row:
        sentence = other_form(context.labels, own_labels(parsed, context.labels), parsed.others)
        if sentence is not None:
            raise OtherLabels(sentence, parsed.rows)
    return number_classes(parsed, reading, context.classes) if context.labels == "classes" and labelled else parsed


def _read_by_kinds(
    body: bytes | PaddedBuffer | U8,
    form: Format,
    rules: Rules,
    context: Context,
    scratch: Workspace | None = None,
    header: bytes = b"",
) -> tuple[Reading, Names]:
    """Read a body, and again if fields come in it first, so that all of its rows are read by the same kinds.

    Returns what was read, and the names not seen before."""
    reading = read_body(body, form, rules, scratch, header, context.encoder.curves)
    names, kinds = new_names(reading), context.kinds
    if kinds is None or reading.rows < 2 or not form.reader.has_fields:  # whose new fields are numbers, as they were read
        return reading, names
    if (more := kinds.with_met(names)) is None:
        return reading, names
    reading = read_body(body, form, changed(rules, kinds=more), scratch, header, context.encoder.curves)
    kinds.note_counts(more)
    return reading, new_names(reading)


def explain_rows(body: bytes, content_type: str, context: Context) -> list[list[tuple[int, float, str]]]:
    """For every row that `parse_examples` would accept for prediction: (feature hash, value, name) of all its features.

    Values are those of the batch. If several names share a hash, each is listed with its own share. Raises the same.
    """
    reading = read_body(body, format_of(content_type), make_rules(context, False, EVERY_NAME), curves=context.encoder.curves)
    return _explained(reading)


def parse_query(pairs: list[tuple[str, str]], context: Context) -> Parsed:
    """Read the features of a query as one row to predict; a key that comes twice is a list of indicators.

    A value that is a JSON number is numeric. Any other is an indicator, or a text if the encoder says so. Raises `TooLarge`.
    """
    reading = _read_query(pairs, context.rules(False), context.encoder.curves)
    return _parsed(reading, True, new_names(reading))


def explain_query(pairs: list[tuple[str, str]], context: Context) -> list[list[tuple[int, float, str]]]:
    """`explain_rows` for the features of a query."""
    return _explained(_read_query(pairs, make_rules(context, False, EVERY_NAME), context.encoder.curves))


def _parsed(reading: Reading, single: bool, names: Names) -> Parsed:
    batch, rows = make_batch(reading)
    errors: list[RowError] = row_errors(reading) if len(rows) < reading.rows else []
    joins, errors = reading.joins(reading, errors) if errors and reading.joins is not None else (NO_JOINS, errors)
    others = _other_labels(reading, errors) if errors else {}
    return Parsed(batch, rows, errors, reading.rows, names, single, joins, reading.lines, others=others)


def _other_labels(reading: Reading, errors: list[RowError]) -> Counter[Given]:
    """Count the labels that the model does not take, as they were given."""
    found = (reading.given(error.index) for error in errors if error.code == _BAD_LABEL)
    return Counter(given for given in found if given is not None)


def own_labels(parsed: Parsed, labels: str) -> Counter[float]:
    """Count the labels of the accepted rows, as they were given."""
    values, counts = np.unique(np.concatenate([parsed.batch.label, parsed.joins.label]), return_counts=True)
    return Counter(dict(zip((2.0 * values - 1.0 if labels == "-1/+1" else values).tolist(), counts.tolist(), strict=True)))


def _explained(reading: Reading) -> list[list[tuple[int, float, str]]]:
    sink, count = reading.sink, int(reading.sink.count[FOUND])
    if count >= len(sink.found_value) - PARTS_MAX:
        raise TooLarge("too many features to explain at once", "too_many_features")
    by_row: dict[int, dict[bytes, tuple[int, float]]] = {int(number): {} for number in accepted(reading)}
    for k in range(count):
        if sink.found_kind[k] & PART:
            continue
        name = shown_name(reading, k)
        shares = by_row[int(sink.found_row[k])]
        feature = int(sink.found_fingerprint[k]) >> 32
        shares[name] = (feature, shares[name][1] + float(sink.found_value[k]) if name in shares else float(sink.found_value[k]))
    return [sorted((feature, value, name.decode()) for name, (feature, value) in shares.items()) for shares in by_row.values()]


def _read_query(pairs: list[tuple[str, str]], rules: Rules, curves: Curves) -> Reading:
    if sum(len(name) + len(value) for name, value in pairs) > QUERY_BYTES_MAX:
        raise TooLarge(f"a query has at most {QUERY_BYTES_MAX} bytes", "query_too_large")
    if curves:
        require_curves("a query")
    size = sum(len(name) + len(value) + 2 for name, value in pairs) * 4  # a character is at most four bytes
    reading = Reading(np.zeros(0, np.uint8), make_sink(size, 1, growth_of(rules)), rules, rows=1)
    reading.sink.count[ROWS] = 1
    try:
        result: SlowRow | Refusal = SlowRow(query_records(pairs, rules._replace(source="a query"), curves))
    except Refused as refused:
        result = refused.refusal
    take_slow(reading, make_row(row_capacity(size, growth_of(rules))), 0, result)
    return reading


# The features of a query, names and values decoded, in plain Python.


def query_records(pairs: list[tuple[str, str]], rules: Rules, curves: Curves) -> list[Record]:
    """Return the records of a query; the points of a curve are the values of its name. Raises `Refused`."""
    values: dict[str, list[float | str]] = {}
    for name, text in pairs:
        try:
            encoded = text.encode()
            name.encode()
        except UnicodeEncodeError:  # percent-encoded bytes that were not UTF-8
            raise Refused(INVALID_UTF8) from None
        kind = 0 if rules.kinds is None else rules.kinds.kind(hash_of(name.encode(), int(rules.key), NUMBER))
        is_text = kind in OF_TEXTS or parse_number(encoded)[1] == NOT_A_NUMBER
        values.setdefault(name, []).append(Untyped(text) if is_text else float(text))
    records: list[Record] = []
    for name, given in values.items():
        if (tree := curves.of(name)) is not None:
            records.extend(curve_records(name, given, tree, rules))
            continue
        if len(given) > 1 and any(isinstance(value, float) for value in given):
            raise Refused(DUPLICATE_KEY, f"features.{name}")
        records.extend(feature_records(name, given if len(given) > 1 else given[0], rules))
    return records


# Reads the small bodies of several requests with one call.
#
# If newlines separate rows, concatenated bodies are again a body, and a document of one row may be a line, too. The kernel, its
# arrays and the copies of results cost about as much for a hundred short rows as for one. So requests that wait for the same sync
# are read together. Only requests whose rows are all accepted are taken from there. A request with any other row is left to
# `parse_examples`, which reports the error with the row numbers of that request.

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_TYPES_KEPT: Final = 64  # ways to write a Content-Type
_ONE: Final = np.ones(1, np.int64)


@frozen_dataclass(frozen=True, slots=True)
class JoinedBodies:
    """The result of reading several bodies.

    batch : Batch            the rows of the requests in `taken`, in their order
    stop  : i64[len(taken)]  where the rows of each end in the batch
    taken : list[int]        numbers of those bodies, increasing; the others have to be parsed one by one
    names : Names            the names not seen before, of all of them, each once
    """

    batch: Batch
    stop: I64
    taken: list[int]
    names: Names


@frozen_dataclass(frozen=True, slots=True)
class ForModels:
    """The result of reading bodies of several models.

    batch : Batch              the rows of all, in order
    stop  : i64[len(bodies)]   where the rows of each body end
    last  : i64[models]        where the rows of each model end
    names : of each model      the names that it has not seen
    """

    batch: Batch
    stop: I64
    last: I64
    names: NamesOfEach


def lines_of(body: bytes, content_type: str) -> tuple[Format, bytes] | None:
    """The format and the lines, without a newline after the last, with which `body` can be read together with others; None
    if it must be read alone."""
    found = _format(content_type)
    if found is None or body.startswith(_BYTE_ORDER_MARK):
        return None
    as_line, lines = found
    line = body.removesuffix(b"\n") if as_line is None else as_line(body)
    return None if line is None else (lines, line)


def read_together(bodies: Sequence[bytes], form: Format, context: Context) -> JoinedBodies:
    """Read labelled rows of bodies for which `lines_of` gave `form`. Raises as `parse_examples` does; each must then be parsed
    alone."""
    whole = bodies[0] if len(bodies) == 1 else b"\n".join(bodies)
    reading, names = _read_by_kinds(whole, form, context.rules(True), context)
    if len(bodies) == reading.rows == 1 and reading.sink.code.item(0) == OK:
        return JoinedBodies(_batch_of_one(reading), _ONE, [0], names)
    batch, rows = make_batch(reading)
    count = _rows_of(bodies, reading)
    if len(rows) == reading.rows and bool(count.all()):
        return JoinedBodies(batch, count.cumsum(), list(range(len(bodies))), names)
    owner = np.repeat(np.arange(len(bodies)), count)
    whole = (np.bincount(owner[rows], minlength=len(bodies)) == count) & (count > 0)
    batch = select_rows(batch, whole[owner[rows]])
    return JoinedBodies(batch, count[whole].cumsum(), whole.nonzero()[0].tolist(), names_in(names, batch))


def read_for_models(
    bodies: Sequence[bytes],
    stop: I64,
    form: Format,
    context: Context,
    seen: Sequence[NamesSeen | None],
    kinds: Sequence[FieldKinds | None],
) -> ForModels | None:
    """Read labelled rows of several models, as `read_together` reads those of one, with one call; None if any is not accepted.
    Raises as `read_together` does.

    stop    : i64[models]  where the bodies of each model end
    context : of each model but for the names and the kinds of fields
    seen    : the names that each model has seen; None if no names are wanted
    kinds   : of the fields of each model
    """
    read = _read_each(bodies, stop, form, context, seen, kinds)
    if read is None or read.batch.n == len(kinds):  # each has one row
        return read
    each = zip(kinds, sizes_of(read.last).tolist(), read.names, strict=True)
    met = [None if one is None or rows < 2 else one.with_met(new) for one, rows, new in each]
    if all(more is None for more in met):
        return read
    # As `_read_by_kinds`. Of the other models everything was counted.
    again = [more if one is None or more is not None else one.uncounted() for one, more in zip(kinds, met, strict=True)]
    read = _read_each(bodies, stop, form, context, seen, again)
    if read is None:
        return None
    for one, more in zip(kinds, met, strict=True):
        if one is not None and more is not None:
            one.note_counts(more)
    return read


def _read_each(
    bodies: Sequence[bytes],
    stop: I64,
    form: Format,
    context: Context,
    seen: Sequence[NamesSeen | None],
    kinds: Sequence[FieldKinds | None],
) -> ForModels | None:
    """As `read_for_models`, by these kinds, also if fields come in the rows first."""
    stop_of = np.array([*accumulate([len(body) + 1 for body in bodies])], np.int64)[stop - 1]
    rules = context.rules_of_several(addresses_of(kinds), stop_of)
    try:
        reading = read_body(b"\n".join(bodies), form, rules, curves=context.encoder.curves)
    except SeveralKinds:
        return None
    batch, rows = make_batch(reading)
    count = _rows_of(bodies, reading)
    if len(rows) < reading.rows or not bool(count.all()):
        return None
    ends = count.cumsum()
    last = ends[stop - 1]
    owner = np.repeat(np.arange(len(stop)), sizes_of(last))
    names = names_by_model(reading.data, reading.sink, reading.slow_names, owner, seen)
    return ForModels(batch, ends, last, names)


def _rows_of(bodies: Sequence[bytes], reading: Reading) -> I64:
    """Number of rows of each body."""
    if len(bodies) == 1:
        return np.array([reading.rows])
    if reading.rows == reading.lines == len(bodies):  # the common case: each is at least a line, so each is one
        return np.ones(len(bodies), np.int64)
    stop = np.array(list(accumulate(len(body) + 1 for body in bodies)), np.int64)
    owner = stop.searchsorted(reading.sink.place[: reading.rows, ROW_START], "right")
    return np.bincount(owner, minlength=len(bodies))


def _batch_of_one(reading: Reading) -> Batch:
    """What `make_batch` returns for a single accepted row, in as few steps as possible: their number determines the cost."""
    sink = reading.sink
    place = sink.place[0].tolist()
    noted = place[ID_STOP] > place[ID_START] or place[SUBJECT_STOP] > place[SUBJECT_START] or place[TIME_AT] > place[ROW_START]
    if noted or reading.identities or reading.subjects or reading.times:
        return make_batch(reading)[0]
    begin, end = place[BEGIN], place[END]
    return Batch(
        indptr=np.array((0, end - begin)),
        hash=sink.hash[begin:end].copy(),
        value=sink.value[begin:end].copy(),
        label=sink.label[:1].copy(),
        weight=sink.weight[:1].copy(),
        event_id=np.zeros((1, ID_BYTES), np.uint8),
        has_id=np.zeros(1, np.bool_),
    )


def with_keys(batch: Batch, keys: Sequence[tuple[str, int, int]]) -> Batch:
    """Give each row without an event id the id `key/index`. Each (key, start, stop) is for the rows start:stop; `index` is the
    row's place among those, counted from 0."""
    if not keys:
        return batch
    event_id, has_id = batch.event_id.copy(), batch.has_id.copy()
    for key, start, stop in keys:
        for at in range(start, stop):
            if not has_id[at]:
                event_id[at] = np.frombuffer(id_of(key, at - start), np.uint8)
                has_id[at] = True
    return dataclasses.replace(batch, event_id=event_id, has_id=has_id)


def id_of(key: str, index: int) -> bytes:
    """The event id, as a digest, of row `index` of a request with an Idempotency-Key."""
    return hashlib.blake2b(f"{key}/{index}".encode(), digest_size=ID_BYTES).digest()


@lru_cache(_TYPES_KEPT)
def _format(content_type: str) -> tuple[Callable[[bytes], bytes | None] | None, Format] | None:
    """How a body becomes a line, None if it is lines already, and the format of these; None if it must be read alone."""
    try:
        form = format_of(content_type)
    except Unsupported:
        return None
    if form.functions is None or form.split == "columns":
        return None  # bodies with a header: each has its own
    return (None, form) if form.split == "lines" else (form.functions.as_line, FORMATS[form.reader.line_type])


# Reading rows that a store will keep: the digests of their subjects get the key of the store (`Store.subject_key`).
#
# The readers make a digest with the hash key of the model, which is 0 unless it was set, so anyone could compute it. What is kept
# is a digest of that one under a random key. Rows of earlier programs have the readers' digest only.

KEY_BYTES: Final = 32


@frozen_dataclass(frozen=True, slots=True)
class StoreContext(Context):
    """What the readers need to know about a model, and the key of the store for the digests of subjects."""

    subject_key: bytes = b""


def parse_for_store(body: bytes | PaddedBuffer, content_type: str, context: StoreContext, labelled: bool) -> Parsed:
    """Do `parse_examples`, and key the digests of subjects."""
    parsed = parse_examples(body, content_type, context, labelled)
    if parsed.batch.subject is None:
        return parsed
    return replace(parsed, batch=with_keyed_subjects(parsed.batch, context.subject_key))


def with_keyed_subjects(batch: Batch, key: bytes) -> Batch:
    """Return the batch with the digests of its subjects keyed; zeros, of rows without a subject, stay. An empty key, of a process
    that puts no rows into a store, changes nothing."""
    if batch.subject is None or not key:
        return batch
    none = bytes(DIGEST_BYTES)
    digests = [row.tobytes() for row in batch.subject]
    made = b"".join(none if one == none else _keyed(one, key) for one in digests)
    return replace(batch, subject=np.frombuffer(bytearray(made), np.uint8).reshape(batch.subject.shape))


def digests_of(subject: str, hash_key: int, key: bytes) -> tuple[bytes, bytes]:
    """Return what a store may have kept of a subject: with its key, and as earlier programs did.

    hash_key : of the encoder of the model
    """
    earlier = subject_digest(subject.encode(), hash_key)
    return _keyed(earlier, key), earlier


def _keyed(digest: bytes, key: bytes) -> bytes:
    keyed: bytes = hashlib.blake2b(digest, digest_size=DIGEST_BYTES, key=key, person=b"riata subject").digest()
    return keyed
