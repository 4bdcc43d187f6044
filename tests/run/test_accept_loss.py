"""A loss is reported and accepted by an event of the log; then the directory starts, learns on and replays to the same bits."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Conflict, LogGap, NotFound
from riata.run.state.recovery import Recovery
from riata.run.state.repair import Accepted, accept
from riata.run.state.replay import replay
from riata.run.writer.checkpointer import Checkpointer
from riata.store import records
from riata.store.sqlite.store import SqliteStore, open_sqlite
from riata.store.sqlite.witness import find_losses
from riata.store.store import Owner
from tests.run.events import create_model, here, log_batch, random_batch
from tests.settings import retention
from tests.store.killed import SETTINGS, WAL, flip, image

NOW_MS = 1_800_000_000_000


def learn(store: SqliteStore, owner: Owner) -> int:
    """Apply the log as a start does; returns the last event learnt."""
    return Recovery(here(store), owner, lambda: NOW_MS).recover("m").state.applied


def save(store: SqliteStore, owner: Owner) -> None:
    state = Recovery(here(store), owner, lambda: NOW_MS).recover("m").state
    assert Checkpointer(here(store), owner, retention()).save(state.freeze(), 0, {}).generation is not None


def grow(store: SqliteStore, rows: int) -> None:
    rng = np.random.default_rng(store.head("m").seq)
    for _ in range(rows // 5):
        log_batch(store, random_batch(rng, 5))


def killed(tmp_path: Path) -> Path:
    """Event 1 is the configuration; 2 to 21 are in the database, 22 to 51 in its write-ahead log."""
    store = open_sqlite(tmp_path / "live", SETTINGS)
    create_model(store)
    owner = store.acquire(bytes(16), 1, "test", 0)
    grow(store, 20)
    save(store, owner)
    store.idle()
    grow(store, 30)
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    return copy


def repairs(store: SqliteStore) -> list[tuple[int, dict[str, object]]]:
    return [
        (record.first, records.decode_document(record.payload)) for record in store.read("m", 0, 2**30) if record.kind == "repair"
    ]


def goes_on(directory: Path, end: int) -> None:
    """The directory starts at event `end` and learns further events, and a replay gives the same bits."""
    assert find_losses(directory) == []
    store = open_sqlite(directory, SETTINGS)
    owner = store.acquire(bytes(16), 1, "test", 0)
    assert learn(store, owner) == end
    grow(store, 10)
    save(store, owner)
    assert store.head("m").seq == end + 10
    report = replay(store, "m")
    assert report.equal
    assert report.compared
    store.close()
    assert find_losses(directory) == []


def test_a_whole_directory_has_nothing_to_accept(tmp_path: Path) -> None:
    copy = killed(tmp_path)
    assert find_losses(copy) == []
    assert accept(copy, NOW_MS) == []
    store = open_sqlite(copy, SETTINGS)
    assert (store.head("m").seq, repairs(store)) == (51, [])
    store.close()


def test_the_accepted_loss_is_an_event_that_says_what_is_missing(tmp_path: Path) -> None:
    copy = killed(tmp_path)
    store = open_sqlite(tmp_path / "live", SETTINGS)
    chain = store.head("m").chain
    store.close()
    (copy / WAL).unlink()
    [loss] = find_losses(copy)
    assert (loss.model, loss.ends_at, loss.witnessed_seq, loss.missing, loss.gone) == ("m", 21, 51, 30, False)
    with pytest.raises(LogGap):
        open_sqlite(copy, SETTINGS)
    assert accept(copy, NOW_MS) == [Accepted(loss, "m", 22)]
    store = open_sqlite(copy, SETTINGS)
    said = {
        "action": "accept_loss", "from": 22, "to": 51, "missing": 30, "witnessed_seq": 51, "witnessed_chain": chain.hex(),
        "generation": None,
    }  # fmt: skip
    assert repairs(store) == [(22, said)]
    assert store.read("m", 21)[0].accepted_ms == NOW_MS
    store.close()
    goes_on(copy, 22)


def test_a_loss_after_an_accepted_loss_is_found_again(tmp_path: Path) -> None:
    copy = killed(tmp_path)
    (copy / WAL).unlink()
    accept(copy, NOW_MS)
    store = open_sqlite(copy, SETTINGS)
    grow(store, 10)
    again = image(copy, tmp_path / "again")
    store.close()
    (again / WAL).unlink()
    assert [(loss.ends_at, loss.missing) for loss in find_losses(again)] == [(22, 10)]
    assert [done.seq for done in accept(again, NOW_MS)] == [23]
    goes_on(again, 23)


def test_a_power_cut_between_the_event_and_the_witness_does_not_ask_twice(tmp_path: Path) -> None:
    copy = killed(tmp_path)
    (copy / WAL).unlink()
    shutil.copy(copy / "riata.witness", tmp_path / "witness")
    accept(copy, NOW_MS)
    shutil.copy(tmp_path / "witness", copy / "riata.witness")
    assert find_losses(copy) == []
    goes_on(copy, 22)


def test_a_loss_that_no_witness_counts_is_accepted_as_such(tmp_path: Path) -> None:
    copy = killed(tmp_path)
    (copy / "riata.witness").unlink()
    flip(copy / WAL, 32 + 2000)
    [loss] = find_losses(copy)
    assert (loss.model, loss.missing, loss.witnessed_seq) == ("", None, None)
    [done] = accept(copy, NOW_MS)
    store = open_sqlite(copy, SETTINGS)
    [(seq, said)] = repairs(store)
    assert (done.model, done.seq, said["from"], said["to"], said["missing"]) == ("m", seq, seq, None, None)
    store.close()
    goes_on(copy, seq)


def test_a_dropped_model_is_forgotten_and_the_others_continue(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "live", SETTINGS)
    create_model(store)
    grow(store, 20)
    store.idle()
    store.create("n", bytes(15) + b"n")
    log_batch(store, random_batch(np.random.default_rng(1), 5), "n")
    copy = image(tmp_path / "live", tmp_path / "copy")
    store.close()
    (copy / WAL).unlink()
    [loss] = find_losses(copy)
    assert (loss.model, loss.gone, loss.missing) == ("n", True, 5)
    assert accept(copy, NOW_MS) == [Accepted(loss, "n", 0)]
    goes_on(copy, 21)


def test_a_state_of_events_that_the_log_lost_is_carried_into_it(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path / "live", SETTINGS)
    create_model(store)
    owner = store.acquire(bytes(16), 1, "test", 0)
    for _ in range(3):
        grow(store, 10)
        save(store, owner)  # generations at 11, 21, 31
    kept = store.generations("m")[0].state_digest
    store.close()
    cut_log(tmp_path / "live", 16)
    [loss] = find_losses(tmp_path / "live")
    assert (loss.ends_at, loss.missing) == (16, 15)
    [done] = accept(tmp_path / "live", NOW_MS)
    assert (done.generation, done.seq) == (3, 18)  # event 17 puts its state into the log
    store = open_sqlite(tmp_path / "live", SETTINGS)
    assert [generation.gen for generation in store.generations("m")] == [1]
    assert [said["generation"] for _, said in repairs(store)] == [3]
    owner = store.acquire(bytes(16), 1, "test", 0)
    state = Recovery(here(store), owner, lambda: NOW_MS).recover("m").state
    assert state.freeze().digest() == kept
    assert replay(store, "m").digest == kept.hex()
    store.close()
    goes_on(tmp_path / "live", 18)


def cut_log(directory: Path, to: int) -> None:
    """Remove the events after `to`, the end of a record, from the database, as damage to its pages may."""
    connection = sqlite3.connect(directory / "riata.db")
    base = 1 << 44
    connection.execute("DELETE FROM log WHERE key > ?", (base + to,))
    [chain] = connection.execute("SELECT chain FROM log WHERE key = ?", (base + to - 4,)).fetchone()
    connection.execute("UPDATE models SET seq = ?, chain = ?", (to, chain))
    connection.commit()
    connection.close()


def test_a_directory_that_is_in_use_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        find_losses(tmp_path / "none")
    store = open_sqlite(tmp_path / "live", SETTINGS)
    for call in (find_losses, lambda directory: accept(directory, NOW_MS)):
        with pytest.raises(Conflict):
            call(tmp_path / "live")
    store.close()
