"""Missing acknowledged events are found before anything is written, counted, and refused; nothing else is refused."""

from __future__ import annotations

import hashlib
import itertools
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from riata.base.errors import Conflict, Corrupt, LogGap, NotFound, RiataError
from riata.store.sqlite.schema import DATABASE_NAME, PAGE_BYTES
from riata.store.sqlite.store import SqliteStore, open_sqlite, read_sqlite
from riata.store.sqlite.witness import WITNESS_NAME, find_losses
from tests.store.batches import LINEAGE, observe, one_row, save
from tests.store.killed import SETTINGS, WAL, ImageAtCommit, add, cut, flip, image, live_store

FRAME = 24 + PAGE_BYTES


def refusal(directory: Path) -> str:
    """The refusal of a start and of a reader, which must be equal. Neither may change the directory."""
    before = content(directory)
    said = []
    openings: list[Callable[[], SqliteStore]] = [lambda: open_sqlite(directory, SETTINGS), lambda: read_sqlite(directory)]
    for opening in openings:
        with pytest.raises(LogGap) as caught:
            opening().close()
        assert caught.value.code == "events_missing"
        said.append(caught.value.detail)
    assert said[0] == said[1]
    assert content(directory) == before
    return said[0]


def content(directory: Path) -> dict[str, str]:
    """Digests of the files that are not empty."""
    files = [path for path in directory.iterdir() if path.name not in ("riata.lock", "riata.ballast")]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def opens(directory: Path) -> int:
    """Start; returns the last event of the model."""
    with closing(open_sqlite(directory, SETTINGS)) as store:
        return store.head("m").seq


def warnings(directory: Path) -> list[str]:
    """Those of a start."""
    with closing(open_sqlite(directory, SETTINGS)) as store:
        return list(store.warnings())


def killed(tmp_path: Path, events: int = 40) -> tuple[Path, int]:
    """The directory of a killed process, and the number of events it acknowledged; ten of them are in the database already."""
    store = live_store(tmp_path / "live")
    add(store, 10)
    store.idle()
    acked = add(store, events)
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    return copy, acked


def test_a_killed_process_is_started_again_as_if_nothing_were_there_to_check(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    assert find_losses(copy) == []
    assert opens(copy) == acked
    assert opens(copy) == acked


def test_a_write_ahead_log_that_is_gone_is_refused_with_the_count(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    (copy / WAL).unlink()
    said = refusal(copy)
    assert (
        f"the log of model 'm' ends at event 10, but event {acked} was acknowledged: 40 acknowledged events are missing" in said
    )
    assert "riata.db-wal is missing or empty, or riata.db is an older copy" in said
    assert f"riata repair --data {copy}" in said


def test_the_right_file_put_back_after_a_refusal_loses_nothing(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    shutil.move(copy / WAL, tmp_path / "kept")
    refusal(copy)
    shutil.move(tmp_path / "kept", copy / WAL)
    assert opens(copy) == acked


def test_a_flipped_bit_of_the_write_ahead_log_is_refused_with_its_position(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    flip(copy / WAL, 32 + 5 * FRAME + 1000)
    said = refusal(copy)
    assert "riata.db-wal is damaged at or after byte" in said
    [loss] = find_losses(copy)
    assert loss.missing == acked - loss.ends_at > 30
    flip(copy / WAL, 32 + 5 * FRAME + 1000)
    assert opens(copy) == acked


def test_a_cut_write_ahead_log_is_refused_or_has_everything(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    whole = (copy / WAL).stat().st_size
    refused = 0
    for size in range(whole - 1, 0, -5 * FRAME // 2):
        torn = image(copy, tmp_path / "torn")
        cut(torn / WAL, size)
        [loss] = find_losses(torn)
        assert loss.missing == acked - loss.ends_at > 0
        refusal(torn)
        refused += 1
    assert refused > 15


@pytest.mark.parametrize("with_log", [True, False])
def test_an_older_copy_of_the_database_is_refused_with_the_count(tmp_path: Path, with_log: bool) -> None:
    store = live_store(tmp_path / "live")
    add(store, 10)
    store.idle()
    add(store, 7)
    old = image(tmp_path / "live", tmp_path / "old")
    acked = add(store, 20)
    store.idle()
    store.close()
    for name in (DATABASE_NAME, WAL):
        (tmp_path / "live" / name).unlink(missing_ok=True)
        if with_log or name == DATABASE_NAME:
            shutil.copy(old / name, tmp_path / "live" / name)
    ends = 17 if with_log else 10
    assert f"ends at event {ends}, but event {acked} was acknowledged: {acked - ends} " in refusal(tmp_path / "live")


def test_a_database_that_is_gone_is_refused_and_not_started_again(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live", ("a", "m"))
    add(store, 3, "a")
    add(store, 5)
    store.close()
    (tmp_path / "live" / DATABASE_NAME).unlink()
    said = refusal(tmp_path / "live")
    assert "riata.db is missing" in said
    assert "model 'a' with its 3 acknowledged events is missing; model 'm' with its 5 acknowledged events is missing" in said


def test_of_several_models_each_that_lost_events_is_named(tmp_path: Path) -> None:
    models = tuple(f"m{number}" for number in range(8))
    store = live_store(tmp_path / "live", models)
    for number, model in enumerate(models):
        add(store, number + 1, model)
    store.idle()
    for model in models[1:]:
        add(store, 2, model)
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    (copy / WAL).unlink()
    assert [(loss.model, loss.missing) for loss in find_losses(copy)] == [(model, 2) for model in models[1:]]
    said = refusal(copy)
    assert "'m1' ends at event 2, but event 4" in said
    assert "2 more models have lost events" in said


def test_a_model_that_was_dropped_or_made_again_is_not_missed(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live", ("m", "n"))
    add(store, 3)
    add(store, 6, "n")
    owner = store.acquire(bytes(16), 1, "here", 0)
    connection = ImageAtCommit(store._session._connection, tmp_path / "live", tmp_path)
    store._session._connection = connection  # type: ignore[assignment]
    store.drop(owner, "n")
    images = connection.images
    dropped = image(tmp_path / "live", tmp_path / "dropped")
    store.create("n", bytes(15) + b"n")
    add(store, 1, "n")
    again = image(tmp_path / "live", tmp_path / "again")
    store.close()
    assert len(images) >= 1
    for each in (images[0], dropped, again, tmp_path / "live"):
        assert find_losses(each) == []
        assert opens(each) == 3


def test_a_drop_that_fails_leaves_a_model_that_is_witnessed_again_from_its_next_event(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live")
    add(store, 3)
    owner = store.acquire(bytes(16), 1, "here", 0)
    stranger = type(owner)(owner.epoch + 1, owner.nonce)
    with pytest.raises(Conflict):
        store.drop(stranger, "m")
    copy = image(tmp_path / "live", tmp_path / "copy")
    (copy / WAL).unlink()
    assert [loss.missing for loss in find_losses(copy)] == [3]
    store.close()


def test_trimming_is_no_loss(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live")
    owner = store.acquire(bytes(16), 1, "here", 0)
    for _ in range(4):
        add(store, 5)
        save(store, owner, "m", store.head("m"), b"state")
    assert store.trim(owner, "m", 2, 0) > 0
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    assert opens(copy) == 20
    assert opens(tmp_path / "live") == 20


@pytest.mark.parametrize("older", [0, 5, 20])
def test_an_older_witness_as_a_power_cut_leaves_it_has_no_effect(tmp_path: Path, older: int) -> None:
    store = live_store(tmp_path / "live")
    owner = store.acquire(bytes(16), 1, "here", 0)
    add(store, older)
    shutil.copy(tmp_path / "live" / WITNESS_NAME, tmp_path / "witness")
    for _ in range(4):
        add(store, 5)
        save(store, owner, "m", store.head("m"), b"state")
    store.trim(owner, "m", 2, 0)
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    for each in (copy, tmp_path / "live"):
        shutil.copy(tmp_path / "witness", each / WITNESS_NAME)
        assert find_losses(each) == []
        assert opens(each) == older + 20
        (each / DATABASE_NAME).unlink()
        assert [loss.missing for loss in find_losses(each)] == [older + 20]  # it is the newest again


def test_a_directory_without_a_witness_is_taken_over_with_a_warning_once(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    (copy / WITNESS_NAME).unlink()
    assert any("there was no riata.witness" in warning for warning in warnings(copy))
    assert not any("witness" in warning for warning in warnings(copy))
    (copy / DATABASE_NAME).unlink()
    assert [loss.missing for loss in find_losses(copy)] == [acked]


def test_a_new_directory_needs_no_warning(tmp_path: Path) -> None:
    assert not any("witness" in warning for warning in warnings(tmp_path / "new"))


def test_a_damaged_witness_is_reported_and_created_again(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    flip(copy / WITNESS_NAME, 3)
    assert any("riata.witness is damaged" in warning for warning in warnings(copy))
    assert opens(copy) == acked
    (copy / DATABASE_NAME).unlink()
    assert [loss.missing for loss in find_losses(copy)] == [acked]


def test_without_a_witness_a_damaged_log_is_refused_without_a_count(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    (copy / WITNESS_NAME).unlink()
    flip(copy / WAL, 32 + 3 * FRAME + 77)
    said = refusal(copy)
    assert "transactions after it cannot be read; and without a witness the number of events in them is unknown" in said
    flip(copy / WAL, 32 + 3 * FRAME + 77)
    assert opens(copy) == acked


def test_a_damaged_log_that_took_no_event_with_it_is_a_warning(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live")
    acked = add(store, 5)
    store.idle()
    owner = store.acquire(bytes(16), 1, "here", 0)
    for seq in range(1, 5):
        store.mark_inflight(owner, "m", seq, 0)
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    flip(copy / WAL, 32 + 50)
    store = open_sqlite(copy, SETTINGS)
    assert any("is damaged at or after byte 32" in warning for warning in store.warnings())
    assert store.head("m").seq == acked
    store.close()


def test_a_generation_beyond_the_end_of_the_log_is_a_witness_too(tmp_path: Path) -> None:
    copy = ahead(tmp_path, to=12)
    (copy / WITNESS_NAME).unlink()
    assert "ends at event 12, but event 20 was acknowledged: 8 acknowledged events are missing" in refusal(copy)


def ahead(tmp_path: Path, to: int) -> Path:
    """A directory of 20 events with a generation at every tenth, whose log ends at event `to`."""
    store = live_store(tmp_path / "live")
    owner = store.acquire(bytes(16), 1, "here", 0)
    for _ in range(2):
        add(store, 10)
        save(store, owner, "m", store.head("m"), b"state")
    store.close()
    connection = sqlite3.connect(tmp_path / "live" / DATABASE_NAME)
    base = 1 << 44
    connection.execute("DELETE FROM log WHERE key > ?", (base + to,))
    [chain] = connection.execute("SELECT chain FROM log WHERE key = ?", (base + to,)).fetchone()
    connection.execute("UPDATE models SET seq = ?, chain = ?", (to, chain))
    connection.commit()
    connection.close()
    return tmp_path / "live"


def edited(directory: Path, sql: str, *values: object) -> None:
    connection = sqlite3.connect(directory / DATABASE_NAME)
    connection.execute(sql, values)
    connection.commit()
    connection.close()


def test_a_log_of_other_events_is_refused(tmp_path: Path) -> None:
    store = live_store(tmp_path / "live")
    add(store, 5)
    old = image(tmp_path / "live", tmp_path / "old")
    add(store, 5)
    store.close()
    (old / WITNESS_NAME).unlink()
    other = open_sqlite(old, SETTINGS)
    for _ in range(9):
        other.append([observe("m", one_row(value=2.0))])
    other.close()
    shutil.copy(tmp_path / "live" / WITNESS_NAME, old / WITNESS_NAME)
    assert "event 10 of model 'm' differs from the one that was acknowledged" in refusal(old)


def test_a_model_whose_name_or_lineage_changed_is_refused(tmp_path: Path) -> None:
    copy, acked = killed(tmp_path)
    assert opens(copy) == acked
    edited(copy, "UPDATE models SET name = 'n'")
    assert "model 'm' is named 'n' in the database" in refusal(copy)
    edited(copy, "UPDATE models SET name = 'm', lineage = ?", bytes([1]) + LINEAGE[1:])
    assert f"model 'm' with its {acked} acknowledged events is missing" in refusal(copy)


def test_a_database_that_cannot_be_read_at_all_says_so_and_is_not_written(tmp_path: Path) -> None:
    copy, _ = killed(tmp_path)
    database = copy / DATABASE_NAME
    database.write_bytes(b"nonsense" * 5000)
    before = content(copy)
    for opening in (lambda: open_sqlite(copy, SETTINGS), lambda: find_losses(copy)):
        with pytest.raises(Corrupt):
            opening()
    assert content(copy) == before


def test_a_directory_in_use_or_missing_is_not_looked_at(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        find_losses(tmp_path / "none")
    store = live_store(tmp_path / "live")
    with pytest.raises(Conflict):
        find_losses(tmp_path / "live")
    store.close()


def test_the_shared_memory_file_of_the_inspection_is_deleted(tmp_path: Path) -> None:
    copy, _ = killed(tmp_path)
    find_losses(copy)
    assert not (copy / "riata.db-shm").exists()


def trials(tmp_path: Path) -> None:
    """Kills at COMMIT and after the answer, with the log complete, without its last event, damaged, or deleted. Raises
    `AssertionError`.
    """
    store = live_store(tmp_path / "live")
    store.idle()  # the model itself is in the database
    connection = ImageAtCommit(store._session._connection, tmp_path / "live", tmp_path)
    store._session._connection = connection  # type: ignore[assignment]
    rng = random.Random(5)
    try:
        for acked in range(1, 7):
            add(store, 1)
            before, after = connection.images[-1], image(tmp_path / "live", tmp_path / "after")
            require(before, at_least=acked - 1)
            require(connection.committed[-1], at_least=acked)
            require(after, at_least=acked)
            written = next(at for at, (old, new) in enumerate(wals(before, after)) if old != new)  # where its transaction begins
            cut(after / WAL, written if written > 32 else 0)
            require(after, missing=1)
            (after / WAL).unlink()
            require(after, missing=acked)
            flip(before / WAL, rng.randrange(32, 32 + FRAME))
            require(before, at_least=acked - 1, or_missing=True)
    finally:
        connection._connection.close()
        store._session._failure = "killed"
        store.close()


def wals(before: Path, after: Path) -> Iterator[tuple[int, int]]:
    """The bytes of the logs of two directories in pairs; -1 after the end of one."""
    return itertools.zip_longest((before / WAL).read_bytes(), (after / WAL).read_bytes(), fillvalue=-1)


def require(directory: Path, at_least: int = 0, missing: int = 0, or_missing: bool = False) -> None:
    """Check that a start finds at least `at_least` events, or is refused because that many are missing."""
    refused: RiataError | None = None
    try:
        store = open_sqlite(image(directory, directory.with_name("start")), SETTINGS)
    except RiataError as error:
        refused = error
    if refused is not None:
        assert refused.code == "events_missing", refused
        assert or_missing or (missing and f": {missing} acknowledged" in refused.detail), refused
        return
    try:
        found = store.head("m").seq if store.models() else 0
    finally:
        store.close()
    assert not missing, f"{missing} events are missing in silence"
    assert found >= at_least


def test_the_trials_hold(tmp_path: Path) -> None:
    trials(tmp_path)
