from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from riata.base.arrays import Arrays
from riata.base.errors import Corrupt
from riata.learn.frozen import check_counts, check_names, check_numbers, check_slots, with_ranks, without_ranks


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
    with pytest.raises(Corrupt, match="is not increasing, or has a slot outside"):
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


@pytest.mark.parametrize("keys", [[-1], [-1, 900, 3], [-1, 7, -1, 2**26 - 1]])
@pytest.mark.parametrize("others", [[], [5, 900], [5, 6, 7, 2**26 - 1], list(range(3, 40_000, 2))])
def test_ranks_stand_for_slots_and_lead_back_to_them(others: list[int], keys: list[int]) -> None:
    arrays: Arrays = {
        "slot": np.array(others, np.uint32),
        "seen": np.array([0, 5, 900, 2**26 - 1], np.uint32),
        "key": np.array(keys, np.int64),
        "beta": np.zeros(len(others)),
    }
    names = ["slot", "seen", "key"]
    ranked, slots = with_ranks(arrays, names, 26)
    assert slots.dtype == np.uint32
    assert slots.tolist() == sorted({*others, 0, 5, 900, 2**26 - 1, *keys} - {-1})
    assert ranked["beta"] is arrays["beta"]
    back = without_ranks(ranked, names, slots)
    for name in names:
        assert ranked[name].dtype == arrays[name].dtype
        assert all(0 <= rank < len(slots) or rank == -1 for rank in ranked[name].tolist())
        assert (back[name].dtype, back[name].tolist()) == (arrays[name].dtype, arrays[name].tolist())


def test_an_invalid_list_of_slots_gets_no_ranks() -> None:
    good = np.array([1, 2], np.uint32)
    wrong: list[NDArray[np.generic]] = [
        good[::-1],
        good.astype(np.float64),
        np.array([1, 2**26], np.uint32),
        np.array([-1, 2**26], np.int64),
    ]
    for bad in wrong:
        with pytest.raises(Corrupt, match="slot"):
            with_ranks({"slot": bad, "seen": good}, ["slot", "seen"], 26)
    empty = np.zeros(0, np.uint32)
    ranked, slots = with_ranks({"slot": empty, "key": np.array([-1])}, ["slot", "key"], 4)
    assert (len(slots), without_ranks(ranked, ["slot", "key"], slots)["key"].tolist()) == (0, [-1])
