"""What every reader of untrusted bytes owes, whatever the bytes: an answer or a declared refusal, soon, in little memory.

A target raises for whatever else goes wrong: an exception that is not declared, an answer that does not come back from its own
encoding. `check` adds the two bounds. Time is the thread's processor time, so that a busy machine causes no failure, in units of
what this machine takes for a loop that is always the same, so that a slow one does not either; an input is slow only where it is
slow three times. Memory is the growth of the process's peak while the input is read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

UNITS_MAX: Final = 25.0
UNIT: Final = range(10**6)  # what is summed up in one unit of time: 5 to 20 ms on machines of 2015 to 2025
BYTES_MAX: Final = 256 * 2**20
_CLEARLY: Final = 1.0  # units; what takes less is not slow, also if the processor has become slower since
_AGAIN: Final = 2  # how often a slow input gets another chance
_STATUS: Final = Path("/proc/self/status")
_CLEAR: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"


class Slow(AssertionError):
    """An input took too long to read."""


class Greedy(AssertionError):
    """An input took too much memory to read."""


def check(one_input: Callable[[bytes], None], data: bytes, units_max: float = UNITS_MAX) -> None:
    """Feed `data` to a target, within the bounds. Raises what the target raises, `Slow` or `Greedy`."""
    before = _reset_peak()
    units = _timed(one_input, data)
    grown = _memory("VmHWM") - before
    if grown > BYTES_MAX:
        raise Greedy(f"{grown / 2**20:.0f} MiB for {len(data)} bytes of input")
    for _ in range(_AGAIN):
        if units <= units_max:
            return
        units = min(units, _timed(one_input, data))
    if units > units_max:
        raise Slow(f"{units:.1f} times what a sum of {len(UNIT)} numbers takes, for {len(data)} bytes of input")


def _timed(one_input: Callable[[bytes], None], data: bytes) -> float:
    start = time.thread_time()
    one_input(data)
    spent = time.thread_time() - start
    if spent <= _CLEARLY * _shortest_unit():  # nearly always: a unit takes longer than most inputs
        return 0.0
    return spent / max(_unit(), 1e-9)  # now, when the processor is as fast as it was a moment ago


def _unit() -> float:
    start = time.thread_time()
    sum(UNIT)
    return time.thread_time() - start


@cache
def _shortest_unit() -> float:
    return min(_unit() for _ in range(3))


def _reset_peak() -> int:
    """Reset the peak of the resident memory to its current value, and return that."""
    _CLEAR.write_text(_RESET_PEAK)
    return _memory("VmRSS")


def _memory(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"{_STATUS} has no {name}")
