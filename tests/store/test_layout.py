from __future__ import annotations

import resource
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import Arrays
from riata.base.errors import BadInput, Corrupt
from riata.store import layout
from riata.store.records import canonical_json
from tests.refused import refused

GOLDEN = Path(__file__).parents[1] / "golden"
HEADER = {"model": "default", "config": {"eta": 0.1, "bits": 22}, "applied": 12}


def golden_arrays() -> Arrays:
    return {
        "learner.slot": np.array([3, 9, 4_000_000_000], np.uint32),
        "learner.beta": np.array([0.1, -0.0, 1e-300]),
        "watch.seen": np.array([[1, 2], [3, -4]], np.int64),
        "watch.flags": np.array([True, False, True]),
        "watch.none": np.zeros((0, 3), np.float32),
    }


def signed(text: bytes, body: bytes, version: int = layout.FORMAT, total: int | None = None) -> bytes:
    """Make a checkpoint with any header and a correct digest."""
    gap = bytes(-(56 + len(text)) % 8)
    length = 56 + len(text) + len(gap) + len(body)
    prefix = struct.pack("<8sIIQ", layout.MAGIC, version, len(text), length if total is None else total)
    return prefix + layout.checkpoint_digest(prefix + text) + text + gap + body


def claim(**entry: Any) -> bytes:
    """A checkpoint of one array of 16 bytes whose entry describes another one."""
    body = struct.pack("<dd", 1.0, 2.0)
    digest = layout.checkpoint_digest(body).hex()
    full = {"name": "a", "dtype": "<f8", "shape": [2], "digest": digest, **entry}
    return signed(canonical_json({"arrays": [full], "header": {}}), body)


def equal(one: Arrays, other: Arrays) -> bool:
    def described(arrays: Arrays) -> list[tuple[str, str, tuple[int, ...], bytes]]:
        return [(name, arrays[name].dtype.str, arrays[name].shape, arrays[name].tobytes()) for name in sorted(arrays)]

    return described(one) == described(other)


def test_a_checkpoint_comes_back_bit_for_bit() -> None:
    header, arrays = layout.decode_checkpoint(layout.encode_checkpoint(HEADER, golden_arrays()))
    assert header == HEADER
    assert equal(arrays, golden_arrays())
    assert all(array.flags.writeable and array.flags.aligned for array in arrays.values())


def test_a_checkpoint_of_nothing_comes_back() -> None:
    assert layout.decode_checkpoint(layout.encode_checkpoint({}, {})) == ({}, {})


def test_a_checkpoint_of_format_1_can_be_read() -> None:
    data = layout.encode_checkpoint(HEADER, golden_arrays())
    golden = (GOLDEN / "checkpoint_v1.bin").read_bytes()
    assert data == golden
    assert equal(layout.decode_checkpoint(golden)[1], golden_arrays())


def test_equal_states_give_equal_bytes_in_whatever_order() -> None:
    turned = dict(reversed(golden_arrays().items()))
    header = dict(reversed(HEADER.items()))
    assert layout.encode_checkpoint(header, turned) == layout.encode_checkpoint(HEADER, golden_arrays())
    assert layout.state_digest(header, turned) == layout.state_digest(HEADER, golden_arrays())


def test_big_endian_and_strided_arrays_are_written_alike() -> None:
    plain = np.arange(6, dtype=np.float64)
    strided = np.arange(12, dtype=">f8")[::2] / 2
    assert layout.encode_checkpoint({}, {"a": plain}) == layout.encode_checkpoint({}, {"a": strided})


def test_every_change_of_one_byte_is_refused() -> None:
    data = layout.encode_checkpoint(HEADER, golden_arrays())
    for at in range(len(data)):
        for flip in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[at] ^= flip
            with pytest.raises(Corrupt):
                layout.decode_checkpoint(bytes(changed))


def test_every_truncation_and_extension_is_refused() -> None:
    data = layout.encode_checkpoint(HEADER, golden_arrays())
    for length in range(len(data)):
        with pytest.raises(Corrupt):
            layout.decode_checkpoint(data[:length])
    with pytest.raises(Corrupt):
        layout.decode_checkpoint(data + bytes(8))


def test_the_crafted_checkpoint_is_valid_if_its_claims_are_true() -> None:
    assert layout.decode_checkpoint(claim())[1]["a"].tolist() == [1.0, 2.0]
    assert layout.decode_checkpoint(claim(dtype="<i8", shape=[1, 2]))[1]["a"].shape == (1, 2)


@pytest.mark.parametrize(
    "entry",
    [
        {"shape": [2**60]},
        {"shape": [2**40, 2**40]},
        {"shape": [-2]},
        {"shape": [-1, -2]},
        {"shape": [2.0]},
        {"shape": [True, 2]},
        {"shape": [1, 1, 1, 1, 2]},
        {"shape": [1]},
        {"shape": [3]},
        {"shape": 2},
        {"dtype": "|O"},
        {"dtype": "<M8[s]"},
        {"dtype": "|V16"},
        {"dtype": ["<f8"]},
        {"dtype": ">f8"},
        {"name": ""},
        {"name": "a" * 101},
        {"name": 1},
        {"digest": ""},
        {"offset": 0},
    ],
)
def test_a_signed_header_that_claims_the_impossible_is_refused(entry: dict[str, Any]) -> None:
    with pytest.raises(Corrupt):
        layout.decode_checkpoint(claim(**entry))


def test_wrong_lengths_allocate_no_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for entry in ({"shape": [2**60]}, {"shape": [2**33]}, {"shape": [0, 2**62, 2**62]}):
        with pytest.raises(Corrupt):
            layout.decode_checkpoint(claim(**entry))
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 64 * 2**10  # 2^33 float64 would be 64 GiB


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"[]",
        b'{"header":{},"arrays":{}}',
        b'{"header":[],"arrays":[]}',
        b'{"header":{},"arrays":[1]}',
        b"\xff",
        b"[" * 99_999,
    ],
)
def test_a_signed_header_of_another_shape_is_refused(text: bytes) -> None:
    with pytest.raises(Corrupt):
        layout.decode_checkpoint(signed(text, b""))


def test_two_arrays_of_one_name_are_refused() -> None:
    entry = {"name": "a", "dtype": "<f8", "shape": [0], "digest": layout.checkpoint_digest(b"").hex()}
    with pytest.raises(Corrupt, match="not sorted and unique"):
        layout.decode_checkpoint(signed(canonical_json({"arrays": [entry, entry], "header": {}}), b""))


def test_a_boolean_of_two_is_refused() -> None:
    body = bytes([0, 2]) + bytes(6)
    entry = {"name": "a", "dtype": "|b1", "shape": [2], "digest": layout.checkpoint_digest(body[:2]).hex()}
    with pytest.raises(Corrupt, match="a boolean is neither"):
        layout.decode_checkpoint(signed(canonical_json({"arrays": [entry], "header": {}}), body))


def test_a_newer_format_says_so() -> None:
    with refused(Corrupt, "newer_format"):
        layout.decode_checkpoint(signed(b'{"arrays":[],"header":{}}', b"", layout.FORMAT + 1))


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({"a": float("nan")}, {}),
        ({"a": object()}, {}),
        ({}, {"a": np.array([object()])}),
        ({}, {"a": np.zeros(2, np.complex128)}),
        ({}, {"": np.zeros(2)}),
        ({}, {"a" * 101: np.zeros(2)}),
        ({}, {"a": np.zeros((1, 1, 1, 1, 1))}),
        ({"a": "x" * layout.HEADER_BYTES_MAX}, {}),
    ],
)
def test_a_payload_that_could_not_be_read_is_not_written(header: dict[str, Any], arrays: Arrays) -> None:
    with pytest.raises(BadInput):
        layout.encode_checkpoint(header, arrays)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: arrays.update({"a": np.array([1.0, 0.0])}),
        lambda arrays: arrays.update({"a": np.array([1, -0.0])}),
        lambda arrays: arrays.update({"a": np.array([[1.0, 2.0]])}),
        lambda arrays: arrays.update({"a": np.array([1.0, 2.0]).view(np.int64)}),
        lambda arrays: arrays.update({"b": arrays.pop("a")}),
        lambda arrays: arrays.update({"b": np.zeros(0)}),
    ],
)
def test_the_state_digest_sees_every_difference(change: Callable[[Arrays], None]) -> None:
    arrays: Arrays = {"a": np.array([1.0, 2.0])}
    changed = dict(arrays)
    change(changed)
    assert layout.state_digest({}, arrays) != layout.state_digest({}, changed)
    assert layout.state_digest({}, arrays) != layout.state_digest({"a": 1}, arrays)


def test_chunks_join_to_the_whole() -> None:
    data = bytes(range(256)) * 5
    cuts: list[list[layout.Part]] = [
        [data],
        [data[:1], b"", memoryview(data)[1:300], data[300:900], data[900:]],
        [data[:7], data[7:], b""],
    ]
    for parts in cuts:
        chunks = list(layout.split_chunks(parts, 300))
        assert b"".join(chunks) == data
        assert [len(chunk) for chunk in chunks] == [300, 300, 300, 300, 80]
    assert [len(chunk) for chunk in layout.split_chunks([data], 640)] == [640, 640]
    assert list(layout.split_chunks([b"", b""], 300)) == []


def test_the_parts_of_a_checkpoint_are_its_bytes_and_share_the_arrays_memory() -> None:
    arrays = golden_arrays() | {"large": np.arange(10_000.0), "none": np.zeros(0), "turned": np.arange(12.0).reshape(3, 4).T}
    parts = layout.checkpoint_parts(HEADER, arrays)
    whole = layout.encode_checkpoint(HEADER, arrays)
    assert b"".join(parts) == whole
    assert layout.checkpoint_digest(*parts) == layout.checkpoint_digest(whole)
    assert any(np.shares_memory(np.frombuffer(part, np.uint8), arrays["large"]) for part in parts if len(part) == 80_000)
