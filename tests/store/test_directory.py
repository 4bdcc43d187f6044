from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from riata.base.errors import Conflict
from riata.store.sqlite.directory import BALLAST_NAME, LOCK_NAME, Ballast, DirectoryLock

HUGE = 2**62  # more than any disk has


def test_the_second_lock_is_refused_and_names_the_holder(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    with pytest.raises(Conflict, match=f"pid {os.getpid()} on ") as caught:
        DirectoryLock(tmp_path)
    assert caught.value.code == "directory_locked"
    lock.release()


def test_a_released_lock_can_be_taken_again_and_its_file_stays(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).release()
    assert (tmp_path / LOCK_NAME).exists()
    lock = DirectoryLock(tmp_path)
    lock.release()
    lock.release()


def test_the_ballast_is_of_real_blocks(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**20, 0)
    assert not ballast.allows_events()
    assert ballast.restore()
    status = (tmp_path / BALLAST_NAME).stat()
    assert (status.st_size, status.st_blocks * 512 >= 2**20) == (2**20, True)
    assert ballast.allows_events()


def test_without_the_ballast_no_event_is_allowed(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**20, 0)
    ballast.restore()
    assert ballast.release()
    assert not ballast.allows_events()
    assert not ballast.release()
    assert ballast.restore()
    assert ballast.allows_events()


def test_below_the_reserve_no_event_is_allowed_and_no_ballast_made(tmp_path: Path) -> None:
    ballast = Ballast(tmp_path, 2**12, HUGE)
    assert not ballast.restore()
    assert not ballast.allows_events()
    assert not (tmp_path / BALLAST_NAME).exists()


def test_a_disk_that_fills_is_seen_a_moment_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ballast = Ballast(tmp_path, 0, 2**20)
    assert ballast.restore()
    assert ballast.allows_events()
    looks: list[int] = []

    def none_left(_ballast: Ballast) -> int:
        looks.append(1)
        return 2**20 - 1

    monkeypatch.setattr(Ballast, "free_bytes", none_left)
    deadline = time.monotonic() + 900.0
    while ballast.allows_events():
        assert time.monotonic() < deadline
    assert len(looks) == 1  # it was not looked at before
    assert not ballast.allows_events()
    monkeypatch.undo()
    assert ballast.allows_events()


def test_a_ballast_that_another_process_made_is_found(tmp_path: Path) -> None:
    Ballast(tmp_path, 2**20, 0).restore()
    assert Ballast(tmp_path, 2**20, 0).allows_events()
    assert not Ballast(tmp_path, 2**21, 0).allows_events()
    assert Ballast(tmp_path, 2**21, 0).restore()


def test_a_sparse_file_is_no_ballast(tmp_path: Path) -> None:
    with (tmp_path / BALLAST_NAME).open("wb") as file:
        file.truncate(2**20)
    assert not Ballast(tmp_path, 2**20, 0).allows_events()
