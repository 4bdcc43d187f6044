from __future__ import annotations

import dataclasses
import hashlib
import struct
from pathlib import Path

import pytest

from riata.base.errors import Corrupt, LogFork, LogGap
from riata.store import records
from riata.store.append_plan import new_head, plan_group
from riata.store.store import Append, Record
from tests.refused import refused
from tests.store.batches import LINEAGE, batch_of, observe

GOLDEN = Path(__file__).parents[1] / "golden"


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


def test_a_promotion_says_up_to_where_its_state_has_learnt() -> None:
    through = records.Through(2**40 + 7, bytes(range(20)))
    payload = records.encode_restore({"refit": 3}, b"state", through)
    assert payload == struct.pack("<B3xIQ20s", 2, 11, 2**40 + 7, bytes(range(20))) + b'{"refit":3}state'  # as in logs
    assert records.decode_restore(payload) == ({"refit": 3}, b"state")
    assert records.decode_through(payload) == records.decode_through(payload[:36]) == through
    assert records.decode_through(records.encode_restore({"gen": 3}, b"state")) is None
    with pytest.raises(Corrupt, match="malformed"):
        records.decode_through(payload[:35])


@pytest.mark.parametrize("payload", [b"\2" + bytes(9), b"\2" + bytes(34), b"\2\0\0\0\3\0\0\0" + bytes(28) + b"{}"])
def test_a_bad_promotion_is_refused(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        records.decode_restore(payload)


def test_a_restore_of_a_newer_format_is_named() -> None:
    with refused(Corrupt, "newer_format"):
        records.decode_restore(b"\3\0\0\0\2\0\0\0{}")


@pytest.mark.parametrize(
    "payload", [b"", b"\1\0\0\0\xff\xff\xff\xff{}", b"\1\0\0\0\2\0\0\0[]", b"\1\1\0\0\2\0\0\0{}", b"\2" + bytes(9)]
)
def test_a_bad_restore_is_refused(payload: bytes) -> None:
    with pytest.raises(Corrupt):
        records.decode_restore(payload)


def test_a_row_digest_depends_on_the_whole_row() -> None:
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
    said = struct.pack("<Idd", 2, 1.0, 1.0) + struct.pack("<II", 1, 3) + struct.pack("<dd", 2.0, 4.0)
    assert digests[0] == hashlib.blake2b(said, digest_size=16).digest()  # what stores remember for ever


def chained(n: int) -> list[Record]:
    head = new_head(LINEAGE)
    group = [observe("m", batch_of([[(i + 1, 1.0)]] * 2)) for i in range(n - 1)] + [Append("m", "config", 3, payload=b"\1{}")]
    planned = plan_group(group, {"m": head}, lambda _model, _ids, _floor: {}, 100)
    return [plan.appended.record for plan in planned if plan.appended.record]


def test_the_chain_follows_the_layout() -> None:
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
