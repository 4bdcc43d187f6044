from __future__ import annotations

import dataclasses
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Corrupt, Unavailable
from riata.store.sqlite import dedupe as sqlite_dedupe
from riata.store.sqlite import directory
from riata.store.sqlite import log as sqlite_log
from riata.store.sqlite.dedupe import SLICES
from riata.store.sqlite.schema import DATABASE_NAME
from riata.store.sqlite.store import SqliteSettings, SqliteStore, open_sqlite
from riata.store.store import Append
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, batch_of, observe
from tests.store.test_sqlite import edit

SETTINGS = sqlite_settings(ballast_bytes=2**16, reserve_bytes=2**10, dedupe_events=500, wal_bytes_max=2**20)
FRESH_IDS_MAX = 40


@pytest.fixture(autouse=True)
def few_fresh_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_dedupe, "FRESH_IDS_MAX", FRESH_IDS_MAX)


def started(directory: Path, models: str = "m", settings: SqliteSettings = SETTINGS) -> SqliteStore:
    store = open_sqlite(directory, settings)
    for model in models:
        store.create(model, LINEAGE)
    return store


def request(ids: list[bytes], model: str = "m", value: float = 1.0) -> Append:
    return observe(model, batch_of([[(5, value)]] * len(ids), None, ids))


def random_ids(rng: np.random.Generator, count: int) -> list[bytes]:
    return [rng.bytes(16) for _ in range(count)]


def counts(directory: Path) -> tuple[int, int]:
    """Rows of fresh ids, and ids in the tree, of a closed store."""
    connection = sqlite3.connect(directory / DATABASE_NAME)
    found = [connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("fresh_ids", "dedupe")]
    connection.close()
    return found[0], found[1]


def test_few_ids_stay_out_of_the_tree(tmp_path: Path) -> None:
    store = started(tmp_path)
    ids = random_ids(np.random.default_rng(1), FRESH_IDS_MAX)
    for start in range(0, FRESH_IDS_MAX, 10):
        store.append([request(ids[start : start + 10])])
    store.close()
    assert counts(tmp_path) == (4, 0)


@pytest.mark.parametrize("models", ["m", "mn"])
def test_many_ids_move_to_the_tree_and_their_rows_go(tmp_path: Path, models: str) -> None:
    store = started(tmp_path, models)
    rng = np.random.default_rng(2)
    sent = []
    for i in range(400):
        sent.append(request(random_ids(rng, 2), models[i % len(models)]))
        store.append([sent[-1]])
        assert sum(held.count for held in store._dedupe._held.values()) <= FRESH_IDS_MAX
    assert all(store.append([again])[0].duplicate.all() for again in sent[-200:])
    store.close()
    rows, in_tree = counts(tmp_path)
    assert in_tree >= 800 - FRESH_IDS_MAX
    assert rows < 200  # a row lives for one round of slices, in which as many ids come as are held, or a few times that


def test_dead_ids_leave_the_tree_when_idle(tmp_path: Path) -> None:
    store = started(tmp_path, settings=dataclasses.replace(SETTINGS, dedupe_events=100))
    rng = np.random.default_rng(4)
    for _ in range(100):
        store.append([request(random_ids(rng, 10))])
    floor = store.head("m").dedupe_floor
    for _ in range(SLICES):
        store.idle()
    store.close()
    connection = sqlite3.connect(tmp_path / DATABASE_NAME)
    oldest, left = connection.execute("SELECT min(seq), count(*) FROM dedupe").fetchone()
    connection.close()
    assert oldest >= floor
    assert 0 < left <= 110


def test_no_sweep_is_made_before_one_is_due(tmp_path: Path) -> None:
    store = started(tmp_path)
    rng = np.random.default_rng(5)
    for _ in range(52):  # the floor rises to 11 by the last one: that is less than 500 / SWEEPS_PER_WINDOW
        store.append([request(random_ids(rng, 10))])
    assert store.head("m").dedupe_floor == 11
    for _ in range(SLICES):
        store.idle()
    assert store._dedupe._sweeps == {}
    store.close()


def test_ids_that_were_rolled_back_are_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "FULL_S", 0.0)  # the next write is tried at once
    store = started(tmp_path)
    ids = random_ids(np.random.default_rng(6), 10)
    write = sqlite_log.insert_planned

    def full(*args: object) -> int:
        write(*args)  # type: ignore[arg-type]
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_log, "insert_planned", full)
        with pytest.raises(Unavailable):
            store.append([request(ids)])
    assert store.append([request(ids)])[0].accepted.all()
    store.close()


def test_dropping_a_model_leaves_the_ids_of_others_in_memory(tmp_path: Path) -> None:
    store = started(tmp_path, "mo")
    ids = random_ids(np.random.default_rng(9), 10)
    store.append([request(ids), request(ids, "o")])
    store.drop(store.acquire(b"n" * 16, 1, "here", 0), "o")
    store.create("o", LINEAGE)
    asked: list[str] = []
    store._session.usable().set_trace_callback(asked.append)
    assert store.append([request(ids)])[0].duplicate.all()
    assert not [statement for statement in asked if "FROM fresh_ids" in statement]
    assert store.append([request(ids, "o")])[0].accepted.all()
    assert [statement for statement in asked if "FROM fresh_ids" in statement]  # a new model's are looked for once
    store.close()


@pytest.mark.parametrize(
    ("statement", "sound"), [("entries = CAST(entries || x'00' AS BLOB)", False), ("entries = entries", True)]
)
def test_entries_that_are_not_whole_are_corrupt(tmp_path: Path, statement: str, sound: bool) -> None:
    store = started(tmp_path)
    sent = request(random_ids(np.random.default_rng(8), 3))
    store.append([sent])
    store.close()
    edit(tmp_path, f"UPDATE fresh_ids SET {statement}")
    store = open_sqlite(tmp_path, SETTINGS)
    ask: Callable[[], object] = lambda: store.append([sent])[0].duplicate.tolist()  # noqa: E731
    if sound:
        assert ask() == [True] * 3
    else:
        with pytest.raises(Corrupt):
            ask()
    store.close()
