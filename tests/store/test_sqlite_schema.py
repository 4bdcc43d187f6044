from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from riata.base.errors import Corrupt, RiataError
from riata.store.sqlite import schema as sqlite_schema
from riata.store.sqlite.schema import DATABASE_NAME, PAGE_BYTES, SCHEMA_VERSION, UNSETTLED_VERSION, connect
from tests.refused import refused
from tests.store.test_sqlite import edit, fill


def pragma(connection: sqlite3.Connection, name: str) -> object:
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


def test_the_connection_has_the_required_settings(tmp_path: Path) -> None:
    connection = connect(tmp_path / DATABASE_NAME)
    wanted = {
        "journal_mode": "wal", "synchronous": 2, "locking_mode": "exclusive", "trusted_schema": 0, "cell_size_check": 1,
        "mmap_size": 0, "wal_autocheckpoint": 0, "auto_vacuum": 2, "journal_size_limit": 64 * 2**20, "foreign_keys": 1,
        "secure_delete": 0, "page_size": PAGE_BYTES,
    }  # fmt: skip
    found = {name: pragma(connection, name) for name in wanted if name != "mmap_size"}
    assert found == {name: value for name, value in wanted.items() if name != "mmap_size"}
    connection.close()


def test_no_shared_memory_file_is_made(tmp_path: Path) -> None:
    connection = connect(tmp_path / DATABASE_NAME)
    assert {path.name for path in tmp_path.iterdir()} == {DATABASE_NAME, DATABASE_NAME + "-wal"}
    connection.close()


@pytest.mark.parametrize("content", [b"hello", b"SQLite format 3\0" + bytes(5000), b"\0" * 8192])
def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / DATABASE_NAME
    path.write_bytes(content)
    with pytest.raises(Corrupt, match="backup"):
        connect(path)
    assert path.read_bytes() == content


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    edit(tmp_path, "CREATE TABLE other (a)", "PRAGMA application_id = 7")
    with pytest.raises(Corrupt, match="another program"):
        connect(tmp_path / DATABASE_NAME)


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    edit(tmp_path, f"PRAGMA user_version = {UNSETTLED_VERSION + 1}")
    with refused(Corrupt, "newer_format"):
        connect(tmp_path / DATABASE_NAME)


def test_a_start_that_died_before_the_tables_is_begun_again(tmp_path: Path) -> None:
    edit(tmp_path, "PRAGMA journal_mode = WAL")
    connection = connect(tmp_path / DATABASE_NAME)
    assert pragma(connection, "user_version") == SCHEMA_VERSION
    connection.close()


def test_a_lost_database_beside_its_log_is_not_begun_again(tmp_path: Path) -> None:
    (tmp_path / (DATABASE_NAME + "-wal")).write_bytes(b"frames")
    with pytest.raises(Corrupt, match="missing or empty"):
        connect(tmp_path / DATABASE_NAME)


@pytest.mark.parametrize("bound", [0, 2**30])
def test_a_damaged_page_is_refused_or_read_as_damaged(tmp_path: Path, bound: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, 50)
    path = tmp_path / DATABASE_NAME
    content = bytearray(path.read_bytes())
    content[PAGE_BYTES * 2 : PAGE_BYTES * 3] = b"\xa5" * PAGE_BYTES  # the first page of the first table; page 2 maps the pages
    path.write_bytes(content)
    monkeypatch.setattr(sqlite_schema, "QUICK_CHECK_BYTES_MAX", bound)
    with pytest.raises(RiataError, match="damaged"):
        connect(path)


def test_a_too_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 36, 0))
    with pytest.raises(RiataError, match="too old"):
        connect(tmp_path / DATABASE_NAME)
