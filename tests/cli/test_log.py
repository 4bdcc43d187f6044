"""`riata log`: exports of a directory, and its segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from riata.store import records
from riata.store.segment import FOLDER
from riata.store.sqlite.store import open_sqlite
from riata.store.store import Append
from tests.cli.test_verbs import run, succeeds
from tests.run.events import create_model
from tests.run.test_log_export import read
from tests.run.test_segment_building import content, learn
from tests.settings import sqlite_settings


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    store = open_sqlite(directory, sqlite_settings())
    create_model(store)
    learn(store, 100)
    store.append([Append("m", "skip", 0, payload=records.encode_skip(5, "bad"))])
    store.close()
    return directory


def test_an_export_has_the_examples_that_count_and_says_what_it_left_out(data: Path, tmp_path: Path) -> None:
    to = tmp_path / "m.arrow"
    done = succeeds("log", "export", "m", "--to", str(to), "--data", str(data))
    assert "99 examples of events 1 to 102 of 102; 1 skipped and 0 undone by a restore are left out" in done.output
    store = open_sqlite(data, sqlite_settings())
    assert read(to.read_bytes())[0] == [row for row in content(store) if row[0] != 5]
    store.close()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["m.arrow"]


def test_segments_are_made_verified_made_again_and_dropped(data: Path, tmp_path: Path) -> None:
    folder = data / FOLDER / "m"
    done = run("log", "segments", "m", "--data", str(data))
    assert (done.exit_code, "1 segments, 100 examples" in done.output) == (0, True), done.output
    [path] = folder.iterdir()
    whole = path.read_bytes()
    succeeds("log", "export", "m", "--to", str(tmp_path / "a"), "--data", str(data))
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert "made again" not in run("log", "segments", "m", "--data", str(data)).output
    done = run("log", "segments", "m", "--data", str(data), "--verify")
    assert (done.exit_code, "made again" in done.output) == (0, True), done.output
    assert path.read_bytes() == whole
    assert "1 files deleted" in run("log", "segments", "m", "--data", str(data), "--drop").output
    assert list(folder.iterdir()) == []
    succeeds("log", "export", "m", "--to", str(tmp_path / "b"), "--data", str(data))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_what_cannot_be_done_is_said_in_a_sentence(data: Path, tmp_path: Path) -> None:
    to = str(tmp_path / "x")
    for arguments, said in [
        (("export", "nobody", "--to", to, "--data", str(data)), "nobody"),
        (("export", "m", "--to", to), "give either --data"),
        (("export", "m", "--to", to, "--data", str(tmp_path)), "there is no store"),
        (("segments", "m", "--data", str(data), "--verify", "--drop"), "only one of --verify and --drop"),
        (("export", "m", "--to", str(tmp_path / "no" / "x"), "--data", str(data)), "No such file"),
    ]:
        done = run("log", *arguments)
        assert done.exit_code in (1, 2), done.output
        assert said in done.output
    assert not Path(to).exists()
