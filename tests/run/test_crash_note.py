"""The note of a crash: what it says after each kind of end of a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from riata.base.errors import Unavailable
from riata.run.state.crash_note import STEPS_MAX, Crash, CrashNote

LINEAGE, OTHER = bytes([1]) * 16, bytes([2]) * 16
PROGRAM = """
import ctypes, os, signal, sys, threading
from pathlib import Path
from riata.run.state.crash_note import CrashNote

note = CrashNote(Path(sys.argv[1]))
note.open()
entered, never = threading.Event(), threading.Event()

def other():
    with note.stepping("other", bytes([2]) * 16, 1, 9):
        entered.set()
        never.wait()

def step():
    with note.stepping("m", bytes([1]) * 16, 7, 8):
        {death}

threading.Thread(target=other, daemon=True).start()
entered.wait()
thread = threading.Thread(target=step)
thread.start()
thread.join()
{after}
"""
SEGV = "ctypes.string_at(0)"
ABORT = "ctypes.CDLL(None).abort()"
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
TERM = "os.kill(os.getpid(), signal.SIGTERM)"


def end(path: Path, death: str, after: str = "os._exit(0)") -> int:
    """Let a process end in the middle of two steps; return its exit code."""
    program = PROGRAM.replace("{death}", death).replace("{after}", after)
    return subprocess.run([sys.executable, "-c", program, str(path)], check=False, capture_output=True).returncode


def left(path: Path) -> dict[bytes, Crash]:
    note = CrashNote(path)
    note.open()
    try:
        return dict(note.crashes)
    finally:
        note.close()


@pytest.mark.parametrize(("death", "number"), [(SEGV, signal.SIGSEGV), (ABORT, signal.SIGABRT)])
def test_a_fatal_signal_counts_against_the_step_of_its_thread_alone(tmp_path: Path, death: str, number: int) -> None:
    path = tmp_path / "crash.note"
    assert end(path, death) == -number
    assert left(path) == {LINEAGE: Crash("m", LINEAGE, 7, 8)}
    assert left(path) == {}  # once


def test_an_exception_that_nobody_expects_counts_although_the_process_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "crash.note"
    assert end(path, "raise ZeroDivisionError", KILL) == -signal.SIGKILL
    assert left(path) == {LINEAGE: Crash("m", LINEAGE, 7, 8)}


@pytest.mark.parametrize(
    ("death", "after", "code"),
    [
        (KILL, "", -signal.SIGKILL),
        (TERM, "", -signal.SIGTERM),
        ("pass", "os._exit(3)", 3),
        ("pass", SEGV, -signal.SIGSEGV),  # in a thread that makes no step
    ],
)
def test_another_end_counts_against_nobody(tmp_path: Path, death: str, after: str, code: int) -> None:
    path = tmp_path / "crash.note"
    assert end(path, death, after) == code
    assert left(path) == {}


def test_a_signal_that_another_process_sends_counts_against_nobody(tmp_path: Path) -> None:
    """It is raised in the main thread, which makes no step."""
    path = tmp_path / "crash.note"
    assert end(path, "never.wait(0.01)", "os.kill(os.getpid(), signal.SIGSEGV); never.wait()") == -signal.SIGSEGV
    assert left(path) == {}


def test_errors_that_are_refusals_and_steps_that_end_count_against_nobody(tmp_path: Path) -> None:
    note = CrashNote(tmp_path / "crash.note")
    note.open()
    for first in range(2 * STEPS_MAX):
        with pytest.raises(Unavailable), note.stepping("m", LINEAGE, first, first):
            raise Unavailable("full", "disk_full")
        with note.stepping("m", LINEAGE, first, first):
            pass
    note.close()
    assert left(tmp_path / "crash.note") == {}


def test_more_steps_at_once_than_there_are_entries_go_on_unnoted(tmp_path: Path) -> None:
    note = CrashNote(tmp_path / "crash.note")
    note.open()
    steps = [note.stepping("m", LINEAGE, 1, 1) for _ in range(STEPS_MAX + 3)]
    for step in steps:
        step.__enter__()
    for step in steps:
        step.__exit__(None, None, None)
    note.close()
    assert left(tmp_path / "crash.note") == {}


def test_the_note_of_a_process_that_runs_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "crash.note"
    first, second = CrashNote(path), CrashNote(path)
    first.open()
    with first.stepping("m", LINEAGE, 1, 1):
        before = path.read_bytes()
        second.open()
        with second.stepping("n", OTHER, 1, 1):
            assert path.read_bytes() == before
        second.close()
    first.close()
    assert os.stat(path).st_mode & 0o777 == 0o640


@pytest.mark.parametrize("content", [b"x", b"\xff" * 5000, b"\0" * 20_000 + b"Current thread 0xzz"])
def test_a_note_that_makes_no_sense_is_no_crash_and_no_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "crash.note"
    path.write_bytes(content)
    assert left(path).keys() <= {b"\xff" * 16}


def test_a_directory_without_permission_is_told_and_ends_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    note = CrashNote(tmp_path / "file" / "crash.note")
    note.open()
    with note.stepping("m", LINEAGE, 1, 1):
        pass
    note.close()
    assert "a crash of this process will count against no event" in caplog.text
