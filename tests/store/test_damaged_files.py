"""Any file of a killed process is damaged in any way: acknowledged events are there, or a start refuses, or a read reports it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections import Counter
from pathlib import Path

import pytest

from riata.base.errors import RiataError
from riata.store.sqlite.store import SqliteSettings, open_sqlite
from tests.chaos import damage
from tests.chaos.stored import SqliteSource, chain_after, chain_before_all, digest_of, rows_of
from tests.store.appender import LONG, SETTINGS
from tests.store.test_crash import acknowledged, run_and_kill, stored_ids

KINDS = (damage.flip, damage.cut, damage.remove)


def intact_ids(directory: Path, scratch: Path) -> list[int]:
    """The ids of the events in the intact part of the log, read without the store. Empty if it cannot be read."""
    scratch.mkdir(exist_ok=True)
    ids: list[int] = []
    try:
        source = SqliteSource(directory, scratch)
        top = source.top("m")
        chain, last = chain_before_all(top.lineage), 0
        for entry in source.entries("m"):
            chain = chain_after(chain, entry.digest)
            if (entry.first, entry.digest, entry.chain) != (last + 1, digest_of(entry), chain):
                return ids
            ids += [int.from_bytes(row.event_id, "little") for row in rows_of(entry.payload)]
            last = entry.last
    except (sqlite3.Error, OSError, IndexError):
        return ids
    finally:
        shutil.rmtree(scratch)
    return ids if (last, chain) == (top.seq, top.chain) else []


def outcome(directory: Path, acked: int, settings: SqliteSettings) -> str:
    """The result of a start and of reading the whole log of a damaged directory: refused, right, reported or silent."""
    try:
        store = open_sqlite(directory, settings)
    except RiataError:
        return "refused"
    found: list[int] = []
    try:
        found = stored_ids(store) if store.models() else []
    except RiataError:
        return "reported"
    finally:
        store.close()
    there = intact_ids(directory, directory.with_name("scratch"))
    return "right" if len(found) >= acked and found == there == list(range(len(found))) else "silent"


def trials(tmp_path: Path, count: int, seed: int, settings: SqliteSettings) -> Counter[str]:
    """Kill the appender and damage one file of its directory; this many times, each from the last undamaged directory."""
    rng, live, outcomes, acked = random.Random(seed), tmp_path / "live", Counter[str](), 0
    for number in range(count):
        acked = max(acked, acknowledged(run_and_kill(live, acked, rng.uniform(0.02, 0.15), settings)))
        trial = Path(shutil.copytree(live, tmp_path / f"trial{number}"))
        files = damage.files_of(trial)
        chosen = rng.choice(files) if number % 2 else next(path for path in files if path.name == damage.WAL)
        what = rng.choice(KINDS)(chosen, rng)
        found = outcome(trial, acked, settings)
        assert found != "silent", f"trial {number}: {what}, {acked} events were acknowledged"
        outcomes[found] += 1
        shutil.rmtree(trial)
        store = open_sqlite(live, settings)
        acked = len(stored_ids(store))
        store.close()
    return outcomes


@pytest.mark.parametrize("settings", [SETTINGS, LONG], ids=["short", "long"])
def test_a_dozen_kills_with_one_file_damaged(tmp_path: Path, settings: SqliteSettings) -> None:
    assert trials(tmp_path, 6, 7, settings).total() == 6  # none silent; how many are refused is counted over sixty


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("settings", [SETTINGS, LONG], ids=["short", "long"])
def test_sixty_kills_with_one_file_damaged(tmp_path: Path, settings: SqliteSettings) -> None:
    outcomes = trials(tmp_path, 60, 8, settings)
    assert outcomes.total() == 60
    assert outcomes["refused"] > 0, outcomes
    assert outcomes["refused"] + outcomes["reported"] >= 10, outcomes  # long payloads are in files of their own: found when read
    assert outcomes["right"] >= 10, outcomes
