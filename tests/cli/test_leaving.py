"""The process ends by the short way, and whatever is owed before its end is done first."""

from __future__ import annotations

import subprocess
import sys

import pytest

OWED = """
import atexit, sys, threading
from riata.cli.main import main

atexit.register(print, "reported at the end")
threading.Thread(target=lambda: (threading.main_thread().join(), print("waited for"))).start()
sys.argv = ["riata", {verb!r}]
main()
print("not reached")
"""


@pytest.mark.parametrize(("verb", "code", "first"), [("version", 0, "riata "), ("no-such-verb", 2, "")])
def test_threads_and_exit_functions_have_their_turn(verb: str, code: int, first: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OWED.format(verb=verb)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code
    assert done.stdout.startswith(first)
    assert done.stdout.splitlines()[-2:] == ["waited for", "reported at the end"]
    assert ("no command 'no-such-verb'" in done.stderr) == (code == 2)


def test_what_cannot_be_written_is_not_passed_over() -> None:
    code = "import sys; from riata.cli.main import leave; sys.stdout.write('x'); leave(0)"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True, timeout=900, check=False
        )
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
