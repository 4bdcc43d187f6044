from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from riata.base.errors import Corrupt
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, with_ranks


def test_what_a_frozen_learner_can_be_passes() -> None:
    check_names({"a": np.zeros(1), "b": np.zeros(1)}, {"b", "a"})
    check_counts("counts", np.array([0]))
    check_counts("counts", np.array([3, 0]), 2)
    check_slots("slot", np.array([0, 1, 15], np.uint32), 4)
    check_slots("slot", np.zeros(0, np.uint32), 4)
    check_numbers("z", np.array([-1.0, 0.0]), 2)
    check_numbers("squares", np.array([0.0, 1.0]), 2, least=0.0)


def test_names_that_are_missing_or_strange_are_refused() -> None:
    for names in ({"a", "b"}, set[str]()):
        with pytest.raises(Corrupt, match="expected arrays"):
            check_names({"a": np.zeros(1)}, names)


@pytest.mark.parametrize("counts", [np.array([-1]), np.array([1, 1]), np.array([1.0]), np.array([[1]])])
def test_counts_of_another_shape_type_or_sign_are_refused(counts: NDArray[np.generic]) -> None:
    with pytest.raises(Corrupt, match="counts is not one number >= 0"):
        check_counts("counts", counts)


@pytest.mark.parametrize("slot", [[0, 0], [3, 2], [16], [2, 2**32 - 1]])
def test_slots_that_do_not_increase_or_leave_the_table_are_refused(slot: list[int]) -> None:
    with pytest.raises(Corrupt, match="does not increase, or leaves"):
        check_slots("slot", np.array(slot, np.uint32), 4)
    with pytest.raises(Corrupt, match="not a list of slots"):
        check_slots("slot", np.array(slot, np.int64), 4)


@pytest.mark.parametrize(
    ("numbers", "why"),
    [
        (np.array([1.0]), "is not 2 numbers"),
        (np.array([1.0, 2.0], np.float32), "is not 2 numbers"),
        (np.array([1.0, np.inf]), "not finite"),
        (np.array([np.nan, 1.0]), "not finite"),
        (np.array([1.0, -1e-300]), "below zero"),
    ],
)
def test_numbers_of_another_shape_type_or_range_are_refused(numbers: NDArray[np.generic], why: str) -> None:
    with pytest.raises(Corrupt, match=why):
        check_numbers("squares", numbers, 2, least=0.0)


@pytest.mark.parametrize("others", [[], [5, 900], [5, 6, 7, 2**26 - 1], list(range(3, 40_000, 2))])
def test_ranks_stand_for_slots_and_lead_back_to_them(others: list[int]) -> None:
    arrays = {
        "slot": np.array(others, np.uint32),
        "seen": np.array([0, 5, 900, 2**26 - 1], np.uint32),
        "beta": np.zeros(len(others)),
    }
    ranked, slots = with_ranks(arrays, ["slot", "seen"], 26)
    assert slots.tolist() == sorted({*others, 0, 5, 900, 2**26 - 1})
    assert ranked["beta"] is arrays["beta"]
    for name in ("slot", "seen"):
        assert ranked[name].dtype == np.uint32
        assert int(ranked[name].max(initial=0)) < len(slots)
        assert slots[ranked[name]].tolist() == arrays[name].tolist()


def test_what_is_no_list_of_slots_gets_no_ranks() -> None:
    good = np.array([1, 2], np.uint32)
    for bad in (good[::-1], good.astype(np.int64), np.array([1, 2**26], np.uint32)):
        with pytest.raises(Corrupt, match="slot"):
            with_ranks({"slot": bad, "seen": good}, ["slot", "seen"], 26)
    empty = np.zeros(0, np.uint32)
    assert [len(array) for array in with_ranks({"slot": empty}, ["slot"], 4)[0].values()] == [0]
