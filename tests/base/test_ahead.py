"""Memory that was begun is taken once, by who wants as much, and is zero."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import pytest

from riata.base import ahead
from riata.base.ahead import LARGE_BYTES
from riata.learn.pages import Pages, zero_table

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing is touched ahead")
LINES, WIDTH = 2**17, 4  # 4 MiB
SIZE = 8 * LINES * WIDTH


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    yield
    ahead.forget()


def test_what_was_begun_is_taken_once_by_who_wants_as_much() -> None:
    assert ahead.take(SIZE) is None
    ahead.begin(SIZE)
    assert ahead.take(SIZE + 8) is None
    found = ahead.take(SIZE)
    assert found is not None
    assert len(found) == SIZE + LARGE_BYTES
    assert not np.frombuffer(found, np.uint8).any()
    assert ahead.take(SIZE) is None


def test_what_is_forgotten_is_not_taken() -> None:
    ahead.begin(SIZE)
    ahead.forget()
    assert ahead.take(SIZE) is None


def test_a_table_of_that_size_lies_in_it_and_one_of_another_does_not() -> None:
    ahead.begin(SIZE)
    begun = np.frombuffer(ahead._begun[0][0], np.uint8)
    assert not np.shares_memory(begun, zero_table(LINES + 1, WIDTH))
    table = zero_table(LINES, WIDTH)
    assert np.shares_memory(begun, table)
    assert table.ctypes.data % LARGE_BYTES == 0
    assert not table.any()
    table[:] = 1.0
    assert not zero_table(LINES, WIDTH).any()


def test_its_pages_are_looked_after_as_those_of_any_table() -> None:
    ahead.begin(SIZE)
    kept = Pages(zero_table(LINES, WIDTH))
    kept.expect(LINES)
    assert kept.settled
