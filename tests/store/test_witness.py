"""The witness file: its content, what survives damage, and what happens to one that cannot be read."""

from __future__ import annotations

import errno
import random
import shutil
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import Corrupt
from riata.store.sqlite import witness as wal_file
from riata.store.sqlite import witness as witness_file
from riata.store.sqlite.witness import WITNESS_NAME, Witness, Witnessed, _checksums, _weights, find_damage, read_witness
from riata.store.store import Head
from tests.refused import refused
from tests.store.batches import LINEAGE
from tests.store.killed import flip

OTHER = bytes(range(16, 32))
HEADER_BYTES, ENTRY_BYTES, SLOT_BYTES = 256, 256, 128


def head(seq: int, lineage: bytes = LINEAGE) -> Head:
    return Head(lineage, seq, bytes([seq]) * 20, 1, 1)


def opened(directory: Path) -> Witness:
    witness = Witness.open(directory, read_witness(directory))
    assert witness.problem == ""
    return witness


def seqs(directory: Path) -> dict[str, int]:
    return {entry.name: entry.seq for entry in read_witness(directory).entries}


def test_the_last_mark_is_read_without_a_sync_or_a_close(tmp_path: Path) -> None:
    witness = opened(tmp_path)
    for seq in range(1, 6):
        witness.note("m", head(seq))
        witness.note("n", head(seq + 10, OTHER))
    assert seqs(tmp_path) == {"m": 5, "n": 15}
    found = next(entry for entry in read_witness(tmp_path).entries if entry.name == "m")
    assert found == Witnessed("m", LINEAGE, 5, b"\x05" * 20, 5, 0)


def test_a_witness_that_is_opened_again_continues(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.note("m", head(1))
    first.close()
    first.close()
    again = opened(tmp_path)
    again.note("m", head(2))
    again.note("n", head(1, OTHER))
    assert seqs(tmp_path) == {"m": 2, "n": 1}


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_anywhere_in_the_newest_slot_leaves_the_one_before(tmp_path: Path, bit: int) -> None:
    witness = opened(tmp_path)
    witness.note("m", head(1))
    witness.note("m", head(2))  # turn 2: the first slot
    witness.close()
    for at in range(HEADER_BYTES, HEADER_BYTES + SLOT_BYTES, 3):
        flip(tmp_path / WITNESS_NAME, at, bit)
        assert seqs(tmp_path) == {"m": 1}, at
        flip(tmp_path / WITNESS_NAME, at, bit)
    assert seqs(tmp_path) == {"m": 2}


def test_an_entry_of_which_no_slot_is_sound_is_reported_as_damaged(tmp_path: Path) -> None:
    witness = opened(tmp_path)
    witness.note("m", head(1))
    witness.note("n", head(1, OTHER))
    witness.close()
    flip(tmp_path / WITNESS_NAME, HEADER_BYTES + SLOT_BYTES + 9)  # turn 1: the second slot, and the first is empty
    found = read_witness(tmp_path)
    assert [entry.name for entry in found.entries] == ["n"]
    assert "1 of its entries" in found.damage


@pytest.mark.parametrize("content", [b"", b"RIATAWIT", bytes(HEADER_BYTES + 1000 * ENTRY_BYTES)], ids=["empty", "cut", "zeros"])
def test_a_file_that_is_not_a_witness_counts_as_damaged_and_is_created_again(tmp_path: Path, content: bytes) -> None:
    (tmp_path / WITNESS_NAME).write_bytes(content)
    found = read_witness(tmp_path)
    assert (found.exists, found.entries) == (True, ())
    assert found.damage
    witness = opened(tmp_path)
    witness.note("m", head(7))
    assert seqs(tmp_path) == {"m": 7}


def test_none_is_not_damage(tmp_path: Path) -> None:
    found = read_witness(tmp_path)
    assert (found.exists, found.damage, list(found.entries)) == (False, "", [])


def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    flip(tmp_path / WITNESS_NAME, 8, 1)
    with refused(Corrupt, "newer_format", match="version 3, this program reads 1"):
        read_witness(tmp_path)


def test_a_dropped_model_is_forgotten_and_its_place_used_again(tmp_path: Path) -> None:
    witness = opened(tmp_path)
    witness.note("m", head(1))
    witness.forget(LINEAGE)
    witness.forget(LINEAGE)
    assert seqs(tmp_path) == {}
    witness.note("n", head(3, OTHER))
    assert [(entry.name, entry.place) for entry in read_witness(tmp_path).entries] == [("n", 0)]


def test_renewal_writes_the_end_of_the_log_to_both_slots(tmp_path: Path) -> None:
    witness = opened(tmp_path)
    witness.note("m", head(9))
    witness.note("n", head(4, OTHER))
    witness.renew([("m", head(5)), ("empty", head(0, OTHER))])
    witness.close()
    assert seqs(tmp_path) == {"m": 5}
    for slot in (0, 1):
        at = HEADER_BYTES + slot * SLOT_BYTES + 20
        flip(tmp_path / WITNESS_NAME, at)
        assert seqs(tmp_path) == {"m": 5}  # never the 9 of before
        flip(tmp_path / WITNESS_NAME, at)


def test_if_no_file_can_be_created_nothing_is_recorded_and_the_reason_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(witness_file, "_make", full)
    witness = Witness.open(tmp_path, read_witness(tmp_path))
    assert "No space left on device" in witness.problem
    witness.note("m", head(1))
    witness.forget(LINEAGE)
    witness.renew([("m", head(1))])
    witness.close()
    assert not (tmp_path / WITNESS_NAME).exists()


# The walk over a write-ahead log is compared with what SQLite reads of the same file.


PAGE = 4096
HEADER, FRAME = 32, 24 + PAGE


def log_of(directory: Path, transactions: int) -> Path:
    """A database whose log has this many transactions of some frames each, as a killed process leaves it."""
    live = directory / "live"
    live.mkdir()
    connection = sqlite3.connect(live / "a.db", isolation_level=None)
    for pragma in (f"page_size={PAGE}", "locking_mode=EXCLUSIVE", "journal_mode=WAL", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)")
    for number in range(transactions - 1):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, bytes([number % 256]) * 9000))
    shutil.copytree(live, directory / "copy")
    connection.close()
    return directory / "copy" / "a.db-wal"


def rows_read(wal: Path, scratch: Path) -> int:
    """The number of rows that SQLite finds."""
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(wal.parent, scratch)
    connection = sqlite3.connect(scratch / "a.db")
    try:
        return int(connection.execute("SELECT count(*) FROM t").fetchone()[0])
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()


def test_checksums_are_those_of_the_plain_loop() -> None:
    rng = np.random.default_rng(1)
    words = rng.integers(0, 2**32, (7, 26), np.uint32)
    before = rng.integers(0, 2**32, (7, 2), np.uint32)
    wanted = []
    for row, (s0, s1) in zip(words.tolist(), before.tolist(), strict=True):
        for i in range(0, len(row), 2):
            s0 = (s0 + row[i] + s1) % 2**32
            s1 = (s1 + row[i + 1] + s0) % 2**32
        wanted.append([s0, s1])
    assert _checksums(words, before, _weights(26)).tolist() == wanted


@pytest.mark.parametrize("block", [1, 3 * FRAME, 2**23])
def test_a_sound_log_has_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(wal_file, "_BLOCK_BYTES", block)
    assert find_damage(log_of(tmp_path, 30)) is None


@pytest.mark.parametrize("block", [1, 3 * FRAME, 2**23])
def test_every_transaction_that_sqlite_drops_after_a_flipped_bit_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(wal_file, "_BLOCK_BYTES", block)
    transactions = 30
    wal = log_of(tmp_path, transactions)
    content = wal.read_bytes()
    rng = random.Random(3)
    counted = 0
    for at in [HEADER + 2, HEADER + 9, HEADER + 18] + [rng.randrange(HEADER, len(content)) for _ in range(25)]:
        flipped = bytearray(content)
        flipped[at] ^= 1 << rng.randrange(8)
        wal.write_bytes(flipped)
        read = rows_read(wal, tmp_path / "read") + 1 if at >= HEADER + FRAME else 0
        found = find_damage(wal)
        # The transaction with the damage is not counted unless its last frame is sound: from the log alone it might be torn.
        lost = transactions - read
        after = 0 if found is None else found.commits_after
        assert after in (lost - 1, lost), at
        assert found is None or HEADER <= found.at <= at
        counted += after or 0
    assert counted > 100


def test_a_damaged_header_is_damage_of_unknown_size(tmp_path: Path) -> None:
    wal = log_of(tmp_path, 5)
    content = wal.read_bytes()
    for at in range(HEADER):
        flipped = bytearray(content)
        flipped[at] ^= 16
        wal.write_bytes(flipped)
        found = find_damage(wal)
        assert found is not None, at
        assert found.commits_after is None
        assert found.certain


def test_a_log_that_is_cut_missing_or_too_short_is_not_damaged(tmp_path: Path) -> None:
    wal = log_of(tmp_path, 9)
    content = wal.read_bytes()
    for size in (0, 5, HEADER, HEADER + 9, HEADER + FRAME, len(content) - 1, len(content) - FRAME - 7):
        wal.write_bytes(content[:size])
        assert find_damage(wal) is None, size
    wal.unlink()
    assert find_damage(wal) is None


def test_old_frames_after_the_end_of_a_restarted_log_are_not_damage(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    for pragma in (f"page_size={PAGE}", "journal_mode=WAL", "wal_autocheckpoint=0"):
        connection.execute(f"PRAGMA {pragma}").fetchall()
    connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, x BLOB)")
    for number in range(20):
        connection.execute("INSERT INTO t VALUES (?, ?)", (number, bytes(3000)))
    connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    connection.execute("INSERT INTO t VALUES (100, x'00')")
    wal = tmp_path / "a.db-wal"
    assert wal.stat().st_size > 20 * FRAME
    assert find_damage(wal) is None
    connection.close()


def test_the_last_transaction_torn_by_a_power_cut_is_not_certain_damage(tmp_path: Path) -> None:
    wal = log_of(tmp_path, 6)
    content = bytearray(wal.read_bytes())
    frames = (len(content) - HEADER) // FRAME
    commits = [i for i in range(frames) if struct.unpack_from(">I", content, HEADER + i * FRAME + 4)[0]]
    content[HEADER + (commits[-2] + 1) * FRAME + 100] ^= 1  # the first frame of the last transaction, whose last one is sound
    wal.write_bytes(content)
    found = find_damage(wal)
    assert found is not None
    assert (found.commits_after, found.certain) == (1, False)
