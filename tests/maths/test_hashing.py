"""The feature hash is what its golden file says, for ever."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from riata.maths.hashing import FIELD_EQUALS, FIELD_NAMESPACE, FIELD_WORD, NUMBER
from riata.native.reading import hash_of
from tests.twins import hashing as twin


def compiled(name: bytes, key: int, tag: int) -> int:
    return hash_of(name, key, tag)


def test_hash_equals_the_golden_file() -> None:
    golden = json.loads(twin.GOLDEN.read_text(encoding="utf-8"))
    assert golden["version"] == 1
    assert len(golden["vectors"]) > 600
    for vector in golden["vectors"]:
        key, tag = int(vector["key"]), twin.TAGS[vector["tag"]]
        if "prefix" in vector:
            key, tag = compiled(vector["prefix"].encode(), key, tag), twin.TAGS["number"]
        assert f"{compiled(vector['name'].encode(), key, tag):016x}" == vector["hash"]


def test_golden_file_equals_the_output_of_its_generator() -> None:
    assert json.loads(twin.GOLDEN.read_text(encoding="utf-8"))["vectors"] == twin.golden_vectors()


@given(st.binary(max_size=300), st.integers(0, 2**64 - 1), st.integers(0, 3))
def test_hash_equals_its_twin(name: bytes, key: int, tag: int) -> None:
    assert compiled(name, key, tag) == twin.hash_name(name, key, tag)


def test_tags_are_the_tags_of_the_golden_file() -> None:
    assert [int(NUMBER), int(FIELD_EQUALS), int(FIELD_WORD), int(FIELD_NAMESPACE)] == list(twin.TAGS.values())


def test_names_that_differ_by_a_trailing_zero_byte_hash_apart() -> None:
    assert compiled(b"a", 0, 0) != compiled(b"a\0", 0, 0)


def test_slots_of_many_names_spread_evenly() -> None:
    n, slots = 200_000, 1024
    counts = np.bincount([compiled(b"feature%d" % i, 0, 0) >> 54 for i in range(n)], minlength=slots)
    chi_square = float(((counts - n / slots) ** 2 / (n / slots)).sum())
    assert abs(chi_square - (slots - 1)) < 6 * (2 * (slots - 1)) ** 0.5  # six standard deviations of chi-square
