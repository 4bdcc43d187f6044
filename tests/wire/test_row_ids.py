"""Ids of rows by their values: which rows have the same, and how equal rows are counted."""

from __future__ import annotations

import collections
import hashlib
from typing import Any

import numpy as np
import pytest

from riata.wire.row_ids import Repeats, RowIds


def digest(value: Any, **more: Any) -> bytes:
    return digest_of(RowIds("s"), {"features": {"before": "x", "a": value, "z": 1.5}, "label": 1, **more})


def digest_of(ids: RowIds, example: dict[str, Any]) -> bytes:
    return ids.digests([ids.told(example)])[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (0, -0.0 + 0.0), ("13", 13), ("1.0", 1), (-2, "-2.0"), (True, "True"), ("FALSE", False),
        ("2024-01-05", 19727.0), ("2024-01-05T12:00:00", 19727.5), ("2024-01-05 12:00:00Z", 19727.5),
        (1234567890123456789, 1.2345678901234568e18), (2**53 + 1, float(2**53)), (10**16, 1e16), (-(10**17), -1e17),
        (10**30, 1e30),
        ([1, 2.0], [1.0, 2]), ([[1, 2]], [[1.0, 2.0]]), ({"n": True}, {"n": "true"}), ("07", "07"), (1e-300, "1e-300"),
    ],
)  # fmt: skip
def test_a_value_has_one_id_however_it_is_written(one: Any, other: Any) -> None:
    assert digest(one) == digest(other) or one == 1e-300
    assert digest(one) != digest("another")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 2),
        ("a", "b"),
        ("a,b", "a"),
        ("07", 7),
        ("", "None"),
        ("1e5", 100000),
        ("yes", True),
        ([1, 2], "1,2"),
        (0.1, 0.1000001),
    ],
)
def test_other_values_have_other_ids(one: Any, other: Any) -> None:
    assert digest(one) != digest(other)


ODD: list[Any] = [
    "true",
    "False",
    "TRUE",
    True,
    None,
    "13",
    "2024-01-05",
    10**16,
    -(10**30),
    1e16,
    [1, 2.0],
    {"n": "true"},
    "\ud800",
    "a\nb",
    "rue",
]


@pytest.mark.parametrize("odd", [[], *[[value] for value in ODD], ODD])
def test_rows_have_the_digests_that_they_have_alone(odd: list[Any]) -> None:
    """Whatever the rows are that they are digested with."""
    ids, rng = RowIds("s"), np.random.default_rng(3)
    values: list[Any] = [*rng.normal(size=20).round(3).tolist(), *(f"w{i}" for i in range(20)), 1, 2.0, -0.0, *odd]
    rows = [{"features": {"a": values[i], "b": values[-1 - i]}, "label": i % 2} for i in rng.permutation(len(values)).tolist()]
    rows += [{"features": {"c": value}, "weight": 2.0} for value in odd]
    alone = [digest_of(RowIds("s"), row) for row in rows]
    assert ids.digests([*map(ids.told, rows)]) == alone
    assert len(set(alone)) > len(values) // 2


def test_names_and_values_are_not_mixed_up() -> None:
    ids = RowIds("s")
    rows: list[dict[str, Any]] = [
        {"a": "b", "c": "d"}, {"a": "d", "c": "b"}, {"a": "b"}, {"ab": "b"}, {"a": "b", "c": ""}, {"a": 'b","c'},
        {"a": "b,c", "c": "d"},
        {"a": "b", "c": "c,d"}, {},
    ]  # fmt: skip
    examples = [{"features": row, "label": label} for row in rows for label in (0, 1)] + [{"features": rows[0], "weight": 1.0}]
    assert len({digest_of(ids, one) for one in examples}) == len(examples)
    assert digest_of(ids, {"features": {"c": "d", "a": "b"}, "label": 0}) == digest_of(ids, examples[0])  # the order of columns


def test_a_source_is_part_of_an_id_and_no_id_is_one_of_a_client() -> None:
    line = b'{"features":{"a":1},"label":1}'
    assert RowIds("a").line_digest(line) != RowIds("b").line_digest(line)
    assert RowIds("").line_digest(line) != hashlib.blake2b(b"\n" + line, digest_size=16).digest()
    assert RowIds("a").line_digest(b"bc") != RowIds("ab").line_digest(b"c")


def test_equal_rows_are_numbered() -> None:
    ids, other = RowIds("s"), RowIds("s")
    one, two = ids.line_digest(b"1 | a"), ids.line_digest(b"0 | a")
    first = ids.ids([one, two, one])
    then = ids.ids([one])
    assert len({first[:16], first[16:32], first[32:], then}) == 4
    assert other.ids([two, one]) + other.ids([one, one]) == first[16:32] + first[:16] + first[32:] + then


@pytest.mark.parametrize(("different", "window"), [(50_000, 10**9), (2_500, 3_000), (9, 20), (10_000, 10_000)])
def test_repeats_are_counted_like_a_dictionary_does(different: int, window: int) -> None:
    repeats, counted, rng = Repeats(window), collections.Counter[int](), np.random.default_rng(1)
    for size in rng.integers(0, 1500, 60):
        drawn = rng.integers(2, different + 2, size).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        for key, before in zip(drawn.tolist(), repeats.before(drawn).tolist(), strict=True):
            assert counted[key] == before
            counted[key] += 1


def test_the_memory_of_repeats_is_bounded_by_the_window() -> None:
    repeats = Repeats(10_000)
    for start in range(0, 200_000, 1000):
        repeats.before(np.arange(start, start + 1000).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    assert len(repeats._key) <= 2**15
