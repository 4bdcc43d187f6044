"""The segments of a log: what they hold is what the log holds, and whatever does not fit the log is made again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import BadInput, Unavailable
from riata.run.candidates.segment_building import build_segments, origin_of, segments_of
from riata.run.log.effective_log import read_effective_log
from riata.run.state.recovery import Recovery
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records, segment
from riata.store.payload import decode_batch
from riata.store.segment import Origin, Segment, Segments
from riata.store.store import Append, Store
from riata.wire.batch import Batch
from riata.wire.encoder import fingerprint
from tests.doubles.memory_store import MemoryStore
from tests.run.events import CONFIG, create_model, here, log_batch, random_batch
from tests.settings import retention

ORIGIN = Origin("m", bytes(range(16)), fingerprint(CONFIG.encoder))
ROWS = 40  # of a full segment in these tests


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment, "ROWS_MAX", ROWS)


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    create_model(made)
    return made


@pytest.fixture
def segments(tmp_path: Path) -> Segments:
    return Segments(tmp_path / "m")


def learn(store: Store, rows: int, seed: int = 1, of: int = 7) -> None:
    rng = np.random.default_rng(seed)
    while rows > 0:
        log_batch(store, random_batch(rng, min(of, rows), features=3))
        rows -= of


def content(store: Store) -> list[tuple[int, list[int], list[float], float]]:
    """The examples of a log: number, hashes, values, label."""
    head = store.head("m")
    return [
        (record.first + i, *row)
        for record in store.read("m", head.first_seq - 1, 2**30)
        if record.kind == "observe"
        for i, row in enumerate(rows_of(decode_batch(record.payload)))
    ]


def rows_of(batch: Batch) -> Iterator[tuple[list[int], list[float], float]]:
    for i in range(batch.n):
        inside = slice(batch.indptr[i], batch.indptr[i + 1])
        yield batch.hash[inside].tolist(), batch.value[inside].tolist(), float(batch.label[i])


def held(found: list[Segment]) -> list[tuple[int, list[int], list[float], float]]:
    return [
        (event, *row)
        for one in found
        for event, row in zip(one.events(0, one.rows).tolist(), rows_of(one.batch(0, one.rows)), strict=True)
    ]


def trim(store: MemoryStore, to: int) -> None:
    model = store._kept.models["m"]
    gone = [record for record in model.log if record.last <= to]
    model.log = model.log[len(gone) :]
    model.trimmed_chain = gone[-1].chain
    model.head = replace(model.head, first_seq=gone[-1].last + 1)


def test_segments_hold_what_the_log_holds_and_grow_with_it(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    for rows in (100, 3, 0, 90):
        learn(store, rows, rows)
        found = build_segments(call, ORIGIN, segments)
        assert held(found) == content(store)
        assert (found[0].first, found[-1].last) == (1, store.head("m").seq)
        assert [one.is_full for one in found[:-1]] == [True] * (len(found) - 1)
        assert sorted(path.name for path in segments.directory.iterdir()) == [one.path.name for one in found]
        assert [one.path for one in segments_of(call, ORIGIN, Segments(segments.directory, verify=True))] == [
            one.path for one in found
        ]


def test_full_segments_are_not_written_again(store: MemoryStore, segments: Segments) -> None:
    learn(store, 100)
    before = {one.path: one.path.stat().st_ino for one in build_segments(here(store), ORIGIN, segments)}
    learn(store, 100)
    after = {one.path: one.path.stat().st_ino for one in build_segments(here(store), ORIGIN, segments)}
    assert len(before) == 3
    assert {path for path, node in before.items() if after.get(path) == node} == set(list(before)[:2])


def test_only_full_segments_where_the_rest_stays_in_the_log(store: MemoryStore, segments: Segments) -> None:
    learn(store, 39)
    assert build_segments(here(store), ORIGIN, segments, full_until=100) == []
    learn(store, 60)
    found = build_segments(here(store), ORIGIN, segments, full_until=100)
    assert [one.is_full for one in found] == [True, True]
    assert held(found) == content(store)[: sum(one.rows for one in found)]


def test_what_was_trimmed_stays_in_the_segments(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    learn(store, 100)
    whole = content(store)
    found = build_segments(call, ORIGIN, segments)
    trim(store, found[1].last)
    learn(store, 30, 2)
    found = build_segments(call, ORIGIN, segments)
    assert held(found) == whole + content(store)[-30:]
    assert read_effective_log(call, "m", found).window().document() == {
        "from": 1, "to": 131, "events": 130, "of": 131, "skipped": 0, "undone_by_restore": 0,
    }  # fmt: skip


def test_a_log_that_was_trimmed_begins_its_segments_where_it_begins(store: MemoryStore, tmp_path: Path) -> None:
    learn(store, 100)
    trim(store, 50)
    found = build_segments(here(store), ORIGIN, Segments(tmp_path / "m"))
    assert held(found) == content(store)
    assert (found[0].first, found[0].before) == (51, b"")


def another_lineage(store: MemoryStore) -> None:
    model = store._kept.models["m"]
    model.head = replace(model.head, lineage=bytes(16))


def rolled_back(store: MemoryStore) -> None:
    """The log lost its last records, and others were appended since."""
    shorter(store)
    learn(store, 60, 77)


def shorter(store: MemoryStore) -> None:
    """The log lost its last records."""
    model = store._kept.models["m"]
    model.log = [record for record in model.log if record.last <= 50]
    model.head = replace(model.head, seq=model.log[-1].last, chain=model.log[-1].chain)


@pytest.mark.parametrize("change", [another_lineage, rolled_back, shorter])
def test_segments_of_another_history_are_made_again(
    change: Callable[[MemoryStore], None], store: MemoryStore, segments: Segments
) -> None:
    call = here(store)
    learn(store, 100)
    before = build_segments(call, ORIGIN, segments)
    change(store)
    origin = Origin("m", store.head("m").lineage, ORIGIN.encoder)
    assert len(segments_of(call, origin, segments)) < len(before)
    found = build_segments(call, origin, segments)
    assert held(found) == content(store)
    assert sorted(path.name for path in segments.directory.iterdir()) == [one.path.name for one in found]


def test_another_encoder_makes_them_again(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    learn(store, 100)
    build_segments(call, ORIGIN, segments)
    other = Origin("m", ORIGIN.lineage, "f" * 16)
    assert segments_of(call, other, segments) == []
    assert {one.origin for one in build_segments(call, other, segments)} == {other}


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_missing_or_damaged_file_is_made_again_from_the_log(number: int, store: MemoryStore, tmp_path: Path) -> None:
    segments, call = Segments(tmp_path / "m", verify=True), here(store)
    learn(store, 100)
    for damage in ("gone", "damaged"):
        path = build_segments(call, ORIGIN, segments)[number].path
        if damage == "gone":
            path.unlink()
        else:
            whole = path.read_bytes()
            path.write_bytes(whole[:100] + b"x" + whole[101:])
        assert held(build_segments(call, ORIGIN, segments)) == content(store)
    assert len(segments.damaged) >= 1


def test_archived_events_behind_a_gap_are_set_aside_and_not_guessed(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    learn(store, 200)
    before = build_segments(call, ORIGIN, segments)
    trim(store, before[2].last)
    before[1].path.unlink()
    found = build_segments(call, ORIGIN, segments)
    assert [one.path for one in found] == [one.path for one in before[2:]]
    assert before[0].path.with_suffix(".stale").exists()
    assert read_effective_log(call, "m", found).first == before[2].first


def test_what_a_crash_left_is_removed(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    learn(store, 100)
    short = build_segments(call, ORIGIN, segments)[-1]
    kept = short.path.read_bytes()
    learn(store, 5)
    build_segments(call, ORIGIN, segments)
    short.path.write_bytes(kept)  # the process died before the shorter one was deleted
    (segments.directory / "00000000000000000001-00000000000000000009.part").write_bytes(b"half of a segment")
    assert held(segments_of(call, ORIGIN, segments)) == content(store)
    found = build_segments(call, ORIGIN, segments)
    assert held(found) == content(store)
    learn(store, 1)
    build_segments(call, ORIGIN, segments)
    assert not short.path.exists()
    assert not list(segments.directory.glob("*.part"))


def test_a_disk_without_space_leaves_what_was_there(
    store: MemoryStore, segments: Segments, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = here(store)
    learn(store, 50)
    before = build_segments(call, ORIGIN, segments)
    learn(store, 50)

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdatasync", full)
    with pytest.raises(Unavailable, match="no space is left"):
        build_segments(call, ORIGIN, segments)
    assert [one.path for one in segments_of(call, ORIGIN, segments)] == [one.path for one in before]
    monkeypatch.undo()
    monkeypatch.setattr(segment, "ROWS_MAX", ROWS)
    assert held(build_segments(call, ORIGIN, segments)) == content(store)


def test_the_pace_is_asked_after_every_read_and_every_write(store: MemoryStore, tmp_path: Path) -> None:
    learn(store, 100)
    sizes: list[int] = []
    found = build_segments(here(store), ORIGIN, Segments(tmp_path / "m"), sizes.append)
    payloads = sum(len(record.payload) for record in store.read("m", 0, 2**30))
    assert sum(sizes) == payloads + sum(one.bytes for one in found)
    assert max(sizes) <= segment.STEP_BYTES


def test_control_events_are_kept_when_the_log_is_trimmed(store: MemoryStore, segments: Segments) -> None:
    call = here(store)
    learn(store, 20)
    store.append([Append("m", "skip", 0, payload=records.encode_skip(5, "bad"))])
    learn(store, 60, 2)
    found = build_segments(call, ORIGIN, segments)
    trim(store, found[0].last)
    window = read_effective_log(call, "m", found).window()
    assert (window.events, window.skipped, window.first, window.last) == (79, 1, 1, 82)


def test_the_oldest_files_are_dropped_beyond_a_bound_and_stale_ones_before_them(
    store: MemoryStore, segments: Segments, tmp_path: Path
) -> None:
    learn(store, 200)
    found = build_segments(here(store), ORIGIN, segments)
    stale = found[-1].path.with_suffix(".stale")
    stale.write_bytes(bytes(1000))
    total = sum(one.bytes for one in found)
    assert segments.drop(total + 1000) == []
    assert segments.drop(total) == [stale.name]
    assert segments.drop(total - 1) == [found[0].path.name]
    assert segments.drop(0) == [one.path.name for one in found[1:]]
    assert Segments(tmp_path / "nobody").drop(0) == []


def test_the_origin_is_that_of_the_newest_checkpoint_or_of_the_first_event(store: MemoryStore) -> None:
    assert origin_of(store, "m") == ORIGIN
    owner = store.acquire(bytes(16), 1, "here", 0)
    learn(store, 20)
    for _ in range(3):
        state = Recovery(here(store), owner, lambda: 0).recover("m").state
        assert Checkpointer(here(store), owner, retention(events=0)).save(state.freeze(), 0, {}).generation is not None
    assert store.head("m").first_seq > 1
    assert origin_of(store, "m") == ORIGIN
    store.create("empty", bytes(16))
    with pytest.raises(BadInput, match="no events yet"):
        origin_of(store, "empty")
