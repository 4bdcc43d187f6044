"""The joint log: rows of many models that are logged by one record, and later distributed to the logs of their models.

Theory of operation
    A record costs its own statements, pages and sums, however few rows it has. If each of a group's rows is of another model,
    that is many times the cost of the rows. So such a group is one record, durable before its rows are acknowledged, in a log
    that belongs to no client: that of the model with an empty name. Some time later the rows that a model has in such records
    become one record of its own log. The numbers of its events are those that were acknowledged.

        acknowledged    joint log   │ m1 m7 m9 │ m3 m7 │ m1 m7 m8 │        left: m1: 2 rows, m3: 1, m7: 3 ...
        distributed     log of m7   │ ... │ 3 rows │

    Whoever reads the end of the log of a model, or appends to it, has its rows distributed first. So nothing outside of the
    store sees that they were not there yet. A joint record says by lineage and event which rows are whose: after a crash those
    rows are left whose events the log of their model does not have. A record whose rows are all distributed is trimmed.

    Payload, little endian: version u8, three zero bytes, models u32; of each its lineage u8[16], first event u64, rows u32,
    bytes of its names u32; the names of each; the payload of an `observe` record with all rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import Struct
from typing import Final

import numpy as np

from riata.base.arrays import I64, sizes_of
from riata.base.errors import Corrupt
from riata.native.library import address, core, for_bytes, struct
from riata.store.payload import ID_BYTES, decode_batch, encode_batch, events_of
from riata.store.records import write_parts_ahead
from riata.store.sqlite.schema import JOINT
from riata.store.store import Append, Head, JointRows, Record
from riata.wire.batch import Batch
from riata.wire.names import NAME_BYTES_MIN, Names, NamesOfEach

JOINT_VERSION: Final = 1
_HEAD = Struct("<B3xI")
_PART = np.dtype([("lineage", "V16"), ("first", "<u8"), ("rows", "<u4"), ("bytes", "<u4")])


def encode_joint(rows: JointRows, lineages: Sequence[bytes], firsts: Sequence[int]) -> bytes:
    """Return the payload of a joint record. lineages, firsts : of each model its lineage and the first of the events"""
    names, parts = NamesOfEach.of(rows.names), np.empty(len(firsts), _PART)
    parts["lineage"], parts["first"] = np.frombuffer(b"".join(lineages), "V16"), firsts
    parts["rows"], parts["bytes"] = rows.counts(), sizes_of(np.array(names.stop))
    return b"".join([_HEAD.pack(JOINT_VERSION, len(parts)), parts.tobytes(), names.content, encode_batch(rows.batch)])


def decode_joint(record: Record, known: Mapping[bytes, str]) -> tuple[JointRows, list[int]]:
    """Return the rows of a joint record and the first event of each of its models. Raises `Corrupt`.

    known : names of models by lineage; those that were dropped have an empty name
    """
    payload, at = record.payload, _HEAD.size
    if len(payload) < at or payload[0] != JOINT_VERSION:
        newer = bool(payload) and payload[0] > JOINT_VERSION
        raise Corrupt(f"joint record: version {payload[:1].hex()}, this program reads 1", "newer_format" if newer else None)
    count = _HEAD.unpack_from(payload)[1]
    at += count * _PART.itemsize
    if at > len(payload):
        raise Corrupt(f"joint record: {len(payload)} bytes are too few for {count} models")
    parts = np.frombuffer(payload, _PART, count, _HEAD.size)
    models = tuple(known.get(lineage.tobytes(), JOINT) for lineage in parts["lineage"])
    stop, ends = parts["rows"].cumsum(dtype=np.int64).tolist(), parts["bytes"].cumsum(dtype=np.int64).tolist()
    names = NamesOfEach(payload[at : at + ends[-1]] if ends else b"", ends)
    for each in names:
        Names.from_bytes(each.content)
    batch = decode_batch(payload[at + len(names.content) :])
    if not stop or stop[-1] != batch.n:
        raise Corrupt(f"joint record: its parts do not add up to its {batch.n} rows")
    return JointRows(models, stop, batch, names, record.accepted_ms), parts["first"].tolist()


class _Source:
    """The rows of a joint record as the core takes them."""

    def __init__(self, rows: JointRows) -> None:
        names = NamesOfEach.of(rows.names)
        text = np.frombuffer(names.content, np.uint8)
        self.accepted_ms = rows.accepted_ms
        self.has_subjects, self.has_times = rows.batch.subject is not None, rows.batch.time is not None
        self._events, *self._kept = (*events_of(rows.batch), text)
        self.features = sizes_of(rows.batch.indptr[rows.stop]).tolist()
        self.name_bytes = sizes_of(np.array(names.stop)).tolist()
        events, at = address(self._events), address(text)
        each = zip((0, *names.stop[:-1]), rows.spans(), strict=True)
        self.parts = [(events, at + begin, start, stop) for begin, (start, stop) in each]  # of each model a `riata_part`


@dataclass(slots=True)
class _Left:
    """The rows of one model that are left. event : of the oldest joint record with any; parts : of these sources"""

    event: int
    accepted_ms: int
    sources: list[_Source] = field(default_factory=list)
    parts: list[tuple[int, int, int, int]] = field(default_factory=list)
    rows: int = 0
    features: int = 0
    name_bytes: int = 0


class JointLog:
    """The rows that are not distributed yet, by model, the one that has waited longest first."""

    def __init__(self) -> None:
        self.left: dict[str, _Left] = {}  # any thread may ask whether a model is in it
        self.features = 0  # of these rows

    def rows_of(self, model: str) -> int:
        """Return how many rows of a model are left."""
        left = self.left.get(model)
        return 0 if left is None else left.rows

    def add(self, rows: JointRows, event: int, but: Iterable[int] = ()) -> None:
        """Note the rows of the joint record with an event. but : numbers of the models whose rows their logs have"""
        skipped, source = set(but), _Source(rows)
        each = zip(rows.models, source.parts, source.features, source.name_bytes, strict=True)
        for at, (model, part, features, name_bytes) in enumerate(each):
            if at in skipped:
                continue
            left = self.left.get(model)
            if left is None:
                left = self.left[model] = _Left(event, rows.accepted_ms)
            left.sources.append(source)
            left.parts.append(part)
            left.rows += part[3] - part[2]
            left.features += features
            left.name_bytes += name_bytes
            self.features += features

    def first_event(self) -> int | None:
        """Return the event of the oldest joint record that is still needed; None if none is."""
        return min((left.event for left in self.left.values()), default=None)

    def appends(self, models: Iterable[str]) -> list[Append]:
        """Return for each model that has rows left the append that distributes them."""
        found = {model: left for model in models if (left := self.left.get(model)) is not None}
        if not found:
            return []
        several = [*found.values()]
        parts = np.array([part for left in several for part in left.parts], np.int64)
        stop, accepted_ms = np.array([left.rows for left in several]).cumsum(), [left.accepted_ms for left in several]
        encodings, names = write_parts_ahead(_joined_rows(several, parts), stop, accepted_ms), _joined_names(several, parts)
        return [
            Append(model, "observe", encoded.accepted_ms, encoded.batch, names=some, encoded=encoded)
            for model, encoded, some in zip(found, encodings, names, strict=True)
        ]

    def forget(self, models: Iterable[str]) -> None:
        """Forget the rows of models: their logs have them, or the models were dropped."""
        for model in models:
            if (left := self.left.pop(model, None)) is not None:
                self.features -= left.features


def _joined_rows(several: Sequence[_Left], parts: I64) -> Batch:
    """Return the rows of several models one behind another, with one call of the core. parts : a `riata_part` for each"""
    n, nnz = sum([left.rows for left in several]), sum([left.features for left in several])
    sources = {source for left in several for source in left.sources}
    rows = Batch(
        indptr=np.zeros(n + 1, np.int64),
        hash=np.empty(nnz, np.uint32),
        value=np.empty(nnz),
        label=np.empty(n),
        weight=np.empty(n),
        event_id=np.zeros((n, ID_BYTES), np.uint8),
        has_id=np.zeros(n, np.bool_),
        subject=np.empty((n, ID_BYTES), np.uint8) if any(source.has_subjects for source in sources) else None,
        time=np.empty(n, np.int64) if any(source.has_times for source in sources) else None,
    )
    arrays = {name: getattr(rows, name) for name in ("indptr", "hash", "value", "label", "weight", "subject", "time")}
    core.join_parts(address(parts), len(parts), struct("riata_joined", **arrays))
    return rows


def _joined_names(several: Sequence[_Left], parts: I64) -> NamesOfEach:
    """Return the names that came with the rows of each, each where it comes first."""
    size = sum([left.name_bytes for left in several])
    most = size // NAME_BYTES_MIN
    table, found, is_first = (
        np.zeros(1 << (2 * most).bit_length(), np.uint32),
        np.empty(most, np.uint64),
        np.empty(most, np.uint8),
    )
    end, content = np.array([len(left.parts) for left in several]).cumsum(), np.empty(size, np.uint8)
    stop = np.empty(len(several), np.int64)
    given = address(parts), address(end), len(several), address(table), len(table), address(found), address(is_first)
    used = for_bytes(size).join_names(*given, address(content), address(stop))
    return NamesOfEach(content[:used].tobytes(), stop.tolist())


def left_in(record: Record, known: Mapping[bytes, str], heads: Mapping[str, Head], log: JointLog) -> None:
    """Note which rows of a joint record that a start has found are left. Raises `Corrupt` if a log has some of a model's only."""
    rows, firsts = decode_joint(record, known)
    done = []
    for at, (model, first, (start, end)) in enumerate(zip(rows.models, firsts, rows.spans(), strict=True)):
        if model == JOINT or (seq := heads[model].seq) >= first + end - start - 1:
            done.append(at)
        elif seq + log.rows_of(model) != first - 1:
            ends = f"the joint log has events from {first} on of model {model!r}, whose log ends at event {seq}"
            raise Corrupt(f"{ends}; restore the directory from a backup")
    log.add(rows, record.first, done)
