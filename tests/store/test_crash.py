"""Processes are killed, syncs fail, files are truncated: every acknowledged event is there, and none twice.

A test with `settings` runs twice: with payloads in the database, and with payloads in files.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from riata.base.errors import RiataError, Unavailable
from riata.store.payload import decode_batch
from riata.store.sqlite.schema import DATABASE_NAME
from riata.store.sqlite.store import SqliteSettings, open_sqlite
from riata.store.sqlite.witness import WITNESS_NAME
from riata.store.store import Store
from tests import forked
from tests.refused import refused
from tests.running import HANG_S
from tests.store.appender import EVENTS_PER_GROUP, LONG, SETTINGS, append
from tests.store.batches import observe, one_row

ROOT = Path(__file__).parents[2]
MANY = 10**6


BOTH = pytest.mark.parametrize("settings", [SETTINGS, LONG], ids=["short", "long"])


def command(directory: Path, first_key: int, groups: int, settings: SqliteSettings = SETTINGS) -> list[str]:
    which = ["long"] if settings is LONG else []
    return [sys.executable, "-m", "tests.store.appender", str(directory), str(first_key), str(groups), *which]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'service'}:{ROOT}"}


def run(directory: Path, first_key: int, groups: int, *before: str, settings: SqliteSettings = SETTINGS) -> list[str]:
    """Run the appender to its end, prefixed by `before`; returns its output."""
    return forked.run(command(directory, first_key, groups, settings)[2:], environment(), ROOT, before)[1].splitlines()


def run_and_kill(directory: Path, first_key: int, after_s: float, settings: SqliteSettings) -> list[str]:
    """Kill the appender `after_s` seconds after it began to append."""
    output = directory.parent / f"{directory.name}.{first_key}.{after_s}.log"
    _, _, module, *words = command(directory, first_key, MANY, settings)
    process = forked.start(module, words, environment(), output, ROOT)
    deadline = time.monotonic() + HANG_S
    while not (output.exists() and output.read_text().startswith("ready\n")):
        assert time.monotonic() < deadline
        assert process.poll() is None, output.read_text()
        time.sleep(0.005)
    time.sleep(after_s)
    process.kill()
    process.wait()
    return output.read_text().removeprefix("ready\n").splitlines()


def acknowledged(said: list[str]) -> int:
    """The first id that was not acknowledged, 0 if there is none."""
    return max((int(line.split()[1]) for line in said if line.startswith("ack ")), default=0)


def stored_ids(store: Store) -> list[int]:
    """The ids in the log, in its order. Reading checks the chain."""
    ids: list[int] = []
    at = store.head("m").first_seq - 1
    while at < store.head("m").seq:
        for record in store.read("m", at):
            batch = decode_batch(record.payload)
            ids += [int.from_bytes(raw.tobytes(), "little") for raw in batch.event_id]
            at = record.last
    return ids


def check(directory: Path, durable: int, settings: SqliteSettings = SETTINGS) -> int:
    """Check the content that a new process finds if all ids below `durable` were acknowledged; returns the next id."""
    store = open_sqlite(directory, settings)
    ids = stored_ids(store)
    first = store.head("m").first_seq - 1  # ids and positions are both dense here, so trimming hides a known number of ids
    assert ids == list(range(first, first + len(ids)))
    assert durable <= first + len(ids) <= durable + EVENTS_PER_GROUP
    next_id = first + len(ids)
    for kept in store.generations("m"):
        assert len(store.open_generation("m", kept.gen)) == kept.bytes
    if next_id:
        append(store, next_id - EVENTS_PER_GROUP)  # sent again, known or not, it changes nothing
    assert store.head("m").seq == next_id
    store.close()
    return next_id


def kill_again_and_again(directory: Path, seed: int, kills: int, settings: SqliteSettings) -> None:
    rng = random.Random(seed)
    next_id = kept = 0
    for _ in range(kills):
        said = run_and_kill(directory, next_id, rng.uniform(0.0, 0.25), settings)
        next_id = check(directory, max(acknowledged(said), next_id), settings)
        kept += len(said)
    assert kept > kills  # they did get to work


@BOTH
def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path, settings: SqliteSettings) -> None:
    kill_again_and_again(tmp_path, 1, 4, settings)


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("seed", range(2, 22))
def test_hundreds_of_kills_lose_nothing(tmp_path: Path, seed: int, settings: SqliteSettings) -> None:
    kill_again_and_again(tmp_path, seed, 15, settings)


def traced(*injections: str) -> list[str]:
    """A prefix that makes system calls of the following command fail. Skips the test if that is not possible."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    probe = [strace, "-f", "-qq", "-e", "trace=fdatasync", "-o", os.devnull, "true"]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("this system does not allow tracing")
    options = [part for injection in injections for part in ("-e", f"inject={injection}")]
    return [strace, "-f", "-qq", "-o", os.devnull, "-e", "trace=fdatasync,fsync,pwrite64,pwritev2", *options]


@BOTH
@pytest.mark.parametrize("when", [9, 14, 25])
def test_after_a_failed_sync_nothing_is_acknowledged_any_more(tmp_path: Path, when: int, settings: SqliteSettings) -> None:
    run(tmp_path, 0, 1, settings=settings)
    injected = traced(f"fdatasync:error=EIO:when={when}", f"fsync:error=EIO:when={when}")
    said = run(tmp_path, EVENTS_PER_GROUP, 40, *injected, settings=settings)
    failed = next(i for i, line in enumerate(said) if line.startswith("error"))
    assert set(said[failed:]) == {"error store_failed unknown"}
    assert len(said[failed:]) == 10
    check(tmp_path, max(acknowledged(said), EVENTS_PER_GROUP), settings)


@BOTH
@pytest.mark.parametrize("when", [20, 27, 41, 90, 150])
def test_a_process_killed_at_a_write_loses_nothing(tmp_path: Path, when: int, settings: SqliteSettings) -> None:
    run(tmp_path, 0, 1, settings=settings)
    said = run(tmp_path, EVENTS_PER_GROUP, 30, *traced(f"pwrite64:signal=KILL:when={when}"), settings=settings)
    assert "gen 3" not in said
    check(tmp_path, max(acknowledged(said), EVENTS_PER_GROUP), settings)


@pytest.mark.parametrize("when", [1, 2, 5, 11])
def test_a_process_killed_at_the_write_of_payloads_loses_nothing(tmp_path: Path, when: int) -> None:
    run(tmp_path, 0, 1, settings=LONG)
    said = run(tmp_path, EVENTS_PER_GROUP, 30, *traced(f"pwritev2:signal=KILL:when={when}"), settings=LONG)
    assert acknowledged(said) == (EVENTS_PER_GROUP * when if when > 1 else 0)  # one write of payloads a group
    check(tmp_path, max(acknowledged(said), EVENTS_PER_GROUP), LONG)


def cut_open(directory: Path, groups: int, settings: SqliteSettings = SETTINGS) -> tuple[Path, int]:
    """A copy of the directory of a killed process, with a write-ahead log of `groups` groups; and the next id."""
    store = open_sqlite(directory / "live", settings)
    store.create("m", bytes(16))
    for i in range(groups):
        append(store, EVENTS_PER_GROUP * i)
    shutil.copytree(directory / "live", directory / "copy")
    store.close()
    return directory / "copy", EVENTS_PER_GROUP * groups


@BOTH
def test_a_torn_log_leaves_a_prefix_of_whole_groups_without_a_witness(tmp_path: Path, settings: SqliteSettings) -> None:
    copy, next_id = cut_open(tmp_path, 6, settings)
    wal = copy / (DATABASE_NAME + "-wal")
    for size in range(wal.stat().st_size, 0, -6007):
        torn = tmp_path / f"torn{size}"
        shutil.copytree(copy, torn)
        os.truncate(torn / wal.name, size)
        (torn / WITNESS_NAME).unlink()
        store = open_sqlite(torn, SETTINGS)
        if store.models():
            ids = stored_ids(store)
            assert ids == list(range(len(ids)))
            assert len(ids) % EVENTS_PER_GROUP == 0
            assert len(ids) <= next_id
        store.close()


@BOTH
def test_a_file_that_may_not_grow_ends_the_store_and_loses_nothing(tmp_path: Path, settings: SqliteSettings) -> None:
    run(tmp_path, 0, 1, settings=settings)
    limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 200; exec "$@"', "sh"]  # blocks of 512 bytes
    said = run(tmp_path, EVENTS_PER_GROUP, 60, *limited, settings=settings)
    failed = next(i for i, line in enumerate(said) if line.startswith("error"))
    assert set(said[failed:]) == {"error store_failed unknown"}
    assert failed > 1
    check(tmp_path, max(acknowledged(said), EVENTS_PER_GROUP), settings)


def test_a_failed_store_reports_it_to_every_call(tmp_path: Path) -> None:
    store = open_sqlite(tmp_path, SETTINGS)
    store.create("m", bytes(16))
    store._session._connection.close()  # every statement fails from here on, as on a dead disk
    for _ in range(2):
        with refused(Unavailable, "store_failed", "unknown"):
            store.append([observe("m", one_row())])
    with pytest.raises(RiataError):
        store.head("m")
    store.close()
