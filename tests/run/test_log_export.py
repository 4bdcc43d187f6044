"""The export of a log: the examples that count, once each, whatever of them is in segments and whatever in the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from riata.run.candidates.segment_building import build_segments
from riata.run.log import log_export
from riata.run.log.log_export import export_log
from riata.store import records, segment
from riata.store.segment import Segments
from riata.store.store import Append
from riata.wire.arrow_writer import END
from riata.wire.batch import NO_TIME
from tests.doubles.memory_store import MemoryStore
from tests.run.events import create_model, here, log_batch, random_batch
from tests.run.test_segment_building import ORIGIN, content, learn, trim

Row = tuple[int, list[int], list[float], float]


def read(whole: bytes) -> tuple[list[Row], list[int]]:
    """The rows of a stream, and how many rows each record batch has."""
    rows: list[Row] = []
    sizes = []
    for batch in pa.ipc.open_stream(whole):
        batch.validate(full=True)
        held = batch.to_pydict()
        assert list(held) == ["seq", "accepted_ms", "label", "weight", "indices", "values", "ts_ms"]
        assert set(held["weight"]) == {1.0}
        assert set(held["accepted_ms"]) == {0}
        sizes.append(batch.num_rows)
        rows += zip(held["seq"], held["indices"], held["values"], held["label"], strict=True)
    assert whole.endswith(END)
    return rows, sizes


def exported(store: MemoryStore, segments: Segments | None = None) -> tuple[list[Row], list[int], dict[str, int]]:
    written: list[bytes] = []
    call = here(store)
    found = [] if segments is None else build_segments(call, ORIGIN, segments, full_until=2**30)
    window = export_log(call, "m", found, written.append)
    assert f'"events": {window.events}'.encode() in written[0]
    return (*read(b"".join(written)), window.document())


@pytest.fixture
def store() -> MemoryStore:
    made = MemoryStore()
    create_model(made)
    learn(made, 100)
    return made


def test_every_example_of_a_log_is_exported_with_its_number(store: MemoryStore) -> None:
    rows, sizes, window = exported(store)
    assert rows == content(store)
    assert sizes == [100]
    assert window == {"from": 1, "to": 101, "events": 100, "of": 101, "skipped": 0, "undone_by_restore": 0}


def test_the_cut_follows_the_bounds_of_requests(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_export, "ROWS_PER_REQUEST_MAX", 30)
    rows, sizes, _ = exported(store)
    assert (rows, sizes) == (content(store), [28, 28, 28, 16])
    monkeypatch.setattr(log_export, "FEATURES_PER_REQUEST_MAX", 8)  # of rows with three features each
    rows, sizes, _ = exported(store)
    assert rows == content(store)
    assert max(sizes) == 2


def test_examples_that_do_not_count_are_left_out_and_counted(store: MemoryStore) -> None:
    store.append([Append("m", "skip", 0, payload=records.encode_skip(5, "bad"))])
    learn(store, 3, 2)
    rows, _, window = exported(store)
    assert [row[0] for row in rows] == [event for event in range(2, 106) if event not in (5, 102)]
    assert (window["events"], window["skipped"]) == (102, 1)


def test_what_the_log_no_longer_has_comes_from_segments(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "ROWS_MAX", 40)
    monkeypatch.setattr(log_export, "SEGMENT_ROWS", 9)
    whole = content(store)
    segments = Segments(tmp_path / "m")
    rows, _, _ = exported(store, segments)
    assert rows == whole
    trim(store, 43)
    learn(store, 10, 2)
    rows, _, window = exported(store, segments)
    assert rows == whole + content(store)[-10:]
    assert window["from"] == 1
    assert exported(store)[2]["from"] > 40


def test_a_log_without_examples_is_a_stream_without_rows() -> None:
    store = MemoryStore()
    create_model(store)
    assert exported(store)[:2] == ([], [])
    log_batch(store, random_batch(np.random.default_rng(1), 1))
    assert len(exported(store)[0]) == 1


def test_another_reader_of_the_format_reads_it(store: MemoryStore, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.ipc", reason="pyarrow is not installed")
    path = tmp_path / "m.arrow"
    with path.open("wb") as file:
        export_log(here(store), "m", [], file.write)
    with pyarrow.OSFile(str(path)) as file:
        table = pyarrow.ipc.open_stream(file).read_all()
    found = [table.column(name).to_pylist() for name in ("seq", "indices", "values", "label")]
    assert list(zip(*found, strict=True)) == content(store)
    assert table.column("ts_ms").to_pylist() == [None] * 100
    assert str(table.schema.field("indices").type) == "list<item: uint32>"


def test_times_are_exported_as_long_as_the_log_has_them(store: MemoryStore, tmp_path: Path) -> None:
    batch = replace(random_batch(np.random.default_rng(1), 3), time=np.array([5, NO_TIME, -7]))
    log_batch(store, batch)
    segments = build_segments(here(store), ORIGIN, Segments(tmp_path / "m"), full_until=2**30)
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pytest.importorskip("pyarrow.ipc", reason="pyarrow is not installed")
    for found in ([], segments):
        written: list[bytes] = []
        export_log(here(store), "m", found, written.append)
        column = pyarrow.ipc.open_stream(b"".join(written)).read_all().column("ts_ms").to_pylist()
        assert column == [None] * 100 + [5, None, -7]
