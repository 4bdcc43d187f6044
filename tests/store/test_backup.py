"""A backup of the embedded store: made while events are written, it has every event acknowledged before `finish`."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Conflict, LogGap, NotFound, Unavailable
from riata.run import admin
from riata.store.sqlite import online_backup
from riata.store.sqlite.offline import copy_stopped, verify
from riata.store.sqlite.online_backup import OnlineBackup
from riata.store.sqlite.store import SqliteStore, open_in_memory, open_sqlite
from riata.store.store import Head
from tests.refused import refused
from tests.settings import sqlite_settings
from tests.store.batches import LINEAGE, batch_of, observe, one_row, random_batch, save
from tests.store.test_sqlite import NONCE

SETTINGS = sqlite_settings(wal_bytes_max=2**16, long_bytes=3000)
OTHER = bytes(reversed(LINEAGE))


class Busy:
    """A store in use: every piece of a copy is followed by appends, folds and trims, as the store's thread would do them."""

    def __init__(self, directory: Path, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.store: SqliteStore = open_sqlite(directory, SETTINGS)
        self.owner = self.store.acquire(NONCE, 1, "here", 0)
        for name, lineage in (("m", LINEAGE), ("n", OTHER)):
            self.store.create(name, lineage)
        for _ in range(30):
            self.work()

    def work(self) -> None:
        model = str(self.rng.choice(["m", "n"]))
        rows = int(self.rng.choice([1, 3, 200]))
        self.store.append([observe(model, random_batch(self.rng, rows) if rows > 1 else one_row())])
        if self.rng.random() < 0.2:
            save(self.store, self.owner, model, self.store.head(model), self.rng.bytes(20_000))
            self.store.trim(self.owner, model, 1, 20)
        if self.rng.random() < 0.3:
            self.store.idle()
        self.store.maintain()

    def back_up(self, name: str) -> tuple[Path, dict[str, Head]]:
        backup: OnlineBackup = self.store.begin_backup()
        backup.copy(self.work)
        while (until := backup.wal_grown()) > 0:
            backup.copy_wal(until, self.work if self.rng.random() < 0.5 else lambda: None)
        backup.finish()
        heads = {model: self.store.head(model) for model in self.store.models()}
        return backup.complete(name, self.work), heads


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(online_backup, "PIECE_BYTES", 2**14)
    monkeypatch.setattr(online_backup, "WAL_LEFT_MAX", 2**17)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("seed", range(2))
def test_a_copy_made_while_events_are_written_is_whole_and_goes_on(tmp_path: Path, seed: int) -> None:
    busy = Busy(tmp_path / "data", seed)
    for name in ("one", "two"):
        made, heads = busy.back_up(name)
        for _ in range(10):
            busy.work()
        moved = tmp_path / f"moved-{name}"
        shutil.move(made, moved)
        assert verify(moved) == {model: head.seq for model, head in heads.items()}
        assert not list(moved.glob(f"*{online_backup.PART}"))
        copy = open_sqlite(moved, SETTINGS)
        assert copy.warnings() == busy.store.warnings()  # none about a missing or damaged witness
        assert {model: copy.head(model) for model in copy.models()} == heads
        after = copy.append([observe("m", one_row())])[0]
        assert after.record is not None
        assert after.record.first == heads["m"].seq + 1
        copy.close()
    busy.store.close()
    assert verify(tmp_path / "data")["m"] >= heads["m"].seq


def test_a_known_id_is_a_duplicate_in_the_copy_too(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "data", SETTINGS)
    store.create("m", LINEAGE)
    append = observe("m", batch_of([[(1, 1.0)]], [1.0], [bytes(range(16))]))
    store.append([append])
    backup = store.begin_backup()
    backup.copy(lambda: None)
    backup.finish()
    copy = open_sqlite(backup.complete("one", lambda: None), SETTINGS)
    again = copy.append([append])[0]
    assert again.record is None
    copy.close()
    store.close()


def test_a_copy_has_the_key_of_subjects(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "data", SETTINGS)
    key = store.subject_key(b"a" * 32)
    backup = store.begin_backup()
    backup.copy(lambda: None)
    backup.finish()
    copy = open_sqlite(backup.complete("one", lambda: None), SETTINGS)
    assert copy.subject_key(b"b" * 32) == key == b"a" * 32
    copy.close()
    store.close()


def test_one_backup_at_a_time_and_none_on_a_disk_without_room(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, SETTINGS)
    first = store.begin_backup()
    with refused(Conflict, "backup_running", match="wait for it"):
        store.begin_backup()
    first.give_up()
    store.begin_backup().give_up()
    store.close()
    short = open_sqlite(tmp_path, sqlite_settings(reserve_bytes=2**62))
    with refused(Unavailable, "disk_reserve", match="move earlier backups away"):
        short.begin_backup()
    assert short._session.release_folds() is False  # it holds nothing
    short.close()


def test_a_full_disk_gives_the_backup_up_and_not_the_events(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, SETTINGS)
    backup = store.begin_backup()
    backup.copy(lambda: None)
    store._session.release_folds()  # as a write that found the disk full does
    with refused(Unavailable, "disk_full", match="the disk was full while the backup was made"):
        backup.finish()
    store.close()


def test_the_directory_of_a_stopped_service_is_copied_and_a_used_or_empty_one_is_not(tmp_path: Path) -> None:
    data, to = tmp_path / "data", tmp_path / "copy"
    busy = Busy(data, 1)
    with pytest.raises(Conflict) as used:
        copy_stopped(data, to)
    assert (used.value.code, to.exists()) == ("directory_locked", False)
    busy.store.close()
    copy_stopped(data, to)
    assert verify(to) == verify(data)
    with refused(Conflict, "backup_exists"):
        copy_stopped(data, to)
    with pytest.raises(NotFound):
        copy_stopped(tmp_path / "nothing", tmp_path / "more")


def test_a_copy_with_a_file_missing_does_not_verify(tmp_path: Path) -> None:
    busy = Busy(tmp_path / "data", 2)
    busy.store.close()
    copy_stopped(tmp_path / "data", tmp_path / "copy")
    (tmp_path / "copy" / "riata.db").unlink()
    with refused(LogGap, "events_missing"):
        verify(tmp_path / "copy")


def test_a_store_in_memory_is_not_backed_up() -> None:
    with closing(open_in_memory(dedupe_events=60)) as store, pytest.raises(Conflict) as refused:
        admin._begin(store)
    assert refused.value.code == "no_backup"
