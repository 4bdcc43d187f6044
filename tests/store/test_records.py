from __future__ import annotations

import dataclasses
import hashlib
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from riata.base.errors import BadInput, Corrupt, LogFork, LogGap
from riata.store import records
from riata.store.append_plan import new_head, plan_group
from riata.store.store import Append, Record
from riata.wire.batch import Batch, slice_rows
from tests.store.batches import LINEAGE, batch_of, observe, random_batch, same

GOLDEN = Path(__file__).parents[1] / "golden"


def golden_batch() -> Batch:
    """Two events that need every part of the layout: wide values, real labels, weights, one id of two."""
    return batch_of([[(1, 0.1), (4_000_000_000, -2.0)], [(7, 3.0)]], [2.5, -0.0], [bytes(range(16)), None], [1.0, 0.5])


@pytest.mark.parametrize("id_kinds", [0, 6])
def test_a_batch_comes_back_bit_for_bit(id_kinds: int) -> None:
    rng = np.random.default_rng(11)
    for n in [1, 2, 7, 8, 9, 40] * 10:
        batch = random_batch(rng, n, id_kinds)
        assert same(records.decode_batch(records.encode_batch(batch)), batch)


def test_labels_weights_and_signed_zeros_come_back_bit_for_bit() -> None:
    batch = golden_batch()
    assert same(records.decode_batch(records.encode_batch(batch)), batch)


def test_a_payload_of_version_1_is_for_ever() -> None:
    payload = records.encode_batch(golden_batch())
    assert payload.hex() == (GOLDEN / "record_v1.hex").read_text().strip()
    assert same(records.decode_batch(payload), golden_batch())


def test_the_plain_payload_is_small() -> None:
    exact = batch_of([[(1, 1.0), (2, 2.0)]] * 8)
    assert len(records.encode_batch(exact)) == 16 + 8 * 4 + 16 * (4 + 4) + 1


def broken(**changes: object) -> Batch:
    return dataclasses.replace(batch_of([[(1, 1.0), (2, 2.0)], [(3, 1.0)]]), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "batch",
    [
        broken(hash=np.array([2, 1, 3], np.uint32)),
        broken(hash=np.array([1, 1, 3], np.uint32)),
        broken(value=np.array([1.0, np.nan, 1.0])),
        broken(value=np.array([1.0, np.inf, 1.0])),
        broken(value=np.array([1.0, 1.1e6, 1.0])),
        broken(label=np.array([1.0, np.nan])),
        broken(label=np.array([1.0, 1.1e6])),
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
        records.encode_batch(batch)


def test_a_sound_batch_at_the_bounds_is_written() -> None:
    batch = batch_of([[(0, 1e6), (2**32 - 1, -1e6)]], [1e6], None, [1e3])
    assert same(records.decode_batch(records.encode_batch(batch)), batch)


@pytest.mark.parametrize("at", [0, 255, 256, 599, None])
def test_one_value_that_float32_cannot_hold_keeps_all_wide(at: int | None) -> None:
    values = np.arange(1.0, 601.0)
    if at is not None:
        values[at] = 0.1
    batch = batch_of([[(h, float(x)) for h, x in enumerate(values)]], [1.0])
    payload = records.encode_batch(batch)
    assert bool(payload[1] & records.WIDE) is (at is not None)
    assert same(records.decode_batch(payload), batch)


def test_a_batch_of_part_of_another_is_written_like_a_copy_of_it() -> None:
    whole = batch_of([[(1, 2.0), (3, 4.0)], [(2, 0.5)], [], [(9, 1.5)]], [0.5, 1, 0, 2], [None, bytes([7] * 16), None, None])
    part = slice_rows(whole, 1, 3)
    copied = Batch(*(getattr(part, name).copy() for name in Batch.__slots__))
    assert records.encode_batch(part) == records.encode_batch(copied)


def test_every_truncation_and_extension_of_a_payload_is_refused() -> None:
    payload = records.encode_batch(golden_batch())
    for length in range(len(payload)):
        with pytest.raises(Corrupt):
            records.decode_batch(payload[:length])
    with pytest.raises(Corrupt):
        records.decode_batch(payload + b"\0")


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
        patched(2, "<H", 1),
        patched(4, "<I", 0),
        patched(4, "<I", 2**32 - 1),
        patched(8, "<I", 2**32 - 1),
        patched(16, "<I", 1),
        patched(24, "<I", 4_000_000_001),
        patched(36 + 7, "<B", 0x7F),
    ],
)
def test_a_payload_with_a_false_length_order_or_number_is_refused(patch: Callable[[bytes], bytes]) -> None:
    with pytest.raises(Corrupt):
        records.decode_batch(patch(records.encode_batch(golden_batch())))


def test_a_payload_with_a_part_that_says_nothing_is_refused() -> None:
    plain = batch_of([[(1, 1.0), (2, 2.0)], [(3, 1.0)]], [1.0, 0.0])
    n, nnz = plain.n, plain.nnz
    head, lengths, hashes = 16, 4 * n, 4 * nnz
    payload = records.encode_batch(plain)
    assert same(records.decode_batch(payload), plain)
    narrow, label = payload[head + lengths + hashes : -1], payload[-1:]
    parts = {
        records.WIDE: plain.value.tobytes() + label,
        records.REAL: narrow + plain.label.tobytes(),
        records.WEIGHTED: narrow + label + plain.weight.tobytes(),
        records.IDS: narrow + label + b"\0",
    }
    for flag, rest in parts.items():
        total = head + lengths + hashes + len(rest)
        changed = struct.pack("<BBHIII", 1, flag, 0, n, nnz, total) + payload[head : head + lengths + hashes] + rest
        with pytest.raises(Corrupt, match="parts that say nothing"):
            records.decode_batch(changed)


def test_a_newer_payload_says_so() -> None:
    with pytest.raises(Corrupt) as caught:
        records.decode_batch(patched(0, "<B", 2)(records.encode_batch(golden_batch())))
    assert caught.value.code == "newer_format"


def test_set_padding_bits_are_refused() -> None:
    payload = bytearray(records.encode_batch(batch_of([[(1, 1.0)]])))
    payload[-1] |= 1
    with pytest.raises(Corrupt, match="padding"):
        records.decode_batch(bytes(payload))


def test_a_false_count_takes_no_memory() -> None:
    payload = patched(4, "<I", 2**31)(records.encode_batch(golden_batch()))
    tracemalloc.start()
    with pytest.raises(Corrupt):
        records.decode_batch(payload)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**20


def test_documents_skips_and_restores_come_back() -> None:
    document = {"b": [1, 2.5, None], "a": {"ä": "infinite"}}
    assert records.decode_document(records.encode_document(document)) == document
    assert records.encode_document({"a": 1, "b": 2}) == records.encode_document({"b": 2, "a": 1})
    assert records.decode_skip(records.encode_skip(2**63, "diverged: ü")) == (2**63, "diverged: ü")
    assert records.decode_restore(records.encode_restore({"gen": 3}, b"state")) == ({"gen": 3}, b"state")


@pytest.mark.parametrize(
    "payload", [b"", b"\1", b"\1[]", b"\1{", b'\1{"a":NaN}', b'\2{"a":1}', b"\1" + b"[" * 100_000, b"\1\xff"]
)
def test_a_bad_document_is_refused(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        records.decode_document(payload)


@pytest.mark.parametrize("payload", [b"", b"\1" * 12, b"\1\0\0\0" + bytes(8) + b"\xff", b"\2" + bytes(11)])
def test_a_bad_skip_is_refused(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        records.decode_skip(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"\1\0\0\0\xff\xff\xff\xff{}", b"\1\0\0\0\2\0\0\0[]", b"\1\1\0\0\2\0\0\0{}", b"\2" + bytes(9)]
)
def test_a_bad_restore_is_refused(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        records.decode_restore(payload)


def test_a_row_digest_depends_on_everything_an_id_stands_for() -> None:
    rows = [
        [(1, 2.0), (3, 4.0)],
        [(1, 2.0)],
        [(1, 2.0), (3, 4.5)],
        [(1, 2.0), (4, 4.0)],
        [(1, 2.0), (3, 4.0)],
        [(1, 2.0), (3, 4.0)],
    ]
    batch = batch_of(rows, [1, 1, 1, 1, 0, 1], None, [1, 1, 1, 1, 1, 2])
    digests = records.row_digests(batch, range(6))
    assert len(set(digests)) == 6
    assert all(len(digest) == 16 for digest in digests)
    assert records.row_digests(batch_of(rows[:1], [1]), [0]) == digests[:1]


def chained(n: int) -> list[Record]:
    head = new_head(LINEAGE)
    group = [observe("m", batch_of([[(i + 1, 1.0)]] * 2)) for i in range(n - 1)] + [Append("m", "config", 3, payload=b"\1{}")]
    planned = plan_group(group, {"m": head}, lambda _model, _ids, _floor: {}, 100)
    return [plan.appended.record for plan in planned if plan.appended.record]


def test_the_chain_is_what_the_layout_says() -> None:
    first = chained(2)[0]
    said = struct.pack("<B7xQq", 1, 2, 7) + first.payload
    assert first.digest == hashlib.sha256(said).digest()
    start = hashlib.sha1(b"riata log 1\0" + LINEAGE).digest()
    assert first.chain == hashlib.sha1(start + first.digest).digest()


def test_a_whole_chain_is_accepted() -> None:
    log = chained(4)
    assert records.check_chain(log, 0, records.first_chain(LINEAGE)) == (7, log[-1].chain)
    assert records.check_chain(log[2:], 4, log[1].chain) == (7, log[-1].chain)


@pytest.mark.parametrize(
    "change", [{"payload": b"x"}, {"accepted_ms": 8}, {"kind": "upgrade"}, {"count": 3}, {"digest": bytes(32)}]
)
def test_an_edited_record_is_a_fork(change: dict[str, object]) -> None:
    log = chained(3)
    log[1] = dataclasses.replace(log[1], **change)  # type: ignore[arg-type]
    with pytest.raises(LogFork):
        records.check_chain(log, 0, records.first_chain(LINEAGE))


def test_a_resigned_record_is_a_fork_at_the_next() -> None:
    log = chained(3)
    digest = records.record_digest("observe", 2, 7, b"forged")
    log[0] = dataclasses.replace(
        log[0], payload=b"forged", digest=digest, chain=records.next_chain(records.first_chain(LINEAGE), digest)
    )
    with pytest.raises(LogFork, match="event 3"):
        records.check_chain(log, 0, records.first_chain(LINEAGE))


def test_a_log_of_another_lineage_is_a_fork() -> None:
    with pytest.raises(LogFork):
        records.check_chain(chained(2), 0, records.first_chain(bytes(16)))


def test_a_missing_record_is_a_gap() -> None:
    log = chained(4)
    with pytest.raises(LogGap, match="expected event 3"):
        records.check_chain([log[0], *log[2:]], 0, records.first_chain(LINEAGE))
