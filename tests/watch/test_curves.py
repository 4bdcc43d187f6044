from __future__ import annotations

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import Corrupt
from riata.watch.progressive import EARLY, EXAMPLES, NON_ZEROS, POINT, POINTS_MAX, SEQ, SPACING, Curve


def grow(curve: Curve, start: int, examples: int) -> int:
    """Feed a curve as its owner does, from `start` to `examples`; the sequence number is five ahead."""
    at = start
    while (due := curve.next_after(at)) <= examples:
        point = np.full(POINT, 0.5)
        point[[SEQ, EXAMPLES, NON_ZEROS]] = (due + 5, due, np.nan)
        curve.add(point)
        at = due
    return at


def events(curve: Curve) -> list[int]:
    return [int(number) for number in curve.since(0)[:, EXAMPLES]]


def test_points_are_at_the_early_events_and_then_at_a_spacing() -> None:
    curve = Curve()
    grow(curve, 0, 5500)
    assert events(curve) == [*EARLY, *range(SPACING, 5001, SPACING)]


def test_curve_thins_itself_out_and_never_exceeds_its_bound() -> None:
    curve = Curve()
    at = 0
    for examples in (10**5, 10**6, 10**7, 10**8):
        at = grow(curve, at, examples)
        found = events(curve)
        assert POINTS_MAX / 2 - 10 < len(found) <= POINTS_MAX or examples == 10**5
        assert found == [*EARLY, *range(curve.spacing, examples + 1, curve.spacing)]
    assert curve.memory() <= POINTS_MAX * POINT * 8


def test_since_leaves_out_what_was_seen() -> None:
    curve = Curve()
    grow(curve, 0, 3000)
    assert [int(seq) for seq in curve.since(505)[:, SEQ]] == [1005, 2005, 3005]
    assert len(curve.since(3005)) == 0


def test_non_zeros_are_noted_for_new_points_only() -> None:
    curve = Curve()
    assert not curve.awaits_non_zeros
    grow(curve, 0, 20)
    assert curve.awaits_non_zeros
    curve.note_non_zeros(3)
    assert not curve.awaits_non_zeros
    grow(curve, 20, 60)
    curve.note_non_zeros(8)
    assert curve.since(0)[:, NON_ZEROS].tolist() == [3, 3, 8]


def test_non_zeros_stay_with_their_points_when_the_curve_is_thinned() -> None:
    curve = Curve()
    at = grow(curve, 0, 400_000)
    curve.note_non_zeros(1)
    grow(curve, at, 700_000)
    curve.note_non_zeros(2)
    points = curve.since(0)
    assert curve.spacing == 2 * SPACING
    np.testing.assert_array_equal(points[:, NON_ZEROS], np.where(points[:, EXAMPLES] <= 400_000, 1, 2))


def test_frozen_curve_continues_as_it_would_have() -> None:
    one, other = Curve(), Curve()
    at = grow(one, 0, 800_000)
    one.note_non_zeros(4)
    at = grow(one, at, 900_000)
    points, (spacing, noted) = one.freeze()
    other.thaw(points, spacing, noted, bases=one.faded_bases())
    for curve in (one, other):
        grow(curve, at, 3_000_000)
        curve.note_non_zeros(9)
    np.testing.assert_array_equal(one.since(0), other.since(0))
    assert one.freeze()[1] == other.freeze()[1]


def broken(points: F64, row: int, column: int, number: float) -> F64:
    changed = points.copy()
    changed[row, column] = number
    return changed


def test_thaw_refuses_what_freeze_cannot_have_made() -> None:
    curve = Curve()
    grow(curve, 0, 5000)
    points, (spacing, noted) = curve.freeze()
    Curve().thaw(points, spacing, noted)
    wrong: list[tuple[F64, int, int]] = [
        (points, 0, noted),
        (points, 1500, noted),
        (points, 3000, noted),
        (points, spacing, -1),
        (points, spacing, len(points) + 1),
        (points[:, :-1], spacing, noted),
        (points[::-1].copy(), spacing, noted),
        (points[0], spacing, noted),
        (np.repeat(points, 60, axis=0), spacing, noted),
        (broken(points, 2, SEQ, np.nan), spacing, noted),
        (broken(points, 2, NON_ZEROS, np.inf), spacing, noted),
        (broken(points, 7, EXAMPLES, 2001), spacing, noted),
        (points, 2 * spacing, noted),
    ]
    for case in wrong:
        with pytest.raises(Corrupt, match="learning curve"):
            Curve().thaw(*case)
