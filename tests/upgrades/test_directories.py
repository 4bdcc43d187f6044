"""Data directories written by another release, opened by real processes that may be killed at any moment."""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import time
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from riata.run.state.provenance import fingerprint
from riata.store.records import decode_restore
from riata.store.sqlite.store import read_sqlite
from riata.store.store import Record
from tests import forked
from tests.golden.make_release_directory import ANSWERS, MODELS, margins, taught, unpack_release
from tests.golden.make_replay import rows_of
from tests.running import HANG_S, ROOT, Running
from tests.upgrades.another import ALGO_VERSION, NUMERICS, VERSION

MODULE: Final = "tests.upgrades.another"
ROWS: Final = rows_of(seed=5, n=310)
OTHER: Final = "0123456789abcdef"
NOT_COMPARABLE: Final = 3
RELEARNT: Final = ("gradient",)  # the present version learns the events after the last generation to other bits


@pytest.fixture
def left(tmp_path: Path) -> Path:
    """The directory that release 0.2.0 left when it was killed."""
    directory = tmp_path / "data"
    directory.mkdir()
    unpack_release(directory)
    return directory


def program(directory: Path, version: int = VERSION, arithmetic: str = "") -> Running:
    return Running(directory, {ALGO_VERSION: str(version), NUMERICS: arithmetic}, MODULE)


def replayed(directory: Path, version: int = VERSION, arithmetic: str = "") -> tuple[int, str]:
    """The report and the exit code of `riata replay --verify`."""
    environment = {**os.environ, ALGO_VERSION: str(version), NUMERICS: arithmetic}
    return forked.run([MODULE, "replay", "--data", str(directory), "--verify"], environment, ROOT)


def log_of(directory: Path, model: str) -> list[Record]:
    with contextlib.closing(read_sqlite(directory)) as store:
        return store.read(model, store.head(model).first_seq - 1, 2**30)


def upgrades(directory: Path, model: str) -> list[dict[str, Any]]:
    """The content of the upgrade events of a model, after a check that its log has every event once."""
    found = log_of(directory, model)
    assert [record.first for record in found[1:]] == [record.last + 1 for record in found[:-1]]
    return [decode_restore(record.payload)[0] for record in found if record.kind == "upgrade"]


def acknowledged(directory: Path, model: str) -> int:
    """The number of rows in the log."""
    return sum(record.count for record in log_of(directory, model) if record.kind == "observe")


def assert_sound(directory: Path, alike: bool) -> str:
    """In the replay only older parts of sketches differ; returns the report. alike: the release that left the directory had the
    arithmetic of this machine
    """
    code, output = replayed(directory)
    assert code == NOT_COMPARABLE, output
    assert "DIFFERENT" not in output
    differ = [line for line in output.splitlines() if "not comparable" in line]
    assert {line.partition(":")[0] for line in differ} == set(RELEARNT) or not alike
    assert all("learnt with algorithm 8" in line for line in differ)
    return output


@pytest.mark.timeout(1200)
def test_the_directory_of_the_release_before_opens_answers_the_same_and_continues(left: Path) -> None:
    golden = json.loads(ANSWERS.read_text())
    answers, alike = golden["models"], golden["numerics"] == fingerprint()  # elsewhere the tail may be learnt to other last bits
    with program(left) as running:
        running.start()
        for model, answer in answers.items():
            if model not in RELEARNT:
                rel = 0 if alike else 1e-9
                assert margins(running, model, ROWS[300:]) == pytest.approx(answer["margins"], rel=rel, abs=0), model
            assert taught(running, model, ROWS[:60]) == answer["seq"] + 1 + 60
        running.kill()
        for model in answers:
            said = upgrades(left, model)
            assert [one["before"] for one in said] == [{"algo_version": 8, "numerics": golden["numerics"]}], model
            assert [one["after"]["algo_version"] for one in said] == [VERSION], model
            assert acknowledged(left, model) == 360
        assert_sound(left, alike)
        running.start()
        after = {model: margins(running, model, ROWS[300:]) for model in answers}
        running.stop()
    assert all(len(upgrades(left, model)) == 1 for model in answers)
    output = assert_sound(left, alike)
    for model in answers:
        assert f"{model}: events 1 to {answers[model]['seq']} were learnt under algorithm 8, arithmetic " in output
    with program(left) as running:
        running.start()
        assert {model: margins(running, model, ROWS[300:]) for model in answers} == after


@pytest.mark.timeout(1200)
def test_another_version_then_another_arithmetic_then_the_older_program_again(left: Path) -> None:
    for version, arithmetic in ((VERSION + 1, ""), (VERSION + 1, OTHER)):
        with program(left, version, arithmetic) as running:
            running.start()
            taught(running, "gradient", ROWS[:60])
            running.kill()
    assert [(one["after"]["algo_version"], one["after"]["numerics"] == OTHER) for one in upgrades(left, "gradient")] == [
        (VERSION + 1, False), (VERSION + 1, True)
    ]  # fmt: skip
    code, output = replayed(left, VERSION + 1, OTHER)
    assert code == NOT_COMPARABLE, output
    assert "DIFFERENT" not in output
    assert "not comparable: learnt with algorithm 8, arithmetic " in output
    assert "gradient: state carried by upgrade event" in output
    with program(left) as older:
        assert not older.lives()
        assert (
            f"this program has algorithm version {VERSION}, and the store was last owned by one with version {VERSION + 1}"
            in (older.output())
        )
    last = log_of(left, "gradient")[-1].last
    with program(left, VERSION + 1, OTHER) as running:
        running.start()
        assert taught(running, "gradient", ROWS[:30]) == last + 30


@pytest.mark.timeout(1200)
def test_damage_is_not_taken_for_another_version(left: Path) -> None:
    with program(left, VERSION + 1) as running:
        running.start()
        taught(running, "gradient", ROWS[:60])
        httpx.post(f"{running.url}/models/gradient/snapshots", timeout=HANG_S).raise_for_status()
        running.stop()
    code, output = replayed(left, VERSION + 1)
    assert code == NOT_COMPARABLE, output
    with contextlib.closing(sqlite3.connect(left / "riata.db")) as connection, connection:
        model, gen, data = connection.execute("SELECT model, gen, data FROM chunks ORDER BY gen DESC LIMIT 1").fetchone()
        changed = (data[:-1] + bytes([data[-1] ^ 1]), model, gen)
        connection.execute("UPDATE chunks SET data = ? WHERE model = ? AND gen = ?", changed)
    code, output = replayed(left, VERSION + 1)
    assert code == 1, output


def has_locked(running: Running) -> bool:
    """Whether the process has locked the directory, so that it is about to recover its models."""
    lock = running.directory / "riata.lock"
    return lock.exists() and f"{running.process.pid}" in lock.read_text(errors="replace")


def locked_after_s(running: Running) -> float:
    """Start a process and wait until it has locked the directory; returns the seconds that took."""
    began = time.monotonic()
    running.start(wait=False)
    while not has_locked(running):
        assert running.process.poll() is None, running.output()
        time.sleep(0.002)
    return time.monotonic() - began


def kill_starts(directory: Path, kills: int, seed: int) -> None:
    """Kill starts of newer programs between their lock on the directory and readiness: each model gets one event of each."""
    chance = random.Random(seed)
    before = {model: acknowledged(directory, model) for model in MODELS}
    began = time.monotonic()
    with program(directory, VERSION + 1) as running:  # the first upgrade, unharmed: how long does such a start take here?
        locked_s = locked_after_s(running)
        running.wait_until_ready()
        ready_s = time.monotonic() - began - locked_s
        running.kill()
    for number, arithmetic in enumerate((OTHER, "", OTHER), 2):
        with program(directory, VERSION + 1, arithmetic) as running:
            for _ in range(kills):
                locked_after_s(running)
                time.sleep(chance.uniform(0.0, 1.2) * ready_s)
                running.kill()
                assert all(len(upgrades(directory, model)) in (number - 1, number) for model in MODELS)
            running.start()
            answers = {model: margins(running, model, ROWS[300:]) for model in MODELS}
            running.kill()
            assert {model: len(upgrades(directory, model)) for model in MODELS} == dict.fromkeys(MODELS, number)
            running.start()
            assert {model: margins(running, model, ROWS[300:]) for model in MODELS} == answers
            running.kill()
        code, output = replayed(directory, VERSION + 1, arithmetic)
        assert code in (0, NOT_COMPARABLE), output
        assert "DIFFERENT" not in output
    assert {model: acknowledged(directory, model) for model in MODELS} == before


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_a_start_that_is_killed_while_it_upgrades_leaves_one_event_or_none(left: Path) -> None:
    kill_starts(left, kills=2, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
def test_many_starts_that_are_killed_while_they_upgrade(left: Path, seed: int) -> None:
    kill_starts(left, kills=10, seed=seed)
