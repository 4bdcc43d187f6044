"""Refits and threads that work in the background get a share of a processor that others want whole."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from riata.base.process import BESIDE
from riata.base.settings import Settings
from riata.wiring import refit_settings

USED_S = 2.0  # by the busy process, before its share is compared
SPIN = "import os,sys; from riata.base.process import lower_priority; lower_priority(int(sys.argv[1]))\nwhile True: pass"


def used_s(pid: int) -> float:
    """Processor time of a process."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("niceness", "least"), [(refit_settings(Settings()).niceness, 0.05), (BESIDE, 0.2)])
def test_work_in_the_background_gets_its_share_of_a_busy_processor(niceness: int, least: float) -> None:
    """least : of what a process of normal priority gets; niceness 19 gets 0.015"""
    assert niceness > 0  # what else wants a processor still comes first
    core = {min(os.sched_getaffinity(0))}
    processes = [subprocess.Popen([sys.executable, "-c", SPIN, str(nice)]) for nice in (0, niceness)]
    try:
        for process in processes:
            os.sched_setaffinity(process.pid, core)
        while used_s(processes[1].pid) < 0.3:  # both have begun to spin
            time.sleep(0.02)
        begun = [used_s(process.pid) for process in processes]
        while used_s(processes[0].pid) - begun[0] < USED_S:
            time.sleep(0.02)
        busy, mine = (used_s(process.pid) - before for process, before in zip(processes, begun, strict=True))
        assert mine > least * busy, f"{mine:.2f} s beside {busy:.2f} s"
    finally:
        for process in processes:
            process.kill()
            process.wait()
