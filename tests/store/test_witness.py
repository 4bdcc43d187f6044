"""The witness file: its content, what survives damage, and what happens to one that cannot be read."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from riata.base.errors import Corrupt
from riata.store.sqlite import witness as witness_file
from riata.store.sqlite.witness import WITNESS_NAME, Witness, Witnessed, read_witness
from riata.store.store import Head
from tests.store.batches import LINEAGE

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


def flip(path: Path, at: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1 << bit
    path.write_bytes(content)


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
    with pytest.raises(Corrupt, match="version 3, this program reads 1") as caught:
        read_witness(tmp_path)
    assert caught.value.code == "newer_format"


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
