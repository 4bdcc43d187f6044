"""An append does not write the row of its model: the row may be behind its log until the store is idle or closed."""

from __future__ import annotations

import dataclasses
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from riata.store.sqlite import dedupe
from riata.store.sqlite.schema import DATABASE_NAME, SCHEMA_VERSION, UNSETTLED_VERSION
from riata.store.sqlite.store import open_sqlite, read_sqlite
from tests.store.batches import batch_of, observe, one_row, save
from tests.store.killed import SETTINGS, add, image, live_store

Row = tuple[int, bytes, int]


def stored(directory: Path) -> tuple[int, list[Row]]:
    """The format of a database, and the rows of models as they are written there."""
    connection = sqlite3.connect(directory / DATABASE_NAME)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    rows = connection.execute("SELECT seq, chain, dedupe_floor FROM models ORDER BY name").fetchall()
    connection.close()
    return version, rows


def test_a_row_that_is_behind_is_read_as_its_log_and_settled_by_the_next_start(tmp_path: Path) -> None:
    store = live_store(tmp_path / "data", ("m", "n"))
    add(store, 3)
    heads = [store.head(model) for model in ("m", "n")]
    crashed, read = (image(tmp_path / "data", tmp_path / name) for name in ("crashed", "read"))
    store.close()
    version, rows = stored(image(crashed, tmp_path / "looked"))
    assert (version, [seq for seq, _, _ in rows]) == (UNSETTLED_VERSION, [0, 0])
    reading = read_sqlite(read)
    assert [reading.head(model) for model in ("m", "n")] == heads
    reading.close()
    again = open_sqlite(crashed, SETTINGS)
    assert [again.head(model) for model in ("m", "n")] == heads
    _, rows = stored(image(crashed, tmp_path / "started"))
    assert [seq for seq, _, _ in rows] == [3, 0]
    assert add(again, 1) == 4
    again.close()


def test_an_idle_store_settles_what_was_appended(tmp_path: Path) -> None:
    store = live_store(tmp_path / "data")
    add(store, 2)
    store.idle()
    head = store.head("m")
    version, rows = stored(image(tmp_path / "data", tmp_path / "idle"))
    assert (version, rows) == (UNSETTLED_VERSION, [(head.seq, head.chain, head.dedupe_floor)])
    store.close()


def test_a_closed_store_has_the_format_that_older_programs_read(tmp_path: Path) -> None:
    store = live_store(tmp_path / "data", ("m", "n"))
    add(store, 2)
    add(store, 3, "n")
    heads = [store.head(model) for model in ("m", "n")]
    store.close()
    assert stored(tmp_path / "data") == (SCHEMA_VERSION, [(head.seq, head.chain, head.dedupe_floor) for head in heads])


def test_a_log_whose_records_are_all_trimmed_keeps_its_end(tmp_path: Path) -> None:
    store = live_store(tmp_path / "data")
    add(store, 3)
    owner = store.acquire(b"n" * 16, 1, "here", 0)
    for _ in range(3):
        save(store, owner, "m", store.head("m"), b"state")
    assert store.trim(owner, "m", 3, 0) == 3
    head = store.head("m")
    crashed = image(tmp_path / "data", tmp_path / "crashed")
    store.close()
    again = open_sqlite(crashed, SETTINGS)
    assert again.head("m") == head
    assert again.head("m").first_seq == 4
    assert add(again, 1) == 4
    again.close()


def test_a_dropped_model_leaves_nothing_to_one_of_its_name(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "data", dataclasses.replace(SETTINGS, dedupe_events=2))
    store.create("m", b"k" * 16)
    add(store, 9)
    assert store.head("m").dedupe_floor > 1
    store.drop(store.acquire(b"n" * 16, 1, "here", 0), "m")
    new = store.create("m", b"l" * 16)
    assert store.head("m") == new
    store.idle()
    assert store.head("m") == new
    store.close()


def test_ids_that_are_no_longer_held_stay_expired_with_a_longer_window(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dedupe, "FRESH_IDS_MAX", 4)
    settings = dataclasses.replace(SETTINGS, dedupe_events=10)
    store = open_sqlite(tmp_path / "data", settings)
    store.create("m", b"l" * 16)
    rng = np.random.default_rng(1)
    for _ in range(200):
        store.append([observe("m", batch_of([[(5, 1.0)]], None, [rng.bytes(16)]))])
    floor = store.head("m").dedupe_floor
    crashed = image(tmp_path / "data", tmp_path / "crashed")
    store.close()
    again = open_sqlite(crashed, dataclasses.replace(settings, dedupe_events=1000))
    assert floor - dedupe.SLICES < again.head("m").dedupe_floor <= floor
    again.append([observe("m", one_row())])
    assert floor - dedupe.SLICES < again.head("m").dedupe_floor <= floor
    again.close()
