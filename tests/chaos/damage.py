"""Damages the files of a killed process. A start must then refuse, be right, or report the damage, but never ignore it."""

from __future__ import annotations

import random
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests import forked
from tests.chaos import invariants, rows
from tests.chaos.cluster import service_environment
from tests.chaos.history import History
from tests.chaos.stored import SqliteSource
from tests.running import ROOT, Running

Outcome = Literal["refused", "right", "reported", "silent"]
DATABASE, WAL, WITNESS = "riata.db", "riata.db-wal", "riata.witness"


@dataclass(frozen=True)
class Verdict:
    """The result for a damaged directory. said: by the service, or what is missing in the directory."""

    outcome: Outcome
    said: str


def flip(path: Path, rng: random.Random) -> str:
    """Flip one random bit of a file."""
    content = bytearray(path.read_bytes())
    at, bit = rng.randrange(len(content)), rng.randrange(8)
    content[at] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {at} of {path.name} flipped"


def cut(path: Path, rng: random.Random) -> str:
    """Keep a random part of a file from its beginning."""
    content = path.read_bytes()
    size = rng.randrange(len(content))
    path.write_bytes(content[:size])
    return f"{path.name} cut from {len(content)} bytes to {size}"


def remove(path: Path, _rng: random.Random) -> str:
    path.unlink()
    return f"{path.name} removed"


def files_of(directory: Path) -> list[Path]:
    """Every file of a store that is not empty."""
    return sorted(path for path in directory.iterdir() if path.is_file() and path.stat().st_size)


def judge(directory: Path, history: History) -> Verdict:
    """Start the service on a damaged directory and, if it becomes ready, look for every acknowledged event without the code of
    the store. A replay must report every error.
    """
    with Running(directory, {"RIATA_DISK_RESERVE_BYTES": "0"}) as running:
        if not running.lives():
            assert running.process.poll() is not None, f"neither ready nor ended: {running.output()}"
            assert running.process.returncode == 1, running.output()
            return Verdict("refused", running.output())
        running.kill()
    wrong = wrong_in(directory, history)
    if not wrong:
        return Verdict("right", "")
    command = ["riata", "replay", "--data", str(directory), "--model", rows.MODEL, "--verify"]
    code, said = forked.run(command, service_environment({}), ROOT)
    return Verdict("reported" if code else "silent", f"{wrong}; replay: {said}")


def wrong_in(directory: Path, history: History) -> str:
    """The first error in the log in `directory`; empty if every acknowledged event is in it, once, as it was sent."""
    scratch = directory.with_name(f"{directory.name} looked at")
    scratch.mkdir(exist_ok=True)
    try:
        left = invariants.Left.of(SqliteSource(directory, scratch), rows.MODEL)
        return next(iter(invariants.wrong_log(left, history)), "")
    except (sqlite3.Error, OSError, IndexError, AssertionError) as error:
        return repr(error)
    finally:
        shutil.rmtree(scratch)


def acked_seq(history: History) -> int:
    """The highest acknowledged event."""
    return max((one.seq for one in history.sent if one.outcome == "acked"), default=0)
