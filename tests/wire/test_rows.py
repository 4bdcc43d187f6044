"""Finishing a row: order, sums, bounds and length, against sorted lists."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from riata.base.limits import FEATURES_PER_ROW_MAX
from riata.native.reading import finish_row, normalise_l2
from riata.wire.codes import DUPLICATE_KEY, OK, OUT_OF_RANGE, TOO_MANY_FEATURES, TOO_MANY_IN_ROW
from riata.wire.names import EVERY_NAME, NO_NAMES
from riata.wire.parse import changed
from riata.wire.rows import (  # fmt: skip
    EQUALS,
    FEATURES,
    FOUND,
    KEY,
    NO_CROSSES,
    SHADOWED,
    BatchBuilder,
    RecordScratch,
    Rules,
    make_row,
    make_sink,
)
from tests.twins import rows as twin

Record = tuple[int, float, int]


def rules(l2: bool = False, names: bool = False) -> Rules:
    made = Rules(np.uint64(0), 0, 1, int(l2), 1, 2, NO_NAMES, EVERY_NAME if names else NO_NAMES, NO_NAMES, NO_CROSSES, 1.0)
    return changed(made)


def fill(records: list[Record]) -> RecordScratch:
    row = make_row(len(records) + 1)
    for k, (fingerprint, value, kind) in enumerate(records):
        row.fingerprint[k], row.value[k], row.kind[k] = fingerprint, value, kind
    row.span[:] = 0
    return row


def finished(records: list[Record], l2: bool = False) -> tuple[int, list[int], list[float]]:
    sink = make_sink(4 * len(records) + 8, 1, 1)
    code, _ = finish_row(fill(records), len(records), sink, rules(l2), 0)
    stop = int(sink.count[FEATURES])
    return code, sink.hash[:stop].tolist(), sink.value[:stop].tolist()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 6, 7, 8, 9, 16, 17, 32, 33, 63, 64, 65, 100, 5000])
@pytest.mark.parametrize("spread", [1, 2, 300, 2**32])
def test_rows_of_any_length_are_sorted_however_their_hashes_collide(n: int, spread: int) -> None:
    rng = random.Random(n)
    shift = 64 - spread.bit_length() + 1
    records = [
        ((rng.randrange(spread) << shift) % 2**64 | rng.randrange(2**31) << 10 | k, rng.gauss(0.0, 1.0), 0) for k in range(n)
    ]
    code, hashes, values = finished(records)
    wanted = twin.finish_row(records, False)
    assert (code, hashes, [v.hex() for v in values]) == (wanted[0], wanted[1], [v.hex() for v in wanted[2]])


def random_records(rng: random.Random) -> list[Record]:
    spread = rng.choice((3, 1000, 2**32))
    values = (1.0, 0.0, -0.0, 9e15, -9e15, 5e-324, 1e-310, 0.1, 1e-200, math.inf, 999_999.5)
    common = rng.random() < 0.9
    return [
        (
            rng.randrange(spread) << 32 | rng.randrange(2**32),
            rng.gauss(0.0, 100.0) if common else rng.choice(values),
            rng.choice((0, EQUALS, KEY)),
        )
        for _ in range(rng.randrange(120))
    ]


@pytest.mark.parametrize("l2", [False, True])
def test_finish_row_equals_its_twin_to_the_last_bit(l2: bool) -> None:
    rng = random.Random(8)
    codes = set()
    for _ in range(1500):
        records = random_records(rng)
        code, hashes, values = finished(records, l2)
        wanted = twin.finish_row(records, l2)
        assert (code, hashes, [v.hex() for v in values]) == (wanted[0], wanted[1], [v.hex() for v in wanted[2]])
        codes.add(code)
    assert codes == {OK, OUT_OF_RANGE}


def test_equal_names_are_summed_in_the_order_they_came() -> None:
    _, _, values = finished([(7 << 32, 1e6, 0), (7 << 32, 1e-10, 0), (7 << 32, -1e6, 0)])
    assert values == [(1e6 + 1e-10) - 1e6]


def test_sum_is_bounded_not_its_parts() -> None:
    assert finished([(7 << 32, 8e15, 0), (7 << 32, 8e15, 0)])[0] == OUT_OF_RANGE
    assert finished([(7 << 32, 2e16, 0), (7 << 32, -1.5e16, 0)]) == (OK, [7], [5e15])


def test_infinity_minus_infinity_is_out_of_range() -> None:
    assert finished([(7 << 32, math.inf, 0), (7 << 32, -math.inf, 0)])[0] == OUT_OF_RANGE


def test_zero_and_subnormal_values_are_dropped_and_the_smallest_normal_is_kept() -> None:
    smallest = 2.0**-1022
    records = [(1 << 32, 0.0, 0), (2 << 32, -0.0, 0), (3 << 32, smallest / 2, 0), (4 << 32, smallest, 0)]
    assert finished(records) == (OK, [4], [smallest])


def test_a_key_that_comes_twice_is_refused_and_an_indicator_that_does_is_summed() -> None:
    assert finished([(7 << 32, 1.0, KEY), (7 << 32, 0.0, KEY | SHADOWED)])[0] == DUPLICATE_KEY
    assert finished([(7 << 32, 1.0, EQUALS), (7 << 32, 1.0, EQUALS)]) == (OK, [7], [2.0])


def test_keys_that_only_share_a_hash_are_summed() -> None:
    assert finished([(7 << 32 | 1, 1.0, KEY), (7 << 32 | 2, 1.0, KEY)]) == (OK, [7], [2.0])


def test_a_repeated_key_is_found_as_the_twin_finds_it() -> None:
    rng = random.Random(9)
    for _ in range(300):
        records: list[Record] = [
            (7 << 32 | rng.randrange(60), 1.0, rng.choice((KEY, EQUALS))) for _ in range(rng.randrange(1, 60))
        ]
        assert (finished(records)[0] == DUPLICATE_KEY) == twin.repeated_key(records)


def test_normalised_row_has_length_one_even_where_squares_underflow() -> None:
    for scale in (1.0, 9e15 / 4, 1e-200, 1e-307):
        values = [3.0 * scale, -4.0 * scale]
        _, _, scaled = finished([(1 << 32, values[0], 0), (2 << 32, values[1], 0)], l2=True)
        assert scaled == pytest.approx([0.6, -0.8], rel=4e-16)  # two roundings in the norm, one in the division


def test_rows_are_normalised_as_the_twin_does_and_an_empty_row_stays_empty() -> None:
    rows = [[1e6, 1e-305, 3.0], [], [3e-200, 4e-200], [5.0]]
    indptr = np.cumsum([0, *map(len, rows)])
    hashes, values = np.arange(indptr[-1], dtype=np.uint32), np.array([value for row in rows for value in row])
    numbers = hashes.tolist()
    dropped = normalise_l2(indptr, hashes, values)
    for row, start, stop in zip(rows, indptr[:-1].tolist(), indptr[1:].tolist(), strict=True):
        kept = start + int((~dropped[start:stop]).sum())
        assert (hashes[start:kept].tolist(), values[start:kept].tolist()) == twin.normalise_l2(numbers[start:stop], row)
    assert dropped.tolist() == [False, False, True, False, False, False]  # 1e-305 / 1e6 is subnormal


def test_a_row_takes_its_limit_of_features_and_not_one_more() -> None:
    for n, code in ((FEATURES_PER_ROW_MAX, OK), (FEATURES_PER_ROW_MAX + 1, TOO_MANY_IN_ROW)):
        assert finished([(k << 32, 1.0, 0) for k in range(n)])[0] == code


def small_sink() -> BatchBuilder:
    return make_sink(0, 2, 1)  # room for 4 features


def test_a_full_sink_refuses_and_a_refused_row_leaves_no_trace() -> None:
    sink = small_sink()
    good = fill([(k << 32, 1.0, 0) for k in range(3)])
    assert finish_row(good, 3, sink, rules(names=True), 0) == (OK, 0)
    before = sink.count.copy()
    assert finish_row(good, 3, sink, rules(names=True), 1)[0] == TOO_MANY_FEATURES
    assert finish_row(fill([(1 << 32, 1e16, 0)]), 1, sink, rules(names=True), 1)[0] == OUT_OF_RANGE
    assert sink.count.tolist() == before.tolist()
    assert before[FEATURES] == before[FOUND] == 3
