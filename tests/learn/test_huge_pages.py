"""Tables are zero and lie well; a table with few used lines takes little memory, and one with many takes large pages."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import numpy as np
import pytest

from riata.base.arrays import F64, U32
from riata.learn import huge_pages
from riata.learn.huge_pages import HugePages, zero_table

LINES, WIDTH = 2**20, 4  # 32 MiB
FEW = 2048  # a quarter of its pages of 4 KiB
SIZE = 32 * 2**20
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system decides")


@pytest.mark.parametrize("lines", [16, 2**17 + 1])
@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_a_table_is_zero_and_no_line_lies_across_two_cache_lines(lines: int, width: int) -> None:
    for _ in range(3):
        table = zero_table(lines, width)
        assert table.shape == (lines, width)
        assert table.flags.c_contiguous
        assert table.flags.writeable
        assert not table.any()
        assert table.ctypes.data % 64 == 0
        table[:] = 1.0  # the next one is zero all the same


def some(features: int, lines: int = 1) -> U32:
    """Hashes of this many features in as many lines, each in a separate small page if there are enough."""
    line = np.arange(features) % lines * (LINES // lines)
    return (line * (2**32 // LINES)).astype(np.uint32)


def resident(table: F64) -> int:
    """Bytes of the table in memory, from the list of the process's mappings."""
    at, found = table.ctypes.data, False
    for line in Path("/proc/self/smaps").read_text(encoding="ascii").splitlines():
        head = line.split()[0]
        if "-" in head and not head.endswith(":"):
            start, stop = (int(part, 16) for part in head.split("-"))
            found = start <= at < stop
        elif found and head == "Rss:":
            return 1024 * int(line.split()[1])
    raise AssertionError("the table is in no mapping")


@LINUX
def test_a_table_with_few_used_lines_takes_their_small_pages_only() -> None:
    table = zero_table(LINES, WIDTH)
    kept = HugePages(table)
    kept.tend(0, some(100, 100))
    table[:: LINES // 100, 0] = 1.0
    kept.tend(100, some(100, 100))
    assert resident(table) <= 102 * 4096


class Asked:
    """A replacement for the system: records the calls, and refuses if configured to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, refuses: bool = False) -> None:
        self.calls: list[tuple[int, int]] = []
        self.refuses = refuses
        monkeypatch.setattr(huge_pages, "_advise", self.advise)

    def advise(self, _table: F64, at: int, length: int, advice: int) -> bool:
        if advice != mmap.MADV_NOHUGEPAGE:
            self.calls.append((at, length))
        return not (self.refuses and advice == huge_pages.COLLAPSE)


@LINUX
def test_large_pages_are_asked_for_once_many_lines_are_used_and_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    kept = HugePages(zero_table(LINES, WIDTH))
    kept.tend(FEW, some(10))
    assert asked.calls == []
    for _ in range(5):
        kept.tend(FEW + 1, some(10))
    assert asked.calls == [(0, SIZE), (0, SIZE // 2), (SIZE // 2, SIZE // 2)]


@LINUX
def test_a_large_batch_moves_all_pages_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    HugePages(zero_table(LINES, WIDTH)).tend(FEW + 1, some(16 * 256))
    assert asked.calls == [(0, SIZE), (0, SIZE)]


@LINUX
def test_what_is_about_to_be_full_begins_with_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    for lines, calls in ((FEW, 0), (FEW + 1, 1)):
        kept = HugePages(zero_table(LINES, WIDTH))
        kept.expect(lines)
        kept.tend(FEW, some(10))
        assert len(asked.calls) == calls


@LINUX
def test_a_batch_that_reaches_many_pages_finds_them_large(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    kept = HugePages(zero_table(LINES, WIDTH))
    kept.tend(0, some(FEW + 1, FEW))  # a page too few
    assert asked.calls == []
    kept.tend(0, some(FEW + 1, FEW + 1))
    kept.tend(FEW + 1, some(10))
    assert asked.calls == [(0, SIZE)]  # nothing was there to be moved


@LINUX
def test_pages_are_counted_over_all_of_a_long_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    page = np.uint32(2**32 // (SIZE // mmap.PAGESIZE))
    half = np.tile(some(FEW // 2, FEW // 2), 4)  # of as many pages as are few, and as many features as are counted at once
    HugePages(zero_table(LINES, WIDTH)).tend(0, np.concatenate([half, half + page, half]))
    assert asked.calls == []
    HugePages(zero_table(LINES, WIDTH)).tend(0, np.concatenate([half, half + page, half + 2 * page]))
    assert asked.calls == [(0, SIZE)]


@LINUX
def test_many_features_of_a_model_that_stays_small_are_not_counted_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch)
    kept = HugePages(zero_table(LINES, WIDTH))
    large = some(2 * FEW, 2 * FEW)
    kept.tend(50, some(2 * FEW, 50))
    kept.tend(100, large)
    assert asked.calls == []
    kept.tend(101, large)
    assert asked.calls == [(0, SIZE), (0, SIZE)]  # what the 101 lines lie in is moved


@LINUX
def test_a_system_that_refuses_to_move_pages_is_asked_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(monkeypatch, refuses=True)
    kept = HugePages(zero_table(LINES, WIDTH))
    for _ in range(5):
        kept.tend(FEW + 1, some(10))
    assert asked.calls == [(0, SIZE), (0, SIZE // 2), (SIZE // 2, SIZE // 2)]


@LINUX
def test_a_table_keeps_its_numbers_when_its_pages_change() -> None:
    table = zero_table(LINES, WIDTH)
    kept = HugePages(table)
    rng = np.random.default_rng(1)
    at = rng.integers(0, LINES, 3 * FEW)
    table[at, 1] = at
    for _ in range(4):
        kept.tend(len(at), some(10))
    assert (table[at, 1] == at).all()
    assert np.count_nonzero(table) == np.count_nonzero(np.unique(at))
