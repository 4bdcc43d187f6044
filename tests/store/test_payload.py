from __future__ import annotations

import ctypes
import dataclasses
import itertools
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from riata.base.arrays import F64
from riata.base.errors import BadInput, Corrupt
from riata.native.declarations import STRUCTS
from riata.native.library import HELD_BYTES_MAX, core
from riata.native.library import struct as structure
from riata.store import payload as layout
from riata.store.payload import (
    EVENTS,
    FORMS,
    POWERS,
    TIME_VERSION,
    Stored,
    decode_batch,
    encode_batch,
    encode_parts,
    unpack_values,
)
from riata.wire.batch import NO_TIME, Batch, slice_rows
from tests.refused import refused
from tests.store.batches import batch_of, random_batch, same
from tests.twins import payload as twin

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_batch() -> Batch:
    """Two events that need every part of the layout: wide values, real labels, weights, one id of two."""
    return batch_of([[(1, 0.1), (4_000_000_000, -2.0)], [(7, 3.0)]], [2.5, -0.0], [bytes(range(16)), None], [1.0, 0.5])


@pytest.mark.parametrize("id_kinds", [0, 6])
def test_a_batch_comes_back_bit_for_bit(id_kinds: int) -> None:
    rng = np.random.default_rng(11)
    for n in [1, 2, 7, 8, 9, 40] * 10:
        batch = random_batch(rng, n, id_kinds)
        assert same(decode_batch(encode_batch(batch)), batch)


def plain_batch() -> Batch:
    """Three events that need no optional part."""
    return batch_of([[(1, 0.25), (2, 0.1)], [], [(3, 12.0)]], [1.0, 0.0, 1.0])


def test_a_payload_of_version_2_keeps_its_bytes() -> None:
    golden = (GOLDEN / "record_v2.hex").read_text().split()
    for batch, text in zip([golden_batch(), plain_batch()], golden, strict=True):
        assert encode_batch(batch).hex() == text
        assert same(decode_batch(bytes.fromhex(text)), batch)


def test_a_payload_of_version_3_keeps_its_bytes() -> None:
    batch, golden = golden_batch(), (GOLDEN / "record_v3.hex").read_text().strip()
    subject = np.zeros((batch.n, 16), np.uint8)
    subject[-1] = range(16)
    named = replace(batch, subject=subject)
    assert encode_batch(named).hex() == golden
    assert same(decode_batch(bytes.fromhex(golden)), named)


def test_the_plain_payload_is_small() -> None:
    exact = batch_of([[(1, 1.0), (2, 2.0)]] * 8)
    assert len(encode_batch(exact)) == 16 + 8 * 2 + 16 * (4 + 1) + 1


def test_subjects_and_times_that_no_event_has_are_not_written() -> None:
    plain = plain_batch()
    none = replace(plain, subject=np.zeros((plain.n, 16), np.uint8), time=np.full(plain.n, NO_TIME))
    assert encode_batch(none) == encode_batch(plain)


def broken(**changes: object) -> Batch:
    return dataclasses.replace(batch_of([[(1, 1.0), (2, 2.0)], [(3, 1.0)]]), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batch",
    [
        broken(hash=np.array([2, 1, 3], np.uint32)),
        broken(hash=np.array([1, 1, 3], np.uint32)),
        broken(value=np.array([1.0, np.nan, 1.0])),
        broken(value=np.array([1.0, np.inf, 1.0])),
        broken(value=np.array([1.0, 1e16, 1.0])),
        broken(label=np.array([1.0, np.nan])),
        broken(label=np.array([1.0, 1e16])),
        broken(weight=np.array([1.0, 0.0])),
        broken(weight=np.array([1.0, 1001.0])),
        broken(weight=np.array([1.0, np.nan])),
        broken(weight=np.ones(3)),
        broken(indptr=np.array([0, 4, 3])),
        broken(indptr=np.array([0, 2, 2])),
        broken(event_id=np.zeros((2, 15), np.uint8)),
        broken(indptr=np.array([0]), label=np.zeros(0), weight=np.zeros(0), has_id=np.zeros(0, np.bool_)),
    ],
)
def test_a_batch_that_could_not_be_read_again_is_not_written(batch: Batch) -> None:
    with pytest.raises(BadInput):
        encode_batch(batch)


def test_a_sound_batch_at_the_bounds_is_written() -> None:
    batch = batch_of([[(0, 9e15), (2**32 - 1, -9e15)]], [9e15], None, [1e3])
    assert same(decode_batch(encode_batch(batch)), batch)


STORED = [
    ("", 0, [1.0, 1.0]),
    ("", 0, []),
    ("u1", 0, [1.0, 255.0]),
    ("u1", 0, [0.0]),
    ("i1", 0, [-128.0, 127.0]),
    ("u1", 2, [0.01, 2.55]),
    ("u1", 1, [0.1]),
    ("i1", 2, [-1.28, 1.27]),
    ("<u2", 0, [256.0, 65535.0]),
    ("<u2", 2, [655.35, 0.1]),
    ("<i2", 0, [-129.0, 32767.0]),
    ("<i2", 0, [-1.0, 255.0]),
    ("<f4", 0, [-1.0, 65535.0]),
    ("<f4", 0, [65536.0]),
    ("<f4", 0, [-0.0]),
    ("<u2", 6, [1.0 / 64.0]),
    ("<f4", 0, [1.0 / 64.0, 1.0 / 4096.0]),
    ("<f4", 0, [float(np.float32(1.0 / 3.0))]),
    ("<i4", 6, [0.123456]),
    ("<i4", 9, [-0.123456789]),
    ("<i4", 3, [123456.789]),
    ("<f8", 0, [0.1234567891]),
    ("<f8", 0, [214748.36481]),  # its whole number is larger than 32 bits hold
    ("<f8", 0, [1.0 / 3.0]),
    ("<f8", 0, [0.1, -0.0]),
    ("<f8", 0, [0.1 + 2**-56]),
]  # fmt: skip


def stored_values(value: F64) -> tuple[int, int, Stored]:
    """Form, digits and stored values of an event."""
    one, none = np.ones(1), np.zeros(1, np.bool_)
    indptr = np.array([0, len(value)])
    payload = encode_batch(
        Batch(indptr, np.arange(len(value), dtype=np.uint32), value, one, one, np.zeros((1, 16), np.uint8), none)
    )
    form, digits = payload[2:4]
    kind = FORMS[form] or "u1"
    return form, digits, np.frombuffer(payload[:-1], kind, len(value) if FORMS[form] else 0, 16 + 2 + 4 * len(value))


@pytest.mark.parametrize(("form", "digits", "values"), STORED)
def test_values_take_the_narrowest_form_and_come_back(form: str, digits: int, values: list[float]) -> None:
    value = np.array(values)
    found, found_digits, stored = stored_values(value)
    assert (FORMS[found], found_digits) == (form, digits)
    assert stored.nbytes == len(value) * (np.dtype(form).itemsize if form else 0)
    assert unpack_values(found, found_digits, stored, len(value)).tobytes() == value.tobytes()


@pytest.mark.parametrize("at", [0, 255, 256, 599])
@pytest.mark.parametrize(("odd", "form", "digits"), [(0.5, "<u2", 1), (0.0625, "<i4", 4), (1.0 / 3.0, "<f8", 0)])
def test_one_value_decides_the_form_at_any_position(at: int, odd: float, form: str, digits: int) -> None:
    values = np.arange(1.0, 601.0)
    values[300] = 0.1 if form == "<i4" else 1.0  # so that float32 will not do
    assert FORMS[stored_values(values)[0]] == "<u2"
    values[at] = odd
    found, found_digits, stored = stored_values(values)
    assert (FORMS[found], found_digits) == (form, digits)
    assert unpack_values(found, found_digits, stored, len(values)).tobytes() == values.tobytes()


@pytest.mark.parametrize("digits", range(10))
def test_every_number_of_few_decimals_comes_back(digits: int) -> None:
    rng = np.random.default_rng(digits)
    whole = rng.integers(-(2**31) + 1, 2**31, 20_000)
    value: F64 = np.array([float(f"{k}e-{digits}") for k in whole.tolist()])
    form, found, stored = stored_values(value)
    assert unpack_values(form, found, stored, len(value)).tobytes() == value.tobytes()
    assert found <= digits


def test_long_rows_are_counted_in_more_bytes() -> None:
    for length, flag in ((2**16 - 1, 0), (2**16, layout.LONG)):
        batch = batch_of([[(h, 1.0) for h in range(length)], [(1, 1.0)]])
        payload = encode_batch(batch)
        assert payload[1] & layout.LONG == flag
        assert same(decode_batch(payload), batch)


def test_a_batch_of_part_of_another_is_written_like_a_copy_of_it() -> None:
    whole = batch_of([[(1, 2.0), (3, 4.0)], [(2, 0.5)], [], [(9, 1.5)]], [0.5, 1, 0, 2], [None, bytes([7] * 16), None, None])
    part = slice_rows(whole, 1, 3)
    copied = Batch(*(getattr(part, name).copy() for name in Batch.__slots__ if name not in ("subject", "time")))
    assert encode_batch(part) == encode_batch(copied)


def test_every_truncation_and_extension_of_a_payload_is_refused() -> None:
    payload = encode_batch(golden_batch())
    for length in range(len(payload)):
        with pytest.raises(Corrupt):
            decode_batch(payload[:length])
    with pytest.raises(Corrupt):
        decode_batch(payload + b"\0")


def patched(at: int, layout: str, value: int) -> Callable[[bytes], bytes]:
    def patch(payload: bytes) -> bytes:
        changed = bytearray(payload)
        struct.pack_into(layout, changed, at, value)
        return bytes(changed)

    return patch


@pytest.mark.parametrize(
    "patch",
    [
        patched(0, "<B", 0),
        patched(1, "<B", 0xFF),
        patched(1, "<B", 0),
        patched(2, "<B", 5),
        patched(3, "<B", 10),
        patched(4, "<I", 0),
        patched(4, "<I", 2**32 - 1),
        patched(8, "<I", 2**32 - 1),
        patched(16, "<H", 1),
        patched(20, "<I", 4_000_000_001),
        patched(35 + 7, "<B", 0x7F),
    ],
)
def test_a_payload_with_a_false_length_order_or_number_is_refused(patch: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Corrupt):
        decode_batch(patch(encode_batch(golden_batch())))


def test_a_payload_with_unnecessary_parts_is_refused() -> None:
    plain = batch_of([[(1, 1.0), (2, 2.0)], [(3, 1.0)]], [1.0, 0.0])
    n, nnz = plain.n, plain.nnz
    payload = encode_batch(plain)
    assert same(decode_batch(payload), plain)
    length, hashes, value, label = payload[16:20], payload[20:32], payload[32:35], payload[35:]
    assert payload[1:4] == bytes([0, FORMS.index("u1"), 0])
    whole = FORMS.index("u1")
    tens = (np.array([10, 20, 10], "u1").tobytes(), whole, 1)
    said: list[tuple[int, int, int, bytes]] = [
        (0, FORMS.index("<f8"), 0, length + hashes + plain.value.tobytes() + label),
        (0, FORMS.index("<f4"), 0, length + hashes + plain.value.astype("<f4").tobytes() + label),
        (0, FORMS.index("i1"), 0, length + hashes + value + label),
        (0, FORMS.index("<u2"), 0, length + hashes + plain.value.astype("<u2").tobytes() + label),
        (0, *tens[1:], length + hashes + tens[0] + label),
        (layout.LONG, whole, 0, np.diff(plain.indptr).astype("<u4").tobytes() + hashes + value + label),
        (layout.REAL, whole, 0, length + hashes + value + plain.label.tobytes()),
        (layout.WEIGHTED, whole, 0, payload[16:] + plain.weight.tobytes()),
        (layout.IDS, whole, 0, payload[16:] + b"\0"),
    ]
    for flag, form, digits, rest in said:
        changed = struct.pack("<BBBBIII", 2, flag, form, digits, n, nnz, 16 + len(rest)) + rest
        with pytest.raises(Corrupt, match="parts that say nothing"):
            decode_batch(changed)


@pytest.mark.parametrize(("form", "digits"), [(8, 0), (255, 0), (3, 10), (0, 1), (1, 1), (2, 1)])
def test_an_unknown_form_is_refused(form: int, digits: int) -> None:
    payload = bytearray(encode_batch(plain_batch()))
    payload[2:4] = bytes([form, digits])
    with pytest.raises(Corrupt, match="header"):
        decode_batch(bytes(payload))


def test_a_newer_payload_says_so() -> None:
    with refused(Corrupt, "newer_format"):
        decode_batch(patched(0, "<B", TIME_VERSION + 1)(encode_batch(golden_batch())))


def test_set_padding_bits_are_refused() -> None:
    payload = bytearray(encode_batch(batch_of([[(1, 1.0)]])))
    payload[-1] |= 1
    with pytest.raises(Corrupt, match="padding"):
        decode_batch(bytes(payload))


def test_a_wrong_count_allocates_no_memory() -> None:
    payload = patched(4, "<I", 2**31)(encode_batch(golden_batch()))
    tracemalloc.start()
    with pytest.raises(Corrupt):
        decode_batch(payload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


ODD = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 0.5, 1e16, -1e16, 9e15, 1001.0, -1.0]


def some_values(rng: np.random.Generator, kind: int, count: int) -> F64:
    drawn = rng.normal(0.0, 10.0 ** rng.integers(-3, 15), count).clip(-9e15, 9e15)
    if kind < 10:
        return np.array([float(f"{x:.{kind}f}") for x in drawn])
    return drawn if kind == 10 else np.abs(drawn.round(3)) + 0.001


def test_the_native_look_at_values_is_that_of_its_twin() -> None:
    rng = np.random.default_rng(5)
    powers = np.array(POWERS)
    for trial in range(600):
        value = some_values(rng, trial % 12, int(rng.integers(1, 700)))
        if trial % 50 == 49:
            value[rng.integers(len(value))] = -0.0
        found, slow = np.zeros(3, np.int64), np.ones(3, np.int64)
        core.decimals(value, len(value), powers, len(powers), found)
        twin.decimals(value, powers, slow)
        assert found.tolist() == slow.tolist()


def test_the_native_look_at_a_batch_is_that_of_its_twin() -> None:
    rng = np.random.default_rng(6)
    powers = np.array(POWERS)
    reasons = set()
    for trial in range(600):
        batch = random_batch(rng, int(rng.integers(1, 40)), 4)
        parts: list[Any] = [batch.indptr, batch.hash, batch.value, batch.label, batch.weight]
        spoilt = parts[trial % 5] = parts[trial % 5].copy()
        if trial % 3 == 0 and len(spoilt) > 2:
            spoilt[int(rng.integers(1, len(spoilt) - 1))] = (
                rng.choice([0, 1, 2**31]) if spoilt.dtype != np.float64 else rng.choice(ODD)
            )
        found, slow = np.zeros(7, np.int64), np.zeros(7, np.int64)
        indptr, hashes, value, label, weight = parts
        said = twin.look_at(indptr, hashes, value, label, weight, batch.has_id, powers, slow)
        rest = (label, weight, batch.has_id, powers, len(powers), found)
        assert core.look_at(indptr, len(indptr) - 1, hashes, value, len(value), *rest) == said
        reasons.add(said)
        if said == 0:
            assert found.tolist() == slow.tolist()
    assert reasons == set(range(6))


def odd_batch(rng: np.random.Generator, trial: int) -> Batch:
    """A batch with every choice of optional parts, in turn."""
    n = int(rng.integers(1, 40))
    plain = random_batch(rng, n, 4 if trial & 1 else 0)
    label = plain.label if trial & 2 else rng.choice([0.0, 1.0], n)
    weight = plain.weight if trial & 4 else np.ones(n)
    subject = rng.integers(0, 3, (n, 16), np.uint8) * rng.integers(0, 2, (n, 1), np.uint8) if trial & 8 else None
    time = rng.choice([NO_TIME, -1, 1_700_000_000_000], n) if trial & 16 else None
    value = some_values(rng, trial % 12, plain.nnz) if plain.nnz else plain.value
    return replace(plain, label=label, weight=weight, subject=subject, time=time, value=value)


def test_payloads_are_written_as_the_twin_does_and_in_parts_as_each_part_alone() -> None:
    rng = np.random.default_rng(7)
    forms, versions = set(), set()
    for trial in range(400):
        batch = odd_batch(rng, trial)
        whole = encode_batch(batch)
        assert whole == twin.payload(batch, np.array(POWERS))
        assert encode_batch(decode_batch(whole)) == whole
        stop = np.unique([*rng.integers(1, batch.n + 1, 3), batch.n])
        parts = [slice_rows(batch, start, end) for start, end in itertools.pairwise([0, *stop.tolist()])]
        assert encode_parts(batch, stop) == [twin.payload(part, np.array(POWERS)) for part in parts]
        forms.add(whole[2])
        versions.add(whole[0])
    assert len(forms) >= 6
    assert versions == {2, 3, 4}


def test_the_structure_of_events_is_filled_in_its_order() -> None:
    made = structure("riata_events")
    assert [name for name, _ in STRUCTS["riata_events"]] == ["n", *(name for name, _ in EVENTS)]
    assert ctypes.sizeof(made) == 8 * (1 + len(EVENTS))


@pytest.mark.parametrize("events", [1, HELD_BYTES_MAX // 80, HELD_BYTES_MAX // 40])
def test_a_payload_is_the_same_with_and_without_the_lock_of_the_interpreter(events: int) -> None:
    rng = np.random.default_rng(events)
    batch = random_batch(rng, events)
    assert encode_batch(batch) == twin.payload(batch, np.array(POWERS))


@pytest.mark.parametrize("stop", [[], [1], [2, 2, 3], [3, 2], [4], [0, 3]])
def test_parts_that_are_not_all_events_in_order_are_refused(stop: list[int]) -> None:
    batch = plain_batch()
    assert len(encode_parts(batch, np.array([1, 3]))) == 2
    with pytest.raises(BadInput):
        encode_parts(batch, np.array(stop, np.int64))


def test_a_part_that_could_not_be_read_again_is_not_written() -> None:
    batch = plain_batch()
    with pytest.raises(BadInput, match="a label is not a number"):
        encode_parts(replace(batch, label=np.array([1.0, 0.0, np.nan])), np.array([1, 3]))
