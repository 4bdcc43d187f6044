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

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from riata.base.errors import Corrupt
from riata.store.payload import decode_batch, encode_batch
from riata.store.sqlite.schema import JOINT
from riata.store.store import Append, Head, JointRows, Record
from riata.wire.batch import join_batches, slice_rows
from riata.wire.names import Names, NamesOfEach

JOINT_VERSION: Final = 1
_HEAD = struct.Struct("<B3xI")
_PART = np.dtype([("lineage", "V16"), ("first", "<u8"), ("rows", "<u4"), ("bytes", "<u4")])


def encode_joint(rows: JointRows, firsts: Sequence[tuple[bytes, int]]) -> bytes:
    """Return the payload of a joint record. firsts : lineage and first event of each model"""
    names, parts = NamesOfEach.of(rows.names), np.empty(len(firsts), _PART)
    parts["lineage"] = np.frombuffer(b"".join([lineage for lineage, _ in firsts]), "V16")
    parts["first"] = [first for _, first in firsts]
    parts["rows"], parts["bytes"] = np.diff(rows.stop, prepend=0), np.diff(names.stop, prepend=0)
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


class _Part(NamedTuple):
    """Rows start:end of a joint record."""

    rows: JointRows
    start: int
    end: int
    names: Names

    def features(self) -> int:
        """Return how many features they have."""
        indptr = self.rows.batch.indptr
        return int(indptr[self.end] - indptr[self.start])


@dataclass(slots=True)
class _Left:
    """The rows of one model that are left. event : of the oldest joint record with any"""

    event: int
    parts: list[_Part] = field(default_factory=list)
    rows: int = 0


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
        skipped = set(but)
        for at, (model, (start, end), names) in enumerate(zip(rows.models, rows.spans(), rows.names, strict=True)):
            if at in skipped:
                continue
            left = self.left.get(model)
            if left is None:
                left = self.left[model] = _Left(event)
            left.parts.append(_Part(rows, start, end, names))
            left.rows += end - start
            self.features += left.parts[-1].features()

    def first_event(self) -> int | None:
        """Return the event of the oldest joint record that is still needed; None if none is."""
        return min((left.event for left in self.left.values()), default=None)

    def appends(self, models: Iterable[str]) -> Iterator[Append]:
        """Yield for each model that has rows left the append that distributes them."""
        for model in models:
            if (left := self.left.get(model)) is not None:
                batch = join_batches([slice_rows(part.rows.batch, part.start, part.end) for part in left.parts])
                names = Names.joined([part.names for part in left.parts if part.names]).once()
                yield Append(model, "observe", left.parts[0].rows.accepted_ms, batch, names=names)

    def forget(self, models: Iterable[str]) -> None:
        """Forget the rows of models: their logs have them, or the models were dropped."""
        for model in models:
            left = self.left.pop(model, None)
            for part in () if left is None else left.parts:
                self.features -= part.features()


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
