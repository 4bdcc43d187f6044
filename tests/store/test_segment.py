"""Segments: what goes in comes out bit for bit, and nothing else is read."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riata.base.errors import Corrupt, Unavailable
from riata.store import layout, records, segment
from riata.store.payload import decode_batch, encode_batch
from riata.store.segment import Origin, Segment, SegmentBuilder, map_segment, name_of
from riata.store.store import Kind, Record
from riata.wire.batch import Batch
from tests.refused import refused
from tests.store.batches import LINEAGE, batch_of, random_batch

ORIGIN = Origin("m", LINEAGE, "0123456789abcdef")


def no_pace(_size: int) -> None:
    pass


def no_chain(_event: int) -> None:
    return None


def recorded(parts: list[Batch | tuple[Kind, bytes]], times: list[int] | None = None) -> list[Record]:
    """The records of a log with these rows and payloads."""
    chain, after, made = records.first_chain(LINEAGE), 0, []
    for part, at in zip(parts, times or range(100, 100 + len(parts)), strict=True):
        kind: Kind
        kind, payload = ("observe", encode_batch(part)) if isinstance(part, Batch) else part
        count = part.n if isinstance(part, Batch) else 1
        digest = records.record_digest(kind, count, at, payload)
        chain = records.next_chain(chain, digest)
        made.append(Record("m", kind, after + 1, count, at, payload, digest, chain))
        after += count
    return made


def written(folder: Path, log: list[Record], origin: Origin = ORIGIN) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    before = records.first_chain(LINEAGE) if log[0].first == 1 else b""
    builder = SegmentBuilder(origin, log[0].first - 1, before, no_chain)
    for record in log:
        builder.add(record)
    return builder.write(folder, no_pace)


def config(text: str = "x") -> tuple[Kind, bytes]:
    return "config", records.encode_document({"is": text})


def rows_of(batch: Batch) -> list[tuple[list[tuple[int, float]], float, float]]:
    ends = batch.indptr.tolist()
    return [
        (
            [(int(batch.hash[k]), float(batch.value[k])) for k in range(ends[i], ends[i + 1])],
            float(batch.label[i]),
            float(batch.weight[i]),
        )
        for i in range(batch.n)
    ]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.integers(1, 6), st.just(0)), min_size=1, max_size=12), st.integers(0, 2**32 - 1))
def test_every_row_comes_back_with_its_number_and_its_time(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    log = recorded([random_batch(rng, n, 5) if n else config() for n in sizes], rng.integers(5, 8, len(sizes)).tolist())
    mapped = map_segment(written(tmp_path_factory.mktemp("s"), log))
    numbers: list[int] = []
    times: list[int] = []
    rows: list[tuple[list[tuple[int, float]], float, float]] = []
    for record, n in zip(log, sizes, strict=True):
        if n:
            numbers += range(record.first, record.last + 1)
            times += [record.accepted_ms] * n
            rows += rows_of(decode_batch(record.payload))
    assert (mapped.first, mapped.last, mapped.rows) == (1, log[-1].last, len(rows))
    assert (mapped.before, mapped.after) == (records.first_chain(LINEAGE), log[-1].chain)
    assert mapped.control.seq.tolist() == [r.first for r in log if r.kind == "config"]
    assert mapped.zeros + mapped.ones == len(rows)
    start, stop = sorted(rng.integers(0, len(rows) + 1, 2).tolist())
    assert mapped.events(start, stop).tolist() == numbers[start:stop]
    assert mapped.accepted_ms(start, stop).tolist() == times[start:stop]
    assert rows_of(mapped.batch(start, stop)) == rows[start:stop]


FORMS = {
    "ones": (batch_of([[(1, 1.0), (9, 1.0)]]), None, "|u1", None),
    "f32": (batch_of([[(1, 0.5)]]), "<f4", "|u1", None),
    "f64": (batch_of([[(1, 0.1)]]), "<f8", "|u1", None),
    "real labels": (batch_of([[(1, 1.0)]], [0.25]), None, "<f8", None),
    "weights": (batch_of([[(1, 1.0)]], weight=[2.0]), None, "|u1", "<f8"),
    "no features": (batch_of([[], []]), None, "|u1", None),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_narrowest_form_is_kept_that_gives_every_number_back(name: str, tmp_path: Path) -> None:
    batch, value, label, weight = FORMS[name]
    mapped = map_segment(written(tmp_path, recorded([batch])))
    assert (mapped.value.dtype.str if mapped.value is not None else None) == value
    assert mapped.label.dtype.str == label
    assert (mapped.weight.dtype.str if mapped.weight is not None else None) == weight
    copied = mapped.batch(0, batch.n)
    assert rows_of(copied) == rows_of(batch)
    assert all(part.flags.writeable for part in (copied.indptr, copied.hash, copied.value, copied.label, copied.weight))


def test_a_segment_is_mapped_and_not_copied_and_cannot_be_written(tmp_path: Path) -> None:
    mapped = map_segment(written(tmp_path, recorded([random_batch(np.random.default_rng(1), 50)])))
    assert not mapped.hash.flags.writeable
    assert not mapped.hash.flags.owndata
    assert all(array.ctypes.data % 8 == 0 for array in (mapped.indptr, mapped.hash, mapped.label, mapped.time))
    mapped.path.unlink()
    assert len(mapped.hash.tolist()) == int(mapped.indptr[-1])  # a deleted file stays readable to those who have it mapped


def test_every_changed_byte_is_found(tmp_path: Path) -> None:
    path = written(tmp_path, recorded([batch_of([[(3, 0.1)], [(4, 2.0)]], weight=[1.0, 2.0]), config()]))
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(Corrupt):
            map_segment(path)
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(Corrupt):
            map_segment(path)


def test_without_verifying_only_the_header_is_compared(tmp_path: Path) -> None:
    path = written(tmp_path, recorded([random_batch(np.random.default_rng(1), 9)]))
    whole = bytearray(path.read_bytes())
    whole[-9] ^= 1
    path.write_bytes(whole)
    assert map_segment(path, verify=False).rows == 9
    with pytest.raises(Corrupt, match="the bytes differ"):
        map_segment(path)


def edited(path: Path, **changes: object) -> Path:
    header, arrays = layout.decode_checkpoint(path.read_bytes())
    for key, value in changes.items():
        if key in header:
            header[key] = value
        elif value is None:
            del arrays[key.replace("__", ".")]
        else:
            arrays[key.replace("__", ".")] = value  # type: ignore[assignment]
    path.write_bytes(layout.encode_checkpoint(header, arrays))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"what": "copy"}, {"version": 2}, {"version": None},
        {"rows": 3}, {"nnz": 1}, {"last": 9}, {"first": -1}, {"zeros": "1"}, {"lineage": "xy"}, {"hash": None},
        {"indptr": np.zeros(0, np.uint32)}, {"indptr": np.zeros(3, np.int64)}, {"label": np.zeros(1, np.uint8)},
        {"control__seq": np.arange(2)}, {"control__restored": np.zeros(0, np.int64)}, {"time": np.zeros(4, np.int64)},
        {"weight": np.ones(1)}, {"value": np.ones(7)},
    ],
)  # fmt: skip
def test_parts_that_do_not_agree_are_refused(changes: dict[str, object], tmp_path: Path) -> None:
    path = written(tmp_path, recorded([batch_of([[(3, 0.5)], [(4, 2.0)]])]))
    assert map_segment(edited(path)).rows == 2
    with pytest.raises(Corrupt):
        map_segment(edited(path, **changes))


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = recorded([random_batch(np.random.default_rng(1), 50)])

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def give_up(_size: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fdatasync", full)
    with refused(Unavailable, "disk_full", match="no space is left"):
        written(tmp_path, log)
    monkeypatch.undo()
    builder = SegmentBuilder(ORIGIN, 0, b"", no_chain)
    builder.add(log[0])
    with pytest.raises(KeyboardInterrupt):
        builder.write(tmp_path, give_up)
    assert list(tmp_path.iterdir()) == []
    assert builder.write(tmp_path, no_pace).name == name_of(1, 50)


def test_names_sort_like_events() -> None:
    assert sorted([name_of(10, 11), name_of(9, 9), name_of(1, 8), name_of(10, 10)]) == [
        name_of(1, 8), name_of(9, 9), name_of(10, 10), name_of(10, 11),
    ]  # fmt: skip


def test_a_builder_is_full_at_either_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    for bound in ("ROWS_MAX", "FEATURES_MAX"):
        with monkeypatch.context() as patched:
            patched.setattr(segment, bound, 20)
            builder = SegmentBuilder(ORIGIN, 0, b"", no_chain)
            assert builder.is_empty
            while not builder.is_full:
                builder.add_rows(random_batch(rng, 3), 1)
            assert min(20, builder.rows if bound == "ROWS_MAX" else builder.nnz) == 20


def test_another_origin_is_another_segment(tmp_path: Path) -> None:
    log = recorded([random_batch(np.random.default_rng(1), 5)])
    mapped: Segment = map_segment(written(tmp_path, log))
    assert mapped.origin == ORIGIN
    assert map_segment(written(tmp_path, log, replace(ORIGIN, encoder="f" * 16))).origin != ORIGIN


GOLDEN = Path(__file__).parents[1] / "golden" / "segment_v1.seg"


def golden_log() -> list[Record]:
    rows = batch_of([[(1, 0.5), (2**32 - 1, 2.0)], [], [(7, 1.0)]], [1.0, 0.0, 1.0], weight=[1.0, 2.0, 0.5])
    skip: tuple[Kind, bytes] = ("skip", records.encode_skip(3, "bad"))
    return recorded([config(), rows, skip, batch_of([[(9, 0.25)]], [1.0])])


def test_a_segment_of_the_first_version_is_read_and_still_written(tmp_path: Path) -> None:
    assert written(tmp_path, golden_log()).read_bytes() == GOLDEN.read_bytes()
    mapped = map_segment(GOLDEN)
    assert mapped.events(0, 4).tolist() == [2, 3, 4, 6]
    assert mapped.accepted_ms(0, 4).tolist() == [101, 101, 101, 103]
    assert mapped.control.seq.tolist() == [1, 5]
    assert mapped.control.skipped.tolist() == [3]
    assert rows_of(mapped.batch(0, 4))[0] == ([(1, 0.5), (2**32 - 1, 2.0)], 1.0, 1.0)
